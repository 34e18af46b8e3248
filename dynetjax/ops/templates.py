"""The functions that users call for operations, as Python source.

What is run for every node is written out, so that it costs no more than it must: a rule
that is known needs no check. Whatever is not as usual ends in `slowly`.
"""

import inspect

from dynetjax.ops.registry import Op

_UNARY = """
def {name}({x}, /):
    try:
        rule = rules[{x}.view]
        graph = {x}.graph
        nodes = graph.open
        node = Expression()
        node.graph, node.index = graph, len(nodes)
        node.rule, node.view = rule, rule.view
        node.lanes, node.operands = {x}.lanes, ({x},)
        if rule.stored:
            cells = graph.cells
            node.inner, node.args = {x}.args, (len(cells),)
            cells.append(node)
        else:
            node.args = {x}.args
        nodes.append(node)
    except (KeyError, AttributeError, TypeError):
        return slowly({x})
    if rule.eats:
        {x}.view = None
    return node
"""
_BINARY = """
def {name}({x}, {y}):
    try:
        rule = rules[{x}.view, {y}.view]
        batch, other, graph = {x}.lanes, {y}.lanes, {x}.graph
        if graph is not {y}.graph or batch != other or {x} is {y}:
            if (batch and other and batch != other) or {x} is {y}:
                return slowly({x}, {y})
            if graph is None:
                graph = {y}.graph
            elif {y}.graph is not None and {y}.graph is not graph:
                return slowly({x}, {y})
            batch = batch or other
        nodes = graph.open
        node = Expression()
        node.graph, node.index = graph, len(nodes)
        node.rule, node.view = rule, rule.view
        node.lanes, node.operands = batch, ({x}, {y})
        if rule.stored:
            cells = graph.cells
            node.inner, node.args = {x}.args + {y}.args, (len(cells),)
            cells.append(node)
        else:
            node.args = {x}.args + {y}.args
        nodes.append(node)
    except (KeyError, AttributeError, TypeError):
        return slowly({x}, {y})
    for k in rule.eats:
        if k:
            {y}.view = None
        else:
            {x}.view = None
    return node
"""
_UNARY_WITH = """
def {name}({signature}):
    try:
        graph = {x}.graph
        nodes = graph.open
        if not {x}.lanes:
            return slowly({inputs}, {rest})
        static, data, batch = accept({name!r}, [{x}.full_dim], {rest})
        if batch != 1:
            return slowly({inputs}, {rest})
        view = {x}.view
        rule = rules[static, view]
        node = Expression()
        node.graph, node.index = graph, len(nodes)
        node.rule, node.view, node.data = rule, rule.view, data
        node.lanes, node.operands = {x}.lanes, ({x},)
        if rule.stored:
            cells = graph.cells
            node.inner, node.args = {x}.args{args}, (len(cells),)
            cells.append(node)
        else:
            node.args = {x}.args{args}
        nodes.append(node)
        rules[view, {x}.lanes{key}] = rule
    except (KeyError, AttributeError, TypeError):
        return slowly({inputs}, {rest})
    if rule.eats:
        {x}.view = None
    return node
"""
# The same arguments need no second check, nor does runtime data that is as usual.
_UNARY_AGAIN = """
def {name}({signature}):
    try:
        rule = rules[{x}.view, {x}.lanes{key}]
        if not ({check}):
            return with_checks({inputs}, {rest})
        graph = {x}.graph
        nodes = graph.open
        node = Expression()
        node.graph, node.index = graph, len(nodes)
        node.rule, node.view, node.data = rule, rule.view, {data}
        node.lanes, node.operands = {x}.lanes, ({x},)
        if rule.stored:
            cells = graph.cells
            node.inner, node.args = {x}.args{args}, (len(cells),)
            cells.append(node)
        else:
            node.args = {x}.args{args}
        nodes.append(node)
    except (KeyError, AttributeError, TypeError, IndexError):
        return with_checks({inputs}, {rest})
    if rule.eats:
        {x}.view = None
    return node
"""
_ANY = """
def {name}({signature}):
    graph = graph_of({name!r}, {inputs})
    {accept}
    return graph.{add}op, ({inputs},){rest})
"""


def without_arguments(name: str, operands: list[str]) -> str:
    """The source of a function of one operand, or of two."""
    template = _UNARY if len(operands) == 1 else _BINARY
    return template.format(name=name, x=operands[0], y=operands[-1])


def with_arguments(
    operation: Op, parameters, operands: list[str], accepts: bool, usual: str
) -> list[str]:
    """The sources of a function with other arguments, each made of the one before.

    `parameters` are those of its signature; `accepts` says whether it has an `accept`.
    """
    name, x = operation.name, operands[0]
    others = [p for p in parameters if p.name not in operands]
    static = [p for p in others if p.name in operation.static]
    fed = [p.name for p in others if p not in static]
    rest = ", ".join(p.name for p in others)
    quick = bool(others) and len(operands) == 1 and "k" not in operation.runtime
    sources = [_general(name, parameters, operands, rest, accepts, quick)]
    if not quick:
        return sources
    about = {
        "name": name,
        "signature": _signature(parameters),
        "inputs": x,
        "rest": rest,
        "x": x,
        "key": "".join(f", {p.name}, type({p.name})" for p in static),
    }
    args = {0: "", 1: " + (data,)"}.get(len(fed), " + data")
    sources.append(_UNARY_WITH.format(args=args, **about))
    if usual or not fed:
        data = fed[0] if fed else "None"
        args = f" + ({data},)" if fed else ""
        check = usual or "True"
        sources.append(_UNARY_AGAIN.format(args=args, data=data, check=check, **about))
    return sources


def _general(
    name: str, parameters, operands: list[str], rest: str, accepts: bool, quick: bool
) -> str:
    """The source with every check; if `quick`, it notes rules for next time."""
    dims = ", ".join(f"{x}.full_dim" for x in operands)
    return _ANY.format(
        name=name,
        signature=_signature(parameters) + (", /" if len(parameters) == 1 else ""),
        inputs=", ".join(operands),
        accept=f"static, data, batch = accept({name!r}, [{dims}], {rest})"
        if accepts
        else "",
        add="add_quick(rules, " if quick else "add(",
        rest=", static, data, batch" if accepts else "",
    )


def _signature(parameters) -> str:
    return ", ".join(
        p.name if p.default is inspect.Parameter.empty else f"{p.name}=default_{p.name}"
        for p in parameters
    )
