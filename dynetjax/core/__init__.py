"""What graphs are made of: expressions, the rules they follow, and the fast path.

Operations are declared by `registry`; `rules` decides what has rows of its own, and
`building` appends nodes that were made before like this. Below lie dims, errors, tables
of what the process has met, and JAX, which comes when it is needed.
"""
