"""Pickles, written in full, and read safely as far as they have plain data.

Plain data is None, bool, int, float, str, bytes, and tuples, lists, dicts and sets of
it. Any unpickler reads what is written here. No unpickler reads a file here: opcodes
that make plain data are carried out, and all others refused, so that a file names no
class but those that its reader knows.

A reader may allow objects of some classes. Such an object is made by the ``__new__`` of
the container that it is, or of `object`, and its attributes are set. Of the methods of
its class, only ``__setstate__`` is called, and what Python calls for keys.
"""

import inspect
import io
import pickle
import pickletools
import reprlib
import struct
import sys
from collections import Counter, OrderedDict, defaultdict, deque
from collections.abc import Callable
from types import FunctionType, MemberDescriptorType, NoneType, UnionType
from typing import Any, ClassVar

import numpy as np

from dynetjax.core.errors import error_text
from dynetjax.native import core

FindClass = Callable[[str, str], Any]
NameOf = Callable[[Any, str | None], tuple[str, str]]
MayMake = Callable[[type], bool]

_DEEPEST = 100  # tuples in tuples: their hash recurses in C
_MOST_TUPLES = 1 << 22  # that a hash goes through: a few bytes can make 2**100 of them
PROTOCOL = 4


def dumps(value: Any, name_of: NameOf) -> bytes:
    """A pickle of protocol 4.

    Args:
        value: what `pickle` can write; NumPy scalars become Python's numbers.
        name_of: module and qualified name that a class or a function goes by; the
            second argument is the name that it is known to have, or None.
    Raises:
        pickle.PicklingError: there is something else in it.
        RecursionError: it is too deep.
    """
    stream = io.BytesIO()
    try:
        _Pickler(stream, name_of).dump(value)
    except (AttributeError, TypeError, ValueError) as error:
        raise pickle.PicklingError(
            error_text(
                "save: spec has what no pickle can hold",
                got=error,
                expected="data, classes, functions of modules, and objects of them",
                fix="put what describes it into spec, and make it in from_spec",
            )
        ) from error
    return stream.getvalue()


# The one in C writes no names of our choice.
_PythonPickler: Any = pickle._Pickler


class _Pickler(_PythonPickler):
    """Writes names that `name_of` gives, and numbers for NumPy's scalars."""

    def __init__(self, file: io.BytesIO, name_of: NameOf):
        super().__init__(file, PROTOCOL)
        self._name_of = name_of

    def save(self, obj: Any, save_persistent_id: bool = True) -> None:
        if isinstance(obj, np.generic) and obj.dtype.kind in "biufcSU":
            obj = obj.item()
        super().save(obj, save_persistent_id)

    def save_global(self, obj: Any, name: str | None = None) -> None:
        for part in self._name_of(obj, name):
            self.save(part)
        self.write(pickle.STACK_GLOBAL)
        self.memoize(obj)

    dispatch: ClassVar[dict[type, Any]] = {
        **_PythonPickler.dispatch,
        FunctionType: save_global,
        core.Function: save_global,
    }


def _no_objects(kind: type[Any]) -> bool:
    return False


def loads_all(
    data: bytes, find_class: FindClass, may_make: MayMake = _no_objects
) -> list[Any]:
    """The values of pickles that stand one after the other.

    Args:
        data: all of them.
        find_class: the class of a module and a qualified name, or an error.
        may_make: whether objects of a class may be made; its ``__setstate__`` is
            called, if it has one.
    Raises:
        pickle.UnpicklingError: they are damaged, or have more than plain data and such
            objects.
    """
    stream, values = io.BytesIO(data), []
    while stream.tell() < len(data):
        values.append(_load(stream, _Machine(find_class, may_make)))
    return values


def _load(stream: io.BytesIO, machine: "_Machine") -> Any:
    try:
        for opcode, argument, _ in pickletools.genops(stream):
            machine.run(opcode.name, argument)
        return machine.result()
    except (
        AttributeError,
        IndexError,
        KeyError,
        TypeError,
        ValueError,
        struct.error,
    ) as error:
        raise _refusal(f"{type(error).__name__}: {error}") from error


def _refusal(got: str) -> pickle.UnpicklingError:
    return pickle.UnpicklingError(
        error_text(
            "load: the pickle is damaged, or has more than classes and plain data",
            got=got,
            expected="plain data, classes, and objects of the program's own classes",
            fix="dy.load(..., trust=True), if you know who wrote the file",
        )
    )


_MARK = object()
_PUSH = frozenset(
    [
        *("INT", "BININT", "BININT1", "BININT2", "LONG", "LONG1", "LONG4"),
        *("FLOAT", "BINFLOAT", "STRING", "BINSTRING", "SHORT_BINSTRING"),
        *("UNICODE", "SHORT_BINUNICODE", "BINUNICODE", "BINUNICODE8"),
        *("SHORT_BINBYTES", "BINBYTES", "BINBYTES8"),
    ]
)
_CONSTANTS = {"NONE": None, "NEWTRUE": True, "NEWFALSE": False, "MARK": _MARK}
_EMPTY: dict[str, type[Any]] = {
    "EMPTY_TUPLE": tuple,
    "EMPTY_LIST": list,
    "EMPTY_DICT": dict,
    "EMPTY_SET": set,
}
_SHORT_TUPLES = {"TUPLE1": 1, "TUPLE2": 2, "TUPLE3": 3}
_IGNORED = frozenset(["PROTO", "FRAME", "STOP"])


# How a container is made from the arguments that its ``__reduce__`` gives. None of them
# calls a method of a subclass.
_FILLS: dict[type[Any], Callable[..., None]] = {
    Counter: dict.__init__,
    OrderedDict: lambda made: None,
    defaultdict: defaultdict.__init__,
    deque: deque.__init__,
    set: set.__init__,
}
_BASES = (*_FILLS, dict, list, object)
# What objects may be made of besides those that the reader allows, and what a
# defaultdict may call.
CONTAINERS: tuple[type[Any], ...] = tuple(_FILLS)
FACTORIES: tuple[type[Any], ...] = (
    *CONTAINERS,
    *(bool, bytes, dict, float, int, list, str, tuple),
)
_ARGUMENTS = frozenset([NoneType, dict, int, list, tuple])


def _is_one_of(value: object, kinds: tuple[type[Any], ...]) -> bool:
    """As `in`, and calls no ``__eq__``."""
    return any(value is kind for kind in kinds)


def _base(kind: type[Any]) -> Any:
    """The container that objects of a class are, or `object`."""
    return next(k for k in kind.__mro__ if _is_one_of(k, _BASES))


def _require_no_hooks(kind: type[Any], base: type[Any]) -> None:
    """Refuse classes whose objects are not made of attributes and items alone."""
    for name in ("__new__", "__del__", "__reduce__", "__reduce_ex__"):
        if _static(kind, name) is not _static(base, name):
            raise ValueError(f"an object of {_full_name(kind)}, which has a {name}")


def _static(kind: type[Any], name: str) -> Any:
    """An attribute or None; nothing runs to find it."""
    return inspect.getattr_static(kind, name, None)


def _full_name(kind: type[Any]) -> str:
    return f"{kind.__module__}.{kind.__qualname__}"


class _Machine:
    """Carries out the opcodes of one pickle."""

    def __init__(self, find_class: FindClass, may_make: MayMake):
        self._find_class = find_class
        self._may_make = may_make
        self._stack: list[Any] = []
        self._memo: dict[int, Any] = {}
        # Of tuples, by id: how deep they are, and how many are in them.
        self._sizes: dict[int, tuple[int, int]] = {}

    def result(self) -> Any:
        value = self._pop()
        if self._stack:
            raise ValueError("more than one value")
        return value

    def run(self, name: str, argument: Any) -> None:
        """Carry out one opcode, named as in `pickletools`."""
        push = self._stack.append
        if name in _PUSH:
            push(argument)
        elif name in _CONSTANTS:
            push(_CONSTANTS[name])
        elif name in _EMPTY:
            push(_EMPTY[name]())
        elif name in _SHORT_TUPLES:
            items = [self._pop() for _ in range(_SHORT_TUPLES[name])]
            self._push_tuple(items[::-1])
        elif name in ("PUT", "BINPUT", "LONG_BINPUT"):
            self._memo[argument] = self._top(object)
        elif name == "MEMOIZE":
            self._memo[len(self._memo)] = self._top(object)
        elif name in ("GET", "BINGET", "LONG_BINGET"):
            push(self._memo[argument])
        elif name == "GLOBAL":
            module, _, qualified = argument.partition(" ")
            push(self._find_class(module, qualified))
        elif name == "STACK_GLOBAL":
            qualified, module = self._pop(str), self._pop(str)
            push(self._find_class(module, qualified))
        elif name == "POP":
            self._stack.pop()
        elif name in ("NEWOBJ", "REDUCE"):
            args, kind = self._pop(tuple), self._pop(type)
            push(self._make(kind, args, is_call=name == "REDUCE"))
        elif name == "NEWOBJ_EX":
            kind = self._stack[-3]
            raise ValueError(f"an object of {_full_name(kind)} made from arguments")
        elif name == "BUILD":
            state = self._pop()
            self._set_state(self._top(object), state)
        elif name not in _IGNORED:
            self._collect(name)

    def _make(self, kind: type[Any], args: tuple[Any, ...], *, is_call: bool) -> Any:
        """An object without attributes; a call has the arguments of a container."""
        self._require_allowed(kind)
        base = _base(kind)
        _require_no_hooks(kind, base)
        if args if not is_call else base not in _FILLS:
            raise ValueError(f"an object of {_full_name(kind)} made from arguments")
        for value in args:
            if type(value) not in _ARGUMENTS and not _is_one_of(value, FACTORIES):
                raise ValueError(f"a {_full_name(kind)} of {reprlib.repr(value)}")
        made = base.__new__(kind)
        if is_call:
            _FILLS[base](made, *args)
        return made

    def _require_allowed(self, kind: type[Any]) -> None:
        if not _is_one_of(kind, CONTAINERS):
            self._require_own(kind)

    def _require_own(self, kind: type[Any]) -> None:
        if not self._may_make(kind):
            raise ValueError(f"an object of {_full_name(kind)}")

    def _set_state(self, thing: Any, state: Any) -> None:
        """Set the attributes of an object, or let its class do so."""
        kind = type(thing)
        if isinstance(thing, type):
            raise ValueError(f"attributes of the class {_full_name(thing)}")
        self._require_allowed(kind)
        owners = [k for k in kind.__mro__ if _static(k, "__setstate__") is not None]
        if owners:
            for owner in owners:
                self._require_own(owner)
            thing.__setstate__(state)
            return
        attributes, slots = state if type(state) is tuple else (state, None)
        if {type(attributes), type(slots)} - {dict, NoneType}:
            raise ValueError(f"attributes {reprlib.repr(state)}")
        if attributes:
            own = object.__getattribute__(thing, "__dict__")
            own.update({sys.intern(name): x for name, x in attributes.items()})
        for name, value in (slots or {}).items():
            member = inspect.getattr_static(kind, name)
            if type(member) is not MemberDescriptorType:
                raise ValueError(f"{name}, which is no slot of {_full_name(kind)}")
            self._require_own(member.__objclass__)
            member.__set__(thing, value)

    def _collect(self, name: str) -> None:
        """The opcodes that put items into containers."""
        if name == "TUPLE":
            self._push_tuple(self._since_mark())
        elif name == "FROZENSET":
            self._stack.append(frozenset(self._since_mark()))
        elif name == "POP_MARK":
            self._since_mark()
        elif name == "LIST":
            self._stack.append(self._since_mark())
        elif name == "DICT":
            items = self._since_mark()
            self._stack.append(dict(zip(items[::2], items[1::2], strict=True)))
        elif name == "APPEND":
            item = self._pop()
            thing, base = self._container(list | deque)
            base.append(thing, item)
        elif name == "APPENDS":
            items = self._since_mark()
            thing, base = self._container(list | deque)
            base.extend(thing, items)
        elif name == "SETITEM":
            item, key = self._pop(), self._pop()
            thing, base = self._container(dict)
            base.__setitem__(thing, key, item)
        elif name == "SETITEMS":
            items = self._since_mark()
            thing, base = self._container(dict)
            for key, item in zip(items[::2], items[1::2], strict=True):
                base.__setitem__(thing, key, item)
        elif name == "ADDITEMS":
            items = self._since_mark()
            thing, base = self._container(set)
            base.update(thing, items)
        else:
            raise ValueError(f"the opcode {name}")

    def _container(self, kind: type[Any] | UnionType) -> tuple[Any, Any]:
        """The top, and the class whose methods put items into it."""
        thing = self._top(kind)
        return thing, _base(type(thing))

    def _pop(self, kind: type[Any] = object) -> Any:
        value = self._top(kind)
        self._stack.pop()
        return value

    def _top(self, kind: type[Any] | UnionType) -> Any:
        value = self._stack[-1]
        if value is _MARK or not isinstance(value, kind):
            raise ValueError(
                f"no {getattr(kind, '__name__', kind)} where one is needed"
            )
        return value

    def _since_mark(self) -> list[Any]:
        stack = self._stack
        at = len(stack) - 1
        while stack[at] is not _MARK:
            at -= 1
            if at < 0:
                raise ValueError("no mark")
        items = stack[at + 1 :]
        del stack[at:]
        return items

    def _push_tuple(self, items: list[Any]) -> None:
        sizes = [self._sizes[id(x)] for x in items if type(x) is tuple and x]
        depth = 1 + max((depth for depth, _ in sizes), default=0)
        count = 1 + sum(count for _, count in sizes)
        if depth > _DEEPEST:
            raise ValueError(f"tuples more than {_DEEPEST} deep")
        if count > _MOST_TUPLES:
            raise ValueError(f"more than {_MOST_TUPLES} tuples in a tuple")
        made = tuple(items)
        self._sizes[id(made)] = depth, count
        self._stack.append(made)
