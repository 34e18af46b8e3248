"""What is computed of choices: losses and distributions; see `choices.py`.

A choice of n outcomes is a matrix whose first n rows are real, with the bias in the
last column if there is one. A matrix of one row is a choice of two: its score is that
of outcome 0, whose probability is the sigmoid of it.
"""

from dynetjax.core.dims import Dim, Shape
from dynetjax.core.lazy import jax, jnp, lax
from dynetjax.core.precision import PRECISION
from dynetjax.core.registry import Op


def outcomes(rows: int) -> int:
    """How many outcomes a choice with so many rows has."""
    return max(2, rows)


def _scores(rows, x):
    size = len(x)
    scores = jnp.dot(rows[:, :size], x, precision=PRECISION.of_products)
    return scores if rows.shape[1] == size else scores + rows[:, size]


def _normalised(scores, n):
    """Logarithms of the softmax of the first `n` scores; -inf behind."""
    real = lax.iota(jnp.int32, scores.size) < n
    return jax.nn.log_softmax(jnp.where(real, scores, -jnp.inf))


def _logs(rows, x, n):
    scores = _scores(rows, x)
    if len(rows) == 1:
        return -jax.nn.softplus(jnp.concatenate([-scores, scores]))
    return _normalised(scores, n)


def _loss(rows, x, n, v):
    scores = _scores(rows, x)
    if len(rows) == 1:
        return jax.nn.softplus(scores) - jnp.where(v == 0, scores, 0)
    places = lax.iota(jnp.int32, scores.size)
    top = lax.stop_gradient(jnp.max(jnp.where(places < n, scores, -jnp.inf)))
    shifted = jnp.where(places < n, scores - top, 0)
    total = jnp.sum(jnp.where(places < n, jnp.exp(shifted), 0))
    picked = jnp.sum(jnp.where(places == v, shifted, 0))
    return (jnp.log(total) - picked).reshape(1)


def _all_scores(table, x):
    return jax.vmap(lambda rows: _scores(rows, x))(table).reshape(-1)


def _all_logs(scores, counts, *, m: int):
    scores = scores.reshape(-1, m)
    if m == 1:
        both = jnp.concatenate([-scores, scores], axis=1)
        return -jax.nn.softplus(both).reshape(-1)
    return jax.vmap(_normalised)(scores, counts).reshape(-1)


def _full(places, *logs):
    ends = jnp.array([-jnp.inf, 0.0], logs[0].dtype)
    every = jnp.concatenate([*logs, ends])
    numbers = places.astype(jnp.int32)
    return every[jnp.where(numbers < 0, numbers + every.size, numbers)].sum(1)


def _one_number(name: str, *dims: Dim) -> Shape:
    del name, dims
    return (1,)


def _by_row(name: str, rows: Dim, x: Dim) -> Shape:
    del name, x
    return rows.shape[:1]


def _by_outcome(name: str, rows: Dim, x: Dim) -> Shape:
    del name, x
    return (outcomes(rows.shape[0]),)


def _by_row_of_all(name: str, table: Dim, x: Dim) -> Shape:
    del name, x
    return (table.shape[0] * table.shape[1],)


def _by_outcome_of_all(name: str, scores: Dim, counts: Dim, m: int) -> Shape:
    del name, scores
    return (counts.shape[0] * outcomes(m),)


def _by_place(name: str, places: Dim, *logs: Dim) -> Shape:
    del name, logs
    return places.shape[:1]


LOSS = Op("loss_of_choice", _loss, _one_number, runtime="ii", internal=True)
LOGS = Op("logs_of_choice", _logs, _by_outcome, runtime="i", internal=True)
SCORES = Op("scores_of_choice", _scores, _by_row, internal=True)
ALL_SCORES = Op(
    "scores_of_all_choices",
    _all_scores,
    _by_row_of_all,
    contraction=True,
    internal=True,
)
ALL_LOGS = Op(
    "logs_of_all_choices", _all_logs, _by_outcome_of_all, static=("m",), internal=True
)
FULL = Op("full_distribution", _full, _by_place, internal=True)
