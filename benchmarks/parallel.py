"""Training in several processes against one: speed, and what communication takes.

    python benchmarks/parallel.py [--rows tagger] [--processes 2] [--every 1 8]

Each row trains on the same number of sentences, in turn by one process and by several.
"""

import argparse
import json
import pathlib
import statistics
import subprocess
import sys
import time

import corpora
import numpy as np
from tagger import Tagger
from tagger_chars import CharacterTagger
from treelstm import TreeLSTM

import dynetjax as dy
import dynetjax.parallel
from dynetjax.core.group import PROCESS, Message

FILE = pathlib.Path(__file__).resolve()
SIZES = 0, 10_000, 100_000, 1_000_000, 5_000_000  # dense numbers of an exchange
WARMUP = 300  # sentences of each process
ROWS = {
    "tagger": (Tagger, corpora.read_tagged, corpora.sentence_units),
    "chars": (CharacterTagger, corpora.read_tagged, corpora.sentence_units),
    "trees": (TreeLSTM, corpora.read_trees, lambda t: corpora.tree_units(t, 1)),
}


def work_of(unit):
    """About how much work a unit is: words, characters, or leaves."""
    if isinstance(unit.content[0], tuple):
        return sum(len(word) for word, _ in unit.content)
    leaves, rest = 0, list(unit.content)
    while rest:
        tree = rest.pop()
        leaves += tree.word is not None
        rest += tree.children
    return leaves


def arguments():
    """The parsed command line."""
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("--rows", nargs="+", default=list(ROWS), choices=ROWS)
    parser.add_argument("--processes", type=int, default=2)
    parser.add_argument(
        "--every",
        nargs="+",
        type=int,
        default=[1, 8, 0],
        help="sentences an update; 0 is a pool",
    )
    parser.add_argument("--sentences", type=int, default=6000, help="of all processes")
    parser.add_argument("--repeats", type=int, default=3)
    parser.add_argument("--data", type=pathlib.Path)
    parser.add_argument("--limit", type=int, default=8000)
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument(
        "--exchange", action="store_true", help="microseconds of exchanges by size"
    )
    parser.add_argument("--work", action="store_true", help="be one of the processes")
    return parser.parse_args()


class Meeting:
    """A group that notes how long its exchanges take."""

    def __init__(self, group):
        self.group, self.rank, self.size = group, group.rank, group.size
        self.collectives = group.collectives
        self.seconds = self.count = 0

    def exchange(self, message, dense, scale=1.0):
        """Meet the others."""
        start = time.perf_counter()
        result = self.group.exchange(message, dense, scale)
        self.seconds += time.perf_counter() - start
        self.count += 1
        return result


def work(args):
    """Train one row in this process, and print what the first one found."""
    network, read, units_of = ROWS[args.rows[0]]
    every = args.every[0]
    data = read(args)
    units = dy.parallel.shard(units_of(data), key=work_of)
    model = dy.ParameterCollection()
    net, trainer = network(model, data, args), dy.AdamTrainer(model)
    trainer.set_sparse_updates(True)
    if PROCESS.group is not None:
        PROCESS.group = Meeting(PROCESS.group)
    count = args.sentences // PROCESS.size // every * every
    seen, loss, start, met = -WARMUP, 0.0, 0.0, (0, 0.0)
    while seen < count:
        for unit in units:
            if seen == 0:
                start = time.perf_counter()
                if PROCESS.group is not None:
                    met = PROCESS.group.count, PROCESS.group.seconds
            dy.renew_cg()
            one = net.loss(unit.content)
            loss += one.value()
            one.backward()
            seen += 1
            if seen % every == 0:
                trainer.update()
            if seen >= count:
                break
    seconds = time.perf_counter() - start
    meeting = PROCESS.group or argparse.Namespace(count=0, seconds=0.0)
    meetings = max(meeting.count - met[0], 1)
    report = {
        "sentences": count * PROCESS.size,
        "seconds": seconds,
        "loss": loss / (count + WARMUP),
        "us_per_exchange": 1e6 * (meeting.seconds - met[1]) / meetings,
    }
    print(json.dumps(report), flush=True)


def exchanges():
    """Microseconds that exchanges of so many dense numbers take, in this process."""
    nothing = Message(np.zeros(0, np.int32), np.zeros(0, np.float32))
    found = {}
    for count in SIZES:
        dense = [np.ones(count, np.float32)]
        times = []
        for _ in range(200 if count < 10**6 else 20):
            start = time.perf_counter()
            PROCESS.group.exchange(nothing, dense)
            times.append(1e6 * (time.perf_counter() - start))
        found[count] = round(statistics.median(times[len(times) // 4 :]), 1)
    print(json.dumps(found), flush=True)


class Learner:
    """The loss of a unit, for `dynetjax.parallel.train`."""

    def __init__(self, network):
        self.network = network

    def __call__(self, unit):
        """In the graph that there is."""
        return self.network.loss(unit.content)


def pool(args, row, processes):
    """Two epochs by a pool, of which the second is timed; as `work` reports."""
    network, read, units_of = ROWS[row]
    data = read(args)
    units = units_of(data)[: args.sentences]
    dy.reset_random_seed(args.seed)
    model = dy.ParameterCollection()
    learner, trainer = Learner(network(model, data, args)), dy.AdamTrainer(model)
    trainer.set_sparse_updates(True)
    reports = []
    dy.parallel.train(
        learner,
        units,
        trainer=trainer,
        processes=processes,
        epochs=2,
        report=reports.append,
        seed=args.seed,
    )
    seconds = reports[1].seconds - reports[0].seconds
    return {
        "sentences": len(units),
        "seconds": seconds,
        "loss": reports[0].loss,
        "us_per_exchange": 0.0,
    }


def run(args, row, every, processes):
    """What `work` printed in the first of so many processes."""
    if every == 0:
        return pool(args, row, processes)
    words = ["--work", "--rows", row, "--every", str(every)]
    words += ["--sentences", str(args.sentences), "--limit", str(args.limit)]
    words += ["--data", str(args.data)] if args.data else []
    return start(processes, words)


def start(processes, words):
    """What the first of so many processes has printed."""
    command = [sys.executable, str(FILE), *words]
    if processes > 1:
        command[1:1] = ["-m", "dynetjax", "--processes", str(processes)]
    done = subprocess.run(command, stdout=subprocess.PIPE, text=True, check=True)
    return json.loads(done.stdout.splitlines()[-1])


def main(args):
    """Take turns, and print medians."""
    n = args.processes
    print(f"{'row':8} every  1 process/s  {n} processes/s  ratio  exchange us  losses")
    for row in args.rows:
        for every in args.every:
            pairs = [
                [run(args, row, every, k) for k in (1, n)] for _ in range(args.repeats)
            ]
            speeds = [[r["sentences"] / r["seconds"] for r in pair] for pair in pairs]
            one, more = [
                statistics.median(column) for column in zip(*speeds, strict=True)
            ]
            ratio = statistics.median([b / a for a, b in speeds])
            exchange = statistics.median([p[1]["us_per_exchange"] for p in pairs])
            losses = " ".join([f"{r['loss']:.3f}" for r in pairs[-1]])
            print(
                f"{row:8} {every:5} {one:12.0f} {more:14.0f} {ratio:6.2f}"
                f" {exchange:12.0f}  {losses}",
                flush=True,
            )


if __name__ == "__main__":
    parsed = arguments()
    if parsed.work and parsed.exchange:
        exchanges()
    elif parsed.work:
        work(parsed)
    elif parsed.exchange:
        print(start(parsed.processes, ["--work", "--exchange"]))
    else:
        main(parsed)
