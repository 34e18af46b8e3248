"""Every primitive of JAX that has byte code, against NumPy."""

import cases_of_indexing
import cases_of_numbers
import cases_of_views
import jax
import jax.numpy as jnp
import numpy as np
import pytest
from bench import Run, program
from cases import check, number
from jax import lax

from dynetjax.engine.native.lowering import gathers, loops, matrices, windows
from dynetjax.engine.native.lowering.lower import PRIMITIVES, inline

ALL = [*cases_of_numbers.CASES, *cases_of_views.CASES, *cases_of_indexing.CASES]
SEVERAL = [case for case in ALL if len(case.shapes) > 1]


@pytest.mark.parametrize("case", ALL, ids=repr)
def test_one_lane(case):
    check(case, 1, 1)


@pytest.mark.parametrize("case", ALL, ids=repr)
def test_lanes(case):
    check(case, 3, 3)


@pytest.mark.parametrize("case", SEVERAL, ids=repr)
def test_lanes_that_read_one_row(case):
    check(case, 3, 1)


@pytest.mark.parametrize("case", SEVERAL, ids=repr)
def test_lanes_that_read_a_weight(case):
    check(case, 3, 1, weight=True)


def test_names_of_cases_differ():
    assert len({case.name for case in ALL}) == len(ALL)


def primitives(jaxpr):
    for equation in jaxpr.eqns:
        yield equation.primitive.name
        for value in equation.params.values():
            inner = getattr(value, "jaxpr", value)
            if hasattr(inner, "eqns"):
                yield from primitives(inner)


# Those that JAX makes of what is in the cases only where it goes back, and others that
# are tested beside this file.
ELSEWHERE = {"add_any", "random_bits", "random_unwrap", "random_wrap"}
ELSEWHERE |= {*gathers.LOWERINGS, *windows.LOWERINGS}
ELSEWHERE |= {*loops.lowerings(inline), *matrices.lowerings(inline), "device_put"}
ELSEWHERE |= {"clz", "erfc", "population_count"}  # in test_arithmetic
ELSEWHERE |= {"eq_to", "le_to", "lt_to", "random_seed", "tile"}  # by their families
NEW = "one_minus_square", "polynomial", "stack", "unstack"
ELSEWHERE |= {p for p in NEW if not hasattr(lax, p)}


def test_every_primitive_has_a_case():
    met = set()
    for case in ALL:
        xs = [jax.ShapeDtypeStruct(s, np.float32) for s in case.shapes]
        met.update(primitives(jax.make_jaxpr(case.ours)(*xs).jaxpr))
    of_others = "jit", "pjit", "custom_jvp_call", "checkpoint", "remat2"
    assert met.difference(of_others, ["call_hi_primitive"]) <= PRIMITIVES
    assert PRIMITIVES - met <= ELSEWHERE


class TestRuntimeData:
    def test_ints(self):
        """A row of each lane, chosen by what is the lane's."""
        x = np.random.default_rng(1).normal(size=(3, 4, 5))
        run = Run(lambda x, k: x[k], (5,), [x], data=[[2, 0, 3]], types="i")
        picked = x[[0, 1, 2], [2, 0, 3]]
        np.testing.assert_allclose(run.value, picked, 1e-6)
        (gradient,) = run.gradients(np.ones((3, 5)))
        expected = np.zeros_like(x)
        expected[[0, 1, 2], [2, 0, 3]] = 1
        np.testing.assert_array_equal(gradient, expected)

    def test_floats(self):
        x = np.arange(6.0).reshape(3, 2)
        run = Run(lambda x, a, b: a * x + b, (2,), [x],
                  data=[[1.0, 2.0, 3.0], [0.5, 0.25, 0.125]], types="ff")  # fmt: skip
        scale = np.array([[1], [2], [3]])
        expected = scale * x + np.array([[0.5], [0.25], [0.125]])
        np.testing.assert_array_equal(run.value, expected)
        (gradient,) = run.gradients(np.ones((3, 2)))
        np.testing.assert_array_equal(gradient, np.broadcast_to(scale, (3, 2)))


class TestNotCovered:
    """What has no byte code has no program; nothing else of it is computed."""

    @pytest.mark.parametrize(
        "function",
        [
            lambda x: x.astype(jnp.float16).astype(jnp.float32),
            lambda x: x.astype(jnp.bfloat16) + 1.0 + x,
            lambda x: jnp.linalg.svd(x.reshape(2, 2), compute_uv=False),
            lambda x: jax.scipy.special.i0e(x),
            lambda x: (
                jax.random.uniform(jax.random.fold_in(jax.random.key(3), 4), (4,)) + x
            ),
        ],
    )
    def test_it(self, function):
        shape = jax.eval_shape(function, jax.ShapeDtypeStruct((4,), np.float32)).shape
        assert program(function, shape, operands=[(4,)]) is None

    def test_arrays_without_numbers(self):
        assert program(lambda x: x, (0,), operands=[(0,)]) is None
        assert program(lambda x: x[0], (3,), operands=[(1, 3)]) is not None

    def test_no_more_than_eight_axes(self):
        shape = (2, 1) * 9
        turned = tuple(reversed(range(18)))

        def function(x):
            return x.transpose(turned)

        assert program(function, shape[::-1], operands=[shape]) is None


def test_constants():
    """Numbers that are the same in every run, small and large."""
    table = np.random.default_rng(0).normal(size=(80, 70)).astype(np.float32)
    ones = np.ones((80, 70), np.float32)

    def function(x):
        folded = jnp.maximum(jnp.arange(70) - 30, 0) * 2.0
        return (table @ x + ones @ x) * ones[:, 0] + (folded * x).sum()

    x = np.random.default_rng(0).normal(size=(2, 70))
    folded = np.maximum(np.arange(70) - 30, 0) * 2.0
    expected = x @ table.T + x.sum(1)[:, None] + (x @ folded)[:, None]
    run = Run(function, (80,), [x])
    np.testing.assert_allclose(run.value, expected, 1e-4, 1e-3)
    (gradient,) = run.gradients(np.ones((2, 80)))
    slope = (table + 1).sum(0) + 80 * folded
    np.testing.assert_allclose(gradient, [slope, slope], 1e-4, 1e-3)


def test_a_result_in_the_place_of_an_operand():
    """One number of which is read for all of them."""

    def function(x):
        mask = x > 0
        return number(jnp.where(mask, mask[0], x < -1))

    run = Run(function, (4,), [np.array([[-2.0, 1.0, -3.0, 1.0]])])
    np.testing.assert_array_equal(run.value[0], [1, 0, 1, 0])


def test_a_result_that_is_an_operand():
    x = np.arange(6.0).reshape(2, 3)
    run = Run(lambda x: x, (3,), [x])
    np.testing.assert_array_equal(run.value, x)
    np.testing.assert_array_equal(run.gradients(x)[0], x)


def test_results_that_are_constant():
    """Their operands have no gradient."""
    run = Run(lambda x: jnp.full(3, 2.0), (3,), [np.ones((2, 3))])
    np.testing.assert_array_equal(run.value, np.full((2, 3), 2))
    np.testing.assert_array_equal(run.gradients(np.ones((2, 3)))[0], np.zeros((2, 3)))


class TestWeights:
    def test_gradients_are_added_up(self):
        """Of a matrix that is read twice, and a bias, over lanes."""
        rng = np.random.default_rng(5)
        w, b, x = rng.normal(size=(4, 4)), rng.normal(size=4), rng.normal(size=(3, 4))

        def function(w, b, x):
            return w @ jnp.tanh(w @ x + b)

        inner = np.tanh(x @ w.T + b)
        run = Run(function, (4,), [x], [w, b])
        np.testing.assert_allclose(run.value, inner @ w.T, 1e-5, 1e-5)
        seed = rng.normal(size=(3, 4))
        slope = (seed @ w) * (1 - inner**2)
        expected = [seed.T @ inner + slope.T @ x, slope.sum(0), slope @ w]
        for got, wanted in zip(run.gradients(seed), expected, strict=True):
            np.testing.assert_allclose(got, wanted, 1e-4, 1e-5)

    def test_blocks(self):
        """Rows of a matrix, each for a part of the result."""
        rng = np.random.default_rng(5)
        w, x = rng.normal(size=(6, 4)), rng.normal(size=(3, 4))

        def function(w, x):
            return jnp.concatenate([w[:2] @ x, (w[2:] @ x)[::2]])

        rows = [0, 1, 2, 4]
        run = Run(function, (4,), [x], [w])
        np.testing.assert_allclose(run.value, x @ w[rows].T, 1e-5, 1e-5)
        seed = rng.normal(size=(3, 4))
        expected = np.zeros_like(w)
        expected[rows] = seed.T @ x
        gradient, at_x = run.gradients(seed)
        np.testing.assert_allclose(gradient, expected, 1e-4, 1e-5)
        np.testing.assert_allclose(at_x, seed @ w[rows], 1e-4, 1e-5)
