"""Recurrent cells beside those of DyNet, of PyTorch, and a scan in JAX.

    python benchmarks/cells.py [--cells gru simple ...] [--hidden 256] [--length 50]
        [--batch 16] [--work forward training] [--seconds 0.5] [--rounds 3]
    python benchmarks/cells.py --backend dynetjax --cells gru      # one peer, as JSON

A graph looks words up in a table, runs one layer over them, and reads the squared norm
of the sum of all outputs; training goes on with backward and an update of SGD. The
peers take turns; the table has the median, in microseconds a graph, and DyNet's time
divided by ours. ``scan`` is compiled for one length, as is every jitted loop by hand.
"""

import argparse
import itertools
import json
import os
import pathlib
import statistics
import subprocess
import sys
import time

CELLS = {
    "simple": "SimpleRNNBuilder",
    "gru": "GRUBuilder",
    "coupled": "CoupledLSTMBuilder",
    "lstm": "VanillaLSTMBuilder",
    "compact": "CompactVanillaLSTMBuilder",
    "sparse": "SparseLSTMBuilder",
    "fast": "FastLSTMBuilder",
    "birnn": "BiRNNBuilder",
}
BY_HAND = ("lstm", "gru")  # that the scan and PyTorch have
WORDS = 1000
WARMUP = 8  # graphs
SLICES = 5  # the best of which counts
RATE = 1e-3


def words(length, batch, seed):
    """Word ids by time step, a list of them for a batch."""
    first = [(7 * seed + 31 * k) % WORDS for k in range(length * batch)]
    return [first[k * batch : (k + 1) * batch] for k in range(length)]


def best(step, length, batch, seconds):
    """Microseconds a call of `step` takes on ids, in the best of some slices."""
    for seed in range(WARMUP):
        step(words(length, batch, seed))
    found = []
    for _ in range(SLICES):
        begun, calls = time.perf_counter(), 0
        while calls < 2 or time.perf_counter() - begun < seconds / SLICES:
            step(words(length, batch, calls))
            calls += 1
        found.append((time.perf_counter() - begun) / calls)
    return round(1e6 * min(found), 1)


# Peers: each gives a function that does one graph


def dynet_step(dy, cell, hidden, work):
    """A step for dynetjax and DyNet."""
    model = dy.ParameterCollection()
    table = model.add_lookup_parameters((WORDS, hidden))
    make = getattr(dy, CELLS[cell])
    if cell == "birnn":
        builder = make(1, hidden, hidden, model, dy.VanillaLSTMBuilder)
    else:
        builder = make(1, hidden, hidden, model)
    trainer = dy.SimpleSGDTrainer(model, learning_rate=RATE)

    def step(ids):
        dy.renew_cg()
        if len(ids[0]) == 1:
            xs = [table[k[0]] for k in ids]
        else:
            xs = [dy.lookup_batch(table, k) for k in ids]
        layer = builder if cell == "birnn" else builder.initial_state()
        total = dy.esum(layer.transduce(xs))
        loss = dy.sum_batches(dy.squared_norm(total))
        loss.value()
        if work == "training":
            loss.backward()
            trainer.update()

    step.model = model  # DyNet's trainer does not keep it alive
    return step


def dynetjax_peer():
    import dynetjax as dy

    return lambda cell, hidden, work: dynet_step(dy, cell, hidden, work)


def dynet_peer():
    import dynet as dy

    return lambda cell, hidden, work: dynet_step(dy, cell, hidden, work)


def torch_peer():
    import torch
    from torch import nn

    torch.set_num_threads(1)

    def make(cell, hidden, work):
        table = nn.Embedding(WORDS, hidden, sparse=True)
        layer = {"lstm": nn.LSTM, "gru": nn.GRU}[cell](hidden, hidden)
        weights = [*table.parameters(), *layer.parameters()]
        optimizer = torch.optim.SGD(weights, lr=RATE)

        def step(ids):
            with torch.set_grad_enabled(work == "training"):
                outputs, _ = layer(table(torch.tensor(ids)))
                loss = outputs.sum(0).square().sum()
            loss.item()
            if work == "training":
                optimizer.zero_grad()
                loss.backward()
                optimizer.step()

        return step

    return make


def scan_peer():
    import jax
    import jax.numpy as jnp
    import numpy as np

    def lstm(p, state, x):
        c, h = state
        i, f, o, g = jnp.split(x + h @ p["W_h"], 4, axis=-1)
        c = jax.nn.sigmoid(f + 1) * c + jax.nn.sigmoid(i) * jnp.tanh(g)
        h = jax.nn.sigmoid(o) * jnp.tanh(c)
        return (c, h), h

    def gru(p, state, x):
        (h,) = state
        x_zr, x_u = jnp.split(x, [2 * h.shape[-1]], axis=-1)
        z, r = jnp.split(jax.nn.sigmoid(x_zr + h @ p["W_h"]), 2, axis=-1)
        u = jnp.tanh(x_u + (r * h) @ p["W_u"])
        h = h + z * (u - h)
        return (h,), h

    def make(cell, hidden, work):
        step_of, vectors = {"lstm": (lstm, 2), "gru": (gru, 1)}[cell]
        rng = np.random.default_rng(1)
        gates = {"lstm": 4, "gru": 3}[cell] * hidden
        recurrent = {"lstm": 4, "gru": 2}[cell] * hidden
        shapes = {
            "E": (WORDS, hidden),
            "W_x": (hidden, gates),
            "W_h": (hidden, recurrent),
            "W_u": (hidden, hidden),
            "b": (gates,),
        }
        values = {
            k: jnp.asarray(0.1 * rng.standard_normal(shape), jnp.float32)
            for k, shape in shapes.items()
        }

        def loss(p, ids):
            zeros = jnp.zeros((ids.shape[1], hidden))
            xs = p["E"][ids] @ p["W_x"] + p["b"]
            start = (zeros,) * vectors
            _, hs = jax.lax.scan(lambda s, x: step_of(p, s, x), start, xs)
            return jnp.sum(jnp.sum(hs, 0) ** 2)

        @jax.jit
        def train(p, ids):
            value, gradients = jax.value_and_grad(loss)(p, ids)
            return value, jax.tree.map(lambda a, g: a - RATE * g, p, gradients)

        forward, held = jax.jit(loss), [values]

        def step(ids):
            ids = np.asarray(ids, np.int32)
            if work == "training":
                value, held[0] = train(held[0], ids)
            else:
                value = forward(held[0], ids)
            float(value)

        return step

    return make


PEERS = {
    "dynetjax": dynetjax_peer,
    "dynet": dynet_peer,
    "scan": scan_peer,
    "torch": torch_peer,
}


# Comparing


def points(args):
    """What is measured, one after the other."""
    sizes = args.hidden, args.length, args.batch, args.work
    return list(itertools.product(args.cells, *sizes))


def measure(args):
    """Times of one peer by point, as JSON."""
    make, found, kept = PEERS[args.backend](), [], []
    for cell, hidden, length, batch, work in points(args):
        if args.backend in ("scan", "torch") and cell not in BY_HAND:
            continue
        step = make(cell, hidden, work)
        kept.append(step)  # what one program has settled is not to be another's
        spent = best(step, length, batch, args.seconds)
        found.append([[cell, hidden, length, batch, work], spent])
    print(json.dumps(found))


def interpreters(args):
    """The peers that are there, with their interpreters."""
    found = {"dynetjax": sys.executable, "scan": sys.executable}
    found |= {"dynet": args.dynet, "torch": args.torch}
    return {peer: python for peer, python in found.items() if python}


def run_once(peer, python, args):
    """Times of a peer by point; none if it failed."""
    line = [python, __file__, "--backend", peer, "--seconds", str(args.seconds)]
    for name in "cells", "hidden", "length", "batch", "work":
        line += ["--" + name, *map(str, getattr(args, name))]
    environment = dict(os.environ)
    root = str(pathlib.Path(__file__).resolve().parent.parent)
    paths = [root, *filter(None, [environment.get("PYTHONPATH")])]
    environment["PYTHONPATH"] = os.pathsep.join(paths)
    done = subprocess.run(line, env=environment, capture_output=True, text=True)
    if done.returncode:
        print(f"{peer}: failed\n{done.stderr[-2000:]}", flush=True)
        return {}
    rows = json.loads(done.stdout.strip().split("\n")[-1])
    return {tuple(point): spent for point, spent in rows}


def compare(args):
    """Print a table of medians in Markdown."""
    peers = interpreters(args)
    runs = {peer: [] for peer in peers}
    for _ in range(args.rounds):
        for peer, python in peers.items():
            runs[peer].append(run_once(peer, python, args))
    print(f"| cell | hidden | T | batch | work | {' | '.join(peers)} | ratio |")
    print("|---|--:|--:|--:|---|" + "--:|" * (len(peers) + 1))
    for point in points(args):
        times = {}
        for peer, of_peer in runs.items():
            known = [run[point] for run in of_peer if point in run]
            times[peer] = statistics.median(known) if known else None
        shown = [f"{t:.0f}" if t else "" for t in times.values()]
        ours, theirs = times["dynetjax"], times.get("dynet")
        ratio = f"{theirs / ours:.2f}" if ours and theirs else ""
        print("| " + " | ".join([*map(str, point), *shown, ratio]) + " |")


def arguments():
    """The command line."""
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    add = parser.add_argument
    add("--backend", choices=PEERS, help="measure this one only, and print JSON")
    add("--cells", nargs="+", choices=CELLS, default=list(CELLS))
    add("--hidden", nargs="+", type=int, default=[50, 256, 1024])
    add("--length", nargs="+", type=int, default=[5, 50, 200])
    add("--batch", nargs="+", type=int, default=[1, 16, 64])
    works = ["forward", "training"]
    add("--work", nargs="+", choices=works, default=works)
    add("--seconds", type=float, default=0.5, help="spent on each row")
    add("--rounds", type=int, default=3)
    add("--dynet", default=os.environ.get("DYNETJAX_BENCH_DYNET"))
    add("--torch", default=os.environ.get("DYNETJAX_BENCH_TORCH"))
    return parser.parse_args()


if __name__ == "__main__":
    arguments_given = arguments()
    if arguments_given.backend:
        measure(arguments_given)
    else:
        compare(arguments_given)
