"""Operations made of JAX functions."""

from itertools import pairwise

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from laws import Case, Laws, close, rejects

import dynetjax as dy

gelu = dy.jax_op(jax.nn.gelu)
cosine = dy.jax_op(
    lambda x, y: x @ y / jnp.sqrt((x @ x) * (y @ y)), dim=lambda x, y: (1,)
)
scaled = dy.jax_op(lambda x, *, by, shift=0.0: by * x + shift)


def gelu_formula(x):
    return 0.5 * x * (1 + np.tanh(np.sqrt(2 / np.pi) * (x + 0.044715 * x**3)))


def cosine_formula(x, y):
    return np.array([x @ y / np.linalg.norm(x) / np.linalg.norm(y)])


CASES = [
    Case(gelu, gelu_formula, x=(4,)),
    Case(gelu, gelu_formula, x=(3, 2)),
    Case(cosine, cosine_formula, x=(4,), y=(4,)),
    Case(
        lambda x, k: scaled(x, by=k), lambda x, k: k * x, covers=scaled, x=(3,), k=2.0
    ),
]


@pytest.mark.parametrize("case", CASES, ids=str)
class TestEveryFunction(Laws):
    pass


def test_nodes_of_one_operation_are_computed_together():
    """With weights, batches, and other operations around it."""
    collection = dy.ParameterCollection()
    numbers = np.random.RandomState(0).randn(3, 4)
    W = collection.parameters_from_numpy(numbers)
    xs = np.random.RandomState(1).randn(5, 4)

    def loss():
        dy.renew_cg()
        states = [gelu(W * dy.inputVector(x)) for x in xs]
        return dy.esum([cosine(a, b) for a, b in pairwise(states)])

    close(loss().value(), sum(map(expected_cosine(numbers), xs, xs[1:])))
    for _ in range(2):
        loss().backward()
    before = dy.stats().compilations
    xs[:] = xs[::-1]
    loss().backward()
    assert dy.stats().compilations == before


def expected_cosine(W):
    def of_two(a, b):
        return cosine_formula(gelu_formula(W @ a), gelu_formula(W @ b))[0]

    return of_two


def test_keywords_are_part_of_the_program():
    dy.renew_cg()
    x = dy.inputVector([1.0, 2.0])
    assert scaled(x, by=2).value() == [2, 4]
    assert scaled(x, by=3, shift=1).value() == [4, 7]
    one, other = scaled(x, shift=1, by=3), scaled(x, by=3, shift=1)
    assert one.signature is other.signature


def test_numbers_and_integers_become_float32_of_one_dimension():
    dy.renew_cg()
    x = dy.inputVector([1.5, 2.5])
    count = dy.jax_op(lambda x: jnp.sum(x > 2))
    assert count(x).dim() == ((1,), 1)
    assert count(x).value() == 1


def test_decorates():
    @dy.jax_op
    def swish(x):
        """What is shown to users."""
        return x * jax.nn.sigmoid(x)

    dy.renew_cg()
    assert swish.__doc__ == "What is shown to users."
    close(swish(dy.scalarInput(2.0)).value(), 2 / (1 + np.exp(-2)))


def vectors(*sizes):
    return [dy.inputVector([1.0] * n) for n in sizes]


@pytest.mark.parametrize(
    ("function", "error", "message"),
    [
        (lambda: cosine(*vectors(2, 3)), ValueError, "does not take the operands"),
        (lambda: scaled(*vectors(2)), ValueError, "the function says: .*by"),
        (lambda: gelu(1.0), TypeError, "an operand is not an Expression"),
        (lambda: gelu(), TypeError, "there is no operand"),
        (
            lambda: dy.jax_op(jnp.tanh, dim=lambda x: (1,))(*vectors(2)),
            ValueError,
            "the result has other dims than promised",
        ),
    ],
)
def test_refusals(function, error, message):
    rejects(function, error, message)
