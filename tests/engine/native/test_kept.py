"""Byte code that later processes read; here, one that has forgotten all."""

import json

import jax
import jax.numpy as jnp
import numpy as np
import pytest

import dynetjax as dy
from dynetjax.core.tables import forget_all
from dynetjax.engine import cache_folder
from dynetjax.engine.native import kept, program
from dynetjax.engine.runtime import RUNTIME

X, W = np.array([0.3, -0.7, 1.1]), np.array([[0.5, -0.2, 0.1], [0.4, 0.3, -0.6]])

pytestmark = pytest.mark.usefixtures("natively")


@pytest.fixture(autouse=True)
def folder(tmp_path, monkeypatch):
    monkeypatch.setattr(RUNTIME, "keeps_byte_code", True)
    monkeypatch.setattr(kept, "_folder", lambda: tmp_path)
    forget()
    yield tmp_path
    forget()


def forget():
    """Another process, as far as byte code goes."""
    program._code_of.cache_clear()
    RUNTIME.byte_code.clear()
    forget_all()


def layer(op=dy.tanh):
    """The value of a layer, and the gradient of its weights."""
    pc = dy.ParameterCollection()
    weights = pc.parameters_from_numpy(W)
    dy.renew_cg()
    y = dy.sum_elems(op(weights * dy.inputVector(X)))
    y.backward()
    return y.value(), weights.grad_as_array()


def check(found):
    h = np.tanh(W @ X)
    np.testing.assert_allclose(found[0], h.sum(), rtol=1e-5)
    np.testing.assert_allclose(found[1], np.outer(1 - h**2, X), rtol=1e-4)


def nothing_is_traced(monkeypatch):
    monkeypatch.setattr(program, "_traced", None)


def test_what_was_traced_once_is_read(folder, monkeypatch):
    check(layer())
    assert any(file.name.startswith(kept.PREFIX) for file in folder.iterdir())
    forget()
    nothing_is_traced(monkeypatch)
    check(layer())


@pytest.mark.parametrize(
    "damage",
    [
        lambda b: b"",
        lambda b: b[:-1],
        lambda b: b[:-4],
        lambda b: b.partition(b"\n")[2],
        lambda b: b[:-2] + bytes([b[-2] ^ 0x40]) + b[-1:],
    ],
)
def test_a_damaged_file_is_written_anew(folder, damage, monkeypatch):
    check(layer())
    whole = {file: file.read_bytes() for file in folder.iterdir()}
    for file, content in whole.items():
        file.write_bytes(damage(content))
    forget()
    check(layer())
    assert {file: file.read_bytes() for file in folder.iterdir()} == whole


def test_a_file_under_the_name_of_another_is_written_anew(folder):
    check(layer())
    layer(dy.exp)
    files = sorted(folder.iterdir())
    whole = [file.read_bytes() for file in files]
    assert len(files) > 1
    for file, content in zip(files, whole[1:] + whole[:1], strict=True):
        file.write_bytes(content)
    forget()
    check(layer())
    layer(dy.exp)
    assert [file.read_bytes() for file in files] == whole


@pytest.mark.parametrize(
    "change",
    [
        lambda numbers: {**numbers, "temporary": 0, "saved": 0},
        lambda numbers: {**numbers, "temporary": 1 << 40},
        lambda numbers: {**numbers, "size": 1},
        lambda numbers: {},
        lambda numbers: [],
    ],
)
def test_a_program_that_is_refused_is_traced_again(folder, change):
    """Its digest is right, but the executor has no use for it."""
    check(layer())
    whole = {file: file.read_bytes() for file in folder.iterdir()}
    for file, content in whole.items():
        head, _, words = content.partition(b"\n")
        numbers, lengths, _ = json.loads(head)
        kept.write(file, change(numbers), lengths, words)
    forget()
    check(layer())
    assert {file: file.read_bytes() for file in folder.iterdir()} == whole


def test_functions_of_users_are_not_kept(folder):
    """What they compute may follow from anything."""
    check(layer(dy.jax_op(lambda x: jnp.tanh(x))))
    names = {file.name for file in folder.iterdir()}
    forget()
    layer(dy.jax_op(lambda x: jnp.sin(x)))
    assert {file.name for file in folder.iterdir()} == names


def test_other_settings_of_jax(folder, monkeypatch):
    """Nothing is kept, for it would be other byte code."""
    with jax.enable_x64(True) if hasattr(jax, "enable_x64") else _x64():
        assert not kept.is_plain()
        layer()
    assert not [*folder.iterdir()]
    assert kept.is_plain()
    monkeypatch.setenv("JAX_ENABLE_X64", "1")
    assert not kept.is_plain()


def _x64():
    return jax.experimental.enable_x64()


@pytest.mark.parametrize("name", ["JAX_COMPILATION_CACHE_DIR", cache_folder.VARIABLE])
def test_an_address_is_no_folder(tmp_path, monkeypatch, name):
    """JAX takes buckets; byte code stays on the machine."""
    monkeypatch.undo()
    monkeypatch.chdir(tmp_path)
    monkeypatch.delenv("JAX_COMPILATION_CACHE_DIR", raising=False)
    monkeypatch.delenv(cache_folder.VARIABLE, raising=False)
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "home"))
    monkeypatch.setenv(name, "gs://bucket/x")
    own = tmp_path / "home" / "dynetjax" / cache_folder.processor()
    assert kept._folder.__wrapped__() == own
    assert [path.name for path in tmp_path.iterdir()] == ["home"]


def test_where_it_is(tmp_path, monkeypatch):
    """With what JAX compiles; nowhere, if that is wanted."""
    monkeypatch.undo()
    find = kept._folder.__wrapped__
    monkeypatch.delenv("JAX_COMPILATION_CACHE_DIR", raising=False)
    monkeypatch.setenv(cache_folder.VARIABLE, str(tmp_path / "mine"))
    assert find() == tmp_path / "mine" / cache_folder.processor()
    monkeypatch.setenv("JAX_COMPILATION_CACHE_DIR", str(tmp_path / "jax"))
    assert find() == tmp_path / "jax"
    monkeypatch.setenv(cache_folder.VARIABLE, "off")
    assert find() is None
    monkeypatch.setenv(cache_folder.VARIABLE, str(tmp_path / "mine"))
    (tmp_path / "file").write_text("")
    monkeypatch.setenv("JAX_COMPILATION_CACHE_DIR", str(tmp_path / "file" / "in"))
    assert find() is None
