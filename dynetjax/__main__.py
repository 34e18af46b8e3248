r"""Runs a program that was written for DyNet.

    python -m dynetjax [--py2] program.py ARGS
    python -m dynetjax [--py2] -m package.module ARGS
    python -m dynetjax --processes 4 [--sum] [--patience SECONDS] program.py ARGS
    python -m dynetjax --hosts 2 --host 0 --coordinator 10.0.0.1:1234 [--processes 4] \
        program.py ARGS

What the program imports as ``dynet`` is dynetjax; see `dynetjax.dropin`. With
``--processes`` it runs in several processes, which train one model; see
`dynetjax.parallel`.
"""

import sys

from dynetjax import dropin  # noqa: F401  (DyNet's names mean our modules)
from dynetjax.compat.program import run_program
from dynetjax.parallel.launch import launch


def main(words: list[str]) -> None:
    """Run what the command line names.

    Raises:
        SystemExit: it names nothing, or a process has failed.
    """
    if words[:1] in (["--processes"], ["--hosts"]):
        sys.exit(launch(words))
    run_program(words, __doc__ or "")


if __name__ == "__main__":
    main(sys.argv[1:])
