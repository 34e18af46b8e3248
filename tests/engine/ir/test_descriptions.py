"""Descriptions tell apart what is traced otherwise, and leave out nothing."""

import functools
import gc

import jax
import jax.numpy as jnp
import numpy as np
import optax
import pytest

import dynetjax as dy
from dynetjax.core.registry import Op
from dynetjax.engine.ir.descriptions import NotDescribedError, described
from dynetjax.engine.plan.code import Read
from dynetjax.trainers.adam import adam


def operations():
    return [op for op in gc.get_objects() if isinstance(op, Op)]


def test_every_operation_has_its_own():
    """But for those that users, or tests, have made of functions of their own."""
    several = {}
    for op in operations():
        of_users = op.name.startswith("jax_op")
        if op.fn is None or (op.fn.__module__.startswith("dynetjax.") and not of_users):
            several.setdefault(described(op), set()).add(id(op))
    assert len(several) > 150
    assert [names for names, ops in several.items() if len(ops) > 1] == []


@pytest.mark.parametrize(
    ("one", "other"),
    [
        (1, 1.0),
        (True, 1),
        ("1", 1),
        ((1, 2), [1, 2]),
        ((1, (2,)), ((1, 2),)),
        (Read(0, (3,), 1, None, True), Read(0, (3,), 1, None, False)),
        (slice(1, 2), slice(1, 2, 1)),
        ({"a": 1}, {"a": 2}),
        (np.float32(1), np.float64(1)),
        (jnp.tanh, jnp.sinh),
        (functools.partial(jnp.sum, axis=0), functools.partial(jnp.sum, axis=1)),
        (adam(0.9, 0.999, 1e-8).update, adam(0.8, 0.999, 1e-8).update),
        (jax.nn.relu, jax.nn.silu),
    ],
)
def test_differ(one, other):
    assert described(one) != described(other)
    assert described(one) == described(one)


def of_a_test(x):
    return x


@pytest.mark.parametrize(
    "thing",
    [
        of_a_test,
        lambda x: x,
        functools.partial(of_a_test, 1),
        jax.jit(of_a_test),
        object(),
        jnp.zeros(3),
        np.zeros(3),
        optax.GradientTransformation(of_a_test, of_a_test),
        {1, 2},
    ],
)
def test_what_may_do_anything_has_none(thing):
    with pytest.raises(NotDescribedError):
        described((1, (thing,)))


def test_nor_has_what_a_user_made_of_it():
    operation = dy.jax_op(of_a_test)
    operation(dy.inputVector([1, 2]))
    (op,) = [op for op in operations() if op.name == "jax_op(of_a_test)"]
    with pytest.raises(NotDescribedError):
        described(op)
