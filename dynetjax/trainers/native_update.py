"""The update by the executor in C++: a whole collection in one call, at once."""

from typing import Any, NamedTuple

import numpy as np

from dynetjax.model.storage import TableStorage, on_host
from dynetjax.native import core
from dynetjax.trainers.members import Block, Members


class OnHost(NamedTuple):
    """How members are updated by rules as they are run, with arrays of NumPy.

    Attributes:
        blocks: a rule, the state of several parameters, in arrays where it lies end to
            end, and the parameters.
        tables: of each table a rule, the state, and itself.
        common: words of what rules have in common; see `RuleOfOne`.
    """

    blocks: list[tuple[Any, tuple[np.ndarray, ...], Block]]
    tables: list[tuple[Any, tuple[np.ndarray, ...], TableStorage]]
    common: np.ndarray


def update_on_host(
    on_host: OnHost,
    members: Members,
    dense: tuple[bool, ...],
    numbers: tuple[float, float, float, float],
) -> float:
    """Change all members by their gradients; the norm of these.

    Nothing changes if gradients are to be clipped and their norm is not finite; else
    parameters, but not tables, have no gradient any more.

    Args:
        dense: per table, whether the rule goes to all rows.
        numbers: the learning rate, the threshold of clipping or 0, the number of the
            update from 1 on, and the factor on new values.
    """
    blocks, tables, common = on_host
    frozen = members.frozen, members.frozen_tables
    return core.update(numbers, blocks, tables, dense, *frozen, common)


def gradients_are_on_host(members: Members) -> bool | None:
    """Whether the first gradient is an array of NumPy; None if there is no gradient."""
    for block in members.blocks:
        for parameter in block:
            if parameter.gradient is not None:
                return on_host(parameter.gradient)
    for table in members.tables:
        whole, parts = table.gradient_now()
        if whole is not None or parts:
            return on_host(parts[0].values if whole is None else whole)
    return None
