"""Every process that the suite starts tests what the suite does."""

import pathlib
import subprocess
import sys

import pytest

import dynetjax

ROOT = pathlib.Path(__file__).parent.parent


@pytest.mark.parametrize("folder", [ROOT, "/"])
def test_processes_import_what_the_tests_do(folder):
    program = "from dynetjax import graph; print(graph.__file__)"
    command = [sys.executable, "-c", program]
    done = subprocess.run(command, cwd=folder, stdout=subprocess.PIPE, text=True)
    assert done.stdout.strip() == dynetjax.graph.__file__
