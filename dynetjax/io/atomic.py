"""Files that are written whole or not at all.

What is written goes to another file of the same folder first, which takes the place of
the old one when it is on the disk. Whoever opens the name finds the old file or the
new one, also after a crash. A process that is killed leaves the other file behind,
``.name.random.tmp``, and the next one that writes to the name removes it. It knows by
a lock that a file is still being written, for that ends with the process.
"""

import contextlib
import errno
import os
import re
import secrets
import shutil
import stat
from collections.abc import Iterator
from typing import IO

from dynetjax.core.errors import error_text
from dynetjax.core.group import PROCESS

try:
    import fcntl
except ImportError:  # Windows, which removes no file that is open
    fcntl = None  # type: ignore[assignment]

_FULL = (errno.ENOSPC, errno.EFBIG, getattr(errno, "EDQUOT", errno.ENOSPC))


@contextlib.contextmanager
def explained(
    operation: str, path: str, kind: type[Exception] = OSError
) -> Iterator[None]:
    """What goes wrong with writing `path` in this context is said in full.

    Args:
        operation: what writes.
        path: the file.
        kind: the exception that is raised in place of an OSError, unless the disk is
            full: that is an OSError in every case.
    """
    try:
        yield
    except OSError as error:
        full = error.errno in _FULL
        message = error_text(
            f"{operation}: cannot write {path}",
            got=error.strerror or error,
            expected="room for it on the disk, and in the user's share of it"
            if full
            else "a file, or a new name in a folder that exists",
            fix="make room, or save elsewhere; what was there before is unchanged"
            if full
            else "check the name and the permissions",
        )
        if full or kind is OSError:
            raise OSError(error.errno, message) from error
        raise kind(message) from error


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
        self._held = contextlib.ExitStack()  # keeps the lock when `file` is closed
        if not PROCESS.writes_files:
            self._path = ""
            self.file: IO[bytes] = open(os.devnull, "wb")  # noqa: SIM115
            return
        mode = _mode(self.target)
        folder, name = os.path.split(self.target)
        # Long names leave no room for more: 255 bytes is the limit.
        start = f".{name[:64]}."
        _remove_abandoned(folder, start)
        try:
            self._path, descriptor = _opened(os.path.join(folder, start))
        except OSError as error:  # about a name that nobody has asked for
            raise OSError(error.errno, error.strerror, self.target) from None
        self.file = os.fdopen(descriptor, "wb")
        try:
            if fcntl is not None:
                self._held.callback(os.close, os.dup(descriptor))
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
            self._held.close()
            sync_folder(self.target)
        if PROCESS.group is not None:
            PROCESS.group.file_written(self.target)

    def discard(self) -> None:
        """Remove it, unless it was published."""
        with contextlib.suppress(OSError):
            self.file.close()
        with contextlib.suppress(FileNotFoundError):
            os.unlink(self._path)
        self._held.close()


def _opened(start: str) -> tuple[str, int]:
    """A new file whose name begins so, and its descriptor, which holds a lock."""
    flags = os.O_WRONLY | os.O_CREAT | os.O_EXCL | getattr(os, "O_BINARY", 0)
    while True:
        path = f"{start}{secrets.token_hex(8)}.tmp"
        descriptor = os.open(path, flags, 0o666)
        # Another process may just have taken it for abandoned.
        if _is_held(descriptor) and os.path.exists(path):
            return path, descriptor
        os.close(descriptor)


def _is_held(descriptor: int) -> bool:
    """Lock a file until it is closed; False if somebody else has done so."""
    with contextlib.suppress(OSError):  # where there are no locks, nothing is removed
        try:
            _lock(descriptor)
        except BlockingIOError:
            return False
    return True


def _lock(descriptor: int) -> None:
    if fcntl is not None:
        fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)


def _remove_abandoned(folder: str, start: str) -> None:
    """Remove what processes that were killed have left of drafts of a name."""
    draft = re.compile(re.escape(start) + r"[0-9a-f]{16}\.tmp")
    with contextlib.suppress(OSError):  # not every folder can be listed
        for name in filter(draft.fullmatch, os.listdir(folder)):
            _remove_if_abandoned(os.path.join(folder, name))


def _remove_if_abandoned(path: str) -> None:
    flags = os.O_WRONLY | getattr(os, "O_NOFOLLOW", 0) | getattr(os, "O_NONBLOCK", 0)
    with contextlib.ExitStack() as held, contextlib.suppress(OSError):
        if fcntl is not None:
            descriptor = os.open(path, flags)
            held.callback(os.close, descriptor)
            _lock(descriptor)
        os.unlink(path)


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
