"""Ragged axes: sizes that are the length of a sentence, and runtime data.

A matrix of T states would be another program for every T. So an axis along which lists
of ever different lengths are put side by side becomes *ragged*: rows have room for a
round number of columns, a node knows its true lengths, and what is past them is zero.
What users see has the true lengths only.

Most operations compute the same on padded rows, as zeros add nothing to a product or a
sum. Others take the lengths as runtime data: they see harmless numbers in the padding,
and zeros are put there in the result. What has no such rule is computed on *exact*
dims, as if the axis were an ordinary one; `dynetjax.stats()` names it.
"""

from collections import Counter
from functools import cache
from math import inf
from operator import is_not
from typing import Any, NamedTuple

from dynetjax.core.dims import Dim, DimError, Shape, pad
from dynetjax.core.expression import Expression
from dynetjax.core.lazy import jnp, lax
from dynetjax.core.nodes import checked_signature, given_data
from dynetjax.core.registry import FAN_IN, JOIN, Op, Signature, batched_kind, intern
from dynetjax.core.tables import forgets, remembers
from dynetjax.graph import ComputationGraph, use_lengths

APART = 1_009  # sizes that stand for lengths
EXACT_LENGTHS = 2  # that a list has shown, before its axis is ragged; long ones need
# one less, for hardly any program has two long lists of fixed sizes in one place
PATIENCE = 256  # lists that all need less room, before there is less

ZERO, MASK, FILL, MEAN = "zero", "mask", "fill", "mean"

# How each operation treats padding. ZERO: zeros in it give zeros, or change nothing.
# MASK: each number of the result depends on numbers in its own place, or in a window
# that is inside. FILL: along an axis, padding has to be the least number, or the
# largest. MEAN: only real ones count.
# fmt: off
_PLAIN = (
    "abs", "asin", "asinh", "atan", "block_dropout", "cmult", "cube", "dot_product",
    "dropout", "dropout_batch", "erf", "flip_gradient", "fold_rows", "l1_distance",
    "matmul", "negate", "nobackprop", "pick", "rectify", "scale", "scale_gradient",
    "silu", "sin", "sinh", "softsign", "square", "squared_distance", "squared_norm",
    "sum_elems", "sum_over", "tan", "tanh", "to_device", "trace_of_product",
    "transpose",
)
_MASKED = (
    "acos", "acosh", "add", "affine_transform", "atanh", "bmax", "bmin", "cdiv",
    "colwise_add", "concatenate", "cos", "cosh", "cumsum", "elu", "emax", "exp",
    "lgamma", "log", "log_sigmoid", "logistic", "noise", "pow", "selu", "shift", "sqrt",
    "subtract", "subtract_from",
)
# fmt: on
_WINDOWS = ("conv2d", "conv2d_bias", "filter1d_narrow", "kmh_ngram")
_LEAST = (
    "hinge",
    "kmax_pooling",
    "log_softmax",
    "logsumexp_dim",
    "max_dim",
    "pickneglogsoftmax",
    "softmax",
    "sparsemax",
)
TREATMENT: dict[str, tuple[str, float]] = {
    **dict.fromkeys(_PLAIN, (ZERO, 0.0)),
    **dict.fromkeys(_MASKED, (MASK, 1.0)),
    **dict.fromkeys(_WINDOWS, (MASK, 0.0)),
    "maxpooling2d": (MASK, -inf),
    **dict.fromkeys(_LEAST, (FILL, -inf)),
    "min_dim": (FILL, inf),
    "mean_elems": (MEAN, 0.0),
}

exact_uses: Counter[str] = Counter()  # operations computed on exact dims, how often


class Call(NamedTuple):
    """An operation on padded operands, and the true lengths of its result."""

    op: Op
    operands: tuple[Expression, ...]
    static: tuple[Any, ...]
    data: Any
    lengths: tuple[int, ...]


def rounded(length: int) -> int:
    """The least room for this length."""
    size = FAN_IN
    while size < length:
        size *= 2
    return size


def exact(graph: ComputationGraph, x: Expression, use: str = "rows") -> Expression:
    """`x` with its true dims, for a use that has no rule for ragged ones."""
    if not x.signature.kind.ragged:
        return x
    exact_uses[use] += 1
    return graph.part(EXACT_OP, (x,), (x.full_dim.shape,))


def _cut(x, shape: Shape):
    return x[tuple(slice(n) for n in shape)]


def _given(name: str, x: Dim, shape: Shape) -> tuple[Shape, tuple[int, ...]]:
    del name, x
    return shape, ()


EXACT_OP = Op("exact", _cut, static=("shape",), internal=True, padded=_given)


def _in_one_room(
    graph: ComputationGraph, operands: tuple[Expression, ...]
) -> tuple[Expression, ...]:
    """The operands, with the largest room wherever lengths are the same.

    Lists of other rows that are as long may have another room; see `RoomChoice`. What
    has ordinary axes alone, as an input has, gets ragged ones where they are as long.
    """
    rooms: dict[int, int] = {}
    for x in operands:
        for axis, length in _axes(x):
            rooms[length] = max(rooms.get(length, 0), x.signature.kind.shape[axis])
    wide = tuple([_widened(graph, x, rooms) for x in operands])
    return wide if any(map(is_not, wide, operands)) else operands


def _widened(
    graph: ComputationGraph, x: Expression, rooms: dict[int, int]
) -> Expression:
    true, ragged, can_be = _sizes(x)
    axes = ragged
    if can_be:
        axes = tuple([axis for axis, n in enumerate(true.shape) if n in rooms])
    shape = list(true.shape)
    for axis in axes:
        shape[axis] = rooms[shape[axis]]
    if tuple(shape) == x.signature.kind.shape:
        return x
    signature = checked_signature(WIDENED_OP, (x,), (tuple(shape), axes), 0)
    lengths = tuple([true.shape[axis] for axis in axes])
    return graph.part_of_rows(signature, (x,), lengths)


def _axes(x: Expression) -> list[tuple[int, int]]:
    """The ragged axes and their lengths."""
    ragged = x.signature.kind.ragged
    return list(zip(ragged, x.lengths, strict=True)) if ragged else []


def _widen(x, shape: Shape, axes: tuple[int, ...]):
    del axes
    return jnp.pad(x, [(0, n - m) for n, m in zip(shape, x.shape, strict=True)])


WIDENED_OP = Op(
    "widened",
    _widen,
    static=("shape", "axes"),
    internal=True,
    padded=lambda name, x, shape, axes: (shape, axes),
)


def call(
    graph: ComputationGraph,
    op: Op,
    operands: tuple[Expression, ...],
    static: tuple[Any, ...],
    data: Any,
) -> Call:
    """How to compute an operation of which an operand is ragged.

    Raises:
        DimError: the true dims do not fit.
    """
    result = _result(op, tuple([_sizes(x) for x in operands]), static)
    if result is None:
        plain = tuple([exact(graph, x, op.name) for x in operands])
        return Call(op, plain, static, data, ())
    outside, lengths, shared = result
    if shared:
        operands = _in_one_room(graph, operands)
    treatment, filling = TREATMENT[op.name]
    inside = tuple([x.signature.kind.ragged for x in operands])
    known: list[int] = []
    if treatment != ZERO:
        for x in operands:
            if x.signature.kind.ragged:
                known += x.lengths
        known += lengths
    variant = _variant(op, treatment, filling, len(operands), len(known))
    data = (*given_data(op, data), *known)
    return Call(variant, operands, (*static, inside, outside), data, lengths)


class _Sizes(NamedTuple):
    """Of an operand the true dim, which axes are ragged, and whether others can be.

    They cannot where some are: another axis that is as long is so for good mostly.
    """

    dim: Dim
    ragged: tuple[int, ...]
    can_be: bool


def _sizes(x: Expression) -> _Sizes:
    ragged = x.signature.kind.ragged
    return _Sizes(x.full_dim, ragged, not ragged and x.lanes > 0)


@remembers
def _result(
    op: Op, operands: tuple[_Sizes, ...], static: tuple[Any, ...]
) -> tuple[tuple[int, ...], tuple[int, ...], bool] | None:
    """The ragged axes of the result, their lengths, and whether operands share some.

    They are found by dims with sizes that nothing else has: of each ragged axis first,
    and where those do not fit, of each length. None if they are no axes of the
    operands, nor axes of which windows take a little, or the operation has no rule.

    Raises:
        DimError: the true dims do not fit.
    """
    assert op.dim is not None
    true = op.dim(op.name, *[x.dim for x in operands], *static)
    if op.name not in TREATMENT:
        return None
    every = {x.dim.shape[axis] for x in operands for axis in x.ragged}
    for apart in (True, False):
        sizes: dict[int, int] = {}
        dims = []
        for k, (dim, ragged, can_be) in enumerate(operands):
            shape = list(dim.shape)
            alike = [axis for axis, n in enumerate(shape) if n in every]
            for axis in alike if can_be and not apart else ragged:
                mark = 8 * k + axis if apart else shape[axis]
                size = 1_000_003 + APART * mark
                sizes[size] = shape[axis]
                shape[axis] = size
            dims.append(Dim(tuple(shape), dim.batch))
        try:
            result = op.dim(op.name, *dims, *static)
        except (DimError, ValueError):
            continue
        lengths = [_length(n, sizes) for n in result]
        if tuple([a or b for a, b in zip(lengths, result, strict=True)]) != true:
            return None
        axes = tuple(axis for axis, known in enumerate(lengths) if known)
        return axes, tuple(true[axis] for axis in axes), not apart
    return None


def _length(size: int, sizes: dict[int, int]) -> int:
    """The length of an axis with one of these sizes, or a little less; 0 if none."""
    for mark, length in sizes.items():
        if 0 <= mark - size < APART:
            return length - (mark - size)
    return 0


@cache
def _variant(op: Op, treatment: str, filling: float, operands: int, known: int) -> Op:
    """The operation with lengths as further runtime data, and axes as static."""
    of_one, dim_of = op.fn, op.dim
    assert of_one is not None
    assert dim_of is not None
    own = len(op.given)

    def fn(*values, inside, outside, **static):
        xs, given = values[:operands], values[operands : operands + own]
        lengths = iter(values[operands + own : operands + own + known])
        key = values[operands + own + known :]
        if treatment == ZERO:
            return of_one(*xs, *given, *key, **static)
        bounds = [[(axis, next(lengths)) for axis in axes] for axes in inside]
        if treatment == MEAN:
            return _mean(xs[0], bounds[0])
        if treatment == FILL:
            along = static.get("d", 0)
            bounds = [[b for b in of_x if b[0] == along] for of_x in bounds]
        if filling:  # padding is 0 already
            pairs = zip(xs, bounds, strict=True)
            xs = tuple([_where(of_x, x, filling) for x, of_x in pairs])
        result = of_one(*xs, *given, *key, **static)
        return _where([(axis, next(lengths)) for axis in outside], result, 0.0)

    def padded(name: str, *dims_and_static):
        *arguments, _, outside = dims_and_static
        return dim_of(name, *arguments), outside

    return Op(
        f"{op.name} (ragged)",
        fn,
        static=(*op.static, "inside", "outside"),
        runtime=op.given + "i" * known + "k" * ("k" in op.runtime),
        contraction=op.contraction,
        batched=True,
        tells=op.tells,
        padded=padded,
        origin=op,
    )


def _where(bounds: list[tuple[int, Any]], x, other: float):
    """`x` as far as the bounds of its axes go, and another number past them."""
    real = None
    for axis, length in bounds:
        inside = lax.broadcasted_iota(jnp.int32, x.shape, axis) < length
        real = inside if real is None else real & inside
    return x if real is None else jnp.where(real, x, other)


def _mean(x, bounds):
    count = 1
    for axis, n in enumerate(x.shape):
        count = count * dict(bounds).get(axis, n)
    return (jnp.sum(x) / count).reshape(1)


class RoomChoice:
    """Settles on the room of a ragged axis: of lists of one kind of rows.

    Attributes:
        seen: the first lengths.
        room: of the axis, once it is ragged.
        longest, lists: of those since the room was last looked at.
    """

    d: int
    lists: int
    longest: int
    op: Op
    room: int

    def __init__(self, op: Op, d: int) -> None:
        self.op, self.d = op, d
        self.seen: set[int] = set()
        self.room = self.longest = self.lists = 0

    def take(self, length: int) -> int:
        """The room for a list; 0 while few lengths were seen.

        All lists have the same room: for each that occurs in a loop, every trip of it
        would take longer. It grows with the longest, and shrinks after many shorter
        ones.
        """
        self.longest = max(self.longest, length)
        if not self.room:
            self.seen.add(length)
            if len(self.seen) <= EXACT_LENGTHS - (min(self.seen) > FAN_IN):
                return 0
        self.lists += 1
        needed = rounded(self.longest)
        if needed > self.room:
            self._change(needed)
        elif self.lists >= PATIENCE:
            if needed < self.room:
                self._change(needed)
            self.longest = self.lists = 0
        return self.room

    def _change(self, room: int) -> None:
        self.room, self.seen = room, set()


_choices: dict[tuple[Any, ...], RoomChoice] = {}
forgets(_choices.clear)


def side_by_side(
    graph: ComputationGraph,
    op: Op,
    operands: tuple[Expression, ...],
    static: tuple[Any, ...],
) -> Call | None:
    """How to put rows of one shape side by side along a ragged axis.

    None while few lengths of such lists were seen.
    """
    (d,) = static
    first = operands[0].signature
    shape, of = first.kind.shape, first.op
    choice = _choices.setdefault((op, d, shape, of), RoomChoice(op, d))
    size = choice.take(len(operands))
    if not size:
        return None
    piece = _piece(shape, d)
    batch = max([x.lanes for x in operands])
    operands = graph.rows(operands)
    pieces = [
        graph.part_of_rows(piece, operands[k : k + FAN_IN])
        for k in range(0, len(operands), FAN_IN)
    ]
    while len(pieces) < size // FAN_IN:
        pieces.append(graph.zeros(piece.kind.shape, batch))
    return Call(_joined(op), tuple(pieces), (d,), None, (len(operands),))


@cache
def _joined(op: Op) -> Op:
    """Puts pieces of FAN_IN rows side by side."""

    def padded(name: str, *dims_and_axis):
        assert op.dim is not None
        return op.dim(name, *dims_and_axis), dims_and_axis[-1:]

    return Op(
        f"{op.name} (ragged)",
        op.fn,
        static=op.static,
        padded=padded,
        origin=op,
        pieces=True,
    )


def _piece(shape: Shape, d: int) -> Signature:
    """The signature of FAN_IN rows of `shape` side by side along axis `d`."""
    column = pad(shape, d + 1)
    whole = (*column[:d], FAN_IN, *column[d + 1 :])
    return intern(JOIN_OP, ((shape, d), 0), whole, kind=batched_kind(whole))


JOIN_OP = Op("columns", form=JOIN, static=("shape", "d"), internal=True)

use_lengths(call, side_by_side, exact)
