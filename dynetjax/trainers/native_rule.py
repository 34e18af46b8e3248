"""Rules as the executor in C++ runs them: as a loop, or as byte code."""

import functools
from typing import Any

import numpy as np

from dynetjax.core.lazy import jax, jnp
from dynetjax.engine.native.lowering.arrays import (
    Array,
    Buffer,
    NotCoveredError,
    Value,
    side_by_side,
)
from dynetjax.engine.native.lowering.bytecode import Code, Pool
from dynetjax.engine.native.lowering.lower import inline
from dynetjax.native import core
from dynetjax.trainers.native_loops import LoopedRule, Rule

SIZE = 1024
"""Numbers that byte code changes at a time: they stay in the cache meanwhile."""
MOST_STATES = 8


@functools.lru_cache(maxsize=64)
def native_rule(rule: Rule) -> Any:
    """A rule of numbers for `core.update`; None if there is no byte code for it."""
    if isinstance(rule, LoopedRule):
        return core.Rule(rule.loop, rule.numbers, rule.states)
    leaves = jax.tree.leaves(rule.init(jnp.zeros(1)))
    if len(leaves) > MOST_STATES or any(leaf.dtype != np.float32 for leaf in leaves):
        return None
    try:
        return core.Rule(program_of(rule), (), len(leaves))
    except NotCoveredError:
        return None


def program_of(rule: Rule) -> Any:
    """Byte code for `SIZE` numbers: gradients, values and state to change and state.

    Raises:
        NotCoveredError: there is none for some primitive.
    """
    leaves, tree = jax.tree.flatten(rule.init(jnp.zeros(1)))
    count = len(leaves)

    def run(factor, step, rate, gradient, values, *leaves):
        state = jax.tree.unflatten(tree, leaves)
        change, state = rule.update(
            gradient * factor, state, values, step=step, learning_rate=rate
        )
        return change, *jax.tree.leaves(state)

    one = jax.ShapeDtypeStruct((), np.float32)
    vector = jax.ShapeDtypeStruct((SIZE,), np.float32)
    closed = jax.make_jaxpr(run)(*[one] * 3, *[vector] * (2 + count))
    code = Code(Pool())
    shapes = [()] * 3 + [(SIZE,)] * (2 + count)
    given: list[Value] = [
        _operand(core.FIRST + k, shape) for k, shape in enumerate(shapes)
    ]
    change, *leaves = inline(code, closed.jaxpr, closed.consts, given)
    saved = SIZE * count
    code.put(change, Buffer(core.VALUE, SIZE, SIZE))
    for k, leaf in enumerate(leaves):
        code.put(leaf, Buffer(core.SAVED, SIZE, SIZE, k * SIZE))
    code.prune()
    words, room = code.encode()
    return core.Program(
        0,
        SIZE,
        sizes=_ints([SIZE] * (2 + count)),
        weights=_ints([0, 1, 2]),
        weight_sizes=_ints([1, 1, 1]),
        forward=words,
        extra=_ints(code.pool.extra),
        constants=np.concatenate([*code.pool.constants, np.zeros(1, np.int32)]),
        temporary=room,
        saved=saved,
    )


def _operand(slot: int, shape: tuple[int, ...]) -> Array:
    stride = core.DYNAMIC if shape else 0
    buffer = Buffer(slot, SIZE if shape else 1, stride)
    return Array(buffer, 0, shape, side_by_side(shape), "f")


def _ints(numbers: Any) -> np.ndarray:
    return np.array([*numbers], np.int32)
