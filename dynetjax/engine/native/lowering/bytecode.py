"""Byte code in the making: instructions over arrays, and the numbers beside them."""

from collections import Counter
from collections.abc import Collection, Iterable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from math import prod
from operator import attrgetter

import numpy as np

from dynetjax.core.dims import Shape
from dynetjax.engine.native.lowering.arrays import (
    Array,
    Buffer,
    NotCoveredError,
    Pieces,
    Value,
    side_by_side,
)
from dynetjax.native import core

OP: dict[str, int] = {name: k for k, (name, *_) in enumerate(core.RULES)}
ELEMENTWISE = range(OP["COPY"], OP["SUM"])
MOST_AXES = 8
ADDS: int = core.SCATTERS["ADD"]


@dataclass(eq=False, slots=True)
class Instruction:
    """See `core.RULES`; operands that it has not are its result.

    Attributes:
        blocks: instructions that it runs; they follow it.
    """

    op: int
    n: int
    m: int
    k: int
    d: Array
    operands: tuple[Array, ...]
    flags: int = 0
    extra: int = 0
    blocks: tuple[list["Instruction"], ...] = ()


@dataclass(frozen=True, slots=True)
class Scattered:
    """Blocks that are added to zeros at places that are data; see SCATTER.

    Attributes:
        count: how many there are.
    """

    blocks: Array
    places: Array
    count: int
    flags: int
    extra: int


@dataclass(eq=False)
class Pool:
    """What the instructions of one fused operation share: numbers beside them.

    Attributes:
        asides: sizes of the outer products that are put aside.
    """

    constants: list[np.ndarray] = field(default_factory=list)
    count: int = 0
    extra: list[int] = field(default_factory=list)
    asides: list[int] = field(default_factory=list)
    _known: dict[bytes, Array] = field(default_factory=dict)

    def constant(self, value: np.ndarray) -> Array:
        """An array that is the same in every run."""
        value = np.asarray(value)
        kind = {"f": "f", "i": "i", "u": "u", "b": "b"}.get(value.dtype.kind)
        if kind is None or value.dtype.itemsize > 4:
            raise NotCoveredError(f"numbers of type {value.dtype}")
        stored = value.astype({"f": "f4", "i": "i4", "u": "u4", "b": "i4"}[kind])
        words = np.ascontiguousarray(stored).reshape(-1).view(np.int32)
        if not len(words):
            raise NotCoveredError("an array without numbers")
        one = bool((words == words[0]).all())
        words = words[:1] if one else words
        key = words.tobytes()
        buffer = Buffer(core.CONSTANT, len(words), 0)
        at = self._known.get(key)
        if at is None:
            at = self._known[key] = Array(buffer, self.count, (), (), kind)
            self.constants.append(words)
            self.count += len(words)
        strides = (0,) * value.ndim if one else side_by_side(value.shape)
        return Array(buffer, at.offset, value.shape, strides, kind)

    def number(self, array: Array) -> float | int | None:
        """What a constant of one number is; None if it is no such."""
        if array.buffer.slot != core.CONSTANT or not array.is_one:
            return None
        word = np.concatenate(self.constants)[array.offset : array.offset + 1]
        return word.view(np.float32 if array.kind == "f" else np.int32)[0]

    def value(self, array: Array) -> np.ndarray:
        """A constant's numbers."""
        words = np.concatenate(self.constants)
        dtype = {"f": np.float32, "u": np.uint32}.get(array.kind, np.int32)
        strides = [4 * s for s in array.strides]
        numbers = np.lib.stride_tricks.as_strided(
            words[array.offset :].view(dtype), array.shape, strides
        )
        return numbers.astype(bool) if array.kind == "b" else numbers

    def arrays(self) -> dict[str, np.ndarray]:
        """The numbers beside the byte code, as arguments of its program."""
        constants = np.concatenate([*self.constants, np.zeros(1, np.int32)])
        return {"extra": ints(self.extra), "constants": constants}

    def note(self, *numbers: int) -> int:
        """Put integers beside the byte code; where they are."""
        at = len(self.extra)
        self.extra += map(int, numbers)
        return at


class Code:
    """Instructions in the making."""

    def __init__(self, pool: Pool):
        self.pool = pool
        self.code: list[Instruction] = []
        self.made: dict[Buffer, Instruction] = {}  # by results of one instruction
        self.results: Counter[Buffer] = Counter()  # how often each is a result
        self.scattered: dict[Buffer, Scattered] = {}  # zeros, but for some blocks

    def temporary(self, shape: Shape, kind: str) -> Array:
        """A new array."""
        size = prod(shape)
        if not size:
            raise NotCoveredError("an array without numbers")
        buffer = Buffer(core.TEMPORARY, size, size)
        return Array(buffer, 0, tuple(shape), side_by_side(shape), kind)

    def emit(
        self,
        op: str,
        d: Array,
        *operands: Array,
        n: int,
        m: int = 0,
        k: int = 0,
        flags: int = 0,
        extra: int = 0,
    ) -> Array:
        """One more instruction, and its result."""
        ins = Instruction(OP[op], n, m, k, d, operands, flags, extra)
        self.code.append(ins)
        self.made[d.buffer] = ins
        return d

    @contextmanager
    def block(self) -> Iterator[list[Instruction]]:
        """What is emitted meanwhile is not for here, but for `control`."""
        outer, self.code = self.code, []
        yield self.code
        self.code = outer

    def control(
        self, op: str, *blocks: list[Instruction], n: int = 1, on: Array | None = None
    ) -> None:
        """An instruction that runs blocks of others, by what the number `on` is."""
        any_place = on or self.pool.constant(np.zeros((), np.int32))
        operands = () if on is None else (on,)
        fields = OP[op], n, 0, 0, any_place, operands
        self.code.append(Instruction(*fields, blocks=blocks))

    def map(self, op: str, kind: str, shape: Shape, *operands: Array) -> Array:
        """An operation on each number of arrays of `shape`."""
        if all(x.is_one for x in operands) and prod(shape) > 1:
            d = self.temporary((), kind)
            self.emit(op, d, *operands, n=1)
            return replace(d, shape=shape, strides=(0,) * len(shape))
        ready = [x if x.is_one else self.contiguous(x) for x in operands]
        return self.emit(op, self.temporary(shape, kind), *ready, n=prod(shape))

    def contiguous(self, x: Value) -> Array:
        """An array that has the numbers of `x` side by side."""
        if isinstance(x, Pieces):
            return self._filled(x)
        if x.is_contiguous:
            return x
        return self.copy(self.temporary(x.shape, x.kind), x)

    def array(self, x: Value) -> Array:
        """One array that has the numbers of `x`, side by side or not."""
        return self._filled(x) if isinstance(x, Pieces) else x

    def copy(self, d: Array, a: Array) -> Array:
        """Write numbers into an array, or a block of one."""
        if d.is_contiguous and (a.is_contiguous or a.is_one):
            return self.emit("COPY", d, a, n=d.size)
        axes = [x for x in zip(d.shape, d.strides, a.strides, strict=True) if x[0] > 1]
        merged: list[tuple[int, int, int]] = []
        for n, to, at in axes:
            if merged and merged[-1][1:] == (to * n, at * n):
                merged[-1] = merged[-1][0] * n, to, at
            else:
                merged.append((n, to, at))
        if len(merged) > MOST_AXES:
            raise NotCoveredError("more than eight axes")
        extra = self.pool.note(len(merged), *[x for axis in merged for x in axis])
        return self.emit("MOVE", d, a, n=d.size, extra=extra)

    def _filled(self, x: Pieces) -> Array:
        return self._fill(self.temporary(x.shape, x.kind), x)

    def _fill(self, d: Array, x: Pieces) -> Array:
        if sum(block.size for _, block in x.blocks) < x.size:
            self.copy(d, self.pool.constant(np.zeros(x.shape, np.int32)))
        for start, block in x.blocks:
            self.copy(d.part(start, block.shape), block)
        self.made.pop(d.buffer, None)  # several instructions make it
        return d

    # What the results are

    def put(self, x: Value, buffer: Buffer) -> None:
        """Have a result in a buffer: it is made there if that can be."""
        to = Array(buffer, 0, x.shape, side_by_side(x.shape), x.kind)
        if isinstance(x, Pieces):
            self._fill(to, x)
            return
        made = self.made.get(x.buffer)
        if made and x.buffer.slot == core.TEMPORARY and x.is_whole:
            temporary = x.buffer
            temporary.slot, temporary.stride = buffer.slot, buffer.stride
            temporary.start = buffer.start
            return
        self.copy(to, x)

    def add_to_operand(self, x: Value, number: int, shape: Shape) -> None:
        """Add to the gradient of an operand's row, block by block."""
        if isinstance(x, Array) and x.is_whole and x.buffer in self.scattered:
            self._scatter_to_operand(self.scattered[x.buffer], number)
            return
        blocks = x.blocks if isinstance(x, Pieces) else [((0,) * len(shape), x)]
        strides = side_by_side(shape)
        for start, block in blocks:
            if self.pool.number(block) == 0:
                continue
            to = Array(Buffer(core.VALUE, 0, 0), 0, shape, strides, "f").part(
                start, block.shape
            )
            if not to.is_contiguous:
                self._scatter_to_operand(self._placed(block, to), number)
                continue
            ready = block if block.is_one else self.contiguous(block)
            fields = ready.size, number, to.offset, to, (ready,)
            self.code.append(Instruction(OP["ADD_TO_OPERAND"], *fields))

    def _placed(self, block: Array, to: Array) -> "Scattered":
        """A block that goes to a known place, whose numbers are not side by side."""
        if len(block.shape) > MOST_AXES:
            raise NotCoveredError("more than eight axes")
        place = self.pool.constant(np.array([to.offset], np.int32))
        axes = zip(block.shape, side_by_side(block.shape), to.strides, strict=True)
        about = [v for axis in axes for v in axis]
        extra = self.pool.note(1, to.offset, 1, len(block.shape), *about, ADDS)
        return Scattered(self.contiguous(block), place, 1, 0, extra)

    def _scatter_to_operand(self, x: "Scattered", number: int) -> None:
        anywhere = Array(Buffer(core.VALUE, 0, 0), 0, (), (), "f")
        n, m, operands = x.count, x.blocks.size // x.count, (x.blocks, x.places)
        fields = n, m, number, anywhere, operands, x.flags, x.extra
        self.code.append(Instruction(OP["SCATTER_TO_OPERAND"], *fields))

    def add_to_weight(self, x: Value, gradient: Buffer, shape: Shape) -> None:
        """Add to the gradient of a weight; outer products are put aside."""
        array = self.array(x)
        if self.pool.number(array) == 0:
            return
        made = self.made.get(array.buffer)
        to = Array(gradient, 0, shape, side_by_side(shape), "f")
        if made and made.op == OP["MATMUL"] and array.buffer.slot == core.TEMPORARY:
            turned = len(shape) == 2 and array.strides == (1, shape[0])
            straight = array.is_contiguous
            alone = array.offset == 0 and array.size == array.buffer.size
            batch, _, ai, ak, _, bk, bj = self.pool.extra[made.extra :][:7]
            single = batch == 1 and self._is_read_once(array.buffer)
            if alone and single and (straight or turned):
                a, b = made.operands
                self.code.remove(made)
                rows, count, columns = made.n, made.m, made.k
                if turned and not straight:
                    a, b, rows, columns = b, a, columns, rows
                    ai, ak, bk, bj = bj, bk, ak, ai
                if count == 1:
                    self._put_aside(a, b, rows, columns, ai, bj, to)
                    return
                extra = self.pool.note(1, 0, ai, ak, 0, bk, bj)
                sizes = {"n": rows, "m": count, "k": columns, "extra": extra}
                self.emit("MATMUL", to, a, b, flags=core.ACCUMULATE, **sizes)
                return
        ready = array if array.is_one else self.contiguous(array)
        self.emit("ADD_TO_WEIGHT", to, ready, n=prod(shape))

    def _put_aside(
        self, a: Array, b: Array, rows: int, columns: int, ai: int, bj: int, to: Array
    ) -> None:
        def vector(x: Array, size: int, stride: int) -> Array:
            return self.contiguous(replace(x, shape=(size,), strides=(stride,)))

        number = len(self.pool.asides) // 2
        self.pool.asides += [rows, columns]
        a, b = vector(a, rows, ai), vector(b, columns, bj)
        self.emit("PUT_ASIDE", to, a, b, n=rows, m=columns, extra=number)

    def _is_read_once(self, buffer: Buffer) -> bool:
        """Whether it is one result, and no instruction reads it."""
        every = _with_blocks(self.code)
        read = any(x.buffer is buffer for i in every for x in i.operands)
        return not read and self.results[buffer] == 1

    # What a recurrence does not need step by step

    def hoist_forward(self, kinds: int) -> int:
        """Mark products of a weight and an operand; words a lane of what they make."""
        products = []
        for i in self.code:
            slots = sorted([x.buffer.slot - core.FIRST - kinds for x in i.operands])
            if (
                i.op == OP["MATMUL"]
                and -kinds <= slots[0] < 0 <= slots[1] < core.HOISTABLE
                and i.d.buffer.slot == core.TEMPORARY
                and self.made.get(i.d.buffer) is i
            ):
                products.append((slots[1], [i], i.d.buffer))
        return _hoisted(products)

    def hoist_back(self, kinds: int) -> int:
        """Mark products of a weight that are added to the gradient of an operand.

        Returns words a lane of what they multiply by the weight.
        """
        products = []
        reads = Counter([x.buffer for i in _with_blocks(self.code) for x in i.operands])
        for i in self.code:
            if i.op != OP["ADD_TO_OPERAND"] or i.m >= core.HOISTABLE:
                continue
            product = self.made.get(i.operands[0].buffer)
            if not product or product.op != OP["MATMUL"] or reads[product.d.buffer] > 1:
                continue
            matrix, other = sorted(
                [x.buffer for x in product.operands], key=attrgetter("stride")
            )
            has_matrix = core.FIRST <= matrix.slot < core.FIRST + kinds
            if has_matrix and other.slot == core.TEMPORARY and product in self.code:
                products.append((i.m, [i, product], other))
        return _hoisted(products)

    # From instructions to words

    def prune(self, kept: Collection[Buffer] = ()) -> None:
        """Leave out what nobody reads."""
        self.code = _needed(self.code, set(kept))

    def fuse(self, held: Collection[Buffer] = ()) -> None:
        """Have one instruction do what two do, if nothing else reads what is between.

        Args:
            held: results that something else reads.
        """
        every = _with_blocks(self.code)
        touched = Counter([x.buffer for i in every for x in (*i.operands, i.d)])
        touched.update(held)
        self.code = _fused(self.code, touched)
        self.made.update((i.d.buffer, i) for i in self.code if i.d.buffer in self.made)

    def save(self, residuals: Sequence[Array], room: int) -> int:
        """Have temporaries that backward reads where they stay; words of these."""
        for x in residuals:
            if x.buffer.slot == core.TEMPORARY:
                x.buffer.slot, x.buffer.start = core.SAVED, room
                room += x.buffer.size
        return room

    def encode(self) -> tuple[np.ndarray, int]:
        """The words, and how many words of temporaries a lane needs.

        Temporaries take the places of those that nobody reads any more; a result that
        is made number by number that of an operand, too.
        """
        self.fuse()
        code = self._in_a_row(self.code)
        begin, end = _lives(code)
        free: dict[int, list[int]] = {}
        top, rows = 0, []
        for number, i in enumerate(code):
            dying = end.get(number, [])
            for temporary in begin.get(number, ()):
                for x in i.operands:
                    fits = (
                        x.buffer.size == temporary.size and x.is_whole and i.d.is_whole
                    )
                    if i.op in ELEMENTWISE and x.buffer in dying and fits:
                        temporary.start = x.buffer.start
                        dying.remove(x.buffer)
                        break
                else:
                    places = free.get(temporary.size)
                    temporary.start = places.pop() if places else top
                    if temporary.start == top:
                        top += temporary.size
            for buffer in dying:
                free.setdefault(buffer.size, []).append(buffer.start)
            row = [i.op, i.flags, i.n, i.m, i.k, i.extra]
            arrays = (i.d, *i.operands, i.d, i.d, i.d)[:4]
            for x in arrays:
                one = int(x.is_one and x is not i.d)
                buffer = x.buffer
                row += [buffer.slot, buffer.start, x.offset, buffer.stride, one]
            rows.append(row)
        return np.array(rows, np.int32).reshape(-1, core.WORDS), top

    def _in_a_row(self, code: list[Instruction]) -> list[Instruction]:
        """Blocks after what runs them, which is told how long they are."""
        sequence: list[Instruction] = []
        for i in code:
            sequence.append(i)
            blocks = [self._in_a_row(block) for block in i.blocks]
            lengths = [len(block) for block in blocks]
            if i.op == OP["BRANCH"]:
                i.extra = self.pool.note(*lengths)
            elif blocks:
                i.m, i.k = (*lengths, 0)[:2]
            for block in blocks:
                sequence += block
        return sequence


def ints(numbers: Iterable[int]) -> np.ndarray:
    """As a program takes them."""
    return np.array([*numbers], np.int32)


def _hoisted(products: list[tuple[int, list[Instruction], Buffer]]) -> int:
    """Mark steps by the operand that they are about; words a lane of their buffers.

    Not where all are about one operand: that is what a recurrence goes on with.
    """
    if len({number for number, *_ in products}) < 2:
        return 0
    room = 0
    for number, steps, buffer in products:
        if buffer.slot == core.TEMPORARY:
            buffer.slot, buffer.start = core.HOISTED, room
            room += buffer.size
        for step in steps:
            step.flags |= core.HOIST | number << 8
    return room


def _fused(code: list[Instruction], touched: Counter[Buffer]) -> list[Instruction]:
    """See `Code.fuse`; of each buffer, how often it is a result or an operand."""
    made: dict[Buffer, int] = {}  # where results are that one instruction reads
    kept: list[Instruction | None] = []
    for i in code:
        if i.blocks:
            blocks = [_fused(block, touched) for block in i.blocks]
            i, made = replace(i, blocks=tuple(blocks)), {}
        for number, x in enumerate(i.operands):
            inner = kept[made[x.buffer]] if x.buffer in made else None
            both = _BOTH.get((i.op, inner.op, number)) if inner else None
            if inner and both and inner.n == i.n and x.is_whole:
                others = i.operands[:number], i.operands[number + 1 :]
                operands = (*others[0], *inner.operands, *others[1])
                if i.op in _COMMUTE:
                    operands = (*inner.operands, *others[0], *others[1])
                i = replace(i, op=both, operands=operands)
                kept[made.pop(x.buffer)] = None
                break
        for buffer, at in [*made.items()]:  # whose operands change here
            inner = kept[at]
            if inner and any(x.buffer is i.d.buffer for x in inner.operands):
                del made[buffer]
        is_own = i.d.buffer.slot == core.TEMPORARY and touched[i.d.buffer] == 2
        if i.op in _INNER and is_own and i.d.is_whole:
            made[i.d.buffer] = len(kept)
        kept.append(i)
    return [i for i in kept if i is not None]


# By an opcode, that of an operand and the operand's number: the one that does both.
_BOTH = {
    (OP["MUL"], OP["MUL"], 0): OP["MUL_MUL"],
    (OP["MUL"], OP["MUL"], 1): OP["MUL_MUL"],
    (OP["ADD"], OP["MUL"], 0): OP["MUL_ADD"],
    (OP["ADD"], OP["MUL"], 1): OP["MUL_ADD"],
    (OP["ADD"], OP["SQRT"], 0): OP["ROOT_ADD"],
    (OP["ADD"], OP["SQRT"], 1): OP["ROOT_ADD"],
    (OP["DIV"], OP["ROOT_ADD"], 1): OP["DIV_ROOT"],
}
_INNER = {inner for _, inner, _ in _BOTH}
_COMMUTE = OP["ADD"], OP["MUL"]


def _with_blocks(code: list[Instruction]) -> Iterator[Instruction]:
    for i in code:
        yield i
        for block in i.blocks:
            yield from _with_blocks(block)


def _needed(code: list[Instruction], needed: set[Buffer]) -> list[Instruction]:
    """What makes any of the buffers `needed`, to which it adds what that reads."""
    makers = []
    for i in reversed(code):
        made = [j.d.buffer for j in _with_blocks([i]) if not j.blocks]
        if not any(b.slot != core.TEMPORARY or b in needed for b in made):
            continue
        needed.update(x.buffer for x in i.operands)
        blocks, count = i.blocks, -1
        while blocks and count != len(needed):  # a trip reads what another has left
            count = len(needed)
            kept = [_needed(block, needed) for block in reversed(blocks)]
            i = replace(i, blocks=tuple(kept[::-1]))
        makers.append(i)
    return makers[::-1]


def _lives(
    code: list[Instruction],
) -> tuple[dict[int, list[Buffer]], dict[int, list[Buffer]]]:
    """By instruction, the temporaries that are there from then on, and until then.

    What a loop shares with anything outside is there as long as the loop.
    """
    touched: dict[Buffer, list[int]] = {}
    loops: list[tuple[int, int]] = []
    for number, i in enumerate(code):
        if i.blocks:
            loops.append((number, number + sum(map(_length, i.blocks))))
        for x in (*i.operands, i.d):
            if x.buffer.slot == core.TEMPORARY:
                touched.setdefault(x.buffer, []).append(number)
    first: dict[int, list[Buffer]] = {}
    last: dict[int, list[Buffer]] = {}
    for buffer, numbers in touched.items():
        begin, end = numbers[0], numbers[-1]
        for start, stop in loops:
            inside = any(start < number <= stop for number in numbers)
            if inside and (numbers[0] <= start or numbers[-1] > stop):
                begin, end = min(begin, start), max(end, stop)
        first.setdefault(begin, []).append(buffer)
        last.setdefault(end, []).append(buffer)
    return first, last


def _length(code: list[Instruction]) -> int:
    return sum(1 for _ in _with_blocks(code))
