"""A fused operation as a program of tier 0: forward, and back."""

from collections import Counter
from dataclasses import dataclass
from functools import lru_cache
from math import prod
from typing import Any

import numpy as np

from dynetjax.core.dims import Shape
from dynetjax.core.lazy import jax
from dynetjax.core.registry import (
    FAN_IN,
    JOIN,
    LOOKUP,
    MAP,
)
from dynetjax.engine.ir.fused import FusedOp, Operation, operations_of
from dynetjax.engine.ir.structures import FORMS
from dynetjax.engine.native import kept
from dynetjax.engine.native.lowering.arrays import (
    Array,
    Buffer,
    NotCoveredError,
    Value,
    kind_of,
    side_by_side,
)
from dynetjax.engine.native.lowering.bytecode import Code, Pool, ints
from dynetjax.engine.native.lowering.lower import inline
from dynetjax.native import core

MOST = 1 << 12  # structures that are known, of all models that there have been
DATA: dict[str, tuple[type, Shape]] = {
    "i": (np.int32, ()),
    "f": (np.float32, ()),
    "k": (np.uint32, (2,)),
}


@dataclass(frozen=True, slots=True)
class Structure:
    """What the byte code of a fused operation follows from.

    Attributes:
        shape: of a row of its result.
        steps: (operation, static arguments, operands) of each step; an operand is a
            step or a leaf with its number, or the next weight.
        weights: their shapes, and whether they are constant.
        leaves: shapes of rows that it reads.
        data: types of its runtime data.
    """

    shape: Shape
    steps: tuple[Operation, ...]
    weights: tuple[tuple[Shape, bool], ...]
    leaves: tuple[Shape, ...]
    data: str

    @property
    def shapes(self) -> list[Shape]:
        """Of weights and leaves."""
        return [*[shape for shape, _ in self.weights], *self.leaves]


def structure_of(fused: FusedOp) -> Structure:
    """The structure of a fused operation."""
    return Structure(
        fused.shape,
        operations_of(fused.steps),
        tuple([(kind.shape, kind.constant) for kind in fused.kinds]),
        tuple([leaf.shape for leaf in fused.leaves]),
        fused.data,
    )


def program_of(fused: FusedOp) -> Any:
    """The program of a fused operation; None if some of it has no byte code."""
    if fused.form == MAP:
        return _mapped(fused)
    form, size = FORMS.get(fused.form), prod(fused.shape)
    if form is None or not size:
        return None
    options: dict[str, Any] = {}
    if fused.form == LOOKUP:
        (table,) = fused.kinds
        options = {"table": table.id, "weighted": not table.constant}
    if fused.form == JOIN:
        static = fused.steps[0].signature.static
        options = {"pieces": FAN_IN, "outer": prod(fused.shape[: static[1]])}
    return core.Program(form=form, size=size, **options)


def _mapped(fused: FusedOp) -> Any:
    code = _code_of(structure_of(fused))
    if code is None:
        return None
    return code.bound(ints([kind.id for kind in fused.kinds]))


@lru_cache(maxsize=MOST)
def _code_of(structure: Structure) -> Any:
    """A program of this structure, bound to nothing; None if it has no byte code."""
    file, interface = kept.file_of(structure), _interface(structure)
    try:
        return kept.program(file, interface, lambda: _compiled(structure))
    except NotCoveredError:
        return None


def _interface(structure: Structure) -> dict[str, Any]:
    """The arguments of its program that tell what this reads and makes."""
    shapes, data = structure.shapes, structure.data
    first, sizes = len(structure.weights), [*map(prod, shapes)]
    return {
        "form": FORMS[MAP],
        "size": prod(structure.shape),
        "weighted": not all(constant for _, constant in structure.weights),
        "sizes": ints(sizes[first:]),
        "types": data,
        "weights": ints(range(first)),
        "weight_sizes": ints(sizes[:first]),
    }


def _compiled(structure: Structure) -> dict[str, Any]:
    """The arguments of its program that tell what this computes.

    Raises:
        NotCoveredError: some of it has no byte code.
    """
    if not all(map(prod, [*structure.shapes, structure.shape])):
        raise NotCoveredError("arrays without numbers")
    forth, back = _traced(structure)
    pool = Pool()
    residuals, room, forward, top, hoisted = _forward(pool, structure, forth)
    backward, more, apart = _backward(pool, structure, residuals, back)
    return {
        "forward": forward,
        "backward": backward,
        **pool.arrays(),
        "temporary": max(top, more),
        "saved": room,
        "hoisted": max(hoisted, apart),
        "asides": ints(pool.asides),
    }


def _traced(structure: Structure) -> tuple[Any, Any]:
    """JAX's account of it: forward, with what backward needs; and back from these."""
    shapes, function = structure.shapes, _function_of(structure)
    count = len(shapes)
    tree: list[Any] = []

    def forth(*xs: Any) -> Any:
        out, pull = jax.vjp(lambda *ys: function(*ys, *xs[count:]), *xs[:count])
        residuals, treedef = jax.tree.flatten(pull)
        tree[:] = [treedef]
        return out, residuals

    floats = [jax.ShapeDtypeStruct(shape, np.float32) for shape in shapes]
    given = [jax.ShapeDtypeStruct(s, t) for t, s in (DATA[x] for x in structure.data)]
    try:
        traced = jax.make_jaxpr(forth, return_shape=True)(*floats, *given)
        closed, (out, residuals) = traced
        pull = jax.make_jaxpr(lambda rs, ct: jax.tree.unflatten(tree[0], rs)(ct))
        return closed, pull(residuals, out)
    except Exception as error:
        jax.make_jaxpr(function)(*floats, *given)  # what is wrong otherwise is told
        raise NotCoveredError("a function that JAX cannot differentiate") from error


def _function_of(structure: Structure) -> Any:
    """The function that a structure computes of weights, operands and data, by JAX."""
    first, count = len(structure.weights), len(structure.shapes)

    def run(*arguments: Any) -> Any:
        weights, leaves = iter(arguments[:first]), arguments[first:count]
        data = iter(arguments[count:])
        values: list[Any] = []
        for op, static, places in structure.steps:
            operands = []
            for role, n in places:
                if role == "weight":
                    operands.append(next(weights))
                else:
                    operands.append(values[n] if role == "step" else leaves[n])
            given = [next(data) for _ in op.runtime]
            values.append(op.bind(static)(*operands, *given))
        return values[-1]

    return run


def _forward(
    pool: Pool, structure: Structure, forth: Any
) -> tuple[list[Value], int, np.ndarray, int, int]:
    """The residuals, and how many words a lane they take; then as `_backward`."""
    code, size, kinds = Code(pool), prod(structure.shape), len(structure.weights)
    inputs = inputs_of(structure.shapes, kinds, structure.data)
    value, *residuals = inline(code, forth.jaxpr, forth.consts, [*inputs])
    saved = [code.array(x) for x in residuals]
    code.put(value, Buffer(core.VALUE, size, size))
    room = code.save(saved, 0)
    code.prune()
    hoisted = code.hoist_forward(kinds)
    return [*saved], room, *code.encode(), hoisted


def _backward(
    pool: Pool, structure: Structure, saved: list[Value], back: Any
) -> tuple[np.ndarray, int, int]:
    """Its byte code, and how many words a lane are temporary, and hoisted."""
    code, shape, size = Code(pool), structure.shape, prod(structure.shape)
    shapes, weights = structure.shapes, structure.weights
    buffer = Buffer(core.COTANGENT, size, size)
    cotangent = Array(buffer, 0, shape, side_by_side(shape), "f")
    gradients = inline(code, back.jaxpr, back.consts, [*saved, cotangent])
    code.results = Counter(_buffers(gradients))
    first = core.FIRST + len(shapes) + len(structure.data)
    for number, (x, shape) in enumerate(zip(gradients, shapes, strict=True)):
        if number >= len(weights):
            code.add_to_operand(x, number - len(weights), shape)
        elif not weights[number][1]:
            code.add_to_weight(x, Buffer(first + number, prod(shape), 0), shape)
    code.prune()
    hoisted = code.hoist_back(len(weights))
    return *code.encode(), hoisted


def _buffers(values: list[Value]) -> list[Buffer]:
    return [
        block.buffer
        for x in values
        for block in ([x] if isinstance(x, Array) else [b for _, b in x.blocks])
    ]


def inputs_of(shapes: list[Shape], kinds: int, data: str = "") -> list[Array]:
    """What a program reads: weights, of which there are `kinds`, rows, and data."""
    inputs = []
    for number, shape in enumerate(shapes):
        stride = 0 if number < kinds else core.DYNAMIC
        buffer = Buffer(core.FIRST + number, prod(shape), stride)
        inputs.append(Array(buffer, 0, shape, side_by_side(shape), "f"))
    for number, x in enumerate(data, len(shapes)):
        dtype, shape = DATA[x]
        kind = kind_of(jax.ShapeDtypeStruct((), dtype))
        words = prod(shape)
        buffer = Buffer(core.FIRST + number, words, words)
        inputs.append(Array(buffer, 0, shape, side_by_side(shape), kind))
    return inputs
