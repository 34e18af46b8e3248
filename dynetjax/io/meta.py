"""Pickles of plain data and of the names of classes, written and read safely.

Plain data is None, bool, int, float, str, bytes, and tuples, lists, dicts and sets of
it. What is written any unpickler reads. What is read is not given to one: opcodes that
make plain data are carried out here, and all others refused, so that a file runs no
code and names no class but those that its reader knows.
"""

import io
import pickle
import pickletools
import reprlib
import struct
from collections.abc import Callable
from typing import Any

import numpy as np

from dynetjax.errors import explain

FindClass = Callable[[str, str], type]
NameOf = Callable[[type], tuple[str, str]]

_DEEPEST = 100  # tuples in tuples: their hash recurses in C


def dumps(value: Any, name_of: NameOf) -> bytes:
    """A pickle of protocol 4.

    Args:
        value: plain data, in which classes and NumPy scalars may stand; these become
            Python's numbers.
        name_of: module and qualified name that a class goes by.
    Raises:
        pickle.PicklingError: there is something else in it.
    """
    return b"\x80\x04" + _encode(value, name_of, 0) + b"."


def _encode(value: Any, name_of: NameOf, depth: int) -> bytes:
    if isinstance(value, np.generic):
        value = value.item()
    if value is None:
        return b"N"
    kind = type(value)
    if kind in _SIMPLE:
        return _SIMPLE[kind](value)
    if isinstance(value, type):
        module, name = name_of(value)
        return _text(module) + _text(name) + b"\x93"
    if kind not in _CONTAINERS or depth == _DEEPEST:
        raise pickle.PicklingError(
            explain(
                "save: spec is not plain data",
                got=f"{reprlib.repr(value)} ({kind.__name__}), {depth} levels deep",
                expected="None, bool, int, float, str, bytes; tuples, lists, dicts and"
                f" sets of them, at most {_DEEPEST} deep; classes",
                fix="put what describes it into spec, and make it in from_spec",
            )
        )
    first, last = _CONTAINERS[kind]
    items = [x for pair in value.items() for x in pair] if kind is dict else value
    parts = [_encode(item, name_of, depth + 1) for item in items]
    return b"".join([first, *parts, last])


def _number(value: int) -> bytes:
    if -(2**31) <= value < 2**31:
        return b"J" + struct.pack("<i", value)
    digits = pickle.encode_long(value)
    return b"\x8b" + struct.pack("<i", len(digits)) + digits


def _text(value: str) -> bytes:
    encoded = value.encode("utf-8", "surrogatepass")
    return b"X" + struct.pack("<I", len(encoded)) + encoded


_SIMPLE: dict[type, Callable[[Any], bytes]] = {
    bool: lambda value: b"\x88" if value else b"\x89",
    int: _number,
    float: lambda value: b"G" + struct.pack(">d", value),
    str: _text,
    bytes: lambda value: b"B" + struct.pack("<I", len(value)) + value,
}
_CONTAINERS: dict[type, tuple[bytes, bytes]] = {
    tuple: (b"(", b"t"),
    list: (b"](", b"e"),
    dict: (b"}(", b"u"),
    set: (b"\x8f(", b"\x90"),
}


def loads_all(data: bytes, find_class: FindClass) -> list[Any]:
    """The values of pickles that stand one after the other.

    Args:
        data: all of them.
        find_class: the class of a module and a qualified name, or an error; nothing
            else is ever called.
    Raises:
        pickle.UnpicklingError: they are damaged, or have more than plain data.
    """
    stream, values = io.BytesIO(data), []
    while stream.tell() < len(data):
        values.append(_load(stream, find_class))
    return values


def _load(stream: io.BytesIO, find_class: FindClass) -> Any:
    machine = _Machine(find_class)
    try:
        for opcode, argument, _ in pickletools.genops(stream):
            machine.run(opcode.name, argument)
        return machine.result()
    except (ValueError, KeyError, IndexError, TypeError, struct.error) as error:
        raise _refusal(f"{type(error).__name__}: {error}") from None


def _refusal(got: str) -> pickle.UnpicklingError:
    return pickle.UnpicklingError(
        explain(
            "load: the pickle is damaged, or has more than classes and plain data",
            got=got,
            expected="what save writes",
            fix="save the model again, with plain data as spec; if it is not yours, do"
            " not load it with other tools",
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
_EMPTY: dict[str, type] = {
    "EMPTY_TUPLE": tuple,
    "EMPTY_LIST": list,
    "EMPTY_DICT": dict,
    "EMPTY_SET": set,
}
_SHORT_TUPLES = {"TUPLE1": 1, "TUPLE2": 2, "TUPLE3": 3}
_IGNORED = frozenset(["PROTO", "FRAME", "STOP"])


class _Machine:
    """Carries out the opcodes of one pickle."""

    def __init__(self, find_class: FindClass):
        self._find_class = find_class
        self._stack: list[Any] = []
        self._memo: dict[int, Any] = {}
        self._depths: dict[int, int] = {}  # of tuples, by id

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
        elif name not in _IGNORED:
            self._collect(name)

    def _collect(self, name: str) -> None:
        """The opcodes that put items into containers."""
        if name == "TUPLE":
            self._push_tuple(self._since_mark())
        elif name == "LIST":
            self._stack.append(self._since_mark())
        elif name == "DICT":
            self._stack.append(_pairs(self._since_mark()))
        elif name == "APPEND":
            item = self._pop()
            self._top(list).append(item)
        elif name == "APPENDS":
            items = self._since_mark()
            self._top(list).extend(items)
        elif name == "SETITEM":
            item, key = self._pop(), self._pop()
            self._top(dict)[key] = item
        elif name == "SETITEMS":
            items = self._since_mark()
            self._top(dict).update(_pairs(items))
        elif name == "ADDITEMS":
            items = self._since_mark()
            self._top(set).update(items)
        else:
            raise ValueError(f"the opcode {name}")

    def _pop(self, kind: type = object) -> Any:
        value = self._top(kind)
        self._stack.pop()
        return value

    def _top(self, kind: type) -> Any:
        value = self._stack[-1]
        if value is _MARK or not isinstance(value, kind):
            raise ValueError(f"no {kind.__name__} where one is needed")
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
        depths = [self._depths[id(x)] for x in items if type(x) is tuple and x]
        depth = 1 + max(depths, default=0)
        if depth > _DEEPEST:
            raise ValueError(f"tuples more than {_DEEPEST} deep")
        made = tuple(items)
        self._depths[id(made)] = depth
        self._stack.append(made)


def _pairs(items: list[Any]) -> dict[Any, Any]:
    return dict(zip(items[::2], items[1::2], strict=True))
