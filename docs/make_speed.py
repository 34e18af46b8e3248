"""Write docs/pictures/speed.svg: the README's table of speeds as bars.

    python docs/make_speed.py [--check]

With --check it writes nothing, and fails if the picture is not what it would write.
"""

import math
import pathlib
import re
from html import escape
from typing import NamedTuple

from make_reference import write_or_check

README = pathlib.Path(__file__).parent.parent / "README.md"
PICTURE = pathlib.Path(__file__).with_name("pictures") / "speed.svg"
COMMAND = "python docs/make_speed.py"
TITLE = "Speed relative to DyNet 2.1.2"
UNITS = (
    "training steps a second (prediction: sentences a second)",
    "divided by DyNet's; longer is faster",
)
# Pixels: narrow enough for a telephone. ONE is DyNet's speed.
TOP, LEFT, ONE, ROW, BAR = 116, 16, 74, 44, 11
# On a ground of its own: legible on a white page and on a black one.
GROUND, INK, GREY = "#ffffff", "#333333", "#777777"
OURS, PYTORCH = "#2a9187", "#d08a45"
# Words in front of a line.
HALO = ' font-size="12" stroke="#ffffff" stroke-width="3" paint-order="stroke"'
LINE = re.compile(r"^\| ([^|]+?) \| (\d[\d.]*) \| (\d[\d.]*)? *\|", re.MULTILINE)


class Speed(NamedTuple):
    """A task, and how often DyNet's speed dynetjax and PyTorch have."""

    task: str
    ours: float
    pytorch: float | None


def speeds() -> list[Speed]:
    """The rows of the table."""
    rows = LINE.findall(README.read_text("utf-8"))
    return [
        Speed(name, float(by), float(by) / float(torch) if torch else None)
        for name, by, torch in rows
    ]


def text(x: float, y: float, words: str, colour: str = INK, more: str = "") -> str:
    """Words at a place."""
    return f'<text x="{x:g}" y="{y:g}" fill="{colour}"{more}>{escape(words)}</text>'


def bar(top: float, by: float, colour: str) -> list[str]:
    """A bar, and its number behind it."""
    length = max(2, round(ONE * by))
    return [
        f'<rect x="{LEFT}" y="{top}" width="{length}" height="{BAR}" fill="{colour}"/>',
        text(LEFT + length + 5, top + BAR - 1.5, f"{by:.2g}", more=HALO),
    ]


def key(x: float, words: str, colour: str) -> list[str]:
    """What a colour means."""
    square = f'<rect x="{x}" y="68" width="11" height="11" fill="{colour}"/>'
    return [square, text(x + 17, 78, words)]


def axis(bottom: float, longest: float) -> list[str]:
    """A line for each whole number; DyNet's is dashed."""
    lines = []
    for k in range(math.ceil(longest) + 1):
        x = LEFT + k * ONE
        look = f'stroke="{GREY}" stroke-dasharray="4 3"' if k == 1 else 'stroke="#ddd"'
        lines += [
            f'<line x1="{x}" y1="{TOP - 6}" x2="{x}" y2="{bottom}" {look}/>',
            text(x, bottom + 16, f"{k}", GREY, ' text-anchor="middle"'),
        ]
    return lines


def picture(rows: list[Speed]) -> str:
    """Two bars for each row, and a line where DyNet is."""
    longest = max(max(row.ours, row.pytorch or 0) for row in rows)
    bottom = TOP + ROW * len(rows)
    height, width = bottom + 28, LEFT + ONE * math.ceil(longest) + 40
    lines = [
        f'<svg xmlns="http://www.w3.org/2000/svg" width="{width}" height="{height}"'
        f' viewBox="0 0 {width} {height}" font-family="sans-serif" font-size="13"'
        f' role="img"><title>{escape(TITLE)}</title>',
        f'<rect width="{width}" height="{height}" rx="6" fill="{GROUND}"/>',
        text(LEFT, 22, TITLE, more=' font-size="16" font-weight="bold"'),
        *[text(LEFT, 40 + 16 * k, unit, GREY) for k, unit in enumerate(UNITS)],
        *key(LEFT, "dynetjax", OURS),
        *key(LEFT + 90, "PyTorch, eager", PYTORCH),
        *axis(bottom, longest),
        text(LEFT + ONE, TOP - 11, "DyNet", GREY, ' text-anchor="middle"'),
    ]
    for k, row in enumerate(rows):
        top = TOP + ROW * k + 14
        lines += [
            text(LEFT + 2, top - 4, row.task, more=HALO),
            *bar(top, row.ours, OURS),
        ]
        if row.pytorch:
            lines += bar(top + BAR + 1, row.pytorch, PYTORCH)
    return "\n".join([*lines, "</svg>"]) + "\n"


def main() -> None:
    """Write the picture, or check it."""
    write_or_check(PICTURE, picture(speeds()), COMMAND)


if __name__ == "__main__":
    main()
