"""Write dynetjax/__init__.pyi: the types of all public names, for editors.

    python docs/make_stub.py [--check]

`@op` makes what users call while a module is imported, which no editor sees. So here
are their signatures: names and defaults as Python has them, types as the declarations
say. All other names have theirs where they stand. With --check it writes nothing, and
fails if the file is not what it would write.
"""

import ast
import importlib
import inspect
import pathlib
import textwrap
from collections.abc import Callable, Iterator
from typing import Any

from make_reference import write_or_check

import dynetjax as dy
from dynetjax.core.registry import Op

FACADE = pathlib.Path(__file__).parents[1] / "dynetjax" / "__init__.py"
STUB = FACADE.with_suffix(".pyi")
COMMAND = "python docs/make_stub.py"
HEAD = f"""# Written by `{COMMAND}` from the code. Change that.
# ruff: noqa: I001

from collections.abc import Sequence

from dynetjax import parallel as parallel
from dynetjax.ops.arguments import Int, Number
"""
WIDTH = 88


def names() -> Iterator[tuple[str, str]]:
    """(module, name) of what the facade imports, but for names of its own."""
    for node in ast.parse(FACADE.read_text(encoding="utf-8")).body:
        if isinstance(node, ast.ImportFrom) and node.module != "dynetjax":
            assert node.module
            for alias in node.names:
                if alias.name == "*":
                    found = importlib.import_module(node.module).__all__
                    yield from ((node.module, name) for name in found)
                elif alias.asname is None:
                    yield node.module, alias.name


def is_operation(function: Any) -> bool:
    """Whether `@op` made it."""
    return isinstance(getattr(function, "op", None), Op)


def annotations(operation: Op) -> dict[str, str]:
    """The types that a declaration gives its arguments, by name."""
    assert operation.fn is not None
    source = textwrap.dedent(inspect.getsource(operation.fn))
    (declared,) = ast.parse(source).body
    assert isinstance(declared, ast.FunctionDef)
    given = [*declared.args.args, *declared.args.kwonlyargs]
    return {a.arg: ast.unparse(a.annotation) for a in given if a.annotation}


def typed(function: Callable[..., Any], name: str) -> str:
    """``def name(x: Expression, d: int = 0) -> Expression: ...``."""
    operation: Op = function.op  # type: ignore[attr-defined]
    types = annotations(operation)
    operand = "list[Expression]" if operation.is_listed else "Expression"
    others = {*operation.static, *others_fed(operation)}
    missing = others - types.keys()
    assert not missing, f"{name}: say of what type {sorted(missing)} are"
    shown: list[str] = []
    for p in inspect.signature(function).parameters.values():
        kind = types[p.name] if p.name in others else operand
        default = "" if p.default is p.empty else f" = {p.default!r}"
        shown.append(f"{p.name}: {kind}{default}")
        if p.kind is p.POSITIONAL_ONLY:
            shown.append("/")
    return laid_out(f"def {name}(", shown, ") -> Expression: ...")


def others_fed(operation: Op) -> list[str]:
    """The names of the arguments that are given to each run."""
    count = len(operation.runtime.replace("k", ""))
    assert operation.fn is not None
    parameters = list(inspect.signature(operation.fn).parameters.values())
    known = [p.name for p in parameters if p.name not in {*operation.static, "key"}]
    return known[len(known) - count :]


def laid_out(start: str, items: list[str], end: str) -> str:
    """On one line, or where that is too long, as the formatter has it."""
    inside = ", ".join(items)
    if len(start + inside + end) <= WIDTH:
        return start + inside + end
    if len(inside) + 4 <= WIDTH:
        return f"{start}\n    {inside}\n{end}"
    return "\n".join([start, *[f"    {item}," for item in items], end])


def page() -> str:
    """The file as it has to be."""
    imported, defined = [], []
    for module, name in sorted(names()):
        value = getattr(dy, name)
        if is_operation(value):
            defined.append(typed(value, name))
        else:
            imported.append(exported(module, name))
    lines = [*imported, "", "__version__: str", "", *defined]
    return HEAD + "\n".join(lines) + "\n"


def exported(module: str, name: str) -> str:
    """The import of a name that whoever imports dynetjax has, too."""
    line = f"from {module} import {name} as {name}"
    return (
        line
        if len(line) <= WIDTH
        else f"from {module} import (\n    {name} as {name},\n)"
    )


def main() -> None:
    """Write the file, or check it."""
    write_or_check(STUB, page(), COMMAND)


if __name__ == "__main__":
    main()
