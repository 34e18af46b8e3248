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
from typing import Any

from dynetjax.errors import explain
from dynetjax.graph import ComputationGraph, Expression, current_graph
from dynetjax.ops.registry import Op

_TEMPLATE = """
def {name}({signature}):
    graph = current_graph()
    stamp = graph.stamp
    try:
        {enter}
    except AttributeError:
        raise not_an_expression({name!r}, {inputs}) from None
    {accept}
    return Expression({add}, stamp)
"""
_ADD = "graph.add(op, ({nodes},), static, data, batch)"
_ADD_PLAIN = {
    1: "graph.add_unary(op, {nodes})",
    2: "graph.add_binary(op, {nodes})",
    3: "graph.add(op, ({nodes}))",
}


def op(
    *,
    inputs: str,
    dim: Callable[..., tuple[int, ...]],
    runtime: str = "",
    accept: Callable[..., tuple[tuple, Any, int]] | None = None,
    contraction: bool = False,
    reset: Callable[..., Any] | None = None,
    batch_matters: bool = False,
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
        reset, batch_matters: see `Op`.
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
        )
        if inputs.startswith("*"):
            build = _list_builder(operation, shown[1:], accept)
        else:
            build = _builder(operation, shown, names, accept)
        build.__doc__, build.__module__ = fn.__doc__, fn.__module__
        build.op = operation
        return build

    return declare


def _builder(operation: Op, parameters, names: list[str], accept) -> Any:
    """The function users call, written out so that it costs no more than it must."""
    others = [p for p in parameters if p.name not in names]
    assert accept or not others, f"{operation.name}: arguments without accept"
    positional = "" if others else ", /"
    values = {f"default_{p.name}": p.default for p in others}
    source = _TEMPLATE.format(
        name=operation.name,
        signature=", ".join(
            p.name
            if p.default is inspect.Parameter.empty
            else f"{p.name}=default_{p.name}"
            for p in parameters
        )
        + positional,
        enter="; ".join(
            f"n_{x} = {x}.index if {x}.stamp == stamp else {x}.enter(graph)"
            for x in names
        ),
        inputs=", ".join(names),
        add=(_ADD if accept else _ADD_PLAIN[min(len(names), 3)]).format(
            nodes=", ".join(f"n_{x}" for x in names)
        ),
        accept="static, data, batch = accept({!r}, [{}], {})".format(
            operation.name,
            ", ".join(f"graph.dim(n_{x})" for x in names),
            ", ".join(p.name for p in others),
        )
        if accept
        else "",
    )
    scope: dict[str, Any] = {
        "op": operation,
        "accept": accept,
        "current_graph": current_graph,
        "Expression": Expression,
        "not_an_expression": not_an_expression,
        **values,
    }
    exec(compile(source, f"<dynetjax.{operation.name}>", "exec"), scope)
    return scope[operation.name]


def _list_builder(operation: Op, others, accept) -> Any:
    """The same for an operation over a list of expressions."""
    names = [p.name for p in others]
    defaults = {p.name: p.default for p in others}

    def build(xs, *args, **kwargs):
        graph = current_graph()
        nodes = operands(operation.name, xs, graph)
        given = dict(zip(names, args, strict=False)) | kwargs
        if len(args) > len(names) or not set(given) <= set(names):
            raise TypeError(f"{operation.name}() takes a list and {names}")
        rest = [given.get(name, defaults[name]) for name in names]
        static, data, batch = (), None, 1
        if accept:
            dims = [graph.dim(node) for node in nodes]
            static, data, batch = accept(operation.name, dims, *rest)
        node = graph.add(operation, tuple(nodes), static, data, batch)
        return Expression(node, graph.stamp)

    build.__name__ = build.__qualname__ = operation.name
    return build


def not_an_expression(name: str, *values: Any) -> TypeError:
    """The error for an operand that is no Expression."""
    wrong = next((v for v in values if not isinstance(v, Expression)), values[0])
    return TypeError(
        explain(
            f"{name}: an operand is not an Expression",
            got=f"{wrong!r} ({type(wrong).__name__})",
            expected="an Expression, Parameters or LookupParameters",
            fix="wrap numbers with scalarInput, arrays with inputTensor",
        )
    )


def operand(name: str, x: Any, graph: ComputationGraph) -> int:
    """The node of one operand.

    Raises:
        TypeError: `x` is not an Expression.
        ValueError: it is stale.
    """
    if not isinstance(x, Expression):
        raise not_an_expression(name, x)
    return x.index if x.stamp == graph.stamp else x.enter(graph)


def operands(name: str, xs: Any, graph: ComputationGraph) -> list[int]:
    """The nodes of a list of operands.

    Raises:
        TypeError: `xs` is not a list, or an element is not an Expression.
        AssertionError: the list is empty or has None in it, as in DyNet.
        ValueError: an element is stale.
    """
    if type(xs) is list and xs:
        stamp = graph.stamp
        try:
            return [x.index if x.stamp == stamp else x.enter(graph) for x in xs]
        except AttributeError:
            pass  # something is no expression; which, is told below
    if not isinstance(xs, list):
        raise TypeError(
            explain(
                f"{name}: the expressions are not in a list",
                got=type(xs).__name__,
                expected="a list",
                fix="list(...)",
            )
        )
    if not xs or any(x is None for x in xs):
        raise AssertionError(
            explain(
                f"{name}: the list of expressions is empty or has None in it",
                got=xs,
                expected="a list of at least one Expression",
                fix="leave None out, and check for an empty list before",
            )
        )
    return [operand(name, x, graph) for x in xs]
