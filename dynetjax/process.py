"""What importing the package changes in the process, all of it.

- glibc keeps memory that was freed, instead of handing it back to the system.
- JAX keeps compiled programs in ``~/.cache/dynetjax``, unless it was told where.
- JAX tells the package of each compilation; `dynetjax.stats` counts them. This and the
  cache begin when the package first uses JAX, or at once if JAX is imported already.
- In a process that is forked after a graph was computed tier 0 computes alone; where
  XLA would have to, and would hang, it raises.
- Settings hold as flags that begin with ``--dynet`` say in ``sys.argv``. Not under
  ``python -m dynetjax``: the program may call ``dynet_config.set``, and then they do
  not count.

- Python, IPython and pytest print errors without the frames of this package; see
  `dynetjax.compat.tracebacks`.

With the environment variable ``DYNETJAX_PLAIN_IMPORT=1`` it does none of these.
Settings of a thread, the priority of threads and what NumPy does are left alone in any
case.
"""

import ctypes
import os
import sys
from collections.abc import Callable
from pathlib import Path

from dynetjax.compat.options import parse
from dynetjax.compat.startup import apply, refuse_after_fork
from dynetjax.compat.tracebacks import shorten
from dynetjax.core.lazy import with_jax
from dynetjax.engine.xla.compilation_cache import keep_compilations
from dynetjax.engine.xla.listening import listen

PLAIN = "DYNETJAX_PLAIN_IMPORT"
_TRIM_THRESHOLD, _MMAP_THRESHOLD = -1, -3  # as glibc's malloc.h numbers them
_THRESHOLDS = {"MALLOC_TRIM_THRESHOLD_", "MALLOC_MMAP_THRESHOLD_"}


def change(computed: Callable[[], object]) -> None:
    """Make all changes.

    Args:
        computed: whether any graph was computed.
    """
    if os.environ.get(PLAIN):
        return
    keep_freed_memory()
    with_jax(keep_compilations)
    with_jax(listen)
    refuse_after_fork(computed)
    shorten()
    if not _is_command(sys.argv[:1]):
        apply(parse(sys.argv))


def _is_command(first: list[str]) -> bool:
    """Whether the process runs ``dynetjax`` or ``python -m dynetjax``.

    Of the latter, ``-m`` is all that Python tells while it looks for the module.
    """
    return first == ["-m"] or (bool(first) and Path(first[0]).stem == "dynetjax")


def keep_freed_memory() -> None:
    """Let the C library keep what XLA frees, instead of handing it back to the system.

    Every run of a program allocates the same arrays again, and memory that is new to
    the process comes page by page: that took as long as computing a step of a parser.
    Only glibc is told so, and not where the user has set its thresholds.
    """
    if not sys.platform.startswith("linux") or _THRESHOLDS & os.environ.keys():
        return
    tell = getattr(ctypes.CDLL(None), "mallopt", None)
    if tell is not None:  # musl has none
        tell(_TRIM_THRESHOLD, 2**31 - 1)
        tell(_MMAP_THRESHOLD, 2**30)
