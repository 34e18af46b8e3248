"""What people test their programs with."""

import pathlib

import jax
import jax.numpy as jnp
import numpy as np
import pytest

import dynetjax as dy
from dynetjax.testing import assert_gradients, assert_matches_dynet, record

pytest_plugins = ["dynetjax.testing.plugin"]


def scores(dy, P, L, A):
    """A little of everything: rows, a recurrence, a batch."""
    words = [L("E")[int(k)] for k in A["ids"]]
    h = dy.tanh(P("W") * words[0] + P("b"))
    for word in words[1:]:
        h = dy.cmult(h, dy.logistic(P("W") * word)) + h
    batch = dy.lookup_batch(L("E"), [0, 2])
    return {"h": h, "batch": P("W") * batch, "number": dy.squared_norm(h)}


INPUTS = {
    "W": np.linspace(-1, 1, 12).reshape(4, 3),
    "b": np.array([0.5, 0, -0.5, 1]),
    "E": np.linspace(-2, 1, 15).reshape(5, 3),
    "ids": np.array([1, 4, 1]),
}


class TestGradients:
    def test_right(self, model):
        W, E = model.add_parameters((3, 4)), model.add_lookup_parameters((5, 4))
        lstm = dy.VanillaLSTMBuilder(1, 4, 3, model)
        hs = lstm.initial_state().transduce([E[k] for k in (1, 3, 1)])
        loss = dy.pickneglogsoftmax(W * E[2] + hs[-1], 1)
        assert_gradients(loss, [W, E, *lstm.get_parameters()[0]])

    def test_wrong(self, model):
        @jax.custom_vjp
        def crooked(x):
            return x * x

        crooked.defvjp(lambda x: (x * x, x), lambda x, g: (3 * x * g,))
        p = model.parameters_from_numpy(np.array([1.0, 2.0]))
        loss = dy.sum_elems(dy.jax_op(crooked)(p))
        told = r"/_0\[1\]: 6, the slope is 4; /_0\[0\]: 3, the slope is 2"
        with pytest.raises(AssertionError, match=told):
            assert_gradients(loss, [p])

    def test_what_is_cut_off(self, model):
        p = model.parameters_from_numpy(np.array([1.0, 2.0]))
        loss = dy.squared_norm(dy.nobackprop(p) + p)
        with pytest.raises(AssertionError, match="no slopes of the loss"):
            assert_gradients(loss, [p])

    def test_gradients_stay(self, model):
        p = model.parameters_from_numpy(np.array([1.0, 2.0]))
        E = model.lookup_parameters_from_numpy(np.ones((3, 2)))
        loss = dy.dot_product(p, E[1])
        loss.backward()
        before = p.grad_as_array(), E.grad_as_array()
        assert_gradients(loss, [p, E])
        assert np.array_equal(p.grad_as_array(), before[0])
        assert np.array_equal(E.grad_as_array(), before[1])

    def test_refusals(self, model):
        p, q = model.add_parameters(2), model.add_parameters(2)
        with pytest.raises(ValueError, match="the loss is not one number"):
            assert_gradients(p + 1, [p])
        with pytest.raises(ValueError, match="/_1 is not in the loss"):
            assert_gradients(dy.squared_norm(p), [p, q])


class TestRecordings:
    def test_by_dynet(self):
        """This one was made by DyNet 2.1.2 itself."""
        file = pathlib.Path(__file__).parents[1] / "data" / "recording.npz"
        assert_matches_dynet(scores, file)

    @pytest.fixture
    def file(self, tmp_path):
        record(dy, scores, INPUTS, tmp_path / "scores.npz")
        return tmp_path / "scores.npz"

    def test_the_same(self, file):
        assert_matches_dynet(scores, file)

    def test_values_and_gradients_are_compared(self, file):
        def other(dy, P, L, A):
            found = scores(dy, P, L, A)
            return {**found, "h": found["h"] * 1.01}

        with pytest.raises(AssertionError, match="other differs from DyNet") as raised:
            assert_matches_dynet(other, file)
        for key in ("out/h", "loss/value", "grad/W", "grad/E"):
            assert f"{key}: off by" in str(raised.value)
        assert "out/number" not in str(raised.value)

    def test_shapes_and_absences(self, file):
        def other(dy, P, L, A):
            found = scores(dy, P, L, A)
            return {"h": dy.transpose(found["h"]), "number": found["number"]}

        with pytest.raises(AssertionError, match="out/batch: there is none"):
            assert_matches_dynet(other, file)
        with pytest.raises(AssertionError, match=r"out/h: \(1, 4\), expected \(4,\)"):
            assert_matches_dynet(other, file)

    def test_no_recording(self, tmp_path):
        np.savez(tmp_path / "other.npz", x=np.ones(3))
        with pytest.raises(ValueError, match="is no recording"):
            assert_matches_dynet(scores, tmp_path / "other.npz")

    def test_what_is_recorded(self, file):
        """By NumPy and JAX, of which the rest follows."""
        W, b, E = [jnp.asarray(INPUTS[k], jnp.float32) for k in ("W", "b", "E")]

        def compute(W, b, E):
            rows = [E[k] for k in INPUTS["ids"]]
            h = jnp.tanh(W @ rows[0] + b)
            for row in rows[1:]:
                h = h * jax.nn.sigmoid(W @ row) + h
            return {"h": h, "batch": W @ E[jnp.array([0, 2])].T, "number": h @ h}

        with np.load(file) as stored:
            for name, value in compute(W, b, E).items():
                got = stored[f"out/{name}"].reshape(value.shape)
                assert got == pytest.approx(np.asarray(value), rel=1e-5)

            def loss(*args):
                out = compute(*args)
                return sum(
                    jnp.sum(out[name] * stored[f"R/{name}"].reshape(out[name].shape))
                    for name in out
                )

            for name, value in zip(
                "WbE", jax.grad(loss, (0, 1, 2))(W, b, E), strict=True
            ):
                assert stored[f"grad/{name}"] == pytest.approx(
                    np.asarray(value), rel=1e-4, abs=1e-5
                )
