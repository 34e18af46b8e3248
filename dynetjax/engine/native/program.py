"""A fused operation as a program of tier 0: forward, and back."""

from collections import Counter
from math import prod
from typing import Any

import jax
import numpy as np

from dynetjax.dims import Shape
from dynetjax.engine.macros import Macro
from dynetjax.engine.native import core
from dynetjax.engine.native.arrays import (
    COTANGENT,
    DYNAMIC,
    FIRST,
    VALUE,
    Array,
    Buffer,
    NotCoveredError,
    Value,
    kind_of,
    side_by_side,
)
from dynetjax.engine.native.bytecode import OP, Code, Pool
from dynetjax.engine.native.fourier import parts_of, whole
from dynetjax.engine.native.lower import inline
from dynetjax.ops.registry import (
    FAN_IN,
    GATHER,
    INPUT,
    JOIN,
    LOOKUP,
    MAP,
    OWNERS,
    REDUCE,
)

TRIPS = 8  # of a loop that ends when it ends
FORMS = {MAP: 0, INPUT: 1, LOOKUP: 2, REDUCE: 3, GATHER: 4, JOIN: 5}
DATA: dict[str, tuple[type, Shape]] = {
    "i": (np.int32, ()),
    "f": (np.float32, ()),
    "k": (np.uint32, (2,)),
}


def program_of(macro: Macro) -> Any:
    """The program of a fused operation; None if some of it has no byte code."""
    try:
        if macro.form == MAP:
            return _mapped(macro)
    except NotCoveredError:
        return None
    form, size = FORMS.get(macro.form), prod(macro.shape)
    if form is None or not size:
        return None
    table, weighted, pieces, outer = -1, False, 0, 1
    if macro.form == LOOKUP:
        table, weighted = macro.kinds[0].id, not macro.kinds[0].constant
    if macro.form == JOIN:
        pieces, outer = FAN_IN, prod(macro.shape[: macro.steps[0].signature.static[1]])
    none = _ints([])
    about = none, none, none, "", none, none, none, none, none, none
    return core.Program(
        form, size, size, weighted, *about, 0, 0, none, table, pieces, outer
    )


def function_of(macro: Macro) -> Any:
    """What a fused operation computes of uniforms, operands and data, by JAX."""
    first = len(macro.kinds)

    def run(*arguments: Any) -> Any:
        uniforms = iter(arguments[:first])
        leaves = arguments[first:]
        data = iter(leaves[len(macro.leaves) :])
        values: list[Any] = []
        for step in macro.steps:
            op, operands = step.signature.op, []
            for what, n in step.operands:
                if what == "uniform":
                    operands.append(next(uniforms))
                else:
                    operands.append(values[n] if what == "step" else leaves[n])
            given = [next(data) for _ in op.runtime]
            values.append(op.bind(step.signature.static)(*operands, *given))
        return values[-1]

    return run


def data_of(macro: Macro) -> list[tuple[int, str]]:
    """Where a node's args have runtime data, and of which type that is."""
    return [
        (place, macro.steps[step].signature.op.runtime[field])
        for (step, field), place in macro.fields.items()
    ]


def _mapped(macro: Macro) -> Any:
    kinds, data = macro.kinds, data_of(macro)
    for kind in kinds:
        owner = OWNERS.get(kind.source) if kind.is_parameter else None
        if owner is not None and owner.is_table:
            raise NotCoveredError("a whole table")
    shapes = [*[kind.shape for kind in kinds], *[leaf.shape for leaf in macro.leaves]]
    if not all(map(prod, [*shapes, macro.shape])):
        raise NotCoveredError("arrays without numbers")
    count, function = len(shapes), function_of(macro)
    tree: list[Any] = []

    def forth(*xs: Any) -> Any:
        out, pull = jax.vjp(lambda *ys: function(*ys, *xs[count:]), *xs[:count])
        residuals, treedef = jax.tree.flatten(pull)
        tree[:] = [treedef]
        return out, residuals

    floats = [jax.ShapeDtypeStruct(shape, np.float32) for shape in shapes]
    given = [jax.ShapeDtypeStruct(s, t) for t, s in (DATA[x] for _, x in data)]
    try:
        traced = jax.make_jaxpr(forth, return_shape=True)(*floats, *given)
        closed, (out, residuals) = traced
        pull = jax.make_jaxpr(lambda rs, ct: jax.tree.unflatten(tree[0], rs)(ct))
        back = pull(residuals, out)
    except Exception as error:
        jax.make_jaxpr(function)(*floats, *given)  # what is wrong otherwise is told
        raise NotCoveredError("a function that JAX cannot differentiate") from error
    pool = Pool()
    inputs = _inputs(shapes, len(kinds), [x for _, x in data])
    code = Code(pool)
    value, *kept = inline(code, closed.jaxpr, closed.consts, inputs)
    saved = [whole(code, x) for x in kept]
    size = prod(macro.shape)
    code.put(value, Buffer(VALUE, size, size))
    room = code.save([part for x in saved for part in parts_of(x)], 0)
    code.prune()
    forward, top = code.encode()
    backward, more = _backward(pool, macro, shapes, len(data), saved, back)
    words = [*pool.constants, np.zeros(1, np.int32)]
    return core.Program(
        FORMS[MAP],
        size,
        _work(forward),
        any(not kind.constant for kind in kinds),
        _ints(macro.places),
        _ints([prod(leaf.shape) for leaf in macro.leaves]),
        _ints([place for place, _ in data]),
        "".join(x for _, x in data),
        _ints([kind.id for kind in kinds]),
        _ints([prod(kind.shape) for kind in kinds]),
        forward,
        backward,
        _ints(pool.extra),
        np.concatenate(words).view(np.float32),
        max(top, more),
        room,
        _ints(pool.asides),
        -1,
        0,
        1,
    )


def _backward(
    pool: Pool,
    macro: Macro,
    shapes: list[Shape],
    data: int,
    saved: list[Value],
    back: Any,
) -> tuple[np.ndarray, int]:
    code, size, kinds = Code(pool), prod(macro.shape), macro.kinds
    shape = macro.shape
    cotangent = Array(Buffer(COTANGENT, size, size), 0, shape, side_by_side(shape), "f")
    gradients = inline(code, back.jaxpr, back.consts, [*saved, cotangent])
    code.results = Counter(_buffers(gradients))
    first = FIRST + len(shapes) + data
    for number, (x, shape) in enumerate(zip(gradients, shapes, strict=True)):
        if number >= len(kinds):
            code.add_to_operand(x, number - len(kinds), shape)
        elif not kinds[number].constant:
            code.add_to_uniform(x, Buffer(first + number, prod(shape), 0), shape)
    code.prune()
    return code.encode()


def _buffers(values: list[Value]) -> list[Buffer]:
    return [
        block.buffer
        for x in values
        for block in ([x] if isinstance(x, Array) else [b for _, b in x.blocks])
    ]


def _inputs(shapes: list[Shape], kinds: int, data: list[str]) -> list[Value]:
    found: list[Value] = []
    for number, shape in enumerate(shapes):
        stride = 0 if number < kinds else DYNAMIC
        buffer = Buffer(FIRST + number, prod(shape), stride)
        found.append(Array(buffer, 0, shape, side_by_side(shape), "f"))
    for number, x in enumerate(data, len(shapes)):
        dtype, shape = DATA[x]
        kind = kind_of(jax.ShapeDtypeStruct((), dtype))
        words = prod(shape)
        buffer = Buffer(FIRST + number, words, words)
        found.append(Array(buffer, 0, shape, side_by_side(shape), kind))
    return found


def _work(code: np.ndarray) -> int:
    """Numbers computed by one lane, products counted by their factors."""
    return min(_work_of([*map(tuple, code.tolist())]), 1 << 30)


def _work_of(code: list[tuple[int, ...]]) -> int:
    found, at = 0, 0
    while at < len(code):
        op, _, n, m, k, *_ = code[at]
        at += 1
        if op == OP["LOOP"]:
            found += n * _work_of(code[at : at + m])
            at += m
        elif op == OP["WHILE"]:  # how often is not known
            found += TRIPS * _work_of(code[at : at + m + k])
            at += m + k
        elif op != OP["BRANCH"]:  # of which all blocks count
            is_product = op in (OP["MATMUL"], OP["CONVOLVE"])
            found += n * max(1, m) * (max(1, k) if is_product else 1)
    return found


def _ints(numbers: Any) -> np.ndarray:
    return np.array(numbers, np.int32)
