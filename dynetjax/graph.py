"""The computation graph: nodes as they are made.

Nothing here computes. The nodes themselves are in C++ (`core.Nodes`); what has been
made before is made again there, without Python (`core.Function`). Here nodes are
checked as they are added, so a mistake's traceback ends at the user's own line; values
come from an `Engine` that the facade hands in.
"""

import sys
import threading
from collections.abc import Callable
from operator import is_not
from typing import TYPE_CHECKING, Any, Protocol

from dynetjax.core.dims import Shape
from dynetjax.core.errors import error_text
from dynetjax.core.expression import Expression, engine, stale
from dynetjax.core.nodes import (
    ROWS,
    ZEROS,
    batch_mismatch,
    checked_signature,
    line_of_user,
    signature_of_rows,
)
from dynetjax.core.registry import Op, Signature, are_many
from dynetjax.core.reprs import counted
from dynetjax.core.tables import forget_all
from dynetjax.native import core

_noting_lines = False

if TYPE_CHECKING:
    from dynetjax.engine.native.core import Nodes
else:
    Nodes = core.Nodes


class ComputationGraph(Nodes):
    """Nodes in order of creation; operands always come before results.

    Attributes:
        version: how many times this thread's graph was renewed before.
        live: it was not renewed yet.
        sessions: what builders note of this graph, by builder.
        marks: how many nodes there were at each checkpoint.
        reseeded: how many there were each time that random numbers began again.
        lines: where the user made each node, by number; None if that is not noted.
        devices: names of those on which certain nodes are to lie, by number.
        is_known_large: that it has become very large was said.
        counted_by: the counters that have it among the graphs computed.
    """

    counted_by: Any = None

    def __init__(
        self,
        version: int = 0,
        immediate: bool = False,
        check_validity: bool = False,
        old: "ComputationGraph | None" = None,
    ):
        self.version = version
        self.immediate, self.check_validity = immediate, check_validity
        self.lines: dict[int, str] | None = {} if _noting_lines else None
        self.is_known_large = False
        self.sessions: dict[Any, Any] = {}
        self.marks: list[int] = []
        self.reseeded: list[int] = []
        self.devices: dict[int, str] = {}
        self._state: Any = None
        told, alone = immediate or _noting_lines, immediate and not _noting_lines
        self._begin(_known.structures, old, told, alone)

    def __repr__(self) -> str:
        stale = "" if self.live else " (stale)"
        return f"ComputationGraph {self.version}{stale}: {counted(len(self), 'node')}"

    @property
    def state(self) -> Any:
        """The engine's notes on what it has computed; None if it has none."""
        if self._state is None and self.executor is not None:
            self._state = engine().new_state(self)
        return self._state

    @state.setter
    def state(self, state: Any) -> None:
        self._state = state

    def _tables(self) -> Any:
        """What the executor asks for, which has begun without the engine's notes."""
        return self.state.native.tables

    @property
    def nodes(self) -> list[Expression]:
        """The user's nodes."""
        return [self.node(k) for k in range(len(self))]

    def renew(
        self, immediate_compute: object = False, check_validity: object = False
    ) -> "ComputationGraph":
        """The graph that takes this one's place, where it is the thread's."""
        return renew_cg(immediate_compute, check_validity)

    def let_go(self) -> None:
        """Keep nothing that has a node of this graph: no collector would find that."""
        self.invalidate()
        self.sessions = {}

    def add(
        self,
        op: Op,
        operands: tuple[Expression, ...],
        static: tuple[Any, ...] = (),
        data: Any = None,
        batch: int = 1,
    ) -> Expression:
        """Append a node of `op`.

        `batch` is that of the runtime data; operands of one batch element are
        broadcast to the largest batch.

        Raises:
            DimError: the operands do not fit the operation or one another.
        """
        ragged = False
        for x in operands:
            size = x.lanes
            if size > 1 and size != batch:
                if batch != 1:
                    raise batch_mismatch(op, operands, batch)
                batch = size
            if x.signature.kind.ragged:
                ragged = True
        if not self.live:
            raise ValueError(stale("operand"))
        if not (ragged or op.with_care):
            signature = _signature(op, operands, static, batch)
            return self.append(signature, operands, batch, data)
        return self.append(*self._decided(op, operands, static, data, batch))

    def _decided(
        self,
        op: Op,
        operands: tuple[Expression, ...],
        static: tuple[Any, ...],
        data: Any,
        batch: int,
    ) -> tuple[Signature, tuple[Any, ...], int, Any, tuple[int, ...], Any]:
        """The arguments of `append` for a node that may have parts, or ragged axes."""
        parts: tuple[Expression, ...] = operands
        lengths: tuple[int, ...] = ()
        if op.compose is not None:
            parts = op.compose(self, parts)
        if op.is_listed and not all(x.lanes for x in parts):
            parts = self.with_rows(parts)
        call = None
        if op.lengthens is not None and op.lengthens(parts, *static):
            self.unlike()  # it follows from how long other lists are
            call = _side_by_side(self, op, parts, static)
        elif op.padded is None and any(x.signature.kind.ragged for x in parts):
            call = _on_ragged(self, op, parts, static, data)
        if call is not None:
            op, parts, static, data, lengths = call
        batch = max([batch, *[x.lanes for x in parts]])
        signature = _signature(op, parts, static, batch)
        read = None if parts is operands else parts
        return signature, operands, batch, data, lengths, read

    def part(
        self, op: Op, operands: tuple[Expression, ...], static: tuple[Any, ...] = ()
    ) -> Expression:
        """A node that is a part of another, and not one of the user's."""
        batch = max([1, *[x.lanes for x in operands]])
        return self.append(*self._decided(op, operands, static, None, batch), True)

    def part_of_rows(
        self,
        signature: Signature,
        operands: tuple[Expression, ...],
        lengths: tuple[int, ...] = (),
    ) -> Expression:
        """A part whose rows are not those of its operands one by one."""
        batch = max([x.lanes for x in operands])
        return self.append(signature, operands, batch, None, lengths, None, True)

    def with_rows(self, operands: tuple[Expression, ...]) -> tuple[Expression, ...]:
        """The operands; of parameters parts with rows, as what takes their turn has.

        A matrix stays as it is: where it takes turns, there would be a copy each time.
        """
        return tuple(
            [
                x if x.lanes or x.signature.kind.is_wide else self.part(ROWS, (x,))
                for x in operands
            ]
        )

    def rows(self, operands: tuple[Expression, ...]) -> tuple[Expression, ...]:
        """The operands; of parameters, parts that have rows."""
        return tuple([x if x.lanes else self.part(ROWS, (x,)) for x in operands])

    def add_rows(
        self,
        op: Op,
        operands: tuple[Expression, ...],
        shape: Shape,
        data: Any,
        batch: int,
    ) -> Expression:
        """Append a node whose rows are not those of its operands one by one.

        That is what the user gave, what a table holds, or what REDUCE and GATHER
        name. The operands, if any, have `shape` too.
        """
        exact = tuple([_with_true_dims(self, x) for x in operands])
        parts = exact if any(map(is_not, exact, operands)) else None
        signature = signature_of_rows(op, shape)
        return self.append(signature, operands, batch, data, (), parts)

    def zeros(self, shape: Shape, lanes: int) -> Expression:
        """An operand of zeros, which is no node and costs nothing."""
        return self.append(signature_of_rows(ZEROS, shape), (), lanes)

    def _made(self, first: int) -> None:
        """Note lines of nodes from this number on, and compute those that C++ left."""
        for number in range(first, len(self)):
            if self.lines is not None:
                self.lines[number] = line_of_user()
            if self.immediate:
                self._compute_now(self.node(number))

    def _compute_now(self, node: Expression) -> None:
        (rows,) = engine().values(self, [node])
        op = node.signature.op
        if self.check_validity and op.is_bad(rows):
            raise RuntimeError(
                error_text(
                    f"{op.name}: NaN or Inf detected",
                    got=rows,
                    expected="finite numbers, as check_validity asks",
                    fix="look at the operands on this line",
                )
            )

    def invalidate(self) -> None:
        """Forget every value; the next read computes them, with new random draws."""
        state, self._state = self._state, None
        if state is not None:
            state.forget()
        if self.live:
            self.use_executor(None)
            self.arrays.clear()

    def user_number(self, node: Expression) -> int:
        """How many of the user's nodes come before `node`, parameters included."""
        before = self.nodes[: node.index]
        made = sum(not x.signature.op.internal for x in before)
        parameters = {
            id(x.signature)
            for reader in [*before, node]
            for x in reader.operands
            if x.graph is None
        }
        return made + len(parameters)


def _signature(
    op: Op, operands: tuple[Expression, ...], static: tuple[Any, ...], batch: int
) -> Signature:
    """The signature for operands, which are broadcast to the batch size.

    Raises:
        DimError: they do not fit.
    """
    broadcast = 0
    if batch != 1:
        for bit, x in enumerate(operands):
            if x.lanes == 1:
                broadcast |= 1 << bit
    return checked_signature(op, operands, static, broadcast)


def note_lines(on: object) -> None:
    """Note the user's line of every node, in graphs renewed from now on."""
    global _noting_lines
    _noting_lines = bool(on)


def are_lines_noted() -> bool:
    """Whether `note_lines` has them noted."""
    return _noting_lines


def use_lengths(
    on_ragged: Callable[..., Any],
    side_by_side: Callable[..., Any],
    exact: Callable[..., Any],
) -> None:
    """Let these say how to compute with axes that are ragged, or become so."""
    global _on_ragged, _side_by_side, _with_true_dims
    _on_ragged, _side_by_side, _with_true_dims = on_ragged, side_by_side, exact


_on_ragged: Callable[..., Any]
_side_by_side: Callable[..., Any]
_with_true_dims: Callable[..., Any]


class Known(Protocol):
    """What knows the structures of the process; see `dynetjax.engine.ir.structures`."""

    structures: Any


def use_structures(known: Known) -> None:
    """Have graphs begin with what this knows."""
    global _known
    _known = known


_known: Known


class _Owner:
    """What a thread has its graph by."""

    __slots__ = ("graph",)

    def __init__(self, graph: ComputationGraph):
        self.graph = graph
        core.use_graph(graph)

    def __del__(self) -> None:
        """The thread has ended: its graph keeps none of its own nodes any more."""
        if not sys.is_finalizing():
            self.graph.let_go()


_thread = threading.local()


def current_graph() -> ComputationGraph:
    """The graph that operations of this thread add to."""
    owner: _Owner | None = getattr(_thread, "owner", None)
    if owner is None:
        owner = _thread.owner = _Owner(ComputationGraph())
    return owner.graph


core.use_maker(current_graph)


def renew_cg(
    immediate_compute: object = False,
    check_validity: object = False,
    autobatching: object = None,
) -> ComputationGraph:
    """Start a new graph.

    Args:
        immediate_compute: compute every node when it is made.
        check_validity: with `immediate_compute`, raise RuntimeError on NaN or Inf.
        autobatching: accepted as DyNet's; nodes always run together here.
    """
    del autobatching
    old = current_graph()
    old.let_go()
    if are_many():
        forget_all()
    graph = ComputationGraph(
        old.version + 1, bool(immediate_compute), bool(check_validity), old
    )
    _thread.owner.graph = graph
    core.use_graph(graph)
    return graph


def cg_version() -> int:
    """How many times this thread's graph was renewed.

    Examples:
        >>> before = dy.cg_version()
        >>> for sentence in "a b c", "d e":
        ...     graph = dy.renew_cg()
        >>> print(dy.cg_version() - before)
        2
    """
    return current_graph().version
