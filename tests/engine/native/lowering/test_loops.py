"""Loops and branches: values and gradients, lane by lane."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from computed import check, check_lanes, program
from jax import lax

import dynetjax as dy
from dynetjax.engine.native.part import NativePart

X = np.array([0.7, -1.3, 0.4, 1.1, -0.2])
M = np.array([[0.5, -0.3, 0.8], [0.2, 0.9, -0.4], [-0.7, 0.1, 0.6]])

pytestmark = pytest.mark.usefixtures("natively")


def recurrent(weights, x):
    """States of a network that reads numbers, and its last one."""

    def step(h, number):
        h = jnp.tanh(weights @ h + number)
        return h, h * number

    last, all_of_them = lax.scan(step, jnp.ones(3), x)
    return jnp.concatenate([last, all_of_them.reshape(-1)])


def recurrent_formula(weights, x):
    h, found = np.ones(3), []
    for number in x:
        h = np.tanh(weights @ h + number)
        found.append(h * number)
    return np.concatenate([h, *found])


def test_scan():
    check(recurrent, recurrent_formula, M, X)


def test_weights_that_a_scan_reads():
    """Their gradient is the sum of those of all lanes."""
    dy.renew_cg()
    weights = dy.ParameterCollection().parameters_from_numpy(M)
    lanes = [X, X * -0.5, X[::-1]]
    y = dy.jax_op(recurrent)(weights, dy.inputTensor(np.stack(lanes, -1), batched=True))
    loss = dy.sum_batches(dy.sum_elems(y))
    loss.backward()
    assert all(isinstance(part, NativePart) for part in loss.graph.state.parts)

    def formula(weights):
        return sum(recurrent_formula(weights, x).sum() for x in lanes)

    assert loss.value() == pytest.approx(formula(M), rel=1e-4)
    slopes = np.zeros((3, 3))
    for index in np.ndindex(3, 3):
        step = np.zeros((3, 3))
        step[index] = 1e-6
        slopes[index] = (formula(M + step) - formula(M - step)) / 2e-6
    np.testing.assert_allclose(weights.grad_as_array(), slopes, 1e-3, 1e-4)


def test_scan_backwards():
    def function(x):
        return lax.scan(lambda c, y: (c * 0.5 + y, c * y), 1.0, x, reverse=True)[1]

    def formula(x):
        found, c = np.zeros_like(x), 1.0
        for k in reversed(range(len(x))):
            found[k], c = c * x[k], c * 0.5 + x[k]
        return found

    check(function, formula, X)


def test_what_is_handed_on_may_change_places():
    def step(state, y):
        a, b = state
        return (b, a + y), a  # what is listed is what was handed on

    def function(x):
        (a, b), found = lax.scan(step, (x[0] * x[0], x[1]), x)
        return jnp.concatenate([found, jnp.stack([a, b])])

    def formula(x):
        a, b, found = x[0] ** 2, x[1], []
        for y in x:
            found.append(a)
            a, b = b, a + y
        return np.array([*found, a, b])

    check(function, formula, X)


def test_a_part_of_what_is_handed_on():
    """Each trip turns the vector, and adds what was in front to its end."""

    def function(x):
        def step(state, _):
            whole, end = state
            return (jnp.roll(whole, 1) * 1.5, whole[1:3] + end), None

        whole, end = lax.scan(step, (x, x[:2]), length=4)[0]
        return jnp.concatenate([whole, end])

    def formula(x):
        whole, end = x, x[:2]
        for _ in range(4):
            whole, end = np.roll(whole, 1) * 1.5, whole[1:3] + end
        return np.concatenate([whole, end])

    check(function, formula, X)


def test_scan_over_matrices_within_a_scan():
    def inner(row):
        return lax.scan(lambda c, y: (jnp.sin(c) + y, None), row[0], row)[0]

    def function(m):
        return lax.scan(lambda c, row: (c + inner(row * c), inner(row)), 0.5, m)[1]

    def inner_formula(row):
        c = row[0]
        for y in row:
            c = np.sin(c) + y
        return c

    check(function, lambda m: np.array([inner_formula(row) for row in m]), M)


def test_what_only_a_later_trip_reads_is_kept():
    """The first number handed on goes through two others before it is seen."""

    def function(x):
        def step(state, y):
            a, b, _ = state
            return (y * y, a, b), None

        return lax.scan(step, (x[0], x[1], x[2]), x)[0][2]

    check(function, lambda x: np.array([x[2] ** 2]), X)


def halvings(x):
    """How often each number is halved until it is 1 or less."""

    def body(state):
        y, count = state
        return y / 2, count + 1

    return lax.while_loop(lambda state: state[0] > 1, body, (x[0], 0.0))[1]


def test_lanes_leave_a_while_at_different_times():
    check_lanes(
        lambda x: halvings(lax.stop_gradient(x)),
        lambda x: np.maximum(np.ceil(np.log2(x)), 0),
        *[[[n]] for n in (9.0, 0.5, 40.0, 2.5)],
        smooth=False,
    )


def test_loops_that_vmap_makes_one_end_at_different_times():
    """What has ended stays, as what others go on with grows."""

    def both(x):
        def body(state):
            y, count = state
            return y * 0.5, count + 1

        y, count = lax.while_loop(lambda s: jnp.abs(s[0]) > 1, body, (x, 0))
        return jnp.stack([y, count])

    def formula(x):
        counts = np.maximum(np.ceil(np.log2(np.abs(x))), 0)
        return np.stack([x / 2**counts, counts], 1)

    check(lambda x: jax.vmap(both)(lax.stop_gradient(x)), formula, X * 20, smooth=False)


def test_while_within_a_scan_and_a_scan_within_a_while():
    def step(total, y):
        count = halvings(lax.stop_gradient(jnp.abs(y * 8))[None])
        return total + count * y, total

    def function(x):
        return lax.scan(step, 0.0, x)[0]

    def formula(x):
        counts = np.maximum(np.ceil(np.log2(np.abs(x * 8))), 0)
        return np.array([np.sum(counts * x)])

    check(function, formula, X)

    def outer(x):
        def body(state):
            y, count = state
            return lax.scan(lambda c, z: (c * 0.9 + z, None), y, x)[0], count + 1

        def goes_on(state):
            return (jnp.abs(state[0]) < 5) & (state[1] < 10)

        return lax.while_loop(goes_on, body, (x[0], 0))[0]

    def outer_formula(x):
        y, count = x[0], 0
        while abs(y) < 5 and count < 10:
            count += 1
            for z in x:
                y = y * 0.9 + z
        return np.array([y])

    check(lambda x: outer(lax.stop_gradient(x)), outer_formula, X, smooth=False)


def test_fori_loop_whose_end_is_data():
    def function(x):
        count = jnp.round(jnp.abs(lax.stop_gradient(x[0])) * 10).astype(jnp.int32)
        return lax.fori_loop(0, count, lambda k, y: y + k, 0).astype(jnp.float32)

    def formula(x):
        count = int(np.rint(abs(x[0]) * 10))
        return np.array([count * (count - 1) // 2])

    check(function, formula, X, smooth=False)


def test_branches():
    """Lanes take different branches; what they read is of their own."""

    def function(x, y):
        total = jnp.sum(x)
        return lax.cond(total > 0, lambda: jnp.exp(x) * y, lambda: y - x * total)

    def formula(x, y):
        return np.exp(x) * y if x.sum() > 0 else y - x * x.sum()

    check(function, formula, X, X[::-1].copy())


@pytest.mark.parametrize("which", [-3, 0, 1, 2, 7])
def test_the_nearest_branch_is_taken(which):
    def function(x):
        number = jnp.int32(which) + lax.stop_gradient(x[0] * 0).astype(jnp.int32)
        branches = jnp.sin, jnp.cos, lambda x: x * x
        return lax.switch(number, branches, x)

    branches = np.sin, np.cos, np.square
    check(function, branches[min(max(which, 0), 2)], X)


def test_branches_in_a_scan():
    def function(x):
        def step(c, y):
            c = lax.cond(y > 0, lambda: c * y, lambda: c - y)
            return c, c

        return lax.scan(step, 1.0, x)[1]

    def formula(x):
        c, found = 1.0, []
        for y in x:
            c = c * y if y > 0 else c - y
            found.append(c)
        return np.array(found)

    check(function, formula, X)


def test_rematerialised():
    def function(x):
        step = jax.checkpoint(lambda c, y: (jnp.tanh(c + y), None))
        return lax.scan(step, 0.1, x)[0]

    def formula(x):
        c = 0.1
        for y in x:
            c = np.tanh(c + y)
        return np.array([c])

    check(function, formula, X)


@pytest.mark.parametrize(
    ("rows", "extra", "wrong"),
    [
        ([("LOOP", 2, 2, 0), ("NEG", 1, 0, 0)], (), "longer than what it is in"),
        ([("LOOP", 2, -1, 0), ("NEG", 1, 0, 0)], (), "a size is none"),
        ([("WHILE", 1, 1, 1), ("NEG", 1, 0, 0)], (), "longer than what it is in"),
        (
            [("LOOP", 2, 2, 0), ("LOOP", 2, 2, 0), *[("NEG", 1, 0, 0)] * 2],
            (),
            "longer than what it is in: instruction 1 of forward",
        ),
        ([("BRANCH", 0, 0, 0)], (), "no block"),
        ([("BRANCH", 2, 0, 0)], (0,), "extra is too short"),
        ([("BRANCH", 2, 0, 0), ("NEG", 1, 0, 0)], (1, -1), "longer than"),
        ([("BRANCH", 2, 0, 0), ("NEG", 1, 0, 0)], (1, 1), "longer than"),
        ([("LOOP", 2, 1, 0), ("NEG", 5, 0, 0)], (), "not where it may be: instr.* 1"),
        ([("LOOP", 1, 99 - k, 0) for k in range(100)], (), "nested too deep"),
    ],
)
def test_blocks_are_checked(rows, extra, wrong):
    with pytest.raises(ValueError, match=wrong):
        program(*rows, extra=extra)


def test_blocks_end_where_others_do():
    program(("LOOP", 2, 2, 0), ("LOOP", 2, 1, 0), ("NEG", 1, 0, 0), ("NEG", 2, 0, 0))
    program(("BRANCH", 2, 0, 0), ("NEG", 1, 0, 0), ("ABS", 1, 0, 0), extra=(1, 1))
    program(("WHILE", 1, 1, 1), ("NEG", 1, 0, 0), ("ABS", 1, 0, 0))
