"""What editors and type checkers are told of the public names."""

import ast
import importlib.util
import inspect
import os
import pathlib
import subprocess
import sys
from types import ModuleType

import pytest

import dynetjax as dy
from dynetjax.core.registry import Op

ROOT = pathlib.Path(__file__).parent.parent
SCRIPT = ROOT / "docs" / "make_stub.py"
STUB = ROOT / "dynetjax" / "__init__.pyi"
NODES = ast.parse(STUB.read_text(encoding="utf-8")).body
SIGNATURES = {node.name: node for node in NODES if isinstance(node, ast.FunctionDef)}


def shown(function):
    """Names, kinds and defaults of its parameters."""
    parameters = inspect.signature(function).parameters.values()
    return [(p.name, p.kind, p.default) for p in parameters]


@pytest.fixture(scope="module")
def script():
    """The script as a module, with what stands beside it at hand."""
    sys.path.insert(0, str(SCRIPT.parent))
    try:
        spec = importlib.util.spec_from_file_location("make_stub", SCRIPT)
        module = importlib.util.module_from_spec(spec)
        spec.loader.exec_module(module)
    finally:
        sys.path.remove(str(SCRIPT.parent))
    return module


def test_up_to_date():
    beside_it = {**os.environ, "PYTHONSAFEPATH": ""}
    subprocess.run([sys.executable, SCRIPT, "--check"], env=beside_it, check=True)


def test_every_public_name_is_there():
    imported = [
        alias.asname
        for node in NODES
        if isinstance(node, ast.ImportFrom)
        for alias in node.names
    ]
    public = {
        name
        for name, value in vars(dy).items()
        if name[0] != "_" and not isinstance(value, ModuleType)
    }
    assert public <= {*imported, *SIGNATURES}


@pytest.mark.parametrize("name", SIGNATURES)
def test_signature(name):
    """Names, kinds and defaults are those of the function; everything has a type."""
    given = SIGNATURES[name].args
    for argument in [*given.posonlyargs, *given.args]:
        assert argument.annotation
        argument.annotation = None
    stated = eval(f"lambda {ast.unparse(given)}: None")
    assert shown(stated) == shown(getattr(dy, name))


def test_missing_type(script):
    """A declaration must say of what type its arguments are."""

    def turned(x, angle):
        return x + angle

    operation = Op("turned", turned, static=("angle",), internal=True)
    turned.op = operation
    with pytest.raises(AssertionError, match=r"turned: say of what type \['angle'\]"):
        script.typed(turned, "turned")


def test_layout(script):
    items = ["x: Expression", "y: Expression"]
    assert script.laid_out("f(", items, ")") == "f(x: Expression, y: Expression)"
    two = script.laid_out("f(" + "g" * 70, items, ")")
    assert two.splitlines()[1] == "    x: Expression, y: Expression"
    many = script.laid_out("f(", items * 4, ")").splitlines()
    assert many[1] == "    x: Expression,"
    assert len(many) == 10
