"""Write docs/pictures/speed.svg: the README's table of speeds as bars.

    python docs/make_speed.py [--check]

With --check it writes nothing, and fails if the picture is not what it would write.
"""

import pathlib
import re
from html import escape

from make_reference import write_or_check

README = pathlib.Path(__file__).parent.parent / "README.md"
PICTURE = pathlib.Path(__file__).with_name("pictures") / "speed.svg"
COMMAND = "python docs/make_speed.py"
LEFT, UNIT, ROW, BAR = 400, 90, 24, 14  # pixels; UNIT is DyNet's speed
FASTER, SLOWER, GREY = "#2a9187", "#c9803a", "#8a8a8a"
LINE = re.compile(r"^\| ([^|]+?) \| (\d+(?:\.\d+)?) \|", re.MULTILINE)


def speeds() -> list[tuple[str, float]]:
    """The tasks of the table, and how often DyNet's speed they have."""
    return [(name, float(by)) for name, by in LINE.findall(README.read_text("utf-8"))]


def picture(rows: list[tuple[str, float]]) -> str:
    """A bar for each row, and a line where DyNet is."""
    height = ROW * (len(rows) + 1) + 10
    width = LEFT + round(UNIT * max(by for _, by in rows)) + 50
    lines = [
        f'<svg xmlns="http://www.w3.org/2000/svg" width="{width}" height="{height}"'
        f' viewBox="0 0 {width} {height}" font-family="sans-serif" font-size="13">',
        f'<text x="{LEFT + UNIT}" y="14" text-anchor="middle" fill="{GREY}">DyNet'
        "</text>",
    ]
    for k, (name, by) in enumerate(rows, 1):
        top, length = ROW * k, round(UNIT * by)
        colour = FASTER if by >= 1 else SLOWER
        base = f'y="{top + BAR - 2}" fill="{GREY}"'
        lines += [
            f'<text x="{LEFT - 8}" {base} text-anchor="end">{escape(name)}</text>',
            f'<rect x="{LEFT}" y="{top}" width="{length}" height="{BAR}"'
            f' fill="{colour}"/>',
            f'<text x="{LEFT + length + 6}" {base}>{by:.1f}</text>',
        ]
    x = LEFT + UNIT
    lines.append(
        f'<line x1="{x}" y1="20" x2="{x}" y2="{height - 8}" stroke="{GREY}"'
        ' stroke-dasharray="3 3"/>'
    )
    return "\n".join([*lines, "</svg>", ""])


if __name__ == "__main__":
    write_or_check(PICTURE, picture(speeds()), COMMAND)
