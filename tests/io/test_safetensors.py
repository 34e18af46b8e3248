"""Safetensors files, against the library itself."""

import sys

import numpy as np
import pytest
import safetensors.numpy

import dynetjax as dy


@pytest.fixture
def file(tmp_path):
    return str(tmp_path / "m.safetensors")


@pytest.fixture
def m():
    m = dy.ParameterCollection()
    m.parameters_from_numpy(np.arange(6.0).reshape(2, 3), "W")
    m.add_subcollection("part").add_parameters((), init=2, name="s")
    m.lookup_parameters_from_numpy(np.arange(24.0).reshape(4, 3, 2), "E")
    return m


def arrays(collection):
    things = collection.parameters_list() + collection.lookup_parameters_list()
    return {t.name(): t.as_array().tolist() for t in things}


def test_what_others_read(m, file):
    dy.save_safetensors(m, file)
    found = safetensors.numpy.load_file(file)
    assert {name: a.tolist() for name, a in found.items()} == arrays(m)
    assert {a.dtype for a in found.values()} == {np.dtype(np.float32)}
    assert found["/E"].shape == (4, 3, 2)


@pytest.mark.parametrize("kind", [np.float16, np.float32, np.float64])
def test_what_others_write(m, file, kind):
    """Matched by name, in any order; gradients are cleared."""
    names = ["/E", "/part/s", "/W"]
    shapes = [(4, 3, 2), (), (2, 3)]
    data = {n: np.full(s, 0.5, kind) for n, s in zip(names, shapes, strict=True)}
    safetensors.numpy.save_file(data, file)
    dy.load_safetensors(m, file)
    assert arrays(m) == {name: array.tolist() for name, array in data.items()}


class TestRefused:
    @pytest.fixture(autouse=True)
    def unchanged(self, m):
        before = arrays(m)
        yield
        assert arrays(m) == before

    def test_names(self, m, file):
        other = dy.ParameterCollection()
        other.add_parameters((2, 3), name="W")
        other.add_parameters(1, name="b")
        dy.save_safetensors(other, file)
        message = r"missing: /part/s, /E; unexpected: /b"
        with pytest.raises(RuntimeError, match=message):
            dy.load_safetensors(m, file)

    @pytest.mark.parametrize("wrong", [np.zeros((3, 2)), np.zeros((2, 3), np.int64)])
    def test_form(self, m, file, wrong):
        data = {n: np.asarray(a, np.float32) for n, a in arrays(m).items()}
        safetensors.numpy.save_file(data | {"/W": wrong}, file)
        with pytest.raises(RuntimeError, match=r"/W in .* does not fit"):
            dy.load_safetensors(m, file)

    def test_same_names(self, m, file):
        m.save(file)
        m.load_param(file, "/W")
        for call in dy.save_safetensors, dy.load_safetensors:
            with pytest.raises(ValueError, match="several parameters have the same"):
                call(m, file)
        m._parameters.pop()

    def test_files(self, m, file, tmp_path):
        with pytest.raises(RuntimeError, match="load_safetensors: cannot read"):
            dy.load_safetensors(m, file)
        m.save(file)
        with pytest.raises(RuntimeError, match="load_safetensors: cannot read"):
            dy.load_safetensors(m, file)
        with pytest.raises(RuntimeError, match="save_safetensors: cannot write"):
            dy.save_safetensors(m, str(tmp_path / "no" / "m"))
        for call in dy.save_safetensors, dy.load_safetensors:
            with pytest.raises(AttributeError, match="name of the file is no str"):
                call(m, None)

    def test_no_package(self, m, file, monkeypatch):
        monkeypatch.setitem(sys.modules, "safetensors.numpy", None)
        for call in dy.save_safetensors, dy.load_safetensors:
            with pytest.raises(ImportError, match=r"pip install dynetjax\[io\]"):
                call(m, file)
