"""Collections of parameters, what they are made of, and their first values."""
