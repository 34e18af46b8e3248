"""`@op`: from one declaration, the operation and the function users call.

    @op(inputs="x", runtime="v:i", dim=scores_to_loss, accept=class_of)
    def pickneglogsoftmax(x, v):
        \"\"\"Docstring for users.\"\"\"
        return jax.nn.logsumexp(x) - x[v]

The function computes one batch element; the engine adds the batch axis. Names in
`inputs` are edges, those in `runtime` are fed per run (``:i`` an int, ``:f`` a float),
``k`` asks for a random key as last argument but static ones, and every other name is
static: it is part of the program. Users get a function with the same signature that
adds a node; the operation itself hangs on it as ``.op``.
"""

import inspect
from collections.abc import Callable, Sequence
from math import inf
from typing import Any, NamedTuple

from dynetjax.core.expression import Expression
from dynetjax.core.other_names import raise_unknown_keyword
from dynetjax.core.registry import FAN_IN, Op
from dynetjax.graph import ComputationGraph
from dynetjax.native import core
from dynetjax.ops.operands import graph_of, operands

OF_NEXT, CONSTANT = -1, -2  # axes of a bound


class Usual(NamedTuple):
    """What a runtime argument usually is: nothing else has to be checked then.

    Attributes:
        letter: ``i`` an int, ``f`` a float; "" is an argument that is none.
        axis: an int is below the size of this axis of the first operand; OF_NEXT: of
            the one that the next argument names; CONSTANT: below `high`.
        single: the first operand is no batch.
        low, high: a float is between these.
        above, below: it is none of these themselves.
        floats: an int is unusual.
        kept: the letter of what a node has of it, if that is another one.
    """

    letter: str
    axis: int = CONSTANT
    single: bool = False
    low: float = -inf
    high: float = inf
    above: bool = False
    below: bool = False
    floats: bool = False
    kept: str = ""


STATIC = Usual("")


def below(axis: int = 0, *, single: bool = False, high: float = inf) -> Usual:
    """An int from 0 to below the size of an axis."""
    return Usual("i", axis, single, high=high)


def real(low: float = -inf, high: float = inf, **about: Any) -> Usual:
    """A number."""
    return Usual("f", low=low, high=high, **about)


def function(
    operands: int = -1,
    arguments: Sequence[tuple[Usual, Any]] = (),
    *,
    alike: bool = False,
    by_batch: bool = False,
) -> Callable[[Callable[..., Any]], Any]:
    """A decorator of a function that checks its arguments and adds nodes.

    What it adds is added again, by C++ alone, wherever it is called with operands of
    the same kinds, and the same arguments. It may do nothing else, and what it adds may
    follow from nothing else.

    Args:
        operands: how many come first; -1: a list of them.
        arguments: what others usually are, and their defaults.
        alike: of a list of rows of one kind, its node reads them all, however many.
        by_batch: what it adds follows from batch sizes.
    """

    def declare(checked: Callable[..., Any]) -> Any:
        told = [(*usual, default) for usual, default in arguments]
        made = core.Function(checked, operands, told, alike, by_batch)
        for name in ("__name__", "__qualname__", "__module__", "__doc__"):
            setattr(made, name, getattr(checked, name))
        made.__signature__ = inspect.signature(checked)
        return made

    return declare


def op(
    *,
    inputs: str,
    dim: Callable[..., tuple[int, ...]],
    runtime: str = "",
    accept: Callable[..., tuple[tuple[Any, ...], Any, int]] | None = None,
    contraction: bool = False,
    reset: Callable[..., Any] | None = None,
    batch_matters: bool = False,
    tells: bool = False,
    lengthens: Callable[..., bool] | None = None,
    compose: Callable[..., Any] | None = None,
    usual: dict[str, Usual] | None = None,
    idle: bool = False,
) -> Callable[[Callable[..., Any]], Any]:
    """Declare an operation.

    Args:
        inputs: names of the operands, or ``*xs`` for a list of them.
        dim: ``(name, *dims, *static) -> shape`` of the result; raises DimError.
        runtime: ``name:letter`` of the runtime arguments, ``k`` for a random key.
        accept: ``(name, dims, *others) -> (static, data, batch)``: checks and
            converts the arguments that are not operands, given in the order of the
            function's signature. `data` is the runtime value, a tuple of them if
            there are several; each may be a list with one value per batch element.
        contraction: see `Op`.
        reset, batch_matters, tells, lengthens, compose: see `Op`.
        usual: of each runtime argument, what `accept` takes as it is, but for ints that
            become floats.
        idle: where its runtime argument is 0, the operand itself is the result.
    """
    is_list = inputs.startswith("*")
    names = inputs.lstrip("*").split()
    fields = [f.split(":") for f in runtime.split()]
    fed = [f[0] for f in fields if len(f) == 2]

    def declare(fn: Callable[..., Any]) -> Any:
        parameters = list(inspect.signature(fn).parameters.values())
        shown = [p for p in parameters if p.name != "key"]
        static = tuple(p.name for p in shown if p.name not in names + fed)
        operation = Op(
            fn.__name__,
            fn,
            dim,
            static=static,
            runtime="".join(f[-1] for f in fields),
            contraction=contraction,
            reset=reset,
            batch_matters=batch_matters,
            tells=tells,
            lengthens=lengthens,
            compose=compose,
            takes_turns=is_list,
            is_listed=is_list,
        )
        others = [p for p in shown if p.name not in names]
        assert accept or not others, f"{operation.name}: arguments without accept"
        build = _checked(operation, names, is_list, others, accept, idle)
        build.__name__ = build.__qualname__ = fn.__name__
        build.__doc__, build.__module__ = fn.__doc__, fn.__module__
        build.__signature__ = _signature(names, shown, is_list)
        letters = dict([f for f in fields if len(f) == 2])
        given = [
            (
                (usual or {})
                .get(p.name, STATIC)
                ._replace(kept=letters.get(p.name, "")),
                _default(p),
            )
            for p in others
        ]
        count = -1 if is_list else len(names)
        made = function(count, given, by_batch=batch_matters)(build)
        made.op = operation
        return made

    return declare


def plain(operation: Op, count: int) -> Any:
    """The function of an operation of so many operands, and nothing else."""

    def checked(*xs: Any) -> Expression:
        return graph_of(operation.name, *xs).add(operation, xs)

    checked.__name__ = checked.__qualname__ = operation.name
    return function(count)(checked)


def _default(parameter: inspect.Parameter) -> Any:
    default = parameter.default
    return default if isinstance(default, int | float) else None


def _signature(
    names: list[str], shown: list[inspect.Parameter], is_list: bool
) -> inspect.Signature:
    """What the function shows of itself: ``(xs, d=0)``, ``(x, /)``."""
    parameter = inspect.Parameter
    kind = parameter.POSITIONAL_OR_KEYWORD
    plain = [p.replace(kind=kind) for p in shown]
    if is_list:
        plain[0] = parameter(names[0], kind)
    if len(plain) == 1 and not is_list:
        plain = [plain[0].replace(kind=parameter.POSITIONAL_ONLY)]
    return inspect.Signature([p.replace(annotation=p.annotation) for p in plain])


def _checked(
    operation: Op, names: list[str], is_list: bool, others: Any, accept: Any, idle: bool
) -> Any:
    """The function that makes all checks."""

    def checked(*args: Any, **kwargs: Any) -> Expression:
        if kwargs or len(args) != len(names) + len(others):
            alone = names[0] if len(names) == 1 and not (others or is_list) else ""
            if alone in kwargs:
                raise TypeError(
                    f"{operation.name}() got a positional-only argument passed as"
                    f" keyword argument: '{alone}'"
                )
            try:
                bound = build.__signature__.bind(*args, **kwargs)
            except TypeError as error:
                known = build.__signature__.parameters
                raise_unknown_keyword(operation.name, kwargs, known)
                after = [p.name for p in others]
                what = f"takes a list and {after}" if is_list else str(error)
                raise TypeError(f"{operation.name}() {what}") from None
            bound.apply_defaults()
            args = bound.args
        xs, rest = args[: len(names)], args[len(names) :]
        if is_list:
            graph = operands(operation.name, xs[0])
            xs = tuple(xs[0])
        else:
            graph = graph_of(operation.name, *xs)
        static, data, batch = (), None, 1
        if accept:
            dims = [x.full_dim for x in xs]
            static, data, batch = accept(operation.name, dims, *rest)
        if idle and not data:
            return xs[0]
        return graph.add(operation, xs, static, data, batch)

    build: Any = checked
    return build


def in_pairs(
    graph: ComputationGraph, op: Op, operands: tuple[Any, ...]
) -> tuple[Any, ...]:
    """Operands of an associative `op`; of a long list the two halves."""
    if len(operands) > FAN_IN:
        while len(operands) > 2:
            pairs = [operands[k : k + 2] for k in range(0, len(operands), 2)]
            operands = tuple([graph.part(op, p) if p[1:] else p[0] for p in pairs])
    return operands
