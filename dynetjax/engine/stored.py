"""Programs that outlive the process, found by what they were traced from.

JAX's cache finds what was compiled by a program's text. To have the text, JAX traces
and lowers the program, and that takes twice as long as to load what was compiled. So
what has a description (`dynetjax.engine.descriptions`) is kept a second time, under a
digest of it and of all else that decides what comes of it: this package's source, the
versions, the processor, and JAX's settings. The files are in the folder of JAX's cache.

Another version of this package finds none of them, though most of its programs have the
same text as before. So each has a second name, by its text: what is found by that gets
a name by the new digest, and from then on is not traced again.

This is for a CPU, where it was tried, and for what was compiled in this process: XLA
can write what it has read itself, but then functions are missing when it runs.
"""

import contextlib
import hashlib
import os
import pathlib
import pickle
import platform
import shutil
import sys
from collections.abc import Iterator
from functools import cache, partial
from typing import Any, NamedTuple

import jax
import jaxlib
import optax
from jax.experimental import serialize_executable

from dynetjax.engine.descriptions import NotDescribedError, described

PREFIX, OF_TEXT = "dynetjax-", "dynetjax_text-"
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
    except NotDescribedError:
        return None
    leaves, tree = jax.tree.flatten(shapes)
    sizes = [(x.shape, str(x.dtype), x.weak_type) for x in leaves]
    return folder / f"{PREFIX}{_name(_digest_of_source(), text, sizes, str(tree))}"


def alike(
    file: pathlib.Path, lowered: jax.stages.Lowered, several: list[dict[str, Any]]
) -> list[pathlib.Path]:
    """Files beside `file` of programs with the same text, however they came about.

    One for each of `several` options. The text does not tell which arguments were left
    out of it. JAX knows; where it does not say so, there are no such files.
    """
    try:
        used = sorted(lowered._lowering.compile_args["kept_var_idx"])
    except (AttributeError, KeyError):
        return []
    trees = str(lowered.args_info), str(lowered.out_tree)
    text = _name(lowered.as_text(), used, *trees)
    names = [_name(text, sorted(options.items())) for options in several]
    return [file.with_name(f"{OF_TEXT}{name}") for name in names]


def _name(*about: Any) -> str:
    """What tells one program from others of all processes."""
    whole = _surroundings(), _settings(), *about
    return hashlib.sha256(repr(whole).encode()).hexdigest()


def load(file: pathlib.Path) -> Stored | None:
    """What is in a file; None if there is none, or nothing that can be used."""
    with contextlib.suppress(Exception):  # then it is compiled
        content = file.read_bytes()
        digest, rest = content[:_DIGEST], content[_DIGEST:]
        if hashlib.sha256(rest).digest() == digest:
            well, *parts = pickle.loads(rest)
            read = serialize_executable.deserialize_and_load
            here = {"execution_devices": jax.local_devices()[:1]}
            return Stored(read(*parts, **here), well)
    return None


def keep(file: pathlib.Path, program: jax.stages.Compiled, well: bool) -> None:
    """Write a program, for those who come after."""
    with draft_of(file) as draft:
        rest = pickle.dumps((well, *serialize_executable.serialize(program)))
        draft.write_bytes(hashlib.sha256(rest).digest() + rest)


def share(known: pathlib.Path, file: pathlib.Path) -> None:
    """Give what is in one file another name, too."""
    with draft_of(file) as draft:
        try:
            os.link(known, draft)
        except OSError:  # not every file system can
            shutil.copyfile(known, draft)


@contextlib.contextmanager
def draft_of(file: pathlib.Path) -> Iterator[pathlib.Path]:
    """A file that takes the place of `file` when it is whole.

    Where anything fails, the next process compiles the program.
    """
    draft = file.with_name(f"{file.name}.{os.getpid()}")
    with contextlib.suppress(Exception):
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
    return pathlib.Path(given) if os.path.isdir(given) else None


@cache
def _surroundings() -> str:
    """What is the same for as long as the process lives."""
    versions = [package.__version__ for package in (jax, jaxlib, optax)]
    machine = processor(), os.cpu_count(), os.environ.get("XLA_FLAGS")
    return repr((versions, sys.version, machine))


def _settings() -> str:
    """JAX's, as they are now."""
    values = [
        (name, repr(value))
        for name, value in getattr(jax.config, "values", {}).items()
        if not any(word in name for word in _CACHES)
    ]
    now = [getattr(jax.config, name) for name in _OF_CONTEXTS]
    return repr((sorted(values), now))


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
