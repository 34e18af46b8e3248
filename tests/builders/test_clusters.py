"""Cluster files, and what is wrong with them."""

import pytest

import dynetjax as dy
from dynetjax.builders.clusters import read_classes, read_paths

WORDS = {"a": 0, "b": 1, "c": 2}
READERS = [read_classes, read_paths]


def read(reader, tmp_path, content, words=WORDS):
    file = tmp_path / "file.txt"
    file.write_bytes(content)
    return reader("builder", str(file), words)


def test_classes(tmp_path):
    found = read(read_classes, tmp_path, b"7 c 1\n\t3 \t a\r\n7  b x y\n")
    assert found.size == 3
    assert found.classes == [[2, 1], [0]]
    assert found.place == {2: (0, 0), 0: (1, 0), 1: (0, 1)}


def test_paths(tmp_path):
    found = read(read_paths, tmp_path, b"0 1\tc 1\n0  2\ta\r\n3\tb\t7\n")
    assert found.lines == [(["0", "1"], 2), (["0", "2"], 0), (["3"], 1)]


@pytest.mark.parametrize(
    ("reader", "content"),
    [
        (read_classes, b"A a\n\nB b\n"),
        (read_classes, b"A a\nA\nB b\n"),
        (read_paths, b"0\ta\n\n"),
        (read_paths, b"0\ta\n0 b\n"),
        (read_paths, b"0\ta\n0 \tb\n"),
        (read_paths, b"0\ta\n   \tb\n"),
    ],
)
def test_other_form(reader, content, tmp_path):
    with pytest.raises(ValueError, match=r"builder: .*file\.txt, line 2 has another"):
        read(reader, tmp_path, content)


@pytest.mark.parametrize("reader", READERS)
class TestMistakes:
    def test_unknown_word(self, reader, tmp_path):
        content = b"A\ta\nA\td\n"
        with pytest.raises(ValueError, match=r"file\.txt, line 2: the word is not in"):
            read(reader, tmp_path, content)

    def test_empty(self, reader, tmp_path):
        with pytest.raises(ValueError, match=r"builder: .*file\.txt is empty"):
            read(reader, tmp_path, b"")

    def test_no_file(self, reader, tmp_path):
        with pytest.raises(ValueError, match="builder: cannot read"):
            reader("builder", str(tmp_path / "none"), WORDS)

    def test_not_text(self, reader, tmp_path):
        with pytest.raises(ValueError, match="builder: cannot read"):
            read(reader, tmp_path, b"A\t\xff\n")

    def test_words(self, reader, tmp_path):
        with pytest.raises(TypeError, match="builder: dic is no dict"):
            read(reader, tmp_path, b"A\ta\n", ["a"])
        with pytest.raises(ValueError, match="the ids in dic have gaps or repeats"):
            read(reader, tmp_path, b"A\ta\n", {"a": 0, "b": 2})


def test_builders_name_themselves(tmp_path):
    for kind in dy.ClassFactoredSoftmaxBuilder, dy.HierarchicalSoftmaxBuilder:
        with pytest.raises(ValueError, match=f"{kind.__name__}: cannot read"):
            kind(3, str(tmp_path / "none"), WORDS, dy.ParameterCollection())
