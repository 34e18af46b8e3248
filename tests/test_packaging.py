"""The wheel, installed somewhere else, by every way in."""

import email
import os
import re
import subprocess
import sys
import zipfile
from pathlib import Path

import pytest

ROOT = Path(__file__).parent.parent
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


def run(module, *words):
    """What a module run with these words prints."""
    done = subprocess.run(
        [sys.executable, "-m", module, *words], capture_output=True, text=True
    )
    assert not done.returncode, done.stdout + done.stderr
    return done.stdout


@pytest.fixture(scope="module")
def made(tmp_path_factory):
    """A folder with sdist and wheel of a copy of what is committed or would be."""
    folder = tmp_path_factory.mktemp("made")
    source = tmp_path_factory.mktemp("source")
    listed = ["git", "ls-files", "-co", "--exclude-standard", "-z"]
    names = subprocess.run(listed, cwd=ROOT, check=True, capture_output=True).stdout
    for name in filter(None, names.decode().split("\0")):
        target = source / name
        target.parent.mkdir(parents=True, exist_ok=True)
        if (ROOT / name).exists():
            target.write_bytes((ROOT / name).read_bytes())
    run("build", "--no-isolation", "--outdir", str(folder), str(source))
    return folder


@pytest.fixture(scope="module")
def wheel(made):
    (found,) = made.glob("*.whl")
    return found


@pytest.fixture(scope="module")
def installed(wheel, tmp_path_factory):
    """A folder with the package and nothing else."""
    folder = tmp_path_factory.mktemp("installed")
    quiet = "--quiet", "--disable-pip-version-check"
    run("pip", *quiet, "install", "--no-deps", "--target", str(folder), str(wheel))
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
    assert "dynetjax/py.typed" in names
    assert any(name.endswith("LICENSE") for name in names)
    tops = {name.split("/")[0] for name in names}
    assert {top for top in tops if not top.endswith(".dist-info")} == {"dynetjax"}


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
        env={**os.environ, "PYTHONPATH": str(installed)},
        capture_output=True,
        text=True,
    )
    assert not done.returncode, done.stderr
    where, values = done.stdout.splitlines()
    assert Path(where).is_relative_to(installed)
    assert values == "[1.5, 1.5]"
