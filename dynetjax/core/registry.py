"""What an operation is, and what nodes may be computed together.

An `Op` says how one batch element is computed and which of its arguments are
*static* (part of the program) and which are *runtime data* (fed per run). A
`Signature` is an operation with its static arguments and the kinds of its
operands; nodes of one signature run the same code.

A `Kind` is what a consumer must know of an operand: the shape of a value with
one row per batch element (a *batched* operand), or which *weight* it is: a
parameter, or a matrix computed from parameters alone, that has no rows.
"""

import threading
import weakref
from collections.abc import Callable
from functools import partial
from itertools import count
from typing import Any, Final, NamedTuple, Protocol

import numpy as np

from dynetjax.core.dims import MOST_NUMBERS, Dim, DimError, Shape
from dynetjax.core.errors import error_text
from dynetjax.core.tables import Life, Numbered, Shared, forgets

MAP = "map"  # one row per batch element, each from the same element of the operands
INPUT = "input"  # rows given by the user
LOOKUP = "lookup"  # rows of a table
PARAMETER = "parameter"  # a whole parameter: always a weight
REDUCE = "reduce"  # the sum of at most FAN_IN rows, whichever they are
GATHER = "gather"  # rows picked from others, whichever they are
JOIN = "join"  # at most FAN_IN rows side by side, whichever they are
IMPORT = "import"  # rows computed earlier

FAN_IN = 8
MOST_SIGNATURES = 1 << 14  # that are known
OF_EACH = 128  # more for each living parameter
WEIGHT_LEVELS = 4  # how long an expression of parameters may be and stay a weight


class Scaled(NamedTuple):
    """A table stored with a factor: a row is the product of both."""

    array: Any
    factor: Any


class Storage(Protocol):
    """What holds the numbers of a parameter or a table, in the layer above.

    Attributes:
        ident: identifies it in signatures; free again once it is gone.
        is_table: rows of it are looked up, and updated in place.
        values: the JAX array; a table has its rows first.
        stored: what rows of a table are read from: the array, or `Scaled`.
        place: the devices that its rows are spread over; None if it is on one.
        gradient: JAX array of the accumulated dense gradient, or None.
        has_gradient: a backward reached it since the gradient was last cleared.
    """

    ident: int
    is_table: bool
    values: Any
    place: Any
    gradient: Any
    has_gradient: bool

    @property
    def stored(self) -> Any: ...

    @property
    def decays(self) -> bool:
        """Whether this is a table that is stored with a factor."""

    def will_read(self, rows: np.ndarray | None) -> None:
        """Have these rows of a table ready to be read; None stands for all."""

    def host_values(self) -> np.ndarray:
        """All values on the host, not to be written to."""

    def host_rows(self, rows: Any) -> np.ndarray:
        """The values of a row of a table, or of several, on the host."""

    def add_row_gradients(self, rows: np.ndarray, values: Any) -> None:
        """Note gradients for rows of a table; row ids past the end are padding."""


class Op:
    """One operation.

    Attributes:
        name: what DyNet calls it.
        fn: JAX function of one batch element: operands, runtime values, then
            static arguments by keyword.
        dim: ``(name, *dims, *static) -> shape``; raises DimError.
        signatures: by (static arguments, broadcast operands, *kind ids).
        batch_matters: `dim` looks at batch sizes, which are no part of a signature, so
            it is asked for every node.
        lengthens: ``(operands, *static) -> bool``: whether the size of the result is
            the number of operands, and may become ragged.
        padded: of an operation on ragged operands, ``(name, *dims, *static) -> (shape,
            ragged axes)``, dims and shape being padded.
        origin: of such a one, the operation that it stands for; its static arguments
            and runtime data come first.
        static: names of the static arguments.
        runtime: a letter per runtime column: ``i`` an int, ``f`` a float, ``k`` a
            random key drawn per batch element.
        form: MAP and the others above.
        contraction: its operands are always stored, and its result is kept for
            backward (matrix products, convolutions).
        batched: its result has rows even where every operand is a weight.
        internal: it stands for a part of an operation and has no number of its
            own among the user's nodes.
        compose: ``(graph, operands) -> parts``: its function takes parts that are
            nodes made of the operands.
        takes_turns: its operands are a list in which the same things may take turns.
        is_listed: its operands are a list.
        reset: ``(dim, data, value, *operand dims) -> data`` for an operation whose
            runtime data `Expression.set` may change.
        masks: it writes -inf where the user leaves something out.
        pieces: its operands are pieces of a list; those past its end are missing.
        with_care: a node of it may have parts, or ragged axes.
        tells: consumers of its rows differ by the weights of what is part of it, so
            that the gates of two LSTMs have different consumers.
    """

    __slots__ = (
        "batch_matters",
        "batched",
        "compose",
        "contraction",
        "dim",
        "fn",
        "form",
        "internal",
        "is_listed",
        "lengthens",
        "life",
        "masks",
        "name",
        "origin",
        "padded",
        "pieces",
        "reset",
        "runtime",
        "signatures",
        "static",
        "takes_turns",
        "tells",
        "with_care",
    )
    batch_matters: bool
    batched: bool
    compose: Callable[..., Any] | None
    contraction: bool
    dim: Callable[..., Shape] | None
    fn: Callable[..., Any] | None
    form: str
    internal: bool
    is_listed: bool
    lengthens: Callable[..., bool] | None
    masks: bool
    name: str
    origin: "Op | None"
    padded: Callable[..., tuple[Shape, tuple[int, ...]]] | None
    pieces: bool
    reset: Callable[..., Any] | None
    runtime: str
    static: tuple[str, ...]
    tells: bool

    def __init__(
        self,
        name: str,
        fn: Callable[..., Any] | None = None,
        dim: Callable[..., Shape] | None = None,
        *,
        static: tuple[str, ...] = (),
        runtime: str = "",
        form: str = MAP,
        contraction: bool = False,
        internal: bool = False,
        batched: bool = False,
        reset: Callable[..., Any] | None = None,
        batch_matters: bool = False,
        compose: Callable[..., Any] | None = None,
        tells: bool = False,
        masks: bool = False,
        lengthens: Callable[..., bool] | None = None,
        padded: Callable[..., tuple[Shape, tuple[int, ...]]] | None = None,
        origin: "Op | None" = None,
        takes_turns: bool = False,
        is_listed: bool = False,
        pieces: bool = False,
    ):
        self.lengthens, self.padded, self.origin = lengthens, padded, origin
        self.with_care: bool = bool(lengthens or compose or is_listed)
        self.name, self.fn, self.dim = name, fn, dim
        self.static, self.runtime, self.form = static, runtime, form
        self.contraction, self.internal = contraction, internal
        self.batched, self.reset, self.batch_matters = batched, reset, batch_matters
        self.compose, self.tells = compose, tells
        self.masks, self.pieces = masks, pieces
        self.signatures: dict[tuple[Any, ...], Signature] = {}
        self.takes_turns, self.is_listed = takes_turns, is_listed
        self.life: Life = Life(self)
        _lives.add(self.life)
        OPS.setdefault(name, self)

    def __repr__(self) -> str:
        return f"Op({self.name})"

    def forget(self) -> None:
        """Forget what nodes it has had."""
        self.signatures.clear()

    @property
    def given(self) -> str:
        """The letters of the runtime data that a node is given, as keys are not."""
        return self.runtime.replace("k", "")

    def is_bad(self, result: np.ndarray) -> bool:
        """Whether there is a number in it that is neither finite nor meant."""
        bad = ~np.isfinite(result)
        return bool((bad & ~np.isneginf(result) if self.masks else bad).any())

    def bind(self, static: tuple[Any, ...]) -> Callable[..., Any]:
        """The JAX function with its static arguments given."""
        assert self.fn is not None, f"{self.name} has no function"
        return partial(self.fn, **dict(zip(self.static, static, strict=True)))


class Kind:
    """What a consumer knows of an operand; see the module.

    Attributes:
        shape: sizes of one row, or of the weight; `dim` is the same with a batch of 1.
        ragged: the axes whose sizes are room for a length; see `dynetjax.ops.ragged`.
        source: None for rows; the parameter's id, or the id of the signature that
            computes the weight, its `maker`.
        level: operations between the weight and its parameters.
        constant: no gradient flows to it.
    """

    __slots__ = (
        "constant",
        "dim",
        "id",
        "is_parameter",
        "level",
        "life",
        "maker",
        "ragged",
        "shape",
        "source",
    )

    def __init__(
        self,
        shape: Shape,
        source: int | None = None,
        is_parameter: bool = False,
        level: int = 0,
        constant: bool = True,
        ragged: tuple[int, ...] = (),
        maker: "Signature | None" = None,
    ):
        self.shape: Shape = shape
        self.ragged: tuple[int, ...] = ragged
        self.dim: Dim = Dim(shape, 1)
        self.source: int | None = source
        self.is_parameter: bool = is_parameter
        self.level: int = level
        self.constant: bool = constant
        self.maker: Signature | None = maker
        self.life: Life = Life(self)
        self.id: int = KINDS.add(self)

    @property
    def is_wide(self) -> bool:
        """Whether it is more than a column or a row."""
        return sum(n > 1 for n in self.shape) > 1

    @property
    def is_weight(self) -> bool:
        return self.source is not None


class Signature:
    """An operation with all that is static about it.

    Attributes:
        operands: kinds of the operands, in order (empty for REDUCE and GATHER,
            whose operands are rows of the result's own shape).
        broadcast: bit k is set where operand k has one row for all batch elements.
        kind: the kind of the result.
    """

    __slots__ = ("broadcast", "id", "kind", "op", "operands", "static")
    op: Op
    static: tuple[Any, ...]

    def __init__(
        self, op: Op, static: tuple[Any, ...], operands: tuple[Any, ...], broadcast: int
    ):
        self.op, self.static = op, static
        self.operands: tuple[Kind, ...] = operands
        self.broadcast: int = broadcast
        self.kind: Kind
        self.id: int = next(_signature_ids)

    @property
    def shape(self) -> Shape:
        return self.kind.shape


class Made:
    """How many signatures were made since all was forgotten."""

    __slots__ = ("signatures",)

    def __init__(self) -> None:
        self.signatures: int = 0


MADE: Final = Made()
OPS: dict[str, Op] = {}
KINDS: Numbered[Kind] = Numbered()
# The storages that are alive, by their ids.
OWNERS: weakref.WeakValueDictionary[Any, Storage] = weakref.WeakValueDictionary()
DEVICES: dict[int, str] = {}  # of those that are to lie on a certain one, its name
_lives: weakref.WeakSet[Life] = weakref.WeakSet()  # of the operations
_signature_ids = count()
_lock = threading.RLock()


@forgets
def forget_nodes() -> None:
    """Forget what nodes every operation has had."""
    with _lock:
        MADE.signatures = 0
        for life in list(_lives):
            life.of.forget()


def batched_kind(shape: Shape, ragged: tuple[int, ...] = ()) -> Kind:
    """The kind of every value that has rows of `shape`, of which axes are `ragged`."""
    kind: Kind = _batched_kinds[shape, ragged]
    return kind


def _batched_kind(key: tuple[Any, ...]) -> Kind:
    shape, ragged = key
    return Kind(shape, ragged=ragged)


def parameter_kind(ident: int, shape: Shape, constant: bool) -> Kind:
    """The kind of the parameter with this id; without gradient if `constant`."""
    kind: Kind = _parameter_kinds[ident, shape, constant]
    return kind


def _parameter_kind(key: tuple[Any, ...]) -> Kind:
    ident, shape, constant = key
    return Kind(shape, ident, is_parameter=True, constant=constant)


_batched_kinds: Shared[tuple[Any, ...], Kind] = Shared(_batched_kind)
_parameter_kinds: Shared[tuple[Any, ...], Kind] = Shared(_parameter_kind)


def intern(
    op: Op, key: tuple[Any, ...], shape: Shape, *, kind: Kind | None = None
) -> Signature:
    """The signature for `key` = (static, broadcast, *kind ids).

    `shape` is that of the result. The result is a weight if every operand is one and
    nothing about it is runtime data, up to a few operations from the parameters.

    Raises:
        DimError: an operand or the result has more numbers than can be counted.
    """
    static, broadcast, *kinds = key
    operands = tuple(KINDS[k] for k in kinds)
    with _lock:
        known = op.signatures.get(key)
        if known is not None:
            return known
        read = [] if op.form == LOOKUP else [kind.shape for kind in operands]
        for numbers in (*read, shape):
            _check_size(op.name, Dim(numbers))
        signature = Signature(op, static, operands, broadcast)
        signature.kind = kind or _result_kind(signature, shape)
        op.signatures[key] = signature
        MADE.signatures += 1
        return signature


def _check_size(name: str, dim: Dim) -> None:
    if dim.size > MOST_NUMBERS:
        raise DimError(
            error_text(
                f"{name}: too many numbers in one batch element",
                got=dim,
                expected=f"at most {MOST_NUMBERS}",
                fix="compute it in several parts, or as a batch",
            )
        )


def _result_kind(signature: Signature, shape: Shape) -> Kind:
    """A weight for a matrix of parameters alone, or what a builder makes of them."""
    op, operands = signature.op, signature.operands
    level = 1 + max((k.level for k in operands), default=0)
    made_of_weights = bool(operands) and all(k.is_weight for k in operands)
    if (
        op.form == MAP
        and not (op.runtime or op.batched)
        and made_of_weights
        and (op.internal or sum(n > 1 for n in shape) > 1)
        and level <= WEIGHT_LEVELS
    ):
        constant = all(k.constant for k in operands)
        return Kind(
            shape, signature.id, level=level, constant=constant, maker=signature
        )
    return batched_kind(shape)


def are_many() -> bool:
    """Whether there are more signatures than the programs of the process may need."""
    made = MADE.signatures
    return made > MOST_SIGNATURES and made > MOST_SIGNATURES + OF_EACH * len(OWNERS)


def label_of(names: list[str], shape: Shape) -> str:
    """The last of some operations, how many others there are, and the dims of all."""
    others = f"+{len(names) - 1}" if len(names) > 1 else ""
    return f"{names[-1]}{others} {{{','.join(map(str, shape))}}}"
