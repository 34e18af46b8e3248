"""Runs the peers in turn, several times, and prints medians and ratios.

    python benchmarks/run.py --out FOLDER [--seconds 5] [--repeats 3] [--pin]

A peer is one of: dynetjax (this interpreter), dynet, autobatch (DyNet with its
automatic batching), torch, jax (written by hand, this interpreter).
"""

import argparse
import dataclasses
import json
import os
import pathlib
import re
import shutil
import statistics
import subprocess
import sys
import tempfile

HERE = pathlib.Path(__file__).resolve().parent
PEERS = ("dynet", "autobatch", "dynetjax", "torch", "jax")
PHASES = ("build", "value", "backward", "update", "plan", "write", "run", "wait")


@dataclasses.dataclass
class Row:
    """A line of the table: a task with its flags.

    Attributes:
        base: the peer that the others are divided by.
        peers: those that have this task.
    """

    name: str
    task: str
    flags: list
    base: str = "dynet"
    peers: tuple = ("dynet", "dynetjax", "torch")


def all_rows():
    """Every line of the table."""
    everyone = (*Row.peers, "jax")
    rows = []
    for size in (1, 4, 16, 64):
        for kind in ("dense", "sparse"):
            flags = ["--minibatch", str(size), f"--{kind}"]
            rows.append(Row(f"rnnlm-{size}-{kind}", "rnnlm", flags, peers=everyone))
    for kind in ("sparse", "dense"):
        flags, batched = [f"--{kind}"], ["--batch", "50", f"--{kind}"]
        grouped = ("dynet", "autobatch", "dynetjax", "torch")
        seldom = [*flags, "--read-every", "100"]
        rows += [
            Row(f"tagger-{kind}", "tagger", flags, peers=everyone),
            Row(f"chars-{kind}", "tagger_chars", flags),
            Row(f"tree-{kind}", "treelstm", flags),
            Row(f"tree-seldom-{kind}", "treelstm", seldom),
            Row(f"trees50-{kind}", "treelstm", batched, "autobatch", grouped),
        ]
    forward = ["--inference"]
    peers = ("dynet", "dynetjax")
    for name in ("greedy_parser", "stack_parser"):
        rows.append(Row(name, name, ["--sparse"], peers=peers))
        rows.append(Row(f"{name}-inference", name, forward, peers=peers))
    for name in ("reader", "reinforce", "beam", "growing", "trials"):
        flags = ["--program", name]
        flags += [] if name in ("reader", "reinforce") else forward
        rows.append(Row(f"decisions-{name}", "decisions", flags, peers=peers))
    for size in (1, 16):
        flags = ["--batch", str(size)]
        both = ("dynet", "autobatch", "dynetjax")
        rows.append(Row(f"seq2seq-{size}", "seq2seq", flags, peers=both))
    lockstep = ["--batch", "32", *forward]
    rows.append(Row("greedy_parser-32", "greedy_parser", lockstep, peers=peers))
    return [
        *rows,
        Row("tagger-inference", "tagger", forward, peers=everyone),
        Row("tree-inference", "treelstm", forward),
    ]


def arguments():
    """The parsed command line."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").split("\n")[0])
    add = parser.add_argument
    add("--out", type=pathlib.Path, required=True, help="folder for JSON and plot")
    add("--rows", default="", help="regular expression: only these rows")
    add("--peers", default=",".join(PEERS))
    add("--repeats", type=int, default=3)
    add("--seconds", type=float, default=0, help="of steady state; 0: two epochs")
    add("--timeout", type=float, default=3600, help="seconds for one run")
    add("--pin", action="store_true", help="to one core, with taskset")
    add("--data", default=os.environ.get("DYNETJAX_BENCH_DATA"))
    add("--dynet", default=os.environ.get("DYNETJAX_BENCH_DYNET"), metavar="PYTHON")
    add("--torch", default=os.environ.get("DYNETJAX_BENCH_TORCH"), metavar="PYTHON")
    add("--list", action="store_true", help="print the names of the rows")
    return parser.parse_args()


def interpreters(args):
    """The interpreter of each peer that is here; tells of those that are not."""
    wanted = args.peers.split(",")
    ours = sys.executable
    found = {
        "dynet": args.dynet,
        "autobatch": args.dynet,
        "dynetjax": ours,
        "torch": args.torch,
        "jax": ours,
    }
    absent = [p for p in wanted if not found[p]]
    if absent:
        print(f"left out, no interpreter given (see --help): {', '.join(absent)}")
    return {p: found[p] for p in PEERS if p in wanted and found[p]}


def command(row, peer, python, args):
    """The command line of one run."""
    prefix = {"torch": "torch_", "jax": "jax_"}.get(peer, "")
    line = [python, str(HERE / f"{prefix}{row.task}.py"), *row.flags]
    if not prefix:
        line += ["--backend", "dynetjax" if peer == "dynetjax" else "dynet"]
        line += ["--autobatch"] if peer == "autobatch" else []
    if args.data:
        line += ["--data", args.data]
    line += ["--seconds", str(args.seconds)]
    return ["taskset", "-c", "0", *line] if args.pin else line


def run_once(row, peer, python, args, cache):
    """One run's line of JSON; None if it failed, and why is printed."""
    line = command(row, peer, python, args)
    environment = dict(os.environ)
    if peer in ("dynetjax", "jax"):
        paths = [environment.get("PYTHONPATH", ""), str(HERE.parent)]
        environment["PYTHONPATH"] = os.pathsep.join(filter(None, paths))
        environment["JAX_COMPILATION_CACHE_DIR"] = str(cache / f"{peer}-{row.name}")
        environment["JAX_PERSISTENT_CACHE_MIN_COMPILE_TIME_SECS"] = "0"
        environment["JAX_PERSISTENT_CACHE_MIN_ENTRY_SIZE_BYTES"] = "0"
    try:
        done = subprocess.run(
            line, env=environment, capture_output=True, text=True, timeout=args.timeout
        )
    except subprocess.TimeoutExpired:
        print(f"{row.name}, {peer}: not done in {args.timeout:.0f} s", flush=True)
        return None
    if done.returncode:
        print(f"{row.name}, {peer}: failed\n{done.stderr[-2000:]}", flush=True)
        return None
    return json.loads(done.stdout.strip().split("\n")[-1])


def speed(line):
    """Items a second; of JAX by hand, compiling left out, for it is the limit."""
    limit = line["backend"] == "jax"
    return line["steady"]["without_compiling" if limit else "items_per_second"]


def median(lines, of):
    """The median of something of every run."""
    return statistics.median(map(of, lines))


def summary(row, runs):
    """Medians of each peer's runs; the first one filled the compilation cache."""
    base = runs.get(row.base)
    found = {}
    for peer, lines in runs.items():
        rate = median(lines, speed)
        warm = lines[1:] or lines
        last = warm[-1]
        epoch = last["first_epoch"]["items_per_second"]
        cold = lines[0]["first_epoch"]["items_per_second"]
        found[peer] = {
            "rate": rate,
            "ratio": rate / median(base, speed) if base else None,
            "lowest": min(map(speed, lines)),
            "highest": max(map(speed, lines)),
            "epoch_cold": cold / rate,
            "epoch_warm": epoch / rate,
            "start_cold": lines[0]["first_update_seconds"],
            "start_warm": median(warm, lambda line: line["first_update_seconds"]),
            "memory_mb": max(line["peak_memory_mb"] for line in lines),
            "compilations": lines[0]["stats"].get("compilations", 0),
            "compile_seconds": lines[0]["stats"].get("compile_seconds", 0),
            "split": {
                **last["steady"]["us_per_sentence"],
                **last["steady"]["engine_us_per_sentence"],
            },
        }
    return found


HEAD = (
    f"{'task':20}{'peer':11}{'items/s':>9}{'ratio':>7}{'epoch 1':>13}{'start s':>12}"
    f"{'MB':>6}{'XLA':>5}{'s':>6}  microseconds a sentence"
)


def table_line(name, peer, found):
    """One line of the table."""
    ratio = "" if found["ratio"] is None else f"{found['ratio']:.2f}"
    epoch = f"{found['epoch_cold']:.2f} {found['epoch_warm']:.2f}"
    start = f"{found['start_cold']:.1f} {found['start_warm']:.1f}"
    split = found["split"]
    spent = " ".join(f"{p} {split[p]:.0f}" for p in PHASES if p in split)
    return (
        f"{name:20}{peer:11}{found['rate']:9.0f}{ratio:>7}{epoch:>13}{start:>12}"
        f"{found['memory_mb']:6.0f}{found['compilations']:5}"
        f"{found['compile_seconds']:6.1f}  {spent}"
    )


def run_row(row, peers, args, cache):
    """All repeats of a row, the peers in turn."""
    runs = {}
    for _ in range(args.repeats):
        for peer, python in peers.items():
            if peer not in row.peers:
                continue
            line = run_once(row, peer, python, args, cache)
            if line:
                runs.setdefault(peer, []).append(line)
    return runs


def plot(summaries, path):
    """Ratios as bars, where matplotlib is installed."""
    try:
        from matplotlib import pyplot
    except ImportError:
        print("no plot: matplotlib is not installed")
        return
    names = list(summaries)
    peers = [p for p in PEERS if any(p in found for found in summaries.values())]
    figure, axes = pyplot.subplots(figsize=(8, 1 + 0.5 * len(names)))
    height = 0.8 / len(peers)
    for k, peer in enumerate(peers):
        ratios = [(summaries[name].get(peer) or {}).get("ratio") or 0 for name in names]
        axes.barh(
            [n + k * height for n in range(len(names))], ratios, height, label=peer
        )
    axes.set_yticks([n + 0.4 - height / 2 for n in range(len(names))], names)
    axes.invert_yaxis()
    axes.axvline(1, color="black", linewidth=0.5)
    axes.set_xlabel("speed divided by DyNet's")
    axes.legend()
    figure.tight_layout()
    figure.savefig(path)


def main():
    """Run, print the table, write results.json and plot.png."""
    args = arguments()
    rows = [row for row in all_rows() if re.search(args.rows, row.name)]
    if args.list:
        print("\n".join(row.name for row in rows))
        return
    args.out.mkdir(parents=True, exist_ok=True)
    cache = pathlib.Path(tempfile.mkdtemp(prefix="compiled-", dir=args.out))
    peers = interpreters(args)
    raw, summaries = {}, {}
    print(f"{HEAD}\n(epoch 1, as a part of items/s, and start: cold, then warm cache)")
    try:
        for row in rows:
            raw[row.name] = run_row(row, peers, args, cache)
            summaries[row.name] = summary(row, raw[row.name])
            for peer, found in summaries[row.name].items():
                print(table_line(row.name, peer, found), flush=True)
            results = {"pinned": args.pin, "summary": summaries, "runs": raw}
            text = json.dumps(results, indent=1)
            (args.out / "results.json").write_text(text + "\n")
    finally:
        shutil.rmtree(cache)
    plot(summaries, args.out / "plot.png")


if __name__ == "__main__":
    main()
