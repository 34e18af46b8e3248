"""The C++ of the package: the nodes of graphs, the executor and the planner."""

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
