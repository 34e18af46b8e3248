"""Lookup tables as a whole."""

from typing import cast

from dynetjax.core.expression import Expression
from dynetjax.model.lookup import LookupParameters
from dynetjax.model.parameters import Parameters
from dynetjax.model.storage import DenseStorage


def whole(table: LookupParameters, update: bool) -> Expression:
    """All of a table, its rows first; without gradient unless `update`.

    A table used as an expression has its rows last, and always a gradient.
    """
    return Parameters(cast(DenseStorage, table.storage)).expr(bool(update))
