"""Which graphs a device beside the host computes: those whose program pays.

A program of tier 1 is in one of four states:

    HOST       tier 0 computes its graphs, and the work that they take is added up;
    COMPILING  that was as much as a program takes to be compiled, which threads do;
    DEVICE     it is compiled, and computes the graphs to come;
    STAYS      tier 0 computes them for good: XLA failed, or they go on after a value of
               theirs was read, and a backward begins there.

Parameters and the state of trainers follow the gradients (`Trainer.update`).
"""

from typing import Any

from dynetjax.engine import policy
from dynetjax.engine.device import platform
from dynetjax.engine.ir.fused import FUSED_OPS
from dynetjax.engine.plan.layout import HOST
from dynetjax.engine.runtime import RUNTIME
from dynetjax.engine.stats import note_placed
from dynetjax.engine.xla.run import Run

COMPILING, DEVICE, STAYS = "compiling", "device", "stays"


def work_of(stored: Any) -> int:
    """How many multiply-adds the values of stored nodes take, roughly."""
    return sum([FUSED_OPS[op].work * rows for op, rows in stored.rows_by_op(0)])


def is_for_device(run: Run, work: int, keeping: bool, root: int | None) -> bool:
    """Whether the device computes a run of so much work; if not, tier 0 is to.

    Args:
        run: not run yet.
        work: see `work_of`.
        keeping: whether a backward may follow.
        root: number of the node where one is expected to begin; None if none is.
    """
    binding = run.layout.binding
    binding.work += work
    if binding.state == STAYS or binding.work < policy.REPAID:
        return False
    functions = run.functions(keeping, root)
    if binding.state == HOST:
        _enter(run, COMPILING, f"compiled, after {binding.work:.2g} multiply-adds")
    run.prepare(keeping, root)
    if RUNTIME.deterministic:
        for function in functions:
            function.wait()
    if not all(function.is_ready for function in functions):
        return False
    if any(function.is_new for function in functions):
        _enter(run, STAYS, "stays on the host: XLA could not compile it")
        return False
    if binding.state == COMPILING:
        _enter(run, DEVICE, f"computed by the {platform()} from now on")
    return True


def stay_on_host(run: Run) -> None:
    """Have tier 0 compute all graphs of a program: they go on after they were read."""
    _enter(run, STAYS, "stays on the host: its graphs go on after a value was read")


def _enter(run: Run, state: str, what: str) -> None:
    run.layout.binding.state = state
    note_placed(f"{_name(run)}: {what}")


def _name(run: Run) -> str:
    labels = run.layout.program.code.labels
    return f"{len(labels)} components up to {labels[-1]}"
