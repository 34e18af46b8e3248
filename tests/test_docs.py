"""The pages: their programs run, and every public name is on one of them."""

import inspect
import os
import pathlib
import re
import subprocess
import sys

import pytest

import dynetjax as dy

ROOT = pathlib.Path(__file__).parent.parent
DOCS = ROOT / "docs"
NAMES = ["index", "quickstart", "tutorial", "performance", "testing", "parallel"]
NAMES += ["pictures"]
WITHOUT_PROGRAMS = {"docs/api/index.md", "docs/api/processes.md"}
FOLDERS = [
    path.relative_to(ROOT).as_posix()
    for folder in ("api", "recipes")
    for path in sorted((ROOT / "docs" / folder).glob("*.md"))
]
PAGES = ["README.md", *[f"docs/{name}.md" for name in NAMES]]
PAGES += [page for page in FOLDERS if page not in WITHOUT_PROGRAMS]
BLOCK = re.compile(r"^```python\n(.*?)^```", re.MULTILINE | re.DOTALL)
OTHER_NAMES = {"CoupledLSTMBuilder": "LSTMBuilder", "Model": "ParameterCollection"}


@pytest.mark.parametrize("page", PAGES)
def test_programs_run(page, tmp_path, monkeypatch):
    """One after the other, as a reader would type them."""
    monkeypatch.chdir(tmp_path)
    text = (ROOT / page).read_text(encoding="utf-8")
    blocks = list(BLOCK.finditer(text))
    assert blocks
    names: dict = {}
    dy.renew_cg()
    for block in blocks:
        line = text[: block.start(1)].count("\n")
        exec(compile("\n" * line + block[1], page, "exec"), names)


def test_every_name_is_on_a_page():
    api = "\n".join(read(f"api/{path.name}") for path in (DOCS / "api").glob("*.md"))
    listed = set(re.findall(r"^::: dynetjax\.(\w+)$", api, re.MULTILINE))
    pages = (DOCS / "operations").glob("*.md")
    text = "\n".join(read(f"operations/{path.name}") for path in pages)
    operations = set(re.findall(r"^## `(\w+)`$", text, re.MULTILINE))
    public = {
        name
        for name, value in vars(dy).items()
        if not name.startswith("_") and not inspect.ismodule(value)
    }
    assert {OTHER_NAMES.get(n, n) for n in public} - operations <= listed
    assert listed <= public
    assert not listed & operations, "told twice"


def read(page):
    return (DOCS / page).read_text(encoding="utf-8")


def test_pictures_are_up_to_date():
    """In a process of its own: what is inlined depends on what was built before."""
    script = ROOT / "docs" / "make_pictures.py"
    beside_it = {**os.environ, "PYTHONSAFEPATH": ""}
    subprocess.run([sys.executable, script, "--check"], env=beside_it, check=True)


def test_the_picture_of_speeds_is_up_to_date():
    script = ROOT / "docs" / "make_speed.py"
    beside_it = {**os.environ, "PYTHONSAFEPATH": ""}
    subprocess.run([sys.executable, script, "--check"], env=beside_it, check=True)


def test_byte_code_is_up_to_date():
    script = ROOT / "docs" / "make_bytecode.py"
    beside_it = {**os.environ, "PYTHONSAFEPATH": ""}
    subprocess.run([sys.executable, script, "--check"], env=beside_it, check=True)


def test_pictures_are_of_that_graph():
    assert "the cat sat on mats" in read("pictures/graph.svg")
    (loop,) = re.findall(r"loop, \d+ trips of \d+ lanes", read("pictures.md"))
    assert loop in read("pictures/components.svg")


def test_names_of_other_libraries():
    """The page has what errors tell."""
    script = ROOT / "docs" / "make_from_pytorch.py"
    beside_it = {**os.environ, "PYTHONSAFEPATH": ""}
    subprocess.run([sys.executable, script, "--check"], env=beside_it, check=True)
