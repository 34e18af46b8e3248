"""Factors of matrices, and equations solved with these."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from computed import check, program
from jax import lax

pytestmark = pytest.mark.usefixtures("natively")


def matrix(n, *lead):
    """Numbers of which the large ones are not on the diagonal: rows change places."""
    random = np.random.RandomState(n)
    return random.uniform(-1, 1, (*lead, n, n)) + 3 * np.roll(np.eye(n), 1, -1)


def positive(x):
    return x @ x.T + jnp.eye(len(x))


@pytest.mark.parametrize("n", range(1, 9))
def test_inverse(n):
    check(jnp.linalg.inv, np.linalg.inv, matrix(n))


@pytest.mark.parametrize("n", range(1, 9))
def test_determinant(n):
    check(
        lambda x: jnp.stack(jnp.linalg.slogdet(x)),
        lambda x: np.stack(np.linalg.slogdet(x)),
        matrix(n),
    )
    check(jnp.linalg.det, np.linalg.det, matrix(n) / 2)


def test_several_matrices():
    check(jnp.linalg.inv, np.linalg.inv, matrix(3, 2))
    check(
        lambda x: jnp.linalg.slogdet(x)[1],
        lambda x: np.linalg.slogdet(x)[1],
        matrix(3, 2),
    )


def test_a_matrix_that_has_no_inverse():
    x = np.array([[1.0, 2.0], [2.0, 4.0]])
    check(
        lambda x: jnp.linalg.slogdet(lax.stop_gradient(x))[1],
        lambda x: -np.inf,
        x,
        smooth=False,
    )


def test_solve():
    check(jnp.linalg.solve, np.linalg.solve, matrix(4), np.arange(4) - 1.5)
    check(jnp.linalg.solve, np.linalg.solve, matrix(4), matrix(4)[:, :3])


def test_factors():
    """The product of the factors is the matrix with its rows in another order."""

    def function(x):
        factors, _, order = lax.linalg.lu(x)
        count = min(x.shape)
        lower = jnp.tril(factors, -1)[:, :count] + jnp.eye(len(x), count)
        return lower @ jnp.triu(factors)[:count] - x[order]

    for shape in (4, 4), (5, 3), (3, 5):
        x = np.random.RandomState(1).normal(size=shape)
        check(
            lambda x: function(lax.stop_gradient(x)), lambda x: 0 * x, x, smooth=False
        )


@pytest.mark.parametrize("left", [False, True])
@pytest.mark.parametrize("lower", [False, True])
@pytest.mark.parametrize("turned", [False, True])
@pytest.mark.parametrize("unit", [False, True])
def test_triangle(left, lower, turned, unit):
    def function(a, b):
        return lax.linalg.triangular_solve(
            a, b, left_side=left, lower=lower, transpose_a=turned, unit_diagonal=unit
        )

    def formula(a, b):
        a = np.tril(a) if lower else np.triu(a)
        if unit:
            a = a - np.diag(np.diag(a)) + np.eye(3)
        a = a.T if turned else a
        return np.linalg.solve(a, b) if left else np.linalg.solve(a.T, b.T).T

    a = matrix(3) + 2 * np.eye(3)
    check(function, formula, a, matrix(4)[:3, :2] if left else matrix(4)[:2, :3])


def test_cholesky():
    check(
        lambda x: jnp.linalg.cholesky(positive(x)),
        lambda x: np.linalg.cholesky(x @ x.T + np.eye(4)),
        matrix(4),
    )


def test_no_factor_of_what_is_not_positive():
    x = np.array([[1.0, 2.0], [2.0, 1.0]])
    check(
        lambda x: jnp.linalg.cholesky(lax.stop_gradient(x)),
        lambda x: np.array([[np.nan, 0], [np.nan, np.nan]]),
        x,
        smooth=False,
    )


def test_solve_by_a_factor():
    def function(x, b):
        factor = jax.scipy.linalg.cho_factor(positive(x))
        return jax.scipy.linalg.cho_solve(factor, b)

    check(
        function,
        lambda x, b: np.linalg.solve(x @ x.T + np.eye(3), b),
        matrix(3),
        np.array([1.0, -2.0, 0.5]),
    )


@pytest.mark.parametrize(
    ("op", "fits", "wrong"),
    [
        ("FACTORISE", (1, 2, 2), (1, 2, 3)),
        ("SOLVE_TRIANGLE", (1, 2, 4), (1, 3, 1)),
        ("CHOLESKY", (2, 2, 0), (1, 3, 0)),
    ],
)
def test_sizes_are_checked(op, fits, wrong):
    program((op, *fits), words=8)
    with pytest.raises(ValueError, match="not where it may be"):
        program((op, *wrong), words=8)
    with pytest.raises(ValueError, match="nothing to compute"):
        program((op, 1, 0, 1), words=8)
    if op != "FACTORISE":
        with pytest.raises(ValueError, match="a size is too large"):
            program((op, 1, 2**20, 1), words=8)
