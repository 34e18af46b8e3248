"""What was built for certain lengths, as a JAX function of parameters and arguments."""

from collections.abc import Callable
from typing import Any

import numpy as np

from dynetjax.core.functions import Description, Value, batch_last, evaluated
from dynetjax.core.lazy import jnp
from dynetjax.core.registry import MAP
from dynetjax.serving.probes import Built, Column

Array = Any


def jax_function(built: Built) -> Callable[..., Any]:
    """``f(parameters, *arguments)``; parameters are arrays by name."""

    def f(parameters: dict[str, Array], *arguments: Array) -> Any:
        flat = {
            dtype: jnp.concatenate([jnp.ravel(x).astype(dtype) for x in arguments])
            for dtype in (np.dtype(np.int32), np.dtype(np.float32))
        }
        nodes = [
            _with_data(node, [_filled(x, flat[x.numbers.dtype]) for x in columns])
            for node, columns in zip(built.nodes, built.columns, strict=True)
        ]
        values = evaluated(nodes, built.operands, parameters)
        return _output(built.result, values)

    return f


def _filled(column: Column, flat: Array) -> Array:
    """A column for these arguments."""
    numbers, places = column
    if places is None:
        return numbers
    first, count = places.ravel()[0], places.size
    if first >= 0 and (places.ravel() == np.arange(first, first + count)).all():
        return flat[first : first + count].reshape(places.shape)
    picked = flat[np.maximum(places, 0)]
    return picked if (places >= 0).all() else jnp.where(places < 0, numbers, picked)


def _with_data(node: Description, columns: list[Array]) -> Description:
    """A node with other runtime data."""
    if node.op.form == MAP:
        return node._replace(data=tuple(columns) or None)
    return node._replace(data=columns[0] if columns else None)


def _output(result: Any, values: list[Value]) -> Any:
    """Values in the form in which the function returned expressions."""
    if isinstance(result, int):
        value = values[result]
        array = batch_last(value)
        is_number = value.true_shape == (1,) and value.lanes <= 1
        return array.reshape(()) if is_number else array
    if isinstance(result, list):
        return jnp.stack([_output(x, values) for x in result])
    if isinstance(result, dict):
        return {key: _output(x, values) for key, x in result.items()}
    return tuple([_output(x, values) for x in result])
