"""Random JAX functions as byte code, against float64. As many as one likes:

    python tests/random_functions.py --functions 1000 [--seed 7] [--jax 50]
    python tests/random_functions.py --functions 1000 --level plain

A function is a few operations, drawn one after the other (`jaxprs/on_*.py`). Its
jaxprs, forward and back, are computed as byte code on several lanes, and in NumPy
(`jaxprs/in_numpy.py`), exactly and with the errors of float32: how far these are apart
is what the byte code may be off. Every 50th (--jax) is computed by JAX in float64, too.
What is wrong is made smaller and shown, with the seed that makes it again.

With --level, the kernels for another processor are compared with these.
"""

import argparse
import collections
import contextlib
import os
import pathlib
import subprocess
import sys
import tempfile
import time
from dataclasses import dataclass, field
from types import SimpleNamespace
from typing import NamedTuple

import jax
import numpy as np

FOLDER = pathlib.Path(__file__).parent
sys.path += [str(FOLDER / "jaxprs"), str(FOLDER / "engine" / "native")]

import smaller  # noqa: E402
from numbers_in_numpy import DIFFERS, UNIT  # noqa: E402
from trials import drawn  # noqa: E402

from dynetjax.engine.native import core  # noqa: E402
from dynetjax.engine.native.lowering.arrays import NotCoveredError  # noqa: E402

LARGEST = 1e30  # numbers that are met; float32 goes up to 3e38
ROUNDED = 1  # times that a function is computed with errors
AGAIN = 40  # times more where it seems to be wrong
SOME = 4  # times where that is known, or where other kernels make other bits
LEAST = 1e-9  # that is due: a maximum of ones may be another one than in float64
TIMES = 8  # the error that is due, of what was met
VAGUE = 0.01  # of a number's size: what is due is more, and nothing is compared


class Wrong(NamedTuple):
    """Where a result is not what it should be, and by how much."""

    what: str
    place: tuple
    got: float
    exact: float
    due: float


def wrong(found, exact, off):
    """(the worst number beyond what is due, how many there are, how many vague)."""
    worst, count, vague = None, 0, 0
    for k, (x, y, apart) in enumerate(zip(found, exact, off, strict=True)):
        due = TIMES * apart + 4 * UNIT * abs(y) + LEAST
        odd = ~np.isfinite(y)
        due = np.where(odd & (apart == 0), 0, due)
        finite = abs(y[~odd])
        scale = max(0.01, np.sqrt(np.mean(finite**2))) if finite.size else 1.0
        clear = np.isfinite(due) & (due <= VAGUE * np.maximum(abs(y), scale))
        clear |= odd & (apart == 0)
        count, vague = count + y.size, vague + int(np.sum(~clear))
        same = (x == y) | (np.isnan(x) & np.isnan(y))
        with np.errstate(invalid="ignore"):
            over = np.where(clear & ~same, abs(x - y) / (due + 1e-300), 0)
        over = np.where(np.isnan(over), np.inf, over)
        if over.size and over.max() > 1:
            at = np.unravel_index(np.argmax(over), over.shape)
            what = "value" if k == 0 else f"gradient {k - 1}"
            one = Wrong(what, tuple(map(int, at)), float(x[at]), float(y[at]),
                        float(due[at]))  # fmt: skip
            worst = worst or one
    return worst, count, vague


@dataclass
class Tally:
    """What became of functions."""

    right: int = 0
    wrong: int = 0
    vague: int = 0
    large: int = 0
    none: collections.Counter = field(default_factory=collections.Counter)
    by_jax: int = 0
    numbers: int = 0
    vague_numbers: int = 0
    met: collections.Counter = field(default_factory=collections.Counter)

    @property
    def functions(self):
        return self.right + self.wrong + self.vague + self.large + self.none.total()

    def __str__(self):
        none = ", ".join(f"{n} {why}" for why, n in self.none.most_common())
        return (
            f"{self.functions} functions: {self.right} right, {self.wrong} wrong, "
            f"{self.vague} vague, {self.large} too large, {self.by_jax} by JAX, too; "
            f"{self.vague_numbers} of {self.numbers} numbers were vague; "
            f"without byte code: {none or 'none'}"
        )


def judged(trial, tally=None, jax_too=False, again=AGAIN):
    """What is wrong with the byte code of a function; None if nothing is."""
    tally = tally or Tally()
    try:
        closed = trial.jaxprs
        found = trial.found
    except NotCoveredError as why:
        tally.none[str(why)] += 1
        return None
    except Exception as error:
        tally.wrong += 1
        return Wrong(f"{type(error).__name__}: {error}", (), np.nan, np.nan, 0)
    for one in closed:
        tally.met.update({*primitives(one.jaxpr)})
    exact = trial.exact
    if trial.evaluator.largest > LARGEST:
        tally.large += 1
        return None
    several = [("", found)]
    if jax_too and all(np.isfinite(x).all() for x in trial.arrays):
        tally.by_jax += 1
        several.append((" by JAX", trial.by_jax()))
    off = trial.due(ROUNDED, 5)
    if any(wrong(x, exact, off)[0] for _, x in several):
        more = trial.due(again, 6)
        off = [np.maximum(a, b) for a, b in zip(off, more, strict=True)]
    for by, x in reversed(several):
        worst, count, vague = wrong(x, exact, off)
        if worst:
            worst = worst._replace(what=worst.what + by)
            break
    tally.numbers += count
    tally.vague_numbers += vague
    if worst:
        tally.wrong += 1
    elif 2 * vague > count:
        tally.vague += 1
    else:
        tally.right += 1
    return worst


def primitives(jaxpr):
    """Names of all primitives of a jaxpr."""
    for equation in jaxpr.eqns:
        yield equation.primitive.name
        for value in jax.tree.leaves(
            [*equation.params.values()],
            is_leaf=lambda x: hasattr(x, "eqns") or hasattr(x, "jaxpr"),
        ):
            within = getattr(value, "jaxpr", value)
            if hasattr(within, "eqns"):
                yield from primitives(within)


def is_wrong(trial):
    """What is wrong, in a hurry."""
    try:
        return judged(trial, again=SOME)
    except Exception:  # a smaller function may make no sense
        return None


def run(trials, jax_every, tally):
    """Try them; (trial, what is wrong) of those in which something is."""
    for trial in trials:
        jax_too = bool(jax_every) and trial.seed % jax_every == 0
        try:
            worst = judged(trial, tally, jax_too)
        except BaseException:
            print(command_of(trial))
            raise
        if worst:
            yield trial, worst


def command_of(trial):
    """The command that runs it again."""
    return f"python tests/random_functions.py --functions 1 --seed {trial.seed}"


def written(count, seed, file):
    """Write what so many functions come to."""
    arrays = {}
    for number in range(seed, seed + count):
        with contextlib.suppress(NotCoveredError):
            for k, x in enumerate(drawn(number).found):
                arrays[f"{number} {k}"] = x
    np.savez(file, **arrays)


def against(level, trials):
    """Compare trials, of seeds in a row, with what kernels of another level compute.

    Returns:
        how many had other bits, how many could not have, which of these had, and the
        largest distance, as a share of what is due, with its seed.
    """
    seen = SimpleNamespace(other_bits=0, free=0, unequal=[], largest=(0.0, None))
    with tempfile.TemporaryDirectory() as folder:
        file = pathlib.Path(folder) / "found.npz"
        command = [sys.executable, __file__, "--write", str(file)]
        command += ["--functions", str(len(trials)), "--seed", str(trials[0].seed)]
        environment = {**os.environ, "DYNETJAX_LEVEL": level}
        subprocess.run(command, env=environment, check=True)
        with np.load(file) as found:
            other = dict(found)
    for trial in trials:
        number = trial.seed
        if f"{number} 0" not in other:
            continue
        ours = trial.found
        theirs = [other[f"{number} {k}"] for k in range(len(ours))]
        same = all(
            x.tobytes() == y.tobytes() for x, y in zip(ours, theirs, strict=True)
        )
        met = {p for jaxpr, _ in trial.needed for p in primitives(jaxpr)}
        seen.free += not met & DIFFERS
        if same:
            continue
        seen.other_bits += 1
        if not met & DIFFERS:
            seen.unequal.append(number)
        off = trial.due(SOME, 5)
        for x, y, z, apart in zip(ours, theirs, trial.exact, off, strict=True):
            clear = np.isfinite(z) & (apart <= VAGUE * np.maximum(abs(z), 0.01))
            with np.errstate(all="ignore"):
                far = abs(x.astype(np.float64) - y) / (apart + UNIT * abs(z) + 1e-36)
            far = np.max(np.where(clear, far, 0), initial=0)
            seen.largest = max(seen.largest, (float(far), number), key=lambda t: t[0])
    return seen


def main():
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--functions", type=int, default=1000)
    parser.add_argument("--seed", type=int, default=int(time.time()))
    parser.add_argument("--jax", type=int, default=50, help="0: none")
    parser.add_argument("--level", help="compare with kernels of another processor")
    parser.add_argument("--write", help="only write what is computed, to this file")
    asked = parser.parse_args()
    if asked.write:
        written(asked.functions, asked.seed, asked.write)
        return
    if asked.level:
        seeds = range(asked.seed, asked.seed + asked.functions)
        seen = against(asked.level, [*map(drawn, seeds)])
        print(
            f"{core.LEVEL} and {asked.level}, {asked.functions} functions: "
            f"{seen.other_bits} have other bits, {seen.free} could not, "
            f"of which {seen.unequal or 'none'} have; "
            f"largest distance, of what is due: {seen.largest}"
        )
        sys.exit(int(len(seen.unequal) > 0))
    tally, begin = Tally(), asked.seed
    end = begin + asked.functions
    for first in range(begin, end, 500):
        trials = map(drawn, range(first, min(first + 500, end)))
        for trial, worst in run(trials, asked.jax, tally):
            print(command_of(trial))
            less = trial
            if "jaxprs" in vars(trial) and "JAX" not in worst.what:
                less = smaller.minimised(trial, is_wrong)
            print(smaller.told(less, is_wrong(less) or worst), flush=True)
        print(tally, flush=True)
        if (first - begin) % 4000 == 0:
            jax.clear_caches()
    sys.exit(int(tally.wrong > 0))


if __name__ == "__main__":
    main()
