"""Tier 0: fused operations as byte code, run at once by a C++ interpreter.

In come fused ops (`engine.ir`) and the stored nodes of a graph; out go their rows,
and the gradients of what they read. Nothing is compiled. `dynetjax.native.core` is
what is written in C++.
"""
