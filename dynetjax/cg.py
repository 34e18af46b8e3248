"""The one ComputationGraph that programs see: whichever graph is the thread's."""

from collections.abc import Sequence
from typing import Any

import numpy as np

from dynetjax import graph
from dynetjax.core.errors import error_text
from dynetjax.core.expression import Expression
from dynetjax.core.reprs import counted
from dynetjax.core.revert import cg_checkpoint, cg_revert
from dynetjax.engine.stats import note_renewal, timing
from dynetjax.inspect import drawing, listing
from dynetjax.ops.arguments import Ints, Numbers
from dynetjax.ops.inputs import inputTensor, sparse_inputTensor
from dynetjax.ops.shaping import reshape


class ComputationGraph:
    """The current graph of the thread, as `renew_cg` and `cg` return it.

    Nodes go by numbers, those that ``str(expression)`` shows.

    Examples:
        >>> graph = dy.renew_cg()
        >>> x = dy.inputVector([3, 4])
        >>> loss = dy.squared_norm(x)
        >>> print(len(graph), graph.forward_vec(0), graph.forward_scalar(1))
        2 [3.0, 4.0] 25.0
    """

    def __init__(self) -> None:
        raise RuntimeError(
            error_text(
                "ComputationGraph: there is one, and no other can be made",
                got="ComputationGraph()",
                expected="cg()",
                fix="dy.cg() returns it, dy.renew_cg() empties it",
            )
        )

    def renew(
        self,
        immediate_compute: bool = False,
        check_validity: bool = False,
        autobatching: bool | None = None,
    ) -> "ComputationGraph":
        """See `renew_cg`."""
        return renew_cg(immediate_compute, check_validity, autobatching)

    def version(self) -> int:
        """How many times it was renewed."""
        return graph.cg_version()

    def __repr__(self) -> str:
        return f"ComputationGraph {self.version()}: {counted(len(self), 'node')}"

    def __len__(self) -> int:
        return len(listing.entries(graph.current_graph()))

    def forward(self, i: int) -> None:
        """Compute node `i`, and all that is new before it."""
        self._node(i).forward(recalculate=True)

    def inc_forward(self, i: int) -> None:
        """Compute node `i` if it is new."""
        self._node(i).forward()

    def forward_scalar(self, i: int) -> float:
        """The one number of node `i`, computed anew."""
        return self._node(i).scalar_value(recalculate=True)

    def inc_forward_scalar(self, i: int) -> float:
        """The one number of node `i`."""
        return self._node(i).scalar_value()

    def forward_vec(self, i: int) -> list[float]:
        """The numbers of node `i`, computed anew."""
        return self._node(i).vec_value(recalculate=True)

    def inc_forward_vec(self, i: int) -> list[float]:
        """The numbers of node `i`."""
        return self._node(i).vec_value()

    def backward(self, i: int, full: bool = False) -> None:
        """Gradients of node `i`."""
        self._node(i).backward(full)

    def print_graphviz(self) -> None:
        """See `print_text_graphviz`."""
        listing.print_text_graphviz()

    def dump(self, *args: Any, **kwargs: Any) -> None:
        """See `dump_cg`."""
        listing.dump_cg(*args, **kwargs)

    def checkpoint(self) -> None:
        """See `cg_checkpoint`."""
        cg_checkpoint()

    def revert(self) -> None:
        """See `cg_revert`."""
        cg_revert()

    def inputMatrixLiteral(
        self, v: list[Any] | np.ndarray, d: tuple[int, ...]
    ) -> Expression:
        """A matrix of these numbers, first index fastest."""
        return reshape(inputTensor(v), d)

    def inputSparseTensor(
        self,
        idxs: Sequence[Ints] | np.ndarray,
        v: Numbers,
        shape: tuple[int, ...],
        **options: Any,
    ) -> Expression:
        """See `sparse_inputTensor`."""
        return sparse_inputTensor(idxs, v, shape, **options)

    def _repr_svg_(self) -> str | None:
        """For notebooks: the whole graph."""
        return drawing.svg()

    def _node(self, i: int) -> Expression:
        return listing.node_of(graph.current_graph(), i)


_cg: ComputationGraph = object.__new__(ComputationGraph)


def cg() -> ComputationGraph:
    """The ComputationGraph; always the same object.

    Examples:
        >>> x = dy.inputVector([1, 2])
        >>> y = dy.tanh(x)
        >>> print(len(dy.cg()), dy.renew_cg() is dy.cg(), len(dy.cg()))
        2 True 0
    """
    return _cg


def renew_cg(
    immediate_compute: bool = False,
    check_validity: bool = False,
    autobatching: bool | None = None,
) -> ComputationGraph:
    """Start a new graph. Expressions of the old one are stale from now on.

    Args:
        immediate_compute: compute every node when it is made.
        check_validity: with `immediate_compute`, raise RuntimeError on NaN or Inf.
        autobatching: accepted as DyNet's; nodes always run together here.
    Examples:
        >>> x = dy.inputVector([1, 2])
        >>> graph = dy.renew_cg()
        >>> try:
        ...     print(x.value())
        ... except RuntimeError as error:
        ...     print(str(error).splitlines()[0])
        the expression is stale
    """
    graph.renew_cg(immediate_compute, check_validity, autobatching)
    if timing():
        note_renewal()
    return _cg
