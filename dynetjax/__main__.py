"""The command ``dynetjax``, which is also ``python -m dynetjax``; see `compat.help`."""

import sys
from importlib import import_module
from typing import Any

import dynetjax
from dynetjax import dropin
from dynetjax.compat import help
from dynetjax.compat.running import run_program


def main(words: list[str]) -> None:
    """Run what the command line names.

    Raises:
        SystemExit: it names nothing, or a process has failed.
    """
    match words:
        case ["-h" | "--help"]:
            print(help.text())
        case ["-V" | "--version"]:
            print(f"dynetjax {dynetjax.__version__}")
        case ["--processes" | "--hosts", *_]:
            sys.exit(_command("parallel.launch").launch(words))
        case ["check", _, *_]:
            names = dropin.public_names()
            sys.exit(
                _command("compat.check").check(words[1:], names, dropin.keywords_of)
            )
        case ["doctor"]:
            sys.exit(_command("inspect.doctor").doctor() > 0)
        case _:
            run_program(words, help.USAGE)


def _command(name: str) -> Any:
    """The module of a command, which other programs need not wait for."""
    return import_module(f"dynetjax.{name}")


def command() -> None:
    """What the console script calls."""
    main(sys.argv[1:])


if __name__ == "__main__":
    command()
