"""``python -m dynetjax --processes N program.py``: a program in several processes."""

import secrets
import sys
from typing import Any

from dynetjax import dropin  # noqa: F401  (DyNet's names mean our modules)
from dynetjax.compat.program import run_program
from dynetjax.core.errors import explain
from dynetjax.parallel.workers import WorkerError, Workers

USAGE = "--processes N [--sum] [--patience SECONDS] program.py ARGS"


def launch(words: list[str]) -> int:
    """Run a program in several processes; the exit status.

    Raises:
        SystemExit: the words of the command line say something else.
    """
    count, averages, patience, program = _parsed(words)
    before, sys.argv = sys.argv, ["-m", *program]  # what the processes begin with
    try:
        with Workers(
            _run,
            [(program,)] * count,
            seed=secrets.randbelow(2**32 - 1) + 1,
            averages=averages,
            patience=patience,
        ) as workers:
            workers.join()
    except WorkerError as error:
        print(f"python -m dynetjax: {error}", file=sys.stderr)
        return 1
    except KeyboardInterrupt:
        return 130
    finally:
        sys.argv = before
    return 0


def _run(pipe: Any, program: list[str]) -> None:
    """What each process does; with this module it has DyNet's names."""
    del pipe
    run_program(program, USAGE)


def _parsed(words: list[str]) -> tuple[int, bool, float, list[str]]:
    """Number of processes, whether gradients are averaged, patience, and the rest."""
    known: dict[str, Any] = {"--processes": 1, "--patience": 10.0}
    averages, rest = True, list(words)
    while rest and rest[0] in (*known, "--sum"):
        name = rest.pop(0)
        if name == "--sum":
            averages = False
            continue
        value = rest.pop(0) if rest else "nothing"
        try:
            known[name] = type(known[name])(value)
            if known[name] <= 0:
                raise ValueError
        except ValueError:
            raise _wrong(name, value) from None
    return known["--processes"], averages, known["--patience"], rest


def _wrong(name: str, value: str) -> SystemExit:
    return SystemExit(
        explain(
            f"python -m dynetjax: {name} wants a number above 0",
            got=value,
            expected=USAGE,
            fix="give how many processes are to train together"
            if name == "--processes"
            else "give seconds",
        )
    )
