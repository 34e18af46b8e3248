"""The functions that users call for operations, as Python source.

Written out are those of operations that have other arguments than operands, and what
stands before a compiled function. Whatever is not as usual ends in `slowly`.
"""

import inspect
from collections.abc import Sequence

from dynetjax.core.registry import Op

# What a compiled function is not told: names of parameters, and a docstring.
_CALL = """
def {name}({signature}):
    return build({inputs})
"""
_UNARY_WITH = """
def {name}({signature}):
    try:
        if not {x}.lanes:
            return slowly({inputs}, {rest})
        static, data, batch = accept({name!r}, [{x}.full_dim], {rest})
        if batch != 1:
            return slowly({inputs}, {rest})
        if {x}.rule.kind.ragged:
            node = append_decided(op, ({x},), static, {own})
            return slowly({inputs}, {rest}) if node is None else node
        spec = {x}.spec
        rule = rules[static, spec]
        rules[spec, {x}.lanes{key}] = rule
        return append(rule, {x}, data, {own})
    except (KeyError, AttributeError, TypeError):
        return slowly({inputs}, {rest})
"""
# The same arguments need no second check, nor does runtime data that is as usual.
_UNARY_AGAIN = """
def {name}({signature}):
    try:
        rule = rules.get(({x}.spec, {x}.lanes{key}))
        if rule is not None and {check}:
            return append(rule, {x}, {data}, {own})
    except (AttributeError, TypeError, IndexError):
        pass
    return with_checks({inputs}, {rest})
"""
_ANY = """
def {name}({signature}):
    graph = graph_of({name!r}, {inputs})
    {accept}
    {idle}
    return graph.{add}op, ({inputs},){rest})
"""


def without_arguments(name: str, operands: list[str]) -> str:
    """The source of a function that leaves it to `build`, which is compiled."""
    inputs = ", ".join(operands)
    return _CALL.format(
        name=name,
        signature=inputs + (", /" if len(operands) == 1 else ""),
        inputs=inputs,
    )


def with_arguments(
    operation: Op,
    parameters: Sequence[inspect.Parameter],
    operands: list[str],
    accepts: bool,
    usual: str,
    idle: bool,
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
    sources = [_general(name, parameters, operands, rest, accepts, quick, idle)]
    if not quick:
        return sources
    fields = {
        "name": name,
        "signature": _signature(parameters),
        "inputs": x,
        "rest": rest,
        "x": x,
        "key": "".join(map(_key, static)),
    }
    own = {0: "()", 1: "(data,)"}.get(len(fed), "data")
    sources.append(_UNARY_WITH.format(own=own, **fields))
    if usual or not fed:
        data = fed[0] if fed else "None"
        own = f"({data},)" if fed else "()"
        check = usual or "True"
        sources.append(_UNARY_AGAIN.format(own=own, data=data, check=check, **fields))
    return sources


def _key(parameter: inspect.Parameter) -> str:
    """What tells an argument from others that are equal to it, as 1 is to True."""
    name = parameter.name
    if isinstance(parameter.default, list):
        return f", *{name}, *map(type, {name}), type({name})"
    return f", {name}, type({name})"


def _general(
    name: str,
    parameters,
    operands: list[str],
    rest: str,
    accepts: bool,
    quick: bool,
    idle: bool,
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
        idle=f"if not data:\n        return {operands[0]}" if idle else "",
    )


def _signature(parameters) -> str:
    return ", ".join(
        p.name if p.default is inspect.Parameter.empty else f"{p.name}=default_{p.name}"
        for p in parameters
    )
