"""The computation graph: flat lists that grow, and Expression, a handle on a node.

Nothing here computes. Nodes are checked as they are added, so a mistake's
traceback ends at the user's own line; values come from an `Engine` that the
facade hands in with `use_engine`.
"""

import itertools
import threading
from typing import TYPE_CHECKING, Any, Protocol

import numpy as np

from dynetjax.dims import Dim, DimError, Shape
from dynetjax.errors import explain
from dynetjax.ops.registry import (
    KINDS,
    PARAMETER,
    SIGNATURES,
    Kind,
    Op,
    intern,
    lane_kind,
)


class Storage(Protocol):
    """What holds the numbers of a parameter or a table, in the layer above.

    Attributes:
        ident: identifies it in signatures; free again once it is gone.
        is_table: rows of it are looked up, and updated in place.
        values: the JAX array; a table has its rows first.
        gradient: JAX array of the accumulated dense gradient, or None.
        has_gradient: a backward reached it since the gradient was last cleared.
    """

    ident: int
    is_table: bool
    values: Any
    gradient: Any
    has_gradient: bool

    def add_row_gradients(self, rows: np.ndarray, values: Any) -> None:
        """Note gradients for rows of a table; row ids past the end are padding."""


class Engine(Protocol):
    """What computes a graph."""

    def values(self, graph: "ComputationGraph", nodes: list[int]) -> list[np.ndarray]:
        """Rows ``[batch, *shape]`` of each node."""

    def backward(self, graph: "ComputationGraph", node: int, full: bool) -> None:
        """Add the gradients of a node of one number to the parameters."""

    def gradient(self, graph: "ComputationGraph", node: int) -> np.ndarray:
        """Rows of the node's gradient in the last backward."""


_stamps = itertools.count()
_engine: Engine | None = None


def use_engine(engine: Engine) -> None:
    """Let `engine` compute every graph of the process."""
    global _engine
    _engine = engine


def engine() -> Engine:
    """The engine in use."""
    assert _engine is not None, "the facade hands in the engine on import"
    return _engine


class ComputationGraph:
    """Nodes in order of creation; operands always come before results.

    Attributes:
        stamp: changes with every renewal and is never used twice in a process, so
            that an expression knows whether it belongs here.
        sig, kind, batch: per node, the ids of its signature and of its kind, and its
            batch size.
        operands, first: node k reads ``operands[first[k]:first[k + 1]]``.
        data: runtime data of the nodes that have any.
        storage: parameters and tables in use, by id.
        state: the engine's notes on what it has computed.
    """

    def __init__(self) -> None:
        self.version = 0
        self.immediate = self.check_validity = False
        self._clear()

    def _clear(self) -> None:
        self.stamp = next(_stamps)
        self.sig: list[int] = []
        self.kind: list[int] = []
        self.batch: list[int] = []
        self.operands: list[int] = []
        self.first: list[int] = [0]
        self.data: dict[int, Any] = {}
        self.storage: dict[int, Storage] = {}
        self.parameter_nodes: dict[int, int] = {}
        self.state: Any = None

    def __len__(self) -> int:
        return len(self.sig)

    def renew(self, immediate_compute: bool = False, check_validity: bool = False):
        """Drop every node. Expressions made before are stale from now on."""
        self._clear()
        self.version += 1
        self.immediate = bool(immediate_compute)
        self.check_validity = bool(check_validity)
        return self

    def dim(self, node: int) -> Dim:
        return Dim(KINDS[self.kind[node]].shape, self.batch[node])

    def add(
        self,
        op: Op,
        operands: tuple[int, ...],
        static: tuple = (),
        data: Any = None,
        batch: int = 1,
    ) -> int:
        """Append a node of `op`, and return its number.

        `batch` is that of the runtime data; operands of one batch element are
        stretched to the largest batch.

        Raises:
            DimError: the operands do not fit the operation or one another.
        """
        kinds, batches = self.kind, self.batch
        for node in operands:
            size = batches[node]
            if size != 1 and size != batch:
                if batch != 1:
                    raise self._batch_mismatch(op, operands, batch)
                batch = size
        stretched = 0
        if batch != 1:
            for bit, node in enumerate(operands):
                if batches[node] == 1 and KINDS[kinds[node]].source is None:
                    stretched |= 1 << bit
        key = (static, stretched, *[kinds[node] for node in operands])
        sig = op.signatures.get(key)
        if sig is None or op.batch_matters:
            dims = [self.dim(node) for node in operands]
            assert op.dim is not None
            shape = op.dim(op.name, *dims, *static)
            sig = intern(op, key, shape) if sig is None else sig
        return self._append(sig, operands, data, batch)

    def add_unary(self, op: Op, x: int) -> int:
        """`add` for one operand and nothing else: the same, and quicker."""
        kind = self.kind[x]
        known = op.unary.get(kind)
        if known is None or self.immediate:
            node = self.add(op, (x,))
            op.unary[kind] = self.sig[node], self.kind[node]
            return node
        return self.append_known(known, (x,), self.batch[x])

    def add_binary(self, op: Op, x: int, y: int) -> int:
        """`add` for two operands and nothing else: the same, and quicker."""
        kinds, batches = self.kind, self.batch
        batch = batches[x]
        key = kinds[x], kinds[y], batch == batches[y]
        known = op.binary.get(key)
        if known is None or self.immediate or op.batch_matters:
            node = self.add(op, (x, y))
            if key[2] or self._one_is_uniform(x, y):
                op.binary[key] = self.sig[node], self.kind[node]
            return node
        other = batches[y]
        return self.append_known(known, (x, y), other if other > batch else batch)

    def _one_is_uniform(self, x: int, y: int) -> bool:
        """Then the batch is that of the other, and nothing is stretched."""
        return KINDS[self.kind[x]].uniform or KINDS[self.kind[y]].uniform

    def append_known(
        self, known: tuple[int, int], operands: tuple[int, ...], batch: int
    ) -> int:
        """Append a node whose signature and kind are known, with nothing checked."""
        sigs = self.sig
        node = len(sigs)
        sigs.append(known[0])
        self.kind.append(known[1])
        self.batch.append(batch)
        flat = self.operands
        flat += operands
        self.first.append(len(flat))
        return node

    def add_rows(
        self, op: Op, operands: tuple[int, ...], shape: Shape, data: Any, batch: int
    ) -> int:
        """Append a node whose rows are not those of its operands one by one.

        That is what the user gave, what a table holds, or what REDUCE and GATHER
        name. The operands, if any, have `shape` too.
        """
        key = (shape, 0)
        sig = op.signatures.get(key)
        if sig is None:
            sig = intern(op, key, shape, kind=lane_kind(shape))
        return self._append(sig, operands, data, batch)

    def add_source(
        self, op: Op, storage: Storage, kind: Kind, result: Kind, data, batch
    ):
        """Append a node that reads a parameter or a table, `kind`, as `result`."""
        self.storage[storage.ident] = storage
        key = ((), 0, kind.id)
        sig = op.signatures.get(key)
        if sig is None:
            sig = intern(op, key, result.shape, kind=result)
        return self._append(sig, (), data, batch)

    def parameter(self, op: Op, storage: Storage, kind: Kind) -> int:
        """The node of a parameter, made at its first use in this graph."""
        node = self.parameter_nodes.get(kind.id)
        if node is None:
            assert op.form == PARAMETER
            node = self.add_source(op, storage, kind, kind, None, 1)
            self.parameter_nodes[kind.id] = node
        return node

    def _append(
        self, sig: int, operands: tuple[int, ...], data: Any, batch: int
    ) -> int:
        node = len(self.sig)
        self.sig.append(sig)
        self.kind.append(SIGNATURES[sig].kind.id)
        self.batch.append(batch)
        self.operands.extend(operands)
        self.first.append(len(self.operands))
        if data is not None:
            self.data[node] = data
        if self.immediate:
            self._compute_now(node)
        return node

    def _compute_now(self, node: int) -> None:
        (rows,) = engine().values(self, [node])
        if self.check_validity and not np.isfinite(rows).all():
            raise RuntimeError(
                explain(
                    f"{SIGNATURES[self.sig[node]].op.name}: NaN or Inf detected",
                    got=rows,
                    expected="finite numbers, as check_validity asks",
                    fix="look at the operands on this line",
                )
            )

    def _batch_mismatch(self, op: Op, operands, batch: int) -> DimError:
        dims = ", ".join(str(self.dim(node)) for node in operands)
        return DimError(
            explain(
                f"{op.name}: the operands have different batch sizes",
                got=dims + (f", and a batch of {batch}" if batch != 1 else ""),
                expected="one batch size, or 1",
                fix="bring the batches to one size",
            )
        )

    def invalidate(self) -> None:
        """Forget every value; the next read computes them, with new random draws."""
        self.state = None

    def user_number(self, node: int) -> int:
        """How many of the user's nodes come before `node`."""
        return sum(not SIGNATURES[s].op.internal for s in self.sig[:node])


class _Thread(threading.local):
    def __init__(self) -> None:
        self.graph = ComputationGraph()


_thread = _Thread()


def current_graph() -> ComputationGraph:
    """The graph that operations of this thread add to."""
    return _thread.graph


def renew_cg(
    immediate_compute: bool = False,
    check_validity: bool = False,
    autobatching: bool | None = None,
) -> ComputationGraph:
    """Start a new graph.

    Args:
        immediate_compute: compute every node when it is made.
        check_validity: with `immediate_compute`, raise RuntimeError on NaN or Inf.
        autobatching: accepted as DyNet's; nodes always run together here.
    """
    del autobatching
    return _thread.graph.renew(immediate_compute, check_validity)


def cg_version() -> int:
    """How many times this thread's graph was renewed."""
    return _thread.graph.version


def to_numpy(rows: np.ndarray) -> np.ndarray:
    """``[batch, *shape]`` in float32 as DyNet shows it: float64, the batch last."""
    array = rows[0] if len(rows) == 1 else np.moveaxis(rows, 0, -1)
    return np.array(array, dtype=np.float64, order="F")


class Expression:
    """A node of a graph. Two numbers: cheap to make, and it knows when it is stale."""

    __slots__ = ("index", "stamp")

    def __init__(self, index: int, stamp: int):
        self.index = index
        self.stamp = stamp

    def enter(self, graph: ComputationGraph) -> int:
        """The node's number in `graph`, where this is about to be an operand.

        Raises:
            ValueError: the expression belongs to a graph that was renewed.
        """
        if self.stamp != graph.stamp:
            raise ValueError(stale("operand"))
        return self.index

    def locate(self) -> tuple[ComputationGraph, int]:
        """The graph and the node's number, where this is about to be read.

        Raises:
            RuntimeError: the expression belongs to a graph that was renewed.
        """
        graph = _thread.graph
        if self.stamp != graph.stamp:
            raise RuntimeError(stale("read"))
        return graph, self.index

    def __repr__(self) -> str:
        graph = _thread.graph
        if self.stamp != graph.stamp:
            return "expression (stale)"
        return f"expression {graph.user_number(self.index)}/{graph.version}"

    def dim(self) -> tuple[Shape, int]:
        """``((d0, d1, ...), batch size)``."""
        graph, node = self.locate()
        dim = graph.dim(node)
        return dim.shape, dim.batch

    def _rows(self, recalculate: bool) -> np.ndarray:
        graph, node = self.locate()
        if recalculate:
            graph.invalidate()
        return engine().values(graph, [node])[0]

    def npvalue(self, recalculate: bool = False) -> np.ndarray:
        """float64 array of the dims, with the batch as last axis if there is one.

        With `recalculate`, the graph is computed anew, with new random draws.
        """
        return to_numpy(self._rows(recalculate))

    def vec_value(self, recalculate: bool = False) -> list[float]:
        """Every number, first index fastest, batch elements one after the other."""
        return self.npvalue(recalculate).ravel(order="F").tolist()

    def value(self, recalculate: bool = False) -> float | list[float] | np.ndarray:
        """A float for one number, a flat list for vectors, else an array."""
        array = self.npvalue(recalculate)
        if len(self.dim()[0]) > 1:
            return array
        flat = array.ravel(order="F").tolist()
        return flat[0] if len(flat) == 1 else flat

    def scalar_value(self, recalculate: bool = False) -> float:
        """The number of an expression that has one.

        Raises:
            RuntimeError: it has more than one.
        """
        rows = self._rows(recalculate)
        if rows.size != 1:
            raise RuntimeError(
                explain(
                    "scalar_value: the expression has more than one number",
                    got=Dim(*self.dim()),
                    expected="{1}",
                    fix="use value() or npvalue()",
                )
            )
        return float(rows.reshape(()))

    def forward(self, recalculate: bool = False) -> None:
        """Compute the expression, and all made so far."""
        self._rows(recalculate)

    def backward(self, full: bool = False) -> None:
        """Add the gradient of this number to every parameter it was made from.

        With `full`, `gradient()` of constants is computed too.

        Raises:
            ValueError: the expression, batch included, is not one number.
        """
        graph, node = self.locate()
        dim = graph.dim(node)
        if dim.size * dim.batch != 1:
            raise ValueError(
                explain(
                    "backward: the expression is not one number",
                    got=dim,
                    expected="{1}",
                    fix="sum first, with sum_elems or sum_batches",
                )
            )
        engine().backward(graph, node, full)

    def gradient(self) -> np.ndarray:
        """Gradient of the last `backward` at this node, shaped as `npvalue`.

        Raises:
            RuntimeError: no backward was run, or the node is newer than its root.
        """
        graph, node = self.locate()
        return to_numpy(engine().gradient(graph, node))

    def set(self, value: Any) -> None:
        """Give an input or a lookup another value; the graph is computed anew.

        Raises:
            ValueError: the operation has no such value, or its length differs.
        """
        graph = _thread.graph
        node = self.enter(graph)
        op = SIGNATURES[graph.sig[node]].op
        if op.reset is None:
            raise ValueError(
                explain(
                    f"{op.name}: set() has nothing to set",
                    got=op.name,
                    expected="an input vector or scalar, or a lookup",
                    fix="for inputTensor, pass reusable_expr=True",
                )
            )
        first = graph.first[node : node + 2]
        dims = [graph.dim(k) for k in graph.operands[slice(*first)]]
        graph.data[node] = op.reset(graph.dim(node), graph.data[node], value, *dims)
        graph.invalidate()

    set_index = set

    def __len__(self) -> int:
        raise TypeError("an Expression has no len(); see dim()")

    def __bool__(self) -> bool:
        return True

    if TYPE_CHECKING:  # attached by dynetjax.ops.operators

        def __add__(self, other: Any) -> "Expression": ...
        def __radd__(self, other: Any) -> "Expression": ...
        def __sub__(self, other: Any) -> "Expression": ...
        def __rsub__(self, other: Any) -> "Expression": ...
        def __mul__(self, other: Any) -> "Expression": ...
        def __rmul__(self, other: Any) -> "Expression": ...
        def __truediv__(self, other: Any) -> "Expression": ...
        def __neg__(self) -> "Expression": ...
        def __getitem__(self, key: Any) -> "Expression": ...


def stale(use: str) -> str:
    """The message for an expression of an earlier graph."""
    return explain(
        "the expression is stale",
        got=f"{use} of an expression made before renew_cg()",
        expected="an expression of the current graph",
        fix="build it again after renew_cg()",
    )


def forward(exprs: list[Expression], recalculate: bool = False) -> None:
    """Compute a list of expressions.

    Raises:
        TypeError: `exprs` is not a list.
        IndexError: it is empty.
    """
    if not isinstance(exprs, list):
        raise TypeError(f"forward: expected a list, got {type(exprs).__name__}")
    if not exprs:
        raise IndexError("forward: the list of expressions is empty")
    if recalculate:
        current_graph().invalidate()
    npvalues(exprs)


def npvalues(exprs: list[Expression], recalculate: bool = False) -> list[np.ndarray]:
    """`npvalue()` of each, computed together."""
    graph = current_graph()
    if recalculate:
        graph.invalidate()
    nodes = [e.locate()[1] for e in exprs]
    return [to_numpy(rows) for rows in engine().values(graph, nodes)]


def values(exprs: list[Expression], recalculate: bool = False) -> list:
    """`value()` of each, computed together."""
    npvalues(exprs, recalculate)
    return [e.value() for e in exprs]
