"""Whatever a user does with a trainer, in any order, against the algorithm in NumPy."""

from collections.abc import Callable
from typing import Any, NamedTuple

import numpy as np
import optax
import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

import dynetjax as dy
from dynetjax.engine.runtime import RUNTIME
from dynetjax.trainers.base import Trainer

from .rules import Adam, Cyclical, Eg, Momentum, RmsProp, clip_factor
from .test_base import TRAINERS, give, settled_update

ROWS, PART = 64, 64  # of the table, and of what one backward gives it


class Case(NamedTuple):
    """A trainer of a collection, and its formula for an array of some shape.

    With `lazy`, sparse updates come to the same as dense ones.
    """

    trainer: Callable[[dy.ParameterCollection], Trainer]
    rule: Callable[[tuple[int, ...]], Any]
    lazy: bool = False


def lazy(trainer_class, rule):
    return Case(lambda m: trainer_class(m, lazy_correct=True), rule, lazy=True)


CASES = {trainer.__name__: Case(trainer, rule) for trainer, rule in TRAINERS}
CASES |= {
    # Few updates up, and few down.
    "CyclicalSGDTrainer": Case(
        lambda m: dy.CyclicalSGDTrainer(m, 0.01, 0.2, 2, 0.9),
        lambda shape: Cyclical(shape, 0.01, 0.2, 2, 0.9),
    ),
    "EGTrainer": Case(dy.EGTrainer, Eg),
    "OptaxTrainer": Case(
        lambda m: dy.OptaxTrainer(m, optax.rmsprop(1.0)),
        lambda shape: RmsProp(shape, rate=1.0),
    ),
    "lazy AdamTrainer": lazy(dy.AdamTrainer, Adam),
    "lazy MomentumSGDTrainer": lazy(dy.MomentumSGDTrainer, Momentum),
    "lazy RMSPropTrainer": lazy(dy.RMSPropTrainer, RmsProp),
}

rows = st.lists(st.sampled_from([0, 1, 2, 63]), min_size=1, max_size=3)
which = st.sampled_from(["W", "E"])
STEPS = st.one_of(
    st.tuples(st.sampled_from(["train", "backward"]), rows, st.sampled_from([0.1, 4])),
    st.tuples(st.just("train"), rows, st.just(1)),
    st.tuples(st.just("train"), st.just([0, 1]), st.just(1)),
    st.tuples(st.just("update")),
    st.tuples(st.just("whole_table")),
    st.tuples(st.just("refused_update")),
    st.tuples(st.just("freeze"), which),
    st.tuples(st.just("scale_gradient"), which, st.sampled_from([-0.5, 3.0])),
    st.tuples(st.just("restart"), st.sampled_from([None, 0.02])),
    st.tuples(st.just("learning_rate"), st.sampled_from([0.05, 0.003])),
    st.tuples(st.just("clip"), st.sampled_from([0.0, 0.5, 5.0])),
    st.tuples(st.just("add")),
    st.tuples(st.just("toggle_sparse")),
    st.tuples(st.just("decay"), st.sampled_from([0.0, 0.2])),
    st.tuples(st.just("init_row")),
    st.tuples(st.just("move")),
    st.tuples(st.just("compare")),
)
SET_APART = [("train", [0], 1), ("freeze", "W"), ("update",)]
FROZEN_TABLE = [("train", [0], 1), ("freeze", "E"), ("update",)]


class Numbers:
    """A parameter or a table, here and in NumPy."""

    def __init__(self, ours, rule):
        self.ours, self.rule = ours, rule
        self.values = ours.as_array()
        self.clear()

    @property
    def is_table(self):
        return isinstance(self.ours, dy.LookupParameters)

    def clear(self):
        self.gradient, self.touched = np.zeros(self.values.shape), set()

    def rows(self, sparse):
        """Those that an update goes to."""
        if self.is_table and sparse:
            return sorted(self.touched)
        return np.arange(len(self.values))


class World:
    """A trainer, and what it should do."""

    def __init__(self, case):
        self.case, self.random = case, np.random.RandomState(0)
        self.m = dy.ParameterCollection()
        self.trainer = case.trainer(self.m)
        self.rate = self.trainer.learning_rate
        self.t, self.threshold, self.lam, self.sparse = 0, 5.0, 0.0, True
        random = self.random.rand  # not below 0: EGTrainer has logarithms
        self.all = {
            "W": self.known(self.m.parameters_from_numpy(random(3))),
            "E": self.known(self.m.lookup_parameters_from_numpy(random(ROWS, 2))),
        }

    def known(self, ours):
        return Numbers(ours, self.case.rule(ours.shape()))

    def backward(self, rows, size):
        """Gradients as the engine leaves them."""
        for numbers in self.all.values():
            if numbers.is_table:
                ids = np.full(PART, ROWS + 3, np.int32)
                ids[: len(rows)] = rows
                values = size * self.random.randn(PART, 2).astype(np.float32)
                numbers.ours.storage.add_row_gradients(ids, values)
                np.add.at(numbers.gradient, rows, values[: len(rows)])
                numbers.touched.update(rows)
            else:
                g = size * self.random.randn(*numbers.values.shape).astype(np.float32)
                give(numbers.ours.storage, g)
                numbers.gradient += g

    def train(self, rows, size):
        self.backward(rows, size)
        self.update()

    def whole_table(self):
        """The table was used otherwise than by its rows."""
        table, g = self.all["E"], self.random.randn(ROWS, 2).astype(np.float32)
        give(table.ours.storage, g)
        table.gradient += g
        table.touched.update(range(ROWS))

    def update(self):
        self.trainer.update()
        self.t += 1
        everything = self.all.values()
        factor = clip_factor([x.gradient for x in everything], self.threshold)
        for x in everything:
            if x.ours.is_updated():
                x.rule.rate, x.rule.values = self.rate, x.values
                x.rule.by_row = x.is_table
                rows = x.rows(self.sparse and not self.case.lazy)
                g = factor * x.gradient[rows]
                x.values[rows] -= x.rule.direction(g, rows, self.t)
                x.values *= 1 - self.lam
                x.clear()
        if isinstance(self.trainer, dy.CyclicalSGDTrainer):
            self.rate = self.case.rule((1,)).rate_at(self.t + 1)

    def refused_update(self):
        """Nothing happens; the gradients are then cleared."""
        if self.threshold > 0:
            give(self.all["W"].ours.storage, np.full(3, np.nan))
            with pytest.raises(RuntimeError):
                settled_update(self.trainer)
            for x in self.all.values():
                x.ours.storage.take_gradient()
                x.clear()

    def freeze(self, name):
        """Or thaw."""
        ours = self.all[name].ours
        ours.set_updated(not ours.is_updated())

    def scale_gradient(self, name, factor):
        self.all[name].ours.scale_gradient(factor)
        self.all[name].gradient *= factor

    def restart(self, rate):
        self.trainer.restart(rate)
        for x in self.all.values():
            x.rule = self.case.rule(x.values.shape)
        self.rate = self.rate if rate is None else rate

    def learning_rate(self, rate):
        self.trainer.learning_rate = self.rate = rate

    def clip(self, threshold):
        self.trainer.set_clip_threshold(threshold)
        self.threshold = threshold

    def add(self):
        """One more parameter, in a sub-collection; not a second one."""
        if "late" not in self.all:
            made = self.m.add_subcollection().parameters_from_numpy(np.ones((2, 2)))
            self.all["late"] = self.known(made)

    def toggle_sparse(self):
        self.sparse = not self.sparse
        self.trainer.set_sparse_updates(self.sparse)

    def decay(self, lam):
        if self.case.lazy:
            return  # these trainers refuse it
        self.m.set_weight_decay(lam)
        self.lam = lam

    def init_row(self):
        table = self.all["E"]
        table.values[1] = [1.0, 0.25]
        table.ours.init_row(1, table.values[1])

    def move(self):
        """From one executor to the other."""
        RUNTIME.tier = "native" if RUNTIME.tier == "xla" else "xla"

    def compare(self):
        for x in self.all.values():
            close = {"rtol": 1e-4, "atol": 1e-5}
            np.testing.assert_allclose(x.ours.as_array(), x.values, **close)
            np.testing.assert_allclose(x.ours.grad_as_array(), x.gradient, **close)
        np.testing.assert_allclose(self.trainer.learning_rate, self.rate, rtol=1e-6)


BY_XLA = {"EGTrainer"}  # whose rule is not of numbers


@pytest.mark.parametrize(
    ("case", "tier"),
    [
        pytest.param(case, tier, id=f"{name}-{tier}")
        for name, case in CASES.items()
        for tier in (["xla"] if name in BY_XLA else ["native", "xla"])
    ],
)
@settings(max_examples=40, deadline=None, derandomize=True, database=None)
@example(steps=[*SET_APART, ("restart", None), ("freeze", "W")])
@example(steps=[*FROZEN_TABLE, ("compare",), ("freeze", "E")])
@given(steps=st.lists(STEPS, min_size=8, max_size=24))
def test_sequence(case, tier, steps):
    """Weight decay takes its share of all that is updated, and of nothing else."""
    before, RUNTIME.tier = RUNTIME.tier, tier
    try:
        world = World(case)
        for name, *arguments in [*steps, ("compare",), ("update",), ("compare",)]:
            getattr(world, name)(*arguments)
    finally:
        RUNTIME.tier = before


def test_every_trainer_has_a_case():
    """A new one needs its formula in rules.py."""
    found = [made for made in vars(dy).values() if isinstance(made, type)]
    trainers = {made.__name__ for made in found if issubclass(made, Trainer)}
    assert trainers - {"Trainer"} <= set(CASES)
