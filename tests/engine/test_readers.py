"""Gradients that rows get from those who read them, however many these are."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest

import dynetjax as dy

SIZE, ROWS = 4, 6
RNG = np.random.default_rng(5)
ARRAYS = {
    "W": RNG.normal(size=(SIZE, SIZE)) * 0.5,
    "U": RNG.normal(size=(SIZE, SIZE)) * 0.5,
    "E": RNG.normal(size=(ROWS, SIZE)),
}


class Model:
    """A table and two matrices."""

    def __init__(self):
        pc = dy.ParameterCollection()
        self.W = pc.parameters_from_numpy(ARRAYS["W"])
        self.U = pc.parameters_from_numpy(ARRAYS["U"])
        self.E = pc.lookup_parameters_from_numpy(ARRAYS["E"])


def one_reader(m, words):
    """A chain: what a step reads of the last is read by no other."""
    h = m.E[words[0]]
    for w in words[1:]:
        h = dy.tanh(m.W * h + m.E[w])
    return dy.sum_elems(h)


def one_reader_directly(a, words):
    h = a["E"][words[0]]
    for w in words[1:]:
        h = jnp.tanh(a["W"] @ h + a["E"][w])
    return h.sum()


def two_readers(m, words):
    """Two operations of a step read the last one's result."""
    h = m.E[words[0]]
    for w in words[1:]:
        gate = dy.logistic(m.U * h)
        h = dy.cmult(gate, dy.tanh(m.W * h)) + m.E[w]
    return dy.sum_elems(h)


def two_readers_directly(a, words):
    h = a["E"][words[0]]
    for w in words[1:]:
        h = jax.nn.sigmoid(a["U"] @ h) * jnp.tanh(a["W"] @ h) + a["E"][w]
    return h.sum()


def many_readers(m, words):
    """Every pair of words meets, in one operation."""
    hs = [dy.tanh(m.W * m.E[w]) for w in words]
    return dy.esum([dy.square(dy.dot_product(x, y)) for x in hs for y in hs])


def many_readers_directly(a, words):
    h = jnp.tanh(a["E"][jnp.array(words)] @ a["W"].T)
    return jnp.sum((h @ h.T) ** 2)


def shared(m, words):
    """One row for a whole batch."""
    h = dy.tanh(m.W * m.E[words[0]])
    many = dy.tanh(m.U * dy.lookup_batch(m.E, words))
    return dy.sum_batches(dy.dot_product(h, many))


def shared_directly(a, words):
    h = jnp.tanh(a["W"] @ a["E"][words[0]])
    return jnp.sum(jnp.tanh(a["E"][jnp.array(words)] @ a["U"].T) @ h)


def chosen(m, words):
    """Rows of a batch, some of them again and again."""
    many = dy.tanh(m.U * dy.lookup_batch(m.E, words))
    some = dy.pick_batch_elems(many, [k // 2 for k in range(len(words))])
    return dy.sum_batches(dy.sum_elems(dy.square(dy.tanh(m.W * some))))


def chosen_directly(a, words):
    many = jnp.tanh(a["E"][jnp.array(words)] @ a["U"].T)
    some = many[jnp.arange(len(words)) // 2]
    return jnp.sum(jnp.tanh(some @ a["W"].T) ** 2)


def side_by_side(m, words):
    """Columns of a matrix, whose width is a length."""
    xs = dy.concatenate_cols([dy.tanh(m.W * m.E[w]) for w in words])
    return dy.sum_elems(dy.square(m.U * xs))


def side_by_side_directly(a, words):
    xs = jnp.tanh(a["E"][jnp.array(words)] @ a["W"].T)
    return jnp.sum((xs @ a["U"].T) ** 2)


PROGRAMS = [
    (one_reader, one_reader_directly),
    (two_readers, two_readers_directly),
    (many_readers, many_readers_directly),
    (shared, shared_directly),
    (chosen, chosen_directly),
    (side_by_side, side_by_side_directly),
]
IDS = [program.__name__ for program, _ in PROGRAMS]


def gradients(m, program, words):
    """Of the parameters and the table."""
    for p in (m.W, m.U, m.E):
        p.scale_gradient(0)
    dy.renew_cg()
    loss = program(m, words)
    loss.value()
    loss.backward()
    return {
        "W": m.W.grad_as_array(),
        "U": m.U.grad_as_array(),
        "E": m.E.grad_as_array(),
    }


@pytest.mark.parametrize(("program", "directly"), PROGRAMS, ids=IDS)
def test_gradients(program, directly):
    """In the first graphs and in later ones, of several lengths."""
    m = Model()
    for length in [3, 2, 7, 40, 5, 6, 2]:
        words = np.random.default_rng(length).integers(ROWS, size=length).tolist()
        arrays = {k: jnp.asarray(a, jnp.float32) for k, a in ARRAYS.items()}
        with jax.default_matmul_precision("float32"):  # a GPU would round the operands
            expected = jax.grad(directly)(arrays, words)
        for name, got in gradients(m, program, words).items():
            wanted = expected[name]
            scale = max(1.0, float(jnp.abs(wanted).max()))
            np.testing.assert_allclose(got / scale, wanted / scale, atol=1e-5)


def test_gradients_at_nodes_are_asked_for_again_and_again():
    """A loss and its backward take a run each, and later graphs need no other."""
    m = Model()

    def runs():
        before = dy.stats().runs
        dy.renew_cg()
        x = m.E[1]
        inner = dy.tanh(m.W * x)
        loss = dy.squared_norm(inner)
        loss.value()
        loss.backward()
        np.testing.assert_allclose(inner.gradient(), 2 * inner.npvalue(), rtol=1e-5)
        assert np.abs(x.gradient()).max() > 0
        return dy.stats().runs - before

    assert [runs() for _ in range(3)][1:] == [2, 2]


def test_a_full_backward_has_gradients_at_nodes():
    """Nothing runs once more for them."""
    m = Model()
    dy.renew_cg()
    x = m.E[1]
    loss = dy.squared_norm(dy.tanh(m.W * x))
    loss.backward(full=True)
    before = dy.stats().runs
    assert np.abs(x.gradient()).max() > 0
    assert dy.stats().runs == before


def test_gradients_at_what_is_read_in_the_same_trip():
    """A step of the loop reads `x`, which it has just computed."""
    m = Model()
    dy.renew_cg()
    h, xs = m.E[0], []
    for k in range(5):
        x = dy.cmult(h, m.E[k])
        h = dy.cmult(dy.tanh(m.W * x), dy.logistic(m.U * x))
        xs.append(x)
    loss = dy.sum_elems(h)
    loss.value()
    loss.backward()

    def directly(nudges):
        h = ARRAYS["E"][0]
        for k in range(5):
            x = h * ARRAYS["E"][k] + nudges[k]
            h = jnp.tanh(ARRAYS["W"] @ x) * jax.nn.sigmoid(ARRAYS["U"] @ x)
        return jnp.sum(h)

    expected = jax.grad(directly)(jnp.zeros((5, SIZE)))
    for x, wanted in zip(xs, expected, strict=True):
        np.testing.assert_allclose(x.gradient(), wanted, rtol=1e-4, atol=1e-7)


@pytest.mark.parametrize("shape", [(4,), (4, 1), (3, 4)])
def test_gradients_of_what_is_made_of_constant_parameters(shape):
    """With `full`, nodes of these have one like all others."""
    p = dy.ParameterCollection().add_parameters(shape)
    dy.renew_cg()
    h = dy.tanh(p.expr(False))
    dy.sum_elems(dy.tanh(h)).backward(full=True)
    np.testing.assert_allclose(h.gradient(), 1 - np.tanh(h.npvalue()) ** 2, 1e-5)
    assert not p.grad_as_array().any()
