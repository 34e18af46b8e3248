"""Convolutions and pools."""

from itertools import product

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from computed import check
from jax import lax

import dynetjax as dy

pytestmark = pytest.mark.usefixtures("natively")

random = np.random.RandomState(4)


def spread(x, by, axes):
    """Zeros between the numbers."""
    for axis, n in zip(axes, by, strict=True):
        shape = [*x.shape]
        shape[axis] = (shape[axis] - 1) * n + 1
        found = np.zeros(shape)
        found[tuple([slice(None)] * axis + [slice(None, None, n)])] = x
        x = found
    return x


def convolved(x, w, steps, padding, apart=(1, 1), spaced=(1, 1), groups=1):
    """x[channels, rows, columns], w[makes, reads, rows, columns], in NumPy."""
    x, w = spread(x, apart, (1, 2)), spread(w, spaced, (2, 3))
    x = np.pad(x, ((0, 0), *padding))
    makes, reads, *window = w.shape
    sizes = [
        (n - m) // step + 1
        for n, m, step in zip(x.shape[1:], window, steps, strict=True)
    ]
    found = np.zeros((makes, *sizes))
    for m, i, j in product(range(makes), *map(range, sizes)):
        first = m // (makes // groups) * reads
        at = i * steps[0], j * steps[1]
        part = x[first : first + reads, at[0] :, at[1] :][:, : window[0], : window[1]]
        found[m, i, j] = np.sum(part * w[m])
    return found


X, W = random.normal(size=(4, 5, 6)), random.normal(size=(6, 4, 2, 3)) / 3
EVEN = ((0, 0), (0, 0))


@pytest.mark.parametrize(
    ("steps", "padding", "apart", "spaced"),
    [
        ((1, 1), EVEN, (1, 1), (1, 1)),
        ((2, 2), ((0, 1), (1, 1)), (1, 1), (1, 1)),
        ((1, 2), ((1, 2), (0, 3)), (2, 3), (1, 1)),
        ((1, 1), ((2, 0), (1, 1)), (1, 1), (3, 2)),
    ],
)
def test_convolution(steps, padding, apart, spaced):
    def function(x, w):
        return lax.conv_general_dilated(
            x[None], w, steps, padding, lhs_dilation=apart, rhs_dilation=spaced
        )[0]

    check(
        function,
        lambda x, w: convolved(x, w, steps, padding, apart, spaced),
        X[:2, :4],
        W[:2, :2],
        rtol=2e-3,
        atol=2e-3,
    )


def test_groups_of_channels():
    def function(x, w):
        return lax.conv_general_dilated(
            x[None], w, (1, 1), "VALID", feature_group_count=2
        )[0]

    check(
        function,
        lambda x, w: convolved(x, w, (1, 1), EVEN, groups=2),
        X,
        W[:, :2],
        rtol=2e-3,
        atol=2e-3,
    )


def test_channels_last():
    names = "NHWC", "HWIO", "NHWC"

    def function(x, w):
        return lax.conv_general_dilated(
            x[None], w, (1, 1), "VALID", dimension_numbers=names
        )[0]

    def formula(x, w):
        found = convolved(x.transpose(2, 0, 1), w.transpose(3, 2, 0, 1), (1, 1), EVEN)
        return found.transpose(1, 2, 0)

    x, w = X[:2].transpose(1, 2, 0), W[:3, :2].transpose(2, 3, 1, 0)
    check(function, formula, x, w, rtol=2e-3, atol=2e-3)


def test_one_axis():
    u, v = random.normal(size=7), random.normal(size=3)
    check(jnp.convolve, np.convolve, u, v)
    check(jnp.correlate, np.correlate, u, v)


def pooled(f, none, x, window, steps, padding=((0, 0), (0, 0))):
    x = np.pad(x, padding, constant_values=none)
    sizes = [
        (n - m) // step + 1 for n, m, step in zip(x.shape, window, steps, strict=True)
    ]
    found = np.zeros(sizes)
    for i, j in product(*map(range, sizes)):
        at = i * steps[0], j * steps[1]
        found[i, j] = f(x[at[0] :, at[1] :][: window[0], : window[1]])
    return found


@pytest.mark.parametrize(
    ("function", "none", "formula"),
    [
        (lax.max, -np.inf, np.max),
        (lax.min, np.inf, np.min),
        (lax.add, 0.0, np.sum),
    ],
    ids=["max", "min", "sum"],
)
@pytest.mark.parametrize(
    ("window", "steps", "padding"),
    [
        ((2, 3), (2, 3), EVEN),
        ((3, 2), (1, 1), ((1, 1), (0, 1))),
        ((2, 2), (3, 1), ((0, 1), (1, 0))),
    ],
)
def test_pool(function, none, formula, window, steps, padding):
    check(
        lambda x: lax.reduce_window(x, none, function, window, steps, padding),
        lambda x: pooled(formula, none, x, window, steps, padding),
        X[0],
    )


def test_the_first_of_equal_numbers_gets_the_gradient():
    x = np.array([[1.0, 1.0, 0.0], [1.0, 0.0, 1.0]])

    def slope(x):
        def pool(x):
            return lax.reduce_window(x, -jnp.inf, lax.max, (2, 3), (1, 1), "VALID")

        return jax.grad(lambda x: pool(x).sum())(lax.stop_gradient(x))

    def first(x):
        found = np.zeros(x.shape)
        found.flat[np.argmax(x)] = 1
        return found

    check(slope, first, x, smooth=False)


def back_through_pool(x, init, function, window, padding):
    """What the gradient of a pool's k-th number, k + 1, comes to."""

    def pool(x):
        return lax.reduce_window(x, init, function, window, (1,), padding)

    given = dy.inputVector(np.array(x, np.float32))
    pooled = dy.jax_op(pool)(given)
    count = pooled.dim()[0][0]
    dy.dot_product(pooled, dy.inputVector(range(1, count + 1))).backward(full=True)
    return given.gradient()


@pytest.mark.parametrize(("init", "function"), [(-np.inf, lax.max), (np.inf, lax.min)])
def test_what_goes_back_where_a_number_is_none(init, function):
    """It goes to the first NaN, as NumPy's argmax would have it."""
    found = back_through_pool([1, np.nan, 3, 2, 5], init, function, (3,), "valid")
    last = [0, 3, 0, 0, 3] if function is lax.max else [0, 3, 0, 3, 0]
    np.testing.assert_array_equal(found, last)


def test_what_goes_back_where_all_numbers_are_infinite():
    """It goes to one of them, and not to what is around."""
    x = [-np.inf, -np.inf, 1]
    found = back_through_pool(x, -np.inf, lax.max, (3,), ((2, 0),))
    np.testing.assert_array_equal(found, [3, 0, 3])
