"""A function is built for several examples: what differs are its arguments.

Every number of an argument differs from all others in its examples. So a number of a
node that differs among the examples is that number of an argument which has the same
examples; what is the same in all is part of the program. That is exact: the numbers of
an argument, together, have 64 random bits or more in the examples.
"""

import itertools
from collections.abc import Callable
from typing import Any, NamedTuple

import numpy as np

from dynetjax.core.dims import Shape
from dynetjax.core.errors import error_text
from dynetjax.core.expression import Expression
from dynetjax.core.functions import (
    COLUMN_TYPES,
    Description,
    description,
    needed,
    row_ids,
    storage_of,
)
from dynetjax.core.registry import INPUT, LOOKUP, MAP
from dynetjax.graph import are_lines_noted, current_graph, note_lines, renew_cg
from dynetjax.serving.arguments import Argument, count_examples, example, given
from dynetjax.serving.built import Built, Column

SEED = 2026


class Probe(NamedTuple):
    """What a function built for one example.

    Attributes:
        columns: of each node, its runtime data.
        shapes: of each node, of one batch element.
        numbers: of each node, in its graph.
    """

    nodes: list[Description]
    operands: list[list[int]]
    columns: list[list[np.ndarray]]
    shapes: list[Shape]
    numbers: list[int]
    result: Any

    def structure(self, k: int) -> tuple[Any, ...]:
        """All of a node but for the numbers of its runtime data."""
        node = self.nodes[k]
        columns = [x.shape for x in self.columns[k]]
        about = node.op, node.static, node.lanes, node.source, node.constant
        return (*about, self.shapes[k], self.operands[k], columns)


class Prober:
    """Builds a function for examples of its arguments.

    Args:
        function: returns expressions.
        arguments: by name.

    Attributes:
        parameters: values of the parameters and tables that were met, by names.
    """

    def __init__(self, function: Callable[..., Any], arguments: dict[str, Argument]):
        self._function, self._arguments = function, arguments
        self._count = count_examples(arguments)
        self._random = np.random.default_rng(SEED)
        self._names: dict[Any, str] = {}  # of storages
        self.parameters: dict[str, np.ndarray] = {}

    def build(self, lengths: dict[str, int | None]) -> Built:
        """The function for arguments of these lengths."""
        examples = [
            {
                name: example(x, lengths[name], self._random)
                for name, x in self._arguments.items()
            }
            for _ in range(self._count)
        ]
        first, *others = [self._probe(x) for x in examples]
        for probe, arrays in zip(others, examples[1:], strict=True):
            self._require_same(first, examples[0], probe, arrays)
        numbers = [np.concatenate([a.ravel() for a in x.values()]) for x in examples]
        codes = np.array(numbers, np.float64).T.tolist()
        places = {tuple(code): k for k, code in enumerate(codes)}
        columns: list[list[Column]] = []
        for k, node in enumerate(first.nodes):
            several = zip(
                first.columns[k], *[x.columns[k] for x in others], strict=True
            )
            found = [_explained(np.stack(x), places) for x in several]
            columns.append([x for x in found if x is not None])
            if None in found:
                raise _unexplained(node.op.name, self._line(examples[0], first, k))
        return Built(first.nodes, first.operands, columns, first.shapes, first.result)

    def _probe(self, arrays: dict[str, np.ndarray]) -> Probe:
        """Build the function for an example."""
        renew_cg()
        arguments = self._arguments.items()
        returned = self._function(**{n: given(n, x, arrays[n]) for n, x in arguments})
        roots: list[Expression] = []
        result = _collected(returned, roots)
        if current_graph().state is not None:
            raise _has_read()
        nodes = needed([root.locate()[1] for root in roots])
        at = {node: k for k, node in enumerate(nodes)}
        described = [self._described(node) for node in nodes]
        return Probe(
            described,
            [[at[x] for x in node.operands] for node in nodes],
            [_columns(node) for node in described],
            [node.true_shape for node in nodes],
            [node.number for node in described],
            _placed(result, [at[root] for root in roots]),
        )

    def _described(self, node: Expression) -> Description:
        """A node, whose parameter has a name of its own."""
        described, storage = description(node), storage_of(node)
        if "k" in described.op.runtime:
            raise _is_random(described.op.name)
        if storage is None:
            return described
        if storage not in self._names:
            name, others = storage.name, itertools.count(2)
            while name in self.parameters:
                name = f"{storage.name}#{next(others)}"
            self._names[storage] = name
            self.parameters[name] = np.array(storage.host_values(), np.float32)
        return described._replace(source=self._names[storage])

    def _require_same(
        self,
        first: Probe,
        example: dict[str, np.ndarray],
        other: Probe,
        other_example: dict[str, np.ndarray],
    ) -> None:
        """Raise ValueError where two examples make different graphs."""
        count = min(len(first.nodes), len(other.nodes))
        for k in range(count):
            if first.structure(k) != other.structure(k):
                break
        else:
            if len(first.nodes) == len(other.nodes) and first.result == other.result:
                return
            k = count - 1
        one, another = first.nodes[k].op.name, other.nodes[k].op.name
        raise ValueError(
            error_text(
                "export: examples of the same lengths make different graphs",
                got=f"{one} at {self._line(example, first, k)}, and for others"
                f" {another} at {self._line(other_example, other, k)}",
                expected="a graph that depends on lengths, and on no other value",
                fix="export the parts that do not, and decide between them outside",
            )
        )

    def _line(self, arrays: dict[str, np.ndarray], probe: Probe, k: int) -> str:
        """Where the user makes a node."""
        was_noting = are_lines_noted()
        note_lines(True)
        try:
            self._probe(arrays)
            lines = current_graph().lines or {}
        finally:
            note_lines(was_noting)
        return lines.get(probe.nodes[k].number, "a line that is not known")


def _columns(node: Description) -> list[np.ndarray]:
    """The runtime data of a node, of the types that operations take."""
    data, form = node.data, node.op.form
    if data is None:
        return []
    if form == LOOKUP:
        return [row_ids(data)]
    if form == INPUT:
        return [np.asarray(data, np.float32)]
    if form != MAP:
        return [np.asarray(data, np.int32)]
    several = data if isinstance(data, tuple) else (data,)
    typed = zip(several, node.op.given, strict=True)
    return [np.asarray(x, COLUMN_TYPES[letter]) for x, letter in typed]


def _explained(examples: np.ndarray, places: dict[Any, int]) -> Column | None:
    """Which arguments a column is made of; None if there is something else in it.

    Args:
        examples: ``[examples, *shape]``.
        places: of numbers in the arguments, by all their examples.
    """
    numbers = examples[0]
    same = (examples == numbers) | np.isnan(examples) & np.isnan(numbers)
    constant = same.all(axis=0)
    if constant.all():
        return Column(numbers, None)
    found = np.full(numbers.shape, -1, np.int32)
    for at in np.ndindex(numbers.shape):
        if constant[at]:
            continue
        place = places.get(tuple(examples[(slice(None), *at)].tolist()))
        if place is None:
            return None
        found[at] = place
    return Column(numbers, found)


def _collected(returned: Any, roots: list[Expression]) -> Any:
    """What a function returned, with numbers of `roots` for expressions."""
    if isinstance(returned, Expression):
        roots.append(returned)
        return len(roots) - 1
    if isinstance(returned, tuple) and returned:
        return tuple([_collected(x, roots) for x in returned])
    if isinstance(returned, dict) and returned:
        return {key: _collected(x, roots) for key, x in returned.items()}
    are_expressions = isinstance(returned, list) and all(
        isinstance(x, Expression) for x in returned
    )
    dims = {x.full_dim for x in returned} if are_expressions else set()
    if len(dims) != 1:
        shown = f"dims {', '.join(map(str, dims))}" if dims else repr(returned)
        raise TypeError(
            error_text(
                "export: the function returns something else than expressions",
                got=f"a list of {shown}" if dims else shown,
                expected="an expression, a list of some of the same dims, or a tuple"
                " or dict of these",
                fix="return what you would call value() of",
            )
        )
    return [_collected(x, roots) for x in returned]


def _placed(result: Any, places: list[int]) -> Any:
    """A result with places in a list of nodes for numbers of roots."""
    if isinstance(result, int):
        return places[result]
    if isinstance(result, dict):
        return {key: _placed(x, places) for key, x in result.items()}
    return type(result)([_placed(x, places) for x in result])


def _unexplained(name: str, line: str) -> ValueError:
    return ValueError(
        error_text(
            f"export: {name} has a number that is neither an argument nor fixed",
            got=f"a number that differs from call to call, at {line}",
            expected="numbers of arguments as they were given",
            fix="compute it before, and give the result as an argument",
        )
    )


def _is_random(name: str) -> ValueError:
    return ValueError(
        error_text(
            f"export: {name} draws random numbers",
            got=name,
            expected="values that follow from the arguments",
            fix="leave it out: builders have disable_dropout()",
        )
    )


def _has_read() -> ValueError:
    return ValueError(
        error_text(
            "export: the function reads a value while it builds the graph",
            got="value(), npvalue() or the like of an expression",
            expected="expressions alone: one value would be taken for all arguments",
            fix="export what comes before, and go on with its values outside",
        )
    )
