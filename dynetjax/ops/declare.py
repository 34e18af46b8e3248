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
from collections.abc import Callable
from types import FunctionType
from typing import Any

from dynetjax.core.building import (
    append,
    append_all,
    append_decided,
    append_list,
    binary,
    over_sums,
    unary,
)
from dynetjax.core.expression import Expression
from dynetjax.core.nodes import follows_from_batches, follows_from_specs
from dynetjax.core.registry import FAN_IN, Op
from dynetjax.graph import MOST_DECIDED, ComputationGraph
from dynetjax.ops.arguments import REAL
from dynetjax.ops.operands import graph_of, operands
from dynetjax.ops.ragged import joining
from dynetjax.ops.templates import with_arguments, without_arguments


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
    usual: str = "",
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
        usual: the condition, as a Python expression, under which `accept` takes the
            runtime arguments as they are, but for ints that become floats.
        idle: where its runtime argument is 0, the operand itself is the result.
    """
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
            mixtures={} if inputs.startswith("*") else None,
            is_listed=inputs.startswith("*"),
        )
        if inputs.startswith("*"):
            build = _list_builder(operation, shown[1:], accept)
        else:
            build = _builder(operation, shown, names, accept, usual, idle)
        build.__doc__, build.__module__ = fn.__doc__, fn.__module__
        build.op = operation
        return build

    return declare


def _builder(
    operation: Op, parameters, names: list[str], accept, usual: str, idle: bool
) -> Any:
    """The function users call, as `dynetjax.ops.templates` has it."""
    others = [p for p in parameters if p.name not in names]
    assert accept or not others, f"{operation.name}: arguments without accept"
    assert usual or not operation.given, f"{operation.name}: runtime data without usual"
    if not others and not accept and not operation.runtime and len(names) <= 2:
        return plain(operation, names)
    scope: dict[str, Any] = {
        "__name__": __name__,
        "op": operation,
        "accept": accept,
        "rules": operation.quick,
        "append": append,
        "append_all": append_all,
        "append_decided": append_decided,
        "over_sums": over_sums,
        "REAL": REAL,
        "graph_of": graph_of,
        **{f"default_{p.name}": p.default for p in others},
    }
    sources = with_arguments(operation, parameters, names, bool(accept), usual, idle)
    for source in sources:
        _define(source, operation.name, scope)
        scope.setdefault("with_checks", scope[operation.name])
    return scope[operation.name]


def _define(source: str, name: str, scope: dict[str, Any]) -> None:
    exec(compile(source, f"<dynetjax.{name}>", "exec"), scope)


def plain(operation: Op, names: list[str]) -> Any:
    """The function of an operation of one operand, or two, and nothing else."""
    name, slowly = operation.name, _slowly(operation)
    build = (unary if len(names) == 1 else binary)(operation, slowly)
    if isinstance(build, FunctionType):
        return _renamed(build, name, names)
    scope: dict[str, Any] = {"__name__": __name__, "build": build}
    _define(without_arguments(name, names), name, scope)
    function: Any = scope[name]
    function.quick = build
    return function


def _renamed(build: FunctionType, name: str, operands: list[str]) -> FunctionType:
    """The same function, with names of its own for itself and its parameters."""
    code = build.__code__
    build.__code__ = code.replace(
        co_name=name,
        co_qualname=name,
        co_varnames=(*operands, *code.co_varnames[len(operands) :]),
        co_posonlyargcount=1 if len(operands) == 1 else 0,
    )
    build.__name__ = build.__qualname__ = name
    return build


def _slowly(operation: Op) -> Callable[..., Expression]:
    def slowly(*xs: Any) -> Expression:
        return graph_of(operation.name, *xs).add_quick(operation.quick, operation, xs)

    return slowly


def _list_builder(operation: Op, others, accept) -> Any:
    """The same for an operation over a list of expressions."""
    names = [p.name for p in others]
    defaults = {p.name: p.default for p in others}
    known = operation.quick

    def build(xs, *args, **kwargs):
        node = None
        if type(xs) is list and not kwargs:
            node = append_list(known, xs, args)
        return carefully(xs, args, kwargs) if node is None else node

    def carefully(xs, args, kwargs):
        graph = operands(operation.name, xs)
        first = names[: len(args)]
        given = dict(zip(first, args, strict=False)) | kwargs
        if (
            len(args) > len(names)
            or set(first) & set(kwargs)
            or set(given) - set(names)
        ):
            raise TypeError(f"{operation.name}() takes a list and {names}")
        rest = [given.get(name, defaults[name]) for name in names]
        static, data, batch = (), None, 1
        if accept:
            dims = [x.full_dim for x in xs]
            static, data, batch = accept(operation.name, dims, *rest)
        node = graph.add(operation, tuple(xs), static, data, batch)
        rule = node.rule
        if data is None and not kwargs:
            note(xs, args, static, rule)
        return node

    def note(xs, args, static, rule):
        if len(known) >= MOST_DECIDED:
            known.clear()
        if follows_from_batches(rule, operation, xs):
            seen = zip(xs, rule.operands, strict=True)
            key = args, *[x.spec or spec for x, spec in seen]
            if not follows_from_specs(rule, operation, xs):
                key += tuple([x.lanes for x in xs])
            known[key] = rule
        else:
            pieces = joining(operation, xs, static, rule)
            if pieces is not None:
                known[xs[0].spec, xs[0].rule.signature.op, args] = pieces

    built: Any = build
    built.__name__ = built.__qualname__ = operation.name
    built.__signature__ = _list_signature(others)
    return built


def _list_signature(others) -> inspect.Signature:
    """What the function of a list shows of itself: ``(xs, d=0)``."""
    kind = inspect.Parameter.POSITIONAL_OR_KEYWORD
    shown = [inspect.Parameter("xs", kind), *[p.replace(kind=kind) for p in others]]
    return inspect.Signature(shown)


def in_pairs(
    graph: ComputationGraph, op: Op, operands: tuple[Any, ...]
) -> tuple[Any, ...]:
    """Operands of an associative `op`; of a long list the two halves."""
    if len(operands) > FAN_IN:
        while len(operands) > 2:
            pairs = [operands[k : k + 2] for k in range(0, len(operands), 2)]
            operands = tuple([graph.part(op, p) if p[1:] else p[0] for p in pairs])
    return operands
