"""Compiled programs outlive the process: the next one reads them from a folder.

JAX has the cache, and `dynetjax.engine.stored` adds to it. Here it gets a folder,
unless the user has given one to JAX, and is kept to a size. Programs are of the
processor that they were compiled on, so the folder is, too: a home may be shared by
machines.
"""

import contextlib
import os
import pathlib
import time

from dynetjax.engine.stored import is_private, processor
from dynetjax.lazy import jax

VARIABLE = "DYNETJAX_CACHE_DIR"
NOWHERE = "", "none", "off"
MOST_BYTES = 1 << 30
LOOKED, DAY = ".looked", 24 * 3600  # a file that tells when; seconds


def keep_compilations() -> None:
    """Have JAX keep what it compiles in ``$DYNETJAX_CACHE_DIR``.

    Not if that is empty, ``none`` or ``off``, or a folder that others may write to. By
    default the folder is ``~/.cache/dynetjax``. What JAX was told otherwise comes
    first. Once a day, when there is more than `MOST_BYTES` in it, the oldest half goes.
    """
    _keep_short_ones()
    given = getattr(jax.config, "jax_compilation_cache_dir", None)
    if given or not _is_wanted():
        return
    folder = _folder()
    with contextlib.suppress(OSError):  # then nothing is kept
        folder.mkdir(mode=0o700, parents=True, exist_ok=True)
        if is_private(str(folder)) and os.access(folder, os.W_OK):
            jax.config.update("jax_compilation_cache_dir", str(folder))
            if _is_due(folder / LOOKED):
                _shorten(folder)


def _keep_short_ones() -> None:
    """Let JAX's cache keep programs of ours, too.

    By default it keeps what took a second to compile; hardly any of ours does.
    """
    if "JAX_PERSISTENT_CACHE_MIN_COMPILE_TIME_SECS" not in os.environ:
        jax.config.update("jax_persistent_cache_min_compile_time_secs", 0.0)


def _is_wanted() -> bool:
    """Whether neither of the two variables says no."""
    jax_wants = os.environ.get("JAX_COMPILATION_CACHE_DIR", "yes")
    return bool(jax_wants) and os.environ.get(VARIABLE, "yes").lower() not in NOWHERE


def _folder() -> pathlib.Path:
    given = os.environ.get(VARIABLE)
    cache = os.environ.get("XDG_CACHE_HOME") or pathlib.Path.home() / ".cache"
    return pathlib.Path(given or pathlib.Path(cache, "dynetjax")) / processor()


def _is_due(mark: pathlib.Path) -> bool:
    """Whether a day has gone by since this was last true; a look takes long."""
    if mark.exists() and time.time() - mark.stat().st_mtime < DAY:
        return False
    mark.touch()
    return True


def _shorten(folder: pathlib.Path) -> None:
    """Delete the oldest files of a folder that has grown too large."""
    with os.scandir(folder) as entries:
        found = [(entry.stat(), entry.path) for entry in entries if entry.is_file()]
    size = sum(about.st_size for about, _ in found)
    if size <= MOST_BYTES:
        return
    for about, path in sorted(found, key=lambda file: file[0].st_mtime):
        if size <= MOST_BYTES // 2:
            break
        os.unlink(path)
        size -= about.st_size
