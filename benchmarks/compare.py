"""Two settings of dynetjax, block by block in turn, in one process.

On a machine that is shared, two runs of seconds differ by a tenth with nothing changed.
What two blocks of some graphs take right after each other, on the same sentences,
differs by less, and the median of a few hundred such ratios is right to one per cent.
"""

import math
import random
import statistics
import time


def compare(args, runner, units):
    """What is told of ``--first`` and ``--second``.

    Each is Python that is run before a block of its own, and once before its network is
    made; both share their names. The networks have the same shapes, so what is compiled
    for one serves the other: settings that compilations read need processes apart.
    """
    names = {}
    settings = args.first, args.second
    runners = []
    for setting in settings:
        exec(setting, names)
        runners.append(runner.again())
    order = units[:]
    random.Random(args.seed).shuffle(order)
    seen, start, pairs, until = 0, 0, [], math.inf
    while time.perf_counter() < until:
        block = [order[(start + k) % len(order)] for k in range(args.block)]
        start += len(block)
        took = [0.0, 0.0]
        for which in (0, 1) if start // len(block) % 2 else (1, 0):
            exec(settings[which], names)
            took[which] = time_of(runners[which], block, args.inference)
        seen += sum(unit.sentences for unit in block)
        if seen >= args.warmup:
            if until == math.inf:
                until = time.perf_counter() + (args.seconds or 10)
            pairs.append(took)
    return _summary(pairs, args.block)


def time_of(runner, block, inference):
    """Seconds for a block, whose first graph finds the device idle."""
    clock = _NoClock()
    begun = time.perf_counter()
    for unit in block:
        if inference:
            runner.infer(unit.content, clock)
        else:
            runner.train(unit.content, True, clock)
    runner.finish()
    runner.loss = None  # the other one's graph comes next
    return time.perf_counter() - begun


class _NoClock:
    """Stands for a clock where nobody asks for phases."""

    def mark(self, phase):
        """Nothing."""


def _summary(pairs, size):
    """Microseconds a graph, and the speed of the second setting by the first's."""
    speeds = sorted(first / second for first, second in pairs)
    count = len(speeds)
    deviation = statistics.pstdev(map(math.log, speeds))
    return {
        "blocks": count,
        "us_per_graph": [
            round(statistics.median(times) / size * 1e6, 1)
            for times in zip(*pairs, strict=True)
        ],
        "speed": round(statistics.median(speeds), 4),
        "quartiles": [round(speeds[count * k // 4], 4) for k in (1, 3)],
        "standard_error": round(1.25 * deviation / math.sqrt(count), 4),  # of medians
    }
