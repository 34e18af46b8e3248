"""Write docs/bytecode.md: the instructions of tier 0, as the interpreter has them.

    python docs/make_bytecode.py [--check]

With --check it writes nothing, and fails if the page is not what it would write.
"""

import pathlib
import re
import textwrap

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
carries gradients back.
"""
FIELDS = """\
## How an instruction looks

26 words of 32 bits: the opcode, its flags, the sizes `n`, `m` and `k`, where `extra`
begins among the integers beside the code, and four operands `d`, `a`, `b`, `c`. An
operand has a slot, where it begins there, how far into it the first number is, how far
apart the lanes are, and whether one word stands for all `n`. Flags: 1 adds to `d`
instead of setting it, 2 goes from the last number to the first, 4 says that numbers are
ints, 8 has the largest first, 128 says that it may be hoisted out of a recurrence if
the operand whose number stands from bit 8 on comes from outside.

| slot | what it holds |
| --- | --- |
"""


def comments(text: str) -> dict[str, str]:
    """What is said above each group of instructions, by its name."""
    found = {}
    for said, name in re.findall(r"((?://[^\n]*\n)+)#define DYNETJAX_(\w+)\(X\)", text):
        lines = [line.removeprefix("//").strip() for line in said.splitlines()]
        found[name] = " ".join(lines)
    return found


def groups(text: str) -> dict[str, list[str]]:
    """The instructions of each group."""
    return {
        name: re.findall(r"\bX\((\w+),", body)
        for name, body in re.findall(
            r"#define DYNETJAX_(\w+)\(X\)(.*?)\n\n", text, re.DOTALL
        )
    }


def slots(text: str) -> list[tuple[str, str]]:
    """Where operands can be, and what is there."""
    body = text[text.index("enum Slot") :]
    return re.findall(r"(\w+),? +// (.+)", body)


def page() -> str:
    """The page as it has to be."""
    text = TABLE.read_text(encoding="utf-8")
    said, rows = comments(text), slots(text)
    general = re.findall(r"^// (.*)$", text[: text.index("#pragma")], re.MULTILINE)
    lanes = " ".join(general).partition("Python reads")[0]
    lanes = filled(lanes[lanes.index("An instruction runs") :])
    blocks = [
        HEAD + "\n" + lanes,
        FIELDS + "\n".join(map("| `{0[0]}` | {0[1]} |".format, rows)),
    ]
    for name, members in groups(text).items():
        blocks += [f"## {name.capitalize()}", filled(said[name])]
        lines = [f"| `{x}` | {cell(core.MEANINGS[x])} |" for x in members]
        blocks.append(
            "\n".join(["| instruction | what it does |", "| --- | --- |", *lines])
        )
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
