"""Looking at graphs: drawings, listings, and where a number stopped being finite."""
