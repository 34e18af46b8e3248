"""What this package reads of JAX and XLA beyond what they document.

Each function here is a guess that a later version may make wrong. So each knows when
it cannot tell, and says so; whoever asks then does without, slower and as right.
tests/engine/test_internals.py holds each of them against this version.
"""

import threading
from collections.abc import Iterator
from typing import Any

from dynetjax.lazy import jax, serialize_executable

OPTIONS: dict[
    str, dict[str, Any]
] = {  # of XLA, by what they are for; those that it does not know are left out
    "gpu": {"xla_gpu_enable_triton_gemm": False},  # nor tried, in many shapes
    "one graph": {
        "xla_gpu_enable_command_buffer": "FUSION,CUBLAS,CUBLASLT,CUDNN,CUSTOM_CALL,"
        "DYNAMIC_SLICE_FUSION,CONDITIONAL,WHILE",
        "xla_gpu_graph_min_graph_size": 1,
    },
}
COMPILING = "/jax/core/compile/"  # events with a duration begin so
COMPILED = f"{COMPILING}backend_compile_duration"  # what JAX's cache had, included
HIT = "/jax/compilation_cache/cache_hits"
MISS = "/jax/compilation_cache/cache_misses"
_LOOPS = frozenset(("stablehlo.while", "stablehlo.case", "stablehlo.if"))


class UnknownError(Exception):
    """This version of JAX does not tell what was asked."""


class Misses(threading.local):
    """How many programs of this thread JAX's cache did not have, by JAX's own count.

    A program that JAX has read cannot be written again: functions are missing in it
    when it runs. So one is only written if this count went up while it was compiled. A
    JAX that counts otherwise never says so, and nothing is written.
    """

    count = 0


misses = Misses()


def settings(but_for: tuple[str, ...]) -> list[tuple[str, str]]:
    """JAX's settings and their values, `but_for` those with such words in their names.

    Raises:
        UnknownError: JAX does not tell all of them.
    """
    found = getattr(jax.config, "values", None)
    if not isinstance(found, dict) or "jax_enable_x64" not in found:
        raise UnknownError("jax.config.values")
    names = sorted(name for name in found if not any(word in name for word in but_for))
    return [(name, repr(found[name])) for name in names]


def written(program: "jax.stages.Compiled") -> tuple[Any, ...]:
    """A compiled function as things that can be pickled.

    Raises:
        UnknownError: this one cannot be written.
    """
    try:
        return serialize_executable.serialize(program)
    except (AttributeError, NotImplementedError, TypeError, ValueError) as error:
        raise UnknownError("serialize_executable.serialize") from error


def read(parts: tuple[Any, ...]) -> Any:
    """The function that was `written`, for this process's first device.

    Raises:
        UnknownError: it cannot be read here.
    """
    load: Any = serialize_executable.deserialize_and_load
    try:
        return load(*parts, execution_devices=jax.local_devices()[:1])
    except (AttributeError, KeyError, TypeError, ValueError, RuntimeError) as error:
        raise UnknownError("serialize_executable.deserialize_and_load") from error


def has_loops_in_loops(lowered: "jax.stages.Lowered") -> bool:
    """Whether a loop or branch of a program is within another; True if JAX can't tell.

    What counts is what was lowered: many a primitive is a loop, and a new one may be.
    """
    try:
        functions = {}
        module: Any = lowered.compiler_ir("stablehlo")
        for found in module.body.operations:
            functions[found.attributes["sym_name"].value] = found.operation
        return _goes_deep(functions["main"], functions, within=False)
    except (AttributeError, KeyError, TypeError, ValueError):
        return True


def _goes_deep(operation: Any, functions: dict[str, Any], within: bool) -> bool:
    for inner in _inside(operation):
        loops = inner.name in _LOOPS
        if loops and within:
            return True
        if inner.name == "func.call":
            inner = functions[inner.attributes["callee"].value]
        if _goes_deep(inner, functions, within or loops):
            return True
    return False


def _inside(operation: Any) -> Iterator[Any]:
    for region in operation.regions:
        for block in region.blocks:
            for inner in block.operations:
                yield inner.operation
