"""What a device runs of a compiled program: kernels and loops, and how often."""

import dataclasses
import math
import re

import traffic

FREE = {
    *("parameter", "constant", "tuple", "get-tuple-element", "bitcast", "after-all"),
    *("partition-id", "replica-id", "opt-barrier", "domain", "iota-free"),
}  # they take no time
NESTED = ("while", "call", "conditional", "async-start")
_COUNTED = re.compile(r'known_trip_count":\{"n":"(\d+)"')
_CHUNKS = re.compile(r"chunks_of_(\d+)_trips")  # of one that takes its lanes so
_NUMBERED = re.compile(r"trips_(\d+)")  # the scope of a component's loop


@dataclasses.dataclass
class Kernel:
    """Something that the device starts.

    Attributes:
        times: how often.
        read, written: bytes of one start.
        products: those of matrices that it computes.
        loop: the innermost loop that it is in; "" for none.
        us: how long one start is thought to take.
    """

    name: str
    kind: str
    times: float
    read: int
    written: int
    products: list
    loop: str
    origin: str
    contents: list
    us: float = 0.0

    @property
    def flops(self):
        """Multiplications and additions of one start."""
        return sum(product.flops for product in self.products)

    @property
    def is_copy(self):
        """Whether it only makes a copy."""
        return self.kind in ("copy", "copy-start")


@dataclasses.dataclass
class Loop:
    """A loop.

    Attributes:
        trips: in all, if it is in another loop.
        known: False where nothing tells how often, and one trip is assumed.
        kernels: in one trip.
    """

    name: str
    scope: str
    trips: float
    known: bool
    kernels: int = 0


class Schedule:
    """The kernels and loops of a module, in the order in which they are scheduled.

    Args:
        trips: of loops that the program takes from its arguments, by the number K of
            their scope ``trips_K``.
        counts: whether an instruction is a kernel, given one that is not free.
    """

    def __init__(self, module, trips=None, counts=lambda one: True):
        self.module, self._trips, self._counts = module, trips or {}, counts
        self.kernels: list[Kernel] = []
        self.instructions: list = []  # of the kernels, with their computations
        self.loops: list[Loop] = []
        self._walk(module.entry, 1, "")

    def _walk(self, name, times, loop):
        """Go through a computation; how many kernels it starts when run once."""
        computation, started = self.module.computations[name], 0
        for one in computation.values():
            if one.opcode in FREE or one.opcode.endswith("-done"):
                continue
            if one.opcode == "while":
                self._loop(one, times)
                started += 1
            elif one.opcode in NESTED:
                started += self._walk(self._called(one), times, loop)
            elif self._counts(one):
                self._kernel(computation, one, times, loop)
                started += 1
        return started

    def _called(self, one):
        """The computation of a call; of a conditional, its longest branch."""
        if one.opcode != "conditional":
            return one.attribute("to_apply") or one.attribute("calls")
        names = one.names("branch_computations") or [
            one.attribute("true_computation"),
            one.attribute("false_computation"),
        ]
        return max(names, key=lambda name: len(self.module.computations[name]))

    def _loop(self, one, times):
        trips = self._trips_of(one)
        known = trips is not None
        loop = Loop(one.name, one.scope, times * (trips if known else 1), known)
        self.loops.append(loop)
        loop.kernels = self._walk(one.attribute("body"), loop.trips, one.name)
        self._walk(one.attribute("condition"), loop.trips + times, one.name)

    def _trips_of(self, one):
        """As XLA knows; else by the limit in its condition, or by the arguments."""
        counted = _COUNTED.search(one.rest)
        if counted:
            return int(counted[1])
        limits = self.module.constants(one.attribute("condition"))
        if limits:
            return max(limits)
        scope = _NUMBERED.findall(one.scope)
        trips = self._trips.get(int(scope[-1])) if scope else None
        together = _CHUNKS.findall(one.scope)
        if together and trips is not None:
            trips = math.ceil(trips / int(together[-1]))
        return trips

    def _kernel(self, computation, one, times, loop):
        module = self.module
        read, written = traffic.moved(module, computation, one)
        self.instructions.append((computation, one))
        self.kernels.append(
            Kernel(
                name=one.name,
                kind=traffic.kind(module, computation, one),
                times=times,
                read=read,
                written=written,
                products=traffic.products(module, computation, one),
                loop=loop,
                origin=module.origin(one),
                contents=traffic.contents(module, one),
            )
        )
