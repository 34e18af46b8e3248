"""What both executors compute: fused ops, and the random keys of their nodes.

A fused op is a stored node's operation with all that has become part of it (`fused`);
`structures` tells C++ of signatures, and makes fused ops; `descriptions` tells one in
the same words in every process. `part` has the protocols of what an executor has
computed, forward or back.
"""
