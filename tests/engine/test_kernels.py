"""Loops as one kernel: where XLA can, with the same values; and where it cannot."""

from functools import partial

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from jax import lax

from dynetjax.engine import apart, kernels
from dynetjax.engine.apart import can_be
from dynetjax.engine.compiling import Compiled
from dynetjax.engine.kernels import branches_within, loop, one_kernel

from ..backends import on_cpu

MARK = 'inlineable="false",xla_cpu_small_call="true"'
SIZE, ROOM = 8, 16
RANDOM = np.random.default_rng(0)
WEIGHT = RANDOM.normal(size=(SIZE, SIZE)).astype(np.float32) / 2
ROWS = RANDOM.normal(size=(ROOM, SIZE)).astype(np.float32)


def product(h, weight, t):
    return jnp.tanh(weight @ h)


def product_from_the_left(h, weight, t):
    return jnp.tanh(h @ weight)


def softmax(h, weight, t):
    return jax.nn.softmax(h) + jnp.argmax(h)


def sums(h, weight, t):
    return jnp.cumsum(h) - jnp.max(h) + jnp.sum(weight @ h) / 8


def rows(h, weight, t):
    return jnp.take(weight, t % SIZE, axis=0) - weight[(t + jnp.arange(SIZE)) % 4, 1]


def pieces(h, weight, t):
    return jnp.concatenate([h[4:], jnp.pad(h[:2], (1, 1))]) / 2


def branches(h, weight, t):
    return lax.cond(t % 2 > 0, jnp.sin, lambda h: jnp.where(h > 0, h, 1), h)


def random(h, weight, t):
    key = jax.random.wrap_key_data(jnp.stack([t, t]).astype(jnp.uint32))
    return h / 2 + jax.random.uniform(key, h.shape)


def matrices(h, weight, t):
    return jnp.tanh(weight @ weight @ h)


def scattered(h, weight, t):
    return (h / 2).at[(jnp.arange(2) * 3 + t) % SIZE].add(h[:2])


def ordered(h, weight, t):
    return jnp.sort(h)[::-1] / 2


def large_sum(h, weight, t):
    return h / 2 + jnp.outer(jnp.tile(h, 32), jnp.tile(h, 32)).sum(axis=0)[:SIZE] / 256


KERNELS = [
    product,
    product_from_the_left,
    softmax,
    sums,
    rows,
    pieces,
    branches,
    random,
]
OTHERS = [matrices, scattered, ordered, large_sum]


def recurrent(of_step):
    """A loop with a pool: what a step writes, the next one reads."""

    def run(trips, weight, inputs, pool):
        def step(t, state):
            pool, others = state
            h = lax.dynamic_index_in_dim(pool, t, keepdims=False) + inputs[t]
            made = of_step(h, weight, t)
            return lax.dynamic_update_slice(pool, made[None], (t + 1, 0)), others

        return loop(trips, step, (pool, {"unchanged": pool[0]}), True)

    return run


def compute(run, trips, **options):
    arguments = np.int32(trips), WEIGHT, ROWS, np.zeros((ROOM + 1, SIZE), np.float32)
    program = jax.jit(run).lower(*arguments).compile(options or None)
    (pool, others), text = program(*arguments), program.as_text()
    np.testing.assert_array_equal(others["unchanged"], 0)
    return np.asarray(pool), text.count(MARK)


@on_cpu
@pytest.mark.parametrize("level", [1, 3])
@pytest.mark.parametrize("of_step", KERNELS + OTHERS)
def test_has_the_same_values(of_step, level):
    found, count = compute(recurrent(of_step), 5, xla_backend_optimization_level=level)
    assert bool(count) == (of_step in KERNELS)
    pool = np.zeros((ROOM + 1, SIZE), np.float32)
    for t in range(5):
        pool[t + 1] = of_step(jnp.asarray(pool[t] + ROWS[t]), WEIGHT, jnp.int32(t))
    np.testing.assert_allclose(found, pool, rtol=1e-5, atol=1e-6)


@on_cpu
def test_no_trip_changes_nothing():
    found, count = compute(recurrent(product), 0)
    np.testing.assert_array_equal(found, 0)
    assert count


@on_cpu
def test_may_read_what_it_does_not_use():
    """XLA drops what is multiplied, and ended the process for what was read for it."""

    def run(trips, weight, inputs, pool):
        def step(t, state):
            _, pull = jax.vjp(lambda h, w: h * w[0], inputs[t], doubled)
            gradient, _ = pull(inputs[t])
            jnp.sin(weight)
            return lax.dynamic_update_slice(state, gradient[None], (t, 0))

        doubled = weight * 2
        return loop(trips, step, pool, True), {"unchanged": jnp.zeros(1)}

    found, count = compute(run, 3)
    np.testing.assert_allclose(found[:3], ROWS[:3] * 2 * WEIGHT[0], rtol=1e-6)
    assert count


@on_cpu
def test_may_read_an_empty_array():
    def run(trips, weight, inputs, pool):
        def step(t, state):
            return state + jnp.sum(empty) + 1

        empty = inputs[:0] * 2
        return loop(trips, step, pool, True), {"unchanged": jnp.zeros(1)}

    found, _ = compute(run, 3)
    np.testing.assert_array_equal(found, 3)


@pytest.mark.parametrize("without", ["CPU", "metadata", "small"])
def test_elsewhere_it_is_an_ordinary_loop(monkeypatch, without):
    if without == "CPU":
        monkeypatch.setattr(jax, "default_backend", lambda: "gpu")
    elif without == "metadata":
        monkeypatch.setattr(apart, "set_xla_metadata", None)
    arguments = 3, lambda t, x: x * 2, jnp.ones(2), without != "small"
    assert "jit" not in str(jax.make_jaxpr(lambda: loop(*arguments))())
    one = str(jax.make_jaxpr(lambda x: one_kernel(lax.sin, x))(1.0))
    assert ("jit" in one) == (without == "small" and can_be())


@on_cpu
def test_is_an_ordinary_loop_if_xla_fails(monkeypatch):
    monkeypatch.setattr(kernels, "_is_plain", lambda jaxpr: True)
    arguments = np.int32(4), WEIGHT, ROWS, np.zeros((ROOM + 1, SIZE), np.float32)
    with pytest.raises(jax.errors.JaxRuntimeError):
        jax.jit(recurrent(ordered)).lower(*arguments).compile()
    program = Compiled(recurrent(ordered), "pool", small=True)
    pool, _ = program(*[jnp.asarray(x) for x in arguments])
    monkeypatch.undo()
    expected, _ = compute(recurrent(ordered), 4)
    np.testing.assert_allclose(pool, expected, rtol=1e-6)


@on_cpu
def test_there_can_be_kernels():
    assert can_be() == (apart.set_xla_metadata is not None)


def branching(x):
    return lax.cond(x > 0, jnp.sin, jnp.cos, x)


def looping(x, step=jnp.sin):
    return lax.fori_loop(0, jnp.int32(x), lambda t, x: step(x), x)


@pytest.mark.parametrize(
    ("run", "within"),
    [
        (jnp.sin, False),
        (branching, False),
        (looping, False),
        (lambda x: branching(looping(x)), False),
        (partial(looping, step=looping), True),
        (partial(looping, step=jax.jit(looping)), True),
        (partial(looping, step=branching), True),
        (partial(looping, step=lambda x: jax.scipy.special.gammainc(x, x)), True),
        (lambda x: lax.cond(x > 0, looping, jnp.cos, x), True),
    ],
)
def test_branches_in_others(run, within):
    assert branches_within(jax.make_jaxpr(run)(1.0).jaxpr) == within
