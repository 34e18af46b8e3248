"""Training on a device beside the host, from the first second on.

    python benchmarks/device.py [--rows REGEX] [--seconds 8] [--steady 3] [--pretend]
        [--estimates FILE]

First it computes a few graphs on the host and on the device, and stops if they differ.
Then each row is trained in a process of its own, once as a user starts it (`auto`: the
interpreter goes on until the device's programs are compiled), and once with everything
on the device from the start (`xla`); beside them JAX by hand and PyTorch, where they
are installed. Told are items a second in the first seconds and in a steady state, how
long XLA compiled meanwhile, and what a step took: milliseconds by phase, launches of
programs, arrays sent. Beside a step that `make devices` has estimated for an H100
(``DEVICES='--out FILE'``) stands the estimate: the device's part, without the host's.
With ``--pretend`` the host is taken for a device, so that all of
this can be tried where there is none. It takes some five minutes.
"""

import argparse
import importlib
import json
import os
import pathlib
import re
import subprocess
import sys
import time

HERE = pathlib.Path(__file__).resolve().parent
ROWS = {  # task, its arguments, names in its module, others that do the same
    "language model 64, LSTM 256": ("rnnlm", "--minibatch 64", {"HIDDEN": 256}, 2),
    "language model 64, LSTM 1024": ("rnnlm", "--minibatch 64", {"HIDDEN": 1024}, 2),
    "256 Tree-LSTMs of 128": ("treelstm", "--batch 256", {"SIZE": 128}, 0),
    "256 Tree-LSTMs of 512": ("treelstm", "--batch 256", {"SIZE": 512}, 0),
    "encoder-decoder 64": ("seq2seq", "--batch 64", {}, 0),
    "one tree a graph": ("treelstm", "", {"SIZE": 128}, 0),
    "tagger": ("tagger", "", {}, 2),
}
OTHERS = ("jax", "torch")
ESTIMATED = {  # rows whose steps are tasks of benchmarks/offline
    "language model 64, LSTM 256": "lm64-256",
    "language model 64, LSTM 1024": "lm64-1024",
    "256 Tree-LSTMs of 128": "trees256-128",
    "encoder-decoder 64": "seq2seq64-apart",
}
TOLERANCE = 1e-4
PHASES = ("build", "value", "backward", "update")
ENGINE = ("plan", "write", "run", "wait")


# In a process of its own


def train(row, setting, seconds, steady):
    """Print what training a row comes to, as JSON."""
    task, arguments, sizes, _ = ROWS[row]
    sys.argv = [task, *arguments.split()]
    import harness

    if setting in OTHERS:
        task = f"{setting}_{task}"
        if setting == "torch":
            _on_device_of_torch()
    else:
        import dynetjax as dy

        dy.init(tier=setting)
    module = importlib.import_module(task)
    for name, size in sizes.items():
        setattr(module, name, size)

    def measure(task, backend, args, runner, units):
        del task, backend, args
        print(json.dumps(_windows(harness, runner, units, seconds, steady)))

    harness.measure = measure
    if hasattr(module, "main"):
        module.main()
    else:
        module.run(task, module.TreeLSTM, module.__doc__)


def _on_device_of_torch():
    import torch

    if torch.cuda.is_available():
        torch.set_default_device("cuda")


def _windows(harness, runner, units, seconds, steady):
    """The first seconds, and some after those."""
    told = {}
    for name, length in ("first", seconds), ("steady", steady):
        window, steps = harness.Window(runner), 0
        before = _counters(runner)
        while window.elapsed() < length:
            unit = units[(told.get("steps", 0) + steps) % len(units)]
            window.clock.start()
            window.add(unit, runner.train(unit.content, True, window.clock))
            steps += 1
        told["steps"] = told.get("steps", 0) + steps
        runner.finish()
        report, after = window.report(), _counters(runner)
        told[name] = {
            "items_per_second": report["items_per_second"],
            "compile_seconds": report["stats"].get("compile_seconds", 0),
            "compilations": report["stats"].get("compilations", 0),
            "ms": {k: 1e3 * v / steps for k, v in window.clock.seconds.items()},
            "engine_ms": {
                k: v * report["sentences"] / steps / 1e3
                for k, v in report["engine_us_per_sentence"].items()
            },
            "each": {k: (after[k] - before[k]) / steps for k in after},
        }
    if hasattr(runner, "dy") and hasattr(runner.dy, "stats"):
        told["placed"] = runner.dy.stats().placed
    return told


def _counters(runner):
    if not hasattr(runner, "dy"):
        return {}
    stats = runner.dy.stats()
    return {"launches": stats.launches, "sent": stats.sent}


def compare():
    """How far losses and gradients of both tiers are apart, at most; relative."""
    import numpy as np

    import dynetjax as dy

    worst = 0.0
    for words in ([3, 1, 4, 1, 5], [2, 7, 1, 8], [9]):
        found = []
        for tier in "native", "xla":
            dy.init(tier=tier)
            dy.reset_random_seed(1)
            model = dy.ParameterCollection()
            table = model.add_lookup_parameters((10, 64))
            lstm = dy.VanillaLSTMBuilder(2, 64, 64, model)
            out = model.add_parameters((10, 64))
            dy.renew_cg()
            states = lstm.initial_state().transduce([table[w] for w in words])
            pairs = zip(states, words, strict=True)
            loss = dy.esum([dy.pickneglogsoftmax(out * h, w) for h, w in pairs])
            value = loss.value()
            loss.backward()
            several = [*model.parameters_list(), *model.lookup_parameters_list()]
            found.append([np.array(value), *[p.grad_as_array() for p in several]])
        for ours, theirs in zip(*found, strict=True):
            scale = max(float(np.abs(ours).max()), 1e-3)
            worst = max(worst, float(np.abs(ours - theirs).max()) / scale)
    print(json.dumps({"apart": worst}))


# The process that starts these


def child(*words):
    """What a process prints as JSON; None if it fails, and that is told."""
    command = [sys.executable, __file__, *words]
    done = subprocess.run(command, capture_output=True, text=True, env=os.environ)
    if done.returncode:
        print(f"  failed: {(done.stderr.strip() or '?').splitlines()[-1]}")
        return None
    return json.loads(done.stdout.splitlines()[-1])


def show(setting, told):
    """Two lines for a setting of a row."""
    first, steady = told["first"], told["steady"]
    speeds = f"{first['items_per_second']:10,.0f} {steady['items_per_second']:10,.0f}"
    compiled = f"{first['compilations']:3} in {first['compile_seconds']:5.1f} s"
    each = steady["each"]
    counts = f"{each.get('launches', 0):.1f} launches, {each.get('sent', 0):.1f} sent"
    print(f"  {setting:6}{speeds}   {compiled}   {counts}")
    phases = [f"{k} {steady['ms'][k]:.2f}" for k in PHASES if k in steady["ms"]]
    phases += [f"{k} {v:.2f}" for k, v in steady["engine_ms"].items() if k in ENGINE]
    print(f"         ms a graph: {', '.join(phases)}")
    for line in told.get("placed", ()):
        print(f"         {line}")


def estimates(file):
    """Milliseconds a step on an H100, by row and by whether it is by hand."""
    found = {}
    for line in map(json.loads, file.read_text().splitlines()):
        if line["target"] == "h100" and "us" in line:
            key = line["task"], line["hand"]
            found.setdefault(key, {})[line["program"]] = line["us"] / 1e3
    return {
        (row, hand): sum(found[task, hand].values())
        for row, task in ESTIMATED.items()
        for hand in (False, True)
        if (task, hand) in found
    }


def main():
    """Compare, then train row by row."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").split("\n")[0])
    parser.add_argument("--rows", default=".", metavar="REGEX")
    parser.add_argument("--seconds", type=float, default=8)
    parser.add_argument("--steady", type=float, default=3)
    parser.add_argument("--pretend", action="store_true")
    parser.add_argument("--settings", default="auto,xla,jax,torch")
    parser.add_argument("--estimates", type=pathlib.Path, metavar="FILE")
    parser.add_argument("--row", help=argparse.SUPPRESS)
    parser.add_argument("--compare", action="store_true", help=argparse.SUPPRESS)
    args = parser.parse_args()
    words = ["--seconds", str(args.seconds), "--steady", str(args.steady)]
    words += ["--pretend"] * args.pretend
    if args.pretend and (args.compare or args.settings not in OTHERS):
        from pretending import pretend

        pretend(host_sees_device=False)
    if args.compare:
        return compare()
    if args.row:
        return train(args.row, args.settings, args.seconds, args.steady)
    estimated = estimates(args.estimates) if args.estimates else {}
    begun = time.monotonic()
    parity = child("--compare", *words)
    if parity is None or parity["apart"] > TOLERANCE:
        sys.exit(f"host and device differ: {parity}")
    print(f"host and device are apart by {parity['apart']:.1e} at most")
    print("items a second:   first      steady   compilations")
    for row, (*_, others) in ROWS.items():
        if not re.search(args.rows, row):
            continue
        print(row)
        for setting in args.settings.split(","):
            if setting in OTHERS and not others:
                continue
            told = child("--row", row, "--settings", setting, *words)
            if told is not None:
                show(setting, told)
            took = estimated.get((row, setting == "jax"))
            if took and setting in ("xla", "jax"):
                print(f"         estimated for an H100: {took:.2f} ms of its own")
    print(f"{time.monotonic() - begun:.0f} s")
    return None


if __name__ == "__main__":
    main()
