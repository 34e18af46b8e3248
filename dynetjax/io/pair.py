"""``dy.save`` and ``dy.load``: parameters, builders and users' own objects.

What they are stands in ``name.meta``, their numbers in ``name.data``, a text file. An
object other than a parameter is made again from its class and its `spec`.
"""

import os
import pickle
import reprlib
import warnings
from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from typing import Any, NamedTuple

from dynetjax.builders.base import RNNBuilder
from dynetjax.core.errors import error_text
from dynetjax.core.group import PROCESS
from dynetjax.core.uninterrupted import Uninterrupted
from dynetjax.io.atomic import Draft, explained, sync_folder
from dynetjax.io.classes import (
    can_be_saved,
    find_part,
    is_own,
    is_signed,
    pickled,
    unpickle_all,
)
from dynetjax.io.meta import loads_all
from dynetjax.io.text import FilePath, Header, TextFile, as_path
from dynetjax.model.collection import (
    ParameterCollection,
    adopt,
    all_or_nothing,
    limited,
    storages,
)
from dynetjax.model.loading import fill, find, read
from dynetjax.model.lookup import LookupParameters
from dynetjax.model.parameters import Parameters
from dynetjax.model.room import Room
from dynetjax.model.saving import Owner, warn_of, write_blocks

_KINDS: dict[type[Any], str] = {
    Parameters: "Parameters",
    LookupParameters: "LookupParameters",
}


def save(basename: FilePath, objects: Iterable[Any]) -> None:
    """Write objects to ``basename.data`` and ``basename.meta``.

    DyNet's own `load` reads them. The two files are replaced when both are complete. A
    crash in the instant between leaves a pair that fits, or no ``.meta``.

    Args:
        basename: name of the files, without the suffix.
        objects: Parameters, LookupParameters, builders, and objects of classes that
            have what builders have for it: a method `param_collection`; an attribute
            `spec`; and a class method ``from_spec(spec, collection)``. A spec is
            pickled: plain data (None, bool, int, float, str, bytes, and tuples, lists,
            dicts and sets of it), a vocabulary, whatever `pickle` takes but
            parameters and collections. `load` says what it reads of it.
    Raises:
        AttributeError: an object has not got these.
        OSError: the files cannot be written.
        pickle.PicklingError: a `spec` has what cannot be pickled, or parameters; or a
            class or a function is not to be found under its name.
        RuntimeError: an update was refused.
    Warns:
        RuntimeWarning: a value is not finite.
    Examples:
        >>> import os
        >>> m = dy.ParameterCollection()
        >>> E = m.add_lookup_parameters((100, 4), name="E")
        >>> gru = dy.GRUBuilder(1, 4, 8, m)
        >>> dy.save("model", [E, gru])
        >>> print(sorted(os.listdir()))
        ['model.data', 'model.meta']
    """
    base = as_path("save", basename)
    if isinstance(objects, (Parameters, LookupParameters)):
        raise AttributeError(
            error_text(
                "save: objects is a single parameter",
                got=repr(objects),
                expected="a list of objects",
                fix="put it in a list",
            )
        )
    entries: list[tuple[Any, ...]] = []
    owners: list[Owner] = []
    for thing in objects:
        entry, of_thing = _describe(thing)
        entries.append(entry)
        owners += of_thing
    description = pickled(entries)
    with explained("save", f"{base}.data and {base}.meta"):
        broken = _write(base, owners, description)
    warn_of(broken, stacklevel=2)


def _describe(thing: Any) -> tuple[tuple[Any, ...], list[Owner]]:
    """The entry in ``.meta``, and what has the numbers."""
    if type(thing) in _KINDS:
        return (_KINDS[type(thing)], thing.name()), [thing.storage]
    try:
        collection = thing.param_collection()
        entry = thing.__class__, thing.spec, collection.name()
        _ = thing.from_spec
    except AttributeError as error:
        raise AttributeError(
            error_text(
                "save: the object cannot be saved",
                got=f"{type(thing).__name__}: {error}",
                expected="Parameters, LookupParameters, or an object with"
                " param_collection, spec and from_spec",
                fix="save the collection itself with collection.save(fname)",
            )
        ) from error
    return entry, [*storages(collection), *_outside(thing)]


def _outside(thing: Any) -> list[Owner]:
    """What a builder computes with that is not in its collection.

    An LSTM that normalises has gains and biases there, as in DyNet.
    """
    if not isinstance(thing, RNNBuilder):
        return []
    own = {p.storage for p in thing.param_collection().parameters_list()}
    used = [p.storage for layer in thing.all_parameters() for p in layer]
    return [storage for storage in used if storage not in own]


def _write(base: str, owners: list[Owner], description: bytes) -> list[str]:
    data = Draft(base + ".data")
    try:
        meta = Draft(base + ".meta")
        try:
            names = [owner.name for owner in owners]
            broken = write_blocks(data.file, owners, names)
            meta.file.write(description)
            data.finish()
            meta.finish()
            with Uninterrupted():
                _remove_unless(meta.target, description)
                data.publish()
                meta.publish()
        finally:
            meta.discard()
    finally:
        data.discard()
    return broken


def _remove_unless(path: str, content: bytes) -> None:
    """Remove a file with another content.

    Old ``.meta`` and new ``.data`` must not be found together: no crash then leaves
    objects with the numbers of others.
    """
    if not PROCESS.writes_files:
        return
    try:
        with open(path, "rb") as file:
            if file.read() == content:
                return
        os.unlink(path)
        sync_folder(path)
    except FileNotFoundError:
        pass


_trusts = False


def trust_by_default() -> None:
    """Let `load` trust every file, as ``--dynet-trust`` asks."""
    global _trusts
    _trusts = True


class _Entry(NamedTuple):
    """What ``.meta`` tells of one object; `kind` is a str and `spec` no spec for
    parameters."""

    kind: str | type[Any]
    spec: Any
    key: str


def load(
    basename: FilePath, params: ParameterCollection, *, trust: bool = False
) -> list[Any]:
    """The objects that `save` has written, made again in the collection `params`.

    Parameters keep the full names they had; what builders and users' classes make is
    named anew. A class must be imported under the name it had when it was saved.

    A spec may have objects of the program's own classes: those of ``__main__`` and of
    imported modules that lie beneath the folder of the program or the current one. They
    are made without ``__init__``, and get the attributes that they had. If their class
    has a ``__setstate__``, it is called. Of other classes, only what `collections` has
    is made; operations go by their names. What this very process has saved, or the one
    that started it as a worker, is read in full.

    Args:
        basename: name of the files, without the suffix.
        params: gets the objects.
        trust: read ``.meta`` as `pickle` does: what stands in the file is imported and
            called. Only for files whose writer you know. ``--dynet-trust`` on the
            command line of a program says so for all its files.
    Raises:
        FileNotFoundError: there is no ``.meta``.
        pickle.UnpicklingError: it is damaged, or names what is not known. Unless you
            trust it, a file makes nothing run but ``from_spec`` and ``__setstate__``,
            and the methods by which keys of a dict are compared.
        RuntimeError: ``.data`` cannot be read, is damaged or does not fit. In all these
            cases, and if a ``from_spec`` raises, nothing stays in `params`. Sizes that
            ``.data`` cannot have are refused before memory is taken for them.
        TypeError: `params` is no collection.
    Warns:
        RuntimeWarning: a builder computes with parameters outside its collection, and
            the files have none of them, for DyNet does not save those.
    Examples:
        >>> m = dy.ParameterCollection()
        >>> W, gru = m.add_parameters((2, 8), name="W"), dy.GRUBuilder(1, 4, 8, m)
        >>> dy.save("model", [W, gru])
        >>> other = dy.ParameterCollection()
        >>> V, again = dy.load("model", other)
        >>> print(V.name(), np.array_equal(V.as_array(), W.as_array()))
        /W True
        >>> print(again.whoami(), again.spec == gru.spec)
        GRUBuilder True
    """
    _require_collection(params)
    with all_or_nothing(params):
        return list(_load(basename, params, trust))


def load_generator(
    basename: FilePath, params: ParameterCollection, *, trust: bool = False
) -> Iterator[Any]:
    """As `load`, one object after the other, each when it is asked for.

    Errors come with the object they are about, those of the files with the first one.

    Examples:
        >>> m = dy.ParameterCollection()
        >>> dy.save("model", [m.add_parameters((2, 3)), m.add_parameters(2)])
        >>> for p in dy.load_generator("model", dy.ParameterCollection()):
        ...     print(p.name(), p.shape())
        /_0 (2, 3)
        /_1 (2,)
    """
    _require_collection(params)
    yield from _load(basename, params, trust)


def _load(
    basename: FilePath, params: ParameterCollection, trust: bool
) -> Iterator[Any]:
    base = as_path("load", basename)
    with open(base + ".meta", "rb") as meta:
        data = meta.read()
    trust = trust or _trusts
    if trust or is_signed(data):
        values = unpickle_all(data)
    else:
        values = loads_all(data, find_part, is_own)
    entries = [_entry(value) for value in values]
    if not entries:
        return
    with TextFile(base + ".data") as file:
        blocks = _Blocks(file, limited=not trust)
        blocks.require(entries)
        for number, entry in enumerate(entries, 1):
            with all_or_nothing(params):
                thing = _make(entry, blocks, params, entries[number:])
            yield thing


def _entry(value: Any) -> _Entry:
    if type(value) is tuple and len(value) in (2, 3):
        kind, key = value[0], value[-1]
        known = kind in _KINDS.values() if len(value) == 2 else can_be_saved(kind)
        if known and isinstance(key, str):
            return _Entry(kind, value[1], key)
    raise pickle.UnpicklingError(
        error_text(
            "load: the .meta file has other pickles than save writes",
            got=reprlib.repr(value),
            expected="('Parameters', name), ('LookupParameters', name) or"
            " (class, spec, name)",
            fix="give the name of a file that save has written",
        )
    )


class _Blocks:
    """The blocks of ``.data``, taken one object after the other.

    Two objects may have the same names: as long as they come in the order they were
    saved in, each gets its own.
    """

    def __init__(self, file: TextFile, *, limited: bool):
        self.file = file
        self._headers = list(file.headers())
        self._next = 0
        self.room: Room | None = Room(file.path, self._headers) if limited else None

    def require(self, entries: Sequence[_Entry]) -> None:
        """Raise RuntimeError unless all parameters of `entries` are there."""
        there = {(header.is_table, header.key) for header in self._headers}
        for entry in entries:
            if (
                isinstance(entry.kind, str)
                and (_is_table(entry), entry.key) not in there
            ):
                find(self.file, entry.key, is_table=_is_table(entry))

    def take(self, key: str, *, is_table: bool) -> Header:
        """The block of a parameter or of a table."""
        for header in self._headers[self._next : self._next + 1]:
            if header.key == key and header.is_table == is_table:
                self._next += 1
                return header
        return find(self.file, key, is_table=is_table)

    def take_all(self, prefix: str, count: int) -> list[Header]:
        """The blocks of a collection of `count` parameters and tables."""
        blocks = self._headers[self._next : self._next + count]
        if len(blocks) == count and all(h.key.startswith(prefix) for h in blocks):
            self._next += count
            return blocks
        return [h for h in self._headers if h.key.startswith(prefix)]

    def take_outside(self, count: int, later: Sequence[_Entry]) -> list[Header]:
        """The next blocks, unless they belong to `later` objects."""
        blocks = self._headers[self._next : self._next + count]
        left = Counter(header.key for header in self._headers[self._next :])
        left.subtract(entry.key for entry in later if isinstance(entry.kind, str))
        of_others = tuple(e.key for e in later if not isinstance(e.kind, str))
        free = [
            h for h in blocks if left[h.key] > 0 and not h.key.startswith(of_others)
        ]
        if len(free) < count:
            return []
        self._next += count
        return blocks


def _is_table(entry: _Entry) -> bool:
    return entry.kind == "LookupParameters"


def _make(
    entry: _Entry,
    blocks: _Blocks,
    params: ParameterCollection,
    later: Sequence[_Entry],
) -> Any:
    if isinstance(entry.kind, str):
        header = blocks.take(entry.key, is_table=_is_table(entry))
        return adopt(params, read(blocks.file, header))
    thing = _made_again(entry.kind, entry.spec, params, blocks.room)
    owners = storages(thing.param_collection())
    headers = blocks.take_all(entry.key, len(owners))
    fill(blocks.file, headers, owners)
    others = _outside(thing)
    headers = blocks.take_outside(len(others), later)
    if headers:
        fill(blocks.file, headers, others)
    elif others:
        _warn_of_missing(thing, others)
    return thing


def _made_again(
    kind: type[Any], spec: Any, params: ParameterCollection, room: Room | None
) -> Any:
    """A builder or an object of a user's class, without its numbers."""
    try:
        with limited(params, room):
            return kind.from_spec(spec, params)
    except Exception as error:
        error.add_note(f"in load, of {kind.__qualname__} with {reprlib.repr(spec)}")
        raise


def _warn_of_missing(thing: RNNBuilder, others: list[Owner]) -> None:
    warnings.warn(
        error_text(
            f"load: {thing.whoami()} has parameters outside its collection,"
            " which the files lack",
            got=", ".join(owner.name for owner in others),
            expected="a pair that dynetjax has written; DyNet leaves them out",
            fix="set their values, or populate the outer collection from its own file",
        ),
        RuntimeWarning,
        stacklevel=5,
    )


def _require_collection(params: Any) -> None:
    if not isinstance(params, ParameterCollection):
        raise TypeError(
            error_text(
                "load: params is no collection",
                got=f"{params!r} ({type(params).__name__})",
                expected="a ParameterCollection to add the objects to",
                fix="dy.load(basename, dy.ParameterCollection())",
            )
        )
