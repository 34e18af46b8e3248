"""The site as it is built: what its search knows, and where its navigation leads."""

import json
import os
import pathlib
import re
import subprocess
import sys
from html import unescape
from typing import NamedTuple

import pytest

ROOT = pathlib.Path(__file__).parent.parent
TAG = re.compile("<[^>]+>")

# What newcomers look for, and the section or page that they should find.
LOOKED_FOR = {
    "relu": "operations/activations/#rectify",
    "sigmoid": "operations/activations/#logistic",
    "embedding": "operations/parameters-and-tables/#lookup",
    "embedding table": "api/parameters/",
    "cross entropy": "operations/losses/#pickneglogsoftmax",
    "autobatching": "api/graphs/",
    "load a model": "api/files/",
    "nan": "api/looking-inside/",
    "find_nonfinite": "api/looking-inside/#find_nonfinite",
    "beam search": "recipes/beam-search/",
    "early stopping": "recipes/early-stopping/",
    "glove": "recipes/word-vectors/",
    "tensorboard": "recipes/logging/",
    "flax": "recipes/flax/",
    "optimizer": "api/trainers/",
    "gpu": "performance/#on-a-gpu",
    "adamtrainer": "api/trainers/#adamtrainer",
}


class Site(NamedTuple):
    """Where it lies, and the entries of its search by their address.

    `boosts` are those of entries that do not count as they are.
    """

    folder: pathlib.Path
    entries: dict[str, str]
    boosts: dict[str, float]


@pytest.fixture(scope="module")
def site(tmp_path_factory):
    folder = tmp_path_factory.mktemp("site")
    command = [sys.executable, "-m", "mkdocs", "build", "--strict", "-d", str(folder)]
    quiet = {**os.environ, "NO_MKDOCS_2_WARNING": "1", "PYTHONSAFEPATH": ""}
    done = subprocess.run(
        command, cwd=ROOT, env=quiet, capture_output=True, text=True, check=False
    )
    assert done.returncode == 0, done.stderr
    index = json.loads((folder / "search" / "search_index.json").read_text("utf-8"))
    entries = {
        entry["location"]: unescape(TAG.sub("", f"{entry['title']} {entry['text']}"))
        for entry in index["docs"]
    }
    boosts = {entry["location"]: entry.get("boost", 1) for entry in index["docs"]}
    return Site(folder, entries, boosts)


@pytest.mark.parametrize("words", LOOKED_FOR)
def test_search_finds(site, words):
    """The words stand in the entry as the search would split it."""
    text = " ".join(
        re.split(r"[\s\-,:!=\[\](){}\"`/.]+", site.entries[LOOKED_FOR[words]])
    )
    assert re.search(rf"\b{words}", text, re.IGNORECASE)


def test_every_operation_is_an_entry(site):
    text = (ROOT / "docs" / "operations" / "losses.md").read_text(encoding="utf-8")
    names = re.findall(r"^## `(\w+)`$", text, re.MULTILINE)
    assert names
    assert {f"operations/losses/#{name.lower()}" for name in names} <= set(site.entries)


def test_a_method_is_told_once(site):
    """Those of C++, too; a class that inherits it has a link."""
    assert "full=False" in site.entries["api/graphs/#expressionbackward"]
    assert "recalculate=False" in site.entries["api/graphs/#expressionvalue"]
    assert "for the engine" not in site.entries["api/graphs/#expression"]
    everywhere = [place for place in site.entries if "get_clip_threshold" in place]
    assert everywhere == ["api/trainers/#trainerget_clip_threshold"]
    html = (site.folder / "api" / "trainers" / "index.html").read_text("utf-8")
    adam = html[html.index('id="adamtrainer"') : html.index('id="amsgradtrainer"')]
    assert re.search(r'Also has, as <a href="[^"]*#trainer">.*get_clip_threshold', adam)


def test_the_engine_is_a_part_of_its_own(site):
    """The guide's own menu has no page about the engine."""
    html = (site.folder / "quickstart" / "index.html").read_text(encoding="utf-8")
    tabs = re.search(r'<nav class="md-tabs".*?</nav>', html, re.DOTALL)
    assert tabs
    for name in ("Guide", "Recipes", "Operations", "Everything else", "Inside"):
        assert name in tabs[0]
    assert "design" not in tabs[0]
    assert site.boosts["design/"] < 1
    assert site.boosts["decisions/001-what-buys-under-five-per-cent/"] < 1
    assert site.boosts["quickstart/"] >= 1


def test_no_page_says_where_dynet_has_it(site):
    assert not [place for place, text in site.entries.items() if "clab/dynet" in text]
