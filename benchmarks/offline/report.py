"""What training steps become on an H100 and a TPU v5e, neither of which need be here.

    python benchmarks/offline/report.py [--tasks REGEX] [--target h100]
    python benchmarks/offline/report.py kernels --tasks lm64-256 --target h100 [--hand]
    python benchmarks/offline/report.py programs [--tasks REGEX] [--target h100]

XLA's own compilers make the programs; kernels, copies, bytes and flops are counted in
what they have scheduled, and the time is estimated. ``kernels`` lists what takes
longest, with the lines of source it comes from; ``programs`` compiles what
tests/programs has compiled. It fails where a compiler refuses a program, or where a
step is worse than `musts.py` has it.
"""

import argparse
import json
import os
import pathlib
import re
import sys

import environments
import musts
from environments import ROOT
from targets import PLATFORMS

sys.path.append(str(environments.HERE.parent))
from tasks import TASKS

WHAT = ("report", "kernels", "programs")
SUMMED = ("kernels", "looped", "copied", "bytes", "flops", "us", "guessed", "temporary")
# Programs that are only to be taken or refused are compiled quickly.
QUICKLY = "--xla_backend_optimization_level=0 --xla_llvm_disable_expensive_passes=true"
HEAD = f"{'kernels':>8} {'loops MB':>9} {'MB':>7} {'Gflop':>6} {'ms':>7}"


def compiled(task, target, hand, args):
    """A line for each program of a step, as `compile_task` tells it."""
    interpreter = environments.python(PLATFORMS[target], args.environments)
    words = [task, target, *["--hand"] * hand, "--top", args.top]
    for name in ("data", "dump"):
        if getattr(args, name):
            words += ["--" + name, getattr(args, name).resolve()]
    lines, failure = environments.run(interpreter, "compile_task.py", *words)
    found = [json.loads(line) for line in lines]
    if failure:
        found.append({"program": "step", "refused": failure})
    if args.out:
        with args.out.open("a") as file:
            for line in found:
                about = {"task": task, "target": target, "hand": hand}
                print(json.dumps(about | line), file=file)
    return found


def step_of(lines):
    """All programs of a step together; None if one was refused or there are none."""
    if not lines or any("refused" in line for line in lines):
        return None
    return {name: sum(line[name] for line in lines) for name in SUMMED}


def row(step):
    """What a step comes to, under `HEAD`."""
    if step is None:
        return f"{'-':>{len(HEAD)}}"
    moved, looped = step["bytes"] / 2**20, step["looped"] / 2**20
    flops = f"{step['flops'] / 1e9:.1f}" if step["flops"] else "-"
    return (
        f"{step['kernels']:8.0f} {looped:9.0f} {moved:7.0f}"
        f" {flops:>6} {step['us'] / 1e3:7.2f}"
    )


def report(target, tasks, args):
    """Print a table of the steps on a device, line by line; tells what is wrong."""
    print(f"{target:18} |{'dynetjax':>{len(HEAD)}} |{'by hand':>{len(HEAD)}} |")
    print(f"{'':18} |{HEAD} |{HEAD} | ratio  must")
    faults = []
    for name in tasks:
        lines = compiled(name, target, False, args)
        others = compiled(name, target, True, args) if TASKS[name].hand else []
        ours, hand = step_of(lines), step_of(others)
        ratio = f"{ours['us'] / hand['us']:6.2f}" if ours and hand else f"{'':6}"
        must = musts.must(target, name)
        print(f"{name:18} |{row(ours)} |{row(hand)} |{ratio}  {must}", flush=True)
        for line in [*lines, *others]:
            if "refused" in line:
                faults.append(f"{name}, {line['program']}: {line['refused']}")
        missed = musts.missed(target, name, ours, hand)
        faults += [f"{name}: {fault}" for fault in missed]
    return [f"{target} {fault}" for fault in faults]


def kernels(target, tasks, args):
    """The loops and the slowest kernels of tasks; what was refused."""
    faults = []
    for name in tasks:
        for line in compiled(name, target, args.hand, args):
            print(f"\n{target} {name} {line['program']}: ", end="")
            if "refused" in line:
                print("refused")
                faults.append(f"{target} {name}: {line['refused']}")
                continue
            calls = f"{line['calls']} calls, " if line["calls"] > 1 else ""
            print(f"{calls}{line['kernels']:.0f} kernels, {line['us'] / 1e3:.3f} ms")
            for loop in line["loops"]:
                trips = f"{loop['trips']:.0f}" if loop["known"] else "unknown"
                about = f"{trips} trips of {loop['kernels']} kernels  {loop['scope']}"
                print(f"  {loop['name']:12} {about}")
            for kernel in line["slowest"]:
                print(of_kernel(kernel))
    return faults


def of_kernel(kernel):
    """A line about a kernel."""
    took = f"{kernel['us'] * kernel['times']:9.1f} us = {kernel['times']:4.0f} x"
    size = f"{kernel['read'] >> 10:6}K in {kernel['written'] >> 10:6}K out"
    products = [
        "x".join(str(p[axis]) for axis in ("batch", "rows", "columns", "depth"))
        for p in kernel["products"]
    ]
    about = " ".join([*products, *kernel["contents"]])[:60]
    name = f"{kernel['kind']:8} {kernel['name']:34.34}"
    where = f"{kernel['loop'] or '-':10} {kernel['origin']}"
    return f"{took} {kernel['us']:7.2f}  {name} {size}  {where}  [{about}]"


def programs(target, args):
    """Which programs of tests/programs a device's compiler refuses."""
    interpreter = environments.python(PLATFORMS[target], args.environments)
    faults = []
    for file in sorted((ROOT / "tests" / "programs").glob("*.py")):
        if file.stem.startswith("test_") or not re.search(args.tasks, file.stem):
            continue
        words = [file, target, args.updates]
        lines, failure = environments.run(
            interpreter, "compile_program.py", *words, flags=QUICKLY
        )
        told = json.loads(lines[-1]) if lines else {"compiled": 0, "refused": [failure]}
        count = len(told["refused"])
        print(f"{target} {file.stem:24} {told['compiled']:4} compiled, {count} refused")
        sys.stdout.flush()
        faults += [f"{target} {file.stem}: {refusal}" for refusal in told["refused"]]
    return faults


def arguments():
    """The parsed command line."""
    folder = os.environ.get("DYNETJAX_BENCH_DATA")
    parser = argparse.ArgumentParser(description=(__doc__ or "").split("\n")[0])
    add, path = parser.add_argument, pathlib.Path
    add("what", nargs="?", default=WHAT[0], choices=WHAT)
    add("--tasks", default=".", metavar="REGEX", help=f"of {', '.join(TASKS)}")
    add("--target", choices=PLATFORMS, help="both, if it is not given")
    add("--hand", action="store_true", help="kernels of the step by hand")
    add("--top", type=int, help="kernels that are listed (20)")
    add("--updates", type=int, default=10, help="of each of tests/programs")
    add("--data", type=path, default=folder and path(folder), help="as the others'")
    add("--dump", type=path, metavar="FOLDER", help="for the scheduled programs")
    add("--out", type=path, metavar="FILE", help="JSON, a line for each program")
    add("--environments", type=path, default=environments.FOLDER, metavar="FOLDER")
    return parser.parse_args()


def main():
    """Do what the command line says; fails if anything is wrong."""
    args = arguments()
    if args.top is None:
        args.top = 20 if args.what == "kernels" else 0
    if args.dump:
        args.dump.mkdir(parents=True, exist_ok=True)
    tasks = [name for name in TASKS if re.search(args.tasks, name)]
    if args.hand:
        tasks = [name for name in tasks if TASKS[name].hand]
    faults = []
    for target in [args.target] if args.target else PLATFORMS:
        environments.python(
            PLATFORMS[target], args.environments
        )  # before a table begins
        if args.what == "programs":
            faults += programs(target, args)
        else:
            faults += {"report": report, "kernels": kernels}[args.what](
                target, tasks, args
            )
        print(flush=True)
    print("\n".join(faults) or "nothing is refused or missed")
    return int(bool(faults))


if __name__ == "__main__":
    sys.exit(main())
