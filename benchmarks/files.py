"""How fast models are saved to text files and loaded, beside DyNet.

    python benchmarks/files.py [--mb 500] [--repeats 5]

The model is a matrix and a table. Peers take turns in processes of their own; DyNet's
is that of DYNETJAX_BENCH_DYNET (or --dynet), and left out without. Each then reads the
other's file, and must find the same values. Medians, in MB of text a second.
"""

import argparse
import json
import os
import pathlib
import statistics
import subprocess
import sys
import tempfile
import time

import harness
import numpy as np

BYTES = 16  # of text, a number
ROW = 256


def model(dy, mb):
    """A collection with the numbers of a file of `mb` megabytes, not yet set."""
    rows = max(1, mb * 10**6 // BYTES // ROW // 2)
    collection = dy.ParameterCollection()
    collection.add_parameters((ROW, rows), init=0)
    collection.add_lookup_parameters((rows, ROW), init=0)
    return collection


def fill(collection):
    """Random numbers, the same ones for every peer."""
    rng = np.random.default_rng(1)
    for p in collection.parameters_list():
        p.set_value(rng.standard_normal(p.shape(), np.float32))
    for t in collection.lookup_parameters_list():
        t.init_from_array(rng.standard_normal(t.shape(), np.float32))


def values(collection):
    """All arrays of a collection."""
    found = [p.as_array() for p in collection.parameters_list()]
    return found + [t.as_array() for t in collection.lookup_parameters_list()]


def timed(call, repeats):
    """Seconds of each of several calls."""
    found = []
    for _ in range(repeats):
        start = time.perf_counter()
        call()
        found.append(time.perf_counter() - start)
    return found


def run(args):
    """What one process measures, as a line of JSON."""
    dy = harness.dynet()
    source, target = model(dy, args.mb), model(dy, args.mb)
    fill(source)
    own = str(args.folder / f"{args.backend}.model")
    seconds = {"save": timed(lambda: source.save(own), args.calls)}
    seconds["load"] = timed(lambda: target.populate(own), args.calls)
    pairs = zip(values(source), values(target), strict=True)
    same = all(np.array_equal(a, b) for a, b in pairs)
    print(json.dumps({"seconds": seconds, "bytes": os.path.getsize(own), "same": same}))


def read(args):
    """Whether the other peer's file has the same values."""
    dy = harness.dynet()
    source, target = model(dy, args.mb), model(dy, args.mb)
    fill(source)
    target.populate(str(args.folder / f"{args.read}.model"))
    pairs = zip(values(source), values(target), strict=True)
    print(json.dumps(all(np.array_equal(a, b) for a, b in pairs)))


def child(python, backend, args, folder, *others):
    """The last line that a process of `backend` prints."""
    line = [python, __file__, "--backend", backend, "--folder", str(folder)]
    line += ["--mb", str(args.mb), "--calls", str(args.calls), *others]
    environment = dict(os.environ)
    root = str(pathlib.Path(__file__).resolve().parent.parent)
    if backend == "dynetjax":
        environment["PYTHONPATH"] = root
    done = subprocess.run(
        line, env=environment, stdout=subprocess.PIPE, text=True, check=True
    )
    return json.loads(done.stdout.strip().split("\n")[-1])


def compare(args):
    """Peers in turn; prints a table of medians."""
    pythons = {"dynetjax": sys.executable}
    if args.dynet:
        pythons["dynet"] = args.dynet
    seconds = {(p, what): [] for p in pythons for what in ("save", "load")}
    with tempfile.TemporaryDirectory(dir=args.scratch) as folder:
        for _ in range(args.repeats):
            for peer, python in pythons.items():
                found = child(python, peer, args, folder)
                assert found["same"], f"{peer} reads other values than it wrote"
                for what, measured in found["seconds"].items():
                    seconds[peer, what] += measured
        for peer, python in pythons.items():
            for other in set(pythons) - {peer}:
                same = child(python, peer, args, folder, "--read", other)
                print(f"{peer} reads {other}'s file: {'equal' if same else 'OTHER'}")
    megabytes = found["bytes"] / 1e6  # the same for all: the format has fixed widths
    print("| MB/s | " + " | ".join(pythons) + " | dynetjax / dynet |")
    print("|---|" + "--:|" * (len(pythons) + 1))
    for what in "save", "load":
        speed = {p: megabytes / statistics.median(seconds[p, what]) for p in pythons}
        ratio = speed["dynetjax"] / speed["dynet"] if "dynet" in speed else float("nan")
        cells = " | ".join(f"{speed[p]:.0f}" for p in pythons)
        print(f"| {what} | {cells} | {ratio:.2f} |")


def main():
    """Compare the peers, or be one of them."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").split("\n")[0])
    add = parser.add_argument
    add("--mb", type=int, default=40, help="size of the file")
    add("--repeats", type=int, default=3, help="processes of each peer")
    add("--calls", type=int, default=3, help="saves and loads of a process")
    add("--dynet", default=os.environ.get("DYNETJAX_BENCH_DYNET"), metavar="PYTHON")
    add("--scratch", help="folder for the files, else the usual temporary one")
    add("--backend", choices=harness.DYNETS, help="be this peer")
    add("--folder", type=pathlib.Path, help="its files")
    add("--read", help="read the file of this peer")
    args = parser.parse_args()
    if args.read:
        read(args)
    elif args.backend:
        run(args)
    else:
        compare(args)


if __name__ == "__main__":
    main()
