"""Compiled programs in XLA's text form (HLO), read: computations and instructions.

Only what the report asks for is kept of a line: the result's arrays, the opcode, the
operands by name, and the attributes as they stand.
"""

import dataclasses
import functools
import math
import re

BYTES = {
    **dict.fromkeys(("pred", "s8", "u8"), 1),
    **dict.fromkeys(("s16", "u16", "f16", "bf16"), 2),
    **dict.fromkeys(("s32", "u32", "f32"), 4),
    **dict.fromkeys(("s64", "u64", "f64", "c64"), 8),
    "c128": 16,
}  # of one number
FRAMES = 60  # of a stack that are followed, at most
_NAME = r"%?([\w.\-$]+)"
_ARRAY = re.compile(r"\b([a-z]+[0-9]*)\[([0-9,]*)\]")
_OPENING = re.compile(rf"^(ENTRY )?{_NAME} (?:\([^)]*.*\) -> .*)?\{{$")
_LINE = re.compile(rf"^\s*(ROOT )?{_NAME} = ")
_TABLE = re.compile(r"^(FileNames|FunctionNames|FileLocations|StackFrames)$")
_ROW = re.compile(r"^(\d+) (.*)$")
_LIBRARY = re.compile(r"site-packages|/lib/python")


@dataclasses.dataclass
class Instruction:
    """One instruction.

    Attributes:
        result: its type, as it is written.
        literal: what stands between the brackets, if it is a constant.
        rest: what follows the operands.
    """

    name: str
    result: str
    opcode: str
    operands: list[str]
    literal: str
    rest: str
    is_root: bool

    @functools.cached_property
    def arrays(self):
        """The number type and the dims of each array of the result."""
        found = _ARRAY.findall(self.result)
        return [(t, [*map(int, filter(None, d.split(",")))]) for t, d in found]

    @property
    def numbers(self):
        """How many numbers the result has."""
        return sum(math.prod(dims) for _, dims in self.arrays)

    @property
    def bytes(self):
        """What the result takes in memory."""
        return sum(BYTES.get(t, 0) * math.prod(dims) for t, dims in self.arrays)

    @property
    def dims(self):
        """Of the first array of the result."""
        return self.arrays[0][1] if self.arrays else []

    def attribute(self, name):
        """The word after ``name=``; None if there is none."""
        found = re.search(rf'\b{name}="?%?([\w.\-$]+)', self.rest)
        return found and found[1]

    def names(self, name):
        """The words in ``name={%one, %two}``."""
        found = re.search(rf"\b{name}=\{{([^}}]*)\}}", self.rest)
        return re.findall(r"[\w.\-$]+", found[1]) if found else []

    @property
    def scope(self):
        """The path of the traced operation that it comes from."""
        found = re.search(r'op_name="([^"]*)"', self.rest)
        return found[1] if found else ""


def instruction(line):
    """What one line says; None if it holds no instruction."""
    head = _LINE.match(line)
    if head is None:
        return None
    text = line[head.end() :]
    end = _closing(text, 0) + 1 if text.startswith("(") else text.index(" ")
    result, text = text[:end], text[end + 1 :]
    opening = text.index("(")
    closing = _closing(text, opening)
    opcode, inside = text[:opening], text[opening + 1 : closing]
    plain = opcode in ("parameter", "constant")
    return Instruction(
        name=head[2],
        result=result,
        opcode=opcode,
        operands=[] if plain else re.findall(r"%([\w.\-$]+)", inside),
        literal=inside if plain else "",
        rest=text[closing + 1 :],
        is_root=bool(head[1]),
    )


def _closing(text, start):
    """Where the bracket that opens at `start` closes."""
    depth = 0
    for k in range(start, len(text)):
        depth += (text[k] in "({") - (text[k] in ")}")
        if depth == 0:
            return k
    raise ValueError(f"a bracket stays open: {text[start:][:80]}")


class Module:
    """A program: its computations by name, each with instructions by name, in order.

    Attributes:
        entry: the name of the computation where the program begins.
    """

    def __init__(self, text):
        self.computations: dict[str, dict[str, Instruction]] = {}
        self.entry = ""
        self._tables: dict[str, dict[int, str]] = {}
        self._fused: dict[str | None, dict[str, Instruction]] = {}
        current = table = None
        for line in text.splitlines():
            if current is not None:
                if line.startswith("}"):
                    current = None
                elif one := instruction(line):
                    current[one.name] = one
            elif line.startswith("HloModule"):
                continue
            elif opening := _OPENING.match(line):
                current = self.computations[opening[2]] = {}
                if opening[1]:
                    self.entry = opening[2]
            elif title := _TABLE.match(line):
                table = self._tables[title[1]] = {}
            elif table is not None and (row := _ROW.match(line)):
                table[int(row[1])] = row[2]

    def fused(self, one):
        """The instructions of a fusion, by name; none for another instruction.

        Those of fusions within it stand among them, with their fusion's name before
        their own, and the result of such a one has its name.
        """
        called = one.attribute("calls") if one.opcode == "fusion" else None
        if called not in self._fused:
            self._fused[called] = self._flattened(called) if called else {}
        return self._fused[called]

    def _flattened(self, name):
        flat = {}
        for one in self.computations[name].values():
            names = {}
            for each in self.fused(one).values():
                if each.opcode == "parameter":
                    given = one.operands[int(each.literal)]
                    each = dataclasses.replace(
                        each, opcode="bitcast", operands=[given], literal=""
                    )
                else:
                    operands = [names[operand] for operand in each.operands]
                    each = dataclasses.replace(each, operands=operands)
                old, new = each.name, f"{one.name}/{each.name}"
                if each.is_root:
                    new, each.is_root = one.name, one.is_root
                names[old] = each.name = new
                flat[new] = each
            flat.setdefault(one.name, one)
        return flat

    def constants(self, name):
        """The whole numbers that a computation has as constants, other than 0."""
        found = []
        for one in self.computations[name].values():
            if one.opcode == "constant" and re.fullmatch(r"-?\d+", one.literal):
                found.append(int(one.literal))
            elif one.opcode == "fusion":
                found += self.constants(one.attribute("calls"))
        return [n for n in found if n]

    def origin(self, one, most=3):
        """The lines of source that an instruction comes from, innermost first.

        Lines of installed packages are left out.
        """
        frame = one.attribute("stack_frame_id")
        places = self._stack(int(frame)) if frame else []
        own = [(f, n) for f, n in places if not _LIBRARY.search(f)]
        return " < ".join(f"{f.rsplit('/', 1)[-1]}:{n}" for f, n in own[:most])

    def _stack(self, frame):
        """File and line of each frame, from this one outwards."""
        frames = self._tables.get("StackFrames", {})
        places = []
        while frame in frames and len(places) < FRAMES:
            row = frames[frame]
            location = self._tables["FileLocations"][_number("file_location_id", row)]
            file = self._tables["FileNames"][_number("file_name_id", location)]
            places.append((file.strip('"'), _number("line", location)))
            parent = _number("parent_frame_id", row)
            frame = parent if parent != frame else 0
        return places


def _number(name, row):
    found = re.search(rf"\b{name}=(\d+)", row)
    return int(found[1]) if found else 0
