"""Every example runs from start to end in its quick form."""

import os
import pathlib
import re
import subprocess
import sys

import pytest

FOLDER = pathlib.Path(__file__).parent.parent / "examples"
PARTS = {"progress", "syntax_trees", "beside_dynet"}  # which examples import
EXAMPLES = sorted(f for f in FOLDER.glob("*.py") if f.stem not in PARTS)
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
    "parallel_tagger": rf"(?s)epoch 2: .*right: {SHARE} of",
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


# Or none finds progress.py.
HERE = os.environ | {"PYTHONSAFEPATH": "", "PYTHONIOENCODING": "utf-8"}


def run(*command):
    return run_both(*command)[0]


def run_both(*command, **options):
    """What a command prints to stdout and to stderr."""
    result = subprocess.run(
        [sys.executable, *map(str, command)],
        capture_output=True,
        text=True,
        check=False,
        **{"env": HERE, **options},
    )
    assert result.returncode == 0, result.stderr
    return result.stdout, result.stderr


@pytest.mark.parametrize("example", EXAMPLES, ids=lambda f: f.stem)
def test_quick(example):
    printed = run(example, "--quick")
    assert re.search(r"XLA compilations: \d+", printed)
    assert re.search(RESULTS[example.stem], printed), printed


@pytest.mark.parametrize("example", PLOTS)
def test_plot(example, tmp_path):
    picture = tmp_path / "picture.png"
    run(FOLDER / f"{example}.py", "--quick", "--plot", picture)
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
    file = FOLDER / f"{example}.py"
    assert "XLA compilations" in run(file, "--quick", flag, tmp_path)


def test_beside_dynet():
    """A Python without DyNet is told of in a line, and the trees are drawn."""
    file = FOLDER / "ast_treelstm.py"
    out = run(file, "--quick", "--dynet", sys.executable)
    assert "DyNet was not run: ModuleNotFoundError: No module named 'dynet'" in out
    assert "┬─ FunctionDef" in out
    assert max(map(len, out.splitlines())) <= 80


EPOCH = re.compile(r"epoch (\d+): .*\n")


@pytest.mark.parametrize("example", ["translation", "bilstm_tagger"])
def test_log(example, tmp_path):
    """Without tqdm, and where nobody looks, a line an epoch."""
    (tmp_path / "tqdm.py").write_text("raise ImportError")
    env = {**HERE, "PYTHONPATH": f"{tmp_path}:{os.environ.get('PYTHONPATH', '')}"}
    out, err = run_both(FOLDER / f"{example}.py", "--quick", env=env)
    epochs = EPOCH.findall(out + err)
    assert epochs == [str(n + 1) for n in range(len(epochs))] != []
    assert not EPOCH.sub("", err)


BARS = """
import sys
sys.path.insert(0, {folder!r})
sys.stderr.isatty = lambda: {terminal}
from progress import tqdm, trange
print(tqdm.__module__.split(".")[0])
bar = tqdm("abc", "letters", unit="letter", mininterval=0.5)
for n, letter in enumerate(bar):
    bar.set_postfix(loss=n, refresh=False)
    tqdm.write(letter)
print(list(trange(2, 4, desc="numbers", leave=False)), list(trange(2)))
"""


@pytest.mark.parametrize("terminal", [True, False])
def test_bars(terminal):
    """The same calls, whether there is a bar or a line."""
    out, err = run_both("-c", BARS.format(folder=str(FOLDER), terminal=terminal))
    module = "tqdm" if terminal else "progress"
    assert out.split() == [module, "a", "b", "c", "[2,", "3]", "[0,", "1]"]
    if terminal:
        assert "letters: 100%" in err
    else:
        assert re.fullmatch(r"letters: 3 x letter, \d+\.\d s, loss 2\n", err)


def test_terminal_without_tqdm(tmp_path):
    (tmp_path / "tqdm.py").write_text("raise ImportError")
    code = f"import sys; sys.path.insert(0, {str(tmp_path)!r})\n"
    code += BARS.format(folder=str(FOLDER), terminal=True)
    assert run("-c", code).startswith("progress\na\n")
