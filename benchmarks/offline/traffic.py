"""What one instruction of a compiled program reads, writes and multiplies."""

import dataclasses
import math
import re

SLICES = ("dynamic-slice", "slice", "gather")
WHOLE = ("reduce", "dot", "convolution", "sort", "reduce-window", "fusion")
VIEWS = ("bitcast", "reshape", "copy")
MOVES = {"parameter", "copy", "transpose", "bitcast", "tuple", "constant"}
FILLS = {"parameter", "constant", "broadcast", "bitcast", "tuple"}
LIBRARIES = (("gemm", "gemm"), ("cublas", "gemm"), ("Sort", "sort"), ("cub", "sort"))


@dataclasses.dataclass
class Product:
    """A product of matrices.

    Attributes:
        exact: whether its operands are not rounded.
    """

    batch: int
    rows: int
    columns: int
    depth: int
    exact: bool

    @property
    def flops(self):
        """Multiplications and additions."""
        return 2 * self.batch * self.rows * self.columns * self.depth


def moved(module, computation, one):
    """The bytes that an instruction reads, and those that it writes.

    A slice or gather reads what it cuts out, and an update in place writes what it
    changes, however large the array is.
    """
    operands = [computation[n] for n in one.operands if n in computation]
    if one.opcode == "fusion":
        return _moved_by_fusion(module, one)
    if one.opcode in SLICES:
        return one.bytes, one.bytes
    if one.opcode == "dynamic-update-slice":
        return operands[1].bytes, operands[1].bytes
    if one.opcode == "scatter":
        return operands[-1].bytes, operands[-1].bytes
    read = sum(o.bytes for o in operands)
    if one.opcode == "custom-call" and (found := products(module, computation, one)):
        (product,) = found
        written = 4 * product.batch * product.rows * product.columns
        return sum(o.bytes for o in operands[:2]), written
    return read, read if one.opcode == "copy-start" else one.bytes


def _moved_by_fusion(module, fusion):
    """Each result asks its operands for numbers, and they theirs, up to parameters."""
    inner = module.fused(fusion)
    wanted = dict.fromkeys(inner, 0)
    in_place, written = set(), 0
    for result in _results(module, fusion):
        real = _behind_views(inner, result)
        if real.opcode in ("dynamic-update-slice", "scatter"):
            adds = real.opcode == "scatter"  # so it reads the same rows, too
            update = inner[real.operands[-1 if adds else 1]]
            written += (2 if adds else 1) * update.bytes
            in_place.add(real.name)
            wanted[real.name] = wanted[result.name] = max(update.numbers, 1)
        else:
            written += result.bytes
            wanted[result.name] = result.numbers
    read = 0
    for one in reversed(inner.values()):
        need = wanted[one.name]
        if one.opcode == "parameter" and one.numbers:
            read += min(need, one.numbers) * one.bytes // one.numbers
        elif need:
            for place, name in enumerate(one.operands):
                size = inner[name].numbers
                more = _asked(one, place, need, size, one.name in in_place)
                wanted[name] = min(wanted[name] + more, size)
    return read, written


def _asked(one, place, need, size, in_place):
    """How many numbers an instruction asks of an operand, to give so many itself."""
    if one.opcode in SLICES:
        return need if place == 0 else size
    if one.opcode in ("dynamic-update-slice", "scatter"):
        if place:
            return size
        return 0 if in_place else min(need, size)
    return size if one.opcode in WHOLE else min(need, size)


def _results(module, fusion):
    inner = module.fused(fusion)
    root = next(one for one in inner.values() if one.is_root)
    return [inner[n] for n in root.operands] if root.opcode == "tuple" else [root]


def _behind_views(inner, one):
    while one.opcode in VIEWS and one.operands:
        one = inner[one.operands[0]]
    return one


def products(module, computation, one):
    """The products of matrices that an instruction computes."""
    if one.opcode == "fusion":
        inner = module.fused(one)
        return [p for each in inner.values() for p in products(module, inner, each)]
    if one.opcode == "custom-call":
        target = one.attribute("custom_call_target") or ""
        if "gemm" not in target and "cublas" not in target:
            return []
    elif one.opcode != "dot":
        return []
    sides = [computation[n].dims for n in one.operands[:2] if n in computation]
    if len(sides) < 2:
        return []
    exact = "highest" in one.rest.lower()
    return [Product(*_sizes(one.rest, *sides), exact)]


def _sizes(attributes, left, right):
    """Batch, rows, columns and depth of a product of arrays with these dims."""
    batch = math.prod(left[k] for k in _axes(attributes, "lhs_batch"))
    depth = math.prod(left[k] for k in _axes(attributes, "lhs_contracting"))
    both = max(batch * depth, 1)
    return batch, math.prod(left) // both, math.prod(right) // both, depth


def _axes(attributes, name):
    """``name_dims={0,1}`` of HLO, or ``"name_dimensions":["0","1"]`` of a library."""
    pattern = rf'{name}_dim(?:s|ensions)"?[=:][\[{{]([^\]}}]*)[\]}}]'
    found = re.search(pattern, attributes)
    return [*map(int, re.findall(r"\d+", found[1]))] if found else []


def kind(module, computation, one):
    """What sort of work an instruction is, in a word."""
    if one.opcode == "custom-call":
        target = one.attribute("custom_call_target") or "?"
        return next((k for part, k in LIBRARIES if part in target), f"call {target}")
    if one.opcode != "fusion":
        return one.opcode
    if products(module, computation, one):
        return "gemm"
    inner = module.fused(one)
    codes = {each.opcode for each in inner.values()}
    ends = {_behind_views(inner, result).opcode for result in _results(module, one)}
    if "sort" in codes:
        return "sort"
    if "scatter" in ends:
        return "scatter"
    if "dynamic-update-slice" in ends:
        return "put"
    if codes <= FILLS:
        return "fill"
    if codes <= MOVES:
        return "copy" if "copy" in codes else "transpose"
    return next((c for c in ("gather", "reduce") if c in codes), "fusion")


def contents(module, one):
    """The opcodes in a fusion, in alphabetical order."""
    codes = {i.opcode for i in module.fused(one).values()}
    return sorted(codes - {"parameter", "constant", "bitcast", "tuple"})
