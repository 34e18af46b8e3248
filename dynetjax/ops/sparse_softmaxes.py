"""Softmaxes that are exactly 0, or exactly at a bound, in places.

Which places these are is found by a loop that gradients do not go through. Given the
places, the values are simple formulas, whose own derivatives are the right ones.
"""

from collections.abc import Callable
from typing import Any

from dynetjax.core.dims import Dim, DimError, Shape, is_vector_like
from dynetjax.core.errors import error_text
from dynetjax.core.expression import Expression
from dynetjax.core.lazy import jax, jnp, lax
from dynetjax.core.registry import Op
from dynetjax.ops.arguments import Ints, indices_below
from dynetjax.ops.declare import op, plain
from dynetjax.ops.inputs import weighted
from dynetjax.ops.operands import graph_of
from dynetjax.ops.softmaxes import MASK_OP

__all__ = ["constrained_softmax", "sparsemax", "sparsemax_loss"]


def _grown(more: Callable[..., Any], size: int):
    """The places to which ``more(places)`` adds nothing, from none on."""

    def step(state):
        places, _ = state
        larger = places | more(places)
        return larger, jnp.any(larger != places)

    nowhere = jnp.zeros(size, bool)
    return lax.while_loop(lambda state: state[1], step, (nowhere, jnp.array(True)))[0]


def _less_top(x):
    """`x` as a vector that ends at 0, where scores of any size are exact enough."""
    x = x.reshape(-1)
    return x - lax.stop_gradient(jnp.max(x))


def _mean_excess(x, dropped):
    """The number that leaves 1 if taken from all that are not `dropped`."""
    kept = jnp.where(dropped, 0, x)
    return (jnp.sum(kept) - 1) / jnp.sum(~dropped)


def _threshold(x):
    """The number tau for which ``sum_j max(x_j - tau, 0)`` is 1."""
    fixed = lax.stop_gradient(x)
    dropped = _grown(lambda places: fixed <= _mean_excess(fixed, places), len(x))
    return _mean_excess(x, dropped)


def _vector(name: str, x: Dim, *others: Dim) -> Shape:
    del others
    if not is_vector_like(x.shape):
        raise DimError(
            error_text(
                f"{name}: x is not a vector",
                got=x,
                expected="{n} or {n X b}",
                fix="reshape x to a vector",
            )
        )
    return x.shape


@op(inputs="x", dim=_vector)
def sparsemax(x):
    """The nearest probabilities, of which many are 0 (arxiv.org/abs/1602.02068).

        max(x_i - tau, 0), with tau such that they sum to 1

    Args:
        x: scores, ``{n X b}``.
    Returns:
        The dims of `x`. Where it is 0 there is no gradient; elsewhere the gradient is
        the incoming one less its mean.
    Raises:
        DimError: `x` has more than one dimension.
    Source: clab/dynet, ``dynet/nodes-softmaxes.cc``.
    Examples:
        >>> print(dy.sparsemax(dy.inputVector([1, 0.5, -1])).npvalue().round(3))
        [0.75 0.25 0.  ]
    """
    scores = _less_top(x)
    return jax.nn.relu(scores - _threshold(scores)).reshape(x.shape)


def _loss(x, q):
    """The loss as a sum of terms that are 0 or more; its gradient is sparsemax(x) - q.

    tau is what minimises the sum, so that no gradient goes through it. No term sees a
    score that does not matter to it, which may be -inf.
    """
    x = _less_top(x)
    above = x - lax.stop_gradient(_threshold(x))
    is_in = above > 0
    near, far = jnp.where(is_in, above, 0), jnp.where(is_in | (q == 0), 0, above)
    inside, outside = jnp.square(near - q) / 2, (q / 2 - far) * q
    return jnp.sum(jnp.where(is_in, inside, outside)).reshape(1)


def _scores_to_loss(name: str, x: Dim, q: Dim) -> Shape:
    _vector(name, x, q)
    return (1,)


LOSS_OP = Op("sparsemax_loss", _loss, _scores_to_loss)
_of_targets = plain(LOSS_OP, 2)


def sparsemax_loss(x: Expression, target_ids: Ints) -> Expression:
    """The loss of which `sparsemax` is what softmax is of the log-likelihood.

        1/2 (sum_{i in S} (x_i^2 - tau^2) + 1/|T|) - 1/|T| sum_{i in T} x_i

    S is where sparsemax(x) is above 0, tau its threshold, T the set of targets.

    Args:
        x: scores, ``{n X b}``.
        target_ids: the targets, of which each is equally right, as a list, a tuple or
            an array of ints. Run-time: others, or more of them, never recompile.
    Returns:
        ``{1 X b}``: 0 or more.
    Raises:
        TypeError: `target_ids` is not a sequence of numbers.
        DimError: `x` has more than one dimension.
        ValueError: there are no targets, or one is out of range.
        OverflowError: one is negative.
    Source: clab/dynet, ``dynet/nodes-softmaxes.cc``.
    Examples:
        >>> x = dy.inputVector([0, 0])
        >>> print(dy.sparsemax_loss(x, [0]).npvalue().round(3))
        [0.25]
        >>> print(dy.sparsemax_loss(x, [0, 1]).npvalue().round(3))
        [0.]
    """
    name = "sparsemax_loss"
    graph = graph_of(name, x)
    size = _vector(name, x.full_dim)[0]
    targets = indices_below(name, "target_ids", target_ids, size)
    if not targets:
        raise ValueError(
            error_text(
                f"{name}: there are no targets",
                got=target_ids,
                expected="at least one class",
                fix="leave the loss out",
            )
        )
    q = weighted(size, targets, 1 / len(set(targets)))
    return _of_targets(x, graph.add_rows(MASK_OP, (), (size,), q, 1))


def _two_vectors(name: str, x: Dim, y: Dim) -> Shape:
    if not (is_vector_like(x.shape) and is_vector_like(y.shape) and x.size == y.size):
        raise DimError(
            error_text(
                f"{name}: the operands are not vectors of one length",
                got=f"{x}, {y}",
                expected="{n} and {n}",
                fix="give one upper bound for each score",
            )
        )
    return x.shape


def _bounded(x, y, bound):
    """`y` in the places `bound`; elsewhere softmax shares what is left of 1."""
    left = 1 - jnp.sum(jnp.where(bound, y, 0))
    shares = jax.nn.softmax(x, where=~bound | jnp.all(bound))
    return jnp.where(bound, y, left * shares)


@op(inputs="x y", dim=_two_vectors)
def constrained_softmax(x, y):
    """Softmax with upper bounds (aclanthology.org/D17-1036).

        y_i where softmax of what others leave exceeds it, else
        exp(x_i) (1 - sum of those y) / (sum of the other exp(x_j))

    Args:
        x: scores, ``{n X b}``.
        y: upper bounds, as many.
    Returns:
        The dims of `x`, summing to 1; `y` where that sums to less than 1.
    Raises:
        DimError: the operands are not vectors of one length.
    Source: clab/dynet, ``dynet/nodes-softmaxes.cc``.
    Examples:
        >>> x, y = dy.inputVector(np.log([1, 1, 2])), dy.inputVector([1, 1, 0.4])
        >>> print(dy.constrained_softmax(x, y).npvalue().round(3))
        [0.3 0.3 0.4]
    """
    scores, limits = _less_top(x), y.reshape(-1)
    known = lax.stop_gradient((scores, limits))
    bound = _grown(lambda places: _bounded(*known, places) > known[1], len(scores))
    return _bounded(scores, limits, bound).reshape(x.shape)
