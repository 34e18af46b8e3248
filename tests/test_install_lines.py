"""What pip is given is said in one place; pages and notebooks repeat it."""

import importlib.util
import json
import pathlib

import pytest

ROOT = pathlib.Path(__file__).parent.parent
SCRIPT = ROOT / "docs" / "make_install.py"
GIT = "git+https://github.com/someone/something"


def load(script):
    """A script as a module."""
    spec = importlib.util.spec_from_file_location(script.stem, script)
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


install = load(SCRIPT)
NOTEBOOKS = [path for path in install.files() if path.suffix == ".ipynb"]


@pytest.mark.parametrize("path", install.files(), ids=lambda path: path.name)
def test_up_to_date(path):
    text = path.read_text(encoding="utf-8")
    source = install.setting("install")
    assert f"pip install {source}" in text.replace("install -q", "install")
    assert install.rewritten(text, source) == text, f"run {install.COMMAND}"


@pytest.mark.parametrize("before", ["dynetjax", GIT])
@pytest.mark.parametrize("after", ["dynetjax", "git+https://example.org/other"])
def test_another_source(before, after):
    """From any to any, in a page and in a notebook."""
    for text in ("pip install {}\n", "`pip install {}`", '"%pip install -q {} x\\n",'):
        assert install.rewritten(text.format(before), after) == text.format(after)


def test_with_an_extra():
    line = "pip install 'dynetjax[cuda]'  # GPU\n"
    other = f"pip install 'dynetjax[cuda] @ {GIT}'  # GPU\n"
    assert install.rewritten(line, GIT) == other
    assert install.rewritten(other, "dynetjax") == line


@pytest.mark.parametrize("path", NOTEBOOKS, ids=lambda path: path.stem)
def test_a_notebook_opens_in_colab(path):
    """By its badge, from this repository; and its first code installs the package."""
    cells = json.loads(path.read_text(encoding="utf-8"))["cells"]
    repository = install.setting("repo_url").removeprefix("https://github.com/")
    place = f"github/{repository}/blob/main/notebooks/{path.name}"
    badge = f"](https://colab.research.google.com/{place})"
    assert badge in "".join(cells[0]["source"])
    first = "".join(cells[1]["source"])
    assert first.startswith("try:\n    import dynetjax as dy\nexcept ImportError:")
    others = "".join("".join(cell["source"]) for cell in cells[2:])
    assert ("matplotlib" in first) == ("matplotlib" in others)
