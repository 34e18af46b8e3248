"""Random graphs against the same nodes computed one by one in plain JAX.

Shared nodes, dead branches, recurrences, batches, sums over many operands and values
asked for on the way come in any mixture; sizes are few, so that programs are shared.
"""

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

import dynetjax as dy
from dynetjax.engine.runtime import RUNTIME

FEW = settings(
    max_examples=10,
    deadline=None,
    derandomize=True,
    suppress_health_check=[HealthCheck.too_slow, HealthCheck.data_too_large],
)
SIZE, ROWS = 3, 5
RNG = np.random.default_rng(9)
W = RNG.normal(size=(SIZE, SIZE)) * 0.6
V = RNG.normal(size=(SIZE, 2 * SIZE)) * 0.6
B = RNG.normal(size=SIZE)
E = RNG.normal(size=(ROWS, SIZE))
UNARY = ["tanh", "logistic", "square", "half", "multiply"]
BINARY = ["add", "cmult", "affine", "join"]
OPERATIONS = [*UNARY, *BINARY, "esum", "pick", "batch", "sum"]


class Dynet:
    """The operations as a DyNet program has them."""

    def __init__(self):
        self.pc = dy.ParameterCollection()
        new = self.pc.parameters_from_numpy
        self.W, self.V, self.B = new(W), new(V), new(B)
        self.E = self.pc.lookup_parameters_from_numpy(E)

    def lookup(self, rows):
        return self.E.batch(rows)

    def apply(self, name, xs, number):
        x, y = xs[0], xs[-1]
        match name:
            case "tanh":
                return dy.tanh(x)
            case "logistic":
                return dy.logistic(x)
            case "square":
                return dy.square(x)
            case "half":
                return x * 0.5
            case "multiply":
                return self.W * x
            case "add":
                return x + y
            case "cmult":
                return dy.cmult(x, y)
            case "affine":
                return dy.affine_transform([self.B, self.W, x, self.W, y])
            case "join":
                return dy.tanh(self.V * dy.concatenate([x, y]))
            case "esum":
                return dy.esum(xs)
            case "pick":
                return dy.pick_batch_elem(x, number % x.dim()[1])
            case "batch":
                return dy.concatenate_to_batch(xs[:2])
        return dy.sum_batches(x)

    def loss(self, nodes):
        return dy.esum([dy.sum_batches(dy.dot_product(x, x)) for x in nodes])


class Direct:
    """The same on arrays ``[batch, SIZE]`` of JAX, or of `numpy`."""

    numpy = jnp

    def __init__(self, arrays):
        self.W, self.V, self.B, self.E = arrays

    def lookup(self, rows):
        return self.E[self.numpy.array(rows)]

    def apply(self, name, xs, number):
        x, y = xs[0], xs[-1]
        match name:
            case "tanh":
                return self.numpy.tanh(x)
            case "logistic":
                return 0.5 + 0.5 * self.numpy.tanh(x / 2)
            case "square":
                return x * x
            case "half":
                return x * 0.5
            case "multiply":
                return x @ self.W.T
            case "add":
                return x + y
            case "cmult":
                return x * y
            case "affine":
                return self.B + x @ self.W.T + y @ self.W.T
            case "join":
                x, y = self.numpy.broadcast_arrays(x, y)
                return self.numpy.tanh(
                    self.numpy.concatenate([x, y], axis=1) @ self.V.T
                )
            case "esum":
                return sum(xs[1:], xs[0])
            case "pick":
                return x[number % len(x)][None]
            case "batch":
                return self.numpy.concatenate(xs[:2])
        return x.sum(0, keepdims=True)

    def loss(self, nodes):
        return sum(jnp.sum(x * x) for x in nodes)


@st.composite
def programs(draw):
    """(lookups, steps, nodes in the loss): steps name operations and operands."""
    lookups = draw(
        st.lists(st.lists(st.integers(0, ROWS - 1), min_size=1, max_size=1), min_size=2)
        | st.lists(
            st.lists(st.integers(0, ROWS - 1), min_size=2, max_size=2), min_size=2
        )
    )
    lookups = lookups[:4]
    count = draw(st.integers(3, 25))
    steps = [
        (
            draw(st.sampled_from(OPERATIONS)),
            draw(st.lists(st.integers(0, 10**6), min_size=2, max_size=11)),
            draw(st.booleans()),
        )
        for _ in range(count)
    ]
    return lookups, steps, draw(st.integers(1, 3))


def build(world, program, batch_of, peek, nudge=lambda number, x: x):
    """The nodes of a program; operands whose batches do not fit are left out.

    Each is made by `nudge`, of its number and itself.
    """
    lookups, steps, _ = program
    nodes = [nudge(k, world.lookup(rows)) for k, rows in enumerate(lookups)]
    for name, picks, look in steps:
        recent = nodes[-6:]
        xs = [recent[p % len(recent)] for p in picks]
        size = max(batch_of(x) for x in xs)
        if name != "batch":
            xs = [x for x in xs if batch_of(x) in (1, size)]
        if name in UNARY or name in ("pick", "sum"):
            xs = xs[:1]
        elif name != "esum":
            xs = [xs[0], xs[-1]]
        if batch_of(xs[0]) + batch_of(xs[-1]) > 12:
            name = "pick"
        nodes.append(nudge(len(nodes), world.apply(name, xs, picks[0])))
        if peek and look:
            nodes[-1].value()
    return nodes


@pytest.mark.parametrize("peek", ["at the end", "here on the way", "on the device"])
@FEW
@given(program=programs())
def test_values_and_gradients(peek, program):
    arrays = tuple(jnp.asarray(a, jnp.float32) for a in (W, V, B, E))
    chosen = slice(-program[2], None)

    def direct(arrays, nudges):
        def nudge(number, x):
            return x + nudges.get(number, 0)

        nodes = build(Direct(arrays), program, len, False, nudge)
        return Direct(arrays).loss(nodes[chosen]), nodes

    _, values = direct(arrays, {})
    still = {k: jnp.zeros_like(x) for k, x in enumerate(values)}
    loss, (gradients, at_nodes) = jax.value_and_grad(
        lambda *args: direct(*args)[0], (0, 1)
    )(arrays, still)
    dy.renew_cg()
    world = Dynet()
    with pytest.MonkeyPatch.context() as patch:
        if peek == "on the device":
            patch.setattr(RUNTIME, "tier", "xla")
        nodes = build(world, program, lambda x: x.dim()[1], peek != "at the end")
    total = world.loss(nodes[chosen])
    assert total.value() == pytest.approx(float(loss), rel=1e-4, abs=1e-4)
    total.backward()
    for node, value in zip(nodes, values, strict=True):
        got = np.atleast_2d(node.npvalue().T)
        np.testing.assert_allclose(got, value, rtol=1e-4, atol=1e-4)
    for p, g in zip((world.W, world.V, world.B, world.E), gradients, strict=True):
        scale = max(1.0, float(jnp.abs(g).max()))
        np.testing.assert_allclose(p.grad_as_array() / scale, g / scale, atol=2e-4)
    numbers = [node.index for node in nodes]  # a sum over a batch of one is no new one
    alone = [k for k, number in enumerate(numbers) if numbers.count(number) == 1]
    for k in alone[::4]:
        node, expected = nodes[k], at_nodes[k]
        got = np.atleast_2d(node.gradient().T)
        scale = max(1.0, float(jnp.abs(expected).max()))
        np.testing.assert_allclose(got / scale, expected / scale, atol=2e-4)


@FEW
@given(program=programs())
def test_values_and_gradients_in_tier_0(program):
    """The same, where tier 0 computes the graph, and goes back."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(RUNTIME, "tier", "native")
        for peek in "at the end", "here on the way":
            test_values_and_gradients.hypothesis.inner_test(peek, program)
