"""A model that dynetjax exported, served by JAX and NumPy alone.

    import sys
    sys.path.insert(0, "tagger.zip")  # this module is in every such file
    import served
    tagger = served.load("tagger.zip")
    tagger([3, 5, 7])

The file is a zip. ``served.json`` describes arguments and lengths, each parameter is an
array in ``.npy``, and each length has a program of `jax.export`.
"""

import io
import itertools
import json
import threading
import zipfile
import zlib
from collections.abc import Callable
from typing import Any

import jax
import numpy as np
from jax import export

FORMAT = 1
_DAMAGED = zipfile.BadZipFile, zlib.error, EOFError, KeyError
Lengths = tuple[int, ...]


def load(path: Any) -> "Served":
    """The model in a file. Each of its programs is read when it is first needed.

    Raises:
        OSError: the file cannot be read.
        ValueError: it is no exported model, or of a later version of dynetjax.
    """
    try:
        with zipfile.ZipFile(path) as archive:
            about = json.loads(archive.read("served.json"))
            later = about["format"] > FORMAT
            parameters = {
                name: np.lib.format.read_array(io.BytesIO(archive.read(entry)))
                for name, entry in about["parameters"].items()
                if not later
            }
    except (*_DAMAGED, ValueError, TypeError) as error:
        raise ValueError(f"{path} is no model that dynetjax exported") from error
    if later:
        raise ValueError(f"{path} is of a later version of dynetjax")

    def program(lengths: Lengths) -> Callable[..., Any]:
        try:
            with zipfile.ZipFile(path) as archive:
                data = archive.read(entry_of(lengths))
        except _DAMAGED as error:
            raise ValueError(f"{path} is damaged") from error
        return export.deserialize(bytearray(data)).call

    return Served(about, parameters, program)


def entry_of(lengths: Lengths) -> str:
    """Where the program for these lengths is in a file."""
    return "/".join(["programs", *map(str, lengths), "program"])


def shapes_of(about: dict[str, Any], lengths: Lengths) -> list[tuple[Any, Any]]:
    """The shape and the type of each argument, for these lengths."""
    sizes = dict(zip(about["lengths"], lengths, strict=True))
    return [
        (
            [sizes.get(n, n) for n in x["shape"]],
            np.float32 if x["below"] is None else np.int32,
        )
        for x in about["arguments"]
    ]


class Served:
    """``served(*arguments)``: the values of the expressions that were exported.

    A program is compiled when it is first needed. Threads may share an object.

    Attributes:
        about: arguments and lengths, as in ``served.json``.
        parameters: arrays by name.
    """

    def __init__(
        self,
        about: dict[str, Any],
        parameters: dict[str, Any],
        program: Callable[[Lengths], Callable[..., Any]],
    ):
        self.about: dict[str, Any] = about
        self.parameters: dict[str, Any] = jax.device_put(parameters)
        self._program = program
        self._compiled: dict[Lengths, Callable[..., Any]] = {}
        self._lock = threading.Lock()

    def __repr__(self) -> str:
        names = ", ".join([x["name"] for x in self.about["arguments"]])
        return f"Served({names}): {len(self.all_lengths())} programs"

    def __call__(self, *args: Any, **named: Any) -> Any:
        lengths, arrays = self._checked(args, named)
        return self._of(lengths)(self.parameters, *arrays)

    def all_lengths(self) -> list[Lengths]:
        """The lengths of the arguments that there are programs for."""
        bounds = self.about["lengths"].values()
        ranges = [range(least, most + 1) for least, most in bounds]
        return [*itertools.product(*ranges)]

    def warm_up(self) -> None:
        """Have all programs compiled now, so that no answer waits for that."""
        for lengths in self.all_lengths():
            arrays = [np.zeros(*x) for x in shapes_of(self.about, lengths)]
            jax.block_until_ready(self._of(lengths)(self.parameters, *arrays))

    def _of(self, lengths: Lengths) -> Callable[..., Any]:
        with self._lock:
            if lengths not in self._compiled:
                self._compiled[lengths] = jax.jit(self._program(lengths))
            return self._compiled[lengths]

    def _checked(
        self, args: tuple[Any, ...], named: dict[str, Any]
    ) -> tuple[Lengths, list[np.ndarray]]:
        """The lengths of the arguments, and these as arrays."""
        arguments = self.about["arguments"]
        names = [x["name"] for x in arguments]
        given = dict(zip(names, args, strict=False)) | named
        if len(args) + len(named) != len(names) or set(given) != set(names):
            got = ", ".join(["..."] * len(args) + [f"{name}=..." for name in named])
            raise TypeError(f"served: the arguments are {names}; got ({got})")
        sizes: dict[str, int] = {}
        arrays = [_array(x, given[x["name"]]) for x in arguments]
        for x, array in zip(arguments, arrays, strict=True):
            self._check_shape(x, array, sizes)
        return tuple([sizes[name] for name in self.about["lengths"]]), arrays

    def _check_shape(
        self, x: dict[str, Any], array: np.ndarray, sizes: dict[str, int]
    ) -> None:
        """Check the shape of an argument, and note the length that it decides."""
        fits = array.ndim == len(x["shape"])
        expected = list(x["shape"])
        for axis, size in enumerate(x["shape"] if fits else ()):
            if isinstance(size, int):
                fits = fits and array.shape[axis] == size
            elif size in sizes:
                expected[axis] = sizes[size]
                fits = fits and array.shape[axis] == sizes[size]
            else:
                least, most = self.about["lengths"][size]
                expected[axis] = f"{least} to {most}"
                fits = fits and least <= array.shape[axis] <= most
                sizes[size] = array.shape[axis]
        if not fits:
            got = list(array.shape)
            raise ValueError(f"served: {x['name']} has shape {got}, not {expected}")


def _array(x: dict[str, Any], value: Any) -> np.ndarray:
    """An argument as an array of its type."""
    array = np.asarray(value)
    below = x["below"]
    if below is None:
        return array.astype(np.float32)
    if array.size and array.dtype.kind not in "iu":
        raise TypeError(f"served: {x['name']} has {array.dtype}, and not ints")
    if array.size and not (array.min() >= 0 and array.max() < below):
        bad = array[(array < 0) | (array >= below)].flat[0]
        raise ValueError(f"served: {x['name']} has {bad}, and not 0 to {below - 1}")
    return array.astype(np.int32)
