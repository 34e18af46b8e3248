"""Files that are written whole or not at all.

What is written goes to another file of the same folder first, which takes the place of
the old one when it is on the disk. Whoever opens the name finds the old file or the
new one, also after a crash. A process that was killed may leave the other file behind:
``.name.random.tmp``.
"""

import contextlib
import errno
import os
import secrets
import shutil
import stat
from collections.abc import Iterator
from typing import IO

from dynetjax.core.group import PROCESS


@contextlib.contextmanager
def replacing(path: str, *, append: bool = False) -> Iterator[IO[bytes]]:
    """A file, open for binary writing, that becomes `path` at the end.

    An exception leaves everything as it was. A link stays and its target is replaced;
    the permissions of the old file are kept. What is no regular file, like a pipe, is
    written to as it is.

    Args:
        path: the name.
        append: begin with what the old file has.
    Raises:
        OSError: as `open` would.
    """
    target = os.path.realpath(path)
    if os.path.exists(target) and not os.path.isfile(target):
        here = target if PROCESS.writes_files else os.devnull
        with open(here, "ab" if append else "wb") as file:
            yield file
        return
    draft = Draft(target, append=append)
    try:
        yield draft.file
        draft.finish()
        draft.publish()
    finally:
        draft.discard()


class Draft:
    """The new content of `target`, in a file beside it.

    Among processes that train together the first one writes, and the others wait for
    it when they publish.

    Attributes:
        target: the path, links followed.
        file: open for binary writing.
    """

    def __init__(self, target: str, *, append: bool = False):
        self.target: str = os.path.realpath(target)
        if not PROCESS.writes_files:
            self._path = ""
            self.file: IO[bytes] = open(os.devnull, "wb")  # noqa: SIM115
            return
        folder, name = os.path.split(self.target)
        mode = _mode(self.target)
        # Long names leave no room for more: 255 bytes is the limit.
        self._path = os.path.join(folder, f".{name[:64]}.{secrets.token_hex(8)}.tmp")
        flags = os.O_WRONLY | os.O_CREAT | os.O_EXCL | getattr(os, "O_BINARY", 0)
        try:
            descriptor = os.open(self._path, flags, 0o666)
        except OSError as error:  # about a name that nobody has asked for
            raise OSError(error.errno, error.strerror, self.target) from None
        self.file = os.fdopen(descriptor, "wb")
        try:
            if mode is not None:
                os.chmod(self._path, mode)
            if append and mode is not None:
                with open(self.target, "rb") as old:
                    shutil.copyfileobj(old, self.file, 1 << 20)
        except BaseException:
            self.discard()
            raise

    def finish(self) -> None:
        """Bring all of it to the disk."""
        self.file.flush()
        if self._path:
            os.fsync(self.file.fileno())
        self.file.close()

    def publish(self) -> None:
        """Put it in the place of `target`; after `finish`."""
        if self._path:
            os.replace(self._path, self.target)
            sync_folder(self.target)
        if PROCESS.group is not None:
            PROCESS.group.file_written(self.target)

    def discard(self) -> None:
        """Remove it, unless it was published."""
        with contextlib.suppress(OSError):
            self.file.close()
        with contextlib.suppress(FileNotFoundError):
            os.unlink(self._path)


def sync_folder(path: str) -> None:
    """Bring to the disk which files are in the folder of `path`, where possible."""
    with contextlib.suppress(OSError):  # folders cannot be opened everywhere
        descriptor = os.open(os.path.dirname(path), os.O_RDONLY)
        try:
            os.fsync(descriptor)
        finally:
            os.close(descriptor)


def _mode(path: str) -> int | None:
    """Permission bits of a file; None if there is none.

    Raises:
        PermissionError: it may not be written to.
    """
    try:
        mode = stat.S_IMODE(os.stat(path).st_mode)
    except FileNotFoundError:
        return None
    if not os.access(path, os.W_OK):
        raise PermissionError(errno.EACCES, os.strerror(errno.EACCES), path)
    return mode
