"""Programs in Python 2, converted when they are imported.

The conversion is that of `fissix`, line for line: tracebacks show the lines of the
original.

In Python 2 a file takes and gives bytes, which are its text. So converted programs have
an `open` and a `print` of their own, which take both, and `pickle` takes text files.
"""

import importlib
import importlib.abc
import importlib.machinery
import importlib.util
import io
import os
import pickle
import sys
import types
from functools import cache
from typing import Any

from dynetjax.core.errors import error_text


@cache
def _tool() -> Any:
    """What converts a text."""
    try:
        refactor = importlib.import_module("fissix.refactor")
    except ImportError as error:
        raise ImportError(
            error_text(
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
            error_text(
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

    def exec_module(self, module: types.ModuleType) -> None:
        vars(module).update(NAMES)
        super().exec_module(module)


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
    """Convert what is imported from this folder; `pickle` takes text files."""
    sys.meta_path.insert(0, _Finder(folder))
    pickle.dump, pickle.load, pickle.loads = _dump, _load, _loads


def run_converted(path: str) -> None:
    """Run a program as ``__main__``."""
    module = types.ModuleType("__main__")
    module.__file__ = path
    vars(module).update(NAMES)
    sys.modules["__main__"] = module
    exec(_code(path), vars(module))


_UTF8 = "utf-8", "surrogateescape"  # any bytes come out as they went in


def _decoded(data: Any) -> Any:
    return data.decode(*_UTF8) if isinstance(data, bytes) else data


def _encoded(text: Any) -> Any:
    return text.encode(*_UTF8) if isinstance(text, str) else text


class _Text(io.TextIOWrapper):
    """A text file that takes bytes, too."""

    def write(self, text: Any) -> int:
        return super().write(_decoded(text))


class _Bytes(io.BufferedWriter):
    """A binary file that takes text, too."""

    def write(self, data: Any) -> int:
        return super().write(_encoded(data))


def _print(*values: Any, **options: Any) -> None:
    """`print`, whose bytes are text."""
    print(*map(_decoded, values), **options)


def _open(name: Any, mode: str = "r", buffering: int = -1, **options: Any) -> Any:
    """`open` of Python 2: as the file says, without translating ends of lines."""
    if options:
        return open(name, mode, buffering, **options)
    plain = mode.replace("U", "") or "r"
    if plain in ("wb", "ab"):
        return _Bytes(io.FileIO(name, plain))
    if "b" in plain:
        return open(name, plain, buffering)
    newline = None if "U" in mode else "\n"
    lines = buffering in (0, 1)
    binary = open(name, plain + "b")  # noqa: SIM115  (closed with the text file)
    file = _Text(binary, *_UTF8, newline, line_buffering=lines)
    file.mode = mode  # type: ignore[misc]
    return file


# What these mean in converted programs.
NAMES: dict[str, Any] = {"file": _open, "open": _open, "print": _print}
_pickle_dump, _pickle_load, _pickle_loads = pickle.dump, pickle.load, pickle.loads


def _bytes_of(file: Any) -> Any:
    """The binary file beneath a text file, of `open` or of `codecs`."""
    for name in "buffer", "stream":
        beneath = getattr(file, name, None)
        if beneath is not None:
            file.flush()
            return beneath
    return file


def _dump(obj: Any, file: Any, *args: Any, **options: Any) -> None:
    _pickle_dump(obj, _bytes_of(file), *args, **options)


def _load(file: Any, **options: Any) -> Any:
    """Text in a pickle of Python 2 is UTF-8, or else bytes, such as an array's."""
    binary = _bytes_of(file)  # it is closed with the text file, which must live
    if "encoding" in options or not binary.seekable():
        return _pickle_load(binary, **options)
    start = binary.tell()
    try:
        return _pickle_load(binary, encoding="utf-8", **options)
    except ValueError:
        binary.seek(start)
        return _pickle_load(binary, encoding="latin1", **options)


def _loads(data: Any, **options: Any) -> Any:
    return _load(io.BytesIO(_encoded(data)), **options)
