r"""Runs a program that was written for DyNet.

    python -m dynetjax [--py2] program.py ARGS
    python -m dynetjax [--py2] -m package.module ARGS
    python -m dynetjax --processes 4 [--sum] [--patience SECONDS] program.py ARGS
    python -m dynetjax --hosts 2 --host 0 --coordinator 10.0.0.1:1234 [--processes 4] \
        program.py ARGS
    python -m dynetjax check program.py ...
    python -m dynetjax doctor

What the program imports as ``dynet`` is dynetjax; see `dynetjax.dropin`. With
``--processes`` it runs in several processes, which train one model; see
`dynetjax.parallel`. ``check`` tells what will differ in a program, line by line, and
``doctor`` what is installed here, whether it works, and how fast.
"""

import sys
from importlib import import_module
from typing import Any

from dynetjax import dropin
from dynetjax.compat.running import run_program


def main(words: list[str]) -> None:
    """Run what the command line names.

    Raises:
        SystemExit: it names nothing, or a process has failed.
    """
    match words:
        case ["--processes" | "--hosts", *_]:
            sys.exit(_command("parallel.launch").launch(words))
        case ["check", _, *_]:
            names = dropin.public_names()
            sys.exit(_command("compat.check").check(words[1:], names))
        case ["doctor"]:
            sys.exit(_command("inspect.doctor").doctor() > 0)
        case _:
            run_program(words, __doc__ or "")


def _command(name: str) -> Any:
    """The module of a command, which other programs need not wait for."""
    return import_module(f"dynetjax.{name}")


if __name__ == "__main__":
    main(sys.argv[1:])
