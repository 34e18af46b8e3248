"""Models as safetensors files, for exchange with other libraries.

Values only, float32, under the full names of parameters, ``/encoder/W``; tables have
the rows first. Needs the package `safetensors`.
"""

import importlib
from collections import Counter
from typing import Any

import numpy as np

from dynetjax.core.errors import error_text
from dynetjax.io.atomic import explained, replacing
from dynetjax.io.text import FilePath, as_path
from dynetjax.model.collection import ParameterCollection, storages
from dynetjax.model.loading import Loaded, restore
from dynetjax.model.saving import Owner


def save_safetensors(pc: ParameterCollection, path: FilePath) -> None:
    """Write the values of a collection to a safetensors file, all or nothing.

    Gradients are not saved. The keys are the full names of parameters and tables, as
    ``p.name()`` has them; the arrays are float32, tables with the rows first.

    Raises:
        AttributeError: `path` is no str or path.
        ImportError: the package `safetensors` is not installed.
        OSError: the disk is full.
        RuntimeError: the file cannot be written, or an update was refused.
        ValueError: two parameters have the same name.
    Examples:
        >>> from safetensors.numpy import load_file
        >>> m = dy.ParameterCollection()
        >>> lstm = dy.VanillaLSTMBuilder(1, 4, 8, m)
        >>> dy.save_safetensors(m, "lstm.safetensors")
        >>> for name, array in sorted(load_file("lstm.safetensors").items()):
        ...     print(name, array.shape)
        /vanilla-lstm-builder/_0 (32, 4)
        /vanilla-lstm-builder/_1 (32, 8)
        /vanilla-lstm-builder/_2 (32,)
    """
    library = _library()
    fname = as_path("save_safetensors", path)
    arrays = {
        name: np.array(owner.host_values(), np.float32, order="C")
        for name, owner in _by_name(pc).items()
    }
    with (
        explained("save_safetensors", fname, RuntimeError),
        replacing(fname) as file,
    ):
        file.write(library.save(arrays))


def load_safetensors(pc: ParameterCollection, path: FilePath) -> None:
    """Set the values of a collection to those of a safetensors file, by their names.

    Every name of the collection must be in the file, and the other way round. Numbers
    of other precisions become float32. Gradients are cleared.

    Raises:
        AttributeError: `path` is no str or path.
        ImportError: the package `safetensors` is not installed.
        RuntimeError: the file cannot be read, names or shapes differ, something is no
            array of floats, or an update was refused. Nothing was changed.
        ValueError: two parameters have the same name.
    Examples:
        >>> from safetensors.numpy import save_file
        >>> save_file({"/b": np.array([1, 2, 3], np.float16)}, "b.safetensors")
        >>> m = dy.ParameterCollection()
        >>> b = m.add_parameters(3, name="b")
        >>> dy.load_safetensors(m, "b.safetensors")
        >>> print(b.as_array())
        [1. 2. 3.]
    """
    library = _library()
    fname = as_path("load_safetensors", path)
    owners = _by_name(pc)
    arrays = _read(library, fname)
    _require_names(fname, arrays, owners)
    for name, owner in owners.items():
        _require_form(fname, name, arrays[name], owner)
    blocks = [Loaded(n, o.is_table, arrays[n], None) for n, o in owners.items()]
    restore([*owners.values()], blocks)


def _library() -> Any:
    try:
        return importlib.import_module("safetensors.numpy")
    except ImportError as error:
        raise ImportError(
            error_text(
                "safetensors: the package is not installed",
                got=error,
                expected="safetensors 0.4 or later",
                fix="pip install dynetjax[io]",
            )
        ) from error


def _by_name(pc: ParameterCollection) -> dict[str, Owner]:
    owners = storages(pc)
    counts = Counter(owner.name for owner in owners)
    twice = [name for name, count in counts.items() if count > 1]
    if twice:
        raise ValueError(
            error_text(
                "safetensors: several parameters have the same name",
                got=", ".join(twice),
                expected="names that tell them apart",
                fix="save to a text file, where the order tells them apart",
            )
        )
    return {owner.name: owner for owner in owners}


def _read(library: Any, fname: str) -> dict[str, np.ndarray]:
    try:
        with open(fname, "rb") as file:
            return library.load(file.read())
    except Exception as error:  # the library has errors of its own
        raise RuntimeError(
            error_text(
                f"load_safetensors: cannot read {fname}",
                got=f"{type(error).__name__}: {error}",
                expected="a safetensors file",
                fix="check the name; populate reads text files",
            )
        ) from error


def _require_names(fname: str, there: dict[str, Any], wanted: dict[str, Any]) -> None:
    missing = [name for name in wanted if name not in there]
    unexpected = [name for name in there if name not in wanted]
    if missing or unexpected:
        raise RuntimeError(
            error_text(
                f"load_safetensors: {fname} has other names than the collection",
                got=f"missing: {', '.join(missing) or 'none'};"
                f" unexpected: {', '.join(unexpected) or 'none'}",
                expected="the names of the collection, each once",
                fix="make the model as it was when it was saved",
            )
        )


def _require_form(fname: str, name: str, array: np.ndarray, owner: Owner) -> None:
    if array.shape != owner.shape or array.dtype.kind != "f":
        raise RuntimeError(
            error_text(
                f"load_safetensors: {name} in {fname} does not fit",
                got=f"{array.shape}, {array.dtype}",
                expected=f"{owner.shape}, floats",
                fix="tables have the rows first; transpose the array in the file",
            )
        )
