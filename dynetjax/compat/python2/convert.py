"""Converting files in Python 2 when they are imported, and running them.

The conversion is that of `fissix`, line for line: tracebacks show the lines of the
original.
"""

import importlib
import importlib.abc
import importlib.util
import io
import os
import sys
import sysconfig
import types
from functools import cache
from importlib.machinery import ModuleSpec, PathFinder, SourceFileLoader
from multiprocessing import spawn
from typing import Any

from dynetjax.compat.python2.files import UTF8
from dynetjax.compat.python2.library import CHANGED, MADE
from dynetjax.compat.python2.syntax import meaning_of_python_2
from dynetjax.compat.spawned import begin_spawned_with
from dynetjax.core.errors import error_text

# `tree` and `names` do what these do, or in Python 3 there is nothing to do.
_LEFT_OUT = {"future", "import", "next", "operator", "reduce", "intern", "reload"}
_PACKAGE = "dynetjax"
_HOME = os.path.dirname(importlib.import_module(_PACKAGE).__file__ or "")
_LIBRARIES = tuple(
    os.path.join(os.path.realpath(folder), "")
    for folder in (*map(sysconfig.get_path, ("stdlib", "platstdlib")), _HOME)
)
_INSTALLED = {"site-packages", "dist-packages"}


@cache
def _tool() -> Any:
    """What converts the syntax of a text."""
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
    names = refactor.get_fixers_from_package("fissix.fixes")
    return refactor.RefactoringTool(
        [name for name in names if name.rpartition("fix_")[2] not in _LEFT_OUT]
    )


def convert(text: str, name: str) -> str:
    """The same program in the syntax of Python 3.

    Raises:
        ImportError: `fissix` is not installed.
        SyntaxError: it is neither Python 2 nor 3.
    """
    tool = _tool()
    try:
        return str(tool.refactor_string(_with_spaces(text.rstrip() + "\n"), name))
    except Exception as error:  # the library has errors of its own
        raise SyntaxError(
            error_text(
                f"--py2: {name} cannot be converted",
                got=error,
                expected="a program in Python 2",
                fix="run it without --py2 if it is one in Python 3",
            )
        ) from error


def _with_spaces(text: str) -> str:
    """The text with spaces before each line in place of tabs, which reach to 8 columns.

    Lines inside a string stay as they are.
    """
    tokenizer = importlib.import_module("fissix.pgen2.tokenize")
    lines = text.splitlines(keepends=True)
    inside: set[int] = set()
    for kind, _, first, last, _ in tokenizer.generate_tokens(iter(lines).__next__):
        if kind == tokenizer.STRING:
            inside.update(range(first[0], last[0]))
    for k, line in enumerate(lines):
        if k not in inside:
            rest = line.lstrip(" \t")
            lines[k] = line[: len(line) - len(rest)].expandtabs(8) + rest
    return "".join(lines)


def _code(path: str, package: str) -> types.CodeType:
    with open(path, "rb") as file:
        text = importlib.util.decode_source(file.read())
    beside = os.path.dirname(os.path.abspath(path)) if package else None
    tree = meaning_of_python_2(convert(text, path), path, beside)
    return compile(tree, path, "exec", dont_inherit=True)


class _Loader(SourceFileLoader):
    """Converts what it loads; nothing is cached on the disk."""

    def get_code(self, fullname: str) -> types.CodeType:
        package = fullname
        if not self.is_package(fullname):
            package = fullname.rpartition(".")[0]
        return _code(self.get_filename(fullname), package)


class _Library(importlib.abc.Loader):
    """A module of the library, with what Python 2 had in it."""

    def exec_module(self, module: types.ModuleType) -> None:
        name = module.__name__.removeprefix(CHANGED)
        kept = dict(vars(module))
        vars(module).update(vars(importlib.import_module(name)))
        vars(module).update(MADE[name]())
        vars(module).update({k: v for k, v in kept.items() if k != "__doc__"})


class _Finder(importlib.abc.MetaPathFinder):
    """Finds modules in Python 2: all but those of Python, dynetjax and packages."""

    def find_spec(self, fullname: str, path: Any = None, target: Any = None) -> Any:
        if fullname.startswith(CHANGED):
            return ModuleSpec(fullname, _Library())
        spec = PathFinder.find_spec(fullname, path, target)
        if spec is None or type(spec.loader) is not SourceFileLoader:
            return None
        origin = os.path.realpath(spec.loader.path)
        if origin.startswith(_LIBRARIES) or _INSTALLED & {*origin.split(os.sep)}:
            return None
        spec.loader = _Loader(fullname, spec.loader.path)
        return spec


def convert_imports() -> None:
    """Convert what is imported, here and in processes that are spawned."""
    sys.meta_path.insert(sys.meta_path.index(PathFinder), _Finder())
    vars(sys)["setdefaultencoding"] = lambda name: None
    for stream in sys.stdin, sys.stdout, sys.stderr:
        if isinstance(stream, io.TextIOWrapper):
            stream.reconfigure(encoding=UTF8[0], errors=UTF8[1])
    begin_spawned_with(_begin_spawned)


def _begin_spawned(data: dict[str, Any]) -> dict[str, Any]:
    """Convert the main module, too: nothing is left to do."""
    convert_imports()
    main = data.pop("init_main_from_path", None)
    spawn.prepare(data)
    if main is not None:
        run_converted(main, "__mp_main__")
    return {}


def run_converted(path: str, name: str = "__main__") -> None:
    """Run a program in place of the main module, under some name."""
    module = types.ModuleType(name)
    module.__file__ = path
    sys.modules["__main__"] = sys.modules[name] = module
    exec(_code(path, ""), vars(module))
