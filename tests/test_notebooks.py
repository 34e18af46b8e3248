"""Every notebook runs from top to bottom, and has its pictures."""

import pathlib

import nbclient
import nbformat
import pytest

NOTEBOOKS = sorted((pathlib.Path(__file__).parent.parent / "notebooks").glob("*.ipynb"))
PICTURES = {"autobatching": 1, "gpu": 1, "porting": 0, "quickstart": 1}


def pictures(notebook):
    """How many pictures its cells have shown."""
    outputs = [o for cell in notebook.cells for o in cell.get("outputs", ())]
    return sum("image/png" in o.get("data", {}) for o in outputs)


@pytest.mark.parametrize("path", NOTEBOOKS, ids=lambda path: path.stem)
@pytest.mark.filterwarnings("ignore")  # of what runs notebooks
def test_runs(path, tmp_path):
    notebook = nbformat.read(path, 4)
    assert pictures(notebook) == PICTURES[path.stem], "its outputs are committed"
    for cell in notebook.cells:
        cell.pop("outputs", None)
        if cell.cell_type == "code":
            cell.outputs = []
    where = {"metadata": {"path": str(tmp_path)}}
    client = nbclient.NotebookClient(notebook, timeout=300, resources=where)
    client.execute()
    assert pictures(notebook) == PICTURES[path.stem]


def test_all_are_known():
    assert {path.stem for path in NOTEBOOKS} == PICTURES.keys()
