"""What graphs are made of: expressions, operations, and what a node follows from.

Operations are declared by `registry`; the nodes themselves are in C++ (`native`). Below
lie dims, errors, tables of what the process has met, and JAX, which comes when it is
needed.
"""
