"""Trainers as text files, as DyNet's C++ interface writes them.

#Trainer# <parameters> <tables>
<learning rate> <clipping> <threshold> <updates> <beta> <mode> <swapped> <saved>
    <frequency> <averages>                                       (one line)
[MA:TRUE]                                       or [MA:FALSE], and no averages
#MA# <parameters> <tables>
#Parameter# <size> <average>                    of every parameter
#LookupParameter# <size> <average>              of every table
#AdamTrainer# <parameters> <tables>             of rules that have a state
#Parameter# <size> <m>                          of every parameter, then <v>
#LookupParameter# <size> <m>                    of every table, then <v>
<beta_1> <beta_2> <eps>
"""

from collections.abc import Sequence
from typing import IO, Any, NamedTuple

import numpy as np

from dynetjax.core.dims import Shape
from dynetjax.core.errors import error_text
from dynetjax.io.atomic import explained, replacing
from dynetjax.io.numbers import encode, parse
from dynetjax.io.text import FilePath, as_path

MODES = ("None", "Cumulative", "Exponential")

Arrays = list[np.ndarray]


class Record(NamedTuple):
    """What a file says of a trainer.

    Attributes:
        name: of its class.
        sizes: how many parameters and tables there are.
        learning_rate, threshold, updates: as the trainer has them.
        beta, mode, frequency, counted: of moving averages; a mode of `MODES`.
        averages: of the parameters and of the tables; None if there are none.
        state: of each part of the rule's state likewise.
        numbers: the rule's own.
    """

    name: str
    sizes: tuple[int, int]
    learning_rate: float
    threshold: float
    updates: int
    beta: float
    mode: str
    frequency: int
    counted: int
    averages: tuple[Arrays, Arrays] | None
    state: list[tuple[Arrays, Arrays]]
    numbers: tuple[float, ...]


def apart(arrays: Sequence[Any], parameters: int) -> tuple[Arrays, Arrays]:
    """Arrays of so many parameters and those of tables, on the host."""
    on_host = [np.asarray(array) for array in arrays]
    return on_host[:parameters], on_host[parameters:]


def write(fname: FilePath, record: Record) -> None:
    """Write a trainer to a file.

    Raises:
        AttributeError: `fname` is no str.
        OSError: the disk is full.
        RuntimeError: it cannot be written to.
    """
    path = as_path("save", fname)
    with explained("save", path, RuntimeError), replacing(path) as file:
        _write(file, record)


def _write(file: IO[bytes], record: Record) -> None:
    sizes = record.sizes
    file.write(_heading("Trainer", sizes))
    floats = _text(
        [record.learning_rate], [record.threshold, record.updates, record.beta]
    )
    clipping = "+1" if record.threshold > 0 else "+0"
    counts = f"{record.mode} +0 +0 {record.frequency} {record.counted}"
    file.write(f"{floats[0]} {clipping} {floats[1]} {counts}\n".encode())
    file.write(b"[MA:FALSE]\n" if record.averages is None else b"[MA:TRUE]\n")
    if record.averages is not None:
        file.write(_heading("MA", sizes))
        _write_arrays(file, [record.averages])
    if record.state:
        file.write(_heading(record.name, sizes))
        _write_arrays(file, record.state)
        file.write(_text(record.numbers)[0].encode() + b"\n")


def _heading(name: str, sizes: tuple[int, int]) -> bytes:
    return f"#{name}# {sizes[0]} {sizes[1]}\n".encode()


def _text(*groups: Sequence[float]) -> list[str]:
    """Each group of numbers as text."""
    lines = []
    for group in groups:
        text = b"".join(encode(np.array(group, np.float32)))
        lines.append(text.decode().rstrip())
    return lines


def _write_arrays(file: IO[bytes], parts: list[tuple[Arrays, Arrays]]) -> None:
    for k, kind in enumerate(("Parameter", "LookupParameter")):
        for part in parts:
            for array in part[k]:
                file.write(f"#{kind}# {array.size} ".encode())
                for piece in encode(_flat(kind, array)):
                    file.write(piece)
                file.write(b"\n")


def _flat(kind: str, array: np.ndarray) -> np.ndarray:
    """The numbers in DyNet's order: first index fastest, but row by row of a table."""
    if kind == "LookupParameter":
        return np.moveaxis(array, 0, -1).ravel(order="F")
    return array.ravel(order="F")


def read(
    fname: FilePath, like: Record, shapes: tuple[list[Shape], list[Shape]]
) -> Record:
    """Read a trainer from a file.

    Args:
        fname: the file.
        like: the trainer that will take it: `name`, how many parts the `state` has,
            and how many `numbers`.
        shapes: those of its parameters and of its tables. If the file has fewer, the
            state of the others is zeros.
    Raises:
        AttributeError: `fname` is no str.
        RuntimeError: there is no such file, or it is of another trainer, or broken.
    """
    path = as_path("populate", fname)
    try:
        with open(path, "rb") as file:
            return _Reader(path, file).record(like, shapes)
    except OSError as error:
        raise RuntimeError(
            error_text(
                f"populate: the file cannot be read: {path}",
                got=error.strerror,
                expected="a file that a trainer was saved to",
                fix="check the path",
            )
        ) from error


class _Reader:
    def __init__(self, path: str, file: IO[bytes]):
        self._path, self._lines = path, enumerate(file, start=1)

    def record(self, like: Record, shapes: tuple[list[Shape], list[Shape]]) -> Record:
        sizes = self._heading("Trainer", shapes)
        number, line = self._line()
        words = line.split()
        if len(words) != 10 or words[5].decode("ascii", "replace") not in MODES:
            raise self._broken(number, line, "ten fields of a trainer")
        mode = words.pop(5).decode()
        fields = self._numbers(number, b" ".join(words), len(words)).tolist()
        rate, clipping, threshold, updates, beta, _, _, frequency, counted = fields
        averages = None
        if self._averaged():
            sizes = self._heading("MA", shapes)
            (averages,) = self._arrays(1, sizes, shapes)
        state: list[tuple[Arrays, Arrays]] = []
        numbers: tuple[float, ...] = ()
        if like.state:
            sizes = self._heading(like.name, shapes)
            state = self._arrays(len(like.state), sizes, shapes)
            number, line = self._line()
            count = len(like.numbers)
            numbers = tuple(self._numbers(number, line, count).tolist())
        return Record(
            like.name,
            like.sizes,
            rate,
            threshold if clipping else 0.0,
            int(updates),
            beta,
            mode,
            int(frequency),
            int(counted),
            averages,
            state,
            numbers,
        )

    def _line(self) -> tuple[int, bytes]:
        for number, line in self._lines:
            return number, line.rstrip(b"\n")
        raise self._broken(None, b"the end of the file", "another line")

    def _heading(
        self, name: str, shapes: tuple[list[Any], list[Any]]
    ) -> tuple[int, int]:
        """How many parameters and tables follow."""
        number, line = self._line()
        words = line.split()
        if len(words) != 3 or words[0] != f"#{name}#".encode():
            raise self._broken(number, line, f"#{name}# <parameters> <tables>")
        counts = self._numbers(number, b" ".join(words[1:]), 2).tolist()
        parameters, tables = map(int, counts)
        if parameters > len(shapes[0]) or tables > len(shapes[1]):
            most = f"at most {len(shapes[0])} parameters and {len(shapes[1])} tables"
            raise self._broken(number, line, f"{most}, which the collection has")
        return parameters, tables

    def _averaged(self) -> bool:
        number, line = self._line()
        if line not in (b"[MA:TRUE]", b"[MA:FALSE]"):
            raise self._broken(number, line, "[MA:TRUE] or [MA:FALSE]")
        return line == b"[MA:TRUE]"

    def _arrays(
        self, parts: int, sizes: tuple[int, int], shapes: tuple[list[Any], list[Any]]
    ) -> list[tuple[Arrays, Arrays]]:
        """So many arrays of each parameter, and of each table."""
        kinds = ("Parameter", "LookupParameter")
        by_kind: list[list[Arrays]] = []
        for kind, there, of_kind in zip(kinds, sizes, shapes, strict=True):
            by_kind.append(
                [
                    [self._array(kind, shape) for shape in of_kind[:there]]
                    + [np.zeros(shape, np.float32) for shape in of_kind[there:]]
                    for _ in range(parts)
                ]
            )
        return [(by_kind[0][k], by_kind[1][k]) for k in range(parts)]

    def _array(self, kind: str, shape: Shape) -> np.ndarray:
        number, line = self._line()
        size = int(np.prod(shape, dtype=np.int64))
        heading = f"#{kind}# {size} ".encode()
        if not line.startswith(heading):
            raise self._broken(number, line[:40], f"#{kind}# {size} <{size} numbers>")
        flat = self._numbers(number, line[len(heading) :], size)
        if kind == "LookupParameter":
            rows, *row = shape
            return np.moveaxis(flat.reshape((*row, rows), order="F"), -1, 0)
        return flat.reshape(shape, order="F")

    def _numbers(self, number: int, text: bytes, count: int) -> np.ndarray:
        """So many numbers."""
        out = np.empty(count, np.float32)
        try:
            parse(text, out)
        except ValueError as error:
            got = str(error).encode()
            raise self._broken(number, got, f"{count} numbers") from None
        return out

    def _broken(self, number: int | None, got: bytes, expected: str) -> RuntimeError:
        where = "" if number is None else f", line {number}"
        return RuntimeError(
            error_text(
                f"populate: no file of such a trainer: {self._path}{where}",
                got=got[:80].decode("utf-8", "replace"),
                expected=expected,
                fix="load it into a trainer of the same class and collection as it "
                "was saved from",
            )
        )
