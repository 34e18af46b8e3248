"""How long a compiled program may take on a device: lower bounds, to compare programs.

For a GPU a kernel takes what its bytes or its flops take, whichever is longer, and
never less than it takes to start. For a TPU the compiler itself writes beside most
instructions how many cycles it expects.
"""

import dataclasses
import math
import re

from hlo import Module
from schedule import Schedule

# An H100, with 132 multiprocessors
SMALL = 2.2  # us from the start of a small kernel to the next in a graph of kernels
TRIP = 3.0  # us of a trip of a loop, besides its kernels
LAUNCH = 12.0  # us until a graph of kernels begins
MEMORY = 3.35e6  # bytes a us
CACHE, FROM_CACHE = 40 << 20, 5.5e6  # bytes that the cache holds; bytes a us from it
LINKS = 3.0e5  # bytes a us to other devices
EXACT, ROUNDED = 60e6, 350e6  # flops a us: float32; operands for tensor cores
REACHED = 0.75  # of these
CORES, TILE = 132, 32
DEEP = 0.0035  # us of a step along the depth of a product
SPLIT = 128, 2.0  # the least depth of a part; us to sum the parts
SORTED = 10  # steps of a bitonic sort, as powers of two, that one kernel makes

# A TPU v5e
CLOCK = 1500  # cycles a us
TPU_MEMORY = 819e3  # bytes a us
UNTOLD = 200  # cycles of an instruction of which the compiler says nothing
ROW_LAUNCH, ROW = 1800, 16  # cycles of a gather or scatter, and of each of its rows
ROWS = ("gather", "scatter")
PREFETCH = 4096  # bytes; smaller copies between the memories of a TPU are not told
_CYCLES = re.compile(r'estimated_cycles":"(\d+)"')


@dataclasses.dataclass
class Estimate:
    """What a program comes to, in numbers.

    Attributes:
        copies, copied: kernels that only copy, and their bytes.
        looped: of these bytes, those of copies within loops.
        guessed: of `us`, what the compiler of a TPU does not tell.
        temporary: bytes of the program's own memory; added by whoever knows it.
    """

    kernels: float = 0.0
    copies: float = 0.0
    copied: float = 0.0
    looped: float = 0.0
    bytes: float = 0.0
    flops: float = 0.0
    us: float = 0.0
    guessed: float = 0.0
    temporary: float = 0.0

    def __add__(self, other):
        mine, others = dataclasses.astuple(self), dataclasses.astuple(other)
        return Estimate(*map(sum, zip(mine, others, strict=True)))


def on_gpu(text, trips=None):
    """The estimate of a program for an H100, and its schedule."""
    schedule = Schedule(Module(text), trips)
    for kernel in schedule.kernels:
        kernel.us = microseconds(kernel)
    found = _added(schedule.kernels)
    turns = sum(loop.trips + 1 for loop in schedule.loops)
    found.us += TRIP * turns + LAUNCH
    return found, schedule


def microseconds(kernel):
    """One start of a kernel on an H100."""
    if kernel.kind == "sort":  # what lies far apart takes a kernel for each step
        steps = max(kernel.written // 8, 2).bit_length()
        return SMALL * (1 + sum(s - SORTED + 2 for s in range(SORTED, steps)))
    size = kernel.read + kernel.written
    if kernel.kind.startswith("all-"):
        return SMALL + size / LINKS
    longest = size / (FROM_CACHE if size < CACHE else MEMORY)
    longest = max([longest, *map(_of_product, kernel.products)])
    return max(SMALL, SMALL - 1 + longest)


def _of_product(product):
    """Microseconds that it computes; small products leave multiprocessors idle."""
    least, summing = SPLIT
    across = math.ceil(product.rows / TILE) * math.ceil(product.columns / TILE)
    tiles = product.batch * across
    parts = max(1, min(product.depth // least, CORES // max(tiles, 1)))
    speed = (EXACT if product.exact else ROUNDED) * REACHED
    busy = min(1.0, max(tiles, 1) * parts / CORES)
    took = product.flops / (speed * busy) + DEEP * product.depth / parts
    return took + (summing if parts > 1 else 0.0)


def on_tpu(text, trips=None):
    """The estimate of a program for a TPU v5e, and its schedule."""

    def counts(one):
        return one.numbers > 1 or _CYCLES.search(one.rest) is not None

    schedule = Schedule(Module(text), trips, counts)
    guessed = 0.0
    pairs = zip(schedule.kernels, schedule.instructions, strict=True)
    for kernel, (computation, one) in pairs:
        cycles, told = _cycles(schedule.module, computation, one, kernel)
        kernel.us = cycles / CLOCK
        if not told:
            guessed += kernel.us * kernel.times
    shown = [k for k in schedule.kernels if not k.is_copy or k.written > PREFETCH]
    found = _added(shown)
    found.us = sum(k.us * k.times for k in schedule.kernels)
    found.guessed = guessed
    return found, schedule


def _cycles(module, computation, one, kernel):
    """The cycles of an instruction, and whether the compiler tells them."""
    told = _CYCLES.search(one.rest)
    if told:
        return int(told[1]), True
    if "ConcatBitcast" in one.rest or one.opcode.endswith("-start"):
        return 0, True
    inner = module.fused(one)
    for each in (one, *inner.values()):
        if each.opcode in ROWS:
            indices = (inner or computation).get(each.operands[1])
            dims = indices.dims if indices else []
            return ROW_LAUNCH + ROW * max(dims, default=1), False
    size = kernel.read + kernel.written
    return int(size / TPU_MEMORY * CLOCK) + UNTOLD, False


def _added(kernels):
    """All kernels together, each as often as it runs."""
    found = Estimate()
    for k in kernels:
        found.kernels += k.times
        found.bytes += k.times * (k.read + k.written)
        found.flops += k.times * k.flops
        found.us += k.times * k.us
        if k.is_copy:
            found.copies += k.times
            found.copied += k.times * k.written
            found.looped += k.times * k.written * bool(k.loop)
    return found
