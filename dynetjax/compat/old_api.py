"""What programs of DyNet's first release call, for those that import ``dynet``.

Trainers take ``e0`` and ``edecay``; collections save and load lists of objects, also of
`Saveable` classes.
"""

import inspect
import os
import pickle
import sys
from collections.abc import Iterable, Iterator, Sequence
from functools import wraps
from typing import Any

from dynetjax.core.errors import error_text
from dynetjax.io.atomic import explained, replacing
from dynetjax.io.meta import dumps, loads_all
from dynetjax.io.pair import load, save
from dynetjax.io.text import FilePath, as_path
from dynetjax.model.collection import ParameterCollection
from dynetjax.trainers.base import Trainer

_told: set[str] = set()


def _tell_once(feature: str, instead: str) -> None:
    if feature not in _told:
        _told.add(feature)
        print(f"{feature} is deprecated. {instead}", file=sys.stderr)


def take_old_arguments(kind: type[Trainer]) -> None:
    """Let a trainer class take ``e0``, ``edecay`` and ``eta_decay``, too.

    Without its name, ``edecay`` comes after all that the class takes so.
    With a decay, `update_epoch` does what it did: after n epochs the learning rate is
    ``e0 / (1 + n * edecay)``.
    """
    make, tell, reduce = kind.__init__, kind.update_epoch, kind.__reduce__
    own = inspect.signature(make).parameters
    rate_name = next((n for n in ("learning_rate", "alpha") if n in own), None)
    kinds = [parameter.kind for parameter in own.values()]
    most = kinds.count(inspect.Parameter.POSITIONAL_OR_KEYWORD) - len(("self", "m"))

    @wraps(make)
    def __init__(self, m, *args, e0=None, edecay=0.0, eta_decay=0.0, **options):
        if e0 is not None:
            _tell_once("The trainer argument e0", "Use learning_rate instead.")
            if rate_name is not None:
                options[rate_name] = e0
        if len(args) == most + 1:
            args, edecay = args[:-1], args[-1]
        make(self, m, *args, **options)
        self._decay = float(edecay or eta_decay)
        self._first_rate, self._epochs = self.learning_rate, 0.0
        if self._decay:
            _tell_once("The trainer argument edecay", "Set learning_rate yourself.")

    def update_epoch(self, r=1.0):
        """Lower the learning rate, if there is a decay; else only a notice."""
        if not self._decay:
            tell(self, r)
            return
        self._epochs += r
        self.learning_rate = self._first_rate / (1 + self._epochs * self._decay)

    def __reduce__(self):
        return *reduce(self), {"_epochs": self._epochs}

    members = __init__, update_epoch, __reduce__
    for member in members:
        setattr(kind, member.__name__, member)


class Saveable:
    """Base of objects whose parameters and builders are listed by `get_components`.

    Saving keeps the components and all attributes that are plain data. Loading makes
    the object without calling ``__init__``, and hands the components to
    `restore_components`.
    """

    def get_components(self) -> Sequence[Any]:
        """Parameters, tables, builders and Saveable objects that belong to it."""
        raise NotImplementedError

    def restore_components(self, components: Sequence[Any]) -> None:
        """Take what `get_components` returned, made again."""
        raise NotImplementedError


def save_objects(fname: FilePath, objects: Iterable[Any]) -> None:
    """`dynetjax.save`, for Saveable objects, too; those go to ``fname.objects``."""
    path = as_path("save", fname)
    flat: list[Any] = []
    plan = [_planned(thing, flat) for thing in objects]
    save(path, flat)
    if any(entry is not None for entry in plan):
        name = path + ".objects"
        with explained("save", name), replacing(name) as file:
            file.write(dumps(plan, _name_of))
    elif os.path.exists(path + ".objects"):
        os.unlink(path + ".objects")


def _planned(thing: Any, flat: list[Any]) -> tuple[Any, ...] | None:
    """How to make a Saveable object again; what has parameters is added to `flat`."""
    if not isinstance(thing, Saveable):
        flat.append(thing)
        return None
    components = [_planned(c, flat) for c in thing.get_components()]
    plain = {n: v for n, v in vars(thing).items() if _is_plain(v)}
    return type(thing), plain, components


def _is_plain(value: Any) -> bool:
    try:
        dumps(value, _no_classes)
    except (pickle.PicklingError, RecursionError):
        return False
    return True


def _no_classes(thing: Any, name: str | None) -> tuple[str, str]:
    raise pickle.PicklingError("a class is no plain data")


def _name_of(kind: type[Any], name: str | None) -> tuple[str, str]:
    return kind.__module__, kind.__qualname__


def load_objects(fname: FilePath, params: ParameterCollection) -> list[Any]:
    """`dynetjax.load`, for Saveable objects, too.

    Raises:
        pickle.UnpicklingError: a class is not known, or not Saveable.
    """
    path = as_path("load", fname)
    if not os.path.exists(path + ".objects"):
        return load(path, params)
    with open(path + ".objects", "rb") as file:
        (plan,) = loads_all(file.read(), _find_saveable)
    parts = iter(load(path, params))
    return [_made(entry, parts) for entry in plan]


def _made(entry: tuple[Any, ...] | None, parts: Iterator[Any]) -> Any:
    if entry is None:
        return next(parts)
    kind, plain, components = entry
    thing = object.__new__(kind)
    vars(thing).update(plain)
    thing.restore_components([_made(c, parts) for c in components])
    return thing


def _find_saveable(module: str, name: str) -> type[Any]:
    value: Any = sys.modules.get(module)
    for part in name.split("."):
        value = vars(value).get(part) if hasattr(value, "__dict__") else None
    if isinstance(value, type) and issubclass(value, Saveable):
        return value
    raise pickle.UnpicklingError(
        error_text(
            "load: the file names a class that is not known",
            got=f"{module}.{name}",
            expected="a Saveable class whose module is imported",
            fix=f"import {module} before, if you know it and trust the file",
        )
    )


_save_text = ParameterCollection.save


def _save(
    self: ParameterCollection, fname: FilePath, name: Any = "", append: bool = False
):
    """`save` of a collection; with a list of objects, that of the first release."""
    if isinstance(name, str):
        _save_text(self, fname, name, append)
        return
    _tell_once("Model.save(fname, objects)", "Use dy.save(fname, objects) instead.")
    save_objects(fname, name)


def _load(self: ParameterCollection, fname: FilePath) -> list[Any]:
    """The objects of a file, made again in this collection, or its values alone."""
    path = as_path("load", fname)
    if os.path.exists(path) and not os.path.exists(path + ".meta"):
        _tell_once("Model.load of values", "Use model.populate(fname) instead.")
        self.populate(path)
        return []
    _tell_once("Model.load", "Use dy.load(fname, model) instead.")
    return load_objects(fname, self)


def install(trainers: Iterable[type[Trainer]]) -> None:
    """Give collections the methods of the first release, and trainers its arguments."""
    ParameterCollection.save = _save  # type: ignore[method-assign]
    ParameterCollection.load = _load  # type: ignore[attr-defined]
    ParameterCollection.save_all = _save_text  # type: ignore[attr-defined]
    ParameterCollection.load_all = ParameterCollection.populate  # type: ignore[attr-defined]
    for kind in trainers:
        take_old_arguments(kind)
