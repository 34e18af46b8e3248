"""All that a trainer knows as a dict, so that training can go on in another process."""

import inspect
import json
from typing import Any, Self

import numpy as np

from dynetjax.core.errors import error_text
from dynetjax.core.other_names import check_keywords
from dynetjax.core.uninterrupted import Uninterrupted
from dynetjax.trainers.averages import Averages, Averaging
from dynetjax.trainers.deferred import DeferredRows
from dynetjax.trainers.members import Census
from dynetjax.trainers.strategy import Take, require_shape

RATES = "learning_rate", "alpha", "e0"  # what constructors call it; told as it is now


class Resumable(Averaging):
    """Gives its state, and takes it over.

    Attributes:
        _numbers: those of the rule, if DyNet has the like; else None.
    """

    _census: Census
    _deferred: DeferredRows | None
    _numbers: tuple[float, ...] | None
    _states: Any
    _made_with: tuple[tuple[Any, ...], dict[str, Any]]

    def __new__(cls, *args: Any, **options: Any) -> Self:
        check_keywords(cls, options)
        made = super().__new__(cls)
        made._made_with = args, options
        return made

    def _differing(self) -> dict[str, Any]:
        parameters = inspect.signature(type(self).__init__).parameters
        places = [n for n, p in parameters.items() if p.kind is p.POSITIONAL_OR_KEYWORD]
        args, options = self._made_with
        given = dict(zip(places, (self, *args), strict=False)) | options
        defaults = {name: p.default for name, p in parameters.items()}
        numbers = {n: x for n, x in given.items() if isinstance(x, (int, float))}
        differing = {
            name: number
            for name, number in numbers.items()
            if name not in RATES and number != defaults.get(name)
        }
        return differing | super()._differing()

    def __reduce__(self) -> tuple[Any, ...]:
        return _made_again, (type(self), *self._made_with, self.state_dict())

    def state_dict(self) -> dict[str, Any]:
        """All that the trainer knows: plain values, and arrays under ``"arrays"``."""
        self._settle()
        self.swap_params_to_weights()
        if self._deferred is not None:
            self._deferred.bring_all()
        storages, averages = self._storages(), self._averages
        arrays = {f"state.{n}": a for n, a in self._states.named(storages).items()}
        counts: list[int] = []
        if averages is not None:
            counts = [averages.counts.get(s, 0) for s in storages]
            kept = enumerate(averages.all_of(storages))
            arrays |= {f"average.{i}": a for i, a in kept}
        return {
            "class": self.whoami(),
            "numbers": self._numbers,
            "learning_rate": self._learning_rate,
            "threshold": self._threshold,
            "sparse_updates": self.sparse_updates_enabled,
            "updates": [self._updates, self._updates_seen],
            "clips": [self._clips, self._clips_seen],
            "averages": averages and [averages.beta, averages.frequency, counts],
            "arrays": {n: np.array(a) for n, a in arrays.items()},
        }

    def load_state_dict(self, state: dict[str, Any]) -> None:
        """Go on where the trainer was whose `state_dict` this is.

        Raises:
            RuntimeError: it was of another class, with other numbers, or of other
                parameters; nothing is changed.
        """
        self.taking(state)()

    def taking(self, state: dict[str, Any]) -> Take:
        """What does `load_state_dict`, after all was checked."""
        self._settle()
        storages = self._storages()
        own = {"class": self.whoami(), "numbers": self._numbers}
        theirs = {key: state.get(key) for key in own}
        if _plain(own) != _plain(theirs):
            raise _another(self.whoami(), theirs, own)
        try:
            of_rule = _beginning(state["arrays"], "state.")
            take = self._states.take(storages, of_rule)
            averages = _averages(state, storages)
            updates, updates_seen = map(int, state["updates"])
            clips, clips_seen = map(int, state["clips"])
            rate, threshold = map(float, [state["learning_rate"], state["threshold"]])
            sparse = bool(state["sparse_updates"])
        except (KeyError, ValueError, TypeError) as error:
            raise _another(self.whoami(), error, "the same parameters") from error

        def take_all() -> None:
            if self._deferred is not None:
                self._deferred.let_all_go()
            with Uninterrupted():
                take()
                self._census.forget()
                self._averages = averages
                self._updates, self._updates_seen = updates, updates_seen
                self._clips, self._clips_seen = clips, clips_seen
                self._learning_rate, self._threshold = rate, threshold
                self.sparse_updates_enabled = sparse

        return take_all


def _made_again(
    kind: type[Resumable],
    args: tuple[Any, ...],
    options: dict[str, Any],
    state: dict[str, Any],
) -> Resumable:
    """What was pickled."""
    made = kind(*args, **options)
    made.load_state_dict(state)
    return made


def _plain(values: dict[str, Any]) -> str:
    """The values as a text in JSON, where tuples are lists."""
    return json.dumps(values)


def _beginning(arrays: dict[str, Any], prefix: str) -> dict[str, Any]:
    """The arrays whose names begin with `prefix`, by their names without it."""
    size = len(prefix)
    return {n[size:]: a for n, a in arrays.items() if n.startswith(prefix)}


def _averages(state: dict[str, Any], storages: list[Any]) -> Averages | None:
    if state["averages"] is None:
        return None
    beta, frequency, counts = state["averages"]
    averages = Averages(beta, int(frequency))
    for i, (storage, count) in enumerate(zip(storages, counts, strict=True)):
        array = require_shape(state["arrays"][f"average.{i}"], storage.shape)
        averages.put([storage], [array], int(count))
    return averages


def _another(name: str, got: Any, expected: Any) -> RuntimeError:
    return RuntimeError(
        error_text(
            f"load_state_dict: the state is not of this {name}",
            got=got,
            expected=expected,
            fix="make the trainer, and its collection, as they were when it was saved",
        )
    )
