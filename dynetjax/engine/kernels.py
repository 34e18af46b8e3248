"""Loops as one kernel each, where XLA can compile one.

On a CPU a loop's body is otherwise a kernel for each fused operation, and to start one
takes about as long as a small operation does. A function with ``xla_cpu_small_call`` is
one kernel, its loops included. XLA makes it with an emitter of its own, which knows no
scatters, sorts or calls of libraries, and of products only those with vectors. One
thread runs it.
"""

from collections.abc import Callable, Iterator
from contextvars import ContextVar
from functools import partial, wraps
from typing import Any

import jax
import jax.numpy as jnp
from jax import lax
from jax.extend.core import ClosedJaxpr, Jaxpr

from dynetjax.engine.apart import can_be, not_inlined

Array = Any
Step = Callable[[Any, Any], Any]

MOST = 1 << 11  # numbers that are added up: for more, XLA calls a library
_PLAIN = frozenset(
    str.split("""
    abs acos acosh add add_any and asin asinh atan atan2 atanh bitcast_convert_type
    broadcast_in_dim cbrt ceil clamp concatenate convert_element_type copy cos cosh
    digamma div dynamic_slice dynamic_update_slice eq erf erf_inv erfc exp exp2
    expand_dims expm1 floor gather ge gt integer_pow iota is_finite le lgamma log log1p
    logistic lt max min mul ne neg nextafter not optimization_barrier or pad pow
    random_bits random_unwrap random_wrap rem reshape rev round rsqrt select_n
    shift_left shift_right_arithmetic shift_right_logical sign sin sinh slice split sqrt
    square squeeze stack stop_gradient sub tan tanh threefry2x32 transpose unstack xor
    """)
)
_SUMS = frozenset(
    str.split("""
    argmax argmin cumsum reduce_and reduce_max reduce_min reduce_or reduce_prod
    reduce_sum
    """)
)
_CALLS = "jit", "cond", "custom_jvp_call", "custom_vjp_call"
_BRANCHES = frozenset(
    str.split("""
    cond igamma igammac random_gamma regularized_incomplete_beta scan while
    """)
)

_wanted: ContextVar[bool] = ContextVar("kernels are wanted", default=True)


def without(run: Callable[..., Any]) -> Callable[..., Any]:
    """`run` with its loops as they are, should XLA fail to make kernels of them."""

    @wraps(run)
    def plain(*args: Any) -> Any:
        token = _wanted.set(False)
        try:
            return run(*args)
        finally:
            _wanted.reset(token)

    return plain


def loop(trips: Array, step: Step, state: Any, small: bool) -> Any:
    """``lax.fori_loop(0, trips, step, state)``; as one kernel, if it is all `small`."""
    if not small or not _wanted.get() or not can_be():
        return lax.fori_loop(0, trips, step, state)
    flat, tree = jax.tree.flatten(state)

    def flat_step(t: Array, *flat: Array) -> list[Array]:
        return jax.tree.leaves(step(t, jax.tree.unflatten(tree, flat)))

    closed = jax.make_jaxpr(flat_step)(jnp.int32(0), *flat)
    if flat and all(x.size for x in closed.consts) and _is_plain(closed.jaxpr):
        run = partial(_reading_all, closed.jaxpr)
        found, used = one_kernel(run, trips, closed.consts, flat)
        found, _ = lax.optimization_barrier((found, used))
    else:
        found = lax.fori_loop(
            0, trips, partial(_step, closed.jaxpr, closed.consts), flat
        )
    return jax.tree.unflatten(tree, found)


def _step(step: Jaxpr, read: list[Array], t: Array, state: list[Array]) -> list[Array]:
    return jax.core.eval_jaxpr(step, read, t, *state)


def _reading_all(
    step: Jaxpr, trips: Array, read: list[Array], state: list[Array]
) -> tuple[list[Array], Array]:
    """The loop, whose step reads arrays that stay as they are, besides the state.

    Nothing reads some of them, as where what a step computes of it is dropped. So a
    number of each is added up, and the sum goes with the loop, and then behind a
    barrier, where nobody sees that it is not used.
    """

    def further(t: Array, both: tuple[list[Array], Array]):
        state, used = both
        return _step(step, read, t, state), used + 1

    used = sum([x[(0,) * x.ndim].astype(jnp.float32) for x in read], jnp.float32(0))
    return lax.fori_loop(0, trips, further, (state, used))


def one_kernel(fn: Callable[..., Any], *args: Any) -> Any:
    """``fn(*args)`` as one kernel, where there are such. It must read all its arrays.

    XLA ends the process where a kernel has an argument that nothing in it reads.
    """
    if not _wanted.get() or not can_be():
        return fn(*args)
    return one_kernel_of_cpu(fn, *args)


def one_kernel_of_cpu(fn: Callable[..., Any], *args: Any) -> Any:
    """The same, in a program for a CPU, wherever others run."""
    return not_inlined(fn, *args, xla_cpu_small_call="true")


def _is_plain(jaxpr: Any) -> bool:
    """Whether XLA can make a part of a kernel of it."""
    for equation in jaxpr.eqns:
        name = equation.primitive.name
        inner = [*_inner(equation.params.values())]
        if inner:
            if name not in _CALLS or not all(map(_is_plain, inner)):
                return False
        elif name == "dot_general":
            if not _with_vector(equation):
                return False
        elif name in _SUMS:
            if equation.invars[0].aval.size > MOST:
                return False
        elif name not in _PLAIN:
            return False
    return True


def _with_vector(product: Any) -> bool:
    """Whether one of the two is a vector, or a matrix of one row or column."""
    _, batch = product.params["dimension_numbers"]
    shapes = [x.aval.shape for x in product.invars]
    several = any(shapes[0][axis] > 1 for axis in batch[0])
    return not several and any(sum(n > 1 for n in shape) <= 1 for shape in shapes)


def branches_within(jaxpr: Jaxpr, deep: bool = False) -> bool:
    """Whether there are loops or branches in others; or at all, if that is `deep`."""
    for equation in jaxpr.eqns:
        forks = equation.primitive.name in _BRANCHES
        if forks and deep:
            return True
        inner = _inner(equation.params.values())
        if any(branches_within(jaxpr, deep or forks) for jaxpr in inner):
            return True
    return False


def _inner(values: Any) -> Iterator[Jaxpr]:
    for value in values:
        if isinstance(value, ClosedJaxpr):
            yield value.jaxpr
        elif isinstance(value, Jaxpr):
            yield value
        elif isinstance(value, (list, tuple)):
            yield from _inner(value)
