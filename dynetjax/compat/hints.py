"""Names of other libraries, looked for here: an AttributeError tells what they are."""

from typing import Any

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
from dynetjax.trainers.base import Trainer


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
    """The attributes that there are."""
    found: dict[str, Any] = {}
    for kind in type(self).__mro__:
        found = vars(kind) | found
    return [
        name
        for name in object.__dir__(self)
        if not isinstance(found.get(name), _Elsewhere)
    ]


def install() -> None:
    """Let classes tell what attributes of other libraries are here."""
    owners = {EXPRESSION: Expression, TRAINER: Trainer, COLLECTION: ParameterCollection}
    for row in TABLE:
        if row.of in owners:
            owner = owners[row.of]
            setattr(owner, row.name, _Elsewhere(row.of, row.name, owner))
    for owner in owners.values():
        setattr(owner, "__dir__", _dir)  # noqa: B010


def no_name(module: str, name: str) -> AttributeError:
    """The error for a name that a module has not got."""
    if other_name(MODULE, name):
        raise_no_attribute(MODULE, name)
    return AttributeError(f"module {module!r} has no attribute {name!r}")
