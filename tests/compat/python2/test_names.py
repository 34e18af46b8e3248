"""Functions of Python 2, whose results are those that Python 2.7 prints."""

import numpy as np
import pytest

from dynetjax.compat.python2 import names


class Path:
    """Has the division of Python 2."""

    def __init__(self, at):
        self.at = at

    def __div__(self, other):
        return Path(f"{self.at}/{other}") if isinstance(other, str) else NotImplemented

    def __rdiv__(self, other):
        return Path(f"{other}/{self.at}")

    def __idiv__(self, other):
        self.at += other
        return self


@pytest.mark.parametrize(
    ("a", "b", "quotient"),
    [
        (7, 2, 3),
        (-7, 2, -4),
        (7, 2.0, 3.5),
        (np.int64(7), 2, 3),
        (np.array([7, -7]), 2, [3, -4]),
        (np.array([7.0, -7.0]), 2, [3.5, -3.5]),
    ],
)
def test_division(a, b, quotient):
    for result in names.divide(a, b), names.divide_in_place(a, b):
        np.testing.assert_array_equal(result, quotient)
        assert np.asarray(result).dtype == np.asarray(quotient).dtype


def test_division_of_classes():
    assert names.divide(Path("a"), "b").at == "a/b"
    assert names.divide("b", Path("a")).at == "b/a"
    path = Path("a")
    assert names.divide_in_place(path, "c") is path
    assert path.at == "ac"
    with pytest.raises(TypeError, match="unsupported operand"):
        names.divide(Path("a"), 2)


def test_arrays_are_divided_in_place():
    array = np.array([7, 9])
    assert names.divide_in_place(array, 2) is array
    np.testing.assert_array_equal(array, [3, 4])


@pytest.mark.parametrize(
    ("number", "digits", "rounded"),
    [
        (2.5, 0, 3.0),
        (-0.5, 0, -1.0),
        (2.675, 2, 2.67),
        (1250, -2, 1300.0),
        (1e300, 0, 1e300),
        (float("inf"), 0, float("inf")),
    ],
)
def test_round(number, digits, rounded):
    assert names.round(number, digits) == rounded
    assert type(names.round(number, digits)) is float


def test_order():
    by_length = lambda a, b: names.cmp(len(a), len(b))  # noqa: E731
    words = ["ccc", "a", "bb"]
    assert names.sorted(words, by_length) == ["a", "bb", "ccc"]
    assert names.sorted(words, by_length, lambda w: 3 * "x" if w == "a" else w) == [
        *("bb", "ccc", "a"),
    ]
    assert names.sorted(words, reverse=True) == ["ccc", "bb", "a"]
    names.sort(words, cmp=by_length, reverse=True)
    assert words == ["ccc", "bb", "a"]
    matrix = np.array([[2, 1], [1, 3]])
    names.sort(matrix, 0)
    np.testing.assert_array_equal(matrix, [[1, 1], [2, 3]])


def test_none_is_least():
    assert names.lt(None, -1)
    assert names.gt("", None)
    assert names.le(None, None)
    assert not names.ge(None, 0)
    assert [names.cmp(a, b) for a, b in ((None, 0), (1, None), (2, 2))] == [-1, 1, 0]


@pytest.mark.parametrize(
    ("encoding", "bytes_"),
    [("utf-8", "é"), ("latin1", "\udce9"), ("utf-16-le", "\udce9\0")],
)
def test_bytes_as_text(encoding, bytes_):
    assert names.encode("é", encoding) == bytes_
    assert names.decode(bytes_, encoding) == "é"
    assert names.decode("é".encode(encoding), encoding) == "é"


def test_encoding_with_errors():
    assert names.encode("né", "ascii", "ignore") == "n"
    with pytest.raises(UnicodeEncodeError, match="ascii"):
        names.encode("é", "ascii")


def test_classes():
    class Number:
        def __init__(self, value):
            self.value = value

        def __cmp__(self, other):
            return names.cmp(self.value, other.value)

    class Same:
        def __eq__(self, other):
            return True

    names.of_python_2(Number)
    assert Number(1) < Number(2)
    assert Number(1) == Number(1)
    assert max(Number(1), Number(3)).value == 3
    assert hash(names.of_python_2(Same)()) is not None
