"""Products of odd sizes, against float64."""

import os
import subprocess
import sys

import jax.numpy as jnp
import numpy as np
import pytest
from bench import Run

from dynetjax.engine.native import core

RNG = np.random.default_rng(21)
SIZES = [1, 2, 3, 4, 5, 7, 8, 9, 13, 16, 17, 24, 25, 31, 33, 40]


def close(got, a, b, exact):
    """Within what a sum of so many float32 numbers can be off."""
    bound = 4e-7 * (abs(a) @ abs(b)) + 1e-12
    assert (abs(got - exact) <= bound * np.sqrt(a.shape[-1])).all()


def matrices(*shapes):
    return [RNG.normal(size=s).astype(np.float32).astype(np.float64) for s in shapes]


LAYOUTS = {
    "a b": (lambda a, b: a @ b, lambda a: a, lambda b: b),
    "a^T b": (lambda a, b: a.T @ b, np.transpose, lambda b: b),
    "a b^T": (lambda a, b: a @ b.T, lambda a: a, np.transpose),
    "a^T b^T": (lambda a, b: a.T @ b.T, np.transpose, np.transpose),
}


@pytest.mark.parametrize("count", SIZES)
@pytest.mark.parametrize("layout", LAYOUTS)
def test_matrices(layout, count):
    """Every way in which operands lie, by each number of rows and columns."""
    ours, left, right = LAYOUTS[layout]
    for rows in (1, 2, 3, 5, 6, 7, 13, 40):
        columns = int(RNG.choice(SIZES))
        a, b = matrices((rows, count), (count, columns))
        run = Run(ours, (rows, columns), [left(a)[None], right(b)[None]])
        close(run.value[0], a, b, a @ b)
        seed = matrices((rows, columns))[0]
        at_a, at_b = run.gradients(seed[None])
        close(left(at_a[0]), seed, b.T, seed @ b.T)
        close(right(at_b[0]), a.T, seed, a.T @ seed)


@pytest.mark.parametrize("lanes", [1, 2, 3, 6, 7, 13, 40])
@pytest.mark.parametrize("turned", [False, True], ids=["W x", "W^T x"])
def test_one_matrix_for_the_vectors_of_all_lanes(turned, lanes):
    for count in SIZES:
        rows = int(RNG.choice(SIZES))
        w, x = matrices((rows, count), (lanes, count))
        given = w.T if turned else w

        def function(w, x, turned=turned):
            return (w.T if turned else w) @ x

        run = Run(function, (rows,), [x], [given])
        close(run.value, x, w.T, x @ w.T)
        seed = matrices((lanes, rows))[0]
        at_w, at_x = run.gradients(seed)
        close(at_w.T if turned else at_w, seed.T, x, seed.T @ x)
        close(at_x, seed, w, seed @ w)


@pytest.mark.parametrize("rows", [16, 23, 24, 47, 64, 103])
@pytest.mark.parametrize("layout", LAYOUTS)
def test_large_matrices(layout, rows):
    """Those that are gone through block by block; 256 numbers of a sum are one."""
    ours, left, right = LAYOUTS[layout]
    for count, columns in [(48, 32), (49, 47), (50, 66), (257, 33), (301, 450)]:
        a, b = matrices((rows, count), (count, columns))
        run = Run(ours, (rows, columns), [left(a)[None], right(b)[None]])
        close(run.value[0], a, b, a @ b)


@pytest.mark.parametrize("lanes", [1, 3, 8])
def test_one_matrix_for_the_matrices_of_all_lanes(lanes):
    for columns in SIZES:
        rows, count = map(int, RNG.choice(SIZES, 2))
        w, x = matrices((rows, count), (lanes, count, columns))
        run = Run(jnp.matmul, (rows, columns), [x], [w])
        seed = matrices((lanes, rows, columns))[0]
        for lane in range(lanes):
            close(run.value[lane], w, x[lane], w @ x[lane])
        at_w, at_x = run.gradients(seed)
        wide = seed.transpose(1, 0, 2).reshape(rows, -1)
        side = x.transpose(1, 0, 2).reshape(count, -1).T
        close(at_w, wide, side, wide @ side)
        for lane in range(lanes):
            close(at_x[lane], w.T, seed[lane], w.T @ seed[lane])


@pytest.mark.parametrize("odd", [np.nan, np.inf])
def test_numbers_beside_the_operands_are_not_read(odd):
    """Rows of 9 are cut out of rows of 16, between numbers that are not finite."""
    for count in (1, 3, 7, 8, 9, 15):
        a, b = matrices((5, 16), (16, 16))
        a[:, count:] = b[count:] = odd
        b[:, 13:] = odd

        def function(a, b, count=count):
            return a[:, :count] @ b[:count, :13]

        run = Run(function, (5, 13), [a[None], b[None]])
        left, right = a[:, :count], b[:count, :13]
        close(run.value[0], left, right, left @ right)

        def of_rows(a, b, count=count):
            return a[:, :count] @ b.T[:13, :count].T

        run = Run(of_rows, (5, 13), [a[None], b[None]])
        close(run.value[0], left, right, left @ right)


@pytest.mark.parametrize("count", [1, 5, 8, 11, 40])
def test_a_number_that_is_not_finite_stays_in_its_row(count):
    a, b = matrices((4, count), (count, 9))
    a[1, count // 2] = np.nan
    a[2, 0] = np.inf
    got = Run(jnp.matmul, (4, 9), [a[None], b[None]]).value[0]
    assert np.isnan(got[1]).all()
    assert not np.isfinite(got[2]).any()
    assert np.isfinite(got[[0, 3]]).all()


def test_sums_of_rows():
    """Sums of many numbers are as exact as those of few."""
    for count in (1, 7, 8, 9, 255, 256, 257, 1000):
        (x,) = matrices((2, count))
        run = Run(lambda x: x.sum(keepdims=True), (1,), [x])
        off = abs(run.value[:, 0] - x.sum(1))
        assert (off <= 1e-6 * abs(x).sum(1)).all()


LEVELS = ["plain", "x86-64-v3", "x86-64-v4"]


@pytest.mark.parametrize("level", LEVELS[: LEVELS.index(core.LEVEL)])
def test_the_kernels_of_lower_levels(level):
    """They pass the tests of those that are for the processor."""
    code = (
        "from dynetjax.engine.native import core\n"
        "import pytest, sys\n"
        f"assert core.LEVEL == {level!r}\n"
        "sys.exit(pytest.main(sys.argv[1:]))"
    )
    folder = os.path.dirname(__file__)
    files = [os.path.join(folder, f"test_{n}.py") for n in ("kernels", "accuracy")]
    env = {**os.environ, "DYNETJAX_LEVEL": level}
    told = subprocess.run(
        [sys.executable, "-c", code, "-q", "-k", "not levels", *files],
        env=env,
        capture_output=True,
        text=True,
    )
    assert told.returncode == 0, told.stdout
