"""Every example runs from start to end in its quick form."""

import pathlib
import re
import subprocess
import sys

import pytest

EXAMPLES = sorted((pathlib.Path(__file__).parent.parent / "examples").glob("*.py"))
SHARE = r"\d+\.\d%"
RESULTS = {  # what each of them prints
    "ast_treelstm": rf"{SHARE} \(m",
    "bilstm_tagger": rf"right: {SHARE} \(m",
    "class_factored_softmax": r"(?s)full softmax: loss .*factored softmax: loss",
    "early_exit": rf"stopping early: {SHARE} right, \d+\.\d words read of",
    "jax_function": "graph and JAX agree on a swing: True",
    "language_model": r"perplexity: \d+\.\d \(unigram: \d+\.\d\)",
    "load_dynet_model": r"score of \w+: -?\d+\.\d+ \(in DyNet",
    "optax_schedule": r"(?s)loss \d\.\d+ -> \d\.\d+.*loss \d\.\d+ -> \d\.\d+",
    "resume": "equal bit by bit: True",
    "tagger_with_characters": rf"rare words by characters: {SHARE} right",
    "transition_parser": rf"heads: {SHARE} \(m",
    "translation": SHARE,
    "vae": r"bound of other pictures, in nats: -?\d+\.\d -> -?\d+\.\d",
    "xor": r"right: 100\.0% \(m",
}
PLOTS = ["optax_schedule", "translation", "vae"]
SST = ["(3 (2 It) (4 (4 works) (2 .)))", "(1 (2 dull) (0 mess))"]
WIKINER = ["Ada|I-PER lives|O in|O Rome|I-LOC", "It|O rains|O"]


def run(*command):
    result = subprocess.run(
        [sys.executable, *map(str, command)],
        capture_output=True,
        text=True,
        check=False,
    )
    assert result.returncode == 0, result.stderr
    return result.stdout


@pytest.mark.parametrize("example", EXAMPLES, ids=lambda f: f.stem)
def test_quick(example):
    printed = run(example, "--quick")
    assert re.search(r"XLA compilations: \d+", printed)
    assert re.search(RESULTS[example.stem], printed), printed


@pytest.mark.parametrize("example", PLOTS)
def test_plot(example, tmp_path):
    picture = tmp_path / "picture.png"
    run(EXAMPLES[0].parent / f"{example}.py", "--quick", "--plot", picture)
    assert picture.stat().st_size > 1000


@pytest.mark.parametrize("example", EXAMPLES, ids=lambda f: f.stem)
def test_help(example):
    assert "--quick" in run(example, "--help")


@pytest.mark.parametrize(
    ("example", "flag", "lines"),
    [("ast_treelstm", "--sst", SST), ("bilstm_tagger", "--wikiner", WIKINER)],
)
def test_real_data(example, flag, lines, tmp_path):
    for name in ("train.txt", "dev.txt"):
        (tmp_path / name).write_text("\n".join(lines * 6) + "\n", encoding="utf-8")
    file = EXAMPLES[0].parent / f"{example}.py"
    assert "XLA compilations" in run(file, "--quick", flag, tmp_path)
