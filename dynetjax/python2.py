"""Programs in Python 2, converted when they are imported.

The conversion is that of `fissix`, line for line: tracebacks show the lines of the
original.
"""

import importlib
import importlib.abc
import importlib.machinery
import importlib.util
import os
import sys
import types
from functools import cache
from typing import Any

from dynetjax.errors import explain


@cache
def _tool() -> Any:
    """What converts a text."""
    try:
        refactor = importlib.import_module("fissix.refactor")
    except ImportError as error:
        raise ImportError(
            explain(
                "--py2: the package fissix is not installed",
                got=error,
                expected="fissix, which converts Python 2",
                fix="pip install dynetjax[dropin]",
            )
        ) from error
    fixers = refactor.get_fixers_from_package("fissix.fixes")
    return refactor.RefactoringTool(fixers)


def convert(text: str, name: str) -> str:
    """The same program in Python 3.

    Raises:
        ImportError: `fissix` is not installed.
        SyntaxError: it is neither Python 2 nor 3.
    """
    try:
        return str(_tool().refactor_string(text.rstrip() + "\n", name))
    except ImportError:
        raise
    except Exception as error:  # the library has errors of its own
        raise SyntaxError(
            explain(
                f"--py2: {name} cannot be converted",
                got=error,
                expected="a program in Python 2",
                fix="run it without --py2 if it is one in Python 3",
            )
        ) from error


class _Loader(importlib.machinery.SourceFileLoader):
    """Converts what it loads; nothing is cached on the disk."""

    def get_code(self, fullname: str) -> types.CodeType:
        path = self.get_filename(fullname)
        return _code(path)


def _code(path: str) -> types.CodeType:
    with open(path, "rb") as file:
        text = importlib.util.decode_source(file.read())
    return compile(convert(text, path), path, "exec", dont_inherit=True)


class _Finder(importlib.abc.MetaPathFinder):
    def __init__(self, folder: str):
        self._folder = os.path.join(os.path.abspath(folder), "")

    def find_spec(self, fullname: str, path: Any = None, target: Any = None) -> Any:
        spec = importlib.machinery.PathFinder.find_spec(fullname, path, target)
        origin = spec.origin if spec is not None else None
        if spec is None or origin is None or not origin.endswith(".py"):
            return None
        if not os.path.abspath(origin).startswith(self._folder):
            return None
        spec.loader = _Loader(fullname, origin)
        return spec


def convert_imports(folder: str) -> None:
    """Convert what is imported from this folder."""
    sys.meta_path.insert(0, _Finder(folder))


def run_converted(path: str) -> None:
    """Run a program as ``__main__``."""
    module = types.ModuleType("__main__")
    module.__file__ = path
    sys.modules["__main__"] = module
    exec(_code(path), vars(module))
