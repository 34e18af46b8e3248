"""What is written in C++: graphs and their nodes, the planner, the executor."""

from collections.abc import Callable
from typing import Any

# Of each opcode its name, family, flags, the words of d, a, b and c, and what it does.
RULES: list[tuple[str, str, int, tuple[str, str, str, str], str]]
FLAGS: dict[str, str]  # what each says, by name; the bits:
ACCUMULATE: int
REVERSED: int
INTS: int
CLIPPED: int
LOWER: int
UNIT: int
HOIST: int
SLOTS: dict[str, str]  # what each holds, by name; the numbers:
CONSTANT: int
TEMPORARY: int
SAVED: int
VALUE: int
COTANGENT: int
HOISTED: int
FIRST: int
DYNAMIC: int  # stride of an operand's rows
HOISTABLE: int  # operands
WORDS: int  # of an instruction
TERMS: list[int]  # how many of what an update tells a rule its programs have
MOST_STATES: int  # of a rule
FORMS: dict[str, int]  # how nodes of a fused op get their rows
SCATTERS: dict[str, int]  # what SCATTER does
LEVEL: str  # of the processor's instructions

class Program:
    """A fused operation as byte code; see `program.h`."""

    extra: list[int]
    constants: bytes

    def __init__(self, *about: Any) -> None: ...
    def bound(self, weights: Any) -> Program: ...
    def instructions(self, back: bool) -> list[tuple[Any, ...]]: ...

class Structures:
    """What nodes of the process have in common; see `structures.h`."""

    def __init__(
        self,
        tell: Callable[[Any], tuple[Any, ...]],
        make: Callable[[int, list[Any]], Any],
        first: int,
    ) -> None: ...
    def __len__(self) -> int: ...
    def store(self, structure: int) -> bool: ...
    def take_outdated(self) -> list[tuple[int, bool]]: ...

class StoredNodes:
    """The nodes of a graph that have rows; see `stored.h`."""

    def __len__(self) -> int: ...
    def add(
        self,
        fused: int,
        lanes: int,
        reads: Any,
        data: Any,
        index: int,
        given: Any = None,
    ) -> int: ...
    def cut(self, count: int) -> None: ...
    def fused(self, number: int) -> int: ...
    def lanes(self, number: int) -> int: ...
    def index(self, number: int) -> int: ...
    def reads(self, number: int) -> list[int]: ...
    def data(self, number: int) -> list[int]: ...
    def given(self, number: int) -> Any: ...
    def column(self, numbers: Any, letters: str, field: int) -> bytes: ...
    def rows_by_op(self, start: int) -> list[tuple[int, int]]: ...

class Storage:
    """The numbers of a parameter or a table; see `storage_type.h`."""

    _array: Any
    _device: Any
    _factor: Any
    deferred: Any
    gradient: Any
    spare: Any  # an array for the next gradient
    has_gradient: bool

class Nodes:
    """The nodes of a graph, and which of them have rows; see `nodes.h`."""

    stored: StoredNodes
    executor: Any  # what computes it without Python
    arrays: dict[int, Any]  # weights on the host as they were when first read, by kind
    root: Any  # of the last backward, if that was without Python
    leaves: list[Any]
    live: bool
    room: int

    def _begin(
        self, structures: Structures, old: Any, watched: bool, immediate: bool = False
    ) -> None: ...
    def __len__(self) -> int: ...
    def append(
        self,
        signature: Any,
        operands: tuple[Any, ...],
        lanes: int,
        data: Any = None,
        lengths: tuple[int, ...] = (),
        parts: tuple[Any, ...] | None = None,
        is_part: bool = False,
    ) -> Any: ...
    def keep(self, leaf: Any) -> None: ...
    def unlike(self) -> None: ...
    def store(self, asked: list[int]) -> None: ...
    def at(self, index: int) -> int: ...
    def has_gradient(self, index: int) -> bool: ...
    def use_executor(self, executor: Any, nodes: int = 0, bytes: int = 0) -> None: ...
    def forget_root(self) -> None: ...
    def computed(self, index: int) -> int: ...
    def hold(self, index: int) -> None: ...
    def set_data(self, index: int, data: Any) -> None: ...
    def start_anew(self) -> None: ...
    def cut(self, count: int) -> None: ...
    def node(self, index: int) -> Any: ...
    def weights_up_to(self, index: int) -> list[Any]: ...

class Executor:
    """What one graph has computed; `tables` is asked for what comes from Python."""

    def __init__(
        self,
        tables: Any,
        programs: Any = None,
        timed: bool = False,
        arrays: dict[int, Any] | None = None,
    ) -> None: ...
    count: int
    tables: Any
    def extend(self, stored: StoredNodes, start: int) -> int: ...
    def rows(self, number: int) -> bytes: ...
    def array(self, number: int, to: Any) -> None: ...
    def gradient(self, number: int) -> bytes | None: ...
    def components(self) -> list[tuple[int, list[int]]]: ...
    def times(self) -> list[tuple[int, int, int, float]]: ...
    def written(self) -> float: ...
    def memory(self) -> int: ...
    def cut(self, count: int) -> None: ...
    def backward(
        self,
        root: int | list[tuple[int, Any]],
        index: int,
        full: bool,
        new: Callable[[int], Any],
    ) -> tuple[list[int], list[tuple[int, bytes, bytes]]]: ...

class FlatGraph:
    """The nodes of a graph from one on, placed on lanes and rows; see `flat.h`."""

    count: int
    older: list[int]
    fused: list[int]

    def __init__(
        self,
        stored: StoredNodes,
        start: int,
        read_by: Callable[[int], int],
        imported: Callable[[int], int],
    ) -> None: ...
    def bind(self, ops: list[int]) -> None: ...
    def edges(self, facts: Any) -> list[tuple[int, int]]: ...
    def levels(self, facts: Any) -> list[list[int]]: ...
    def place(self, facts: Any, widths: list[int]) -> list[int]: ...
    def unaligned(self, facts: Any) -> list[tuple[int, int]]: ...
    def write(self, addresses: Any, bases: list[int], buffer: Any) -> None: ...
    def row(self, node: int) -> int: ...
    def nodes(self, op: int) -> tuple[bytes, bytes, bytes]: ...
    def rows(self, ops: int) -> list[int]: ...
    def unused(self, root: int) -> list[int]: ...
    def clear(self, nodes: list[int], addresses: Any, buffer: Any) -> None: ...

class Rule:
    """A trainer's rule; see `rule.h`."""

    states: int

    def __init__(self, *programs: Program) -> None: ...

def update(*about: Any) -> float:
    """Change parameters, tables and the state of a rule; the norm of the gradients."""

def gather(array: Any, arrays: list[Any], factor: float) -> None:
    """Write the numbers of `arrays`, float32, times a factor, end to end."""

def scatter(
    arrays: list[Any], storages: list[Any], sizes: list[int], which: list[int]
) -> None:
    """Give storages their part of the sum of arrays, or no gradient: see `which`."""
