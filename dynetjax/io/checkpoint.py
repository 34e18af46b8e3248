"""Checkpoints: training that was cut short goes on as if nothing had been.

A file is an uncompressed zip archive of NumPy arrays: the parameters with their
gradients, what trainers know, the state of random numbers, and a description in JSON.
"""

import io
import json
import zipfile
from collections.abc import Sequence
from typing import Any, NamedTuple

import numpy as np
from numpy.lib import format as npy

from dynetjax.core.errors import error_text
from dynetjax.core.uninterrupted import Uninterrupted
from dynetjax.io.atomic import explained, replacing
from dynetjax.io.text import FilePath, as_path
from dynetjax.model import random
from dynetjax.model.collection import ParameterCollection
from dynetjax.model.collection import storages as storages_of
from dynetjax.model.storage import copy_of
from dynetjax.trainers.base import Trainer

_VERSION = 1
_DESCRIPTION = "about"  # the array that is the description, as bytes


def save_checkpoint(
    fname: FilePath,
    m: ParameterCollection,
    trainers: Trainer | Sequence[Trainer] = (),
    step: int = 0,
) -> None:
    """Write all that training needs to go on to one file, whole or not at all.

    That is parameters, gradients that no update took yet, trainers, and the state of
    random numbers (not those of Python and NumPy). Moving averages that stand in the
    place of weights are swapped back.

    Args:
        fname: the file.
        m: the collection, with its sub-collections.
        trainers: one trainer, or several.
        step: any number that the program wants back.
    Raises:
        OSError: the disk is full.
        RuntimeError: the file cannot be written, or an update was refused.
    Examples:
        >>> m = dy.ParameterCollection()
        >>> p = m.add_parameters(2, init=1)
        >>> trainer = dy.AdamTrainer(m)
        >>> dy.save_checkpoint("latest", m, trainer, step=7)
        >>> p.zero()
        >>> step = dy.load_checkpoint("latest", m, trainer)
        >>> print(step, p.as_array())
        7 [1. 1.]
    """
    path = as_path("save_checkpoint", fname)
    arrays: dict[str, Any] = {}
    description = {"version": _VERSION, "step": int(step), "random": random.state()}
    description["trainers"] = [
        _without_arrays(trainer.state_dict(), f"trainer.{k}.", arrays)
        for k, trainer in enumerate(_as_list(trainers))
    ]
    description["parameters"] = [
        _described(storage, f"parameter.{i}.", arrays)
        for i, storage in enumerate(storages_of(m))
    ]
    arrays[_DESCRIPTION] = np.frombuffer(json.dumps(description).encode(), np.uint8)
    with (
        explained("save_checkpoint", path, RuntimeError),
        replacing(path) as file,
    ):
        np.savez(file, allow_pickle=False, **arrays)


def load_checkpoint(
    fname: FilePath, m: ParameterCollection, trainers: Trainer | Sequence[Trainer] = ()
) -> int:
    """Have everything as it was when `save_checkpoint` was called.

    Args:
        fname: the file.
        m: a collection with the same parameters, made in the same order.
        trainers: as many trainers of the same classes, in the same order.
    Returns:
        The step that was saved.
    Raises:
        RuntimeError: there is no such file, it is broken, or of other parameters or
            trainers; nothing is changed.
    Examples:
        >>> m = dy.ParameterCollection()
        >>> p, trainer = m.add_parameters(1, init=1), dy.SimpleSGDTrainer(m, 0.1)
        >>> dy.square(p).backward()
        >>> dy.save_checkpoint("latest", m, trainer)
        >>> for _ in range(2):
        ...     step = dy.load_checkpoint("latest", m, trainer)
        ...     trainer.update()  # the gradient is there again, too
        ...     print(p.as_array().round(3))
        [0.8]
        [0.8]
    """
    path = as_path("load_checkpoint", fname)
    description, arrays = _read(path)
    storages, trainer_list = storages_of(m), _as_list(trainers)
    _require_same(path, description, storages, trainer_list)
    try:
        saved = [
            _Saved.of(storage, entry, arrays, f"parameter.{i}.")
            for i, (storage, entry) in enumerate(
                zip(storages, description["parameters"], strict=True)
            )
        ]
        takes = [
            trainer.taking({**entry, "arrays": _under(arrays, f"trainer.{k}.")})
            for k, (trainer, entry) in enumerate(
                zip(trainer_list, description["trainers"], strict=True)
            )
        ]
        numbers = random.checked(description["random"])
        step = int(description["step"])
    except (KeyError, ValueError, TypeError) as error:
        raise _broken(path, repr(error)) from error
    with Uninterrupted():
        for storage, one in zip(storages, saved, strict=True):
            one.put(storage)
        for take in takes:
            take()
        random.restore(numbers)
    return step


class _Saved(NamedTuple):
    """What a file has for one parameter or table, on the device."""

    values: Any
    gradient: Any
    rows: Any
    row_gradients: Any
    reached: bool

    @classmethod
    def of(
        cls, storage: Any, entry: dict[Any, Any], arrays: dict[Any, Any], prefix: str
    ) -> "_Saved":
        there = _under(arrays, prefix)
        values, gradient = there["values"], there.get("gradient")
        rows = there.get("rows")
        shapes = [values.shape, storage.shape if gradient is None else gradient.shape]
        if shapes != [storage.shape] * 2:
            raise ValueError(f"arrays of {shapes} instead of {storage.shape}")
        if rows is not None:
            rows = np.array(rows, np.int32)
            if there["row_gradients"].shape != (len(rows), *storage.shape[1:]):
                raise ValueError(f"row gradients of {there['row_gradients'].shape}")
        return cls(
            copy_of(values),
            None if gradient is None else copy_of(gradient),
            rows,
            None if rows is None else copy_of(there["row_gradients"]),
            bool(entry["reached"]),
        )

    def put(self, storage: Any) -> None:
        storage.values = self.values
        storage.take_gradient()
        storage.gradient = self.gradient
        if self.rows is not None:
            storage.add_row_gradients(self.rows, self.row_gradients)
        storage.has_gradient = self.reached


def _described(storage: Any, prefix: str, arrays: dict[str, Any]) -> dict[str, Any]:
    """A parameter in words; its arrays are added to `arrays`."""
    arrays[f"{prefix}values"] = np.array(storage.host_values(), np.float32)
    if storage.gradient is not None:
        arrays[f"{prefix}gradient"] = np.array(storage.gradient)
    if storage.is_table and storage.has_rows():
        rows, values = storage.row_gradient(storage.row_capacity())
        arrays[f"{prefix}rows"] = np.array(rows)
        arrays[f"{prefix}row_gradients"] = np.array(values)
    return {
        "name": storage.name,
        "shape": storage.shape,
        "table": storage.is_table,
        "reached": storage.has_gradient,
    }


def _without_arrays(
    state: dict[str, Any], prefix: str, arrays: dict[str, Any]
) -> dict[str, Any]:
    """A trainer's state but for its arrays, which are added to `arrays`."""
    arrays |= {prefix + name: array for name, array in state.pop("arrays").items()}
    return state


def _under(arrays: dict[str, Any], prefix: str) -> dict[str, Any]:
    return {
        name.removeprefix(prefix): array
        for name, array in arrays.items()
        if name.startswith(prefix)
    }


def _as_list(trainers: Trainer | Sequence[Trainer]) -> list[Trainer]:
    return [trainers] if isinstance(trainers, Trainer) else list(trainers)


def _read(path: str) -> tuple[dict[str, Any], dict[str, np.ndarray]]:
    """The description and the arrays of a file."""
    try:
        with zipfile.ZipFile(path) as archive:
            arrays = {
                info.filename.removesuffix(".npy"): _array(archive, info)
                for info in archive.infolist()
            }
        description = json.loads(arrays.pop(_DESCRIPTION).tobytes())
        if description["version"] != _VERSION:
            raise _broken(path, f"version {description['version']} of the format")
    except OSError as error:
        raise RuntimeError(
            error_text(
                f"load_checkpoint: the file cannot be read: {path}",
                got=error.strerror,
                expected="what save_checkpoint wrote",
                fix="check the path",
            )
        ) from error
    except (zipfile.BadZipFile, KeyError, ValueError, TypeError, EOFError) as error:
        raise _broken(path, repr(error)) from error
    return description, arrays


def _array(archive: zipfile.ZipFile, info: zipfile.ZipInfo) -> np.ndarray:
    """An array of the archive; no more memory is asked for than the file has bytes."""
    if info.compress_type != zipfile.ZIP_STORED:
        raise ValueError(f"{info.filename} is compressed")
    content = archive.read(info)
    stream = io.BytesIO(content)
    if npy.read_magic(stream) != (1, 0):
        raise ValueError(f"{info.filename} is of another version")
    shape, fortran, dtype = npy.read_array_header_1_0(stream)
    if dtype.hasobject:
        raise ValueError(f"{info.filename} has Python objects")
    flat = np.frombuffer(content, dtype, offset=stream.tell())
    return flat.reshape(shape, order="F" if fortran else "C")


def _require_same(
    path: str, description: dict[str, Any], storages: list[Any], trainers: list[Trainer]
) -> None:
    there = [
        (p["name"], tuple(p["shape"]), p["table"]) for p in description["parameters"]
    ]
    here = [(s.name, s.shape, s.is_table) for s in storages]
    if there != here:
        first = next(
            (k for k, (a, b) in enumerate(zip(there, here, strict=False)) if a != b),
            min(len(there), len(here)),
        )
        raise RuntimeError(
            error_text(
                f"load_checkpoint: {path} is of another model",
                got=f"{len(there)} parameters, {_shown(there, first)}",
                expected=f"{len(here)} parameters, {_shown(here, first)}",
                fix="make the parameters in the order in which they were made",
            )
        )
    if len(description["trainers"]) != len(trainers):
        raise RuntimeError(
            error_text(
                f"load_checkpoint: {path} is of other trainers",
                got=[t["class"] for t in description["trainers"]],
                expected=[t.whoami() for t in trainers],
                fix="pass as many trainers as were saved",
            )
        )


def _shown(entries: list[tuple[Any, ...]], at: int) -> str:
    if at >= len(entries):
        return f"no number {at + 1}"
    name, shape, table = entries[at]
    return f"number {at + 1} a {'table' if table else 'parameter'} {name} of {shape}"


def _broken(path: str, got: str) -> RuntimeError:
    return RuntimeError(
        error_text(
            f"load_checkpoint: {path} is no checkpoint, or it is broken",
            got=got,
            expected="what save_checkpoint wrote",
            fix="go back to an older checkpoint",
        )
    )
