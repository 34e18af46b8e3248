"""Byte code that outlives the process, so that the next one need not trace it.

The name of a file is a digest of all that its byte code follows from: the structure,
this package's source, JAX's version. A digest of its name and content is in it, so that
a damaged file, or another one under its name, is not read but written again. Besides,
the executor checks every program, whoever wrote its file. Files are kept where the
settings of JAX are as they come.
"""

import hashlib
import importlib.util
import json
import os
import pathlib
import sys
from collections.abc import Callable
from functools import cache
from typing import Any

import numpy as np

from dynetjax.engine.cache_folder import (
    cache_folder,
    digest_of_source,
    draft_of,
    folder_in,
    is_made,
    is_wanted,
)
from dynetjax.engine.ir.descriptions import NotDescribedError, described
from dynetjax.engine.runtime import RUNTIME
from dynetjax.native import core

PREFIX = "bytecode-"
SETTINGS: dict[str, bool | str] = {  # of JAX, by which other byte code would come of it
    "jax_disable_jit": False,
    "jax_enable_x64": False,
    "jax_default_prng_impl": "threefry2x32",
    "jax_numpy_dtype_promotion": "standard",
    "jax_threefry_partitionable": True,
}


def file_of(about: Any) -> pathlib.Path | None:
    """Where the byte code of a structure or a rule is kept; None if it is not to be."""
    if not (
        RUNTIME.keeps_byte_code
        and is_plain()
        and (folder := _folder())
        and (stamp := _stamp())
    ):
        return None
    try:
        text = described(about)
    except NotDescribedError:
        return None
    return folder / f"{PREFIX}{hashlib.sha256((stamp + text).encode()).hexdigest()}"


def load(file: pathlib.Path, interface: dict[str, Any]) -> Any:
    """The program of which `keep` wrote the code; None if there is none, or damage.

    `interface` are its other arguments.
    """
    try:
        head, _, content = file.read_bytes().partition(b"\n")
        numbers, lengths, digest = json.loads(head)
        if digest != _digest(file, numbers, lengths, content):
            return None
        words = np.frombuffer(content, np.int32)
        stops = np.cumsum([0, *lengths.values()])
        if stops[-1] != len(words):
            return None
        pieces = zip(lengths, stops[:-1], stops[1:], strict=True)
        arrays = {name: words[start:stop] for name, start, stop in pieces}
        return core.Program(**interface, **numbers, **arrays)
    except (OSError, ValueError, TypeError, AttributeError):
        return None
    except (OverflowError, RecursionError):  # of numbers, and of lists in lists
        return None


def program(
    file: pathlib.Path | None,
    interface: dict[str, Any],
    make: Callable[[], dict[str, Any]],
) -> Any:
    """The program whose code a file has; if it has none, `make` gives what is kept."""
    known = None if file is None else load(file, interface)
    if known is not None:
        return known
    code = make()
    if file is not None:
        keep(file, code)
    return core.Program(**interface, **code)


def keep(file: pathlib.Path, code: dict[str, Any]) -> None:
    """Write the code of a program, for those who come after."""
    arrays = {k: x for k, x in code.items() if isinstance(x, np.ndarray)}
    numbers = {k: x for k, x in code.items() if k not in arrays}
    lengths = {k: x.size for k, x in arrays.items()}
    content = b"".join(
        [x.astype(np.int32, copy=False).tobytes() for x in arrays.values()]
    )
    write(file, numbers, lengths, content)


def write(
    file: pathlib.Path, numbers: dict[str, int], lengths: dict[str, int], content: bytes
) -> None:
    """Write a file that `load` takes for whole."""
    digest = _digest(file, numbers, lengths, content)
    head = json.dumps([numbers, lengths, digest]).encode()
    with draft_of(file) as draft:
        draft.write_bytes(head + b"\n" + content)


def _digest(
    file: pathlib.Path, numbers: dict[str, int], lengths: dict[str, int], content: bytes
) -> str:
    """Of a file's name, and of all that is in it."""
    told = json.dumps([file.name, numbers, lengths]).encode()
    return hashlib.sha256(told + content).hexdigest()


def is_plain() -> bool:
    """Whether JAX's settings are as they come."""
    if any(name.upper() in os.environ for name in SETTINGS):
        return False
    jax = sys.modules.get("jax")
    if jax is None or not hasattr(jax, "config"):
        return True
    return all(getattr(jax.config, k, None) == x for k, x in SETTINGS.items())


@cache
def _folder() -> pathlib.Path | None:
    """A folder of the user's own, if he wants one."""
    if not is_wanted():
        return None
    folder = pathlib.Path(folder_in("JAX_COMPILATION_CACHE_DIR") or cache_folder())
    return folder if is_made(folder) else None


@cache
def _stamp() -> str:
    """What is the same for all byte code; empty if that cannot be told."""
    spec = importlib.util.find_spec("jax")
    try:
        assert spec is not None
        assert spec.origin is not None
        version = pathlib.Path(spec.origin).with_name("version.py").read_text("utf-8")
    except (OSError, AssertionError):
        return ""
    return repr((version, sys.version_info[:2], digest_of_source()))
