"""Random graphs in tier 0, against the same in NumPy's float64. As many as one likes:

    python tests/campaign.py --graphs 1000 [--seed 7] [--xla 50]

Graphs grow under what a program may do between: values are read, nodes taken back,
random numbers drawn, gradients of inner nodes asked for, parameters updated. Every
50th (--xla) is computed by XLA. Where one is wrong, the seed that makes it again is
printed, and the graph.
"""

import argparse
import pathlib
import sys
import time

import hypothesis
import numpy as np
from hypothesis import HealthCheck, Phase, given, settings
from hypothesis import strategies as st

import dynetjax as dy
from dynetjax.engine.runtime import RUNTIME

FOLDER = pathlib.Path(__file__).parent
sys.path += [str(FOLDER / "engine"), str(FOLDER / "ops")]

import test_ragged_programs as ragged  # noqa: E402
from test_random_graphs import SIZE, B, Direct, Dynet, E, V, W, build, programs  # noqa: E402

AT_ONCE = 20  # graphs of one seed
RATE = 0.05


class Drawing(Dynet):
    """A DyNet program in which some nodes have noise added to them.

    Attributes:
        noise: the random nodes, in order.
    """

    def __init__(self):
        super().__init__()
        self.noise = []

    def new_graph(self):
        dy.renew_cg()
        self.noise = []

    def apply(self, name, xs, number):
        x = super().apply(name, xs, number)
        if number % 7:
            return x
        self.noise.append(dy.random_normal(SIZE, batch_size=x.dim()[1]) * 0.1)
        return x + self.noise[-1]


class Exact(Direct):
    """The same on float64 arrays ``[batch, SIZE]``, given what was drawn."""

    numpy = np

    def __init__(self, arrays, noise):
        super().__init__(arrays)
        self.noise = iter(noise)

    def apply(self, name, xs, number):
        x = super().apply(name, xs, number)
        return x if number % 7 else x + next(self.noise)


def rows_of(node):
    return np.atleast_2d(node.npvalue().T).astype(np.float64)


def is_near(got, expected, about):
    scale = max(1.0, np.abs(expected).max())
    np.testing.assert_allclose(got / scale, expected / scale, 0, 2e-4, err_msg=about)


@st.composite
def rounds(draw):
    """Graphs, one after the other, and what is done with each."""
    return [
        {
            "program": draw(programs()),
            "aside": draw(st.none() | programs()),
            "reads": draw(st.booleans()),
            "reads all": draw(st.booleans()),
            "full": draw(st.booleans()),
            "inner": draw(st.integers(0, 10**6)),
            "updates": draw(st.booleans()),
        }
        for _ in range(draw(st.integers(1, 3)))
    ]


def moderate(values):
    """Whether numbers are of a size that float32 can be asked to be exact in."""
    return all(np.isfinite(x).all() and np.abs(x).max() < 1e3 for x in values)


def saturates(program, values):
    """Whether a slope, 1 - y * y of a tanh or 1 - y of a logistic, has few digits."""
    lookups, steps, _ = program
    return any(
        name in ("tanh", "logistic") and (1 - np.abs(value)).min() < 1e-4
        for (name, *_), value in zip(steps, values[len(lookups) :], strict=True)
    )


def check(several):
    """Run these graphs, and compare values, gradients and updates."""
    world = Drawing()
    trainer = dy.SimpleSGDTrainer(world.pc, RATE)
    trainer.set_clip_threshold(0)
    parameters = world.W, world.V, world.B, world.E
    arrays = [np.float32(a).astype(np.float64) for a in (W, V, B, E)]
    for number, about in enumerate(several):
        world.new_graph()
        gradients = one_graph(world, about, arrays, f"graph {number} of {several}")
        moves = about["updates"] and gradients is not None and moderate(gradients)
        trainer.learning_rate = RATE if moves else 0.0  # gradients begin anew
        trainer.update()
        for k, p in enumerate(parameters):
            expected = arrays[k] - (RATE * gradients[k] if moves else 0)
            is_near(p.as_array(), expected, f"update {number} of {several}")
            arrays[k] = p.as_array().astype(np.float64)
        if gradients is not None and about["full"]:
            history(world, about, f"graph {number} of {several}")
            trainer.learning_rate = 0.0
            trainer.update()


def one_graph(world, about, arrays, text):
    """Gradients of the parameters; None where numbers became too large."""
    program = about["program"]
    nodes = build(world, program, lambda x: x.dim()[1], about["reads"])
    drawn = len(world.noise)
    if about["aside"] is not None:
        dy.cg_checkpoint()
        aside = build(world, about["aside"], lambda x: x.dim()[1], about["reads"])
        found, noise = dy.npvalues(aside), dy.npvalues(world.noise[drawn:])
        dy.cg_revert()
        noise = [np.atleast_2d(x.T) for x in noise]
        wanted = build(Exact(arrays, noise), about["aside"], len, False)
        if moderate(wanted):
            for got, value in zip(found, wanted, strict=True):
                is_near(np.atleast_2d(got.T), value, text)
    if about["reads all"]:
        dy.npvalues(nodes)
    noise = [rows_of(x) for x in world.noise[:drawn]]
    exact = build(Exact(arrays, noise), program, len, False)
    if not moderate(exact) or saturates(program, exact):
        return None
    chosen = slice(-program[2], None)
    loss = world.loss(nodes[chosen])
    is_near(loss.value(), sum(np.sum(x * x) for x in exact[chosen]), text)
    loss.backward(full=about["full"])
    for node, value in zip(nodes, exact, strict=True):
        is_near(rows_of(node), value, text)

    def along(directions, nudges, step=1e-6):
        """How the loss changes along directions of parameters and of nodes."""
        ends = []
        for by in (step, -step):
            moved = [a + by * d for a, d in zip(arrays, directions, strict=True)]

            def nudge(number, x, by=by):
                return x + by * nudges[number] if number in nudges else x

            found = build(Exact(moved, noise), program, len, False, nudge)
            ends.append(sum(np.sum(x * x) for x in found[chosen]))
        return (ends[0] - ends[1]) / (2 * step)

    parameters = world.W, world.V, world.B, world.E
    gradients = [p.grad_as_array().astype(np.float64) for p in parameters]
    rng = np.random.default_rng(about["inner"])
    directions = [rng.normal(size=a.shape) for a in arrays]
    got = sum(np.sum(g * d) for g, d in zip(gradients, directions, strict=True))
    size = 1 + sum(np.abs(g).sum() for g in gradients)
    slope = along(directions, {})
    assert abs(got - slope) < 1e-3 * size, f"{got} for {slope} of {size}: {text}"
    inner_gradient(nodes, exact, about, along, text)
    return gradients


def inner_gradient(nodes, exact, about, along, text):
    """Of one node that is not another's, too, as a sum over a batch of one is."""
    numbers = [node.index for node in nodes]
    at = about["inner"] % len(nodes)
    if numbers.count(numbers[at]) > 1 or not about["full"]:
        return
    gradient = rows_of_gradient(nodes[at])
    direction = np.random.default_rng(1).normal(size=exact[at].shape)
    none = [np.zeros(a.shape) for a in (W, V, B, E)]
    wanted = along(none, {at: direction})
    size = 1 + np.abs(gradient).sum()
    assert abs(np.sum(gradient * direction) - wanted) < 1e-3 * size, text


def history(world, about, text):
    """In one piece, or with every node read at once: no value or gradient is another.

    Random numbers begin anew with each of the two.
    """
    found = []
    for reads in False, True:
        dy.reset_random_seed(about["inner"] + 1)
        world.new_graph()
        nodes = build(world, about["program"], lambda x: x.dim()[1], False)
        if reads:
            for node in nodes:
                node.npvalue()
        loss = world.loss(nodes[-about["program"][2] :])
        loss.backward(full=True)
        found.append([x for n in nodes for x in (rows_of(n), rows_of_gradient(n))])
    for k, (one, other) in enumerate(zip(*found, strict=True)):
        is_near(one, other, f"node {k // 2} of {text}")


def rows_of_gradient(node):
    return np.atleast_2d(node.gradient().T).astype(np.float64)


def run(graphs, seed, xla):
    """Run so many; those of one seed are made again by it alone.

    Raises:
        AssertionError: one is wrong.
    """
    quick = settings(
        max_examples=AT_ONCE,
        deadline=None,
        database=None,
        phases=[Phase.generate],
        suppress_health_check=list(HealthCheck),
    )
    count = 0

    def in_tier(work):
        nonlocal count
        before, count = RUNTIME.tier, count + 1
        RUNTIME.tier = "xla" if xla and count % xla == 0 else "native"
        try:
            work()
        finally:
            RUNTIME.tier = before

    @quick
    @given(several=rounds())
    def plain(several):
        in_tier(lambda: check(several))

    @settings(quick, max_examples=AT_ONCE // 5)
    @given(data=st.data())
    def of_lengths(data):
        ragged.try_out(data, with_slope=False)

    while count < graphs:
        try:
            dy.reset_random_seed(seed)
            hypothesis.seed(seed)(plain)()
            hypothesis.seed(seed)(of_lengths)()
        except BaseException:
            print(f"python tests/campaign.py --graphs {AT_ONCE} --seed {seed}")
            raise
        seed += 1
        yield count


def main():
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--graphs", type=int, default=1000)
    parser.add_argument("--seed", type=int, default=int(time.time()))
    parser.add_argument("--xla", type=int, default=50, help="0: none")
    asked = parser.parse_args()
    for count in run(asked.graphs, asked.seed, asked.xla):
        if count % 200 == 0:
            print(count, "were right", flush=True)
    print("all were right, from seed", asked.seed)


if __name__ == "__main__":
    main()
