"""Tier 0: fused operations as byte code, run at once by a C++ interpreter.

In come fused ops (`engine.ir`) and the stored nodes of a graph; out go their rows,
and the gradients of what they read. Nothing is compiled. `core` has the
interpreter and the planner in C++; it is None where nobody could compile them.
"""

from typing import Any

core: Any
try:
    from dynetjax.engine.native import core
except ImportError:
    core = None
