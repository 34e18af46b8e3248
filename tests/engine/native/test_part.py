"""Tier 0 as programs of the user meet it."""

import gc
import re
import threading
import weakref

import jax
import jax.numpy as jnp
import numpy as np
import pytest

import dynetjax as dy
from dynetjax.engine import policy
from dynetjax.engine.native import program
from dynetjax.engine.native.part import NativePart
from dynetjax.engine.runtime import RUNTIME
from dynetjax.graph import current_graph

RNG = np.random.default_rng(4)
W = RNG.normal(size=(3, 3))
B = RNG.normal(size=3)
E = RNG.normal(size=(5, 3))
X = RNG.normal(size=3)
CLOSE = {"rtol": 1e-4, "atol": 1e-5}


@pytest.fixture(autouse=True)
def _tier_0(monkeypatch):
    monkeypatch.setattr(RUNTIME, "tier", "native")


class World:
    def __init__(self):
        self.pc = dy.ParameterCollection()
        self.W = self.pc.parameters_from_numpy(W)
        self.B = self.pc.parameters_from_numpy(B)
        self.E = self.pc.lookup_parameters_from_numpy(E)
        self.trainer = dy.SimpleSGDTrainer(self.pc, 0.1)
        self.trainer.set_clip_threshold(0)
        dy.renew_cg()


@pytest.fixture
def world():
    yield World()
    state = current_graph().state
    assert state is None or all(isinstance(part, NativePart) for part in state.parts)


def close(got, expected):
    np.testing.assert_allclose(got, expected, **CLOSE)


def squares(x):
    return dy.dot_product(x, x)


class TestByteCode:
    def test_is_shared_by_parameters_of_a_shape(self, world, monkeypatch):
        x = dy.inputVector(X)
        close((world.W * x).value(), W @ X)
        monkeypatch.setattr(program, "_traced", None)  # nothing has to be traced
        V = world.pc.parameters_from_numpy(2 * W)
        close((V * x).value(), 2 * W @ X)

    def test_tells_constants_from_what_is_trained(self, world):
        x = dy.inputVector(X)
        close(dy.esum([*(world.W * x)]).value(), (W @ X).sum())
        still = world.W.expr(update=False)
        loss = dy.dot_product(still * x, world.B)
        loss.backward()
        close(world.W.gradient(), 0 * W)
        close(world.B.gradient(), W @ X)


class TestZeros:
    """Those that are made to be read have no rows."""

    def test_sums_and_concatenations(self, world):
        x, none = dy.inputVector(X), dy.zeros(3)
        close(dy.esum([none, x, none]).value(), X)
        close(dy.esum([none, none]).value(), [0, 0, 0])
        close(dy.concatenate([none, x]).value(), [0, 0, 0, *X])
        close((world.W * none + world.B).value(), B)
        close(none.value(), [0, 0, 0])

    def test_gradients(self, world):
        x, none = dy.inputVector(X), dy.zeros(3)
        y = dy.tanh(world.W * (x + none) + world.W * none)
        squares(y).backward()
        out = np.tanh(W @ X)
        close(world.W.grad_as_array(), np.outer(2 * out * (1 - out**2), X))

    def test_states(self, world):
        builder = dy.VanillaLSTMBuilder(1, 3, 2, world.pc)
        states = builder.initial_state().transduce([dy.inputVector(X)])
        assert np.isfinite(states[0].value()).all()
        dy.sum_elems(states[0]).backward()
        assert all(
            np.isfinite(p.grad_as_array()).all() for p in builder.get_parameters()[0]
        )


class TestUpdates:
    def test_rows_are_those_of_now(self, world):
        first = world.E[1]
        close(first.value(), E[1])
        squares(first).backward()
        world.trainer.update()
        later = world.E[1]
        close(later.value(), E[1] - 0.2 * E[1])
        close(first.value(), E[1])

    def test_parameters_are_those_of_the_first_read(self, world):
        """A graph sees one version of each, though an update came between."""
        x = dy.inputVector(X)
        squares(world.W * x).backward()
        world.trainer.update()
        close((world.W * (x * 2)).value(), 2 * W @ X)
        close(world.B.value(), B)
        dy.renew_cg()
        moved = W - 0.2 * np.outer(W @ X, X)
        close((world.W * dy.inputVector(X)).value(), moved @ X)

    def test_several_backwards_before_an_update(self, world):
        x = dy.inputVector(X)
        y = world.W * x
        squares(y).backward()
        squares(y).backward()
        dy.sum_elems(y + world.E[2]).backward()
        slope = 4 * np.outer(W @ X, X) + np.outer(np.ones(3), X)
        close(world.W.grad_as_array(), slope)
        at_table = np.zeros_like(E)
        at_table[2] = 1
        close(world.E.grad_as_array(), at_table)
        world.trainer.update()
        close(world.W.as_array(), W - 0.1 * slope)
        close(world.E.as_array(), E - 0.1 * at_table)

    def test_what_a_backward_did_not_reach_is_not_updated(self):
        """Momentum, which moves a parameter at any gradient, does not begin."""
        world = World()
        trainer = dy.AdamTrainer(world.pc)
        squares(world.W * dy.inputVector(X)).value()
        squares(world.B).backward()
        trainer.update()
        close(world.W.as_array(), W)
        assert not np.allclose(world.B.as_array(), B)

    def test_nor_what_was_reverted(self, world):
        x = dy.inputVector(X)
        x.value()
        dy.cg_checkpoint()
        dy.tanh(world.W * x).value()
        dy.cg_revert()
        loss = squares(dy.cmult(world.B, x))
        loss.value()
        loss.backward()
        trainer = dy.AdamTrainer(world.pc)
        trainer.update()
        close(world.W.as_array(), W)
        assert not np.allclose(world.B.as_array(), B)


class TestValues:
    def test_are_not_the_users_to_change(self, world):
        x = dy.inputVector(X)
        y = world.W * x
        for read in y.npvalue, y.value:
            found = read()
            found[0] = 99.0
        close(y.value(), W @ X)
        close((y * 2).value(), 2 * W @ X)
        squares(y).backward()
        y.gradient()[0] = 99.0
        close(y.gradient(), 2 * W @ X)

    def test_of_a_node_that_was_inlined(self, world):
        """What had no rows of its own gets them when it is read."""
        x = dy.inputVector(X)
        inner = world.W * x
        outer = dy.tanh(inner)
        close(outer.value(), np.tanh(W @ X))
        close(inner.value(), W @ X)
        squares(outer).backward()
        out = np.tanh(W @ X)
        close(inner.gradient(), 2 * out * (1 - out**2))

    def test_in_the_middle(self, world):
        h = dy.inputVector(X)
        expected = np.array(X)
        for k in range(6):
            h = dy.tanh(world.W * h + world.E[k % 5])
            expected = np.tanh(W @ expected + E[k % 5])
            close(h.value(), expected)
        (part,) = current_graph().state.parts
        assert (part.start, part.stop) == (0, len(current_graph().stored))

    def test_of_batches(self, world):
        x = world.E.batch([1, 2, 4])
        y = dy.tanh(world.W * x)
        close(y.npvalue(), np.tanh(W @ E[[1, 2, 4]].T))
        close(dy.sum_batches(y).value(), np.tanh(W @ E[[1, 2, 4]].T).sum(1))
        picked = dy.pick_batch_elems(y, [2, 0])
        close(picked.npvalue(), np.tanh(W @ E[[4, 1]].T))

    def test_are_computed_again(self, world):
        """recalculate() and set() compute the graph anew, with what is there now."""
        x = dy.inputVector(X)
        y = world.W * x
        close(y.value(), W @ X)
        x.set(X + 1)
        close(y.value(), W @ (X + 1))
        squares(y).backward()
        world.trainer.update()
        moved = W - 0.2 * np.outer(W @ (X + 1), X + 1)
        close(y.value(), W @ (X + 1))
        close(y.value(recalculate=True), moved @ (X + 1))
        loss = squares(y)
        close(loss.value(recalculate=True), np.sum((moved @ (X + 1)) ** 2))

    def test_random_ones_are_drawn_once(self, world):
        y = dy.random_normal(100)
        first = y.npvalue()
        z = y + 1
        close(z.npvalue(), first + 1)
        assert abs(first.mean()) < 0.5
        assert 0.6 < first.std() < 1.4

    def test_outlive_the_graph(self, world):
        found = (world.W * dy.inputVector(X)).npvalue()
        dy.renew_cg()
        gc.collect()
        for _ in range(3):
            squares(world.W * dy.inputVector(X * 5)).value()
            dy.renew_cg()
        close(found, W @ X)
        dy.scalarInput(1).value()


class TestReverts:
    def test_other_nodes_after(self, world):
        x = dy.inputVector(X)
        before = dy.tanh(world.W * x)
        before.value()
        for k in range(1, 8):
            dy.cg_checkpoint()
            y = before * float(k)
            if k % 2:
                y = dy.concatenate([y, y])[1:4]
            wanted = np.tanh(W @ X) * k
            close(y.value(), [*wanted[1:], wanted[0]] if k % 2 else wanted)
            dy.cg_revert()
        close(before.value(), np.tanh(W @ X))
        squares(before).backward()
        out = np.tanh(W @ X)
        close(world.W.grad_as_array(), np.outer(2 * out * (1 - out**2), X))

    def test_in_the_middle_of_a_part(self, world):
        x = dy.inputVector(X)
        y = world.W * x
        dy.cg_checkpoint()
        z = dy.tanh(y)
        close(dy.npvalues([y, z])[1], np.tanh(W @ X))
        dy.cg_revert()
        again = dy.cmult(y, y)
        squares(again).backward()
        close(y.gradient(), 4 * (W @ X) ** 3)


class TestGradients:
    def test_of_inner_nodes(self, world):
        x = dy.inputVector(X)
        inner = dy.tanh(world.W * x)
        row = world.E[3]
        loss = squares(inner + row)
        loss.backward(full=True)
        out = np.tanh(W @ X)
        slope = 2 * (out + E[3])
        close(inner.gradient(), slope)
        close(row.gradient(), slope)
        close(x.gradient(), W.T @ (slope * (1 - out**2)))
        close(loss.gradient(), 1)

    def test_of_what_has_no_part_in_it(self, world):
        x, y = dy.inputVector(X), dy.inputVector(X)
        other = dy.tanh(y)
        other.value()
        squares(world.W * x).backward(full=True)
        close(other.gradient(), [0, 0, 0])

    def test_of_batches(self, world):
        x = dy.inputTensor(E.T, batched=True)
        y = world.W * x + world.B
        dy.sum_batches(squares(y)).backward(full=True)
        out = W @ E.T + B[:, None]
        close(world.W.grad_as_array(), 2 * out @ E)
        close(world.B.grad_as_array(), 2 * out.sum(1))
        close(x.gradient(), W.T @ (2 * out))

    def test_of_weights_made_of_others(self, world):
        """A matrix made of parameters: its gradient goes on to these."""
        both = dy.tanh(world.W) * dy.transpose(world.W)
        x = dy.inputVector(X)
        squares(both * x).backward()
        matrix = np.tanh(W) @ W.T
        slope = 2 * np.outer(matrix @ X, X)
        wanted = slope @ W * (1 - np.tanh(W) ** 2) + slope.T @ np.tanh(W)
        close(world.W.grad_as_array(), wanted)

    def test_of_several_weights_of_one_level(self, world):
        """Some have a gradient, some none, and one is made of another."""
        bent, turned = dy.tanh(world.W), dy.transpose(world.W)
        twice = turned + turned
        x = dy.inputVector(X)
        (twice * x).value()
        squares(bent * x + turned * x).backward()
        slope = 2 * np.outer((np.tanh(W) + W.T) @ X, X)
        close(world.W.grad_as_array(), slope * (1 - np.tanh(W) ** 2) + slope.T)


def test_a_graph_with_weights_made_of_others_needs_no_collector(world):
    """Its memory is there for the next graph at once."""
    squares(dy.tanh(world.W) * dy.inputVector(X)).backward()
    weights = weakref.ref(current_graph().state.native.weights)
    gc.collect()
    gc.disable()
    try:
        for _ in range(3):
            dy.renew_cg()
        assert weights() is None
    finally:
        gc.enable()
    dy.scalarInput(1).value()


def test_threads_with_graphs_of_their_own():
    """Each finds what one alone does."""
    worlds = [World() for _ in range(2)]
    found: list = [None, None]
    wrong = []

    def work(me):
        try:
            world, losses = worlds[me], []
            for k in range(30):
                dy.renew_cg()
                h = dy.inputVector(X * (me + 1))
                for step in range(5 + k % 3):
                    h = dy.tanh(world.W * h + world.E[(step + me) % 5])
                    if step % 2:
                        h.value()
                loss = squares(h)
                losses.append(loss.value())
                loss.backward()
                world.trainer.update()
            found[me] = losses
        except BaseException as error:
            wrong.append(error)

    for me in range(2):
        work(me)
    alone = list(found)
    assert not wrong
    worlds = [World() for _ in range(2)]
    threads = [threading.Thread(target=work, args=(me,)) for me in range(2)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert not wrong
    for mine, other in zip(found, alone, strict=True):
        close(mine, other)


class TestOtherTier:
    """What has no byte code is computed by XLA, and what comes after it."""

    def test_half_precision(self):
        before = set(dy.stats().no_byte_code)
        halve = dy.jax_op(lambda x: x.astype(jnp.float16).astype(jnp.float32) / 2)
        world = World()
        y = world.W * dy.inputVector(X)
        close(y.value(), W @ X)
        z = halve(y)
        np.testing.assert_allclose(z.value(), W @ X / 2, rtol=2e-3)
        more = z + dy.inputVector(X)
        squares(more).backward()
        slope = W @ X / 2 + X  # twice that, and half of it goes back
        np.testing.assert_allclose(
            world.W.grad_as_array(), np.outer(slope, X), rtol=5e-3
        )
        parts = current_graph().state.parts
        assert not all(isinstance(part, NativePart) for part in parts)
        (name,) = [x for x in dy.stats().no_byte_code if x not in before]
        assert "jax_op" in name
        assert name in str(dy.stats())

    def test_complex_numbers(self):
        smooth = dy.jax_op(lambda x: jnp.fft.irfft(jnp.fft.rfft(x) * 0.5, len(x)))
        x = dy.inputVector(X)
        y = smooth(x)
        squares(y).backward(full=True)
        close(y.value(), X / 2)
        close(x.gradient(), X / 2)
        assert not all(isinstance(part, NativePart) for part in y.graph.state.parts)

    def test_functions_without_a_derivative(self):
        def halves(x):
            return jax.lax.while_loop(
                lambda y: jnp.abs(y).max() > 1, lambda y: y / 2, x
            )

        op = dy.jax_op(halves)
        World()
        expected = np.array(X * 8)
        while abs(expected).max() > 1:
            expected /= 2
        close(op(dy.inputVector(X * 8)).value(), expected)


def test_explain_names_the_tier(world):
    (world.W * dy.inputVector(X)).value()
    told = dy.explain().text
    assert "nodes 0 to 1: in tier 0, on the host" in told
    assert "1 x matmul(W{3,3}, {3})" in told


class TestInit:
    def test_chooses(self):
        for tier in policy.TIERS:
            dy.init(tier=tier)
            assert RUNTIME.tier == tier

    def test_no_such_tier(self):
        with pytest.raises(ValueError, match=r"no such tier\n.*got: +fast\n.*auto"):
            dy.init(tier="fast")
        assert RUNTIME.tier == "native"


def test_fused_operations_are_timed(world):
    """Forward and backward count as a run each, and rows once."""
    dy.init(profiling=2)
    try:
        dy.reset_stats()
        h = world.E[0]
        for k in 1, 2, 3:
            h = dy.tanh(world.W * h + world.E[k])
        dy.sum_elems(h).backward()
        work = dy.stats().work
        ((label, steps),) = [about for about in work.items() if "tanh" in about[0]]
        assert label in ("tanh+1 {3}", "tanh+2 {3}")  # with the product, or beside it
        assert (steps.runs, steps.trips, steps.rows, steps.room) == (2, 3, 3, 3)
        assert all(each.seconds > 0 for each in work.values())
        assert re.search(rf" [um]?s  {re.escape(label)}", str(dy.stats()))
    finally:
        dy.init(profiling=0)


def test_nothing_is_timed_unasked(world):
    dy.reset_stats()
    dy.sum_elems(dy.tanh(world.E[0])).backward()
    assert not dy.stats().work
