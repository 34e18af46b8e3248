"""DyNet's text files of models: blocks of a header, values and perhaps a gradient.

    #Parameter# /W {2,3} 97 ZERO_GRAD
    +1.00000000e+00 +4.00000000e+00 ...

A number takes 16 bytes, see `dynetjax.io.numbers`. The first size of a tensor runs
fastest; a table has its rows last: ``{row dims..., N}``. The header tells how many
bytes follow up to the next one. Files of early releases may lack that count and the
flag.

What a file says of itself is checked against its length before memory is taken for it.
"""

import math
import os
import re
import stat
from collections.abc import Iterator
from typing import IO, Any, NamedTuple, TypeAlias

import numpy as np

from dynetjax.core.errors import error_text
from dynetjax.io.numbers import PIECE, WIDTH, decode, encode, parse

_HEADER_LIMIT = 8192
_HEADER = re.compile(
    rb"\s*#(Parameter|LookupParameter)#\s+(\S|\S.*\S)\s+"
    rb"\{((?:\d{1,18}(?:,\d{1,18}){0,6})?)\}(?:\s+(\S+))?(?:\s+(\S+))?\s*"
)


class Header(NamedTuple):
    """The first line of a block.

    Attributes:
        is_table: it is a lookup table, with the rows as the last of `dims`.
        key: the name, ``/encoder/W``.
        dims: the sizes as the file has them.
        has_gradient: a line with the gradient follows the values.
        start: where the values begin in the file.
    """

    is_table: bool
    key: str
    dims: tuple[int, ...]
    has_gradient: bool
    start: int

    @property
    def size(self) -> int:
        """How many numbers there are."""
        return math.prod(self.dims)

    def __str__(self) -> str:
        kind = "table" if self.is_table else "parameter"
        return f"{kind} {self.key} {show_dims(self.dims)}"


def show_dims(dims: tuple[int, ...]) -> str:
    """As headers have them, ``{2,3}``."""
    return f"{{{','.join(map(str, dims))}}}"


FilePath: TypeAlias = str | os.PathLike[str]  # what `as_path` takes


def as_path(name: str, fname: Any) -> str:
    """`fname`, a str or a path, as a str.

    Raises:
        AttributeError: it is neither.
    """
    if isinstance(fname, (str, os.PathLike)):
        path = os.fspath(fname)
        if isinstance(path, str):
            return path
    raise AttributeError(
        error_text(
            f"{name}: the name of the file is no str",
            got=f"{fname!r} ({type(fname).__name__})",
            expected="a str or a pathlib.Path",
            fix="os.fsdecode(fname) for bytes",
        )
    )


def write_block(
    file: IO[bytes],
    *,
    is_table: bool,
    key: str,
    dims: tuple[int, ...],
    values: np.ndarray,
    gradient: np.ndarray | None = None,
) -> bool:
    """Append a block.

    Args:
        file: opened for binary writing.
        is_table, key, dims: as in `Header`.
        values: float32 vector in the order of the file.
        gradient: likewise, or None.
    Returns:
        Whether all of it is finite: what is not can be read by no DyNet.
    Raises:
        ValueError: there is a line break in the key.
    """
    if "\n" in key or "\r" in key:
        raise ValueError(
            error_text(
                "save: a line break in a name",
                got=repr(key),
                expected="a name on one line",
                fix="give another name, or another key",
            )
        )
    vectors = [values] if gradient is None else [values, gradient]
    kind = "#LookupParameter#" if is_table else "#Parameter#"
    flag = "ZERO_GRAD" if gradient is None else "FULL_GRAD"
    infinite = sum(map(_count_infinite, vectors))
    size = sum(WIDTH * len(vector) + 1 for vector in vectors) - 11 * infinite
    head = f"{kind} {key} {show_dims(dims)} {size} {flag}\n"
    file.write(head.encode("utf-8", "surrogateescape"))
    for vector in vectors:
        file.writelines(encode(vector))
        file.write(b"\n")
    return not infinite


def _count_infinite(vector: np.ndarray) -> int:
    """How many are not finite; written as ``+nan`` they take 11 bytes fewer."""
    pieces = (vector[i : i + PIECE] for i in range(0, len(vector), PIECE))
    return sum(int(np.count_nonzero(~np.isfinite(piece))) for piece in pieces)


class TextFile:
    """A file of blocks, open for reading; a context that closes it.

    Raises:
        RuntimeError: it cannot be read, or is of another kind.
    """

    def __init__(self, path: str):
        self.path = path
        try:
            self._file = open(path, "rb")  # noqa: SIM115
            status = os.fstat(self._file.fileno())
            self._length = status.st_size
            if not stat.S_ISREG(status.st_mode):
                self._file.close()
                raise OSError("no regular file")
        except OSError as error:
            raise RuntimeError(
                error_text(
                    f"load: cannot read {path}",
                    got=error,
                    expected="a file that save has written",
                    fix="check the name",
                )
            ) from error
        self._refuse_archives()

    def __enter__(self) -> "TextFile":
        return self

    def __exit__(self, *_: object) -> None:
        self._file.close()

    def _refuse_archives(self) -> None:
        begin = self._file.read(64)
        if b"serialization::archive" in begin:
            self._file.close()
            raise RuntimeError(
                error_text(
                    f"load: {self.path} was saved by DyNet 1",
                    got="a boost archive",
                    expected="the text format of DyNet 2",
                    fix="no later DyNet reads it: load it in DyNet 1, write the arrays"
                    " of its parameters to files, and set_value them here",
                )
            )

    def headers(self) -> Iterator[Header]:
        """All headers in order, each checked; numbers are skipped unread.

        Raises:
            RuntimeError: what stands where a header should be is none, or tells of
                more numbers than the file has room for.
        """
        position, seen_zero_grad = 0, False
        while True:
            self._file.seek(position)
            line = self._file.readline(_HEADER_LIMIT)
            if not line:
                return
            header = self._header(line, position + len(line), seen_zero_grad)
            seen_zero_grad |= not header.has_gradient
            position = self._end(header)
            yield header

    def _header(self, line: bytes, start: int, seen_zero_grad: bool) -> Header:
        match = _HEADER.fullmatch(line)
        if match is None:
            raise RuntimeError(
                error_text(
                    f"load: a bad header in {self.path}",
                    got=repr(line[:60].decode("latin-1")),
                    expected="#Parameter# or #LookupParameter#, name, {dims}, size and"
                    " flag",
                    fix="the block before it may be cut short; save the model again",
                )
            )
        kind, key, dims, _, flag = match.groups()
        header = Header(
            kind == b"LookupParameter",
            key.decode("utf-8", "surrogateescape"),
            tuple(int(n) for n in dims.split(b",") if n),
            flag != b"ZERO_GRAD" if flag else not seen_zero_grad,
            start,
        )
        self._require_room(header)
        return header

    def _require_room(self, header: Header) -> None:
        left = self._length - header.start
        shortest = 2 * header.size - 1  # a digit each, and spaces between
        absurd = math.prod(max(n, 1) for n in header.dims) > 2**40  # beside a 0
        no_rows = header.is_table and not header.dims
        if shortest > left or absurd or no_rows:
            raise RuntimeError(
                error_text(
                    f"load: {self.path} is too short for {header.key}",
                    got=f"{left} bytes after the header",
                    expected=f"{header.size} numbers, for {show_dims(header.dims)}",
                    fix="the file is damaged or cut short; save the model again",
                )
            )

    def _end(self, header: Header) -> int:
        """Where the next header is."""
        lines = 2 if header.has_gradient else 1
        end = header.start + lines * (WIDTH * header.size + 1)
        if end <= self._length:
            self._file.seek(end - 1)
            if self._file.read(2) in (b"\n#", b"\n"):
                return end
        self._file.seek(header.start)
        for _ in range(lines):
            self._file.readline()
        return self._file.tell()

    def read(self, header: Header) -> tuple[np.ndarray, np.ndarray | None]:
        """Values and gradient of a block, float32 vectors in the order of the file.

        The gradient is None where the file has none.

        Raises:
            RuntimeError: there are too few numbers or too many, or other things.
        """
        self._file.seek(header.start)
        values = self._line(header, "values")
        gradient = self._line(header, "gradient") if header.has_gradient else None
        return values, gradient

    def _line(self, header: Header, quantity: str) -> np.ndarray:
        numbers = np.empty(header.size, np.float32)
        start = self._file.tell()
        if not self._decode(numbers):
            self._file.seek(start)
            try:
                parse(self._whole_line(), numbers)
            except ValueError as error:
                raise RuntimeError(
                    error_text(
                        f"load: bad {quantity} of {header.key} in {self.path}",
                        got=error,
                        expected=f"{header.size} finite numbers,"
                        f" for {show_dims(header.dims)}",
                        fix="the file is damaged or cut short; save the model again",
                    )
                ) from None
        return numbers

    def _whole_line(self) -> bytes:
        line = self._file.readline()
        if not line.endswith(b"\n"):
            count = len(line.split())
            raise ValueError(f"{count} numbers, then the end of the file in the line")
        return line

    def _decode(self, numbers: np.ndarray) -> bool:
        """Read a line of the usual layout; False for another one."""
        buffer = memoryview(bytearray(WIDTH * min(PIECE, len(numbers))))
        for start in range(0, len(numbers), PIECE):
            piece = numbers[start : start + PIECE]
            text = buffer[: WIDTH * len(piece)]
            if self._file.readinto(text) < len(text) or not decode(text, piece):
                return False
        return self._file.read(1) in (b"\n", b"")
