"""Every example runs from start to end in its quick form."""

import pathlib
import re
import subprocess
import sys

import pytest

EXAMPLES = sorted((pathlib.Path(__file__).parent.parent / "examples").glob("*.py"))
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
    assert re.search(r"\d+\.\d% \(m", printed)


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
