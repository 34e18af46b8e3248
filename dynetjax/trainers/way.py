"""How a rule reaches a collection: who keeps its state, and the compiled update."""

from collections.abc import Sequence
from typing import Any, NamedTuple, Protocol

from dynetjax.model.storage import DenseStorage
from dynetjax.trainers.members import Block, Members


class States(Protocol):
    """Keeps the state of a rule.

    Attributes:
        is_empty: the rule has none.
    """

    is_empty: bool

    def arrange(self, parameters: Sequence[DenseStorage]) -> tuple[Block, ...]:
        """The blocks that these parameters make from now on."""

    def targets(self, members: Members) -> Any:
        """What an update of these members changes."""

    def put(self, members: Members, targets: Any) -> None:
        """The state that an update made."""

    def clear(self) -> None:
        """Set all of it to zero."""


class Way(NamedTuple):
    """What a trainer needs of its rule.

    Attributes:
        states: keeps the state.
        compiled: see `dynetjax.trainers.update.compiled_update`.
    """

    states: States
    compiled: Any
