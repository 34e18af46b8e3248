"""Gathers and scatters: blocks at places that are data."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from computed import check, check_lanes, program
from jax import lax

import dynetjax as dy

pytestmark = pytest.mark.usefixtures("natively")

random = np.random.RandomState(5)
V, M, T = [random.normal(size=s) for s in ((6,), (4, 3), (3, 4, 5))]
PLACES = [[1, 0, 1], [2, 2, 0], [0, 1, 2]]  # of lanes


def ints(x):
    return lax.stop_gradient(x).astype(jnp.int32)


def at(function, numpy, x, *rest, places=PLACES):
    """As `check`, of functions of an array and of places, and of others."""
    lanes = [
        [x * s, np.array(p), *[r * s for r in rest]]
        for s, p in zip((1, -0.5, 2), places, strict=True)
    ]
    for some in lanes[:1], lanes:
        check_lanes(
            lambda x, p, *rest: function(x, ints(p), *rest),
            lambda x, p, *rest: numpy(x, np.rint(p).astype(int), *rest),
            *some,
        )


@pytest.mark.parametrize(
    "function",
    [
        lambda x, p: x[p],
        lambda x, p: x[:, p],
        lambda x, p: x[p, p],
        lambda x, p: x[:, p, p],
        lambda x, p: x[p[:2, None], p],
        lambda x, p: x[p, :, p],
        lambda x, p: x[p[0]],
        lambda x, p: x[1, p],
        lambda x, p: x[p - 3],
    ],
)
def test_parts(function):
    at(function, function, T)


@pytest.mark.parametrize("axis", [0, 1, 2])
def test_take(axis):
    at(
        lambda x, p: jnp.take(x, p, axis=axis),
        lambda x, p: np.take(x, p, axis=axis),
        T,
    )


@pytest.mark.parametrize("axis", [0, 1])
def test_along_an_axis(axis):
    places = [np.array([p, p[::-1]]) for p in PLACES]
    x = M if axis == 0 else M[:2]
    at(
        lambda x, p: jnp.take_along_axis(x, p, axis=axis),
        lambda x, p: np.take_along_axis(x, p, axis=axis),
        x,
        places=places,
    )


def test_places_that_are_none():
    """JAX has NaN there, or the least int; or takes the nearest place."""

    def formula(x, p):
        return np.where((p >= -4) & (p < 4), x[np.clip(p, -4, 3), 0], 0)

    def function(x, p):
        return jnp.nan_to_num(x.at[p].get(mode="fill")[:, 0])

    places = [[1, 4, 0], [-5, 3, -1], [9, -9, 2]]
    at(function, formula, M, places=places)
    at(
        lambda x, p: x.at[p].get(mode="fill", fill_value=7.0)[:, 0],
        lambda x, p: np.where((p >= -4) & (p < 4), x[np.clip(p, -4, 3), 0], 7),
        M,
        places=places,
    )
    at(
        lambda x, p: x.at[jnp.maximum(p, 0)].get(mode="clip"),
        lambda x, p: x[np.clip(p, 0, 3)],
        M,
        places=places,
    )
    least = np.iinfo(np.int32).min
    at(
        lambda x, p: (jnp.arange(4).at[p].get(mode="fill") == least) * x[:3, 0],
        lambda x, p: ((p < -4) | (p > 3)) * x[:3, 0],
        M,
        places=places,
    )


def changed(how):
    """x with v at places p, one after the other."""

    def formula(x, p, v):
        x = x.copy()
        for place, value in zip(p, v, strict=True):
            x[place] = how(x[place], value)
        return x

    return formula


ONCE = [[1, 0, 2], [2, 1, 0], [0, 3, 2]]


@pytest.mark.parametrize("x", [V, M], ids=["numbers", "rows"])
def test_changes(x):
    v = random.normal(size=(3, *x.shape[1:]))
    at(lambda x, p, v: x.at[p].add(v), changed(np.add), x, v)
    at(lambda x, p, v: x.at[p].subtract(v), changed(np.subtract), x, v)
    at(lambda x, p, v: x.at[p].set(v), changed(lambda a, b: b), x, v, places=ONCE)
    at(
        lambda x, p, v: x.at[p].multiply(v, unique_indices=True),
        changed(np.multiply),
        x,
        v,
        places=ONCE,
    )
    at(lambda x, p, v: x.at[p].max(v), changed(np.maximum), x, v, places=ONCE)
    at(lambda x, p, v: x.at[p].min(v), changed(np.minimum), x, v, places=ONCE)


def test_changes_of_columns_and_blocks():
    v = random.normal(size=(4, 3))
    at(
        lambda x, p, v: x.at[:, p].add(v),
        lambda x, p, v: changed(np.add)(x.T, p, v.T).T,
        M,
        v,
    )

    def formula(x, p):
        x = x.copy()
        x[p[0] : p[0] + 2, 1:] = 3
        return x

    at(
        lambda x, p: x.at[p[0] + jnp.arange(2)[:, None], jnp.arange(1, 3)].set(3.0),
        formula,
        M,
    )


def test_changes_at_no_place_are_dropped():
    places = [[1, 4, 0], [7, 3, 5], [9, 0, 2]]
    v = random.normal(size=(3, 3))

    def formula(x, p, v):
        return changed(np.add)(np.pad(x, ((0, 9), (0, 0))), p, v)[:4]

    at(lambda x, p, v: x.at[p].add(v), formula, M, v, places=places)
    at(
        lambda x, p, v: x.at[p].add(v, mode="clip"),
        lambda x, p, v: changed(np.add)(x, np.minimum(p, 3), v),
        M,
        v,
        places=places,
    )


def test_changes_of_ints():
    def counts(p):
        return np.bincount(p, minlength=3)

    at(
        lambda x, p: jnp.bincount(p, length=3) * x[:3],
        lambda x, p: counts(p) * x[:3],
        V,
    )
    at(
        lambda x, p: jnp.arange(4).at[p].max(p * 2) * x[:4],
        lambda x, p: changed(np.maximum)(np.arange(4), p, p * 2) * x[:4],
        V,
    )


def test_segments():
    def formula(x, p):
        return np.array([sum(x[p == k], np.zeros(3)) for k in range(3)])

    at(lambda x, p: jax.ops.segment_sum(x, p, 3), formula, M[:3])


def test_sort_along_another_axis():
    check(lambda x: jnp.sort(x, axis=0), lambda x: np.sort(x, axis=0), M)


def test_interpolation():
    xs, ys = np.array([-1.0, 0.5, 2.0]), np.array([1.0, -3.0, 2.0])
    check(lambda x: jnp.interp(x, xs, ys), lambda x: np.interp(x, xs, ys), V)


LARGE = 2**31 - 1


@pytest.mark.parametrize(
    ("op", "sizes", "extra", "wrong"),
    [
        ("GATHER", (1, 1, 0), (), "no blocks"),
        ("GATHER", (0, 1, 0), (0, 0), "nothing to compute"),
        ("GATHER", (1, 1, 0), (1, 4, 1), "extra is too short"),
        ("GATHER", (1, 1, 0), (9, *[0] * 40), "too many axes"),
        ("GATHER", (1, 1, 0), (0, 9, *[1] * 40), "too many axes"),
        ("GATHER", (1, 1, 0), (1, -1, 1, 0), "larger than what it is of"),
        ("GATHER", (1, 1, 0), (1, LARGE, LARGE, 0), "larger than what it is of"),
        ("GATHER", (1, 2, 0), (0, 1, 2, 2, 1), "not side by side"),
        ("GATHER", (1, 3, 0), (0, 1, 2, 1, 1), "another size"),
        ("GATHER", (1, 2, 0), (1, 7, 1, 1, 2, 1, 1), "not where it may be"),
        ("GATHER", (9, 1, 0), (1, 1, 1, 0), "not where it may be"),
        ("SCATTER", (1, 1, 0), (1, 1, 1, 0), "extra is too short"),
        ("SCATTER", (1, 1, 0), (1, 1, 1, 0, 5), "no such change"),
        ("SCATTER", (1, 1, 0), (1, 8, 1, 0, 0), "not where it may be"),
        ("SCATTER", (9, 1, 0), (1, 1, 1, 0, 0), "not where it may be"),
    ],
)
def test_what_is_beside_is_checked(op, sizes, extra, wrong):
    with pytest.raises(ValueError, match=wrong):
        program((op, *sizes), extra=extra, words=8)
    program(("GATHER", 2, 3, 0), extra=(1, 5, 1, 1, 3, 1, 1), words=8)
    program(("SCATTER", 2, 3, 0), extra=(1, 5, 1, 1, 3, 1, 1, 4), words=8)


def test_starts_that_only_unsigned_ints_can_be():
    """They are past the end, and not before the beginning."""

    def far(x):
        nothing = lax.stop_gradient(x[0] * 0).astype(jnp.uint32)
        return (nothing + np.uint32(1 << 31),)

    check(lambda x: lax.dynamic_slice(x, far(x), (2,)), lambda x: x[4:], V)
    check(
        lambda x: lax.dynamic_update_slice(x, -x[:2], far(x)),
        lambda x: np.concatenate([x[:4], -x[:2]]),
        V,
    )


@pytest.mark.parametrize("how", ["set", "add", "multiply", "min", "max"])
def test_a_gradient_that_is_changed_at_one_place(how):
    """Only what is added, or set once, is added to the gradient block by block."""

    def changed(numbers, by):
        return getattr(numbers.at[np.array([2])], how)(by)

    @jax.custom_vjp
    def function(x):
        return x * 1

    def back(_, cotangent):
        return (changed(jnp.zeros(6), cotangent[2:3] - 3),)

    function.defvjp(lambda x: (function(x), None), back)
    x = dy.inputVector(V)
    dy.sum_elems(dy.jax_op(function)(x)).backward(full=True)
    expected = np.zeros(6)
    expected[2] = {"multiply": 0, "max": 0}.get(how, -2)
    np.testing.assert_array_equal(x.gradient(), expected)
