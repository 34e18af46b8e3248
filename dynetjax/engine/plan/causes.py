"""Why programs are made, and a warning where that does not end."""

import warnings
from collections import defaultdict
from collections.abc import Iterable
from typing import Any

from dynetjax.core.errors import CompilationWarning, error_text
from dynetjax.core.registry import Op
from dynetjax.engine.plan.code import BodyOp, BodyStep, Code
from dynetjax.engine.plan.program import Program
from dynetjax.engine.runtime import RUNTIME
from dynetjax.engine.stats import note_program

MOST_VARIANTS = 32  # of one operation in one program, before that is called endless


def note_made(direction: str, program: Program) -> None:
    """Note that a program is made in one direction, and what is new about it."""
    code = program.code
    known = RUNTIME.made.setdefault(code, [])
    labelled = zip(code.components, code.labels, strict=True)
    fresh = [label for body, label in labelled if body not in RUNTIME.components]
    sizes = program.lanes, program.rows
    same_size = [d for d, w, s in known if (w, s) == (program.widths, sizes)]
    if fresh:
        why = f"new operations or dims: {'; '.join(fresh)}"
    elif not known:
        why = "components that were not together before"
    elif program.widths not in [w for _, w, _ in known]:
        why = f"trips of {', '.join(map(str, sorted({*program.widths})))} lanes"
    elif not same_size:
        why = f"room for {max(program.rows)} rows"
    elif direction not in same_size:
        why = f"the first {direction} of this size"
    else:
        why = "backward is to follow, or begins elsewhere"
    RUNTIME.components.update(code.components)
    known.append((direction, program.widths, sizes))
    note_program(f"{direction} of {len(code.components)} components: {why}")


class Variants:
    """The variants of each operation that were met in one of the user's programs."""

    def __init__(self) -> None:
        self._variants: dict[tuple[Op, int], list[tuple[Any, ...]]] = defaultdict(list)
        self._warned = False

    def watch(self, code: Code) -> None:
        """Take in a program; warn, once, if there is no end of them."""
        for body in () if self._warned else code.components:
            for op in body:
                for step in op.steps:
                    self._watch(op, step)

    def _watch(self, op: BodyOp, step: BodyStep) -> None:
        variants = self._variants[step.op, len(step.operands)]
        variant = _variant(op, step)
        if variant in variants or self._warned:
            return
        variants.append(variant)
        if len(variants) >= MOST_VARIANTS:
            self._warned = True
            _warn(step.op, variants)
            self._variants.clear()


def variants_of(roots: Iterable[Op]) -> Variants:
    """The variants met in programs that ask for results of these operations."""
    variants: Variants = RUNTIME.variants.setdefault(frozenset(roots), Variants())
    return variants


def _variant(op: BodyOp, step: BodyStep) -> tuple[Any, ...]:
    """Static arguments, then the shapes of the operands."""
    shapes = {
        "weight": lambda n: op.weights[n].shape,
        "step": lambda n: op.steps[n].shape,
        "leaf": lambda n: op.reads[n].shape,
    }
    return (*step.static, *[shapes[role](n) for role, n in step.operands])


def _warn(op: Op, variants: list[tuple[Any, ...]]) -> None:
    """Say which attribute of an operation varies most."""
    names = [*op.static]
    names += [
        f"the dims of operand {k + 1}" for k in range(len(variants[0]) - len(names))
    ]
    values = [
        list(dict.fromkeys(variant[k] for variant in variants))
        for k in range(len(names))
    ]
    most = max(range(len(names)), key=lambda k: len(values[k]))
    examples = ", ".join(map(str, values[most][:4]))
    warnings.warn(
        error_text(
            f"{op.name}: a program keeps compiling",
            got=f"{len(values[most])} values of {names[most]}: {examples}, ...",
            expected="few: each is compiled anew",
            fix="pad to a few sizes, or compute row by row: how many is no matter",
        ),
        CompilationWarning,
        stacklevel=2,
    )
