"""Parameters and tables to text files."""

import warnings
from collections.abc import Sequence
from typing import IO

import numpy as np

from dynetjax.core.dims import Shape
from dynetjax.core.errors import error_text
from dynetjax.io.atomic import explained, replacing
from dynetjax.io.text import FilePath, as_path, write_block
from dynetjax.model.storage import DenseStorage, TableStorage

Owner = DenseStorage | TableStorage


def save(
    fname: FilePath, owners: Sequence[Owner], keys: Sequence[str], append: bool
) -> None:
    """Write a block for each of `owners` under its key, all or nothing.

    Raises:
        AttributeError: `fname` is no name of a file.
        OSError: the disk is full.
        RuntimeError: the file cannot be written, or an update was refused.
        ValueError: there is a line break in a key.
    Warns:
        RuntimeWarning: something is not finite; the file cannot be loaded.
    """
    path = as_path("save", fname)
    with (
        explained("save", path, RuntimeError),
        replacing(path, append=append) as file,
    ):
        broken = write_blocks(file, owners, keys)
    warn_of(broken, stacklevel=3)


def write_blocks(
    file: IO[bytes], owners: Sequence[Owner], keys: Sequence[str]
) -> list[str]:
    """A block for each of `owners`; returns the keys of those that are not finite."""
    return [
        key
        for owner, key in zip(owners, keys, strict=True)
        if not write_block(
            file,
            is_table=owner.is_table,
            key=key,
            dims=file_dims(owner),
            values=to_vector(owner, owner.host_values()),
            gradient=to_vector(owner, owner.host_gradient())
            if owner.has_gradient
            else None,
        )
    ]


def warn_of(broken: list[str], *, stacklevel: int) -> None:
    """Warn of what was saved and cannot be loaded, `stacklevel` calls above."""
    if broken:
        warnings.warn(
            error_text(
                "save: values or gradients are not finite; no DyNet can load them",
                got=", ".join(broken),
                expected="finite numbers",
                fix="keep the last good file, and look for log(0) and the like",
            ),
            RuntimeWarning,
            stacklevel=stacklevel + 1,
        )


def file_dims(owner: Owner) -> Shape:
    """The sizes as files have them: the rows of a table last."""
    return (*owner.shape[1:], owner.shape[0]) if owner.is_table else owner.shape


def to_vector(owner: Owner, array: np.ndarray) -> np.ndarray:
    """An array of the shape of `owner` in the order of files, float32."""
    rows_last = np.moveaxis(array, 0, -1) if owner.is_table else array
    return rows_last.ravel(order="F").astype(np.float32, copy=False)


def check_key(key: str, *, of_collection: bool) -> None:
    """Refuse what no file can have as a key.

    Raises:
        ValueError: there is a space or a # in it, or it is ``/``; or it is that of a
            collection, and has no ``/`` at the start.
    """
    wrong = " " in key or "#" in key or key == "/"
    if wrong or (of_collection and key and not key.startswith("/")):
        raise ValueError(
            error_text(
                "save: the key will not do",
                got=repr(key),
                expected="/ and a name" if of_collection else "a name",
                fix="a key without spaces and #, such as /encoder",
            )
        )


def collection_keys(names: list[str], own: str, key: str) -> list[str]:
    """Under which keys a collection's parameters are saved.

    Args:
        names: full names of the parameters.
        own: full name of the collection, ``/encoder/``.
        key: to be written in place of `own`; ``""`` leaves the names as they are.
    Raises:
        IndexError: a name is shorter than `own`: a parameter that was loaded.
    """
    if not key:
        return names
    for name in names:
        if len(name) < len(own):
            raise IndexError(
                error_text(
                    f"save: {name} is not under {own}",
                    got=f"key={key!r}",
                    expected=f"names that begin with {own}",
                    fix="save it without a key, or by itself",
                )
            )
    prefix = key if key.endswith("/") else key + "/"
    return [prefix + name.removeprefix(own).lstrip("/") for name in names]
