"""The folder of what outlives the process: compiled programs, and byte code.

It is of the kind of processor that programs were compiled on, for a home may be shared
by machines.
"""

import contextlib
import hashlib
import os
import pathlib
import platform
import stat
import threading
import warnings
from collections.abc import Iterator
from functools import cache

from dynetjax.core.errors import error_text

if os.name == "posix":
    import grp
    import pwd

VARIABLE = "DYNETJAX_CACHE_DIR"
NOWHERE = "", "none", "off"


def is_wanted() -> bool:
    """Whether neither of the two variables says no."""
    jax_wants = os.environ.get("JAX_COMPILATION_CACHE_DIR", "yes")
    return bool(jax_wants) and os.environ.get(VARIABLE, "yes").lower() not in NOWHERE


def folder_in(variable: str) -> str:
    """The folder that an environment variable names; empty if it names none.

    JAX takes addresses, too (``gs://bucket/x``), which are no folders here.
    """
    given = os.environ.get(variable, "")
    return "" if "://" in given else given


def cache_folder() -> pathlib.Path:
    """Where things are kept, unless JAX was given another folder."""
    cache = os.environ.get("XDG_CACHE_HOME") or pathlib.Path.home() / ".cache"
    given = folder_in(VARIABLE) or pathlib.Path(cache, "dynetjax")
    return pathlib.Path(given) / processor()


def is_made(folder: pathlib.Path) -> bool:
    """Whether there is such a folder of the user's own now."""
    try:
        for part in (*reversed(folder.parents), folder):
            part.mkdir(mode=0o700, exist_ok=True)
    except OSError:
        return False
    return is_private(str(folder))


@cache
def is_private(folder: str) -> bool:
    """Whether a folder is the user's own, and no other may write to it or replace it.

    What is read from it is run. Where others may, that is said once, and nothing is
    read or written there.
    """
    if os.name != "posix":  # Windows has other means
        return os.path.isdir(folder)
    real, own = pathlib.Path(os.path.realpath(folder)), os.geteuid()
    given = pathlib.Path(os.path.abspath(folder))
    try:
        if not _is_safe(real, {own}, but=0):
            return _refused(real, own)
        for part in (*real.parents, given, *given.parents):
            if not _is_safe(part, {own, 0}, but=stat.S_ISVTX):
                return _refused(part, own)
    except OSError:
        return False
    return True


def _is_safe(path: pathlib.Path, owners: set[int], *, but: int) -> bool:
    """Whether only `owners` can put something else in the place of what is there.

    Others may write to a folder that has the bit `but`, and to a link, which is only
    its owner's to change.
    """
    info = path.lstat()
    others = info.st_mode & (stat.S_IWGRP | stat.S_IWOTH)
    if others == stat.S_IWGRP and _is_alone_in(info.st_gid):
        others = 0
    harmless = not others or info.st_mode & but or stat.S_ISLNK(info.st_mode)
    return info.st_uid in owners and bool(harmless)


def _is_alone_in(group: int) -> bool:
    """Whether a group is the user's own: many systems make one for each user."""
    try:
        name, members = pwd.getpwuid(os.geteuid()).pw_name, grp.getgrgid(group)
    except KeyError:
        return False
    return members.gr_name == name and {*members.gr_mem} <= {name}


def _refused(path: pathlib.Path, own: int) -> bool:
    info = path.lstat()
    warnings.warn(
        error_text(
            "compiled programs are not kept: others could put theirs in their place",
            got=f"{path} of user {info.st_uid}, mode {stat.filemode(info.st_mode)}",
            expected=f"a folder of user {own} that nobody else may write to, nor to"
            " those above it",
            fix=f"chmod go-w {path}, or another DYNETJAX_CACHE_DIR",
        ),
        RuntimeWarning,
        stacklevel=3,
    )
    return False


@contextlib.contextmanager
def draft_of(file: pathlib.Path) -> Iterator[pathlib.Path]:
    """A file that takes the place of `file` when it is whole.

    Where anything fails, the next process makes anew what would be in it.
    """
    draft = file.with_name(f"{file.name}.{os.getpid()}.{threading.get_ident()}")
    with contextlib.suppress(OSError):
        try:
            yield draft
            os.replace(draft, file)
        finally:
            draft.unlink(missing_ok=True)


@cache
def digest_of_source() -> str:
    """Of this package's."""
    digest = hashlib.sha256()
    root = pathlib.Path(__file__).parent.parent
    for file in sorted(root.rglob("*.py")):
        digest.update(str(file.relative_to(root)).encode() + file.read_bytes())
    return digest.hexdigest()


def processor() -> str:
    """Names the kind of processor: what it is, and what it can do."""
    description = [platform.machine(), platform.processor()]
    with contextlib.suppress(OSError), open("/proc/cpuinfo", encoding="utf-8") as lines:
        for line in lines:
            if line.startswith(("model name", "flags", "Features")):
                description.append(line)
            elif not line.strip():  # the next core
                break
    return hashlib.sha256("".join(description).encode()).hexdigest()[:12]
