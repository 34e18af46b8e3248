"""Tier 0: fused operations as byte code, run at once by a C++ interpreter.

In come fused ops (`engine.ir`) and the stored nodes of a graph; out go their rows,
and the gradients of what they read. Nothing is compiled. `core` has the
interpreter and the planner in C++.
"""

from importlib import import_module
from typing import Any

from dynetjax.core.errors import error_text

core: Any
try:
    core = import_module("dynetjax.engine.native.core")
except ImportError as error:
    raise ImportError(
        error_text(
            "dynetjax: its C++ was not compiled here",
            got=error,
            expected="a package that pip has installed",
            fix="in a clone: pip install -e .",
        )
    ) from error
