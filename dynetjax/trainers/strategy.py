"""How a rule reaches a collection: who keeps its state, and the compiled update."""

from collections.abc import Callable, Sequence
from typing import Any, NamedTuple, Protocol

import numpy as np

from dynetjax.core.dims import Shape
from dynetjax.model.storage import DenseStorage
from dynetjax.trainers.members import Block, Members
from dynetjax.trainers.native_update import OnHost

Take = Callable[[], None]


class States(Protocol):
    """Keeps the state of a rule: in blocks, or as a tree.

    Attributes:
        is_empty: the rule has none.
        can_move: it has `move`; see `BlockStates`.
    """

    is_empty: bool
    can_move: bool

    def arrange(self, parameters: Sequence[DenseStorage]) -> tuple[Block, ...]:
        """The blocks that these parameters make from now on."""

    def is_native(self, members: Members) -> bool:
        """Whether the executor in C++ can update these: see `on_host`."""

    def on_host(self, members: Members) -> OnHost:
        """How these are updated, if that goes number by number."""

    def targets(self, members: Members) -> Any:
        """What an update of these members by XLA changes."""

    def put(self, members: Members, targets: Any) -> None:
        """The state that an update made."""

    def named(self, storages: Sequence[Any]) -> dict[str, Any]:
        """The state of all these as arrays."""

    def take(self, storages: Sequence[Any], arrays: dict[str, Any]) -> Take:
        """What takes over what `named` returned; `arrange` must be called then.

        Raises:
            KeyError, ValueError: it is not of these.
        """

    def clear(self) -> None:
        """Set all of it to zero."""


class Strategy(NamedTuple):
    """What a trainer needs of its rule.

    Attributes:
        states: keeps the state.
        compiled: makes the update; see `dynetjax.trainers.update.compiled_update`.
    """

    states: States
    compiled: Callable[..., Any]


def require_shape(array: Any, shape: Shape) -> Any:
    """`array`, of this shape.

    Raises:
        ValueError: it has another one.
    """
    if np.shape(array) != shape:
        raise ValueError(f"an array of shape {np.shape(array)} instead of {shape}")
    return array
