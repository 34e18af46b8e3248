"""What attributes objects show, and an AttributeError that tells what others are.

Tab and `dir` list what users call. They leave out what is for the engine, and names of
other libraries, which are looked for here.
"""

import importlib
import sys
from typing import Any, Final

from dynetjax.builders.base import RNNBuilder
from dynetjax.builders.rnn_state import RNNState
from dynetjax.builders.softmax import SoftmaxBuilder
from dynetjax.builders.tree import TreeBuilder
from dynetjax.builders.tree_family import TreeLSTMFamily
from dynetjax.builders.tree_state import TreeState
from dynetjax.core.expression import Expression
from dynetjax.core.other_names import (
    COLLECTION,
    EXPRESSION,
    MODULE,
    TABLE,
    TRAINER,
    other_name,
    raise_no_attribute,
)
from dynetjax.model.collection import ParameterCollection
from dynetjax.model.initializers import PyInitializer
from dynetjax.model.lookup import LookupParameters
from dynetjax.model.parameters import ConstantParameters, Parameters
from dynetjax.trainers.base import Trainer

FOR_THE_ENGINE: Final[dict[type, str]] = {
    Expression: "graph is_live index is_part signature lanes operands parts data "
    "lengths kind full_dim true_shape without_padding locate",
    Parameters: "storage constant still",
    ConstantParameters: "storage constant still",
    LookupParameters: "storage row_signatures",
    PyInitializer: "fill for_tables bound",
    RNNBuilder: "advance advance_all advance_with shown outputs with_outputs "
    "with_state misfit all_parameters collection_name",
    RNNState: "vectors",
    SoftmaxBuilder: "collection_name",
    TreeBuilder: "vectors collection_name",
    TreeLSTMFamily: "parts peepholes",
    TreeState: "rows require_current",
    Trainer: "count_of_updates defer_no_rows move_state taking updated_storages "
    "why_not_shared",
    ParameterCollection: "",
}
"""Attributes that are for other modules, by class."""


class _Elsewhere:
    """An attribute that raises, and costs nothing where it is not asked for.

    Where a class of the user's has another base that has it, it is that base's.
    """

    def __init__(self, of: str, name: str, owner: type):
        self._of, self._name, self._owner = of, name, owner

    def __get__(self, instance: object, kind: type | None = None) -> Any:
        bound: Any = kind if instance is None else instance
        try:
            return getattr(super(self._owner, bound), self._name)
        except AttributeError:
            pass
        raise_no_attribute(self._of, self._name)


def _dir(self: object) -> list[str]:
    """The attributes that there are for users."""
    found: dict[str, Any] = {}
    hidden: set[str] = set()
    for kind in type(self).__mro__:
        found = vars(kind) | found
        hidden |= {*FOR_THE_ENGINE.get(kind, "").split()}
    return [
        name
        for name in object.__dir__(self)
        if name not in hidden and not isinstance(found.get(name), _Elsewhere)
    ]


def install() -> None:
    """Let classes list their attributes, and tell what is here of other libraries."""
    owners = {EXPRESSION: Expression, TRAINER: Trainer, COLLECTION: ParameterCollection}
    for row in TABLE:
        if row.of in owners:
            owner = owners[row.of]
            setattr(owner, row.name, _Elsewhere(row.of, row.name, owner))
    for owner in FOR_THE_ENGINE:
        setattr(owner, "__dir__", _dir)  # noqa: B010
    if "IPython" in sys.modules:
        _list_in_ipython()


def _list_in_ipython() -> None:
    """Without Jedi, IPython lists what classes have, too, and not `dir` alone."""
    generics = importlib.import_module("IPython.utils.generics")
    for owner in FOR_THE_ENGINE:
        generics.complete_object.register(owner, _listed)


def _listed(thing: object, words: list[str]) -> list[str]:
    """Those of some attributes that `dir` has."""
    there = set(dir(thing))
    return [word for word in words if word in there]


def no_name(module: str, name: str) -> AttributeError:
    """The error for a name that a module has not got."""
    if other_name(MODULE, name):
        raise_no_attribute(MODULE, name)
    return AttributeError(f"module {module!r} has no attribute {name!r}")
