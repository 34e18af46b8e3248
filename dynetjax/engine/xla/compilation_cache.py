"""Compiled programs outlive the process: the next one reads them from a folder.

JAX has the cache. Here it gets a folder, unless the user has given one to JAX, and is
kept to a size.
"""

import contextlib
import os
import pathlib
import time

from dynetjax.core.lazy import jax
from dynetjax.engine.cache_folder import cache_folder, is_made, is_wanted

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
    if given or not is_wanted():
        return
    folder = cache_folder()
    with contextlib.suppress(OSError):  # then nothing is kept
        if is_made(folder) and os.access(folder, os.W_OK):
            jax.config.update("jax_compilation_cache_dir", str(folder))
            if _is_due(folder / LOOKED):
                _shorten(folder)


def _keep_short_ones() -> None:
    """Let JAX's cache keep programs of ours, too.

    By default it keeps what took a second to compile; hardly any of ours does.
    """
    if "JAX_PERSISTENT_CACHE_MIN_COMPILE_TIME_SECS" not in os.environ:
        jax.config.update("jax_persistent_cache_min_compile_time_secs", 0.0)


def _is_due(mark: pathlib.Path) -> bool:
    """Whether a day has gone by since this was last true; a look takes long."""
    if mark.exists() and time.time() - mark.stat().st_mtime < DAY:
        return False
    mark.touch()
    return True


def _shorten(folder: pathlib.Path) -> None:
    """Delete the oldest files of a folder that has grown too large."""
    with os.scandir(folder) as entries:
        files = [(entry.stat(), entry.path) for entry in entries if entry.is_file()]
    size = sum(info.st_size for info, _ in files)
    if size <= MOST_BYTES:
        return
    for info, path in sorted(files, key=lambda file: file[0].st_mtime):
        if size <= MOST_BYTES // 2:
            break
        os.unlink(path)
        size -= info.st_size
