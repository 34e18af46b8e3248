"""What a node follows from: the signature for its operands, and its runtime data."""

import os
import sys
from typing import Any

from dynetjax.core.dims import Dim, DimError, Shape
from dynetjax.core.errors import error_text
from dynetjax.core.expression import Expression
from dynetjax.core.registry import INPUT, MAP, Op, Signature, batched_kind, intern


def same(x: Any) -> Any:
    """What is given: a function with a name, by which programs are described."""
    return x


def same_dim(name: str, x: Dim) -> Shape:
    return x.shape


ZEROS = Op("zeros", form=INPUT, internal=True)
ROWS = Op("rows", same, same_dim, form=MAP, batched=True, internal=True)


def signature_of_rows(op: Op, shape: Shape) -> Signature:
    """The signature of nodes of `op` with rows of `shape`, whatever makes them."""
    key = (shape, 0)
    known: Signature | None = op.signatures.get(key)
    if known is not None:
        return known
    return intern(op, key, shape, kind=batched_kind(shape))


def checked_signature(
    op: Op, operands: tuple[Expression, ...], static: tuple[Any, ...], broadcast: int
) -> Signature:
    """The signature for operands whose dims fit.

    Raises:
        DimError: they do not.
    """
    key = (static, broadcast, *[x.signature.kind.id for x in operands])
    known: Signature | None = op.signatures.get(key)
    if known is not None and not op.batch_matters and op.padded is None:
        return known
    if op.padded is not None:
        dims = [Dim(x.signature.kind.shape, max(1, x.lanes)) for x in operands]
        shape, axes = op.padded(op.name, *dims, *static)
        return intern(op, key, shape, kind=batched_kind(shape, axes))
    assert op.dim is not None
    shape = op.dim(op.name, *[x.full_dim for x in operands], *static)
    return intern(op, key, shape) if known is None else known


def given_data(op: Op, data: Any) -> tuple[Any, ...]:
    """Runtime data given for an operation, but for keys."""
    if not op.given:
        return ()
    return data if isinstance(data, tuple) else (data,)


def batch_mismatch(op: Op, operands: Any, batch: int) -> DimError:
    """The error for operands, or runtime data, of different batch sizes."""
    dims = ", ".join(str(x.full_dim) for x in operands)
    return DimError(
        error_text(
            f"{op.name}: the operands have different batch sizes",
            got=dims + (f", and a batch of {batch}" if batch != 1 else ""),
            expected="one batch size, or 1",
            fix="bring the batches to one size",
        )
    )


def frame_of_user() -> Any:
    """The innermost frame outside this package."""
    frame = sys._getframe()
    while frame.f_back and frame.f_globals.get("__name__", "").startswith("dynetjax"):
        frame = frame.f_back
    return frame


def line_of_user() -> str:
    """The innermost line outside this package, ``tagger.py:31 (loss)``."""
    frame = frame_of_user()
    code = frame.f_code
    return f"{os.path.basename(code.co_filename)}:{frame.f_lineno} ({code.co_name})"
