"""Byte code in words: what `explain(bytecode=True)` shows of a fused op."""

from collections.abc import Iterator
from typing import Any, NamedTuple

import numpy as np

from dynetjax.engine.ir.fused import FusedOp
from dynetjax.engine.native.program import program_of
from dynetjax.native import core

_NAMES = {
    core.TEMPORARY: "t",
    core.SAVED: "s",
    core.VALUE: "y",
    core.COTANGENT: "dy",
    core.HOISTED: "h",
}
_ADDS = "ADD_TO_OPERAND", "ADD_TO_WEIGHT", "PUT_ASIDE", "SCATTER_TO_OPERAND"
_LEAST = np.finfo(np.float32).tiny


class Slots(NamedTuple):
    """What a fused op has beside its own slots.

    Attributes:
        weights, operands, data: how many.
        constants: the numbers, as floats.
    """

    weights: int
    operands: int
    data: int
    constants: np.ndarray

    def name(self, slot: int) -> str:
        """``t``: temporary; ``W0``, ``x0``, ``i0``, ``dW0``: see `listing`."""
        if slot in _NAMES:
            return _NAMES[slot]
        number = slot - core.FIRST
        counts = self.weights, self.operands, self.data
        for letter, count in zip("Wxi", counts, strict=True):
            if number < count:
                return f"{letter}{number}"
            number -= count
        return f"dW{number}"


def listing(fused: FusedOp) -> list[str]:
    """The instructions of a fused op, forward and back, a line each.

    An operand is what it is in, and which words of a lane: weights ``W0``, rows that
    are read ``x0``, runtime data ``i0``, the row that is made ``y``, its gradient
    ``dy``, gradients of weights ``dW0``, what is temporary ``t``, saved for backward
    ``s`` or hoisted ``h``; a constant is its number.
    """
    program = program_of(fused)
    if program is None:
        return ["no byte code"]
    constants = np.frombuffer(program.constants, np.float32)
    counts = len(fused.kinds), len(fused.leaves), len(fused.data)
    slots, lines = Slots(*counts, constants), []
    for name, back in ("forward", False), ("back", True):
        code = program.instructions(back)
        lines += [f"{name}:"] * bool(code)
        lines += _lines(code, program.extra, slots)
    return lines or [f"{fused.form}: no instructions"]


def _lines(code: list[Any], extra: list[int], slots: Slots) -> Iterator[str]:
    for number, (op, flags, n, m, k, at, operands) in enumerate(code):
        name, family, *_ = core.RULES[op]
        shapes = [""] * len(operands)
        if name == "MATMUL":
            batch = f"{extra[at]}x" if extra[at] > 1 else ""
            shapes = [f" {batch}{i}x{j}" for i, j in ((n, k), (n, m), (m, k))]
        places = [_place(slots, *x) for x in zip(operands, shapes, strict=True)]
        if name == "ADD_TO_OPERAND":
            places[0] = f"dx{m}{_range(k, n)}"
        if name == "SCATTER_TO_OPERAND":
            places[0] = f"dx{k}[0:]"
        result = "" if family == "control" else f"{places.pop(0)} {_sign(name, flags)} "
        sizes = f"  n={n} m={m} k={k}" if family in ("other", "control") else ""
        line = f"{number:4} {result}{name} {', '.join(places)}".rstrip()
        yield line + sizes + _flags(flags)


def _place(slots: Slots, operand: tuple[int, int, int], shape: str) -> str:
    """``t[4:8]``; a number of constants; ``t[4: 2x2]`` where extra tells the shape."""
    slot, start, words = operand
    if slot == core.CONSTANT and words == 1:
        return _number(slots.constants[start])
    name = "constants" if slot == core.CONSTANT else slots.name(slot)
    return f"{name}[{start}:{shape}]" if words < 0 else name + _range(start, words)


def _number(x: np.float32) -> str:
    """A constant: an int where the float would be NaN below 0, or hardly above it."""
    is_float = x == 0 or abs(x) >= _LEAST or (np.isnan(x) and not np.signbit(x))
    return f"{x:.6g}" if is_float else str(x.view(np.int32))


def _range(start: int, words: int) -> str:
    return f"[{start}]" if words == 1 else f"[{start}:{start + words}]"


def _sign(name: str, flags: int) -> str:
    return "+=" if flags & core.ACCUMULATE or name in _ADDS else "="


def _flags(flags: int) -> str:
    """``  REVERSED``; what is hoisted, with the number of its operand."""
    names = [name for name in core.FLAGS if flags & getattr(core, name)]
    told = [f"HOIST x{flags >> 8}" if name == "HOIST" else name for name in names]
    told = [name for name in told if name != "ACCUMULATE"]
    return "  " + " ".join(told) if told else ""
