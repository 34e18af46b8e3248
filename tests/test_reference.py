"""docs/operations/ is what the code says, and has every operation."""

import doctest
import importlib
import importlib.util
import inspect
import json
import pathlib
import pkgutil
import re
import sys

import pytest

import dynetjax as dy
from dynetjax import ops

ROOT = pathlib.Path(__file__).parent.parent
SCRIPT = ROOT / "docs" / "make_reference.py"
SIGNATURES = ROOT / "tests" / "data" / "signatures.json"


def load(script):
    """A script as a module."""
    spec = importlib.util.spec_from_file_location(script.stem, script)
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


reference = load(SCRIPT)
PAGES = reference.pages()
OPERATION = {n: t for n, t in PAGES.items() if n.startswith("operations/")}
TEXT = "\n".join(OPERATION.values())


def public():
    """Names of operations: DyNet's, those of every family, and some more."""
    families = [
        importlib.import_module(f"dynetjax.ops.{module.name}")
        for module in pkgutil.iter_modules(ops.__path__)
    ]
    own = {name for family in families for name in getattr(family, "__all__", [])}
    return own | {"jax_op", "to_jax"} | json.loads(SIGNATURES.read_text("utf-8")).keys()


OPERATIONS = {name: f for name, f in vars(dy).items() if hasattr(f, "op")}


@pytest.mark.parametrize("name", PAGES)
def test_up_to_date(name):
    text = (reference.DOCS / name).read_text(encoding="utf-8")
    assert text == PAGES[name], f"run {reference.COMMAND}"


def test_has_every_operation():
    headings = re.findall(r"^## `(\w+)`\n", TEXT, flags=re.MULTILINE)
    assert len(headings) == len(set(headings))
    assert public() <= set(headings)


def test_the_overview_has_every_operation():
    rows = re.findall(
        r"^\| \[`(\w+)`\]", OPERATION["operations/index.md"], re.MULTILINE
    )
    assert public() <= set(rows)


def test_says_nothing_for_developers():
    assert "clab/dynet" not in TEXT
    assert "padding is made zero" not in TEXT


def test_other_names_are_of_operations():
    hidden = {function.__name__ for function in reference.USED_FOR.values()}
    assert reference.IN_WORDS.keys() <= public() | hidden


def test_the_example_of_operators(tmp_path):
    text = OPERATION["operations/operators.md"]
    example = doctest.DocTestParser().get_doctest(
        text.replace("```", ""), {"dy": dy}, "operators", None, 0
    )
    dy.renew_cg()
    told: list[str] = []
    failed, tried = doctest.DocTestRunner(verbose=False).run(example, out=told.append)
    assert tried
    assert not failed, "".join(told)


@pytest.mark.parametrize("shown", reference.USED_FOR)
def test_operator(shown):
    """It makes a node of the operation that the page names."""
    dy.renew_cg()
    x, y = dy.inputTensor([[1.0, 2.0], [3.0, 4.0]]), dy.scalarInput(2)
    y = y if "**" in shown else x * 2
    node = eval(shown, {"x": x, "y": y, "k": 3.0, "i": 0, "j": 1})
    op = node.signature.op
    assert op.name == reference.USED_FOR[shown].__name__


@pytest.mark.parametrize("name", OPERATIONS)
def test_arguments(name):
    """Those in the docstring are those there are, and of the kind that it says."""
    function = OPERATIONS[name]
    kinds = reference.kinds(function)
    assert kinds.keys() == inspect.signature(function).parameters.keys()
    _, sections = reference.parts_of(function.__doc__)
    told = dict(reference.items(sections["Args"]))
    assert list(told) == list(inspect.signature(function).parameters)
    for argument, text in told.items():
        assert ("Run-time" in text) == (kinds[argument] == "run-time")


def test_kinds():
    """As they are declared."""
    assert reference.kinds(dy.pick) == {
        "e": "operand",
        "index": "run-time",
        "dim": "static",
    }
    assert reference.kinds(dy.concatenate) == {"xs": "operand", "d": "static"}
    assert reference.kinds(dy.dropout) == {"x": "operand", "p": "run-time"}


def test_notes():
    """What is random, and what others call it."""
    assert [note[:7] for note in reference.notes(dy.random_normal)] == ["Random:"]
    assert "ReLU" in next(iter(reference.notes(dy.rectify)))
    assert not list(reference.notes(dy.one_hot))


def test_check(tmp_path, monkeypatch):
    monkeypatch.setattr(reference, "pages", lambda: {"operations/a.md": "text\n"})
    monkeypatch.setattr(reference, "DOCS", tmp_path)
    monkeypatch.setattr(sys, "argv", ["make_reference.py", "--check"])
    with pytest.raises(SystemExit, match=r"out of date: run python docs/"):
        reference.main()
    monkeypatch.setattr(sys, "argv", ["make_reference.py"])
    reference.main()
    monkeypatch.setattr(sys, "argv", ["make_reference.py", "--check"])
    reference.main()
    page = tmp_path / "operations" / "a.md"
    page.write_text("other\n", encoding="utf-8")
    with pytest.raises(SystemExit, match="out of date"):
        reference.main()
    page.write_text("text\n", encoding="utf-8")
    page.with_name("b.md").write_text("text\n", encoding="utf-8")
    with pytest.raises(SystemExit, match=r"b\.md is of no family"):
        reference.main()
