"""Running a program that was written for DyNet, as ``python -m dynetjax`` does."""

import os
import runpy
import sys

from dynetjax.compat.python2.convert import convert_imports, run_converted
from dynetjax.core.errors import error_text


def run_program(words: list[str], usage: str) -> None:
    """Run what the words of a command line name, in place of the main module.

    Raises:
        SystemExit: they name nothing, or ask for the usage.
    """
    old = words[:1] == ["--py2"]
    words = words[old:]
    as_module = words[:1] == ["-m"]
    words = words[as_module:]
    if not words or words[0] in ("-h", "--help"):
        sys.exit(usage.strip())
    name, sys.argv = words[0], words
    folder = os.getcwd() if as_module else os.path.dirname(os.path.abspath(name))
    if sys.flags.safe_path:  # then Python has put no folder there
        sys.path.insert(0, folder)
    else:
        sys.path[0] = folder
    if not as_module and not os.path.exists(name):
        message = "python -m dynetjax: there is no such program"
        fix = "-m for the name of a module"
        sys.exit(error_text(message, got=name, expected="a file", fix=fix))
    if old:
        convert_imports()
    if as_module:
        runpy.run_module(name, run_name="__main__", alter_sys=True)
    elif old:
        run_converted(name)
    else:
        runpy.run_path(name, run_name="__main__")
