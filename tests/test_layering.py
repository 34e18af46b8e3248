"""Every import points down, and none hides in a function."""

import ast
import pathlib

import pytest

ROOT = pathlib.Path(__file__).parent.parent / "dynetjax"
LAYERS = [
    ("core.errors", "core.uninterrupted", "core.tables"),
    ("core.other_names",),
    ("core.group", "native"),
    ("io.atomic", "io.numbers", "io.meta", "core.lazy"),
    ("io.text",),
    ("core.devices", "core.precision", "core.dims"),
    ("core.reprs",),
    ("core.registry",),
    ("core.expression",),
    ("core.nodes",),
    ("graph",),
    ("core.reading", "core.revert", "core.functions"),
    ("ops",),
    ("engine.ir", "engine.native.lowering"),
    ("engine",),
    ("model",),
    ("builders", "trainers"),
    ("io",),
    ("serving",),
    ("config",),
    ("compat", "inspect"),
    ("parallel",),
    ("cg", "process"),
    ("",),
    ("parallel.launch", "testing"),
    ("__main__",),
]
FILES = sorted(ROOT.rglob("*.py"))


def module_name(file):
    """``ops.registry``; the facade is empty, a package goes by its own name."""
    parts = file.relative_to(ROOT).with_suffix("").parts
    return ".".join(p for p in parts if p != "__init__")


def layer(module):
    """(height, the layer's part that the module is in)."""
    best = max(
        (len(part), height, part)
        for height, parts in enumerate(LAYERS)
        for part in parts
        if part == "" or module == part or module.startswith(part + ".")
    )
    return best[1], best[2]


def imports(tree):
    """The modules of this package that a file imports."""
    for node in ast.walk(tree):
        if isinstance(node, ast.ImportFrom) and node.module:
            names = [node.module, *(f"{node.module}.{a.name}" for a in node.names)]
        elif isinstance(node, ast.Import):
            names = [a.name for a in node.names]
        else:
            continue
        for name in names:
            if name.startswith("dynetjax.") and is_module(name):
                yield name.removeprefix("dynetjax.")


def is_module(name):
    path = ROOT.joinpath(*name.split(".")[1:])
    return path.with_suffix(".py").exists()


@pytest.mark.parametrize("file", FILES, ids=module_name)
def test_imports_point_down(file):
    height, part = layer(module_name(file))
    for name in imports(ast.parse(file.read_text(encoding="utf-8"))):
        other_height, other_part = layer(name)
        assert other_height <= height, f"{file.name} imports {name} from above"
        if other_height == height:
            assert other_part == part, f"{file.name} imports {name} from beside"


@pytest.mark.parametrize("file", FILES, ids=module_name)
def test_no_import_in_a_function(file):
    tree = ast.parse(file.read_text(encoding="utf-8"))
    for function in ast.walk(tree):
        if isinstance(function, ast.FunctionDef):
            hidden = [
                node.lineno
                for node in ast.walk(function)
                if isinstance(node, ast.Import | ast.ImportFrom)
            ]
            assert not hidden, f"{file.name}:{hidden[0]} imports inside a function"


@pytest.mark.parametrize("file", FILES, ids=module_name)
def test_one_module_imports_jax(file):
    """The others have it of that one, which waits until something of it is used.

    Beside it, one module goes with exported models to where there is JAX alone.
    """
    tree = ast.parse(file.read_text(encoding="utf-8"))
    names = []
    for node in ast.walk(tree):
        if isinstance(node, ast.Import):
            names += [alias.name for alias in node.names]
        elif isinstance(node, ast.ImportFrom) and node.module:
            names.append(node.module)
    slow = {"jax", "jaxlib", "optax"} & {name.partition(".")[0] for name in names}
    assert module_name(file) in ("core.lazy", "serving.served") or not slow


def test_no_cycle_between_modules():
    """Depth-first over the imports of every file meets no file twice on a path."""
    edges = {
        module_name(f): set(imports(ast.parse(f.read_text(encoding="utf-8"))))
        for f in FILES
    }
    done = set()

    def visit(module, path):
        assert module not in path, " -> ".join([*path, module])
        if module not in done:
            for other in edges.get(module, ()):
                visit(other, [*path, module])
            done.add(module)

    for module in edges:
        visit(module, [])
