"""Runs a program that was written for DyNet.

    python -m dynetjax [--py2] program.py ARGS
    python -m dynetjax [--py2] -m package.module ARGS

What the program imports as ``dynet`` is dynetjax; see `dynetjax.dropin`.
"""

import os
import runpy
import sys

from dynetjax import dropin  # noqa: F401  (DyNet's names mean our modules)
from dynetjax.compat.python2 import NAMES, convert_imports, run_converted
from dynetjax.core.errors import error_text


def main(words: list[str]) -> None:
    """Run what the command line names.

    Raises:
        SystemExit: it names nothing.
    """
    old = words[:1] == ["--py2"]
    words = words[old:]
    as_module = words[:1] == ["-m"]
    words = words[as_module:]
    if not words or words[0] in ("-h", "--help"):
        sys.exit((__doc__ or "").strip())
    name, sys.argv = words[0], words
    folder = os.getcwd() if as_module else os.path.dirname(os.path.abspath(name))
    sys.path[0] = folder
    if not as_module and not os.path.exists(name):
        message = "python -m dynetjax: there is no such program"
        fix = "-m for the name of a module"
        sys.exit(error_text(message, got=name, expected="a file", fix=fix))
    if old:
        convert_imports(folder)
    if as_module:
        names = NAMES if old else None
        runpy.run_module(name, names, run_name="__main__", alter_sys=True)
    elif old:
        run_converted(name)
    else:
        runpy.run_path(name, run_name="__main__")


if __name__ == "__main__":
    main(sys.argv[1:])
