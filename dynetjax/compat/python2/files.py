"""Files and pickles that take text and bytes."""

import codecs
import gzip
import io
import pickle
from collections.abc import Callable
from typing import Any

UTF8 = "utf-8", "surrogateescape"  # any bytes come out as they went in


def decoded(data: Any) -> Any:
    """Text where there are bytes."""
    return data.decode(*UTF8) if isinstance(data, bytes) else data


def encoded(text: Any) -> Any:
    """Bytes where there is text."""
    return text.encode(*UTF8) if isinstance(text, str) else text


class _Text(io.TextIOWrapper):
    """A text file that takes bytes, too."""

    def write(self, text: Any) -> int:
        return super().write(decoded(text))


class _Written(io.BufferedWriter):
    """A binary file that takes text, too."""

    def write(self, data: Any) -> int:
        return super().write(encoded(data))


class _Read(io.BufferedReader):
    """A binary file whose lines are text."""

    def __next__(self) -> Any:
        line = self.readline()
        if not line:
            raise StopIteration
        return line

    def readline(self, *size: Any) -> Any:
        return decoded(super().readline(*size))

    def readlines(self, size: Any = None) -> Any:
        return [*self]


def open_file(name: Any, mode: str = "r", buffering: int = -1, **options: Any) -> Any:
    """`open` of Python 2: as the file says, without translating ends of lines."""
    if options:
        return open(name, mode, buffering, **options)
    plain = mode.replace("U", "") or "r"
    if plain in ("wb", "ab"):
        return _Written(io.FileIO(name, plain))
    if plain == "rb":
        return _Read(io.FileIO(name, plain))
    if "b" in plain:
        return open(name, plain, buffering)
    newline = None if "U" in mode else "\n"
    lines = buffering in (0, 1)
    binary = open(name, plain + "b")  # noqa: SIM115  (closed with the text file)
    file = _Text(binary, *UTF8, newline, line_buffering=lines)
    file.mode = mode  # type: ignore[misc]
    return file


def gzip_open(name: Any, mode: str = "rb", *rest: Any, **options: Any) -> Any:
    """`gzip.open`, whose file has text."""
    file: Any = gzip.open(name, mode, *rest, **options)  # noqa: SIM115
    if isinstance(file, io.TextIOBase):
        return file
    return _Text(file, *UTF8, "\n")


def wrapper(of_codec: Callable[[str], Any]) -> Callable[[str], Any]:
    """`codecs.getreader` or `getwriter`, where a file may have text already."""

    def wrapper_of(encoding: str) -> Any:
        def wrapped(stream: Any, errors: str = "strict") -> Any:
            if isinstance(stream, io.TextIOWrapper):
                stream.reconfigure(encoding=encoding, errors=errors)
            if isinstance(stream, io.TextIOBase):
                return stream
            return of_codec(encoding)(stream, errors)

        return wrapped

    return wrapper_of


reader, writer = wrapper(codecs.getreader), wrapper(codecs.getwriter)


def _binary(file: Any) -> Any:
    """The binary file beneath a file of `open_file` or of `codecs`."""
    if isinstance(file, _Read):
        return _Bytes(file)
    for name in "buffer", "stream":
        beneath = getattr(file, name, None)
        if beneath is not None:
            file.flush()
            return beneath
    return file


class _Bytes:
    """The bytes of a binary file whose lines are text."""

    def __init__(self, file: _Read):
        self.read, self.seek, self.tell = file.read, file.seek, file.tell
        self.readinto, self.seekable = file.readinto, file.seekable
        self.readline = super(_Read, file).readline


def dump(obj: Any, file: Any, *args: Any, **options: Any) -> None:
    """`pickle.dump`, also to a text file."""
    pickle.dump(obj, _binary(file), *args, **options)


def load(file: Any, **options: Any) -> Any:
    """`pickle.load`, also from a text file.

    Text in a pickle of Python 2 is UTF-8, or else bytes, such as an array's.
    """
    binary = _binary(file)  # it is closed with the text file, which must live
    if "encoding" in options or not binary.seekable():
        return pickle.load(binary, **options)
    start = binary.tell()
    try:
        return pickle.load(binary, encoding="utf-8", **options)
    except ValueError:
        binary.seek(start)
        return pickle.load(binary, encoding="latin1", **options)


def loads(data: Any, **options: Any) -> Any:
    """`pickle.loads`, also of text."""
    return load(io.BytesIO(encoded(data)), **options)
