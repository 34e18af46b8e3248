"""The functions that users call for operations, as Python source.

Written out are those of operations that have other arguments than operands, and what
stands before a compiled function. Whatever is not as usual ends in `slowly`.
"""

import inspect
from collections.abc import Sequence
from typing import get_origin

from dynetjax.core.registry import Op

# What a compiled function is not told: names of parameters, and a docstring.
_CALL = """
def {name}({signature}):
    return build({inputs})
"""
_WITH_CHECKS = """
def {name}({signature}):
    graph = graph_of({name!r}, {inputs})
    {accept}
    {idle}
    return graph.add_quick(rules, op, ({inputs},), static, data, batch, ({key}))
"""
# The same arguments need no second check, nor does runtime data that is as usual.
_ONE_AGAIN = "return append(rule, {inputs}, {data}, {own})"
_SEVERAL_AGAIN = """node = append_all(rule, ({inputs}), {data}, {own})
                if node is not None:
                    return node"""
# Where runtime data must be in bounds, which are lengths then, all is checked.
_RAGGED = """node = append_decided(op, ({inputs},), ({key}), ())
            if node is not None:
                return node"""
_AGAIN = """
def {name}({signature}):
    try:
        if {check}:
            rule = rules.get(({specs}, {lanes}, {key}))
            if rule is None:
                rule = over_sums(rules, ({inputs},), (), ({lanes}, {key}))
            if rule is not None:
                {again}
            {ragged}
    except (AttributeError, TypeError, IndexError):
        pass
    return with_checks({given})
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
    """The sources of a function with other arguments: with all checks, and without.

    `parameters` are those of its signature; `accepts` says whether it has an `accept`.
    """
    others = [p for p in parameters if p.name not in operands]
    static = [p for p in others if p.name in operation.static]
    fed = [p for p in others if p not in static]
    rest = "".join(f", {p.name}" for p in others)
    inputs = ", ".join(operands)
    dims = ", ".join(f"{x}.full_dim" for x in operands)
    data, own = _data([p.name for p in fed], operation.runtime, operands[0])
    key = "".join(map(_key, static))
    again = _SEVERAL_AGAIN if operands[1:] else _ONE_AGAIN
    fields = {
        "name": operation.name,
        "signature": _signature(parameters) + (", /" if len(parameters) == 1 else ""),
        "inputs": inputs,
        "given": inputs + rest,
        "specs": ", ".join(f"{x}.spec" for x in operands),
        "lanes": ", ".join(f"{x}.lanes" for x in operands),
        "key": key,
        "check": usual or "True",
        "ragged": "" if fed else _RAGGED.format(inputs=inputs, key=key),
        "again": again.format(inputs=inputs, data=data, own=own),
        "accept": f"static, data, batch = accept({operation.name!r}, [{dims}]{rest})"
        if accepts
        else "static, data, batch = (), None, 1",
        "idle": f"if not data:\n        return {inputs}" if idle else "",
    }
    return [_WITH_CHECKS.format(**fields), _AGAIN.format(**fields)]


def _data(fed: list[str], runtime: str, x: str) -> tuple[str, str]:
    """Runtime data as the node has it, and as its rule mentions it."""
    letters = runtime.replace("k", "")
    values = [
        f"float({name})" if letter == "f" else name
        for name, letter in zip(fed, letters, strict=True)
    ]
    keys = [f"len({x}.graph.open)"] if "k" in runtime else []  # the node's number
    data = {0: "None", 1: "".join(values)}.get(len(fed), f"({', '.join(values)})")
    own = [*values, *keys]
    return data, f"({', '.join(own)},)" if own else "()"


def _key(parameter: inspect.Parameter) -> str:
    """What tells an argument from others that are equal to it, as 1 is to True."""
    name = parameter.name
    if get_origin(parameter.annotation) in (list, Sequence):
        return f"*{name}, *map(type, {name}), type({name}), "
    return f"{name}, type({name}), "


def _signature(parameters) -> str:
    return ", ".join(
        p.name if p.default is inspect.Parameter.empty else f"{p.name}=default_{p.name}"
        for p in parameters
    )
