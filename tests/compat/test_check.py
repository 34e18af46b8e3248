"""What differs in a program, told without running it."""

import inspect
import subprocess
import sys
from functools import cache

import pytest

import dynetjax as dy
from dynetjax.compat import check


@cache
def known():
    """The names of DyNet, as a process has them whose classes go by its names."""
    code = "from dynetjax import dropin; print(*dropin.public_names())"
    command = [sys.executable, "-c", code]
    done = subprocess.run(command, capture_output=True, text=True, check=True)
    return frozenset(done.stdout.split())


def findings(source):
    """What differs in a program."""
    return check.findings(source, known())


def told(source):
    """(line, name) of each finding."""
    return [(f.line, f.name) for f in findings(source)]


def test_nothing():
    assert not told("import dynet as dy\nx = dy.inputVector([1]) + 1\nx.value()\n")
    assert not told("import numpy as dy\ndy.LSTMBuilder\n")


@pytest.mark.parametrize(
    "source",
    [
        "import dynet as dy\ndy.soft_max(x)",
        "import dynet\ndynet.soft_max(x)",
        "import _dynet as dy\n\ndy.soft_max",
    ],
)
def test_names_that_do_not_exist(source):
    (finding,) = findings(source)
    assert (finding.line, finding.name) == (source.count("\n") + 1, "soft_max")
    assert "no such name; perhaps softmax" in finding.text


def test_names_that_are_imported():
    assert told("from dynet import tanh, soft_max, noise as n\n\nn(tanh(x), 1)") == [
        (1, "soft_max"),
        (3, "noise"),
    ]
    assert told("from dynet import *\n\nLSTMBuilder(1, 2, 3, m)") == [
        (3, "LSTMBuilder")
    ]


def test_settings_and_flags():
    source = """import dynet_config
dynet_config.set(mem=1024, random_seed=1, shared_parameters=1)
sys.argv += ["--dynet-autobatch=1", "--dynet_mem", "--dynet-seed"]
"""
    assert told(source) == [
        (2, "mem"),
        (2, "shared_parameters"),
        (3, "--dynet-autobatch"),
        (3, "--dynet_mem"),
    ]


def test_forks():
    source = "import os\nos.fork()\nmultiprocessing.Process(target=f)\nrocks.fork()"
    assert told(source) == [(2, "os.fork"), (3, "multiprocessing.Process")]


def test_python_2():
    (finding,) = findings("import dynet\nprint 1\n")
    assert (finding.line, finding.name) == (2, "syntax")
    assert "--py2" in finding.text


def test_every_name_that_differs_exists():
    source = "import dynetjax as dy\n" + "".join(f"dy.{name}\n" for name in known())
    assert not [f for f in findings(source) if "no such" in f.text]


def run(*words):
    command = [sys.executable, "-m", "dynetjax", "check", *map(str, words)]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    return done.returncode, done.stdout


def test_command(tmp_path):
    right, wrong = tmp_path / "right.py", tmp_path / "wrong.py"
    right.write_text("import dynet as dy\ndy.noise(x, 1)\n")
    wrong.write_text("import dynet as dy\ndy.nothing\n")
    told = f"{right}:2: noise: the numbers of a seed are not DyNet's\n"
    assert run(right) == (0, told)
    status, out = run(wrong, right)
    assert status == 1
    assert out.startswith(f"{wrong}:2: nothing: there is no such name")
    assert run(tmp_path / "absent.py")[0] == 2


def test_names_of_other_libraries():
    (found,) = findings("import dynet as dy\ndy.sigmoid(x)")
    assert found.text == "there is no such name: dy.logistic(x)"


@pytest.mark.parametrize(
    ("call", "here"),
    [
        ("dy.AdamTrainer(m, lr=0.1)", "alpha"),
        ("dy.SimpleSGDTrainer(m, lr=0.1)", "learning_rate"),
        ("dy.softmax(x, dim=1)", "d"),
    ],
)
def test_keywords_of_other_libraries(call, here):

    def keywords(name):
        return list(inspect.signature(getattr(dy, name)).parameters)

    source = f"import dynet as dy\n{call}"
    (found,) = check.findings(source, known(), keywords)
    assert found.text == f"there is no such keyword: {here}="
