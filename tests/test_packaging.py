"""The wheel, installed somewhere else, by every way in; what is compiled in it."""

import email
import importlib
import os
import re
import subprocess
import sys
import sysconfig
import zipfile
from pathlib import Path

import pytest

import dynetjax

ROOT = Path(__file__).parent.parent
QUIET = "--quiet", "--disable-pip-version-check", "--no-deps"
NEEDED = {"jax", "jaxlib", "numpy", "optax"}
PROGRAM = """
import dynet as dy
import dynetjax
model = dy.Model()
W = model.add_parameters((2, 2), init=dy.ConstInitializer(0.5))
dy.renew_cg()
print(dynetjax.__file__)
print((W * dy.inputVector([1, 2])).npvalue().tolist())
"""


def run(module, *words, **variables):
    """What a module run with these words prints."""
    done = subprocess.run(
        [sys.executable, "-m", module, *words],
        capture_output=True,
        text=True,
        env=os.environ | variables,
    )
    assert not done.returncode, done.stdout + done.stderr
    return done.stdout


@pytest.fixture(scope="module")
def made(tmp_path_factory):
    """A folder with sdist and wheel of a copy of what is committed or would be.

    It is compiled without being made quick, which would take most of the time.
    """
    folder = tmp_path_factory.mktemp("made")
    source = tmp_path_factory.mktemp("source")
    listed = ["git", "ls-files", "-co", "--exclude-standard", "-z"]
    names = subprocess.run(listed, cwd=ROOT, check=True, capture_output=True).stdout
    for name in filter(None, names.decode().split("\0")):
        target = source / name
        target.parent.mkdir(parents=True, exist_ok=True)
        if (ROOT / name).exists():
            target.write_bytes((ROOT / name).read_bytes())
    words = "--no-isolation", "--outdir", str(folder), str(source)
    run("build", *words, DYNETJAX_CXXFLAGS="-O0")
    return folder


@pytest.fixture(scope="module")
def wheel(made):
    (found,) = made.glob("*.whl")
    return found


@pytest.fixture(scope="module")
def installed(wheel, tmp_path_factory):
    """A folder with the package and nothing else."""
    folder = tmp_path_factory.mktemp("installed")
    run("pip", "install", *QUIET, "--target", str(folder), str(wheel))
    return folder


def test_an_index_would_take_it(made):
    files = sorted(map(str, made.iterdir()))
    assert [re.sub(r".*?(\.tar\.gz|\.whl)$", r"\1", f) for f in files] == [
        ".whl",
        ".tar.gz",
    ]
    assert run("twine", "check", "--strict", *files).count("PASSED") == 2


def test_what_is_in_it(wheel):
    names = zipfile.ZipFile(wheel).namelist()
    assert {"dynetjax/py.typed", "dynetjax/__init__.pyi"} <= set(names)
    assert any(name.endswith("LICENSE") for name in names)
    tops = {name.split("/")[0] for name in names}
    assert {top for top in tops if not top.endswith(".dist-info")} == {"dynetjax"}
    assert not [name for name in names if name.endswith((".cpp", ".h", ".inc"))]


def test_every_module_is_in_it(wheel):
    names = set(zipfile.ZipFile(wheel).namelist())
    modules = (ROOT / "dynetjax").rglob("*.py")
    assert {str(path.relative_to(ROOT)) for path in modules} <= names


def test_what_it_needs(wheel):
    """Everything but the four packages is an extra."""
    archive = zipfile.ZipFile(wheel)
    (name,) = [n for n in archive.namelist() if n.endswith("METADATA")]
    told = email.message_from_bytes(archive.read(name))
    needed = [n for n in told.get_all("Requires-Dist", []) if "extra ==" not in n]
    assert {re.split(r"[^\w-]", each)[0] for each in needed} == NEEDED
    assert told["License-Expression"] == "Apache-2.0"
    assert told["Version"] == dynetjax.__version__
    links = re.findall(r"\]\(([^)]+)\)", told.get_payload())
    assert links
    assert not [link for link in links if not link.startswith("https://")]
    assert {"cuda", "docs", "dropin", "io", "progress", "test", "viz"} <= set(
        told.get_all("Provides-Extra", [])
    )


@pytest.mark.parametrize(
    "words",
    [
        ["-m", "dynetjax", "program.py"],
        ["-m", "dynetjax", "-m", "package.program"],
        ["-c", "import dynetjax.dropin, package.program"],
    ],
    ids=["program", "module", "dropin"],
)
def test_ways_in(installed, tmp_path, words):
    """From another folder; the package that answers is the one installed."""
    (tmp_path / "program.py").write_text(PROGRAM)
    (tmp_path / "package").mkdir()
    (tmp_path / "package" / "__init__.py").touch()
    (tmp_path / "package" / "program.py").write_text(PROGRAM)
    done = subprocess.run(
        [sys.executable, *words],
        cwd=tmp_path,
        env={**os.environ, "PYTHONPATH": str(installed), "PYTHONSAFEPATH": ""},
        capture_output=True,
        text=True,
    )
    assert not done.returncode, done.stderr
    where, values = done.stdout.splitlines()
    assert Path(where).is_relative_to(installed)
    assert values == "[1.5, 1.5]"


def test_the_command(installed):
    (script,) = (installed / "bin").glob("dynetjax*")
    done = subprocess.run(
        [sys.executable, script, "--version"],
        env={**os.environ, "PYTHONPATH": str(installed)},
        capture_output=True,
        text=True,
    )
    assert done.stdout == f"dynetjax {dynetjax.__version__}\n", done.stderr


def test_what_is_compiled(installed):
    suffix = sysconfig.get_config_var("EXT_SUFFIX")
    (compiled,) = installed.rglob("*" + suffix)
    assert compiled == installed / f"dynetjax/engine/native/core{suffix}"


def test_it_is_compiled_or_not_installed(made, tmp_path):
    """An install fails where the compiler does, and leaves nothing."""
    (source,) = made.glob("*.tar.gz")
    target = "--no-build-isolation", "--target", str(tmp_path), str(source)
    done = subprocess.run(
        [sys.executable, "-m", "pip", "install", *QUIET, *target],
        env={**os.environ, "CC": "false", "CXX": "false"},
        capture_output=True,
        text=True,
    )
    assert done.returncode
    assert "false" in done.stderr  # the command that failed
    assert not list(tmp_path.iterdir())


@pytest.fixture
def backend(monkeypatch):
    """What builds the package, which finds no compiler but those of `names`."""
    monkeypatch.syspath_prepend(ROOT / "build_backend")
    module = importlib.import_module("backend")
    module.names = set()
    monkeypatch.setattr(
        module.shutil, "which", lambda name: name if name in module.names else None
    )
    monkeypatch.delenv("CC", raising=False)
    monkeypatch.setenv("CXX", "absent")
    yield module
    del sys.modules["backend"]


class TestCompilers:
    def test_pip_brings_one_where_there_is_none(self, backend):
        assert backend._brought() == [backend.BROUGHT]
        with backend._compiler():
            assert os.environ["CXX"].endswith(" -m ziglang c++")
            assert os.environ["CC"].endswith(" -m ziglang cc")
        assert os.environ["CXX"] == "absent"
        assert "CC" not in os.environ

    @pytest.mark.parametrize("other", ["g++", "clang++"])
    def test_one_of_another_name_is_found(self, backend, other):
        backend.names = {other}
        assert backend._brought() == []
        with backend._compiler():
            assert os.environ["CXX"] == other

    def test_the_one_that_the_user_names(self, backend):
        backend.names = {"absent", "g++"}
        assert backend._brought() == []
        with backend._compiler():
            assert os.environ["CXX"] == "absent"
