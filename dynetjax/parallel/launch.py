"""``python -m dynetjax --processes N program.py``: a program in several processes."""

import sys
from typing import Any

from dynetjax import dropin  # noqa: F401  (DyNet's names mean our modules)
from dynetjax.compat.running import run_program
from dynetjax.core.errors import error_text
from dynetjax.model.random import new_seed
from dynetjax.parallel.hosts import Hosts
from dynetjax.parallel.workers import WorkerError, Workers

USAGE = "--processes N [--sum] [--patience SECONDS] program.py ARGS"
MACHINES = (
    "--hosts N --host K --coordinator ADDRESS:PORT, or --hosts 0: the environment's"
)
KNOWN: dict[str, Any] = {
    "--processes": 1,
    "--patience": 10.0,
    "--hosts": 1,
    "--host": 0,
    "--coordinator": "",
}
LEAST: dict[str, float] = {"--hosts": 0, "--host": 0, "--patience": 1e-3}


def launch(words: list[str]) -> int:
    """Run a program in several processes; the exit status.

    Raises:
        SystemExit: the words of the command line say something else.
    """
    options, averages, program = _parsed(words)
    if not program:
        raise SystemExit(USAGE)
    hosts = None
    if options["--hosts"] != 1:
        hosts = Hosts(options["--coordinator"], options["--hosts"], options["--host"])
    before, sys.argv = sys.argv, ["-m", *program]  # what the processes begin with
    try:
        with Workers(
            _run,
            [(program,)] * options["--processes"],
            seed=new_seed(),
            averages=averages,
            hosts=hosts,
            patience=options["--patience"],
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


def _parsed(words: list[str]) -> tuple[dict[str, Any], bool, list[str]]:
    """Options, whether gradients are averaged, and the program with its arguments."""
    options = dict(KNOWN)
    averages, rest = True, list(words)
    while rest and rest[0] in (*KNOWN, "--sum"):
        name = rest.pop(0)
        if name == "--sum":
            averages = False
            continue
        value = rest.pop(0) if rest else "nothing"
        try:
            options[name] = type(KNOWN[name])(value)
            if name != "--coordinator" and options[name] < LEAST.get(name, 1):
                raise ValueError
        except ValueError:
            raise _wrong(name, value) from None
    if bool(options["--coordinator"]) != (options["--hosts"] > 1):
        raise _wrong("--coordinator", options["--coordinator"] or "nothing")
    return options, averages, rest


def _wrong(name: str, value: str) -> SystemExit:
    of_hosts = name in ("--hosts", "--host", "--coordinator")
    return SystemExit(
        error_text(
            f"python -m dynetjax: {name} wants something else",
            got=value,
            expected=MACHINES if of_hosts else USAGE,
            fix="--host is the number of this machine, from 0"
            if of_hosts
            else "give a number above 0",
        )
    )
