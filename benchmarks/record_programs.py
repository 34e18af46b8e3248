"""Runs the programs of tests/programs under DyNet itself, and notes their losses.

    DYNETJAX_BENCH_DYNET=~/dynet/bin/python python benchmarks/record_programs.py [NAME]

It writes tests/data/programs.json: of each program the losses of 50 updates, seed 1.
"""

import json
import os
import pathlib
import subprocess
import sys

ROOT = pathlib.Path(__file__).parent.parent
PROGRAMS = ROOT / "tests" / "programs"
RECORD = ROOT / "tests" / "data" / "programs.json"


def losses(words):
    """The losses that a program prints, a line ``number loss`` for each update."""
    done = subprocess.run(words, capture_output=True, text=True, check=True)
    lines = [line.split() for line in done.stdout.splitlines()]
    return [float(line[1]) for line in lines if line and line[0].isdigit()]


def main(names):
    """Record the programs of these names, or all."""
    python = os.environ.get("DYNETJAX_BENCH_DYNET")
    if python is None:
        sys.exit("DYNETJAX_BENCH_DYNET: the Python that has DyNet is needed")
    paths = sorted(p for p in PROGRAMS.glob("*.py") if not p.stem.startswith("test_"))
    known = json.loads(RECORD.read_text()) if RECORD.exists() else {}
    for path in paths:
        if not names or path.stem in names:
            known[path.stem] = losses([python, path, "--dynet-seed", "1"])
            print(path.stem, known[path.stem][0], "...", known[path.stem][-1])
    kept = {path.stem: known[path.stem] for path in paths if path.stem in known}
    RECORD.write_text(json.dumps(kept, indent=0) + "\n")


if __name__ == "__main__":
    main(sys.argv[1:])
