"""Write docs/reference.md: every operation, as the code declares and documents it.

    python docs/make_reference.py [--check]

With --check it writes nothing, and fails if the page is not what it would write.
"""

import argparse
import importlib
import inspect
import pathlib
import pkgutil
import re
import sys
import textwrap
from collections.abc import Callable, Iterable
from types import ModuleType
from typing import Any, NamedTuple

import dynetjax as dy
from dynetjax import ops
from dynetjax.core.registry import GATHER, OPS, REDUCE, Op
from dynetjax.ops import arithmetic, linear
from dynetjax.ops.ragged import FILL, MASK, MEAN, TREATMENT, ZERO

PAGE = pathlib.Path(__file__).with_name("reference.md")
COMMAND = "python docs/make_reference.py"
HEAD = f"""# Reference

<!-- Written by `{COMMAND}` from the docstrings. Change those. -->

Every operation by its name in `dynetjax`. [porting.md](porting.md) tells what differs
from DyNet.

`{{2,3 X 4}}` is a batch of four matrices of two rows and three columns. The batch is
no dimension, and is left out where it is 1. Arguments are of three kinds, where it is
said:

- *operand*: an expression, a parameter or a table.
- *static*: part of the program. Another value needs another program.
- *run-time*: given to the program. Another value needs nothing new.

The length of a sentence is a *ragged axis*: where lists of ever different lengths are
put side by side, the numbers are padded, and one program computes all lengths. What an
operation does with the padding stands under *Ragged axes*; what is computed on exact
dims needs another program for each length. Functions of which nothing is said have no
operand, or are made of other operations.
"""
TITLES = {
    "draws": "Random numbers",
    "elementwise": "Mathematical functions",
    "flow": "Gradient flow",
    "hinges": "Hinge losses",
    "linear": "Linear algebra",
    "lstm_steps": "LSTM steps",
    "rows": "Batch elements",
    "shaping": "Shape and selection",
    "selection": "Several rows or columns",
    "tensors": "Contractions",
}
PADDING = {
    ZERO: "zeros in the padding change nothing",
    MASK: "the padding is made zero again in the result",
    FILL: "along the dimension, the padding counts as {}",
    MEAN: "the padding does not count",
}
EXACT = "computed on exact dims, as if the axis were an ordinary one"
SECTION = re.compile(r"(Args|Returns|Raises|Attributes|Examples):")

OPERATORS = """\
`*` is the matrix product, never element-wise: `cmult` is that, and `cdiv` divides. `x`
and `y` are expressions, `k` is a Python number, `i` and `j` are ints. `k` and `i` are
run-time; the bounds of slices are static. A negative `i` counts from the end, and
`for row in x` goes through the rows. A last slice, after one for each dimension, is
that of the batch. `x / y`, and operands of other types, raise NotImplementedError."""
# What stands for each operator.
USED_FOR: dict[str, Callable[..., Any]] = {
    "x + y": arithmetic.add,
    "x + k": arithmetic.shift,
    "k + x": arithmetic.shift,
    "x - y": arithmetic.subtract,
    "x - k": arithmetic.shift,
    "k - x": arithmetic.subtract_from,
    "-x": arithmetic.negate,
    "x * y": linear.matmul,
    "x * k": arithmetic.scale,
    "k * x": arithmetic.scale,
    "x / k": arithmetic.scale,
    "x ** y": dy.pow,
    "x ** k": dy.pow,
    "x[i]": dy.pick,
    "x[i:j]": dy.pick_range,
    "x[i:j, i:j]": dy.strided_select,
}
PARAMETERS = """\
Parameters and tables are expressions themselves. `table[i]` and `table.batch(ids)` read
rows, too."""
METHODS = "What can be asked of an expression `e`, parameters and tables included."
OF_THE_ENGINE = {"locate", "without_padding"}


class Entry(NamedTuple):
    """One function, what its heading shows, and what follows."""

    name: str
    shown: str
    text: str


class Section(NamedTuple):
    """Functions that belong together."""

    title: str
    text: str
    entries: list[Entry]


def parts_of(doc: str) -> tuple[str, dict[str, list[str]]]:
    """The prose of a docstring, and the lines of its sections; the source is one."""
    prose: list[str] = []
    sections: dict[str, list[str]] = {}
    here = prose
    for line in inspect.cleandoc(doc).splitlines():
        if SECTION.fullmatch(line):
            here = sections[line[:-1]] = []
        elif line.startswith("Source: "):
            here = sections["Source"] = [line.removeprefix("Source: ")]
        else:
            here.append(line)
    return "\n".join(prose).strip(), sections


def joined(lines: Iterable[str]) -> str:
    """Lines as one."""
    return " ".join(" ".join(lines).split())


def items(lines: list[str]) -> list[list[str]]:
    """``[names, text]`` of lines such as ``name: text``, continued with an indent."""
    found: list[list[str]] = []
    for line in textwrap.dedent("\n".join(lines)).splitlines():
        if line.startswith(" "):
            found[-1].append(line)
        else:
            found.append([line])
    return [joined(item).split(": ", 1) for item in found]


def kinds(function: Callable[..., Any]) -> dict[str, str]:
    """Which arguments are operands, static and run-time, where an `Op` tells."""
    op = getattr(function, "op", None)
    if op is None:
        return {}
    found = dict.fromkeys(op.static, "static")
    others = [p for p in inspect.signature(function).parameters if p not in found]
    operands = len(others) - len(op.given)
    found |= dict.fromkeys(others[:operands], "operand")
    return found | dict.fromkeys(others[operands:], "run-time")


def has_operands(op: Op) -> bool:
    """Whether it computes anything from expressions."""
    if op.fn is None:
        return op.form in (REDUCE, GATHER)
    every = inspect.signature(op.fn).parameters.values()
    fed = [p for p in every if p.kind is not p.KEYWORD_ONLY]
    return len(fed) > len(op.runtime) or any(p.kind is p.VAR_POSITIONAL for p in fed)


def notes(function: Callable[..., Any]) -> Iterable[str]:
    """What the operation tells of itself beside its docstring."""
    name = function.__name__
    op = getattr(function, "op", OPS.get(name))
    if name in TREATMENT:
        how, filling = TREATMENT[name]
        yield f"Ragged axes: {PADDING[how].format(f'`{filling}`')}."
    elif op and has_operands(op):
        yield f"Ragged axes: {EXACT}."
    if op and op.lengthens:
        yield "Makes a ragged axis of rows, in lists of ever different lengths."
    if op and "k" in op.runtime:
        yield "Random: drawn anew for every node and batch element."


def laid_out(doc: str | None, kind_of: dict[str, str], more: Iterable[str] = ()) -> str:
    """A docstring as Markdown, with what else is known."""
    assert doc
    prose, sections = parts_of(doc)
    blocks, last = [prose], list(more)
    for title, lines in sections.items():
        if title == "Source":
            last.append(f"Source: {joined(lines)}")
        elif title == "Returns":
            blocks.append(f"Returns: {joined(lines)}")
        elif title == "Examples":
            typed = textwrap.dedent("\n".join(lines)).strip()
            blocks.append(f"```pycon\n{typed}\n```")
        else:
            listed = [bullet(names, text, kind_of) for names, text in items(lines)]
            blocks.append("\n".join([f"{title}:\n", *listed]))
    return "\n\n".join([*blocks, *last])


def bullet(names: str, text: str, kind_of: dict[str, str]) -> str:
    """One item of a list."""
    kind = f" (*{kind_of[names]}*)" if names in kind_of else ""
    return f"- {', '.join(f'`{name}`' for name in names.split(', '))}{kind}: {text}"


def signature(function: Callable[..., Any], name: str) -> str:
    """``name(x, d=0)``: names and defaults, without types and `self`."""
    shown = inspect.signature(function)
    plain = [
        p.replace(annotation=p.empty)
        for p in shown.parameters.values()
        if p.name != "self"
    ]
    return name + str(shown.replace(parameters=plain, return_annotation=shown.empty))


def entry(function: Callable[..., Any], of: str = "dy", shown: str = "") -> Entry:
    """What there is to say of an operation."""
    name = function.__name__
    text = laid_out(function.__doc__, kinds(function), notes(function))
    return Entry(f"{of}.{name}", shown or signature(function, name), text)


def of_operators() -> Section:
    """What Python's operators do: a table, and the functions without a public name."""
    hidden: dict[Callable[..., Any], str] = {}
    rows = ["| operator | see |", "|---|---|"]
    for shown, function in USED_FOR.items():
        name, of = function.__name__, "dy"
        if getattr(dy, name, None) is not function:
            name, of = hidden.setdefault(function, shown), "op"
        rows.append(f"| `{shown}` | [{name}](#{of}.{function.__name__}) |")
    entries = [entry(function, "op", shown) for function, shown in hidden.items()]
    return Section("Operators", "\n\n".join([OPERATORS, "\n".join(rows)]), entries)


def of_family(module: ModuleType) -> Section:
    """The public functions of a module."""
    name = module.__name__.split(".")[-1]
    title = TITLES.get(name, name.replace("_", " ").capitalize())
    public = sorted(module.__all__, key=str.lower)
    entries = [entry(getattr(module, function)) for function in public]
    return Section(title, laid_out(module.__doc__, {}), entries)


def of_families() -> list[Section]:
    """All modules that have public operations."""
    names = [module.name for module in pkgutil.iter_modules(ops.__path__)]
    modules = [importlib.import_module(f"dynetjax.ops.{name}") for name in names]
    found = [of_family(module) for module in modules if hasattr(module, "__all__")]
    return sorted(found)


def of_jax() -> Section:
    """Ways from JAX, and to it."""
    shown = signature(dy.JaxFunction.__call__, "f")
    function = Entry("dy.JaxFunction", shown, laid_out(dy.JaxFunction.__doc__, {}))
    text = "JAX's functions as operations, and expressions as functions for JAX."
    return Section("JAX", text, [entry(dy.jax_op), entry(dy.to_jax), function])


def methods(cls: type, of: str) -> list[Entry]:
    """What users call on objects of a class."""
    return [
        Entry(
            f"{of}.{name}",
            signature(method, f"{of}.{name}"),
            laid_out(method.__doc__, {}),
        )
        for name, method in sorted(vars(cls).items())
        if callable(method) and name[0] != "_" and name not in OF_THE_ENGINE
    ]


def sections() -> list[Section]:
    """All of them, in the order of the page."""
    of_parameters = [dy.const_parameter, dy.lookup, dy.lookup_batch, dy.parameter]
    return [
        of_operators(),
        *of_families(),
        Section("Parameters and tables", PARAMETERS, [entry(f) for f in of_parameters]),
        of_jax(),
        Section("Methods of expressions", METHODS, methods(dy.Expression, "e")),
        Section("Tensor", laid_out(dy.Tensor.__doc__, {}), methods(dy.Tensor, "t")),
    ]


def contents(every: list[Section]) -> str:
    """A line of links for each section."""
    return "\n".join(
        f"- {title}: {', '.join(link(*entry) for entry in entries)}"
        for title, _, entries in every
    )


def link(name: str, shown: str, _: str) -> str:
    """Leads to an entry; an operator goes by what it looks like."""
    text = shown if name.startswith("op.") else name.removeprefix("dy.")
    return f"[`{text}`](#{name})"


def page() -> str:
    """The page as it has to be."""
    every = sections()
    blocks = [HEAD + "\n" + contents(every)]
    for title, text, entries in every:
        blocks += [f"## {title}", text]
        for name, shown, described in entries:
            blocks += [f'<a id="{name}"></a>', f"### `{shown}`", described]
    return "\n\n".join(blocks) + "\n"


def main() -> None:
    """Write the page, or check it."""
    write_or_check(PAGE, page(), COMMAND)


def write_or_check(file: pathlib.Path, made: str, command: str) -> bool:
    """Write a page; with --check on the command line, fail if it is not that already.

    Returns:
        Whether it was written.
    """
    name = f"{file.parent.name}/{file.name}"
    parser = argparse.ArgumentParser(description=f"Write {name}.")
    parser.add_argument("--check", action="store_true")
    if not parser.parse_args().check:
        file.write_text(made, encoding="utf-8")
        return True
    if not file.exists() or file.read_text(encoding="utf-8") != made:
        sys.exit(f"{name} is out of date: run {command}")
    return False


if __name__ == "__main__":
    main()
