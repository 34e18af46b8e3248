"""Byte code that outlives the process, so that the next one need not trace it.

A file has what makes a program, under a digest of all that it follows from: its
structure, this package's source, JAX's version. It is kept where JAX's settings are as
they come. The executor checks every program, whoever wrote its file.
"""

import hashlib
import importlib.util
import json
import os
import pathlib
import sys
from functools import cache
from typing import Any

import numpy as np

from dynetjax.engine.cache_folder import (
    cache_folder,
    digest_of_source,
    draft_of,
    is_made,
    is_wanted,
)
from dynetjax.engine.ir.descriptions import NotDescribedError, described
from dynetjax.engine.native import core
from dynetjax.engine.runtime import RUNTIME

PREFIX = "bytecode-"
SETTINGS: dict[str, bool | str] = {  # of JAX, by which other byte code would come of it
    "jax_disable_jit": False,
    "jax_enable_x64": False,
    "jax_default_prng_impl": "threefry2x32",
    "jax_numpy_dtype_promotion": "standard",
    "jax_threefry_partitionable": True,
}


def file_of(structure: Any) -> pathlib.Path | None:
    """Where the byte code of a structure is kept; None if it is not to be."""
    if not (
        RUNTIME.keeps_byte_code
        and is_plain()
        and (folder := _folder())
        and (stamp := _stamp())
    ):
        return None
    try:
        text = described(_fields(structure))
    except NotDescribedError:
        return None
    return folder / f"{PREFIX}{hashlib.sha256((stamp + text).encode()).hexdigest()}"


def _fields(structure: Any) -> tuple:
    """The fields of a structure, whose operations stay what they are."""
    return tuple([getattr(structure, name) for name in structure.__slots__])


def load(file: pathlib.Path) -> Any:
    """The program that `keep` wrote; None if there is none, or it is damaged."""
    try:
        head, _, rest = file.read_bytes().partition(b"\n")
        arguments, lengths = json.loads(head)
        words = np.frombuffer(rest, np.int32)
        if len(words) != sum(lengths.values()):
            return None
        stops = np.cumsum([0, *lengths.values()])
        pieces = zip(lengths, stops[:-1], stops[1:], strict=True)
        arrays = {name: words[start:stop] for name, start, stop in pieces}
        return core.Program(**arguments, **arrays)
    except (OSError, ValueError, TypeError, AttributeError, OverflowError):
        return None


def keep(file: pathlib.Path, arguments: dict[str, Any]) -> None:
    """Write what makes a program, for those who come after."""
    arrays = {k: x for k, x in arguments.items() if isinstance(x, np.ndarray)}
    plain = {k: x for k, x in arguments.items() if k not in arrays}
    head = json.dumps([plain, {k: len(x.ravel()) for k, x in arrays.items()}])
    words = b"".join(
        [x.astype(np.int32, copy=False).tobytes() for x in arrays.values()]
    )
    with draft_of(file) as draft:
        draft.write_bytes(head.encode() + b"\n" + words)


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
    folder = pathlib.Path(os.environ.get("JAX_COMPILATION_CACHE_DIR") or cache_folder())
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
