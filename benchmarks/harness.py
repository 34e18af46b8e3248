"""What every benchmark shares: arguments, the timed loop and its line of JSON.

Runs in the interpreter of any peer: until a backend is asked for, it needs the standard
library alone.
"""

import argparse
import collections
import json
import os
import pathlib
import random
import resource
import sys
import time

import compare

IMPORTED = time.perf_counter()


# Arguments


def arguments(description, backends=(), **others):
    """The parsed command line; `others` are further flags with their defaults."""
    parser = argparse.ArgumentParser(description=description.split("\n")[0])
    add = parser.add_argument
    if backends:
        add("--backend", choices=backends, default=backends[0])
        add("--autobatch", action="store_true", help="DyNet's own batching")
    kind = parser.add_mutually_exclusive_group()
    kind.add_argument("--sparse", dest="sparse", action="store_true", default=True)
    kind.add_argument("--dense", dest="sparse", action="store_false")
    add("--inference", action="store_true", help="forward only")
    add("--read-every", type=int, default=1, help="units between losses read")
    add("--warmup", type=int, default=500, help="sentences before the steady state")
    add("--seconds", type=float, default=0, help="of steady state; 0 runs --epochs")
    add("--epochs", type=int, default=2)
    add("--limit", type=int, help="sentences used")
    add("--seed", type=int, default=1)
    if backends:
        add("--first", default="", metavar="PYTHON", help="see compare.py")
        add("--second", metavar="PYTHON", help="compare it with --first")
        add("--block", type=int, default=20, help="graphs before they take turns")
    folder = os.environ.get("DYNETJAX_BENCH_DATA")
    add("--data", type=pathlib.Path, default=folder and pathlib.Path(folder))
    for name, default in others.items():
        add("--" + name.replace("_", "-"), type=type(default), default=default)
    return parser.parse_args()


DYNETS = ("dynetjax", "dynet")


def dynet():
    """The module that the command line's ``--backend`` names."""
    parser = argparse.ArgumentParser(add_help=False)
    parser.add_argument("--backend", choices=DYNETS, default=DYNETS[0])
    parser.add_argument("--autobatch", action="store_true")
    parser.add_argument("--seed", type=int, default=1)
    args, _ = parser.parse_known_args()
    if args.backend == "dynet":
        import dynet_config

        dynet_config.set(random_seed=args.seed, autobatch=args.autobatch)
        import dynet as dy
    else:
        import dynetjax as dy

        dy.reset_random_seed(args.seed)
    return dy


# Data


class Clock:
    """Adds up wall-clock time by phase."""

    def __init__(self):
        self.seconds = collections.Counter()
        self.last = time.perf_counter()

    def start(self):
        """Time up to here belongs to no phase."""
        self.last = time.perf_counter()

    def mark(self, phase):
        """Time since the last mark was spent in `phase`."""
        now = time.perf_counter()
        self.seconds[phase] += now - self.last
        self.last = now


COUNTERS = ("graphs", "programs", "compilations", "loads", "compile_seconds", "seconds")


class DynetRunner:
    """Trains a network written against DyNet's API, with Adam.

    The network is made from (model, data, args) and has `loss` and `predict`.
    """

    def __init__(self, dy, network, data, args):
        self.dy, self.made_from = dy, (network, data, args)
        self.model = dy.ParameterCollection()  # DyNet's trainer does not keep it alive
        self.network = network(self.model, data, args)
        self.trainer = dy.AdamTrainer(self.model)
        self.trainer.set_sparse_updates(args.sparse)
        self.loss = None

    def again(self):
        """The same with a network of its own."""
        return DynetRunner(self.dy, *self.made_from)

    def train(self, content, read, clock):
        """One update; returns the loss if `read`."""
        self.dy.renew_cg()
        self.loss = self.network.loss(content)
        clock.mark("build")
        value = None
        if read:
            value = self.loss.value()
            clock.mark("value")
        self.loss.backward()
        clock.mark("backward")
        self.trainer.update()
        clock.mark("update")
        return value

    def infer(self, content, clock):
        """Predictions only."""
        self.dy.renew_cg()
        self.network.predict(content, clock)

    def finish(self):
        """Wait for what was sent."""
        if self.loss is not None:
            self.loss.value()

    def stats(self):
        """Counters of the backend; empty for DyNet, which has none."""
        if not hasattr(self.dy, "stats"):
            return {}
        found = self.dy.stats()
        return {name: getattr(found, name) for name in COUNTERS}


def difference(later, earlier):
    """Counters between two calls of `stats`."""
    found = {}
    for name, value in later.items():
        before = earlier[name] if name in earlier else type(value)()
        if isinstance(value, dict):
            found[name] = {k: round(v - before.get(k, 0), 6) for k, v in value.items()}
        else:
            found[name] = round(value - before, 6)
    return found


def process_age():
    """Seconds since this process was started; since the import where unknown."""
    try:
        started = pathlib.Path("/proc/self/stat").read_text().rsplit(")", 1)[1].split()
        ticks = int(started[19]) / os.sysconf("SC_CLK_TCK")
        return time.clock_gettime(time.CLOCK_BOOTTIME) - ticks
    except (OSError, AttributeError):
        return time.perf_counter() - IMPORTED


class Window:
    """Work done since it was opened."""

    def __init__(self, runner):
        self.runner, self.clock = runner, Clock()
        self.sentences = self.items = self.read_items = 0
        self.loss = 0.0
        self.stats = runner.stats()
        self.begun = time.perf_counter()

    def elapsed(self):
        """Seconds since it was opened."""
        return time.perf_counter() - self.begun

    def add(self, unit, loss):
        """Count a unit, and its loss if that was read."""
        self.sentences += unit.sentences
        self.items += unit.items
        if loss is not None:
            self.loss += loss
            self.read_items += unit.items

    def report(self):
        """Speed, counters, and microseconds a sentence by phase."""
        seconds = self.elapsed()
        counters = difference(self.runner.stats(), self.stats)
        phases = counters.pop("seconds", {})
        working = max(seconds - counters.get("compile_seconds", 0), 1e-9)
        each = 1e6 / max(self.sentences, 1)
        return {
            "items_per_second": round(self.items / seconds, 1),
            "without_compiling": round(self.items / working, 1),
            "items": self.items,
            "loss": round(self.loss / max(self.read_items, 1), 4),
            "sentences": self.sentences,
            "seconds": round(seconds, 3),
            "us_per_sentence": {
                k: round(v * each, 1) for k, v in self.clock.seconds.items()
            },
            "engine_us_per_sentence": {
                k: round(v * each, 1) for k, v in phases.items()
            },
            "stats": counters,
        }


class Loop:
    """Goes over the units epoch by epoch, until the arguments say that it is enough."""

    def __init__(self, args, runner, units):
        self.args, self.runner, self.units = args, runner, units
        self.rng = random.Random(args.seed)
        self.steps = self.seen = 0
        self.first_update = self.steady = self.reported = None

    def step(self, unit, *windows):
        """One unit of work, counted in `windows`; the last one's clock is used."""
        clock = windows[-1].clock
        clock.start()
        self.steps += 1
        loss = None
        if self.args.inference:
            self.runner.infer(unit.content, clock)
        else:
            read = self.steps % self.args.read_every == 0
            loss = self.runner.train(unit.content, read, clock)
        for window in windows:
            window.add(unit, loss)
        self.seen += unit.sentences
        if self.first_update is None:
            self.runner.finish()
            self.first_update = process_age()

    def enough(self):
        """Whether ``--seconds`` of steady state are over."""
        limit = self.args.seconds
        return bool(limit and self.steady and self.steady.elapsed() >= limit)

    def epoch(self, window):
        """One epoch; False if it was cut short."""
        order = self.units[:]
        self.rng.shuffle(order)
        for unit in order:
            if self.steady is None and self.seen >= self.args.warmup:
                self.runner.finish()
                self.steady = Window(self.runner)
            self.step(unit, window, *([self.steady] if self.steady else []))
            if self.enough():
                break
        else:
            self.runner.finish()
            return True
        self.runner.finish()
        return False

    def run(self):
        """What is told of the run."""
        first = Window(self.runner)
        complete = self.epoch(first)
        found = {"first_epoch": {**first.report(), "complete": complete}}
        later, epochs = Window(self.runner), 1
        while complete and (self.args.seconds or epochs < self.args.epochs):
            complete = self.epoch(later)
            epochs += 1
        found["later_epochs"] = later.report()
        steady = self.steady or first
        return {"steady": steady.report(), **found}


def measure(task, backend, args, runner, units):
    """Run, and print one line of JSON."""
    if getattr(args, "second", None) is not None:
        print(json.dumps({"task": task, **compare.compare(args, runner, units)}))
        return
    found = Loop(args, runner, units)
    told = found.run()
    settings = vars(args) | {"data": args.data and str(args.data)}
    line = {
        "task": task,
        "backend": backend,
        "settings": settings,
        "items_per_second": told["steady"]["items_per_second"],
        "first_update_seconds": round(found.first_update, 2),
        "peak_memory_mb": round(peak_memory_mb()),
        **told,
        "stats": runner.stats(),
    }
    print(json.dumps(line), flush=True)


def peak_memory_mb():
    """The largest resident size of this process so far."""
    size = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    return size / (2**20 if sys.platform == "darwin" else 2**10)
