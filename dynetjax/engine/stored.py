"""Programs that outlive the process, found by what they were traced from.

JAX's cache finds what was compiled by a program's text. To have the text, JAX traces
and lowers the program, and that takes twice as long as to load what was compiled. So
what has a description (`dynetjax.engine.descriptions`) is kept a second time, under a
digest of it and of all else that decides what comes of it: this package's source, the
versions, the processor, and JAX's settings. The files are in the folder of JAX's cache.

This is for a CPU, where it was tried, and for what was compiled in this process: XLA
can write what it has read itself, but then functions are missing when it runs.
"""

import hashlib
import os
import pathlib
import pickle
import sys
from functools import cache, partial
from typing import Any

from dynetjax.engine import internals
from dynetjax.engine.cache_folder import (
    digest_of_source,
    draft_of,
    is_private,
    processor,
)
from dynetjax.engine.descriptions import NotDescribedError, described
from dynetjax.engine.stats import falling_back
from dynetjax.lazy import jax, jaxlib, optax

PREFIX = "dynetjax-"
is_wanted = True  # not where constants of modules are patched
_DIGEST = 32  # bytes of the file, before what they are the digest of
_CACHES = "cache", "log"  # settings that change no program
_OF_CONTEXTS = "jax_enable_x64", "jax_default_matmul_precision", "jax_disable_jit"


def find(about: Any, shapes: Any, options: dict[str, Any]) -> pathlib.Path | None:
    """The file of a program; None if it is not to be kept.

    Args:
        about: all that it is traced from besides its arguments.
        shapes: of these.
        options: with which it is compiled.
    """
    folder = _folder()
    if folder is None:
        return None
    try:
        text = described((about, sorted(options.items())))
        settings = internals.settings(but_for=_CACHES)
    except (NotDescribedError, internals.UnknownError):
        return None
    leaves, tree = jax.tree.flatten(shapes)
    sizes = [(x.shape, str(x.dtype), x.weak_type) for x in leaves]
    now = [getattr(jax.config, name) for name in _OF_CONTEXTS]
    known = _surroundings(), digest_of_source(), settings, now, text, sizes, str(tree)
    return folder / f"{PREFIX}{hashlib.sha256(repr(known).encode()).hexdigest()}"


def load(file: pathlib.Path) -> Any:
    """The compiled function in a file; None if there is none that can be used."""
    try:
        content = file.read_bytes()
    except OSError:
        return None
    digest, rest = content[:_DIGEST], content[_DIGEST:]
    if hashlib.sha256(rest).digest() != digest:
        return None
    with falling_back("load a program"):
        return internals.read(pickle.loads(rest))
    return None


def keep(file: pathlib.Path, program: "jax.stages.Compiled") -> None:
    """Write a program, for those who come after."""
    try:
        rest = pickle.dumps(internals.written(program))
    except internals.UnknownError:
        return
    with draft_of(file) as draft:
        draft.write_bytes(hashlib.sha256(rest).digest() + rest)


def _folder() -> pathlib.Path | None:
    """Where programs are kept, if they are."""
    config = partial(getattr, jax.config)
    given = config("jax_compilation_cache_dir", None)
    wanted = is_wanted and config("jax_enable_compilation_cache", True)
    if not given or not wanted or config("jax_disable_jit"):
        return None
    if jax.default_backend() != "cpu" or config("jax_default_device") is not None:
        return None
    return pathlib.Path(given) if is_private(given) else None


@cache
def _surroundings() -> str:
    """What is the same for as long as the process lives."""
    versions = [package.__version__ for package in (jax, jaxlib, optax)]
    machine = processor(), os.cpu_count(), os.environ.get("XLA_FLAGS")
    return repr((versions, sys.version, machine))
