"""The operations: one file a family, each operation declared once."""
