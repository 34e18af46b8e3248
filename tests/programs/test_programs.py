"""Programs written for DyNet run as they stand, and print the losses that DyNet prints.

The expected losses are DyNet 2.1.2's, by ``benchmarks/record_programs.py``.
"""

import json
import pathlib
import re
import subprocess
import sys

import numpy as np
import pytest

HERE = pathlib.Path(__file__).parent
RECORDED = json.loads((HERE.parent / "data" / "programs.json").read_text())
# Programs that are compiled for each, at most: it depends on the code, not on the data.
MOST = {
    "bilstm_crf": 35,
    "char_cnn": 8,
    "graph_parser": 25,
    "greedy_parser": 30,
    "pointer_network": 8,
    "recursive_tree": 10,
    "reinforce": 25,
    "seq2seq_attention": 8,
    "skipgram": 4,
    "stack_lstm_parser": 50,
    "vae": 6,
}
RUN = """
import runpy, sys
import dynetjax.dropin
sys.argv = sys.argv[1:]
runpy.run_path(sys.argv[0], run_name="__main__")
print(dynetjax.stats().programs, file=sys.stderr)
"""


def run(name):
    """The losses of a program, and how many programs were compiled for it."""
    done = subprocess.run(
        [sys.executable, "-c", RUN, HERE / f"{name}.py", "--dynet-seed", "1"],
        capture_output=True,
        text=True,
    )
    assert not done.returncode, done.stderr
    found = re.findall(r"^\d+ (-?\d+\.\d+)$", done.stdout, re.MULTILINE)
    return [float(loss) for loss in found], int(done.stderr.split()[-1])


@pytest.mark.parametrize("name", RECORDED)
def test_losses_are_those_of_dynet(name):
    losses, compiled = run(name)
    np.testing.assert_allclose(losses, RECORDED[name], rtol=1e-3)
    assert len(losses) == 50
    assert compiled <= MOST[name]


def test_all_were_recorded():
    names = {path.stem for path in HERE.glob("*.py")} - {"test_programs"}
    assert names == RECORDED.keys() == MOST.keys()
