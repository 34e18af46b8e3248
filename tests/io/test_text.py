"""Blocks of text files, against files of DyNet 2.1.2 itself."""

import io
import os
import pathlib

import numpy as np
import pytest

from dynetjax.io.text import Header, TextFile, as_path, write_block

FILES = pathlib.Path(__file__).parent.parent / "data" / "files"
NUMBER = "+1.00000000e+00 "


def content(path):
    """(header without start, values, gradient) of every block."""
    with TextFile(str(path)) as file:
        return [(h[:4], *file.read(h)) for h in list(file.headers())]


def written(blocks):
    """What `write_block` makes of the same."""
    file = io.BytesIO()
    for (is_table, key, dims, _), values, gradient in blocks:
        write_block(
            file,
            is_table=is_table,
            key=key,
            dims=dims,
            values=values,
            gradient=gradient,
        )
    return file.getvalue()


@pytest.fixture
def save(tmp_path):
    def save(text):
        path = tmp_path / "m"
        path.write_bytes(text if isinstance(text, bytes) else text.encode())
        return path

    return save


class TestFilesOfDynet:
    @pytest.mark.parametrize(
        "name", ["decayed", "dense", "digits", "gradients", "nested", "two_keys"]
    )
    def test_written_as_they_are(self, name):
        path = FILES / f"{name}.model"
        assert written(content(path)) == path.read_bytes()

    def test_digits(self):
        ((_, values, _),) = content(FILES / "digits.model")
        numbers = np.load(FILES / "digits.npy")
        np.testing.assert_array_equal(values.view(np.uint32), numbers.view(np.uint32))

    def test_gradients(self):
        W, E = content(FILES / "gradients.model")
        assert W[0] == (False, "/W", (2, 3), True)
        assert E[0] == (True, "/E", (2, 4), True)
        assert W[1].tolist() == [0, 3, 1, 4, 2, 5]
        assert W[2].tolist() == [0, 6, 2, 8, 4, 10]
        assert E[2].tolist() == [0, 0, 4, 6, 0, 0, 0, 0]

    def test_not_finite(self):
        """Written as DyNet does but for the size, which is right; not read."""
        path = FILES / "not_finite.model"
        values = np.array([np.nan, np.nan, np.inf, -np.inf, 1], np.float32)
        values[1] = np.copysign(values[1], -1)
        file = io.BytesIO()
        assert not write_block(file, is_table=False, key="/W", dims=(5,), values=values)
        _, line, *_ = path.read_text().splitlines()
        header = f"#Parameter# /W {{5}} {len(line) + 1} ZERO_GRAD"
        assert file.getvalue().decode() == f"{header}\n{line}\n"
        with TextFile(str(path)) as model:
            first, second = model.headers()
            assert model.read(second)[0].tolist() == [1, 2]
            with pytest.raises(RuntimeError, match=r"bad values of /W(.|\n)*'\+nan'"):
                model.read(first)


class TestOtherLayouts:
    """What DyNet reads, and does not write."""

    @pytest.mark.parametrize(
        "text",
        [
            "#Parameter# /W {2} 5 ZERO_GRAD\n1 2\n",
            "#Parameter# /W {2} 33 ZERO_GRAD\n1e0 20.e-1\n",
            "#Parameter#  /W\t{2}  33  ZERO_GRAD \r\n +1 \t 2 \r\n",
            f"#Parameter# /W {{2}} 33 ZERO_GRAD\n{NUMBER}+2.00000000e+00 ",
            f"#Parameter# /W {{2}} 0 ZERO_GRAD\n{NUMBER}+2.00000000e+00 \n",
        ],
    )
    def test_values(self, save, text):
        ((header, values, gradient),) = content(save(text))
        assert header == (False, "/W", (2,), False)
        assert values.tolist() == [1, 2]
        assert gradient is None

    def test_no_flag(self, save):
        """A gradient follows, until a header tells of none."""
        old = "#Parameter# /a {1} 34\n1\n2\n#Parameter# /b {1}\n3\n4\n"
        new = "#Parameter# /c {1} 17 ZERO_GRAD\n5\n#Parameter# /d {1} 17\n6\n"
        blocks = content(save(old + new))
        found = [(b[1].item(), b[2] is not None and b[2].item()) for b in blocks]
        assert found == [(1, 2), (3, 4), (5, False), (6, False)]

    def test_other_flag(self, save):
        ((header, _, gradient),) = content(save("#Parameter# /a {1} 4 NEW\n1\n2\n"))
        assert header[3]
        assert gradient.tolist() == [2]

    def test_gradient_after_none(self, save):
        """DyNet's own reader fails here."""
        text = (
            "#Parameter# /a {1} 2 ZERO_GRAD\n1\n#Parameter# /b {1} 4 FULL_GRAD\n2\n3\n"
        )
        assert [block[2] for block in content(save(text))] == [None, [3]]

    def test_scalar(self, save):
        ((header, values, _),) = content(save("#Parameter# /s {} 17 ZERO_GRAD\n7\n"))
        assert (header[2], values.tolist()) == ((), [7])

    def test_no_numbers(self, save):
        block = (False, "/W", (0, 3), False), np.zeros(0, np.float32), None
        ((header, values, _),) = content(save(written([block])))
        assert (header, values.tolist()) == (block[0], [])

    def test_names(self, save):
        """Spaces, braces and other alphabets are no trouble."""
        keys = ["/a b", "/{2} 3 ZERO_GRAD", "/Ähre", "/#"]
        one = np.ones(1, np.float32)
        text = written([((False, key, (1,), False), one, None) for key in keys])
        assert [block[0][1] for block in content(save(text))] == keys

    def test_empty(self, save):
        assert content(save("")) == []


class TestDamaged:
    @pytest.mark.parametrize(
        "text",
        [
            "\n",
            "#Parameter# /W {1} 17 ZERO_GRAD\n1\n\n",
            "#Parameters# /W {1} 17 ZERO_GRAD\n1\n",
            "#Parameter# /W {-1} 17 ZERO_GRAD\n1\n",
            "#Parameter# /W {1,1,1,1,1,1,1,1} 17 ZERO_GRAD\n1\n",
            "#Parameter# /W {1",
            "#Parameter# " + "x" * 10_000 + " {1} 17 ZERO_GRAD\n1\n",
            b"\x80\x04\x95",
        ],
    )
    def test_header(self, save, text):
        with pytest.raises(RuntimeError, match=r"load: a bad header in .*m"):
            content(save(text))

    @pytest.mark.parametrize(
        "dims", ["{3}", "{999999999999}", "{" + "9" * 18 + ",9,9}"]
    )
    def test_more_than_there_is_room_for(self, save, dims):
        path = save(f"#Parameter# /W {dims} 33 ZERO_GRAD\n1 2\n")
        with pytest.raises(RuntimeError, match="too short for /W"):
            content(path)

    def test_table_without_rows(self, save):
        with pytest.raises(RuntimeError, match="too short for /E"):
            content(save("#LookupParameter# /E {} 17 ZERO_GRAD\n1\n"))

    @pytest.mark.parametrize(
        ("line", "got"),
        [
            (NUMBER, "1 numbers"),
            (NUMBER * 3, "3 numbers"),
            (NUMBER + "+1.0000000x+00 ", r"'\+1.0000000x\+00', which is no number"),
            (NUMBER + "+9.00000000e+38 ", "out of range"),
            (NUMBER + "+nan ", r"'\+nan', which is no number"),
        ],
    )
    def test_numbers(self, save, line, got):
        path = save(f"#Parameter# /W {{2}} 33 ZERO_GRAD\n{line}\n")
        with pytest.raises(RuntimeError, match=rf"bad values of /W(.|\n)*{got}"):
            content(path)

    @pytest.mark.parametrize("kept", range(162))
    def test_cut_anywhere(self, save, kept):
        """A file that lost more than a space and a line break at its end is refused."""
        numbers = np.arange(4, dtype=np.float32)
        whole = written([((False, "/W", (4,), True), numbers, numbers)])
        path = save(whole[:kept])
        if kept == 0:
            assert content(path) == []
            return
        with pytest.raises(RuntimeError, match="load: "):
            content(path)

    def test_gradient_is_missing(self, save):
        path = save("#Parameter# /W {1} 34 FULL_GRAD\n1\n")
        with pytest.raises(RuntimeError, match=r"bad gradient of /W(.|\n)*0 numbers"):
            content(path)

    @pytest.mark.parametrize("begin", [b"", b"\x16\0\0\0\0\0\0\0"])
    def test_archive_of_dynet_1(self, save, begin):
        path = save(begin + b"22 serialization::archive 12 1 0\n0 0 0 170")
        with pytest.raises(RuntimeError, match="saved by DyNet 1"):
            TextFile(str(path))

    def test_unreadable(self, tmp_path):
        with pytest.raises(RuntimeError, match=r"load: cannot read .*nothing"):
            TextFile(str(tmp_path / "nothing"))
        for other in str(tmp_path), os.devnull:
            with pytest.raises(RuntimeError, match="load: cannot read"):
                TextFile(other)


def test_skips_by_lines_where_the_width_is_another(save):
    path = save(
        "#Parameter# /a {2} 0 FULL_GRAD\n1 2\n3 4\n#Parameter# /b {1} 9\n5\n6\n"
    )
    with TextFile(str(path)) as file:
        assert [str(h) for h in file.headers()] == [
            "parameter /a {2}",
            "parameter /b {1}",
        ]


def test_line_break_in_a_key():
    one = np.ones(1, np.float32)
    with pytest.raises(ValueError, match="save: a line break in a name"):
        write_block(io.BytesIO(), is_table=False, key="/a\nb", dims=(1,), values=one)


def test_names_of_files():
    assert as_path("save", pathlib.Path("a") / "b") == as_path("save", "a/b")
    for wrong in None, b"a", 3:
        with pytest.raises(
            AttributeError, match="save: the name of the file is no str"
        ):
            as_path("save", wrong)


def test_header_shows_itself():
    assert str(Header(True, "/E", (2, 4), False, 0)) == "table /E {2,4}"
