"""Write the tables of docs/from_pytorch.md, from the names that errors tell.

    python docs/make_from_pytorch.py [--check]

With --check it writes nothing, and fails if the page is not what it would write.
"""

import pathlib
import re

from make_reference import write_or_check

from dynetjax.core.other_names import (
    COLLECTION,
    EXPRESSION,
    KEYWORD,
    MODULE,
    TABLE,
    TRAINER,
)

PAGE = pathlib.Path(__file__).parent / "from_pytorch.md"
COMMAND = "python docs/make_from_pytorch.py"


def table(of: str) -> str:
    """The rows of a table, as Markdown."""
    lines = ["| there | here | |", "| --- | --- | --- |"]
    for row in TABLE:
        if row.of == of:
            here = f"`{row.here}`" if of != KEYWORD else _keywords(row.here)
            lines.append(f"| `{row.name}` | {here} | {row.advice} |")
    return "\n".join(lines)


def _keywords(here: str) -> str:
    return " or ".join(f"`{keyword}`" for keyword in here.split())


def page(text: str) -> str:
    """The page with its tables, each behind a mark."""
    for of in MODULE, EXPRESSION, TRAINER, COLLECTION, KEYWORD:
        mark = f"<!-- {of} -->\n"
        old = re.escape(mark) + r"(\n\|[^\n]*(\n\|[^\n]*)*\n)?"
        text, count = re.subn(old, lambda _: f"{mark}\n{table(of)}\n", text)  # noqa: B023
        assert count == 1, f"{PAGE.name} has no mark for {of}"
    return text


if __name__ == "__main__":
    write_or_check(PAGE, page(PAGE.read_text(encoding="utf-8")), COMMAND)
