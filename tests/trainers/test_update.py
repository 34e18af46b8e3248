"""The compiled update by itself: what it refuses, and the memory that it needs."""

import re

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from dynetjax.trainers.adam import adam
from dynetjax.trainers.sparse import Gradient
from dynetjax.trainers.update import (
    Gradients,
    Targets,
    compiled_update,
    pack,
    scalars,
)

from ..backends import on_cpu
from .rules import Adam, clip_factor

RULE = adam(0.9, 0.999, 1e-8)
ROWS, SIZE = 6, 3


def targets(table, random=None):
    """A table and a state, of zeros or of random numbers."""
    state = RULE.init(jnp.asarray(table))
    if random is not None:
        state = jax.tree.map(
            lambda x: jnp.asarray(random.rand(*x.shape), x.dtype), state
        )
    return Targets([], [jnp.asarray(table, jnp.float32)], [state])


def rows_gradient(rows, values):
    return Gradients([], [Gradient(np.int32(rows), jnp.asarray(values), None)], [], [])


def on_host(tree):
    return [np.array(leaf) for leaf in jax.tree.leaves(tree)]


class TestTableEverywhere:
    """The rule on all rows, where few have a gradient."""

    def test_formula(self):
        """Rows touched now, before and never, against NumPy."""
        random = np.random.RandomState(0)
        expected = random.randn(ROWS, SIZE)
        rule, now = Adam(expected.shape, rate=0.1), targets(expected)
        for t, rows in enumerate([[0, 1], [1, 2], [4], []], start=1):
            values = random.randn(len(rows), SIZE).astype(np.float32) * 3
            dense = np.zeros(expected.shape)
            dense[rows] = values
            now, _, norm = compiled_update(RULE)(
                scalars(0.1, 5.0, t), [], now, rows_gradient(rows, values), (True,), ()
            )
            np.testing.assert_allclose(norm, np.linalg.norm(dense), rtol=1e-6)
            factor = clip_factor([dense], 5.0)
            everything = np.arange(ROWS)
            expected -= rule.direction(factor * dense, everything, t)
            np.testing.assert_allclose(now.tables[0], expected, rtol=1e-5, atol=1e-6)
            np.testing.assert_allclose(
                now.table_states[0][0], rule.m, rtol=1e-4, atol=1e-6
            )
            np.testing.assert_allclose(
                now.table_states[0][1], rule.v, rtol=1e-4, atol=1e-6
            )


@pytest.mark.parametrize(
    ("size", "room", "touched"),
    [
        (7, 4, 2),
        (7, 0, 0),
        (500, 128, 37),
        (500, 128, 0),
        (500, 600, 100),
        (100, 300, 100),
    ],
)
@pytest.mark.parametrize("platform", ["cpu", "gpu"])
def test_rows_some_at_a_time(monkeypatch, platform, size, room, touched):
    """Every touched row changes once, in whatever parts, and no other."""
    monkeypatch.setattr(jax, "default_backend", lambda: platform)
    update = compiled_update.__wrapped__(RULE)
    random = np.random.RandomState(3)
    expected = random.randn(size, SIZE)
    rule, now = Adam(expected.shape, rate=0.1), targets(expected)
    for t in range(1, 4):
        rows = np.full(room, size)
        values = random.randn(room, SIZE).astype(np.float32)
        which = random.permutation(size)[:touched]
        rows[random.permutation(room)[:touched]] = which
        dense = np.zeros(expected.shape)
        dense[rows[rows < size]] = values[rows < size]
        now, _, norm = update(
            scalars(0.1, 5.0, t), [], now, rows_gradient(rows, values), (False,), ()
        )
        np.testing.assert_allclose(norm, np.linalg.norm(dense), rtol=1e-5)
        clipped = clip_factor([dense], 5.0) * dense[which]
        expected[which] -= rule.direction(clipped, which, t)
        np.testing.assert_allclose(now.tables[0], expected, rtol=1e-5, atol=1e-5)


@pytest.mark.parametrize("platform", ["cpu", "gpu"])
class TestRefused:
    """A norm of NaN changes no bit, by a branch or by a choice per number."""

    @pytest.mark.parametrize("everywhere", [False, True])
    def test_table(self, monkeypatch, platform, everywhere):
        update = self.update(monkeypatch, platform)
        random = np.random.RandomState(1)
        now = targets(random.randn(ROWS, SIZE), random)
        before = on_host(now)
        bad = rows_gradient([1, 4], np.array([[1, 2, 3], [4, np.nan, 5]], np.float32))
        after, _, norm = update(scalars(0.1, 5.0, 7), [], now, bad, (everywhere,), ())
        assert np.isnan(norm)
        for old, new in zip(before, on_host(after), strict=True):
            assert old.tobytes() == new.tobytes()

    @pytest.mark.parametrize("number", [np.nan, np.inf])
    def test_block(self, monkeypatch, platform, number):
        update = self.update(monkeypatch, platform)
        values = [jnp.array([1.0, -0.0]), jnp.full((2, 2), 3.0)]
        state = jax.tree.map(lambda x: x + 0.5, RULE.init(jnp.zeros(6)))
        before = on_host([values, state])
        gradients = [jnp.array([number, 1.0]), jnp.ones((2, 2))]
        after, new_values, _ = update(
            scalars(0.1, 5.0, 7),
            [values],
            Targets([state], [], []),
            Gradients([gradients], [], [], []),
            (),
            (),
        )
        for old, new in zip(before, on_host([new_values, after]), strict=True):
            assert old.tobytes() == new.tobytes()

    def test_accepted(self, monkeypatch, platform):
        """The two ways are one update where nothing is refused."""
        update = self.update(monkeypatch, platform)
        g = rows_gradient([2], np.ones((1, SIZE), np.float32))
        table = np.zeros((ROWS, SIZE))
        after, _, _ = update(scalars(0.1, 5.0, 1), [], targets(table), g, (True,), ())
        table[2] = -Adam((SIZE,), rate=0.1).direction(np.ones(SIZE), np.arange(SIZE), 1)
        np.testing.assert_allclose(after.tables[0], table, rtol=1e-5)

    def update(self, monkeypatch, platform):
        monkeypatch.setattr(jax, "default_backend", lambda: platform)
        return compiled_update.__wrapped__(RULE)


@on_cpu
class TestMemory:
    """Nothing as large as a table is copied; one array of zeros is all."""

    SHAPE = 4096, 128
    BYTES = 4 * 4096 * 128

    @pytest.mark.parametrize(("everywhere", "arrays"), [(False, 0.2), (True, 1.2)])
    def test_table(self, everywhere, arrays):
        now = targets(jnp.zeros(self.SHAPE))
        g = rows_gradient(np.arange(64), jnp.ones((64, 128)))
        self.check(arrays, [], now, g, (everywhere,))

    def test_large_parameter(self):
        values, state = jnp.zeros(self.SHAPE), RULE.init(jnp.zeros(4096 * 128))
        g = Gradients([[jnp.ones(self.SHAPE)]], [], [], [])
        self.check(0.1, [[values]], Targets([state], [], []), g, ())

    def test_parameter_of_the_shape_of_a_table(self):
        """The first results of a shape take the places of what is donated."""
        values, state = jnp.zeros(self.SHAPE), RULE.init(jnp.zeros(4096 * 128))
        _, tables, table_states = targets(jnp.zeros(self.SHAPE))
        rows = rows_gradient(np.arange(64), jnp.ones((64, 128)))
        g = rows._replace(blocks=[[jnp.ones(self.SHAPE)]])
        self.check(0.2, [[values]], Targets([state], tables, table_states), g, (False,))

    def check(self, arrays, values, now, gradients, dense):
        packed, bare, sizes = pack(scalars(0.1, 5.0, 1), gradients)
        program = compiled_update(RULE).program(dense, (), sizes)
        compiled = program.lowered((packed, values, now, bare)).compile()
        assert not re.findall(
            r"f32\[(?:4096,128|524288)\]\S* copy\(", compiled.as_text()
        )
        used = compiled.memory_analysis()
        assert used.temp_size_in_bytes <= arrays * self.BYTES
        donated = sum(leaf.nbytes for leaf in jax.tree.leaves(now))
        assert used.alias_size_in_bytes == donated


def test_two_models_of_a_rule():
    """Where sizes of gradients agree, they share a program, of whatever shapes."""
    update = compiled_update.__wrapped__(RULE)
    for size in SIZE, 2 * SIZE, SIZE:
        now = targets(np.zeros((ROWS, size), np.float32))
        g = rows_gradient([1, 2], np.ones((2, size), np.float32))
        now, _, norm = update(scalars(0.1, 0.0, 1), [], now, g, (False,), ())
        np.testing.assert_allclose(norm, np.sqrt(2 * size), rtol=1e-6)
        moved = np.flatnonzero(np.asarray(now.tables[0]).any(axis=1))
        np.testing.assert_array_equal(moved, [1, 2])
    assert len(update.programs) == 1
