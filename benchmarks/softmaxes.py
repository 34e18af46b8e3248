"""The class-factored softmax against the full one, over a hundred thousand words.

    python benchmarks/softmaxes.py [--dynet PYTHON] [--words N] [--steps N]

A step looks a vector up, takes the loss of a word, reads it, goes back, and updates by
SimpleSGDTrainer; words and vectors are random. PYTHON, of DyNet, is measured in turns
with dynetjax; by default it is that of DYNETJAX_BENCH_DYNET. Each case runs in a
process of its own, and tells the median of the second half of its steps.
"""

import argparse
import itertools
import json
import os
import pathlib
import random
import statistics
import subprocess
import sys
import tempfile
import time

import harness

HIDDEN, BATCHES, KINDS = (128, 256), (1, 32), ("full", "classes")
VECTORS = 1000


def arguments():
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    add = parser.add_argument
    add("--dynet", default=os.environ.get("DYNETJAX_BENCH_DYNET"))
    add("--words", type=int, default=100_000)
    add("--steps", type=int, default=60)
    add("--case", nargs=3, help=argparse.SUPPRESS)
    add("--backend", choices=harness.DYNETS, help=argparse.SUPPRESS)
    return parser.parse_args()


def cluster_file(words, rng):
    """A file of as many classes as make classes as large as they are many."""
    count = round(words**0.5)
    lines = [f"c{rng.randrange(count)}\tw{w}\n" for w in range(words)]
    with tempfile.NamedTemporaryFile("w", suffix=".txt", delete=False) as file:
        file.writelines(lines)
    return file.name


def builder(dy, kind, hidden, words, model, rng):
    if kind == "full":
        return dy.StandardSoftmaxBuilder(hidden, words, model)
    path = cluster_file(words, rng)
    ids = {f"w{w}": w for w in range(words)}
    try:
        return dy.ClassFactoredSoftmaxBuilder(hidden, path, ids, model)
    finally:
        pathlib.Path(path).unlink()


def measure(kind, hidden, batch, args):
    """Milliseconds of a step, and how many programs were compiled."""
    dy = harness.dynet()
    rng = random.Random(1)
    model = dy.ParameterCollection()
    table = model.add_lookup_parameters((VECTORS, hidden))
    softmax = builder(dy, kind, hidden, args.words, model, rng)
    trainer = dy.SimpleSGDTrainer(model)
    times = []
    for _ in range(args.steps):
        start = time.perf_counter()
        dy.renew_cg()
        rows = [rng.randrange(VECTORS) for _ in range(batch)]
        words = [rng.randrange(args.words) for _ in range(batch)]
        if batch == 1:
            loss = softmax.neg_log_softmax(dy.lookup(table, rows[0]), words[0])
        else:
            x = dy.lookup_batch(table, rows)
            loss = dy.sum_batches(softmax.neg_log_softmax_batch(x, words))
        loss.value()
        loss.backward()
        trainer.update()
        if args.backend == "dynetjax":
            trainer.check()
        times.append(time.perf_counter() - start)
    found = {"ms": 1000 * statistics.median(times[len(times) // 2 :])}
    if args.backend == "dynetjax":
        found["programs"] = dy.stats().programs
    return found


def run(python, backend, case, args):
    """The same in a process of its own."""
    command = [python, __file__, "--backend", backend, "--case", *map(str, case)]
    command += ["--words", str(args.words), "--steps", str(args.steps)]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    if done.returncode:
        sys.exit(done.stderr)
    return json.loads(done.stdout.splitlines()[-1])


def compare(args):
    peers = {"dynetjax": sys.executable}
    if args.dynet:
        peers["dynet"] = args.dynet
    print(f"ms for a step over {args.words} words; full / classes")
    for hidden, batch in itertools.product(HIDDEN, BATCHES):
        line = f"hidden {hidden:3}, batch {batch:2}:"
        for name, python in peers.items():
            both = [run(python, name, (k, hidden, batch), args) for k in KINDS]
            full, classes = [found["ms"] for found in both]
            line += f"  {name} {full:6.1f} / {classes:5.1f} = {full / classes:4.1f}"
            if "programs" in both[1]:
                line += f" ({both[1]['programs']} programs)"
        print(line, flush=True)


if __name__ == "__main__":
    options = arguments()
    if options.case:
        chosen, size, elements = options.case
        print(json.dumps(measure(chosen, int(size), int(elements), options)))
    else:
        compare(options)
