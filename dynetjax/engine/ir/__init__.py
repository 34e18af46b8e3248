"""What both executors compute: fused ops, and the random keys of their nodes.

A fused op is a stored node's operation with all that is inlined into it, made of rules
(`fused`); `descriptions` tells it in the same words in every process. `part` has the
protocols of what an executor has computed, forward or back.
"""
