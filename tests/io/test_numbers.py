"""Digits of float32 numbers, against Python's formatting and the C library's parser."""

import ctypes
import re

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from dynetjax.io.numbers import PIECE, WIDTH, decode, encode, parse

strtof = ctypes.CDLL(None).strtof
strtof.restype, strtof.argtypes = ctypes.c_float, [ctypes.c_char_p, ctypes.c_void_p]

GOOD = b"+1.23456789e-05 "


def text_of(values):
    return b"".join(map(bytes, encode(values)))


def as_python_writes(values):
    return "".join(f"{v:+.8e} " for v in values.tolist()).encode()


def bits(values):
    return values.view(np.uint32)


def patterns(count, *, low=0, high=2**32, keep=0xFFFFFFFF):
    """Finite numbers with random bits."""
    rng = np.random.default_rng(7)
    found = rng.integers(low, high, count, dtype=np.uint32) & np.uint32(keep)
    found = found.view(np.float32)
    return found[np.isfinite(found)]


def neighbours(values, distance):
    """The finite numbers at most `distance` steps from `values`."""
    around = bits(values).astype(np.int64)[:, None] + np.arange(-distance, distance + 1)
    found = around.clip(0, 2**31 - 1).astype(np.uint32).view(np.float32).ravel()
    return found[np.isfinite(found)]


TENS = np.array([float(f"1e{k}") for k in range(-45, 39)], np.float32)
POWERS = np.ldexp(np.float32(1), np.arange(-149, 128)).astype(np.float32)
VALUES = {
    "any": patterns(300_000),
    "denormal": patterns(50_000, low=1, high=2**23),
    "short": patterns(200_000, keep=0xFFFF0000),  # of bfloat16: ties abound
    "powers of ten": neighbours(TENS, 40),
    "powers of two": np.concatenate([POWERS, -POWERS]),
    "ties": np.float32(1) + np.arange(1, 4096, dtype=np.float32) / np.float32(2**12),
    "large ties": np.arange(1, 20_000, dtype=np.float32) * np.float32(5e9),
    "zeros and ends": np.array(
        [0, -0.0, 1, 9.99999999, np.finfo(np.float32).max, 2**-149], np.float32
    ),
    "several pieces": np.arange(PIECE + 3, dtype=np.float32),
    "none": np.zeros(0, np.float32),
}


@pytest.mark.parametrize("values", VALUES.values(), ids=VALUES)
class TestEveryNumber:
    def test_digits(self, values):
        """Those of Python, which rounds exactly."""
        assert text_of(values) == as_python_writes(values)

    def test_read_back(self, values):
        found = np.empty_like(values)
        assert decode(text_of(values), found)
        np.testing.assert_array_equal(bits(found), bits(values))


def test_not_finite():
    """Python writes no sign of a NaN; DyNet does."""
    values = np.array([np.nan, np.copysign(np.nan, -1), np.inf, -np.inf, 1], np.float32)
    assert text_of(values) == b"+nan -nan +inf -inf +1.00000000e+00 "


class TestDecode:
    def test_numbers_nobody_writes(self):
        """Nine digits that no float32 has, out to numbers that become 0."""
        rng = np.random.default_rng(3)
        texts = [
            f"{'+-'[rng.integers(2)]}{rng.integers(10)}.{rng.integers(10**8):08d}"
            f"e{rng.integers(-60, 38):+03d} ".encode()
            for _ in range(20_000)
        ]
        found = np.empty(len(texts), np.float32)
        assert decode(b"".join(texts), found)
        expected = np.array([strtof(text, None) for text in texts], np.float32)
        np.testing.assert_array_equal(bits(found), bits(expected))

    def test_near_the_middle_of_two(self):
        """The digits decide where float64 cannot."""
        texts = [b"+1.67772170e+07 ", b"+1.67772190e+07 ", b"-1.67772210e+07 "]
        found = np.empty(3, np.float32)
        assert decode(b"".join(texts), found)
        assert found.tolist() == [16777216, 16777220, -16777220]

    @pytest.mark.parametrize("place", range(WIDTH))
    def test_every_other_byte(self, place):
        """What is not of the layout is refused, whichever byte it is."""
        found = np.empty(1, np.float32)
        for byte in range(256):
            text = GOOD[:place] + bytes([byte]) + GOOD[place + 1 :]
            right = re.fullmatch(rb"[+-]\d\.\d{8}e[+-]\d\d ", text)
            assert decode(text, found) == bool(right), text
            if right:
                assert found[0] == np.float32(strtof(text, None)), text

    def test_out_of_range(self):
        assert not decode(b"+3.50000000e+38 ", np.empty(1, np.float32))


class TestParse:
    @settings(deadline=None)
    @given(st.lists(st.floats(width=32, allow_nan=False, allow_infinity=False)))
    def test_shortest_digits(self, numbers):
        values = np.array(numbers, np.float32)
        found = np.empty_like(values)
        parse(" ".join(map(repr, numbers)).encode(), found)
        np.testing.assert_array_equal(bits(found), bits(values))

    def test_what_streams_accept(self):
        tokens = [b"1", b"-.5", b"5.", b"1e3", b"+2E-3", b"00", b"7e-46", b"7.1e-46"]
        tokens += [b"16777217", b"1.00000005960464477539062500001", b"1e-400"]
        found = np.empty(len(tokens), np.float32)
        parse(b" \t" + b"\r\n ".join(tokens), found)
        assert found.tolist() == [strtof(token, None) for token in tokens]

    @pytest.mark.parametrize(
        ("text", "message"),
        [
            (b"1", "1 numbers"),
            (b"1 2 3", "3 numbers"),
            (b"1 nan", r"'nan', which is no number"),
            (b"-inf 2", r"'-inf', which is no number"),
            (b"1 2_0", r"'2_0', which is no number"),
            (b"1 2-3", r"'2-3', which is no number"),
            (b"1 1e39", r"'1e39', which is out of range"),
            (b"1 0x10", r"'0x10', which is no number"),
            (b"1 " + b"x" * 100, r"'x{40}...', which is no number"),
        ],
        ids=repr,
    )
    def test_refused(self, text, message):
        with pytest.raises(ValueError, match=message):
            parse(text, np.empty(2, np.float32))
