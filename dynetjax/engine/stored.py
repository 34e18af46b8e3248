"""Programs that outlive the process, found by what they were traced from.

JAX's cache finds what was compiled by a program's text. To have the text, JAX traces
and lowers the program, and that takes twice as long as to load what was compiled. So
what has a description (`dynetjax.engine.descriptions`) is kept a second time, under a
digest of it and of all else that decides what comes of it: this package's source, the
versions, the processor, and JAX's settings. The files are in the folder of JAX's cache.

This is for a CPU, where it was tried, and for what was compiled in this process: XLA
can write what it has read itself, but then functions are missing when it runs.
"""

import contextlib
import hashlib
import os
import pathlib
import pickle
import platform
import stat
import sys
import threading
import warnings
from collections.abc import Iterator
from functools import cache, partial
from typing import Any, NamedTuple

from dynetjax.engine import internals
from dynetjax.engine.descriptions import NotDescribedError, described
from dynetjax.engine.stats import falling_back
from dynetjax.errors import explain
from dynetjax.lazy import jax, jaxlib, optax

PREFIX = "dynetjax-"
is_wanted = True  # not where constants of modules are patched
_DIGEST = 32  # bytes of the file, before what they are the digest of
_CACHES = "cache", "log"  # settings that change no program
_OF_CONTEXTS = "jax_enable_x64", "jax_default_matmul_precision", "jax_disable_jit"


class Stored(NamedTuple):
    """What a file has: a compiled function, and whether it was compiled well."""

    program: Any
    well: bool


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
    known = _surroundings(), _digest_of_source(), settings, now, text, sizes, str(tree)
    return folder / f"{PREFIX}{hashlib.sha256(repr(known).encode()).hexdigest()}"


def load(file: pathlib.Path) -> Stored | None:
    """What is in a file; None if there is none, or nothing that can be used."""
    try:
        content = file.read_bytes()
    except OSError:
        return None
    digest, rest = content[:_DIGEST], content[_DIGEST:]
    if hashlib.sha256(rest).digest() != digest:
        return None
    with falling_back("load a program"):
        well, *parts = pickle.loads(rest)
        return Stored(internals.read(tuple(parts)), well)
    return None


def keep(file: pathlib.Path, program: "jax.stages.Compiled", well: bool) -> None:
    """Write a program, for those who come after."""
    try:
        rest = pickle.dumps((well, *internals.written(program)))
    except internals.UnknownError:
        return
    with draft_of(file) as draft:
        draft.write_bytes(hashlib.sha256(rest).digest() + rest)


@contextlib.contextmanager
def draft_of(file: pathlib.Path) -> Iterator[pathlib.Path]:
    """A file that takes the place of `file` when it is whole.

    Where anything fails, the next process compiles the program.
    """
    draft = file.with_name(f"{file.name}.{os.getpid()}.{threading.get_ident()}")
    with contextlib.suppress(OSError):
        try:
            yield draft
            os.replace(draft, file)
        finally:
            draft.unlink(missing_ok=True)


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
def is_private(folder: str) -> bool:
    """Whether a folder is the user's own, and no other may write to it.

    What is read from it is run. Where it is another's, that is said once, and nothing
    is read or written there.
    """
    try:
        about = os.stat(folder)
    except OSError:
        return False
    own = getattr(os, "geteuid", lambda: about.st_uid)()  # Windows has other means
    others = about.st_mode & (stat.S_IWGRP | stat.S_IWOTH) if os.name == "posix" else 0
    if about.st_uid == own and not others:
        return True
    warnings.warn(
        explain(
            "compiled programs are not kept: others could put theirs in their place",
            got=f"{folder} of user {about.st_uid}, mode {stat.filemode(about.st_mode)}",
            expected=f"a folder of user {own} that nobody else may write to",
            fix=f"chmod 700 {folder}, or another DYNETJAX_CACHE_DIR",
        ),
        RuntimeWarning,
        stacklevel=2,
    )
    return False


@cache
def _surroundings() -> str:
    """What is the same for as long as the process lives."""
    versions = [package.__version__ for package in (jax, jaxlib, optax)]
    machine = processor(), os.cpu_count(), os.environ.get("XLA_FLAGS")
    return repr((versions, sys.version, machine))


@cache
def _digest_of_source() -> str:
    """Of this package's."""
    digest = hashlib.sha256()
    root = pathlib.Path(__file__).parent.parent
    for file in sorted(root.rglob("*.py")):
        digest.update(str(file.relative_to(root)).encode() + file.read_bytes())
    return digest.hexdigest()


def processor() -> str:
    """Names the kind of processor: what it is, and what it can do."""
    about = [platform.machine(), platform.processor()]
    with contextlib.suppress(OSError), open("/proc/cpuinfo", encoding="utf-8") as lines:
        for line in lines:
            if line.startswith(("model name", "flags", "Features")):
                about.append(line)
            elif not line.strip():  # the next core
                break
    return hashlib.sha256("".join(about).encode()).hexdigest()[:12]
