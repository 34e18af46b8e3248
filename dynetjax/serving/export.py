"""`export`: a function that builds expressions, as one that JAX alone computes."""

import inspect
import itertools
import json
import math
import zipfile
from collections.abc import Callable, Sequence
from functools import cached_property
from importlib import resources
from typing import TYPE_CHECKING, Any

import numpy as np

from dynetjax.core.errors import error_text
from dynetjax.core.lazy import RUNS, Module, jax
from dynetjax.core.reprs import counted
from dynetjax.io.atomic import explained, replacing
from dynetjax.io.text import FilePath, as_path
from dynetjax.serving.arguments import Argument, Id, Ids, Numbers

if TYPE_CHECKING:
    from dynetjax.serving import probes as _probes
    from dynetjax.serving import programs as _programs
    from dynetjax.serving import served as _served
    from dynetjax.serving.built import Built
else:  # imported by the first export
    _probes = Module("dynetjax.serving.probes")
    _programs = Module("dynetjax.serving.programs")
    _served = Module("dynetjax.serving.served")

MOST_PROGRAMS = 2000
PLATFORMS = "cpu", "cuda", "tpu"
Lengths = tuple[int, ...]


def export(function: Callable[..., Any], **arguments: Argument) -> "Exported":
    """A trained program for JAX: a program for each length, with ids as arguments.

        exported = dynetjax.export(scores, words=dynetjax.Ids(10000, max_len=40))
        exported([3, 5, 7])
        exported.save("tagger.zip")

    `function` is built for a few examples of every length at once. Whatever it looks up
    or picks by the arguments, it may look up or pick by other ones later. All else is
    as it is now, the values of parameters too. The current graph is renewed.

    Args:
        function: builds and returns an expression; a list of them, which becomes an
            array with these side by side; or a tuple or dict of these.
        arguments: what each argument of it is: `Ids`, `Id` or `Numbers`.
    Returns:
        See `Exported`.
    Raises:
        TypeError: the function decides something by the value of an id, returns
            something else than expressions, or takes other arguments.
        ValueError: examples of the same lengths make different graphs, random numbers
            are drawn, a value is read, or there are too many lengths.
    Examples:
        >>> m = dy.ParameterCollection()
        >>> E = m.lookup_parameters_from_numpy([[1, 2], [3, 4], [5, 6]])
        >>> def total(words):
        ...     return dy.esum([E[w] for w in words])
        >>> exported = dy.export(total, words=dy.Ids(3, max_len=4))
        >>> print(exported([0, 2]), exported([1]))
        [6. 8.] [3. 4.]
    """
    _require_arguments(function, arguments)
    prober, built = _probes.Prober(function, arguments), {}
    bounds = {n: x.length for n, x in arguments.items() if isinstance(x.length, tuple)}
    ranges = [range(least, most + 1) for least, most in bounds.values()]
    if math.prod(map(len, ranges)) > MOST_PROGRAMS:
        raise ValueError(
            error_text(
                "export: there are too many lengths",
                got=" * ".join([str(len(r)) for r in ranges]) + " programs",
                expected=f"at most {MOST_PROGRAMS}: each has its own",
                fix="smaller bounds, or arguments as long as others (like=...)",
            )
        )
    for lengths in itertools.product(*ranges):
        of = dict(zip(bounds, lengths, strict=True))
        each = {
            name: of[x.length if isinstance(x.length, str) else name]
            for name, x in arguments.items()
            if x.length is not None
        }
        try:
            built[lengths] = prober.build({name: each.get(name) for name in arguments})
        except Exception as error:
            error.add_note(f"(the function was built for arguments of lengths {each})")
            raise
    return Exported(arguments, built, prober.parameters)


class Exported:
    """A program that JAX computes; `export` makes it.

    Called with arguments like the function's, it returns arrays of JAX.

    Attributes:
        parameters: values of parameters and tables, by full name.
    Examples:
        >>> m = dy.ParameterCollection()
        >>> p = m.add_parameters(3, init=2)
        >>> def score(x, label):
        ...     return dy.pick(dy.cmult(p, dy.inputVector(x)), label)
        >>> exported = dy.export(score, x=dy.Numbers((3,)), label=dy.Id(3))
        >>> print(exported([1, 2, 3], 1))
        4.0
        >>> exported.save("score.zip")
        >>> print(dy.load_export("score.zip")(label=2, x=[1, 2, 3]))
        6.0
    """

    def __init__(
        self,
        arguments: dict[str, Argument],
        built: "dict[Lengths, Built]",
        parameters: dict[str, np.ndarray],
    ):
        self._arguments, self._built = arguments, built
        self.parameters: dict[str, np.ndarray] = parameters

    def __repr__(self) -> str:
        arguments = ", ".join([f"{n}={x!r}" for n, x in self._arguments.items()])
        return f"Exported({arguments}): {counted(len(self._built), 'program')}"

    def __call__(self, *args: Any, **named: Any) -> Any:
        RUNS.require()
        return self._here(*args, **named)

    def function(self, *lengths: int) -> Callable[..., Any]:
        """``f(parameters, *arguments)``, a pure function for these lengths.

        It can be used with `jax.jit`, `jax.vmap`, `jax.grad` and all else. Nothing of
        the arguments is checked.
        """
        return _programs.jax_function(self._built[self._known(lengths)])

    def stablehlo(self, *lengths: int) -> str:
        """The text of the program for arguments of these lengths."""
        text: str = self._program(self._known(lengths)).mlir_module()
        return text

    def save(self, path: FilePath, platforms: Sequence[str] = PLATFORMS) -> None:
        """Write a file that `load_export` reads, or JAX alone: see `Serving a model`.

        Args:
            path: of the file, which is a zip.
            platforms: JAX's names of those that can serve it.
        Raises:
            AttributeError: `path` is no str or path.
            ImportError: the package `flatbuffers` is not installed.
            OSError: the file cannot be written.
        """
        name = as_path("save", path)
        entries = {
            f"parameters/{k}.npy": array
            for k, array in enumerate(self.parameters.values())
        }
        about = self._about | {
            "parameters": dict(zip(self.parameters, entries, strict=True)),
            "platforms": [*platforms],
        }
        module = resources.files(__package__) / "served.py"
        with (
            explained("save", name),
            replacing(name) as file,
            zipfile.ZipFile(file, "w") as archive,
        ):
            _write(archive, "served.json", json.dumps(about, indent=1).encode())
            _write(archive, "served.py", module.read_bytes())
            for entry, array in entries.items():
                with archive.open(entry, "w") as opened:
                    np.lib.format.write_array(opened, array, allow_pickle=False)
            for lengths in self._built:
                program = self._program(lengths, platforms)
                _write(archive, _served.entry_of(lengths), _serialized(program))

    @cached_property
    def _about(self) -> dict[str, Any]:
        """What `served.json` says of arguments and lengths."""
        arguments, lengths = [], {}
        for name, x in self._arguments.items():
            shape: list[Any] = [*x.shape]
            if x.length is not None:
                shape.insert(0, x.length if isinstance(x.length, str) else name)
            if isinstance(x.length, tuple):
                lengths[name] = list(x.length)
            arguments.append({"name": name, "shape": shape, "below": x.below})
        return {"format": _served.FORMAT, "arguments": arguments, "lengths": lengths}

    @cached_property
    def _here(self) -> "_served.Served":
        """What serves it in this process."""
        return _served.Served(
            self._about,
            self.parameters,
            lambda lengths: self._program(lengths).call,
        )

    def _program(self, lengths: Lengths, platforms: Sequence[str] | None = None) -> Any:
        """What `jax.export` makes for these lengths; here, for the default device."""
        every = _served.shapes_of(self._about, lengths)
        shapes = [jax.ShapeDtypeStruct(*x) for x in every]
        given = {
            name: jax.ShapeDtypeStruct(x.shape, x.dtype)
            for name, x in self.parameters.items()
        }
        function = jax.jit(_programs.jax_function(self._built[lengths]))
        return _served.export.export(function, platforms=platforms)(given, *shapes)

    def _known(self, lengths: Lengths) -> Lengths:
        if lengths not in self._built:
            names = ", ".join(self._about["lengths"]) or "nothing"
            raise ValueError(
                error_text(
                    "export: there is no program for these lengths",
                    got=lengths,
                    expected=f"lengths of {names}, as the arguments have them",
                    fix="a larger max_len",
                )
            )
        return lengths


def load_export(path: FilePath) -> "_served.Served":
    """A model that `Exported.save` wrote, served by JAX.

    No code in the file is run but its programs for JAX. The object is called like what
    was exported; ``warm_up()`` compiles all programs.

    Args:
        path: of the file.
    Returns:
        An object that is called with arguments, like `Exported`.
    Raises:
        AttributeError: `path` is no str or path.
        OSError: the file cannot be read.
        ValueError: it is no such file.
    Examples:
        >>> double = dy.export(lambda x: 2 * dy.scalarInput(x), x=dy.Numbers())
        >>> double.save("double.zip")
        >>> print(dy.load_export("double.zip")(21))
        42.0
    """
    RUNS.require()
    return _served.load(as_path("load_export", path))


def _serialized(program: Any) -> bytes:
    try:
        return bytes(program.serialize())
    except ImportError as error:
        raise ImportError(
            error_text(
                "save: JAX needs a package that is not installed",
                got=error,
                expected="flatbuffers, here and where the model is served",
                fix="pip install dynetjax[io]",
            )
        ) from error


def _write(archive: zipfile.ZipFile, entry: str, content: bytes) -> None:
    archive.writestr(entry, content, zipfile.ZIP_DEFLATED)


def _require_arguments(
    function: Callable[..., Any], arguments: dict[str, Argument]
) -> None:
    """Check that the function takes these arguments.

    Raises:
        TypeError: it does not, or one of them is described by something else.
        ValueError: one is as long as an argument that has no length of its own.
    """
    for name, x in arguments.items():
        if not isinstance(x, Ids | Id | Numbers):
            raise TypeError(
                error_text(
                    f"export: what {name} is was not told",
                    got=repr(x),
                    expected="dy.Ids(...), dy.Id(...) or dy.Numbers(...)",
                    fix=f"{name}=dy.Ids(below, max_len=...)",
                )
            )
        other = arguments.get(x.length) if isinstance(x.length, str) else x
        if isinstance(x.length, str) and not isinstance(
            other.length if other else None, tuple
        ):
            raise ValueError(
                error_text(
                    f"export: {name} is like an argument without max_len",
                    got=f"like={x.length!r}",
                    expected="the name of an argument that has max_len",
                    fix="give that one the bound",
                )
            )
    inspect.signature(function).bind(**arguments)
    if not arguments:
        raise TypeError(
            error_text(
                "export: there are no arguments",
                got="a function that builds the same graph each time",
                expected="arguments by which its values differ",
                fix="dy.to_jax(expression)",
            )
        )
