"""Updates by the executor in C++, against the formulas in NumPy and against XLA."""

import threading
from types import SimpleNamespace

import jax
import jax.numpy as jnp
import numpy as np
import pytest

import dynetjax as dy
from dynetjax.engine.runtime import RUNTIME
from dynetjax.model import storage
from dynetjax.native import core
from dynetjax.trainers import averages, base, deferred
from dynetjax.trainers.base import Trainer
from dynetjax.trainers.momentum import momentum
from dynetjax.trainers.native_rule import native_rule
from dynetjax.trainers.rules import RuleOfNumbers, RuleOfOne
from dynetjax.trainers.sgd import sgd

from . import rules
from .rules import clip_factor

TRAINERS = {
    "sgd": (dy.SimpleSGDTrainer, rules.Sgd),
    "cyclical": (
        lambda m: dy.CyclicalSGDTrainer(m, 0.01, 0.2, 2, 0.9),
        lambda shape: rules.Cyclical(shape, 0.01, 0.2, 2, 0.9),
    ),
    "momentum": (dy.MomentumSGDTrainer, rules.Momentum),
    "adagrad": (dy.AdagradTrainer, rules.Adagrad),
    "adadelta": (
        lambda m: dy.AdadeltaTrainer(m, 1e-3, 0.9),
        lambda shape: rules.Adadelta(shape, 1e-3, 0.9),
    ),
    "rmsprop": (dy.RMSPropTrainer, rules.RmsProp),
    "adam": (
        lambda m: dy.AdamTrainer(m, 0.01, 0.8, 0.99, 1e-4),
        lambda shape: rules.Adam(shape, 0.01, 0.8, 0.99, 1e-4),
    ),
    "amsgrad": (
        lambda m: dy.AmsgradTrainer(m, 0.01, 0.8, 0.99, 1e-4),
        lambda shape: rules.Amsgrad(shape, 0.01, 0.8, 0.99, 1e-4),
    ),
}
ROWS, WIDTH = 40, 33
SIZES = [1, 3, 1023, 1024, 1025, 2047, *np.random.RandomState(1).randint(1, 5000, 6)]

pytestmark = pytest.mark.usefixtures("natively")


class World:
    """Parameters of many sizes, a table and a frozen parameter, here and in NumPy."""

    def __init__(self, make, rule, decay=0.0, whole=False, sparse=True):
        self.random = np.random.RandomState(0)
        self.m = dy.ParameterCollection()
        self.m.set_weight_decay(decay)
        self.ours = [self.m.parameters_from_numpy(self.new(n)) for n in SIZES]
        self.table = self.m.lookup_parameters_from_numpy(self.new(ROWS, WIDTH))
        self.ours.append(self.table)
        self.frozen = self.m.parameters_from_numpy(self.new(5))
        self.frozen.set_updated(False)
        self.trainer = make(self.m)
        self.trainer.set_sparse_updates(sparse)
        self.decay, self.whole, self.sparse, self.t = decay, whole, sparse, 0
        self.values = [x.as_array() for x in self.ours]
        self.rules = [rule(v.shape) for v in self.values]

    def new(self, *shape):
        return self.random.randn(*shape).astype(np.float32)

    def step(self, as_array):
        """An update, and what it should come to."""
        self.t += 1
        gradients = [self.new(*v.shape) for v in self.values[:-1]]
        gradients[1] = np.zeros(3)  # it has none
        for k, (x, g) in enumerate(zip(self.ours[:-1], gradients, strict=True)):
            if k != 1:
                x.storage.gradient = as_array(g)
        of_table = np.zeros((ROWS, WIDTH))
        for rows in [7, 3, 7, 7, 39, ROWS + 1], [3, 12]:  # repeatedly, and padding
            values = self.new(len(rows), WIDTH)
            real = [r for r in rows if r < ROWS]
            np.add.at(of_table, real, values[: len(real)])
            values[len(real) :] = np.nan
            rows = np.array(rows, np.int32)
            self.table.storage.add_row_gradients(rows, as_array(values))
        if self.whole:
            g = self.new(ROWS, WIDTH)
            self.table.storage.gradient = as_array(g)
            of_table += g
        g = self.new(5)
        self.frozen.storage.gradient = as_array(g)
        threshold = self.trainer.get_clip_threshold()
        factor = clip_factor([*gradients, of_table, g], threshold)
        self.trainer.update()
        gradients.append(of_table)
        for v, g, rule in zip(self.values, gradients, self.rules, strict=True):
            rows = np.arange(len(v))
            if v.shape == of_table.shape and self.sparse and not self.whole:
                rows = np.array([3, 7, 12, 39])
            v[rows] -= rule.direction(factor * g[rows], rows, self.t)
            v *= 1 - self.decay
        self.frozen.storage.take_gradient()

    def check(self):
        for x, v in zip(self.ours, self.values, strict=True):
            np.testing.assert_allclose(x.as_array(), v, rtol=2e-5, atol=2e-6)


class TestFormula:
    @pytest.mark.parametrize("as_array", [np.asarray, jnp.asarray])
    @pytest.mark.parametrize("clip", [0.0, 1.0, 1e3])
    @pytest.mark.parametrize(("make", "rule"), TRAINERS.values(), ids=TRAINERS)
    def test_clipping(self, make, rule, clip, as_array):
        world = World(make, rule)
        world.trainer.set_clip_threshold(clip)
        for _ in range(3):
            world.step(as_array)
        world.check()
        counted = {0.0: 0, 1.0: 3, 1e3: 0}
        assert world.trainer._clips == counted[clip]

    @pytest.mark.parametrize("decay", [0.0, 0.2])
    @pytest.mark.parametrize("whole", [False, True])
    @pytest.mark.parametrize("sparse", [False, True])
    @pytest.mark.parametrize(("make", "rule"), TRAINERS.values(), ids=TRAINERS)
    def test_tables(self, make, rule, sparse, whole, decay):
        """0.2 of weights go: after seven updates a table's factor is taken in."""
        world = World(make, rule, decay, whole, sparse)
        for _ in range(8):
            world.step(np.asarray)
        world.check()

    def test_nothing_but_gradients_of_xla_comes_from_xla(self, monkeypatch):
        monkeypatch.setattr(Trainer, "_send", None)
        World(dy.AdamTrainer, rules.Adam).step(np.asarray)


@pytest.mark.parametrize(("make", "rule"), TRAINERS.values(), ids=TRAINERS)
def test_against_xla(make, rule, monkeypatch):
    """2e-6 of the largest number of a parameter."""
    found = []
    for tier in "native", "xla":
        monkeypatch.setattr(RUNTIME, "tier", tier)
        world = World(make, rule)
        for _ in range(4):
            world.step(np.asarray)
        found.append([x.as_array() for x in world.ours])
    for a, b in zip(*found, strict=True):
        np.testing.assert_allclose(a, b, rtol=0, atol=2e-6 * np.abs(b).max())


LAZY = {
    "adam": (lambda m: dy.AdamTrainer(m, 0.01, lazy_correct=True), rules.Adam, 0.01),
    "few steps": (
        lambda m: dy.AdamTrainer(m, 0.01, 0.3, 0.9, 0.1, lazy_correct=True),
        lambda shape, rate: rules.Adam(shape, rate, 0.3, 0.9, 0.1),
        0.01,
    ),
    "momentum": (
        lambda m: dy.MomentumSGDTrainer(m, lazy_correct=True),
        rules.Momentum,
        0.01,
    ),
    "rmsprop": (
        lambda m: dy.RMSPropTrainer(m, lazy_correct=True),
        rules.RmsProp,
        0.001,
    ),
}


@pytest.mark.parametrize(("make", "rule", "rate"), LAZY.values(), ids=LAZY)
def test_rows_that_wait(make, rule, rate, monkeypatch):
    """The table stays where it is, and all comes to what dense updates do."""
    monkeypatch.setattr(deferred, "_caught_up", None)
    m, random = dy.ParameterCollection(), np.random.RandomState(0)
    E = m.lookup_parameters_from_numpy(random.randn(9, 5))
    trainer, expected = make(m), E.as_array()
    rule = rule(expected.shape, rate)
    for t, rows in enumerate([[0, 3], [3], [8, 1], [3, 8], [0], [0, 5]], start=1):
        g = random.randn(len(rows), 5).astype(np.float32)
        E.storage.add_row_gradients(np.array(rows, np.int32), g)
        dense = np.zeros(expected.shape)
        dense[rows] = g
        factor = clip_factor([dense], 5.0)
        trainer.update()
        expected -= rule.direction(factor * dense, np.arange(9), t)
        if t == 4:
            np.testing.assert_allclose(E.row_as_array(0), expected[0], rtol=1e-4)
    np.testing.assert_allclose(E.as_array(), expected, rtol=1e-4, atol=1e-6)


@pytest.mark.parametrize("beta", [None, 0.6])
def test_moving_averages(beta, monkeypatch):
    """Nothing goes to the device."""
    monkeypatch.setattr(averages, "_mix", None)
    monkeypatch.setattr(storage, "give_to_device", None)
    m = dy.ParameterCollection()
    W = m.parameters_from_numpy(np.ones(3))
    E = m.lookup_parameters_from_numpy(np.ones((2, 3)))
    trainer = dy.SimpleSGDTrainer(m, 1.0)
    if beta is None:
        trainer.cumulative_moving_average()
    else:
        trainer.exponential_moving_average(beta)
    seen = []
    for _ in range(3):
        W.storage.gradient = np.full(3, 0.5, np.float32)
        rows = np.array([1], np.int32)
        E.storage.add_row_gradients(rows, np.ones((1, 3), np.float32))
        trainer.update()
        seen.append((W.as_array(), E.as_array()))
    shares = (
        np.full(3, 1 / 3) if beta is None else (1 - beta) * beta ** np.arange(3)[::-1]
    )
    trainer.swap_params_to_moving_average()
    for k, x in enumerate((W, E)):
        expected = sum(s * arrays[k] for s, arrays in zip(shares, seen, strict=True))
        np.testing.assert_allclose(x.as_array(), expected, rtol=1e-6)
    trainer.swap_params_to_weights()
    for x, array in zip((W, E), seen[-1], strict=True):
        np.testing.assert_array_equal(x.as_array(), array)


class Signs(Trainer):
    """Moves by the sign of a mean, and towards 0: there is no loop for that."""

    def __init__(self, m):
        super().__init__(m, 0.1, rule=RuleOfNumbers(lambda: signs, (), 1))


def signs(g, state, values, *, step, learning_rate):
    mean = 0.5 * state[0] + 0.5 * g
    return -learning_rate / step * (jnp.sign(mean) + 0.1 * values), (mean,)


class SignsInNumPy:
    def __init__(self, shape):
        self.mean, self.values = np.zeros(shape), None

    def direction(self, g, rows, t):
        self.mean[rows] = 0.5 * self.mean[rows] + 0.5 * g
        shown = self.values[rows]
        return np.float32(0.1) / t * (np.sign(self.mean[rows]) + 0.1 * shown)


class TestOtherRules:
    @pytest.mark.parametrize("decay", [0.0, 0.2])
    @pytest.mark.parametrize("whole", [False, True])
    def test_of_values(self, whole, decay, monkeypatch):
        monkeypatch.setattr(Trainer, "_send", None)
        world = World(Signs, SignsInNumPy, decay, whole)
        for rule, values in zip(world.rules, world.values, strict=True):
            rule.values = values
        for _ in range(3):
            world.step(np.asarray)
        world.check()

    def test_without_byte_code(self, monkeypatch):
        """XLA runs them."""

        class Sorts(Trainer):
            def __init__(self, m):
                rule = RuleOfNumbers(lambda: by_callback, (), 0)
                super().__init__(m, 0.1, rule=rule)

        m = dy.ParameterCollection()
        W = m.parameters_from_numpy(np.ones(3))
        W.storage.gradient = np.full(3, 2, np.float32)
        trainer = Sorts(m)
        monkeypatch.setattr(Trainer, "_update_at_once", None)
        trainer.update()
        np.testing.assert_array_equal(W.as_array(), [-1, -1, -1])


def by_callback(g, state, values, **numbers):
    shape = jax.ShapeDtypeStruct(g.shape, g.dtype)
    return jax.pure_callback(lambda x: -np.asarray(x), shape, g), state


class TestWhere:
    """Updates are made where gradients are."""

    @pytest.fixture(autouse=True)
    def _auto(self, natively, monkeypatch):
        monkeypatch.setattr(RUNTIME, "tier", "auto")

    def setup_method(self):
        m = dy.ParameterCollection()
        self.W = m.parameters_from_numpy(np.ones(3))
        self.E = m.lookup_parameters_from_numpy(np.ones((4, 3)))
        self.trainer, self.count = dy.AdamTrainer(m), 0
        self.natively = 0
        updated = self.trainer._update_at_once

        def count(*about):
            self.natively += 1
            updated(*about)

        self.trainer._update_at_once = count

    def update(self, as_array=None, of_table=False):
        """Whether C++ made it."""
        g = np.ones(3, np.float32)
        if of_table:
            rows = np.array([self.count % 4], np.int32)
            self.E.storage.add_row_gradients(rows, as_array(g[None]))
        elif as_array is not None:
            self.W.storage.gradient = as_array(g)
        self.trainer.update()
        self.count += 1
        natively, self.natively = bool(self.natively), 0
        self.trainer.check()
        assert self.trainer._updates == self.count
        return natively

    @pytest.mark.parametrize("of_table", [False, True])
    def test_of_numpy(self, of_table):
        assert [self.update(np.asarray, of_table) for _ in range(3)] == [True] * 3

    @pytest.mark.parametrize("of_table", [False, True])
    def test_of_jax(self, of_table):
        assert [self.update(jnp.asarray, of_table) for _ in range(3)] == [False] * 3

    def test_without_gradients(self):
        assert self.update()
        assert not self.update(jnp.asarray)
        assert not self.update()

    def test_a_few_others_change_nothing(self):
        for _ in range(3):
            assert self.update(np.asarray)
            found = [self.update(jnp.asarray) for _ in range(base.PATIENCE)]
            assert found == [True] * base.PATIENCE

    def test_many_others_do(self):
        for here, there in [(np.asarray, jnp.asarray), (jnp.asarray, np.asarray)]:
            natively = self.update(here)
            for _ in range(base.PATIENCE):
                assert self.update(there) is natively
            assert self.update(there) is not natively
            self.setup_method()


class TestRefused:
    def setup_method(self):
        self.m = dy.ParameterCollection()
        self.W = self.m.parameters_from_numpy(np.ones((2, 3)))
        self.E = self.m.lookup_parameters_from_numpy(np.ones((4, 3)))
        self.trainer = dy.AdamTrainer(self.m)
        self.backward(1.0)
        self.trainer.update()

    def backward(self, factor):
        dy.renew_cg()
        (dy.sum_elems(self.W * self.E[1]) * factor).backward()

    def state(self):
        found = self.trainer.state_dict()
        return [self.W.as_array(), self.E.as_array(), *found.pop("arrays").values()]

    @pytest.mark.parametrize("bad", [float("nan"), float("inf"), -float("inf"), 1e30])
    def test_at_its_own_line(self, bad):
        """Nothing is changed but that the gradients are gone."""
        before, updates = self.state(), self.trainer._updates
        self.backward(bad)
        with pytest.raises(RuntimeError, match="update: Magnitude of gradient is bad"):
            self.trainer.update()
        for a, b in zip(self.state(), before, strict=True):
            np.testing.assert_array_equal(a, b)
        assert self.trainer._updates == updates
        assert not self.W.grad_as_array().any()
        assert not self.E.grad_as_array().any()
        self.trainer.check()  # it is known
        self.backward(1.0)
        self.trainer.update()

    def test_tells_the_operation(self):
        dy.renew_cg()
        dy.sum_elems(dy.sqrt(self.W - 2)).backward()
        with pytest.raises(
            RuntimeError, match=r"got: +nan in .*, from sqrt \(forward\)"
        ):
            self.trainer.update()

    def test_without_clipping(self):
        self.trainer.set_clip_threshold(0)
        self.backward(float("nan"))
        self.trainer.update()
        assert np.isnan(self.W.as_array()).all()
        assert np.isnan(self.E.as_array()).all(1).tolist() == [
            False,
            True,
            False,
            False,
        ]


class TestHeld:
    def test_a_graph_keeps_the_values_it_began_with(self):
        m = dy.ParameterCollection()
        W = m.parameters_from_numpy(np.full((3, 3), 2.0))
        trainer = dy.SimpleSGDTrainer(m, 1.0)
        trainer.set_clip_threshold(0)
        x = dy.inputVector([1, 1, 1])
        first = W * x
        held = [first.npvalue(), W.storage.host_values(), W.storage.values]
        for _ in range(4):
            W.storage.gradient = np.ones((3, 3), np.float32)
            trainer.update()
            later = W * x  # in the same graph
            np.testing.assert_array_equal(later.npvalue(), [6, 6, 6])
            np.testing.assert_array_equal(held[0], [6, 6, 6])
            for array in held[1:]:
                np.testing.assert_array_equal(array, np.full((3, 3), 2.0))
        np.testing.assert_array_equal(W.as_array(), np.full((3, 3), -2.0))

    @pytest.mark.parametrize("kinds", ["host", "device", "host device", "device host"])
    @pytest.mark.parametrize("decay", [0.0, 0.5])
    def test_arrays_of_a_table_that_others_have_stay(self, decay, kinds):
        m = dy.ParameterCollection()
        m.set_weight_decay(decay)
        E = m.lookup_parameters_from_numpy(np.full((64, 16), 2.0))
        trainer = dy.SimpleSGDTrainer(m, 1.0)
        trainer.set_clip_threshold(0)
        held, expected = [], []
        for k in range(4):
            shown = np.array(E.as_array())
            for kind in kinds.split():
                device = kind == "device"
                held.append(E.storage.values if device else E.storage.host_values())
                expected.append(shown)
            rows = np.array([k], np.int32)
            E.storage.add_row_gradients(rows, np.ones((1, 16), np.float32))
            trainer.update()
        for array, values in zip(held, expected, strict=True):
            np.testing.assert_array_equal(array, values)

    def test_a_table_changes_in_its_place(self):
        m = dy.ParameterCollection()
        E = m.add_lookup_parameters((64, 16))
        trainer = dy.AdamTrainer(m)
        places = set()
        for k in range(3):
            rows = np.array([k], np.int32)
            E.storage.add_row_gradients(rows, np.ones((1, 16), np.float32))
            trainer.update()
            E.storage.host_rows([k])
            places.add(E.storage.host_values().ctypes.data)
        assert len(places) == 1


def test_a_table_that_another_thread_moves_during_an_update(monkeypatch):
    m = dy.ParameterCollection()
    E = m.lookup_parameters_from_numpy(np.zeros((64, 16)))
    trainer = dy.SimpleSGDTrainer(m, 1.0)
    trainer.set_clip_threshold(0)
    update = core.update

    class Core:
        @staticmethod
        def update(*about):
            E.storage.values.block_until_ready()
            return update(*about)

    monkeypatch.setattr("dynetjax.trainers.native_update.core", Core)
    rows = np.array([3], np.int32)
    E.storage.add_row_gradients(rows, np.ones((1, 16), np.float32))
    trainer.update()
    np.testing.assert_array_equal(E.as_array()[3], np.full(16, -1))


def test_threads():
    """Trainers in several threads do what they do in one."""

    def train(seed, found):
        m, random = dy.ParameterCollection(), np.random.RandomState(seed)
        W = m.parameters_from_numpy(random.randn(50, 70))
        E = m.lookup_parameters_from_numpy(random.randn(90, 70))
        trainer = dy.AdamTrainer(m)
        for _ in range(50):
            W.storage.gradient = random.randn(50, 70).astype(np.float32)
            rows = random.randint(0, 90, 8).astype(np.int32)
            E.storage.add_row_gradients(rows, random.randn(8, 70).astype(np.float32))
            trainer.update()
        found[seed] = W.as_array(), E.as_array()

    alone, together = {}, {}
    for seed in range(4):
        train(seed, alone)
    threads = [threading.Thread(target=train, args=(s, together)) for s in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    for seed in range(4):
        for a, b in zip(alone[seed], together[seed], strict=True):
            np.testing.assert_array_equal(a, b)


COUNTS = RuleOfOne((), 0, ("f", "i"), lambda a, b, c, n, g, v: (g * n, n + 1))


class TestCore:
    """What C++ is given is checked before anything is changed."""

    def update(self, **about):
        rule = about.get("rule", sgd())
        parameter = about.get("storage", storage.DenseStorage("x", np.ones(3)))
        parameter.gradient = about.get("gradient", np.ones(3, np.float32))
        block = native_rule(rule), about.get("states", ()), (parameter,)
        common = about.get("common", np.zeros(1, np.float32))
        core.update((0.1, 5.0, 1.0, 1.0), [block], [], (), [], [], common)

    @pytest.mark.parametrize(
        ("about", "match"),
        [
            ({"rule": momentum(0.9)}, "the rule has other states"),
            ({"states": (np.ones(3, np.float32),)}, "the rule has other states"),
            ({"gradient": np.ones(2, np.float32)}, "an array of another size or type"),
            ({"gradient": np.ones(3)}, "an array of another size or type"),
            ({"common": np.ones(0, np.float32)}, "no numbers in common"),
            ({"common": np.ones(1)}, "an array of another size or type"),
            ({"rule": COUNTS}, "the rule has other numbers in common"),
        ],
    )
    def test_errors(self, about, match):
        with pytest.raises(ValueError, match=match):
            self.update(**about)

    def test_what_is_no_storage(self):
        with pytest.raises(TypeError, match="no Storage"):
            self.update(storage=SimpleNamespace())

    @pytest.mark.parametrize(
        ("block", "match"),
        [
            ((sgd(), (), ()), "no Rule|no Storage"),
            ((1, 2), "no tuple of that size"),
            ([], "no tuple of that size"),
        ],
    )
    def test_what_is_no_block(self, block, match):
        common = np.zeros(1, np.float32)
        for lists in ([block], [], ()), ([], [block], (False,)):
            with pytest.raises(TypeError, match=match):
                core.update((0.1, 5.0, 1.0, 1.0), *lists, [], [], common)

    def test_tables(self):
        common, rule = np.zeros(1, np.float32), native_rule(sgd())
        table = storage.TableStorage("E", np.ones((4, 3), np.float32))
        numbers = 0.1, 5.0, 1.0, 1.0
        with pytest.raises(ValueError, match="as many flags as tables"):
            core.update(numbers, [], [(rule, (), table)], (), [], [], common)
        table.gradient = np.ones(11, np.float32)
        for lists in ([(rule, (), table)], (False,), [], []), ([], (), [], [table]):
            with pytest.raises(ValueError, match="an array of another size or type"):
                core.update(numbers, [], *lists, common)
        nothing = storage.DenseStorage("x", np.ones(()))
        with pytest.raises(TypeError, match="no table"):
            core.update(numbers, [], [], (), [], [nothing], common)

    def test_arrays_that_are_not_side_by_side(self):
        with pytest.raises((ValueError, BufferError), match="contiguous"):
            self.update(gradient=np.ones(6, np.float32)[::2])


class TestRoom:
    """Arrays are written to again once nobody has them."""

    def trained(self, hold):
        collection = dy.ParameterCollection()
        W = collection.parameters_from_numpy(np.ones((3, 3)))
        trainer = dy.SimpleSGDTrainer(collection, 0.1)
        kept = []
        for _ in range(6):
            dy.renew_cg()
            loss = dy.sum_elems(W * dy.inputVector([1, 2, 3]))
            loss.backward()
            trainer.update()
            kept.append((W.as_array(), hold(W.storage.host_values())))
        return kept

    @pytest.mark.parametrize(
        "hold",
        [lambda a: a, lambda a: a[1:], lambda a: a.T, memoryview, lambda a: [a, a]],
        ids=["array", "part", "transposed", "buffer", "list"],
    )
    def test_what_somebody_has_is_not_written_to(self, hold):
        for values, held in self.trained(hold):
            np.testing.assert_array_equal(np.asarray(held), np.asarray(hold(values)))

    def test_two_take_turns(self):
        places = [
            a for _, a in self.trained(lambda a: a.__array_interface__["data"][0])
        ]
        assert len({*places[1:]}) == 2

    def test_a_graph_goes_on_with_the_values_that_it_read(self):
        collection = dy.ParameterCollection()
        w = collection.parameters_from_numpy(np.array([2.0]))
        trainer = dy.SimpleSGDTrainer(collection, 0.5)
        dy.renew_cg()
        loss = dy.square(w * dy.scalarInput(1))
        loss.value()
        for _ in range(4):
            loss.backward()
            trainer.update()
        assert (loss * 3).value() == pytest.approx(12)
        assert w.as_array() == pytest.approx(2 - 4 * 0.5 * 4)
