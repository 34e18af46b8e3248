"""Errors are printed with the user's lines alone."""

import os
import re
import subprocess
import sys

import pytest

import dynetjax as dy
from dynetjax.compat import tracebacks

PROGRAM = """\
import {name} as dy


def score(x):
    return dy.inputTensor([[1, 2], [3, 4]]) * x


{do}
"""
FAIL = "score(dy.inputVector([1, 2, 3]))"
CATCH = """\
import traceback
try:
    score(dy.inputVector([1, 2, 3]))
except ValueError:
    traceback.print_exc()
"""
CHAIN = """\
try:
    score(dy.inputVector([1, 2, 3]))
except ValueError as error:
    raise KeyError("no score") from error
"""
THREAD = """\
import threading
thread = threading.Thread(target=lambda: score(dy.inputVector([1, 2, 3])))
thread.start()
thread.join()
"""
HINT = "(DYNETJAX_TRACEBACK=full shows the frames of dynetjax, too)\n"


@pytest.fixture
def run(tmp_path):
    """Runs a program; what it has written to stderr."""

    def run(do, *before, name="dynetjax", **settings):
        file = tmp_path / "program.py"
        file.write_text(PROGRAM.format(name=name, do=do))
        command = [sys.executable, *before, file]
        env = os.environ | settings
        return subprocess.run(command, env=env, capture_output=True, text=True).stderr

    return run


def places(told):
    """File and line of each frame."""
    found = re.findall(r'File "(?:.*/)?([^/"]+)", line (\d+)', told)
    return [(file, int(line)) for file, line in found]


def test_a_program(run):
    told = run(FAIL)
    assert places(told) == [("program.py", 8), ("program.py", 5)]
    assert told.endswith(HINT)


@pytest.mark.parametrize("name", ["dynetjax", "dynet"])
def test_by_the_command(run, name):
    told = run(FAIL, "-m", "dynetjax", name=name)
    assert places(told) == [("program.py", 8), ("program.py", 5)]


def test_of_what_came_before(run):
    told = run(CHAIN)
    assert places(told) == [("program.py", 9), ("program.py", 5), ("program.py", 11)]


def test_in_a_thread(run):
    told = run(THREAD)
    own = [place for place in places(told) if place[0] != "threading.py"]
    assert own == [("program.py", 9), ("program.py", 5)]
    assert "Exception in thread" in told


def test_all_of_them(run):
    told = run(FAIL, "-m", "dynetjax", DYNETJAX_TRACEBACK="full")
    files = [file for file, _ in places(told)]
    assert {"program.py", "running.py", "linear.py"} <= {*files}
    assert HINT not in told


def test_a_plain_import_changes_nothing(run):
    assert len(places(run(FAIL, DYNETJAX_PLAIN_IMPORT="1"))) > 2


def test_errors_of_the_user_are_printed_as_ever(run):
    told = run("1 / 0")
    assert places(told) == [("program.py", 8)]
    assert HINT not in told


def test_the_error_keeps_all_frames(run):
    """For those who catch it."""
    assert len(places(run(CATCH))) > 2


def test_a_traceback_of_ours_alone_stays():
    with pytest.raises(dy.DimError) as caught:
        dy.inputTensor([[1, 2]]) * dy.inputVector([1])
    inner = caught.value.__traceback__.tb_next
    assert tracebacks.without_own(inner) is inner


def test_previous_hooks_are_called_and_nothing_is_lost():
    seen = []
    with pytest.raises(dy.DimError) as caught:
        dy.inputTensor([[1, 2]]) * dy.inputVector([1])
    error = caught.value
    whole = error.__traceback__
    tracebacks.show_by(lambda *given: seen.append(given))(type(error), error, whole)
    ((kind, given, shown),) = seen
    assert (kind, given) == (dy.DimError, error)
    assert shown.tb_frame is whole.tb_frame
    assert shown.tb_next is None
    assert error.__traceback__ is whole


def test_ipython(tmp_path):
    pytest.importorskip("IPython")
    code = (
        "from IPython.core.interactiveshell import InteractiveShell\n"
        "shell = InteractiveShell.instance(colors='nocolor')\n"
        "shell.run_cell('import dynetjax as dy')\n"
        "shell.run_cell('dy.inputTensor([[1, 2]]) * dy.inputVector([1])')\n"
        "shell.run_cell('1 / 0')\n"
    )
    env = os.environ | {"IPYTHONDIR": str(tmp_path)}
    command = [sys.executable, "-c", code]
    done = subprocess.run(command, env=env, capture_output=True, text=True, check=True)
    assert "DimError" in done.stdout
    assert "ZeroDivisionError" in done.stdout
    assert "declare.py" not in done.stdout
    assert "linear.py" not in done.stdout


TEST = """\
import numpy as np
import dynetjax as dy
from dynetjax.testing import assert_gradients


def test_dims():
    dy.inputTensor([[1, 2]]) * dy.inputVector([1])


def test_gradients():
    m = dy.ParameterCollection()
    W = m.add_parameters((3, 3))
    loss = dy.squared_norm(dy.nobackprop(W) * dy.cmult(W, W))
    assert_gradients(loss, [W])
"""


@pytest.mark.parametrize(("name", "most"), [("dims", 12), ("gradients", 16)])
def test_pytest(tmp_path, name, most):
    """A failure is the test's own lines, and the message."""
    (tmp_path / "test_it.py").write_text(TEST)
    command = [sys.executable, "-m", "pytest", "-q", "-k", name, "test_it.py"]
    done = subprocess.run(command, cwd=tmp_path, capture_output=True, text=True)
    assert "1 failed" in done.stdout
    _, _, shown = done.stdout.partition("= FAILURES =")
    shown, _, _ = shown.partition("= short test summary")
    lines = [line for line in shown.splitlines()[2:] if line.strip()]
    assert len(lines) <= most, shown
    assert "dynetjax/" not in shown
