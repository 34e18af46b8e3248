"""Write docs/operations/ and docs/api/index.md: what the docstrings say.

    python docs/make_reference.py [--check]

A page for each family of operations, and two overviews with a line for each name. With
--check it writes nothing, and fails if a page is not what it would write.
"""

import argparse
import importlib
import inspect
import pathlib
import pkgutil
import pydoc
import re
import sys
import textwrap
from collections.abc import Callable, Iterable
from types import ModuleType
from typing import Any, NamedTuple

import dynetjax as dy
from dynetjax import ops
from dynetjax.core.other_names import TABLE
from dynetjax.core.registry import OPS
from dynetjax.ops import arithmetic, linear

DOCS = pathlib.Path(__file__).parent
COMMAND = "python docs/make_reference.py"
WRITTEN = f"<!-- Written by `{COMMAND}` from the docstrings. Change those. -->"
HEAD = f"""# Operations

{WRITTEN}

An operation takes expressions, and makes a new one. All of them are in `dynetjax`, here
`dy`. Each family has a page, with an example for every function.
[Porting](../porting.md) tells what differs from DyNet.

How to read these pages:

- `{{2,3}}` is a matrix of two rows and three columns, and `{{2,3 X 4}}` a batch of four
  such matrices. The batch is not a dimension: functions work on each element of it.
- *static* arguments: each new value takes a millisecond on a CPU, and a compilation on
  a GPU. Use few different values.
- *run-time* arguments: a new value costs nothing.
"""
API_HEAD = f"""# Everything else

{WRITTEN}

What is in `dynetjax`, here `dy`, beside the [operations](../operations/index.md):
parameters, trainers, recurrent networks, files, and tools.
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
# What it is called in words; names of other libraries are those that errors tell.
IN_WORDS = {
    "affine_transform": "a linear layer, a dense layer",
    "binary_log_loss": "the binary cross entropy",
    "cmult": "the element-wise product, the Hadamard product",
    "dot_product": "the inner product",
    "flip_gradient": "gradient reversal",
    "hinge": "the margin loss",
    "huber_distance": "smooth L1",
    "l1_distance": "the absolute error",
    "logistic": "the sigmoid",
    "lookup": "an embedding",
    "lookup_batch": "embeddings of a minibatch",
    "pickneglogsoftmax": "the cross entropy",
    "pickneglogsoftmax_batch": "the cross entropy of a minibatch",
    "pick_range": "a slice",
    "rectify": "ReLU",
    "silu": "swish",
    "squared_distance": "the squared error, a sum",
}
API = [
    "parameters.md",
    "initial-values.md",
    "graphs.md",
    "trainers.md",
    "recurrent-networks.md",
    "trees.md",
    "large-softmaxes.md",
    "files.md",
    "looking-inside.md",
    "settings.md",
    "tests.md",
    "processes.md",
]
LAID_OUT = re.compile(r"^(\S.*)\n(?=    \S)", re.MULTILINE)  # before a block
SECTION = re.compile(r"(Args|Returns|Raises|Warns|Attributes|Examples):")

OPERATORS = """\
`*` is the matrix product, never element-wise: `cmult` is that, and `cdiv` divides. `x`
and `y` are expressions, `k` is a Python number, `i` and `j` are ints. `k` and `i` are
run-time; the bounds of slices are static. A negative `i` counts from the end, and
`for row in x` goes through the rows. A last slice, after one for each dimension, is
that of the batch. `x / y`, and operands of other types, raise NotImplementedError.

```pycon
>>> W, x = dy.inputTensor([[1, 2], [3, 4]]), dy.inputVector([10, 1])
>>> (W * x + 0.5).value()
[12.5, 34.5]
>>> (-x / 2)[0].value(), x[-1].value(), (x**2).value()
(-5.0, 1.0, [100.0, 1.0])
>>> print(W[0:1].npvalue())
[[1. 2.]]
```"""
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
        elif line and line[0] != " " and here is not sections.get("Source"):
            here = prose  # goes on after a section
            here.append(line)
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


def notes(function: Callable[..., Any]) -> Iterable[str]:
    """What is known of an operation beside its docstring."""
    op = getattr(function, "op", OPS.get(function.__name__))
    if op and "k" in op.runtime:
        yield "Random: drawn anew for every node and batch element."
    called = [IN_WORDS[function.__name__]] if function.__name__ in IN_WORDS else []
    begin = f"dy.{function.__name__}("
    called += [f"`{row.name}`" for row in TABLE if row.here.startswith(begin)]
    if called:
        yield f"Known elsewhere as {', '.join(called)}."


def laid_out(doc: str | None, kind_of: dict[str, str], more: Iterable[str] = ()) -> str:
    """A docstring as Markdown, with what else is known."""
    assert doc
    prose, sections = parts_of(doc.replace("``", "`"))
    apart = LAID_OUT.sub(r"\1\n\n", prose)
    blocks = [apart, *more]
    for title, lines in sections.items():
        if title == "Source":
            if not lines[0].startswith("clab/dynet"):  # whoever ports reads the code
                blocks.append(f"**Source:** {joined(lines)}")
        elif title == "Returns":
            blocks.append(f"**Returns:** {joined(lines)}")
        elif title == "Examples":
            typed = textwrap.dedent("\n".join(lines)).strip()
            blocks.append(f"```pycon\n{typed}\n```")
        else:
            listed = [bullet(names, text, kind_of) for names, text in items(lines)]
            blocks.append("\n".join([f"**{title}:**\n", *listed]))
    return "\n\n".join(blocks)


def bullet(names: str, text: str, kind_of: dict[str, str]) -> str:
    """One item of a list."""
    kind = " (*static*)" if kind_of.get(names) == "static" else ""
    return f"- {', '.join(f'`{name}`' for name in names.split(', '))}{kind}: {text}"


def signature(function: Callable[..., Any], name: str) -> str:
    """``name(x, d=0)``: names and defaults, without types and `self`."""
    shown = inspect.signature(function)
    plain = [
        p.replace(annotation=p.empty)
        for p in shown.parameters.values()
        if p.name != "self"
    ]
    text = str(shown.replace(parameters=plain, return_annotation=shown.empty))
    line = name + text.replace("'", '"')
    return line if len(line) <= 88 else f"{name}(\n    {line[len(name) + 1 : -1]}\n)"


def entry(function: Callable[..., Any], shown: str = "") -> Entry:
    """What there is to say of an operation, or of an operator that looks like this."""
    name = function.__name__
    text = laid_out(function.__doc__, kinds(function), notes(function))
    if shown:
        return Entry(f"{name}: {shown}", shown, text)
    return Entry(name, signature(function, f"dy.{name}"), text)


def of_operators() -> Section:
    """What Python's operators do: a table, and the functions without a public name."""
    hidden: dict[Callable[..., Any], Entry] = {}
    rows = ["| operator | see |", "|---|---|"]
    for shown, function in USED_FOR.items():
        name = function.__name__
        if getattr(dy, name, None) is function:
            page = slug(family_of(function))
            rows.append(f"| `{shown}` | [{name}]({page}.md#{slug(name)}) |")
        else:
            found = hidden.setdefault(function, entry(function, shown))
            rows.append(f"| `{shown}` | [{name}](#{slug(found.name)}) |")
    text = "\n\n".join([OPERATORS, "\n".join(rows)])
    return Section("Operators", text, list(hidden.values()))


def family_of(function: Callable[..., Any]) -> str:
    """The title of the page that a function is on."""
    return title_of(importlib.import_module(function.__module__))


def title_of(module: ModuleType) -> str:
    """Of the page about the operations in a module."""
    name = module.__name__.split(".")[-1]
    return TITLES.get(name, name.replace("_", " ").capitalize())


def of_family(module: ModuleType) -> Section:
    """The public functions of a module."""
    public = sorted(module.__all__, key=str.lower)
    entries = [entry(getattr(module, function)) for function in public]
    return Section(title_of(module), summary(module), entries)


def of_families() -> list[Section]:
    """All modules that have public operations."""
    names = [module.name for module in pkgutil.iter_modules(ops.__path__)]
    modules = [importlib.import_module(f"dynetjax.ops.{name}") for name in names]
    found = [of_family(module) for module in modules if hasattr(module, "__all__")]
    return sorted(found)


def of_jax() -> Section:
    """Ways from JAX, and to it."""
    shown = signature(dy.JaxFunction.__call__, "f")
    function = Entry("JaxFunction", shown, laid_out(dy.JaxFunction.__doc__, {}))
    text = "JAX's functions as operations, and expressions as functions for JAX."
    return Section("JAX", text, [entry(dy.jax_op), entry(dy.to_jax), function])


def sections() -> list[Section]:
    """All of them, in the order of the overview."""
    of_parameters = [dy.const_parameter, dy.lookup, dy.lookup_batch, dy.parameter]
    return [
        of_operators(),
        *of_families(),
        Section("Parameters and tables", PARAMETERS, [entry(f) for f in of_parameters]),
        of_jax(),
    ]


def slug(title: str) -> str:
    """The anchor of a heading, as Python-Markdown makes it."""
    return re.sub(r"[-\s]+", "-", re.sub(r"[^\w\s-]", "", title).strip().lower())


def summary(documented: Any) -> str:
    """The first paragraph of a docstring."""
    first = inspect.getdoc(documented).split("\n\n")[0]
    return first.replace("``", "`").replace(" -> ", " to ")


def row(name: str, link: str, text: str) -> str:
    """A row of an overview."""
    first = joined(text.split("\n\n")[0].splitlines())
    sentence = re.split(r"(?<=[.:]) (?=[A-Z`])", first)[0].rstrip(":")
    return f"| [`{name}`]({link}) | {sentence.replace('|', chr(92) + '|')} |"


def overview(every: list[Section]) -> str:
    """Each family's functions, with a line about each."""
    blocks = [HEAD.strip()]
    for title, _, entries in every:
        file = f"{slug(title)}.md"
        rows = [
            row(shown if ": " in name else name, f"{file}#{slug(name)}", text)
            for name, shown, text in entries
        ]
        table = "\n".join(["| name | what it does |", "| --- | --- |", *rows])
        blocks += [f"## [{title}]({file})", table]
    return "\n\n".join(blocks) + "\n"


def page(section: Section) -> str:
    """The page about a family."""
    title, text, entries = section
    blocks = [f"# {title}", WRITTEN, text]
    for name, shown, described in entries:
        blocks += [f"## `{name}`", f"```py\n{shown}\n```", described]
    return "\n\n".join(blocks) + "\n"


NAMED = re.compile(r"^::: dynetjax\.(.+)$", re.MULTILINE)


def of_api() -> str:
    """What the pages of docs/api name, with a line about each."""
    blocks = [API_HEAD.strip()]
    for file in API:
        text = (DOCS / "api" / file).read_text(encoding="utf-8")
        rows = ["| name | what it is |", "| --- | --- |"]
        for name in NAMED.findall(text):
            value = pydoc.locate(f"dynetjax.{name}")
            rows.append(row(name, f"{file}#{slug(name)}", summary(value)))
        title = text.splitlines()[0].removeprefix("# ")
        blocks += [f"## [{title}]({file})", "\n".join(rows)]
    return "\n\n".join(blocks) + "\n"


def pages() -> dict[str, str]:
    """All pages as they have to be, by their file names beneath docs/."""
    every = sections()
    found = {f"operations/{slug(one.title)}.md": page(one) for one in every}
    return found | {"operations/index.md": overview(every), "api/index.md": of_api()}


def main() -> None:
    """Write the pages, or check them."""
    made = pages()
    for name, text in made.items():
        write_or_check(DOCS / name, text, COMMAND)
    for file in (DOCS / "operations").glob("*.md"):
        if f"operations/{file.name}" not in made:
            sys.exit(f"docs/operations/{file.name} is of no family: remove it")


def write_or_check(file: pathlib.Path, made: str, command: str) -> bool:
    """Write a page; with --check on the command line, fail if it is not that already.

    Returns:
        Whether it was written.
    """
    name = f"{file.parent.name}/{file.name}"
    parser = argparse.ArgumentParser(description=f"Write {name}.")
    parser.add_argument("--check", action="store_true")
    if not parser.parse_args().check:
        file.parent.mkdir(exist_ok=True)
        file.write_text(made, encoding="utf-8")
        return True
    if not file.exists() or file.read_text(encoding="utf-8") != made:
        sys.exit(f"{name} is out of date: run {command}")
    return False


if __name__ == "__main__":
    main()
