"""``dynetjax --help`` and ``--version``."""

import pathlib
import re
import subprocess
import sys

import pytest

import dynetjax
from dynetjax.compat import help, options

PACKAGE = pathlib.Path(dynetjax.__file__).parent
READ = re.compile(r'(?:getenv\(|environ[^"\n]*|= )"(DYNETJAX_\w+)"')


def run(*words):
    """(exit status, stdout, stderr) of the command."""
    command = [sys.executable, "-m", "dynetjax", *words]
    done = subprocess.run(command, capture_output=True, text=True)
    return done.returncode, done.stdout, done.stderr


@pytest.mark.parametrize("word", ["-h", "--help"])
def test_help_is_no_error(word):
    status, out, _ = run(word)
    assert (status, out) == (0, help.text() + "\n")


def test_every_flag():
    assert {name.split()[0] for name in help.FLAGS} == options._FLAGS.keys()


def test_every_variable():
    sources = [*PACKAGE.rglob("*.py"), *PACKAGE.rglob("*.cpp")]
    names = {n for file in sources for n in READ.findall(file.read_text())}
    assert {"DYNETJAX_CACHE_DIR", "DYNETJAX_THREADS"} <= names
    assert names <= help.VARIABLES.keys()


def test_version():
    assert run("--version")[:2] == (0, f"dynetjax {dynetjax.__version__}\n")


def test_nothing_to_run():
    status, _, told = run()
    assert status == 1
    assert "dynetjax check program.py" in told
