"""Pickles of plain data: what Python's own pickle makes of ours, and we of its."""

import io
import os
import pickle
import struct
import sys
import threading

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from dynetjax.io.meta import dumps, loads_all


class Known:
    """The only class that the file may name."""


class Elsewhere:
    def __reduce__(self):
        return os.system, ("touch /tmp/hacked",)


def name_of(kind, name=None):
    return "tests", kind.__name__


def find_class(module, name):
    if (module, name) == ("tests", "Known"):
        return Known
    raise pickle.UnpicklingError(f"unknown: {module}.{name}")


class Unpickler(pickle.Unpickler):
    find_class = staticmethod(find_class)


SCALARS = (
    st.none()
    | st.booleans()
    | st.integers()
    | st.floats(allow_nan=False)
    | st.text()
    | st.binary()
)
KEYS = st.recursive(
    SCALARS,
    lambda inner: st.lists(inner).map(tuple) | st.frozensets(inner),
    max_leaves=5,
)
PLAIN = st.recursive(
    KEYS,
    lambda inner: (
        st.lists(inner)
        | st.lists(inner).map(tuple)
        | st.dictionaries(KEYS, inner)
        | st.sets(KEYS)
    ),
    max_leaves=20,
)


def load(data):
    return loads_all(data, find_class)


def shared():
    """The same objects at several places."""
    inner = ("x" * 300, [1.5])
    return [inner, (inner, inner), {"a": inner[1], 2: inner}, inner[1]]


few = settings(deadline=None, max_examples=40)


class TestRoundTrip:
    @few
    @given(PLAIN)
    def test_python_reads_ours(self, value):
        assert pickle.loads(dumps(value, name_of)) == value

    @pytest.mark.parametrize("protocol", range(pickle.HIGHEST_PROTOCOL + 1))
    @few
    @given(PLAIN)
    def test_we_read_pythons(self, protocol, value):
        """Before protocol 4, bytes and sets were calls of functions."""
        data = pickle.dumps(value, protocol)
        if protocol < 4 and any(s in data for s in (b"_codecs", b"set", b"bytes")):
            return
        assert load(data) == [value]

    @pytest.mark.parametrize("protocol", range(pickle.HIGHEST_PROTOCOL + 1))
    def test_shared(self, protocol):
        (found,) = load(pickle.dumps(shared(), protocol))
        assert found == shared()
        assert found[0][1] is found[3]

    def test_types(self):
        """1, True and 1.0 are equal, and not the same."""
        value = [1, True, 1.0, -(2**31), 2**31, -(2**80), 0, (), [], {}, set()]
        (found,) = load(dumps(value, name_of))
        assert list(map(type, found)) == list(map(type, value))
        assert found == value

    def test_classes(self):
        value = (Known, (1, Known))
        data = dumps(value, name_of)
        assert load(data) == [value]
        assert Unpickler(io.BytesIO(data)).load() == value

    def test_numpy_scalars_become_numbers(self):
        value = [np.int64(3), np.float32(0.5), np.bool_(True), np.str_("a")]
        (found,) = load(dumps(value, name_of))
        assert found == [3, 0.5, True, "a"]
        assert list(map(type, found)) == [int, float, bool, str]

    def test_several(self):
        data = b"".join(dumps(n, name_of) for n in range(3))
        assert load(data) == [0, 1, 2]
        assert load(b"") == []


def nested(levels):
    value = ()
    for _ in range(levels):
        value = (value,)
    return value


@pytest.mark.parametrize(
    "value",
    [threading.Lock(), [{1: (x for x in "a")}], sys],
    ids=lambda value: type(value).__name__,
)
def test_not_written(value):
    with pytest.raises(pickle.PicklingError, match="save: spec has what no pickle"):
        dumps(value, name_of)


def test_written_and_not_read():
    """Objects of classes that the reader does not make are pickled in full."""
    for value in 1j, range(3), bytearray(b"x"), np.float64(3).dtype:
        data = dumps(value, lambda kind, name: (kind.__module__, kind.__name__))
        assert pickle.loads(data) == value
        with pytest.raises(pickle.UnpicklingError, match="unknown: "):
            load(data)


def test_round():
    """A tuple that holds itself, by way of a list."""
    value = ([],)
    value[0].append(value)
    (found,) = load(dumps(value, name_of))
    assert found[0][0] is found


def string(text):
    return b"\x8c" + bytes([len(text)]) + text.encode()


def stack_global(module, name):
    return string(module) + string(name) + b"\x93"


SYSTEM = stack_global("os", "system")
CALL = b"(" + string("echo hacked > hacked") + b"t"
KNOWN = stack_global("tests", "Known")
HOSTILE = {
    "reduce": b"\x80\x04" + SYSTEM + CALL + b"R.",
    "reduce of a known class": b"\x80\x04" + KNOWN + b")R.",
    "reduce, protocol 0": b"cos\nsystem\n(S'echo hacked > hacked'\ntR.",
    "by Python": pickle.dumps(Elsewhere()),
    "newobj": b"\x80\x04" + SYSTEM + CALL + b"\x81.",
    "newobj of a known class": b"\x80\x04" + KNOWN + b")\x81.",
    "newobj_ex": b"\x80\x04" + KNOWN + b")}\x92.",
    "build": b"\x80\x04" + KNOWN + b"}" + string("x") + b"K\x01sb.",
    "inst": b"(S'echo hacked > hacked'\nios\nsystem\n.",
    "obj": b"(" + SYSTEM + string("echo hacked > hacked") + b"o.",
    "persistent id": b"Pid\n.",
    "binary persistent id": b"K\x01Q.",
    "extension": b"\x82\x01.",
    "bytearray": pickle.dumps(bytearray(b"x"), 5),
    "buffer": b"\x97.",
    "append to a class": b"\x80\x04" + KNOWN + b"K\x01a.",
    "appends to a class": b"\x80\x04" + KNOWN + b"(K\x01e.",
    "item of a class": b"\x80\x04" + KNOWN + b"K\x01K\x02s.",
    "add to a class": b"\x80\x04" + KNOWN + b"(K\x01\x90.",
    "memo bomb": b"K\x01r" + struct.pack("<I", 2**31) + b"h\x05.",
    "bytes that are not there": b"\x8e" + struct.pack("<Q", 2**60) + b"x.",
    "text that is not there": b"\x8d" + struct.pack("<Q", 2**60) + b"x.",
    "long that is not there": b"\x8b" + struct.pack("<i", 2**31 - 1) + b"x.",
    "long of negative length": b"\x8b" + struct.pack("<i", -1) + b"x.",
    "int of many digits": b"I" + b"9" * 10_000 + b"\n.",
    "deep tuples": b")" + b"\x85" * 200_000 + b".",
    "deep tuple as a key": b"})" + b"\x85" * 200_000 + b"K\x01s.",
    "hash of many tuples": b"})" + b"2\x86" * 90 + b"K\x01s.",
    "pop of nothing": b"0N.",
    "frozenset of lists": b"(]\x91.",
    "nothing": b".",
    "two values": b"NN.",
    "no end": b"N",
    "no such opcode": b"\xff",
    "a mark": b"(.",
    "no mark": b"Nt.",
    "underflow": b"\x87.",
    "unknown memo": b"h\x00.",
    "list as a key": b"}]K\x01s.",
    "odd items": b"}(K\x01u.",
    "name that is no text": b"K\x01K\x02\x93.",
    "text that is none": b"X\x01\x00\x00\x00\xff.",
    "not a pickle": b"#Parameter# /W {1} 17 ZERO_GRAD\n",
}


@pytest.mark.parametrize("data", HOSTILE.values(), ids=HOSTILE)
def test_hostile(data, tmp_path, monkeypatch):
    """Refused, and nothing has been run or imported."""
    monkeypatch.chdir(tmp_path)
    before = set(sys.modules)
    with pytest.raises(pickle.UnpicklingError, match=r"load: the pickle|unknown: "):
        load(data)
    assert not list(tmp_path.iterdir())
    assert set(sys.modules) == before


def test_frame_of_any_length():
    """Its length says how much to read ahead; nothing is read ahead here."""
    data = b"\x80\x04\x95" + struct.pack("<Q", 2**60) + b"K\x07."
    assert load(data) == [7]


def test_great_memo_index():
    """An index is a name, not a place."""
    index = struct.pack("<I", 2**31)
    assert load(b"K\x07r" + index + b"j" + index + b"\x86.") == [(7, 7)]
