"""Tier 1: layouts as functions that XLA compiles, and what runs of them have computed.

In comes a `Layout`; out go rows of nodes and gradients. `body` has what one fused op
computes, `forward` and `backward` the loops over trips, `executable` compiles all
components as one function each way, `run` holds what was computed.
"""
