"""A step of an LSTM in the parts that DyNet has: gates, cell, output.

H is the size of the output, I that of the input. Gates are stacked in the order i, f,
o, g, and 1 is always added to what the forget gate reads:

    z = Wx x + Wh h + b
    gates = sigmoid(z_i), sigmoid(z_f + 1), sigmoid(z_o), tanh(z_g)
"""

from typing import Any

from dynetjax.core.dims import Dim, DimError
from dynetjax.core.errors import error_text
from dynetjax.core.expression import Expression
from dynetjax.ops.arguments import Number, number_from
from dynetjax.ops.arithmetic import cmult
from dynetjax.ops.flow import nobackprop
from dynetjax.ops.gates import activation, gated_output, lstm_cell
from dynetjax.ops.linear import affine_transform
from dynetjax.ops.noise import noise
from dynetjax.ops.operands import graph_of
from dynetjax.ops.shaping import concatenate

__all__ = [
    "vanilla_lstm_c",
    "vanilla_lstm_gates",
    "vanilla_lstm_gates_concat",
    "vanilla_lstm_gates_dropout",
    "vanilla_lstm_gates_dropout_concat",
    "vanilla_lstm_h",
]


_activate = activation(1.0)


def _require(name: str, argument: str, dim: Dim, *expected: Dim) -> None:
    if dim not in expected:
        raise DimError(
            error_text(
                f"{name}: {argument} does not fit",
                got=dim,
                expected=" or ".join(dict.fromkeys(map(str, expected))),
                fix="x_t {I} and h_tm1 {H} have one batch; Wx {4H,I}, Wh {4H,H}, b {4H}"
                " have none",
            )
        )


def _check(name: str, xs: list[Expression], h, weights, masks) -> None:
    """Raise what does not fit; the input is `xs` one after the other."""
    dims = [x.full_dim for x in xs]
    batch = dims[0].batch
    for dim in dims:
        _require(name, "x_t", dim, Dim(dim.shape[:1], batch))
    width, size = sum(dim.shape[0] for dim in dims), h.full_dim.shape[0]
    _require(name, "h_tm1", h.full_dim, Dim((size,), batch))
    shapes = {"Wx": (4 * size, width), "Wh": (4 * size, size), "b": (4 * size,)}
    for (argument, shape), w in zip(shapes.items(), weights, strict=True):
        _require(name, argument, w.full_dim, Dim(shape))
    names = "dropout_mask_x", "dropout_mask_h"
    for argument, n, mask in zip(names, (width, size), masks, strict=False):
        _require(name, argument, mask.full_dim, Dim((n,)), Dim((n,), batch))


def _gates(
    name: str, xs: list[Expression], h, weights, weightnoise_std, masks=()
) -> Expression:
    """What the four functions of gates share."""
    graph_of(name, *xs, h, *weights, *masks)
    deviation = number_from(name, "weightnoise_std", weightnoise_std, 0)
    _check(name, xs, h, weights, masks)
    x = xs[0] if len(xs) == 1 else concatenate(xs)
    if masks:
        x, h = [cmult(v, nobackprop(m)) for v, m in zip((x, h), masks, strict=True)]
    if deviation:
        weights = [noise(w, deviation) for w in weights]
    Wx, Wh, b = weights
    return _activate(affine_transform([b, Wx, x, Wh, h]))


def _require_list(name: str, x_t: Any) -> None:
    if not isinstance(x_t, list) or not x_t:
        error = DimError if isinstance(x_t, list) else TypeError
        raise error(
            error_text(
                f"{name}: x_t is not a list of expressions",
                got=x_t,
                expected="a list of at least one Expression",
                fix="list(...)",
            )
        )


def vanilla_lstm_gates(
    x_t: Expression,
    h_tm1: Expression,
    Wx: Expression,
    Wh: Expression,
    b: Expression,
    weightnoise_std: Number = 0.0,
) -> Expression:
    """The gates of an LSTM.

        sigmoid(z_i), sigmoid(z_f + 1), sigmoid(z_o), tanh(z_g); z = Wx x + Wh h + b

    Args:
        x_t: the input, ``{I X b}``.
        h_tm1: the output of the step before, ``{H X b}``.
        Wx: ``{4H,I}``.
        Wh: ``{4H,H}``.
        b: ``{4H}``.
        weightnoise_std: standard deviation of normal noise that is added to `Wx`, `Wh`
            and `b`, drawn anew for every node. Run-time.
    Returns:
        ``{4H X b}``: i, f, o, g one after the other.
    Raises:
        DimError: the dims or batches do not fit.
        TypeError: `weightnoise_std` is not a number.
        ValueError: it is negative.
    Source: clab/dynet, ``dynet/nodes-lstm.cc``.
    Examples:
        >>> x, h = dy.inputVector([1, 2]), dy.zeros(1)
        >>> Wx, Wh, b = dy.zeros((4, 2)), dy.zeros((4, 1)), dy.zeros(4)
        >>> print(dy.vanilla_lstm_gates(x, h, Wx, Wh, b).npvalue().round(3))
        [0.5   0.731 0.5   0.   ]
    """
    weights = Wx, Wh, b
    return _gates("vanilla_lstm_gates", [x_t], h_tm1, weights, weightnoise_std)


def vanilla_lstm_gates_concat(
    x_t: list[Expression],
    h_tm1: Expression,
    Wx: Expression,
    Wh: Expression,
    b: Expression,
    weightnoise_std: Number = 0.0,
) -> Expression:
    """`vanilla_lstm_gates` of an input in several parts.

    Args:
        x_t: a list of vectors, which together are the input ``{I X b}``.
        h_tm1: the output of the step before, ``{H X b}``.
        Wx: ``{4H,I}``.
        Wh: ``{4H,H}``.
        b: ``{4H}``.
        weightnoise_std: as for `vanilla_lstm_gates`.
    Returns:
        ``{4H X b}``: i, f, o, g one after the other.
    Raises:
        DimError: the dims or batches do not fit, or the list is empty.
        TypeError: `x_t` is not a list of expressions, or `weightnoise_std` no number.
        ValueError: `weightnoise_std` is negative.
    Source: clab/dynet, ``dynet/nodes-lstm.cc``.
    Examples:
        >>> xs, h = [dy.scalarInput(5), dy.scalarInput(-3)], dy.zeros(1)
        >>> Wx, Wh, b = dy.ones((4, 2)), dy.zeros((4, 1)), dy.zeros(4)
        >>> print(dy.vanilla_lstm_gates_concat(xs, h, Wx, Wh, b).npvalue().round(3))
        [0.881 0.953 0.881 0.964]
    """
    name, weights = "vanilla_lstm_gates_concat", (Wx, Wh, b)
    _require_list(name, x_t)
    return _gates(name, x_t, h_tm1, weights, weightnoise_std)


def vanilla_lstm_gates_dropout(
    x_t: Expression,
    h_tm1: Expression,
    Wx: Expression,
    Wh: Expression,
    b: Expression,
    dropout_mask_x: Expression,
    dropout_mask_h: Expression,
    weightnoise_std: Number = 0.0,
) -> Expression:
    """`vanilla_lstm_gates` of masked vectors.

        z = Wx (x * dropout_mask_x) + Wh (h * dropout_mask_h) + b

    Args:
        x_t: the input, ``{I X b}``.
        h_tm1: the output of the step before, ``{H X b}``.
        Wx: ``{4H,I}``.
        Wh: ``{4H,H}``.
        b: ``{4H}``.
        dropout_mask_x: ``{I}`` or ``{I X b}``; no gradient flows to it.
        dropout_mask_h: ``{H}`` or ``{H X b}``; no gradient flows to it.
        weightnoise_std: as for `vanilla_lstm_gates`.
    Returns:
        ``{4H X b}``: i, f, o, g one after the other.
    Raises:
        DimError: the dims or batches do not fit.
        TypeError: `weightnoise_std` is not a number.
        ValueError: it is negative.
    Source: clab/dynet, ``dynet/nodes-lstm.cc``.
    Examples:
        >>> x, h = dy.inputVector([9, 1]), dy.zeros(1)
        >>> Wx, Wh, b = dy.ones((4, 2)), dy.zeros((4, 1)), dy.zeros(4)
        >>> masks = dy.inputVector([0, 2]), dy.ones(1)
        >>> gates = dy.vanilla_lstm_gates_dropout(x, h, Wx, Wh, b, *masks)
        >>> print(gates.npvalue().round(3))
        [0.881 0.953 0.881 0.964]
    """
    name, weights = "vanilla_lstm_gates_dropout", (Wx, Wh, b)
    masks = dropout_mask_x, dropout_mask_h
    return _gates(name, [x_t], h_tm1, weights, weightnoise_std, masks)


def vanilla_lstm_gates_dropout_concat(
    x_t: list[Expression],
    h_tm1: Expression,
    Wx: Expression,
    Wh: Expression,
    b: Expression,
    dropout_mask_x: Expression,
    dropout_mask_h: Expression,
    weightnoise_std: Number = 0.0,
) -> Expression:
    """`vanilla_lstm_gates_dropout` of an input in several parts.

    Args:
        x_t: a list of vectors, which together are the input ``{I X b}``.
        h_tm1: the output of the step before, ``{H X b}``.
        Wx: ``{4H,I}``.
        Wh: ``{4H,H}``.
        b: ``{4H}``.
        dropout_mask_x: ``{I}`` or ``{I X b}``; no gradient flows to it.
        dropout_mask_h: ``{H}`` or ``{H X b}``; no gradient flows to it.
        weightnoise_std: as for `vanilla_lstm_gates`.
    Returns:
        ``{4H X b}``: i, f, o, g one after the other.
    Raises:
        DimError: the dims or batches do not fit, or the list is empty.
        TypeError: `x_t` is not a list of expressions, or `weightnoise_std` no number.
        ValueError: `weightnoise_std` is negative.
    Source: clab/dynet, ``dynet/nodes-lstm.cc``.
    Examples:
        >>> xs, h = [dy.scalarInput(9), dy.scalarInput(1)], dy.zeros(1)
        >>> Wx, Wh, b = dy.ones((4, 2)), dy.zeros((4, 1)), dy.zeros(4)
        >>> masks = dy.inputVector([0, 2]), dy.ones(1)
        >>> gates = dy.vanilla_lstm_gates_dropout_concat(xs, h, Wx, Wh, b, *masks)
        >>> print(gates.npvalue().round(3))
        [0.881 0.953 0.881 0.964]
    """
    name, weights = "vanilla_lstm_gates_dropout_concat", (Wx, Wh, b)
    masks = dropout_mask_x, dropout_mask_h
    _require_list(name, x_t)
    return _gates(name, x_t, h_tm1, weights, weightnoise_std, masks)


def _check_quarter(name: str, c: Any, gates: Any) -> None:
    graph_of(name, c, gates)
    cell, stacked = c.full_dim, gates.full_dim
    size = cell.shape[0]
    if cell.shape != (size,) or stacked != Dim((4 * size,), cell.batch):
        raise DimError(
            error_text(
                f"{name}: the cell and the gates do not fit",
                got=f"{cell}, {stacked}",
                expected="{H X b} and {4H X b}",
                fix="the cell comes first; bring the batches to one size",
            )
        )


def vanilla_lstm_c(c_tm1: Expression, gates_t: Expression) -> Expression:
    """The cell of an LSTM.

        f * c_tm1 + i * g

    Args:
        c_tm1: the cell of the step before, ``{H X b}``.
        gates_t: i, f, o, g, ``{4H X b}``.
    Returns:
        ``{H X b}``.
    Raises:
        DimError: the dims or batch sizes do not fit.
    Source: clab/dynet, ``dynet/nodes-lstm.cc``.
    Examples:
        >>> c, gates = dy.scalarInput(8), dy.inputVector([0.5, 0.25, 1, 4])
        >>> dy.vanilla_lstm_c(c, gates).value()
        4.0
    """
    _check_quarter("vanilla_lstm_c", c_tm1, gates_t)
    return lstm_cell(gates_t, c_tm1)


def vanilla_lstm_h(c_t: Expression, gates_t: Expression) -> Expression:
    """The output of an LSTM.

        o * tanh(c_t)

    Args:
        c_t: the cell, ``{H X b}``.
        gates_t: i, f, o, g, ``{4H X b}``.
    Returns:
        ``{H X b}``.
    Raises:
        DimError: the dims or batch sizes do not fit.
    Source: clab/dynet, ``dynet/nodes-lstm.cc``.
    Examples:
        >>> c, gates = dy.scalarInput(np.log(2)), dy.inputVector([0, 0, 0.5, 0])
        >>> print(dy.vanilla_lstm_h(c, gates).npvalue().round(3))
        [0.3]
    """
    _check_quarter("vanilla_lstm_h", c_t, gates_t)
    return gated_output(gates_t, c_t)
