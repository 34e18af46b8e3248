"""Many models of different shapes in one process: what of them stays in memory.

Each model is made, trained on two graphs, read once without training, and dropped; with
`--values` it is only read, as a program of its own.
Every hundred a line tells of the process: resident megabytes, memory maps, compiled
programs that are held, objects, and the entries of the engine's tables, which are
emptied whenever there are some thousand signatures.

    python benchmarks/soak.py [--models 2000]
"""

import argparse
import gc
import random
import time

import dynetjax as dy
from dynetjax.core.registry import KINDS, OPS
from dynetjax.engine.ir.fused import FUSED_OPS
from dynetjax.engine.runtime import RUNTIME
from dynetjax.engine.xla.live import live, maps

FUNCTIONS = dy.tanh, dy.rectify, dy.logistic, dy.softmax, dy.square, dy.exp


def one(draw, number, trains):
    """Make, train and drop a model that no other is like."""
    model = dy.ParameterCollection()
    inside, hidden = 2 + number % 61, 2 + number // 61
    table = model.add_lookup_parameters((5, inside))
    W = model.add_parameters((hidden, inside))
    V = model.add_parameters((3, hidden))
    first, second = draw.choice(FUNCTIONS), draw.choice(FUNCTIONS)
    trains = trains and draw.choice([dy.AdamTrainer, dy.SimpleSGDTrainer])
    trainer = trains and trains(model)

    def scores(word):
        h = first(W * table[word])
        return V * second(h * 0.1)

    for _ in range(2 if trainer else 0):
        dy.renew_cg()
        words = range(draw.randrange(1, 4))
        losses = [dy.pickneglogsoftmax(scores(w), w % 3) for w in words]
        loss = dy.esum(losses)
        loss.value()
        loss.backward()
        trainer.update()
    dy.renew_cg()
    scores(1).npvalue()


def megabytes():
    """What the process has in memory now; 0 where the system does not tell."""
    try:
        with open("/proc/self/statm", encoding="ascii") as file:
            return int(file.read().split()[1]) * 4096 / 2**20
    except OSError:
        return 0


def main():
    """Print a line every hundred models."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").split("\n")[0])
    parser.add_argument("--models", type=int, default=2000)
    parser.add_argument("--every", type=int, default=100)
    parser.add_argument("--values", action="store_true", help="read, do not train")
    args = parser.parse_args()
    draw, start = random.Random(1), time.monotonic()
    print("models  seconds    MB   maps  programs  objects  fused   kinds", end=" ")
    print(" signatures families causes")
    for number in range(args.models):
        one(draw, number, not args.values)
        if (number + 1) % args.every == 0:
            gc.collect()
            spent = time.monotonic() - start
            print(
                f"{number + 1:6}{spent:9.0f}{megabytes():6.0f}{maps():7}{len(live):10}"
                f"{len(gc.get_objects()):9}{len(FUSED_OPS):8}{len(KINDS):7}"
                f"{sum(len(op.signatures) for op in OPS.values()):11}"
                f"{len(RUNTIME.families):7}{len(dy.stats().causes):7}",
                flush=True,
            )


if __name__ == "__main__":
    main()
