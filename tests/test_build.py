"""The suite tests the build that it is asked to, in every process that it starts."""

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


def test_no_other_build_is_tested():
    file = pathlib.Path(dynetjax.graph.__file__)
    other = "compiled" if file.suffix == ".py" else "interpreted"
    command = [sys.executable, "-m", "pytest", "--build", other, __file__]
    done = subprocess.run(command, capture_output=True, text=True)
    assert done.returncode == pytest.ExitCode.USAGE_ERROR
    assert f"--build {other}: {file} is" in done.stderr
