"""The compiled update: a whole collection in one call.

Learning rate, clip threshold and step count are arguments, and the row gradients of
tables come in a few sizes, so that a training run compiles little after its first
updates. Tables and all state are donated: they change in place. Dense parameters
are not, for a graph may still hold them.
"""

import functools
from collections.abc import Callable, Iterator, Sequence
from itertools import accumulate, pairwise, repeat
from typing import Any, NamedTuple

import numpy as np

from dynetjax.core.lazy import jax, jnp, lax
from dynetjax.engine.xla.compiling import Compiled
from dynetjax.trainers.apply import (
    UpdateTerms,
    apply_block,
    apply_everywhere,
    apply_rows,
    by_row,
    split_table,
)
from dynetjax.trainers.rules import Rule
from dynetjax.trainers.sparse import Gradient, add_up, squared_norm

NUMBERS = 4  # of `scalars`


class Gradients(NamedTuple):
    """All that an update reads and does not change.

    Attributes:
        blocks: per block of parameters, the list of their arrays.
        tables: one `Gradient` per updated table.
        frozen: arrays of parameters not updated, that count in the norm only.
        frozen_tables: likewise.
    """

    blocks: list[list[Any]]
    tables: list[Gradient]
    frozen: list[Any]
    frozen_tables: list[Gradient]


class Targets(NamedTuple):
    """All that an update changes, but the values of dense parameters.

    Attributes:
        states: the rule's state for each block of parameters.
        tables: values of each updated table, with a factor if they decay.
        table_states: the rule's state for each updated table.
    """

    states: list[Any]
    tables: list[Any]
    table_states: list[Any]


def scalars(
    learning_rate: float, threshold: float, step: int, decay: float = 0.0
) -> np.ndarray:
    """The runtime numbers of an update, in one array; a threshold of 0 is none."""
    return np.array([learning_rate, threshold, step, decay], np.float32)


class Update:
    """A compiled update, for gradients of tables in a few sizes.

    Each of them has a program of its own, which the next process loads. The numbers and
    the ids of rows come to the device as one array.

    Args:
        run: ``(scalars, values, targets, gradients, dense, frozen_sizes)``.

    Attributes:
        programs: those made, by what tells them apart.
    """

    def __init__(self, run: Callable[..., Any]):
        self._run = run
        self.programs: dict[tuple[Any, ...], Compiled] = {}

    def __call__(
        self,
        numbers: np.ndarray,
        values: list[list[Any]],
        targets: Targets,
        gradients: Gradients,
        dense: tuple[bool, ...],
        frozen_sizes: tuple[int, ...],
    ) -> tuple[Targets, list[list[Any]], Any]:
        packed, bare, sizes = pack(numbers, gradients)
        key = dense, frozen_sizes, sizes
        program = self.programs.get(key)
        if program is None:
            program = self.programs[key] = self.program(*key)
        return program(packed, values, targets, bare)

    def program(
        self,
        dense: tuple[bool, ...],
        frozen_sizes: tuple[int, ...],
        sizes: tuple[int, ...],
    ) -> Compiled:
        """The update as a function of the other arguments, of which shapes matter.

        Args of the result:
            packed, gradients: see `pack`, which tells `sizes`.
            values, targets: see `compiled_update`.
        """

        def run(packed, values, targets, gradients):
            ends = [NUMBERS + end for end in accumulate(sizes, initial=0)]
            rows = [packed[start:end] for start, end in pairwise(ends)]
            numbers = lax.bitcast_convert_type(packed[:NUMBERS], jnp.float32)
            gradients = _with_rows(gradients, iter(rows))
            return self._run(numbers, values, targets, gradients, dense, frozen_sizes)

        def like(packed, values, targets, gradients):
            return targets, None, None

        return Compiled(run, "targets", like)


def pack(
    numbers: np.ndarray, gradients: Gradients
) -> tuple[np.ndarray, Gradients, tuple[int, ...]]:
    """What an update gets from the host in one array, and what is left.

    Returns:
        int32; the bits of `scalars`, then the ids of the rows of each table. Gradients
        without ids. How many ids each table has.
    """
    of_tables = gradients.tables, gradients.frozen_tables
    rows = [np.asarray(g.rows) for tables in of_tables for g in tables]
    packed = np.concatenate([numbers.view(np.int32), *rows])
    return packed, _with_rows(gradients, repeat(None)), tuple(map(len, rows))


def _with_rows(gradients: Gradients, rows: Iterator[Any]) -> Gradients:
    """Gradients of tables by other ids."""
    tables = [g._replace(rows=next(rows)) for g in gradients.tables]
    frozen = [g._replace(rows=next(rows)) for g in gradients.frozen_tables]
    return gradients._replace(tables=tables, frozen_tables=frozen)


@functools.lru_cache(maxsize=32)
def compiled_update(rule: Rule, by_tensor: bool = False) -> Update:
    """``(scalars, values, targets, gradients, dense, frozen_sizes)``, compiled.

    Args:
        rule: see `dynetjax.trainers.apply`.
        by_tensor: the rule looks at whole parameters, or rows of tables.

    Args of the result:
        scalars: see `scalars`.
        values: per block of parameters, the list of their arrays.
        targets: `Targets`, donated.
        gradients: `Gradients`.
        dense: per updated table, whether the rule goes to all rows. Static.
        frozen_sizes: rows of each table in ``gradients.frozen_tables``. Static.
    Returns:
        new targets, which come first, as the first results of their shapes take the
        places of what is donated; new values; and the norm of all gradients together.
    """
    of_rows = by_row(rule) if by_tensor else rule

    def update(numbers, values, targets, gradients, dense, frozen_sizes):
        terms, norm, for_tables = agreed(numbers, targets, gradients, frozen_sizes)
        blocks = [
            apply_block(rule, terms, *of_one)
            for of_one in zip(gradients.blocks, targets.states, values, strict=True)
        ]
        tables = [
            _apply_for(to_all)(of_rows, terms, *of_one)
            for to_all, *of_one in zip(
                dense, for_tables, targets.table_states, targets.tables, strict=True
            )
        ]
        new_targets = Targets(
            states=[state for _, state in blocks],
            tables=[table for table, _ in tables],
            table_states=[state for _, state in tables],
        )
        return new_targets, [new for new, _ in blocks], norm

    return Update(update)


def _apply_for(to_all: bool) -> Callable[..., Any]:
    return apply_everywhere if to_all else apply_rows


def agreed(
    numbers: Any,
    targets: Targets,
    gradients: Gradients,
    frozen_sizes: Sequence[int],
) -> tuple[UpdateTerms, Any, list[Any]]:
    """What an update is about, the norm, and the gradients of tables."""
    sizes = [len(split_table(t)[0]) for t in targets.tables]
    for_tables = _add_up(gradients.tables, sizes)
    for_frozen_tables = _add_up(gradients.frozen_tables, frozen_sizes)
    dense = [*gradients.blocks, gradients.frozen]
    norm = _norm([*dense, for_tables, for_frozen_tables])
    return _terms(numbers, norm), norm, for_tables


def _add_up(gradients: list[Gradient], sizes: Sequence[int]) -> list[Any]:
    return [
        add_up(gradient, size) for gradient, size in zip(gradients, sizes, strict=True)
    ]


def _norm(gradients: list[list[Any]]) -> "jax.Array":
    squares = [squared_norm(g) for group in gradients for g in group]
    return jnp.sqrt(sum(squares, jnp.float32(0)))


def _terms(numbers: Any, norm: Any) -> UpdateTerms:
    learning_rate, threshold, step, decay = numbers
    clipping = threshold > 0
    too_long = clipping & (norm > threshold)
    factor = jnp.where(too_long, threshold / norm, 1.0)
    accepted = ~clipping | jnp.isfinite(norm)
    return UpdateTerms(learning_rate, factor, step, 1 - decay, accepted)
