"""Structures: what the nodes of the process have in common, as C++ knows it."""

from typing import Any, Final

from dynetjax.core.registry import (
    INPUT,
    MAP,
    OPS,
    Signature,
)
from dynetjax.core.tables import forgets
from dynetjax.engine.ir.fused import fused_op
from dynetjax.graph import use_structures
from dynetjax.native import core

FORMS: dict[str, int] = {name.lower(): n for name, n in core.FORMS.items()}
CONTRACTION, TELLS, ADDS, SUMS, LISTED, WEIGHT, ZEROS = (1 << k for k in range(7))


def told(signature: Signature) -> tuple[Any, ...]:
    """What C++ is to know of a signature; see `structures.h`."""
    op, kind = signature.op, signature.kind
    operands = signature.operands if op.form == MAP else ()
    flags = CONTRACTION * op.contraction | TELLS * op.tells
    flags |= LISTED * op.takes_turns | WEIGHT * kind.is_weight
    flags |= ADDS * _adds(signature) | SUMS * (op is OPS["sum"])
    weights = tuple([k.id if k.is_weight else -1 for k in operands])
    flags |= ZEROS * (op is OPS["zeros"])
    # A parameter is no form, and is told as its kind is.
    form = FORMS.get(op.form, FORMS[INPUT])
    about = form, flags, kind.id, signature.broadcast, weights, op.runtime
    return (*about, kind.shape, len(kind.ragged))


def _adds(signature: Signature) -> bool:
    """Whether it is an addition of two rows of one shape."""
    return (
        signature.op is OPS["add"]
        and not signature.broadcast
        and all(
            not k.is_weight and k.shape == signature.shape for k in signature.operands
        )
    )


class Known:
    """The structures that are known; new ones, once all was forgotten.

    Attributes:
        structures: a `core.Structures`. A graph goes on with those that it began with.
    """

    def __init__(self) -> None:
        self._before = 0  # how many there were, whose numbers no other has
        self.structures: Any = core.Structures(told, fused_op, 0)

    def forget(self) -> None:
        """Know none any more."""
        self._before += len(self.structures)
        self.structures = core.Structures(told, fused_op, self._before)


KNOWN: Final = Known()
use_structures(KNOWN)
forgets(KNOWN.forget)
