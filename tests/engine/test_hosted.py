"""Small increments on the host: which they are, and that nothing else is different.

That every operation has the same value there is a law of `tests/ops/laws.py`.
"""

from itertools import pairwise

import jax
import jax.numpy as jnp
import numpy as np
import pytest

import dynetjax as dy
from dynetjax import expression
from dynetjax.engine import beside, compiling, engine, hosted
from dynetjax.engine.explain import describe
from dynetjax.engine.hosted import Hosted
from dynetjax.engine.increments import Increment
from dynetjax.engine.run import Run
from dynetjax.engine.translate import NotTranslatedError, translated
from dynetjax.graph import current_graph

from ..backends import on_cpu

pytestmark = on_cpu

X = np.array([0.5, -1.0, 2.0])


@pytest.fixture
def pc():
    return dy.ParameterCollection()


@pytest.fixture
def W(pc):
    dy.renew_cg()
    matrix = np.random.default_rng(1).uniform(-1, 1, (3, 3))
    return pc.parameters_from_numpy(matrix)


@pytest.fixture
def x(W):
    found = dy.inputVector(X)
    found.value()
    return found


def parts():
    return [type(part) for part in current_graph().state.parts]


def test_a_small_increment(W, x):
    y = dy.tanh(W * x + x)
    expected = np.tanh(W.as_array() @ X + X)
    assert y.npvalue() == pytest.approx(expected, rel=1e-6)
    assert parts() == [Run, Hosted]
    compilations = dy.stats().compilations
    assert dy.square(W * y).npvalue() == pytest.approx((W.as_array() @ expected) ** 2)
    assert parts() == [Run, Hosted, Hosted]
    assert dy.stats().compilations == compilations


@pytest.mark.parametrize(
    "function",
    [
        dy.log_softmax,
        lambda x: dy.pickneglogsoftmax(x, 2),
        lambda x: dy.pick(x, 1) * 0.37,
        lambda x: dy.concatenate([x, dy.logistic(x)]),
        lambda x: dy.esum([x * float(k) for k in range(20)]),
        lambda x: dy.cdiv(dy.dot_product(x, x), dy.l2_norm(x)),
        lambda x: dy.hinge(x, 0),
        lambda x: dy.concatenate_cols([x, x, x]) * x,
    ],
)
def test_on_either_side(x, function, monkeypatch):
    here = function(x).npvalue()
    assert parts()[-1] is Hosted
    monkeypatch.setattr(engine, "host_sees_device", lambda: False)
    there = function(x).npvalue()
    assert parts()[-1] is Increment
    assert here == pytest.approx(there, rel=1e-5, abs=1e-6)


@pytest.mark.parametrize(
    "function", [lambda x: dy.dropout(x, 0.5), dy.erf, lambda x: dy.noise(x, 1.0)]
)
def test_what_is_left_to_the_device(x, function):
    y = function(x)
    y.value()
    assert parts()[-1] is Increment
    assert dy.square(y).npvalue() == pytest.approx(y.npvalue() ** 2, rel=1e-6)
    assert parts()[-1] is Hosted
    assert function(dy.square(y)).npvalue().shape == (3,)  # of what the host has
    assert parts()[-1] is Increment


def test_a_batch_is_left_to_the_device(W):
    x = dy.inputTensor(np.ones((3, 2)), batched=True)
    x.value()
    (W * x).value()
    assert parts()[-1] is Increment


def test_much_is_left_to_the_device(W, x, monkeypatch):
    several = [dy.tanh(W * x) for _ in range(hosted.MOST_NODES + 1)]
    several[-1].value()
    assert parts()[-1] is not Hosted
    monkeypatch.setattr(hosted, "MOST_WORK", 10)
    dy.tanh(W * x).value()
    assert parts()[-1] is not Hosted


def test_zeros_that_are_no_nodes(pc):
    lstm = dy.VanillaLSTMBuilder(1, 3, 4, pc)

    def states(read):
        dy.renew_cg()
        x = dy.inputVector(X)
        if read:
            x.value()
        return lstm.initial_state().add_input(x).add_input(x).s()

    expected = [s.npvalue() for s in states(read=False)]
    found = [s.npvalue() for s in states(read=True)]
    assert parts()[1] is Hosted
    np.testing.assert_allclose(found, expected, rtol=1e-5, atol=1e-7)


def test_rows_of_a_table_are_those_of_now(pc):
    E = pc.lookup_parameters_from_numpy(np.arange(12.0).reshape(4, 3) / 10)
    trainer = dy.SimpleSGDTrainer(pc, 0.1)
    places = []
    for step in range(3):
        row = E.row_as_array(1)
        dy.renew_cg()
        first = E[1]
        loss = dy.squared_norm(first)
        loss.value()
        loss.backward()
        assert E[2].npvalue() == pytest.approx([0.6, 0.7, 0.8])
        trainer.update()
        assert E[1].npvalue() == pytest.approx(0.8 * row, rel=1e-5), step
        assert first.npvalue() == pytest.approx(row)
        assert parts()[1:] == [Hosted, Hosted]
        places.append(E.storage.values.unsafe_buffer_pointer())
    assert places[1] == places[2]  # the table was donated, and not copied


def test_a_parameter_is_as_it_was_when_first_read(pc, W, x):
    y = dy.sum_elems(W * x)
    seen = y.value()
    y.backward()
    dy.SimpleSGDTrainer(pc, 0.1).update()
    assert dy.sum_elems(W * x).value() == pytest.approx(seen, rel=1e-6)


def test_gradients_do_not_depend_on_what_was_read(W):
    def gradient(read):
        dy.renew_cg()
        h = dy.inputVector(X)
        for _ in range(5):
            h = dy.tanh(W * h)
            if read:
                h.value()
        loss = dy.squared_norm(h)
        value = loss.value()
        loss.backward()
        found = W.grad_as_array()
        W.scale_gradient(0)
        return value, found

    (value, found), (seen, other) = gradient(read=False), gradient(read=True)
    assert seen == pytest.approx(value, rel=1e-5)
    np.testing.assert_allclose(other, found, rtol=1e-4, atol=1e-7)


def test_values_are_not_the_users_to_change(W, x):
    y = dy.tanh(W * x)
    seen = y.npvalue()
    y.npvalue()[:] = 7
    assert y.npvalue() == pytest.approx(seen)
    assert dy.square(y).npvalue() == pytest.approx(seen**2)


def test_interrupted(W, x, monkeypatch):
    y = dy.tanh(W * x)
    z = dy.square(y)

    def interrupt(*_, **__):
        raise KeyboardInterrupt

    with monkeypatch.context() as patch:
        patch.setattr(np, "tanh", interrupt)
        with pytest.raises(KeyboardInterrupt):
            z.value()
    assert parts() == [Run]
    assert z.npvalue() == pytest.approx(np.tanh(W.as_array() @ X) ** 2, rel=1e-5)


def test_numbers_that_are_not_finite_are_no_warning(x, recwarn):
    assert dy.log(x * 0.0).npvalue() == pytest.approx([-np.inf] * 3)
    assert np.isnan(dy.log(x - 5.0).npvalue()).all()
    assert parts()[-1] is Hosted
    assert not recwarn.list


def test_explain(W, x):
    dy.tanh(W * x).value()
    told = describe(current_graph())
    assert "one by one, on the host" in told
    assert "tanh" in told


class TestTentative:
    """Graphs that are computed here from their first node on."""

    @pytest.fixture(autouse=True)
    def as_in_a_new_process(self, monkeypatch):
        monkeypatch.setattr(hosted, "TENTATIVE", (4096, 1 << 27))
        monkeypatch.setattr(expression.engine(), "_known", set())

    @pytest.fixture
    def trainer(self, pc):
        return dy.SimpleSGDTrainer(pc, 0.1)

    def test_what_is_asked_for_the_first_time(self, W, trainer):
        for expected in [Hosted, Hosted], [Run, Hosted]:
            dy.renew_cg()
            y = dy.tanh(W * dy.inputVector(X))
            seen = y.npvalue()
            assert seen == pytest.approx(np.tanh(W.as_array() @ X), rel=1e-6)
            found = dy.square(y).npvalue()
            assert found == pytest.approx(seen**2, rel=1e-6)
            assert parts() == expected

    def test_not_a_loss_of_which_there_is_a_program(self, W, trainer, monkeypatch):
        monkeypatch.setattr(Run, "lacks_programs", False)
        dy.squared_norm(dy.tanh(W * dy.inputVector(X))).value()
        assert parts() == [Run]

    def test_not_without_a_trainer(self, W, trainer, monkeypatch):
        maker = expression.engine()._beside
        monkeypatch.setattr(maker, "_is_training", lambda: False)
        dy.tanh(W * dy.inputVector(X)).value()
        assert parts() == [Run]

    def test_not_where_equal_graphs_are_to_be_bitwise_equal(
        self, W, trainer, monkeypatch
    ):
        monkeypatch.setattr(compiling, "_at_once", True)
        dy.tanh(W * dy.inputVector(X)).value()
        assert parts() == [Run]

    def test_not_a_batch(self, W, trainer):
        dy.tanh(W * dy.inputTensor(np.ones((3, 2)), batched=True)).value()
        assert parts() == [Run]

    def test_not_where_there_is_a_device(self, W, trainer, monkeypatch):
        monkeypatch.setattr(beside, "host_sees_device", lambda: False)
        dy.tanh(W * dy.inputVector(X)).value()
        assert parts() == [Run]

    def test_not_much_more_of_a_graph_that_is_never_renewed(
        self, W, trainer, monkeypatch
    ):
        y = dy.tanh(W * dy.inputVector(X))
        y.value()
        for is_small in True, False:
            for _ in range(hosted.MOST_NODES + 1):
                y = dy.tanh(W * y)
            if not is_small:
                monkeypatch.setattr(
                    hosted, "TENTATIVE", (len(y.graph.cells) - 1, 1 << 27)
                )
            y.value()
            assert (parts()[-1] is Hosted) == is_small

    def test_trains_as_all_others(self, monkeypatch):
        """Though planning finds, for the backward alone, what else is to be stored."""

        def train():
            dy.reset_random_seed(5)
            pc = dy.ParameterCollection()
            table = pc.add_lookup_parameters((9, 4))
            lstm = dy.VanillaLSTMBuilder(1, 4, 6, pc)
            out = pc.add_parameters((3, 6))
            trainer = dy.SimpleSGDTrainer(pc, 0.5)
            found = []
            for k in range(3):
                dy.renew_cg()
                xs = [table[(3 * k + j) % 9] for j in range(7)]
                states, losses = lstm.initial_state().transduce(xs), []
                for state, after in pairwise(states):
                    scores = out * dy.tanh(state + after)
                    worst = int(scores.npvalue().argmin())
                    losses.append(dy.pickneglogsoftmax(scores, worst))
                loss = dy.esum(losses)
                found.append(loss.value())
                loss.backward()
                trainer.update()
            return found

        found = train()
        monkeypatch.setattr(hosted, "TENTATIVE", (0, 0))
        assert found == pytest.approx(train(), rel=1e-5)


class TestTranslated:
    def check(self, function, *arrays):
        arguments = [jax.ShapeDtypeStruct(a.shape, a.dtype) for a in arrays]
        given, run = [a.copy() for a in arrays], translated(function, *arguments)
        found = run(*given)
        run(*[a + 1 for a in given])
        np.testing.assert_array_equal(given, arrays)
        expected = np.asarray(function(*arrays))
        assert isinstance(found, np.ndarray)
        assert (found.dtype, found.shape) == (expected.dtype, expected.shape)
        np.testing.assert_allclose(found, expected, rtol=1e-6)

    @pytest.mark.parametrize(
        "function",
        [
            lambda a, b: a.T @ b,
            lambda a, b: jnp.tensordot(a, b, ((0,), (1,))),
            lambda a, b: jnp.einsum("ij,ik->kj", a, b),
            lambda a, b: jnp.where(a > 0, a, b).sum(),
            lambda a, b: jnp.split(a, 2)[1] + b[1:, :1] ** 3,
            lambda a, b: jnp.cumsum(a, 1) + jnp.arange(2.0)[:, None],
            lambda a, b: jax.nn.logsumexp(a, 0) - jnp.clip(b[0], 0.1, 0.5),
            lambda a, b: a.argmax(0).astype(jnp.float32) * b,
            lambda a, b: jax.lax.dynamic_slice(a, (jnp.int32(b[0, 0]) + 5, 0), (1, 2)),
            # what is read again, as it is or a part of it, keeps its numbers
            lambda a, b: (c := a + b) * jnp.tanh(c),
            lambda a, b: (c := a + b)[0] + (c * 2)[1],
            lambda a, b: (d := jnp.exp((c := a @ b)[0])) - c.T[1] * d,
            lambda a, b: jnp.where((c := a - b) > 0, jnp.exp(c), c),
            lambda a, b: jnp.maximum(a[0] + 1, 1.5) / (b[0] + 2),
            lambda a, b: jnp.stack([a, b], 1)[:, 0] + jnp.unstack(a, axis=1)[1],
            lambda a, b: jnp.tensordot(a[0], b, 0),
            lambda a, b: jax.lax.cumsum(a, 1, reverse=True) * b,
            lambda a, b: jax.lax.pad(a, 3.0, ((1, 2, 0), (0, 1, 2))),
            lambda a, b: jax.lax.pad(a, 3.0, ((-1, 2, 1), (1, -2, 0))),
            lambda a, b: jax.lax.dynamic_update_slice(a, b[:1], (jnp.int32(5), 0)),
            lambda a, b: jax.vjp(jnp.sum, jnp.tanh(a @ b))[1](a[0, 1])[0],
            # in another shape and back
            lambda a, b: (a.reshape(4, 1) * 2 + b.reshape(4, 1)).reshape(2, 2),
            lambda a, b: ((a + b).reshape(4) - 1).reshape(1, 4) * b.reshape(1, 4),
            lambda a, b: (a.sum().reshape(1) * 2 + b.sum().reshape(1)).reshape(()),
            lambda a, b: a,
            lambda a, b: b[1],
        ],
    )
    def test_functions_of_two_matrices(self, function):
        rng = np.random.default_rng(2)
        self.check(function, *rng.uniform(-1, 1, (2, 2, 2)).astype(np.float32))

    def test_several_results(self):
        """Each keeps its numbers, as do parts of the same array."""

        def several(x):
            y = x * 2
            return [y, y[0], jnp.tanh(y), x, y.sum()]

        run = translated(several, jax.ShapeDtypeStruct((2, 3), np.float32))
        x = np.arange(6, dtype=np.float32).reshape(2, 3)
        found = run(x)
        assert isinstance(found, tuple)
        for one, other in zip(found, several(x), strict=True):
            np.testing.assert_allclose(one, other, rtol=1e-6)
        run = translated(lambda x: [x + 1], jax.ShapeDtypeStruct((), np.float32))
        assert run(np.float32(1)) == (2,)

    def test_arrays_are_written_into(self):
        taken = []

        class Counting(np.ndarray):
            def __array_ufunc__(self, function, method, *arrays, out=None, **others):
                taken.append(out is not None)
                plain = [np.asarray(a) for a in arrays]
                if out is not None:
                    others["out"] = tuple(map(np.asarray, out))
                found = getattr(function, method)(*plain, **others)
                return out[0] if out is not None else found.view(Counting)

        shape = jax.ShapeDtypeStruct((3,), np.float32)
        run = translated(lambda x: jnp.tanh(x * 2 + 1) * 3, shape)
        x = np.array([0.1, -0.2, 0.3], np.float32)
        found = np.asarray(run(x.view(Counting)))
        np.testing.assert_allclose(found, np.tanh(x * 2 + 1) * 3, rtol=1e-6)
        assert taken == [False, True, True, True]

    def test_what_has_no_line(self):
        with pytest.raises(NotTranslatedError, match="erf"):
            translated(jax.lax.erf, jax.ShapeDtypeStruct((2,), np.float32))
        shape = jax.ShapeDtypeStruct((2, 2, 2), np.float32)
        with pytest.raises(NotTranslatedError, match="batch"):
            translated(lambda x: x @ x, shape)
