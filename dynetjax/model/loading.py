"""Parameters and tables from text files.

All that is loaded is read and checked before the first number changes.
"""

from collections.abc import Sequence
from itertools import zip_longest
from typing import Any, NamedTuple

import numpy as np

from dynetjax.core.errors import error_text
from dynetjax.core.uninterrupted import Uninterrupted
from dynetjax.io.text import FilePath, Header, TextFile, as_path, show_dims
from dynetjax.model.saving import Owner, file_dims
from dynetjax.model.storage import (
    DenseStorage,
    RowGradient,
    capacity_for,
    copy_of,
)

_SHOWN = 20  # lines of a list in a message


class Loaded(NamedTuple):
    """A block in the shape that users see, float32; tables have the rows first."""

    key: str
    is_table: bool
    values: np.ndarray
    gradient: np.ndarray | None


def populate(fname: FilePath, key: str, owners: Sequence[Owner]) -> None:
    """Fill all of `owners`, by their order, from the blocks of a file.

    Args:
        fname: name of the file.
        key: only blocks whose name begins with ``key/`` count; ``""`` for all.
    Raises:
        AttributeError: `fname` is no name of a file.
        RuntimeError: the file cannot be read, its blocks do not fit, or an update was
            refused. Nothing was changed.
    """
    path = as_path("populate", fname)
    prefix = key if key.endswith("/") or not key else key + "/"
    with TextFile(path) as file:
        headers = [h for h in file.headers() if h.key.startswith(prefix)]
        fill(file, headers, owners)


def fill(file: TextFile, headers: Sequence[Header], owners: Sequence[Owner]) -> None:
    """Fill all of `owners`, by their order, from these blocks.

    Parameters and tables are counted apart.

    Args:
        file: what has the blocks.
        headers: of parameters and tables in any order.
        owners: parameters, then tables.
    Raises:
        RuntimeError: they do not fit, or the file is damaged. Nothing was changed.
    """
    blocks = sorted(headers, key=lambda header: header.is_table)
    if [_form(h) for h in blocks] != [_form_of(o) for o in owners]:
        raise _misfit(file.path, blocks, owners)
    restore(owners, [read(file, header) for header in blocks])


def fill_one(fname: FilePath, key: str, owner: Owner) -> None:
    """Fill a parameter or a table from the block with this key.

    Raises:
        AttributeError: `fname` is no name of a file.
        RuntimeError: the file cannot be read, has no such block, or one with other
            dims; or an update was refused. Nothing was changed.
        ValueError: the key is empty.
    """
    path = as_path("populate", fname)
    with TextFile(path) as file:
        header = find(file, key, is_table=owner.is_table)
        if header.dims != file_dims(owner):
            raise RuntimeError(
                error_text(
                    f"populate: {key} in {path} has other dims than {owner.name}",
                    got=show_dims(header.dims),
                    expected=show_dims(file_dims(owner)),
                    fix="populate what has the same dims, or load a new one by its key",
                )
            )
        restore([owner], [read(file, header)])


def load(fname: FilePath, key: str, *, is_table: bool) -> Loaded:
    """The block with this key, to make something new of.

    Raises:
        As `fill_one`.
    """
    path = as_path("load", fname)
    with TextFile(path) as file:
        return read(file, find(file, key, is_table=is_table))


def find(file: TextFile, key: str, *, is_table: bool) -> Header:
    """The first block of this kind with this key.

    Raises:
        RuntimeError: there is none.
        ValueError: the key is empty.
    """
    if not key:
        raise ValueError(
            error_text(
                "load: the key is empty",
                got=repr(key),
                expected="the name of a block in the file",
                fix="/W, say; headers in the file tell the names",
            )
        )
    others = []
    for header in file.headers():
        if header.key == key and header.is_table == is_table:
            return header
        others.append(str(header))
    raise RuntimeError(
        error_text(
            f"load: {file.path} has no {'table' if is_table else 'parameter'} {key}",
            got=f"{len(others)} other blocks" + _shorten(others, 0),
            expected=key,
            fix="a parameter is loaded as one, a table as one; check the name",
        )
    )


def read(file: TextFile, header: Header) -> Loaded:
    """A block with its numbers."""
    values, gradient = file.read(header)
    return Loaded(
        header.key,
        header.is_table,
        _natural(header, values),
        None if gradient is None else _natural(header, gradient),
    )


def _natural(header: Header, vector: np.ndarray) -> np.ndarray:
    array = vector.reshape(header.dims, order="F")
    return np.moveaxis(array, -1, 0) if header.is_table else array


def restore(owners: Sequence[Owner], blocks: Sequence[Loaded]) -> None:
    """Give `owners` the values and the gradients of blocks that fit them."""
    arrays = [copy_of(block.values) for block in blocks]
    gradients = [_gradient_of(o, b) for o, b in zip(owners, blocks, strict=True)]
    with Uninterrupted():
        for owner, array, gradient in zip(owners, arrays, gradients, strict=True):
            owner.values = array
            _set_gradient(owner, gradient)


def restore_gradient(owner: Owner, block: Loaded) -> None:
    """Give `owner` the gradient of a block that fits it."""
    _set_gradient(owner, _gradient_of(owner, block))


def _gradient_of(owner: Owner, block: Loaded) -> Any:
    """The gradient as `_set_gradient` takes it; None if there is none."""
    if block.gradient is None:
        return None
    if isinstance(owner, DenseStorage):
        return copy_of(block.gradient)
    count, *row = owner.shape
    touched = np.flatnonzero(block.gradient.any(axis=tuple(range(1, 1 + len(row)))))
    capacity = capacity_for(len(touched))
    rows = np.full(capacity, count, np.int32)
    rows[: len(touched)] = touched
    values = np.zeros((capacity, *row), np.float32)
    values[: len(touched)] = block.gradient[touched]
    return RowGradient(rows, values)


def _set_gradient(owner: Owner, gradient: Any) -> None:
    owner.take_gradient()
    if gradient is None:
        return
    if isinstance(owner, DenseStorage):
        owner.gradient = gradient
    elif len(gradient.rows):
        owner.add_row_gradients(gradient.rows, gradient.values)
    owner.has_gradient = True


def _form(header: Header) -> tuple[bool, tuple[int, ...]]:
    return header.is_table, header.dims


def _form_of(owner: Owner) -> tuple[bool, tuple[int, ...]]:
    return owner.is_table, file_dims(owner)


def _misfit(
    path: str, blocks: Sequence[Header], owners: Sequence[Owner]
) -> RuntimeError:
    in_file = [str(block) for block in blocks]
    in_model = [
        f"{'table' if o.is_table else 'parameter'} {o.name} {show_dims(file_dims(o))}"
        for o in owners
    ]
    forms = zip_longest(map(_form, blocks), map(_form_of, owners))
    first = next(i for i, (ours, theirs) in enumerate(forms) if ours != theirs)
    return RuntimeError(
        error_text(
            f"populate: the blocks of {path} are not those of the model,"
            f" from number {first + 1} on",
            got=f"{_counts([b.is_table for b in blocks])} in the file"
            + _shorten(in_file, first),
            expected=f"{_counts([o.is_table for o in owners])} in the model"
            + _shorten(in_model, first),
            fix=_advice(in_file, in_model),
        )
    )


def _counts(are_tables: list[bool]) -> str:
    tables = sum(are_tables)
    return f"{len(are_tables) - tables} parameters and {tables} tables"


def _shorten(lines: list[str], first: int) -> str:
    """The lines, indented; of many, those around number `first`."""
    start = max(0, min(first - _SHOWN // 2, len(lines) - _SHOWN))
    shown = lines[start : start + _SHOWN]
    before, after = start, len(lines) - start - len(shown)
    if before:
        shown.insert(0, f"({before} before)")
    if after:
        shown.append(f"({after} more)")
    return "".join(f"\n    {line}" for line in shown)


def _advice(in_file: list[str], in_model: list[str]) -> str:
    theirs, ours = _lstm_kinds(in_file), _lstm_kinds(in_model)
    if theirs != ours and theirs and ours:
        vanilla_in = "the file" if "vanilla-lstm-builder" in theirs else "the model"
        return (
            f"{vanilla_in} has a VanillaLSTMBuilder, the other a LSTMBuilder with"
            " coupled gates; what DyNet's release 2.1 calls LSTMBuilder is"
            " VanillaLSTMBuilder"
        )
    return (
        "make the same parameters in the same order as the model that was saved, or"
        " give the key of a part"
    )


def _lstm_kinds(lines: list[str]) -> set[str]:
    """Which of the two builders the names tell of."""
    parts = {part.split("_")[0] for line in lines for part in line.split("/")}
    return parts & {"vanilla-lstm-builder", "lstm-builder"}
