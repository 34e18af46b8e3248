"""Write docs/bytecode.md: the instructions of tier 0, as the interpreter has them.

    python docs/make_bytecode.py [--check]

With --check it writes nothing, and fails if the page is not what it would write.
"""

import pathlib
import re
import textwrap
from collections.abc import Iterable

from make_reference import write_or_check

from dynetjax.engine.native import core

PAGE = pathlib.Path(__file__).with_name("bytecode.md")
COMMAND = "python docs/make_bytecode.py"
TABLE = pathlib.Path(__file__).parent.parent / "dynetjax/engine/native/cpp/opcodes.h"
HEAD = f"""# Byte code

<!-- Written by `{COMMAND}` from opcodes.h. Change that. -->

Tier 0 computes graphs at once, on the host: each fused operation is a program of
the instructions below, made of the JAX function (`engine/native/lowering/`) and run in
C++ (`engine/native/cpp/machine.cpp`). Another program, made from what `jax.vjp` gives,
carries gradients back. `dy.explain(bytecode=True)` shows the programs of a graph.
"""
FIELDS = """\
## How an instruction looks

26 words of 32 bits: the opcode, its flags, the sizes `n`, `m` and `k`, where `extra`
begins among the integers beside the code, and four operands `d`, `a`, `b`, `c`. An
operand has a slot, where it begins there, how far into it the first number is, how far
apart the lanes are, and whether one word stands for all `n`. The tables below tell how
many words of a lane each operand has, if it is one, and which flags there may be; every
program is checked against them before it runs (`verifier.cpp`).
"""


def comments(text: str) -> dict[str, str]:
    """What is said above each family of instructions, by its name."""
    found = {}
    for said, name in re.findall(r"((?://[^\n]*\n)+)#define DYNETJAX_(\w+)\(X\)", text):
        lines = [line.removeprefix("//").strip() for line in said.splitlines()]
        found[name.lower()] = " ".join(lines)
    return found


def table(head: list[str], rows: Iterable[Iterable[str]]) -> str:
    """In Markdown."""
    lines = [head, ["---"] * len(head), *rows]
    return "\n".join(f"| {' | '.join(line)} |" for line in lines)


def family(name: str, said: str) -> list[str]:
    """The instructions of a family."""
    members = [rule for rule in core.RULES if rule[1] == name]
    alike = len({(flags, words) for _, _, flags, words, _ in members}) == 1
    blocks = [f"## {name.capitalize()}", filled(said)]
    if alike:
        _, _, flags, words, _ = members[0]
        pairs = zip("dabc", words, strict=True)
        told = [f"`{x}` has {size(text)} words" for x, text in pairs if text]
        blocks.append(filled(", ".join(told) + "." + flagged(flags)))
        rows = [[f"`{x}`", cell(meaning)] for x, *_, meaning in members]
        return [*blocks, table(["instruction", "what it does"], rows)]
    rows = [
        [f"`{x}`", *map(size, words), cell(meaning + flagged(flags, ";"))]
        for x, _, flags, words, meaning in members
    ]
    return [*blocks, table(["instruction", *"dabc", "what it does"], rows)]


def size(text: str) -> str:
    """How many words, in a cell."""
    return cell(text.replace("std::", ""))


def flagged(flags: int, mark: str = "") -> str:
    """Which flags an instruction may have."""
    names = [f"`{name}`" for name in core.FLAGS if flags & getattr(core, name)]
    return f"{mark} flags: {', '.join(names)}" if names else ""


def page() -> str:
    """The page as it has to be."""
    text = TABLE.read_text(encoding="utf-8")
    said = comments(text)
    general = re.findall(r"^// (.*)$", text[: text.index("#pragma")], re.MULTILINE)
    lanes = " ".join(general).partition("From this table")[0]
    lanes = filled(lanes[lanes.index("An instruction runs") :])
    meanings = [
        table([name, told], [[f"`{x}`", y] for x, y in of.items()])
        for name, told, of in (
            ("flag", "what it says", core.FLAGS),
            ("slot", "what it holds", core.SLOTS),
        )
    ]
    blocks = [HEAD + "\n" + lanes, FIELDS.strip(), *meanings]
    for name in dict.fromkeys([rule[1] for rule in core.RULES]):
        blocks += family(name, said[name])
    return "\n\n".join(blocks) + "\n"


def filled(text: str) -> str:
    """In lines that fit."""
    return textwrap.fill(text.strip(), 88)


def cell(text: str) -> str:
    """Of a table, in which lines end columns."""
    return text.replace("|", "\\|").replace("*", "\\*")


def main() -> None:
    """Write the page, or check it."""
    write_or_check(PAGE, page(), COMMAND)


if __name__ == "__main__":
    main()
