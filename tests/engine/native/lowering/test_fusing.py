"""One instruction does what two would, if nothing else reads what is between."""

import jax.numpy as jnp
import numpy as np
import pytest
from computed import check, check_lanes
from jax import lax

import dynetjax as dy
from dynetjax.engine.ir.fused import FUSED_OPS
from dynetjax.engine.native.disassembly import listing

A, B, C = np.random.default_rng(0).uniform(0.5, 2, (3, 5))


def names(function, *arrays):
    """The opcodes of forward, where no backward needs anything."""
    dy.renew_cg()
    held = dy.jax_op(lambda *xs: function(*map(lax.stop_gradient, xs)))
    y = held(*map(dy.inputTensor, arrays))
    y.value()
    lines = listing(FUSED_OPS[y.graph.stored.fused(y.graph.at(y.index))])
    forward = lines[: lines.index("back:")] if "back:" in lines else lines
    return [line.split()[3] for line in forward[1:]]


@pytest.mark.parametrize(
    ("function", "numpy", "opcodes"),
    [
        (lambda a, b, c: a * b + c, None, ["MUL_ADD"]),
        (lambda a, b, c: c + a * b, None, ["MUL_ADD"]),
        (lambda a, b, c: 2 * a + c * 3, None, ["MUL", "MUL_ADD"]),
        (lambda a, b, c: a * b - c, None, ["MUL", "SUB"]),
        (
            lambda a, b, c: a / (jnp.sqrt(b) + c),
            lambda a, b, c: a / (np.sqrt(b) + c),
            ["DIV_ROOT"],
        ),
        (
            lambda a, b, c: (jnp.sqrt(b) + c) / a,
            lambda a, b, c: (np.sqrt(b) + c) / a,
            ["ROOT_ADD", "DIV"],
        ),
    ],
)
def test_what_one_instruction_does(function, numpy, opcodes):
    assert names(function, A, B, C) == opcodes
    check_lanes(function, numpy or function, (A, B, C), (C, A, B))


def test_what_is_read_twice_stays():
    def function(a, b):
        product = a * b
        return product + product * b

    assert names(function, A, B) == ["MUL", "MUL_ADD"]
    check(function, function, A, B)


def test_what_backward_reads_stays():
    """The product is saved: the exponential's slope is made of it."""
    check(lambda a, b: jnp.sin(a * b) + a * b, lambda a, b: np.sin(a * b) + a * b, A, B)


def test_in_loops():
    """A factor changes between the product and the sum."""

    def function(a, b):
        def trip(carry, x):
            product = carry * x
            carry = jnp.tanh(carry)
            return carry + product, product + carry

        last, every = lax.scan(trip, a[0], b)
        return every + last

    def numpy(a, b):
        carry, every = a[0], []
        for x in b:
            product, carry = carry * x, np.tanh(carry)
            every.append(product + carry)
            carry = carry + product
        return np.array(every) + carry

    check(function, numpy, A, B)


@pytest.mark.parametrize("scalars", range(8))
def test_numbers_for_all(scalars):
    """Each operand may be one word."""
    a, b, c = [x[:1] if scalars >> k & 1 else x for k, x in enumerate((A, B, C))]

    def function(a, b, c, sqrt=jnp.sqrt):
        return A[0] * (a * b + c) + a / (sqrt(b) + c)

    check_lanes(function, lambda *xs: function(*xs, np.sqrt), (a, b, c))
