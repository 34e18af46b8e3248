"""How long a step keeps Python, and how long the device then works on without it.

    python benchmarks/overlap.py [--size 1500] [--layers 6] [--batch 64] [--steps 20]

Everything is computed by XLA, whose CPU client works beside Python, too. What it still
does after `update()` has returned is time in which the next graph is built.
"""

import argparse
import statistics
import time

import jax
import numpy as np

import dynetjax as dy

PHASES = "build", "value", "backward", "update", "device after that"


def arguments():
    """The parsed command line."""
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    for name, number in (("size", 1500), ("layers", 6), ("batch", 64), ("steps", 20)):
        parser.add_argument(f"--{name}", type=int, default=number)
    return parser.parse_args()


def main():
    """Print the median seconds of each phase of a step."""
    args = arguments()
    dy.init(tier="xla")
    m = dy.ParameterCollection()
    layers = [m.add_parameters((args.size, args.size)) for _ in range(args.layers)]
    trainer = dy.SimpleSGDTrainer(m, 1e-4)
    numbers = np.random.default_rng(1).normal(size=(args.size, args.batch)) / 100
    steps = []
    for _ in range(args.steps):
        marks = [time.perf_counter()]
        dy.renew_cg()
        h = dy.inputTensor(numbers, batched=True)
        for w in layers:
            h = dy.tanh(w * h)
        loss = dy.sum_batches(dy.squared_norm(h))
        marks.append(time.perf_counter())
        for work in (loss.value, loss.backward, trainer.update):
            work()
            marks.append(time.perf_counter())
        jax.block_until_ready([w.storage.values for w in layers])
        marks.append(time.perf_counter())
        steps.append(np.diff(marks))
    for name, *seconds in zip(PHASES, *steps[2:], strict=True):  # two compile
        print(f"{name:18} {1e3 * statistics.median(seconds):8.2f} ms")


if __name__ == "__main__":
    main()
