"""What this package reads of JAX and XLA beyond what they document.

Each function here is a guess that a later version may make wrong. So each knows when
it cannot tell, and says so; whoever asks then does without, slower and as right.
tests/engine/xla/test_internals.py holds each of them against this version.
"""

from collections.abc import Iterator
from typing import Any

from dynetjax.core.lazy import jax

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
_LOOPS = frozenset(("stablehlo.while", "stablehlo.case", "stablehlo.if"))


def has_loops_in_loops(lowered: "jax.stages.Lowered") -> bool:
    """Whether a loop or branch of a program is within another; True if JAX can't tell.

    What counts is what was lowered: many a primitive is a loop, and a new one may be.
    """
    try:
        functions = {}
        module: Any = lowered.compiler_ir("stablehlo")
        for function in module.body.operations:
            functions[function.attributes["sym_name"].value] = function.operation
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
