"""Where NaN and infinities come from."""

from typing import Any, NamedTuple

import numpy as np

from dynetjax.core.errors import error_text
from dynetjax.core.expression import Expression, engine, to_numpy
from dynetjax.core.registry import OWNERS
from dynetjax.graph import current_graph
from dynetjax.inspect.listing import Entry, entries


class NonFinite(NamedTuple):
    """The operation that first made a number that is not finite.

    Attributes:
        expression: its node; a parameter, if that is not finite itself.
        operation: its name.
        where: ``"forward"``, or ``"backward"`` if the value is finite and its gradient,
            or that of an operand, is not.
        operands: dims, smallest and largest number of each operand.
        line: the user's line, if `init(debug=True)` had them noted.
        brief: all of it in a line.
    Examples:
        >>> y = dy.sqrt(dy.inputVector([1, -1]))
        >>> found = dy.find_nonfinite(dy.sum_elems(y))
        >>> print(isinstance(found, dy.NonFinite), found.expression == y)
        True True
        >>> print(found.operation, found.where, found.operands)
        sqrt forward ('{2} from -1 to 1',)
    """

    expression: Expression
    operation: str
    where: str
    operands: tuple[str, ...]
    line: str | None

    @property
    def brief(self) -> str:
        """The same in a line."""
        of = f" of {'; '.join(self.operands)}" if self.operands else ""
        at = f", {self.line}" if self.line else ""
        return f"{self.operation} ({self.where}){of}{at}"

    def __str__(self) -> str:
        made = "value" if self.where == "forward" else "gradient"
        hint = "dynetjax.init(debug=True) notes your lines, in graphs renewed after it"
        return error_text(
            f"{self.operation}: the first {made} that is not finite ({self.where})",
            got=f"{self.expression!r}, of {'; '.join(self.operands) or 'no operands'}",
            expected="finite numbers",
            fix=f"look at {self.line}" if self.line else hint,
        )


def find_nonfinite(expr: Expression) -> NonFinite | None:
    """The operation where the first NaN or infinity under an expression comes from.

    Values are looked at first, operands before results. If all are finite and `expr`
    is one number, its gradients are, results before operands. Gradients of parameters
    stay as they are. ``-inf`` that an operation writes by design, as log_softmax with
    `restrict` does, is not what is looked for.

    Returns:
        What was found, or None.
    Raises:
        RuntimeError: the expression is stale.
    Examples:
        >>> m = dy.ParameterCollection()
        >>> p = m.add_parameters(2, init=0)
        >>> print(dy.find_nonfinite(dy.sum_elems(dy.exp(p))))
        None
        >>> print(dy.find_nonfinite(dy.sum_elems(dy.log(p))).brief)
        log (forward) of {2} from 0 to 0
        >>> print(dy.find_nonfinite(dy.sum_elems(dy.sqrt(p))).brief)
        sqrt (backward) of {2} from 0 to 0
    """
    graph, root = expr.locate()
    listed = entries(graph)
    needed = _needed(listed, root)
    values = _read(graph, [listed[k].expression for k in needed])
    arrays = dict(zip(needed, values, strict=True))
    for k in needed:
        of_bad = any(_is_bad(arrays[a]) for a in listed[k].args)
        op = listed[k].expression.signature.op
        if op.is_bad(arrays[k]) and not of_bad:
            return _report(listed, k, "forward", arrays)
    if root.full_dim.size * max(1, root.lanes) != 1:
        return None
    return _in_gradients(root, listed, needed, arrays)


def last_nonfinite() -> str:
    """What `find_nonfinite` tells of the current graph's last backward, or "".

    The graph of a bad gradient may be gone when somebody learns of it.
    """
    graph = current_graph()
    root = graph.root
    if root is None and graph.state is not None and graph.state.last is not None:
        root = graph.state.last.node
    if root is None:
        return ""
    try:
        finding = find_nonfinite(root)
    except RuntimeError:  # another trainer has a bad gradient, too
        return ""
    return finding.brief if finding else ""


def _needed(listed: list[Entry], root: Expression) -> list[int]:
    """The numbers of all that a node is made of, and its own, in order."""
    needed = {k for k, entry in enumerate(listed) if entry.expression == root}
    for k in range(len(listed) - 1, -1, -1):
        if k in needed:
            needed.update(listed[k].args)
    return sorted(needed)


def _read(graph: Any, nodes: list[Expression]) -> list[np.ndarray]:
    rows = engine().values(graph, nodes)
    pairs = zip(nodes, rows, strict=True)
    return [to_numpy(node.without_padding(array)) for node, array in pairs]


def _is_bad(array: np.ndarray) -> bool:
    return not np.isfinite(array).all()


def _in_gradients(
    root: Expression, listed: list[Entry], needed: list[int], arrays: dict[int, Any]
) -> NonFinite | None:
    owners: list[Any] = list(OWNERS.values())
    before = [owner.take_gradient() for owner in owners]
    try:
        root.backward(full=True)
        gradients = {k: _gradient(listed[k].expression) for k in needed}
    finally:
        for owner, gradient in zip(owners, before, strict=True):
            owner.take_gradient()
            owner.put_gradient(gradient)
    for k in reversed(needed):
        if not _is_bad(gradients[k]) and any(
            _is_bad(gradients[a]) for a in listed[k].args
        ):
            return _report(listed, k, "backward", arrays)
    return None


def _gradient(node: Expression) -> np.ndarray:
    try:
        return node.gradient()
    except RuntimeError:  # of what the root is not made of
        return np.zeros(1)


def _report(
    listed: list[Entry], k: int, where: str, arrays: dict[int, Any]
) -> NonFinite:
    entry = listed[k]
    ranges = [
        f"{listed[a].dim} from {np.min(arrays[a]):g} to {np.max(arrays[a]):g}"
        for a in entry.args
    ]
    name = str(entry.expression) if entry.is_parameter else entry.name
    return NonFinite(entry.expression, name, where, tuple(ranges), entry.line)
