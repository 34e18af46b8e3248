"""Layouts: a section of a graph, laid out for a compiled program."""

import math
from dataclasses import dataclass
from typing import Any

import numpy as np

from dynetjax.core.dims import Shape
from dynetjax.core.registry import IMPORT, INPUT, LOOKUP
from dynetjax.engine.ir.fused import FUSED_OPS
from dynetjax.engine.ir.structures import KNOWN
from dynetjax.engine.plan.capacities import LEAST, LEAST_OF_LOOP, Row, Sizes
from dynetjax.engine.plan.causes import variants_of
from dynetjax.engine.plan.facts import Addresses, ints, offsets
from dynetjax.engine.plan.family import Family
from dynetjax.engine.plan.flat import flat_graph
from dynetjax.engine.plan.program import Program, program, written
from dynetjax.engine.plan.widths import LARGE, width_choices
from dynetjax.engine.plan.wiring import Column, Wiring, wire
from dynetjax.engine.runtime import RUNTIME
from dynetjax.engine.stats import Done

CHEAPER = 8  # residuals than rows of pools
HOST = "host"  # see `engine.placement`


@dataclass(slots=True)
class Binding:
    """A program, and what its names stand for in one family.

    Attributes:
        data: columns of runtime data, with their addresses in an index buffer.
        sizes: that it was made for.
        state: who computes its graphs, where a device may: see `engine.placement`.
        work: multiply-adds of its graphs so far, where that matters.
    """

    program: Program
    wiring: Wiring
    addresses: Addresses
    data: list[tuple[Column, int]]
    sizes: Sizes
    state: str = HOST
    work: int = 0


@dataclass(slots=True)
class Layout:
    """A section of a graph, and everything decided about it.

    Attributes:
        flat: a `FlatGraph`: its nodes, with their lanes and rows.
        trips: of each component.
        indices: the index buffer, without runtime data.
        differentiable: ops whose results depend on a parameter.
        direct: ops that aligned leaves read, whose gradients do not all lie in pools.
    """

    family: Family
    flat: Any
    binding: Binding
    trips: list[int]
    indices: np.ndarray
    differentiable: set[int]
    direct: set[int]

    @property
    def program(self) -> Program:
        return self.binding.program

    def op(self, fused: int) -> int:
        """The family's op that a fused op is."""
        return self.family.op(fused)

    def pool(self, fused: int) -> int:
        """The pool that has the rows of a fused op's nodes."""
        return self.binding.wiring.pool_of[self.op(fused)]

    def has_gradients(self, op: int) -> bool:
        """Whether all of an op's gradients are in its pool; next time they are."""
        if op not in self.direct:
            return True
        with RUNTIME.lock:
            self.family.part_from(op)
        return False

    def work(self) -> list[Done]:
        """Of each component that runs, what `note_work` is told of a run."""
        rows, work = self.flat.rows(len(self.family.ops)), []
        for k, ops in enumerate(self.family.components):
            if self.trips[k]:
                room = self.trips[k] * self.program.widths[k] * len(ops)
                done = sum(rows[op] for op in ops)
                label = self.program.code.labels[k]
                work.append((label, self.trips[k], done, room, 0.0))
        return work


def make_layout(
    stored: Any, start: int, asked: list[int], full: bool = False
) -> Layout | None:
    """Lay out stored nodes from `start` on for a program that asks for some.

    With `full`, gradients are to flow to constants, too. None if other nodes are to be
    stored, too: all is to be stored anew, if it can be.
    """
    flat = flat_graph(stored, start)
    roots = frozenset([stored.fused(number) for number in asked])
    with RUNTIME.lock:
        _drop_outdated()
        families = RUNTIME.families.setdefault((roots, start > 0), [])
        family = _family_for(families, flat.fused)
        try:
            family.observe(flat)
            return None if _hoist(family) else _lay_out(family, flat, full, roots)
        except BaseException:
            families.remove(family)  # its facts may be half taken in
            raise


def _family_for(families: list[Family], fused: list[int]) -> Family:
    """The family with an op of this graph that has weights; else another.

    Graphs of another model have none in common: one program for both would be wasted.
    """
    weighted = [number for number in fused if FUSED_OPS[number].weighted]
    for place, family in enumerate(families):
        if not weighted or any(map(family.knows, weighted)):
            families[place] = family.renewed(fused)
            return families[place]
    families.append(Family())
    return families[-1]


def _drop_outdated() -> None:
    """Forget families with ops that no graph has any more."""
    outdated = KNOWN.structures.take_outdated()
    if not outdated:
        return
    inner = {number for number, whole in outdated if not whole}
    whole = {number for number, whole in outdated if whole}
    for families in RUNTIME.families.values():
        families[:] = [f for f in families if not f.is_outdated(inner, whole)]


def _hoist(family: Family) -> bool:
    """Store contractions, parts of others in a loop, that need nothing from the loop.

    They become components of their own, and run once for all trips. True if any was
    found.
    """
    if family.hoisted == family.version:
        return False
    family.hoisted = family.version
    component, hoisted = family.component, False
    for op, fused in enumerate(family.ops):
        if not family.cyclic[component[op]]:
            continue
        for step in fused.steps[:-1]:
            if step.signature.op.contraction and not any(
                component[source] == component[op]
                for role, leaf in step.operands
                if role == "leaf"
                for source in family.sources(op, leaf)
            ):
                hoisted = KNOWN.structures.store(step.structure) or hoisted
    return hoisted


def _lay_out(family: Family, flat: Any, full: bool, roots: frozenset[int]) -> Layout:
    levels = flat.levels(family.facts)
    choices = width_choices(family)
    widths = [
        choice.width_for(lanes) for choice, lanes in zip(choices, levels, strict=True)
    ]
    trips = flat.place(family.facts, widths)
    apart = flat.unaligned(family.facts)
    if apart:
        family.part(apart)
    wiring = _wiring(family, full, roots)
    used: Sizes = {}
    bases = [0] * len(family.ops)
    for k, ops in enumerate(family.components):
        size = trips[k] * widths[k]
        if size:
            used[ops[0]] = size
            for op in ops:
                shape = family.ops[op].shape
                bases[op] = used.get(shape, 1)
                used[shape] = bases[op] + size
    sizes = family.capacities.settle(used, _rows_of(family, wiring))
    binding = _bind(family, wiring, full, widths, sizes)
    made = binding.program
    indices = np.zeros(made.size, np.int32)
    for k, ops in enumerate(family.components):
        if trips[k]:
            head = [trips[k], *[bases[op] for op in ops]]
            indices[made.starts[k] : made.starts[k] + len(head)] = head
    flat.write(binding.addresses, bases, indices)
    direct = {*family.aligned.values()}
    return Layout(family, flat, binding, trips, indices, family.differentiable, direct)


def _wiring(family: Family, full: bool, roots: frozenset[int]) -> Wiring:
    wiring = family.bindings.get(full)
    if wiring is None:
        wiring = family.bindings[full] = wire(family, full)
        asked = [FUSED_OPS[number].steps[-1].signature.op for number in roots]
        variants_of(asked).watch(wiring.code)
    return wiring


def _rows_of(family: Family, wiring: Wiring) -> dict[int | Shape, Row]:
    """What a row of each pool takes, and of a component's lanes, by its first op.

    Residuals lie in buffers that are used again, and cost little but memory.
    """
    if not family.rows:
        cyclic, code = family.cyclic, wiring.code
        looped = {
            op.shape
            for op, k in zip(family.ops, family.component, strict=True)
            if cyclic[k]
        }
        for shape in code.pools:
            least = LEAST_OF_LOOP if shape in looped else LEAST
            family.rows[shape] = Row(4 * math.prod(shape), least)
        for k, ops in enumerate(family.components):
            fused = [family.ops[op] for op in ops]
            steps = [step.signature for op in fused for step in op.steps]
            residuals = [math.prod(s.shape) for s in steps if s.op.contraction]
            given = [
                math.prod(op.shape) for op in fused if _is_given(op.form, op.shape)
            ]
            each = max(code.columns[k], max(residuals, default=0) // CHEAPER, *given, 1)
            least = LEAST_OF_LOOP if cyclic[k] else LEAST
            family.rows[ops[0]] = Row(4 * each, least)
    return family.rows


def _is_given(form: str, shape: Shape) -> bool:
    """Whether all lanes of an op are one array, outside of the pools.

    Those that come from the host are, and the gradients of rows of a table.
    """
    return form in (INPUT, IMPORT) or (form == LOOKUP and math.prod(shape) > LARGE)


def _bind(
    family: Family, wiring: Wiring, full: bool, widths: list[int], sizes: Sizes
) -> Binding:
    """The program of a family at some widths and sizes."""
    key = full, *widths, id(sizes)  # no others have their id while they are here
    binding = family.bindings.get(key)
    if binding is None:
        binding = family.bindings[key] = _bound(family, wiring, widths, sizes)
    return binding


def _bound(family: Family, wiring: Wiring, widths: list[int], sizes: Sizes) -> Binding:
    code = wiring.code
    rows = tuple([sizes[shape] for shape in code.pools])
    fitting, lanes = [], []
    for body, ops, width in zip(
        code.components, family.components, widths, strict=True
    ):
        most = min([rows[pool] for pool in written(body)])
        fitting.append(min(width, most))  # one without nodes may have settled on more
        lanes.append(max(min(sizes[ops[0]], most), fitting[-1]))
    made = program(code, tuple(fitting), tuple(lanes), rows)
    component = family.component
    data = [(c, made.address(component[c.op], c.number)) for c in wiring.data]
    return Binding(made, wiring, _addresses(family, made), data, sizes)


def _addresses(family: Family, made: Program) -> Addresses:
    valid = [0] * len(family.ops)
    leaves: list[list[int]] = [[] for _ in family.ops]
    for k, ops in enumerate(family.components):
        for op, body_op in zip(ops, made.code.components[k], strict=True):
            valid[op] = made.address(k, body_op.valid)
            leaves[op] = [
                -1 if read.column is None else made.address(k, read.column)
                for read in body_op.reads
            ]
    columns = [column for reads in leaves for column in reads]
    return Addresses(ints(valid), offsets(leaves), ints(columns))
