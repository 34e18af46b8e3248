"""Rules as the executor in C++ runs them: byte code over blocks of numbers."""

import functools
from collections.abc import Callable
from dataclasses import replace
from typing import Any

import numpy as np

from dynetjax.core.lazy import jax
from dynetjax.engine.native import kept
from dynetjax.engine.native.lowering.arrays import (
    Array,
    Buffer,
    NotCoveredError,
    Value,
)
from dynetjax.engine.native.lowering.bytecode import ELEMENTWISE, Code, Pool, ints
from dynetjax.engine.native.lowering.lower import inline
from dynetjax.engine.native.program import inputs_of
from dynetjax.native import core
from dynetjax.trainers.rules import NativeRule, RuleOfNumbers

SIZE = 256
"""Numbers that byte code changes at a time: they stay in the first cache meanwhile."""


@functools.lru_cache(maxsize=64)
def native_rule(rule: NativeRule) -> Any:
    """A rule of numbers for `core.update`; None if there is no byte code for it."""
    trace = functools.cache(lambda: _traced(rule))
    try:
        return core.Rule(*[_program_of(rule, count, trace) for count in core.TERMS])
    except NotCoveredError:
        return None


def _program_of(rule: NativeRule, terms: int, trace: Callable[[], Any]) -> Any:
    """A program of a rule, from a file if there is one.

    Args:
        terms: how many of `Terms` in rule.h it has; what else there is, is 1.
    Raises:
        NotCoveredError: there is none for some primitive.
    """
    numbers = terms + len(rule.common)
    interface = {
        "form": core.FORMS["MAP"],
        "size": SIZE,
        "weights": ints(range(numbers)),
        "weight_sizes": ints([1] * numbers),
    }
    ours = isinstance(rule, RuleOfNumbers)
    file = kept.file_of((terms, rule)) if ours else None
    return kept.program(file, interface, lambda: _compiled(rule, trace(), terms))


def _traced(rule: NativeRule) -> Any:
    """JAX's account of a rule's `run`.

    Raises:
        NotCoveredError: it has too much state.
    """
    if rule.states > core.MOST_STATES:
        raise NotCoveredError("more state than there is room for")
    one = jax.ShapeDtypeStruct((), np.float32)
    common = [jax.ShapeDtypeStruct((), np.dtype(f"{x}4")) for x in rule.common]
    vector = jax.ShapeDtypeStruct((SIZE,), np.float32)
    given = [one, one, *common, *[vector] * (2 + rule.states)]
    return jax.make_jaxpr(rule.run)(*given)


def _compiled(rule: NativeRule, closed: Any, terms: int) -> dict[str, Any]:
    """The arguments of its program that tell what it computes.

    Raises:
        NotCoveredError: as `_program_of`.
    """
    numbers, count = terms + len(rule.common), rule.states
    code = Code(Pool())
    shapes: list[tuple[int, ...]] = [()] * numbers + [(SIZE,)] * (2 + count)
    given = inputs_of(shapes, numbers)
    step, rate, *scales = given[:terms]
    kinds = zip(given[terms:numbers], rule.common, strict=True)
    shared = [replace(x, kind=kind) for x, kind in kinds]
    gradient, values, *state = given[numbers:]

    def times(x: Value, scale: Array | None) -> Array:
        x = code.array(x)
        return x if scale is None else code.map("MUL", "f", (SIZE,), x, scale)

    factor, seen, stays, by = [*scales, *[None] * 4][:4]
    told: list[Value] = [step, rate, *shared]
    rows: list[Value] = [times(gradient, factor), times(values, seen), *state]
    change, *after = inline(code, closed.jaxpr, closed.consts, [*told, *rows])
    new = code.map("ADD", "f", (SIZE,), times(values, stays), times(change, by))
    results = [new, *map(code.array, after)]
    held = {x.buffer for x in results}
    code.prune(held)
    code.fuse(held)
    _put(code, results[: 1 + count], [values, *state])
    for k, x in enumerate(results[1 + count :]):
        code.put(x, Buffer(core.SAVED, 1, 1, SIZE * count + k))
    code.prune()
    if any(i.op not in ELEMENTWISE or i.n not in (1, SIZE) for i in code.code):
        raise NotCoveredError("a rule that does not go number by number")
    code.code.sort(key=lambda i: i.n != 1)  # what follows from the terms comes first
    words, room = code.encode()
    return {
        "forward": words,
        "sizes": ints([SIZE] * (2 + count)),
        **code.pool.arrays(),
        "temporary": room,
        "saved": SIZE * count + len(results) - 1 - count,
    }


def _put(code: Code, results: list[Array], old: list[Array]) -> None:
    """Have values and state where the old ones are, which nothing may read any more."""
    read: dict[Buffer, int] = {}
    for number, i in enumerate(code.code):
        read.update((x.buffer, number) for x in i.operands)
    for k, (x, before) in enumerate(zip(results, old, strict=True)):
        if any(x.buffer is y.buffer for y in old if y is not before):
            raise NotCoveredError("state that becomes another one's")
        slot, start = (core.SAVED, SIZE * (k - 1)) if k else (core.VALUE, 0)
        made = code.made.get(x.buffer)
        first = code.code.index(made) if made in code.code else -1
        if first < read.get(before.buffer, -1):
            code.made.pop(x.buffer, None)  # it is copied, in the end
        code.put(x, Buffer(slot, SIZE, SIZE, start))
