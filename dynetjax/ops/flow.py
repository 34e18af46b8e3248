"""Gradient flow: values pass unchanged, gradients do not."""

from dynetjax.core.devices import (
    are_several,
    check_device,
    default_device,
    on_device,
)
from dynetjax.core.expression import Expression
from dynetjax.core.lazy import at_first_call, jax, lax
from dynetjax.core.nodes import same as unchanged
from dynetjax.core.registry import Op
from dynetjax.ops.arguments import Number, one_number
from dynetjax.ops.declare import op, real
from dynetjax.ops.elementwise import same
from dynetjax.ops.operands import graph_of

__all__ = ["flip_gradient", "nobackprop", "scale_gradient", "to_device"]


TO_DEVICE_OP = Op("to_device", unchanged, same)


@at_first_call(lambda f: jax.custom_jvp(f))
def _with_slope(x, slope):
    del slope
    return x


@_with_slope.defjvp
def _with_slope_jvp(primals, tangents):
    x, slope = primals
    return x, slope * tangents[0]


@op(inputs="x", dim=same)
def nobackprop(x):
    """`x`, through which no gradient flows.

    Args:
        x: any dims.
    Returns:
        `x`.
    Source: clab/dynet, ``dynet/nodes-flow.cc``.
    Examples:
        >>> p = dy.Model().add_parameters(1, init=3)
        >>> (p * dy.nobackprop(p)).backward()
        >>> print(p.grad_as_array())
        [3.]
    """
    return lax.stop_gradient(x)


@op(inputs="x", dim=same)
def flip_gradient(x):
    """`x`, whose gradient changes its sign (arxiv.org/abs/1409.7495).

    Args:
        x: any dims.
    Returns:
        `x`.
    Source: clab/dynet, ``dynet/nodes-flow.cc``.
    Examples:
        >>> p = dy.Model().add_parameters(1, init=3)
        >>> y = dy.flip_gradient(5 * p)
        >>> y.backward()
        >>> print(y.value(), p.grad_as_array())
        15.0 [-5.]
    """
    return _with_slope(x, -1.0)


@op(
    inputs="x",
    runtime="lambd:f",
    dim=same,
    accept=one_number,
    usual={"lambd": real()},
)
def scale_gradient(x, lambd: Number = 1.0):
    """`x`, whose gradient is multiplied by `lambd`.

    Args:
        x: any dims.
        lambd: a number. Run-time: a new lambd never recompiles.
    Returns:
        `x`.
    Raises:
        TypeError: `lambd` is not a number.
    Source: clab/dynet, ``dynet/nodes-flow.cc``.
    Examples:
        >>> p = dy.Model().add_parameters(1, init=3)
        >>> y = dy.scale_gradient(4 * p, 0.5)
        >>> y.backward()
        >>> print(y.value(), p.grad_as_array())
        12.0 [2.]
    """
    return _with_slope(x, lambd)


def to_device(e: Expression, device_str: str) -> Expression:
    """`e` on a device; where there is but one, `e` itself.

    Operations on it run on that device, and so do those on what comes of them. Where
    that is memory of its own (a GPU, or another device of XLA's), such a graph is
    computed node by node, which is slow beside graphs on one device.

    Args:
        e: any dims.
        device_str: one of `available_devices`, or "" for the default one.
    Returns:
        `e`.
    Raises:
        RuntimeError: there is no such device.
        ValueError: when its value is asked for: operands of an operation on it lie on
            another device.
    Source: clab/dynet, ``dynet/nodes-to-device.cc``.
    Examples:
        >>> x = dy.inputVector([1, 2])
        >>> dy.to_device(x, "CPU") is x
        True
    """
    graph = graph_of("to_device", e)
    check_device("to_device", device_str)
    if not are_several():
        return e
    return on_device(graph.add(TO_DEVICE_OP, (e,)), device_str or default_device())
