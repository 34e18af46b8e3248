"""Settings of the process: `init`, and flags on the command line."""

import atexit
import os
import sys
from collections.abc import Callable
from typing import Any

from dynetjax.core.errors import error_text
from dynetjax.core.lazy import is_jax_imported, jax
from dynetjax.core.precision import PRECISION, PRECISIONS
from dynetjax.core.registry import OWNERS
from dynetjax.core.tables import forget_all
from dynetjax.engine import policy
from dynetjax.engine.device import platform
from dynetjax.engine.runtime import RUNTIME
from dynetjax.engine.stats import stats, time_operations, timing
from dynetjax.graph import note_lines
from dynetjax.trainers.base import set_async_checks
from dynetjax.trainers.debugging import WATCH

_GPU_FLAG = "--xla_gpu_deterministic_ops=true"


def init(
    shared_parameters: Any = None,
    *,
    deterministic: bool | None = None,
    async_checks: bool | None = None,
    debug: bool | None = None,
    profiling: int | None = None,
    tier: str | None = None,
    precision: str | None = None,
) -> None:
    """Change settings; what is not given stays as it is.

    Args:
        shared_parameters: accepted as DyNet's, without effect.
        deterministic: bitwise the same numbers for the same program and seed on the
            same machine. On a CPU they are in any case. On a GPU this must come before
            the first use of JAX, and costs speed: programs are waited for, too.
        async_checks: with False, every ``update()`` waits for the device and raises
            for its own gradients. With True, the default, that comes out when a value
            is next read, unless the executor in C++ makes the update: it waits for
            nothing.
        debug: note the user's line that makes each node, for `explain`, and warn of
            an ``update()`` of parameters without a gradient, and of two ``backward()``
            without an ``update()`` between them. Building is slower.
        profiling: from 1 on, print `stats` at exit; with 2, tier 0 measures
            how long each fused operation takes, what is done when is recorded for
            `timeline`, and that is printed at exit, too.
        tier: what computes. Tier 0 interprets a graph on the host at once, where it has
            byte code for all of it; with "xla", XLA compiles programs for every graph.
            With "auto", the default, tier 0 computes everything where there is no
            device but the host; beside another one, what is small, and what is large
            until its programs are compiled (`stats` tells which were). XLA then makes
            the updates of what it has differentiated; with "native" tier 0 does.
        precision: of products of matrices on a device beside the host. "highest", the
            default, is float32; with "tensorfloat32" or "bfloat16" operands are
            rounded to these, for tensor cores, and sums, values and gradients stay
            float32. The host computes in float32 in any case.
    Raises:
        RuntimeError: `deterministic` comes too late.
        ValueError: there is no such tier or precision.
    Examples:
        >>> dy.init(debug=True)
        >>> graph = dy.renew_cg()
        >>> def bad_loss(x):
        ...     return dy.log(x - x)
        >>> found = dy.find_nonfinite(bad_loss(dy.scalarInput(1)))
        >>> print(found.operation, found.line.split()[-1])
        log (bad_loss)
        >>> dy.init(debug=False)
    """
    del shared_parameters
    if deterministic:
        _make_deterministic()
    if deterministic is not None:
        RUNTIME.deterministic = deterministic
    if async_checks is not None:
        set_async_checks(async_checks)
    if debug is not None:
        note_lines(debug)
        (WATCH.begin if debug else WATCH.end)()
    if profiling is not None:
        _profile(profiling)
    if tier is not None:
        _choose_tier(tier)
    if precision is not None:
        _choose_precision(precision)


def _choose_precision(precision: str) -> None:
    if precision not in PRECISIONS:
        raise ValueError(
            error_text(
                "init: there is no such precision",
                got=precision,
                expected=", ".join(PRECISIONS),
                fix='leave it out: "highest" is float32, everywhere',
            )
        )
    if precision != PRECISION.name:
        PRECISION.choose(precision, platform())
        forget_all()  # what was traced with another one


def _choose_tier(tier: str) -> None:
    if tier not in policy.TIERS:
        raise ValueError(
            error_text(
                "init: there is no such tier",
                got=tier,
                expected=", ".join(policy.TIERS),
                fix='leave it out: "auto" decides by the size of a graph',
            )
        )
    RUNTIME.tier = tier


def _make_deterministic() -> None:
    flags = os.environ.get("XLA_FLAGS", "")
    if _GPU_FLAG in flags:
        return
    in_use = is_jax_imported() and bool(OWNERS or stats().graphs)
    if in_use and jax.default_backend() != "cpu":
        raise RuntimeError(
            error_text(
                "init: deterministic comes too late",
                got="JAX is in use already",
                expected="init() before the first parameter",
                fix=f"call it first, or set XLA_FLAGS={_GPU_FLAG}",
            )
        )
    os.environ["XLA_FLAGS"] = f"{flags} {_GPU_FLAG}".strip()


def _profile(level: int) -> None:
    time_operations(level >= 2)
    atexit.unregister(_print_stats)
    if level >= 1:
        atexit.register(_print_stats)


def _print_stats() -> None:
    print(stats(), file=sys.stderr)
    if timing():
        print(_timeline(), file=sys.stderr)


def use_timeline(timeline: Callable[[], Any]) -> None:
    """Let `timeline` say what the last graph did, where that was recorded."""
    global _timeline
    _timeline = timeline


_timeline: Callable[[], Any] = str  # which is ""
