"""Expressions as functions for JAX: the same numbers, without the engine."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest

import dynetjax as dy

RANDOM = np.random.RandomState(0)
WEIGHTS, BIAS = RANDOM.randn(3, 4), RANDOM.randn(3)
TABLE, GAINS = RANDOM.randn(6, 4), RANDOM.randn(8)


class Model:
    def __init__(self):
        dy.renew_cg()
        self.collection = dy.ParameterCollection()
        add = self.collection.parameters_from_numpy
        self.W, self.b = add(WEIGHTS, name="W"), add(BIAS, name="b")
        self.E = self.collection.lookup_parameters_from_numpy(TABLE, name="E")
        self.gains = add(GAINS, name="gains")
        self.all = [self.W, self.b, self.E, self.gains]


def perceptron(m):
    x = dy.inputVector([1.0, -2, 0.5, 1])
    h = dy.tanh(dy.affine_transform([m.b, m.W, x]))
    return dy.pickneglogsoftmax(h, 1) + dy.pick(h, 2) * 0.5


def batches(m):
    xs = m.E.batch([1, 4, 1])
    y = dy.inputTensor(np.arange(9.0).reshape(3, 3), batched=True)
    h = dy.logistic(m.W * xs + m.b)
    losses = dy.squared_distance(h, y) + dy.pickneglogsoftmax_batch(h, [2, 0, 1])
    return dy.sum_batches(losses) + dy.pick_batch_elem(losses, 1)


def sums(m):
    terms = [dy.sum_elems(m.W * m.E[k]) for k in (0, 1, 5)]
    several = dy.concatenate_to_batch([*terms, dy.sum_elems(m.b)])
    chosen = dy.pick_batch_elems(several, [3, 0, 0])
    return dy.esum(terms) + dy.average(terms) + dy.mean_batches(chosen)


def lengths(m):
    """Columns as many as a sentence has words."""
    total = dy.scalarInput(0)
    for length in (3, 4, 5, 6):
        M = dy.concatenate_cols([dy.tanh(m.E[k]) for k in range(length)])
        a = dy.softmax(dy.transpose(M) * m.E[0])
        total += dy.sum_elems(m.W * M * a) + dy.mean_elems(M)
    return total


def constants(m):
    fixed = m.W.expr(False) * dy.lookup(m.E, 2, update=False)
    whole = dy.sum_elems(m.E * dy.one_hot(6, 2))
    flow = dy.nobackprop(m.b) + dy.flip_gradient(m.b)
    given = dy.poisson_loss(dy.sum_elems(m.b), 3)  # an int where floats go
    return given + dy.dot_product(fixed, m.b) + whole + dy.sum_elems(dy.square(flow))


def weights(m):
    """A matrix that is made of parameters alone, and rows cut from one."""
    square = m.W * dy.transpose(m.W)
    v = dy.pick_range(m.gains, 2, 5)
    return dy.dot_product(square * v, v) + dy.hinge_dim(square, [0, 1, 2])[1]


def lstm(m):
    x, h = m.E[1], dy.zeros(2)
    Wx, Wh = dy.reshape(dy.concatenate([m.gains] * 4), (8, 4)), dy.ones((8, 2))
    gates = dy.vanilla_lstm_gates(x, h, Wx, Wh, m.gains)
    return dy.sum_elems(dy.vanilla_lstm_h(dy.vanilla_lstm_c(h, gates), gates))


def builder(m):
    """A builder's first step goes on from zeros that are no node."""
    cell = dy.LSTMBuilder(1, 4, 3, m.collection)
    state = cell.initial_state().add_inputs([m.E[1], m.E[0]])[-1]
    return dy.sum_elems(state.output())


def layers(m):
    """Of one node, the first of several operands is zeros that are no node."""
    cells = dy.SimpleRNNBuilder(2, 4, 3, m.collection)
    state = cells.initial_state().add_inputs([m.E[1], m.E[0]])[-1]
    return dy.sum_elems(state.output())


def turns(m):
    """A parameter among rows in lists, and lists that are made of pairs."""
    rows = [m.E[k % 5] for k in range(11)]
    both = dy.concatenate([m.E[1], m.b])
    many = dy.emax([*rows, m.E[2]]) + dy.logsumexp(rows)
    return dy.sum_elems(both) + dy.sum_elems(m.W * m.E[3]) + dy.sum_elems(many)


PROGRAMS = [
    *(perceptron, batches, sums, lengths, constants),
    *(weights, lstm, builder, layers, turns),
]


@pytest.mark.parametrize("program", PROGRAMS)
def test_value_and_gradients(program):
    m = Model()
    loss = program(m)
    f = dy.to_jax(loss)
    value, gradients = jax.jit(jax.value_and_grad(f))(f.parameters, f.inputs)
    np.testing.assert_allclose(value, loss.value(), rtol=1e-5, atol=1e-6)
    loss.backward()
    for p in m.all:
        wanted = p.grad_as_array()
        found = gradients.get(p.name(), np.zeros_like(wanted))
        np.testing.assert_allclose(found, wanted, rtol=1e-4, atol=1e-5)


@pytest.mark.parametrize("batch", [1, 3])
def test_results_are_shaped_like_npvalue(batch):
    m = Model()
    xs = dy.inputTensor(RANDOM.randn(4, 2, batch), batched=True)
    y = m.W * xs
    f = dy.to_jax(y)
    found = f(f.parameters, f.inputs)
    assert found.shape == y.npvalue().shape
    np.testing.assert_allclose(found, y.npvalue(), rtol=1e-5)
    assert [x.shape for x in f.inputs] == [xs.npvalue().shape]


def test_a_parameter_alone():
    m = Model()
    f = dy.to_jax(m.W)
    np.testing.assert_allclose(f(f.parameters, []), WEIGHTS, rtol=1e-6)
    whole = dy.to_jax(m.E)
    np.testing.assert_allclose(whole(whole.parameters, []), TABLE.T, rtol=1e-6)


def test_other_parameters_and_inputs():
    m = Model()
    x, y = dy.inputVector([1.0, 2]), dy.scalarInput(3)
    f = dy.to_jax(dy.sum_elems(x) * y)
    assert f.parameters == {}
    assert f({}, [jnp.array([4.0, 5]), jnp.array([2.0])]) == 18
    many = jax.vmap(f, (None, [0, None]))
    assert many({}, [jnp.eye(2), jnp.array([2.0])]).tolist() == [2, 2]
    g = dy.to_jax(dy.sum_elems(m.b))
    assert g({"/b": jnp.ones(3)}, []) == 3


def test_later_changes_leave_it_as_it_was():
    m = Model()
    x = dy.inputVector([1.0, 2])
    picked = dy.pick(x, 0)
    f = dy.to_jax(picked)
    picked.set_index(1)
    m.W.zero()
    dy.renew_cg()
    assert f(f.parameters, f.inputs) == 1


def test_random_operations_are_drawn_from_a_key():
    m = Model()
    y = dy.dropout(m.W * m.E.batch([0, 1]), 0.5) + dy.random_normal(3)
    f = dy.to_jax(y)
    first, again, other = (
        f(f.parameters, f.inputs, jax.random.key(k)) for k in (1, 1, 2)
    )
    assert (first == again).all()
    assert (first != other).any()
    with pytest.raises(TypeError, match="dropout needs a random key"):
        f(f.parameters, f.inputs)


def test_masks_are_independent():
    dy.renew_cg()
    ones = dy.inputTensor(np.ones((100, 3)), batched=True)
    f = dy.to_jax(dy.dropout(ones, 0.5) + 10 * dy.dropout(ones, 0.5))
    found = np.asarray(f({}, f.inputs, jax.random.key(0)))
    assert set(np.unique(found)) == {0, 2, 20, 22}
    assert (found[:, 0] != found[:, 1]).any()


def test_custom_operations():
    m = Model()
    gelu = dy.jax_op(jax.nn.gelu)
    f = dy.to_jax(gelu(m.b))
    np.testing.assert_allclose(
        f(f.parameters, f.inputs), jax.nn.gelu(BIAS), rtol=1e-5, atol=1e-6
    )


def test_a_stale_expression():
    x = dy.inputVector([1.0])
    dy.renew_cg()
    with pytest.raises(RuntimeError, match="the expression is stale"):
        dy.to_jax(x)
