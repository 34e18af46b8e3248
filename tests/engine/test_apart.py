"""Small programs are run by one thread: undivided kernels, parts that are functions."""

import os
from itertools import chain

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from jax import lax

from dynetjax.engine import apart as module
from dynetjax.engine.apart import FEW, apart, caller, few_at_once
from dynetjax.engine.compiling import options_for

from ..backends import on_cpu

MARK = 'inlineable="false"'


def part(x, more):
    """A part with a loop, and with a function that JAX makes one by itself."""
    y = lax.fori_loop(0, 3, lambda k, y: jnp.where(y > more["least"], y * x, y), x)
    return {"found": (y, None)}


def whole(call):
    return lambda x, least: call(part, x, {"least": least})["found"][0] + 1


ARGUMENTS = np.linspace(-1, 2, 8, dtype=np.float32), np.float32(0.5)


@on_cpu
def test_a_part_is_a_function_and_nothing_in_it():
    program = jax.jit(whole(apart)).lower(*ARGUMENTS).compile()
    calls = [line for line in program.as_text().splitlines() if MARK in line]
    assert [" call(" in line for line in calls] == [True]
    x, least = ARGUMENTS
    expected = x
    for _ in range(3):
        expected = np.where(expected > least, expected * x, expected)
    np.testing.assert_allclose(program(*ARGUMENTS), expected + 1, rtol=1e-6)


@pytest.mark.parametrize("without", ["CPU", "metadata"])
def test_elsewhere_it_is_inlined(monkeypatch, without):
    if without == "CPU":
        monkeypatch.setattr(jax, "default_backend", lambda: "gpu")
    else:
        monkeypatch.setattr(module, "set_xla_metadata", None)
    here = jax.make_jaxpr(whole(apart))(*ARGUMENTS)
    assert str(here) == str(jax.make_jaxpr(whole(caller(False)))(*ARGUMENTS))


def test_few_at_once():
    numbers = [*range(2 * FEW + 1)]
    found = [*few_at_once(numbers)]
    assert [*chain(*found)] == numbers
    assert [len(few) for few in found] == [FEW, FEW, 1]


@on_cpu
@pytest.mark.skipif(os.cpu_count() == 1, reason="one thread divides nothing")
@pytest.mark.parametrize("small", [False, True])
def test_few_rows_of_a_pool_are_no_work_to_divide(small):
    """Without the option XLA takes what gathers them for as much as all of the pool."""

    def gathered(pool, tape, trips):
        def add(k, found):
            return found + jnp.sin(pool[lax.dynamic_slice_in_dim(tape, k, 4)])

        return lax.fori_loop(0, trips, add, jnp.zeros((4, 128)))

    run = jax.jit(gathered, compiler_options=options_for(small))
    shapes = jnp.ones((4096, 128)), jnp.zeros(64, jnp.int32), 3
    text = run.lower(*shapes).compile().as_text()
    assert ('outer_dimension_partitions":["' in text) == (not small)
