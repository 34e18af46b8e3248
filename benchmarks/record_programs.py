"""Runs the programs of tests/programs under DyNet itself, and notes their losses.

    DYNETJAX_BENCH_DYNET=~/dynet/bin/python python benchmarks/record_programs.py [NAME]

It writes tests/data/programs.json: of each program the losses of 50 updates, seed 1,
and the seconds that the process takes, start included, the least of three runs.
"""

import json
import os
import pathlib
import re
import subprocess
import sys
import time

ROOT = pathlib.Path(__file__).parent.parent
PROGRAMS = ROOT / "tests" / "programs"
RECORD = ROOT / "tests" / "data" / "programs.json"
RUNS = 3


def record(words):
    """The seconds of a program, and the losses that it prints as ``number loss``."""
    seconds = []
    for _ in range(RUNS):
        start = time.perf_counter()
        done = subprocess.run(words, capture_output=True, text=True, check=True)
        seconds.append(time.perf_counter() - start)
    losses = re.findall(r"^\d+ (-?\d+\.\d+)$", done.stdout, re.MULTILINE)
    return {"seconds": round(min(seconds), 2), "losses": [*map(float, losses)]}


def main(names):
    """Record the programs of these names, or all."""
    python = os.environ.get("DYNETJAX_BENCH_DYNET")
    if python is None:
        sys.exit("DYNETJAX_BENCH_DYNET: the Python that has DyNet is needed")
    paths = sorted(p for p in PROGRAMS.glob("*.py") if not p.stem.startswith("test_"))
    known = json.loads(RECORD.read_text()) if RECORD.exists() else {}
    for path in paths:
        if not names or path.stem in names:
            new = known[path.stem] = record([python, path, "--dynet-seed", "1"])
            losses = new["losses"]
            print(path.stem, losses[0], "...", losses[-1], f"in {new['seconds']} s")
    kept = {path.stem: known[path.stem] for path in paths if path.stem in known}
    RECORD.write_text(json.dumps(kept, indent=0) + "\n")


if __name__ == "__main__":
    main(sys.argv[1:])
