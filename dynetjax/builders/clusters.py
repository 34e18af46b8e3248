"""Files that say which words belong together."""

import re
from collections.abc import Iterator, Mapping
from typing import Any, NamedTuple

from dynetjax.core.errors import error_text


class Clusters(NamedTuple):
    """Words in classes.

    Attributes:
        size: how many words there are.
        classes: the ids of the words of each.
        place: of each word the class, and its number there; of one that comes twice,
            the last.
    """

    size: int
    classes: list[list[int]]
    place: dict[int, tuple[int, int]]


class Paths(NamedTuple):
    """Words at the ends of paths.

    Attributes:
        size: how many words there are.
        lines: the symbols on the way to a word, and its id, line by line.
        places: file and line of each, for messages.
    """

    size: int
    lines: list[tuple[list[str], int]]
    places: list[str]


def read_classes(name: str, path: Any, dic: Any) -> Clusters:
    """The classes of a file with lines ``CLASS word``.

    Raises:
        TypeError, ValueError: see `ClassFactoredSoftmaxBuilder`.
    """
    size = _size(name, dic)
    numbers: dict[str, int] = {}
    classes: list[list[int]] = []
    place_of: dict[int, tuple[int, int]] = {}
    for place, line in _lines(name, path):
        fields = re.split("[ \t]+", line.strip(" \t\r"))
        if len(fields) < 2:
            raise _bad(name, place, line, "a class, then a word")
        symbol, word = fields[:2]
        k = numbers.setdefault(symbol, len(numbers))
        if k == len(classes):
            classes.append([])
        number = _id(name, place, word, dic)
        place_of[number] = k, len(classes[k])
        classes[k].append(number)
    return Clusters(size, classes, place_of)


def read_paths(name: str, path: Any, dic: Any) -> Paths:
    """The paths of a file with lines ``SYMBOL SYMBOL ..<tab>word``.

    Raises:
        TypeError, ValueError: see `HierarchicalSoftmaxBuilder`.
    """
    size, lines, places = _size(name, dic), [], []
    for place, line in _lines(name, path):
        way, tab, rest = line.strip("\r").partition("\t")
        symbols = way.split(" ")
        word = re.split("[ \t]", rest)[0]
        if not (tab and word and symbols[0] and symbols[-1]):
            raise _bad(name, place, line, "symbols between spaces, a tab, a word")
        symbols = [symbol for symbol in symbols if symbol]
        lines.append((symbols, _id(name, place, word, dic)))
        places.append(place)
    return Paths(size, lines, places)


def _size(name: str, dic: Any) -> int:
    """How many words there are."""
    if not isinstance(dic, Mapping):
        raise TypeError(
            error_text(
                f"{name}: dic is no dict",
                got=type(dic).__name__,
                expected="a dict from words to ids",
                fix="{word: id for ...}",
            )
        )
    if sorted(dic.values()) != list(range(len(dic))):
        raise ValueError(
            error_text(
                f"{name}: the ids in dic have gaps or repeats",
                got=f"{len(dic)} words, ids {_range(sorted(dic.values()))}",
                expected=f"each of 0 to {len(dic) - 1} once",
                fix="number the words again",
            )
        )
    return len(dic)


def _range(ids: list[int]) -> str:
    return f"{ids[0]} to {ids[-1]}" if ids else "none"


def _lines(name: str, path: Any) -> Iterator[tuple[str, str]]:
    """Where each line stands, and the line."""
    count = 0
    try:
        with open(path, encoding="utf-8", newline="\n") as file:
            for count, line in enumerate(file, 1):
                yield f"{path}, line {count}", line.rstrip("\n")
    except (OSError, UnicodeDecodeError) as error:
        raise ValueError(
            error_text(
                f"{name}: cannot read {path}",
                got=error,
                expected="a cluster file in UTF-8",
                fix="check the name",
            )
        ) from error
    if not count:
        raise ValueError(
            error_text(
                f"{name}: {path} is empty",
                got="no line",
                expected="a line for each word",
                fix="check the name",
            )
        )


def _id(name: str, place: str, word: str, dic: Mapping[str, int]) -> int:
    if word not in dic:
        raise ValueError(
            error_text(
                f"{name}: {place}: the word is not in dic",
                got=repr(word),
                expected="a word with an id",
                fix="leave the line out, or give the word an id",
            )
        )
    return dic[word]


def _bad(name: str, place: str, line: str, expected: str) -> ValueError:
    return ValueError(
        error_text(
            f"{name}: {place} has another form",
            got=repr(line),
            expected=expected,
            fix="check the fields of the line",
        )
    )
