"""The programs of one task, compiled for a device and read. `report.py` runs it.

It needs an environment of `environments.py`. Each program makes a line of JSON.
"""

import argparse
import dataclasses
import json
import pathlib
import re
import sys

sys.path.append(str(pathlib.Path(__file__).resolve().parent.parent))

import estimates
import targets
from tasks import TASKS, Prepared


def programs(task, prepared, target, hand):
    """Of each program of a step: its name, how to lower it, the trips of its calls."""
    if hand:
        yield "step", lambda: _by_hand(prepared, target), [{}]
        return
    import capture  # of dynetjax, which a step by hand does without
    import several

    capture.pretend(target)
    calls = capture.Capture()
    for call in calls.of_last(prepared.ours(), prepared.units):
        if task.several and call.name in ("forward", "backward"):
            yield call.name, lambda c=call: several.lowered(c, target), call.trips
        elif not task.several and re.search(task.only, call.name):
            yield call.name, lambda c=call: c.lowered(target), call.trips


def _by_hand(prepared, target):
    import jax

    jax.config.update("jax_default_matmul_precision", "highest")
    step, shapes = prepared.by_hand()
    return jax.jit(step, donate_argnums=(0, 1)).lower(*targets.there(target, shapes))


def told(lower, trips, target, top, dump=None):
    """What a program comes to in all of its calls, with its `top` slowest kernels."""
    try:
        compiled = lower().compile()
    except Exception as error:  # whatever a compiler says
        return {"refused": f"{type(error).__name__}: {error}"[:400]}
    text = compiled.as_text()
    if dump:
        dump.write_text(text)
    read = estimates.on_gpu if target == "h100" else estimates.on_tpu
    each = [read(text, one) for one in trips]
    total = sum((found for found, _ in each), estimates.Estimate())
    memory = compiled.memory_analysis()
    total.temporary = memory.temp_size_in_bytes if memory else 0.0
    loops = [loop for _, schedule in each for loop in schedule.loops]
    kernels = [kernel for _, schedule in each for kernel in schedule.kernels]
    kernels.sort(key=lambda kernel: -kernel.us * kernel.times)
    return dataclasses.asdict(total) | {
        "calls": len(trips),
        "loops": [*map(dataclasses.asdict, loops)],
        "slowest": [*map(dataclasses.asdict, kernels[:top])],
    }


def main():
    """Print a line for each program."""
    parser = argparse.ArgumentParser()
    parser.add_argument("task", choices=TASKS)
    parser.add_argument("target", choices=targets.TOPOLOGIES)
    parser.add_argument("--hand", action="store_true")
    parser.add_argument("--data", type=pathlib.Path)
    parser.add_argument("--dump", type=pathlib.Path)
    parser.add_argument("--top", type=int, default=0)
    args = parser.parse_args()
    sys.argv[1:] = []  # the other benchmarks read them, too
    task = TASKS[args.task]
    prepared = Prepared(task, args.data)
    found = programs(task, prepared, args.target, args.hand)
    for number, (name, lower, trips) in enumerate(found):
        dump = None
        if args.dump:
            who = "hand" if args.hand else "ours"
            file = f"{args.target}-{args.task}-{who}-{number}-{name}.txt"
            dump = args.dump / file
        line = {"program": name} | told(lower, trips, args.target, args.top, dump)
        print(json.dumps(line), flush=True)


if __name__ == "__main__":
    main()
