"""Networks of many sizes run to their end: a choice of `benchmarks/sizes.py`."""

import pathlib
import subprocess
import sys

import pytest

PROGRAM = pathlib.Path(__file__).parent.parent / "benchmarks" / "sizes.py"
CHOICE = [  # XLA ended the process for the first two, where loops were one kernel
    ("attention", "1024", "1"),
    ("masked", "1024", "1"),
    ("treelstm", "8", "4"),
    ("gru", "50", "4"),
    ("cnn", "50", "1"),
    ("biaffine", "8", "4"),
]


@pytest.mark.parametrize(("network", "hidden", "batch"), CHOICE)
def test_runs_to_its_end(network, hidden, batch):
    words = "--networks", network, "--hidden", hidden, "--batch", batch
    command = [sys.executable, str(PROGRAM), *words]
    done = subprocess.run(command, capture_output=True, text=True)
    assert not done.returncode, done.stdout + done.stderr
    head, line = done.stdout.splitlines()
    assert head.split()[:4] == ["network", "hidden", "batch", "exit"]
    assert line.split()[:4] == [network, hidden, batch, "0"]
