"""float32 numbers as DyNet's text files have them, both ways, many at a time.

A number takes 16 bytes, ``+1.00000000e+00`` and a space: what C's ``%+.8e`` prints.
Nine significant digits bring every float32 back exactly. The arithmetic is float64, on
pieces that fit a cache; where its rounding could matter, exact conversions decide.
"""

import re
from collections.abc import Callable, Iterator
from fractions import Fraction
from functools import partial
from itertools import filterfalse, islice, product

import numpy as np

WIDTH = 16
PIECE = 1 << 14  # numbers at a time

_LOWEST, _HIGHEST = -45, 38  # exponents of float32, denormals included


def _word(text: bytes) -> np.uint64:
    """8 bytes or fewer as the number that has them, the first lowest."""
    return np.uint64(int.from_bytes(text, "little"))


def _words(texts: list[str]) -> np.ndarray:
    return np.array([_word(text.encode()) for text in texts])


_TENS = np.array([float(f"1e{k}") for k in range(-110, 111)])[
    np.r_[110:221, 0:110]  # so that _TENS[k] is 10**k, for negative k too
]

# By the exponent bits of a float64: the smallest decimal exponent of its numbers, and
# the power of ten from which they have the next one.
_EXPONENT = np.floor((np.arange(2048) - 1023) * np.log10(2.0)).astype(np.int64)
_EXPONENT = _EXPONENT.clip(_LOWEST - 1, _HIGHEST)
_NEXT_TEN = _TENS[_EXPONENT + 1]

_U8, _U24, _U40, _U56 = (np.uint64(n) for n in (8, 24, 40, 56))
_HEAD = _words([f"{sign}{d}." for sign in "+-" for d in range(10)])
_FOUR = _words([f"{i:04d}" for i in range(10_000)])
_TAIL = _words([f"e{e:+03d} " for e in range(_LOWEST - 1, _HIGHEST + 2)]) << _U24


def encode(values: np.ndarray) -> Iterator[bytes | memoryview]:
    """The text of a float32 vector, in pieces.

    What is not finite is ``inf`` or ``nan`` with a sign and a space, shorter than the
    numbers.
    """
    for start in range(0, len(values), PIECE):
        piece = values[start : start + PIECE]
        if np.isfinite(piece).all():
            yield _encode(piece).data
        else:
            signs = np.where(np.signbit(piece), "-", "+").tolist()
            sizes = np.abs(piece).tolist()
            texts = [f"{s}{x:.8e} " for s, x in zip(signs, sizes, strict=True)]
            yield "".join(texts).encode()


def _encode(values: np.ndarray) -> np.ndarray:
    """``[n, 2]`` little-endian words, the text of n finite numbers."""
    size = np.abs(values).astype(np.float64)
    binade = size.view(np.int64) >> 52
    exponent = _EXPONENT[binade]
    exponent += size >= _NEXT_TEN[binade]
    exponent[size == 0] = 0
    shift = 8 - exponent
    scaled = size * _TENS[shift]
    digits = np.rint(scaled)
    doubtful = _may_round_otherwise(scaled, shift)
    above = digits >= 1e9
    if above.any():
        exponent += above
        digits[above] = 1e8
    text = _lay_out(np.signbit(values), digits.astype(np.int64), exponent)
    for i in np.flatnonzero(doubtful).tolist():
        text[i] = np.frombuffer(f"{values[i].item():+.8e} ".encode(), "<u8")
    return text


def _may_round_otherwise(scaled: np.ndarray, shift: np.ndarray) -> np.ndarray:
    """Where `scaled` is inexact, and as near to a tie as its error is.

    The product with 10**k, k from 0 to 12, is exact: 24 bits by 29. In all others the
    error is below 2**-20: a few parts in 2**53 of a number below 2**30.
    """
    near = np.abs(scaled - np.floor(scaled) - 0.5) < 2.0**-20
    if near.any():
        near &= (shift < 0) | (shift > 12)
    return near


def _lay_out(
    negative: np.ndarray, digits: np.ndarray, exponent: np.ndarray
) -> np.ndarray:
    first, rest = np.divmod(digits, 10**8)
    left, right = np.divmod(rest, 10**4)
    first += np.where(negative, 10, 0)
    last = _FOUR[right]
    text = np.empty((len(digits), 2), "<u8")
    text[:, 0] = _HEAD[first] | _FOUR[left] << _U24 | last << _U56
    text[:, 1] = last >> _U8 | _TAIL[exponent - (_LOWEST - 1)]
    return text


def decode(text: bytes | memoryview, out: np.ndarray) -> bool:
    """Read a float32 vector from a text that `encode` may have written.

    Args:
        text: ``16 * len(out)`` bytes.
        out: is written to.
    Returns:
        Whether the text has that layout, and all its numbers are in range. If not,
        `out` has no meaning, and `parse` may read the text or say what is wrong.
    """
    words = np.frombuffer(text, "<u8").reshape(-1, 2)
    for start in range(0, len(out), PIECE):
        values = _decode(words[start : start + PIECE])
        if values is None:
            return False
        rounded = _to_float32(values, partial(_number_at, text, start))
        if rounded is None:
            return False
        out[start : start + PIECE] = rounded
    return True


def _number_at(text: bytes | memoryview, start: int, i: int) -> str:
    at = WIDTH * (start + i)
    return bytes(text[at : at + WIDTH]).decode()


# What `others` below is when xored with its digits, signs and marks at their lowest.
_FORM = _word(b"+0.e+00 ")
_NEVER = _word(b"\xf9\xf0\xff\xff\xf9\xf0\xf0\xff")  # bits that are not set
_DIGITS = _word(b"\0\xf0\0\0\0\xf0\xf0\0")
_ADD_SIX = _word(b"\0\6\0\0\0\6\6\0")
_SIGNS = _word(b"\2\0\0\0\2\0\0\0")  # + and - differ in two bits, both set or none
_ZEROS, _SIXES, _HIGHS = (_word(bytes([n]) * 8) for n in (0x30, 6, 0xF0))
_LOW24 = _word(b"\xff\xff\xff")

_PAIRS = _word(b"\xff\0\0\0\xff\0\0\0")
_MILLIONS = np.uint64(100 + (1_000_000 << 32))
_UNITS = np.uint64(1 + (10_000 << 32))


def _scales() -> np.ndarray:
    """Factors by what is left of `others`: signs, and the digits of the exponent."""
    scales = np.zeros(1 << 14)
    for tens, ones in product(range(10), repeat=2):
        exponent = 10 * tens + ones
        scales[tens | ones << 8] = _TENS[exponent - 8]
        scales[tens | ones << 8 | 1 << 12] = _TENS[-exponent - 8]
    scales[1 << 13 :] = -scales[: 1 << 13]
    return scales


_SCALES = _scales()


def _decode(words: np.ndarray) -> np.ndarray | None:
    """float64 numbers, right to a few parts in 2**53; None for another layout."""
    first, second = words[:, 0], words[:, 1]
    others = (first & _LOW24 | second & ~_LOW24) ^ _FORM
    fraction = (first >> _U24 | second << _U40) ^ _ZEROS
    wrong = others & _NEVER | (others + _ADD_SIX) & _DIGITS
    wrong |= (others ^ others >> np.uint64(1)) & _SIGNS
    wrong |= (fraction | fraction + _SIXES) & _HIGHS
    if wrong.any():
        return None
    # Eight digits at once: pairs, then fours, then all.
    fraction = fraction * np.uint64(10) + (fraction >> _U8)
    low = (fraction & _PAIRS) * _MILLIONS
    low += (fraction >> np.uint64(16) & _PAIRS) * _UNITS
    digits = (low >> np.uint64(32)) + (others >> _U8 & np.uint64(15)) * np.uint64(10**8)
    which = others >> _U40 & np.uint64(0xF0F)
    which |= others >> np.uint64(21) & np.uint64(1 << 12)
    which |= others << np.uint64(12) & np.uint64(1 << 13)
    return digits.astype(np.float64) * _SCALES[which.astype(np.int64)]


def _to_float32(values: np.ndarray, text_of: Callable[[int], str]) -> np.ndarray | None:
    """The float32 nearest to each text; None if one is out of range.

    Args:
        values: what the texts say, right to a few parts in 2**53.
        text_of: the text of value i.
    """
    with np.errstate(over="ignore"):
        low = (values * (1 - 2.0**-50)).astype(np.float32)
        high = (values * (1 + 2.0**-50)).astype(np.float32)
    if not np.isfinite(high).all():
        return None
    for i in np.flatnonzero(low != high).tolist():
        low[i] = _nearest(low[i], high[i], Fraction(text_of(i)))
    return low


def _nearest(a: np.float32, b: np.float32, exact: Fraction) -> np.float32:
    """The one of two neighbours that is nearer, or else has an even last bit."""

    def distance(x: np.float32) -> tuple[Fraction, int]:
        return abs(Fraction(float(x)) - exact), int(x.view(np.uint32)) & 1

    return min(a, b, key=distance)


_TOKEN = re.compile(rb"\S+")
_FOREIGN = re.compile(rb"[^\s0-9eE+.-]")
_ALLOWED = b"0123456789eE+-. \t\n\v\f\r"


def parse(text: bytes, out: np.ndarray) -> None:
    """Read a float32 vector from numbers separated by white space.

    The numbers are what a C++ stream accepts: ``1``, ``-.5``, ``1e3``.

    Raises:
        ValueError: there are not ``len(out)``, or something is no number, or out of
            range; the message says what there is instead.
    """
    if text.translate(None, _ALLOWED):
        raise ValueError(f"{_shown(_foreign(text))}, which is no number")
    count = sum(1 for _ in _TOKEN.finditer(text))
    if count != len(out):
        raise ValueError(f"{count} numbers")
    tokens = (match[0] for match in _TOKEN.finditer(text))
    for start in range(0, count, PIECE):
        piece = list(islice(tokens, PIECE))
        out[start : start + PIECE] = _parse(piece)


def _parse(tokens: list[bytes]) -> np.ndarray:
    try:
        values = np.array(list(map(float, tokens)))
    except ValueError:
        wrong = next(filterfalse(_is_number, tokens))
        raise ValueError(f"{_shown(wrong)}, which is no number") from None
    rounded = _to_float32(values, lambda i: tokens[i].decode())
    if rounded is None:
        largest = tokens[int(np.argmax(np.abs(values)))]
        raise ValueError(f"{_shown(largest)}, which is out of range")
    return rounded


def _is_number(token: bytes) -> bool:
    try:
        float(token)
    except ValueError:
        return False
    return True


def _foreign(text: bytes) -> bytes:
    """The first word with a character that no number has, as far as it is short."""
    match = _FOREIGN.search(text)
    assert match is not None
    at = match.start()
    before = re.split(rb"\s", text[max(0, at - 40) : at])[-1]
    return before + re.split(rb"\s", text[at : at + 41])[0]


def _shown(token: bytes) -> str:
    text = token[:40].decode("latin-1")
    return repr(text + "..." if len(token) > 40 else text)
