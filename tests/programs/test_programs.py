"""Programs written for DyNet run as they stand, and print the losses that DyNet prints.

The expected losses are DyNet 2.1.2's, by ``benchmarks/record_programs.py``; so are the
seconds that ``pytest -rP`` shows beside ours.
"""

import json
import pathlib
import re
import subprocess
import sys
import time

import numpy as np
import pytest

from dynetjax.engine import policy

HERE = pathlib.Path(__file__).parent
RECORDED = json.loads((HERE.parent / "data" / "programs.json").read_text())
# What XLA compiles for each, at most: it depends on the code, not on the data.
MOST = {
    "adversarial_tagger": 9,
    "arc_hybrid_parser": 25,
    "bilstm_crf": 35,
    "char_cnn": 6,
    "char_tagger": 6,
    "child_sum_tree": 12,
    "cky_parser": 8,
    "copy_network": 12,
    "glove": 3,
    "graph_parser": 25,
    "greedy_parser": 25,
    "hierarchical_attention": 5,
    "highway_lm": 12,
    "hypernymy": 9,
    "masked_lm": 18,
    "matrix_tree_parser": 16,
    "memory_network": 10,
    "nce_lm": 6,
    "pointer_network": 8,
    "recursive_tree": 10,
    "reinforce": 22,
    "rnng": 8,
    "semi_markov": 8,
    "sentence_vae": 8,
    "seq2seq_attention": 8,
    "siamese": 6,
    "skipgram": 4,
    "stack_lstm_parser": 15,
    "turing_machine": 4,
    "vae": 5,
}
UPDATES = {"auto": 50, "xla": 10}  # XLA's are slow at first
RUN = """
import runpy, sys
import dynetjax, dynetjax.dropin
dynetjax.init(tier=sys.argv[1])
sys.argv = sys.argv[2:]
runpy.run_path(sys.argv[0], run_name="__main__")
print(dynetjax.stats().programs, file=sys.stderr)
"""


def run(name, tier, environment):
    """The losses of a program, how many programs XLA compiled, and the seconds."""
    words = [HERE / f"{name}.py", "--dynet-seed", "1", "--updates", str(UPDATES[tier])]
    start = time.perf_counter()
    done = subprocess.run(
        [sys.executable, "-c", RUN, tier, *words],
        capture_output=True,
        text=True,
        env=environment,
    )
    seconds = time.perf_counter() - start
    assert not done.returncode, done.stderr
    found = re.findall(r"^\d+ (-?\d+\.\d+)$", done.stdout, re.MULTILINE)
    return [float(loss) for loss in found], int(done.stderr.split()[-1]), seconds


@pytest.mark.parametrize("name", RECORDED)
def test_losses_are_those_of_dynet(name):
    if not policy.native():
        pytest.skip("another tier is asked for")
    expected = RECORDED[name]
    losses, compiled, seconds = run(name, "auto", None)
    print(f"{name}: {seconds:.2f} s, in DyNet {expected['seconds']:.2f} s")
    np.testing.assert_allclose(losses, expected["losses"], rtol=1e-3)
    assert len(losses) == UPDATES["auto"]
    assert not compiled


@pytest.mark.parametrize("name", RECORDED)
def test_losses_by_xla_are_too(name, quick_environment):
    expected = RECORDED[name]["losses"][: UPDATES["xla"]]
    losses, compiled, _ = run(name, "xla", quick_environment)
    print(f"{name}: {compiled} programs, at most {MOST[name]}")
    np.testing.assert_allclose(losses, expected, rtol=1e-3)
    assert 0 < compiled <= MOST[name]


def test_all_were_recorded():
    names = {path.stem for path in HERE.glob("*.py")} - {"test_programs"}
    assert names == RECORDED.keys() == MOST.keys()
