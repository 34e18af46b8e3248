"""Operations at places that are data, and by the order of numbers."""

from dataclasses import replace
from math import prod

import jax
import jax.numpy as jnp
import numpy as np
from choices import Number, fitted, operation, with_axes, within
from jax import lax


@operation("ai", 1.5)
def _dynamic_slice(r, v, at):
    v = with_axes(r, v, 1)
    sizes = [r.number(1, n) for n in v.shape]
    starts = fitted(r, at, (len(sizes),)).x
    starts = [r.one(starts[k], np.int32(r.number(-1, 3))) for k in range(len(sizes))]
    return v.over(lambda x: lax.dynamic_slice(x, starts, sizes))


@operation("asi", 1.2)
def _dynamic_update_slice(r, v, block, at):
    v = with_axes(r, v, 1)
    block = fitted(r, block, [r.number(1, n) for n in v.shape])
    starts = fitted(r, at, (len(v.shape),)).x
    starts = [r.one(starts[k], np.int32(r.number(-1, 3))) for k in range(len(v.shape))]
    base = jnp.zeros_like(v.x) if r.chance(0.2) else v.x
    bounds = min(v.low, block.low, 0), max(v.high, block.high, 0)
    return Number(lax.dynamic_update_slice(base, block.x, starts), *bounds)


MODES = "clip", "fill", "drop"


def fill_of(v):
    """What stands where there is no place; None: what JAX takes."""
    return {"f": 0.5, "i": -7, "u": 7}.get(v.kind)


@operation("ai", 2.0)
def _take(r, v, at):
    v = with_axes(r, v, 1)
    axis = r.number(0, len(v.shape) - 1)
    at = fitted(r, at, r.shape(r.number(0, 2), 3))
    mode = r.one("clip", "fill", "wrap")
    fill = r.one(0, fill_of(v)) if mode == "fill" else None
    found = jnp.take(v.x, at.x, axis, mode=mode, fill_value=fill)
    return Number(found, min(v.low, 0), max(v.high, 0.5))


@operation("ai", 1.2)
def _take_along_axis(r, v, at):
    v = with_axes(r, v, 1)
    axis = r.number(0, len(v.shape) - 1)
    shape = [*v.shape]
    shape[axis] = r.number(1, 4)
    places = fitted(r, at, shape).x
    places = places % v.shape[axis] if r.chance(0.7) else places
    found = jnp.take_along_axis(v.x, places, axis, mode="clip")
    return replace(v, x=found)


@operation("aii", 1.5)
def _index(r, v, i, j):
    """Two axes at once, with those beside them or not."""
    v = with_axes(r, v, 2)
    shape = r.shape(r.number(0, 2), 3)
    i, j = fitted(r, i, shape).x, fitted(r, j, shape).x
    at = [slice(None)] * len(v.shape)
    for k, axis in enumerate(r.order(len(v.shape))[:2]):
        at[axis] = (i, j)[k]
    mode = r.one(*MODES[:2])
    fill = fill_of(v) if mode == "fill" else None
    found = v.x.at[tuple(at)].get(mode=mode, fill_value=fill)
    return Number(found, min(v.low, 0), max(v.high, 0.5))


@operation("ais", 2.5)
def _put(r, v, at, by):
    """Numbers set, or combined with others, where ints say."""
    v = with_axes(r, v, 1)
    rank = len(v.shape)
    shape = r.shape(r.number(0, 2), 3)
    places = [slice(None)] * rank
    for axis in r.order(rank)[: r.number(1, min(2, rank))]:
        places[axis] = fitted(r, at.over(lambda x, k=axis: x + k), shape).x
    hows = {"f": ("add", "add", "mul", "min", "max", "set", "subtract"), "b": ("set",),
            "i": ("add", "mul", "min", "max", "set"), "u": ("add", "set")}  # fmt: skip
    how = r.one(*hows[v.kind])
    if how in ("set", "mul", "min", "max"):  # what is met twice has no order
        distinct = prod(shape)
        for axis, n in enumerate(v.shape):
            if not isinstance(places[axis], slice):
                places[axis] = (jnp.arange(distinct) % n).reshape(shape)
                if distinct > n:
                    how = "add" if v.kind != "b" else "set"
    base = jnp.zeros_like(v.x) if r.chance(0.25) else v.x
    target = jax.eval_shape(lambda x, p=tuple(places): x[p], v.x).shape
    if how == "set" and v.kind == "b":  # one value, however often a place is met
        by = fitted(r, by, ()).over(lambda x: jnp.broadcast_to(x, target))
    by = fitted(r, by, target)
    if how == "mul":
        by = within(r, by, -2, 2)
    mode = r.one("clip", "drop", "promise_in_bounds")
    if mode == "promise_in_bounds":
        places = [
            p if isinstance(p, slice) else p % n
            for p, n in zip(places, v.shape, strict=True)
        ]
    about = {"unique_indices": True} if how == "mul" else {}
    found = getattr(base.at[tuple(places)], how)(by.x, mode=mode, **about)
    bound = 2 * v.size + by.size * max(1, prod(shape))
    return Number(found, -bound, bound)


def _placed(r, v, at):
    """(array, axes, places of blocks along these, axes that blocks have not)."""
    v = with_axes(r, v, 1, 3)
    axes = r.some(len(v.shape), 1)
    places = fitted(r, at, (r.number(1, 3), len(axes))).x
    return v, axes, places, tuple([k for k in axes if r.chance(0.3)])


@operation("fif", 1.0)
def _put_blocks(r, v, at, by):
    """A scatter of blocks, as JAX's own argument has it."""
    v, axes, places, inserted = _placed(r, v, at)
    block = [r.number(1, n) for k, n in enumerate(v.shape) if k not in inserted]
    first = r.number(0, len(block))
    shape = [*block[:first], len(places), *block[first:]]
    by = fitted(r, by, shape)
    numbers = lax.ScatterDimensionNumbers(
        tuple([k for k in range(len(shape)) if k != first]), inserted, axes
    )
    mode = r.one("clip", "drop")
    mode = {
        "clip": lax.GatherScatterMode.CLIP,
        "drop": lax.GatherScatterMode.FILL_OR_DROP,
    }[mode]
    base = jnp.zeros_like(v.x) if r.chance(0.3) else v.x
    found = lax.scatter_add(base, places, by.x, numbers, mode=mode)
    return Number(found, -v.size - 3 * by.size, v.size + 3 * by.size)


@operation("fi", 1.0)
def _gather_blocks(r, v, at):
    """A gather of blocks, as JAX's own argument has it."""
    v, axes, places, dropped = _placed(r, v, at)
    rank = len(v.shape)
    sizes = [1 if k in dropped else r.number(1, n) for k, n in enumerate(v.shape)]
    kept = rank - len(dropped)
    first = r.number(0, kept)
    numbers = lax.GatherDimensionNumbers(
        tuple([k for k in range(kept + 1) if k != first]), dropped, axes
    )
    mode = r.one(lax.GatherScatterMode.CLIP, lax.GatherScatterMode.FILL_OR_DROP)
    found = lax.gather(v.x, places, numbers, sizes, mode=mode, fill_value=0.25)
    return Number(found, min(v.low, 0), max(v.high, 0.25))


@operation("fi", 0.8)
def _lookups(r, v, at):
    """Lines of their own for each element of a batch."""
    v = with_axes(r, v, 2)
    at = fitted(r, at, (v.shape[0], r.number(1, 3)))
    mode = r.one(*MODES[:2])
    fill = 0.5 if mode == "fill" else None
    if r.chance():
        found = jax.vmap(lambda x, i: x.at[i].get(mode=mode, fill_value=fill))(
            v.x, at.x
        )
        return Number(found, min(v.low, 0), max(v.high, 0.5))
    mode = r.one("clip", "drop")
    found = jax.vmap(lambda x, i: x.at[i].add(x[:1] * 0.5, mode=mode))(v.x, at.x)
    return Number(found, -3 * v.size, 3 * v.size)


# Order --------------------------------------------------------------------------------


@operation("a", 1.2)
def _sort(r, v):
    v = with_axes(r, v, 1)
    axis = r.number(0, len(v.shape) - 1)
    if r.chance(0.3) and v.kind in "fi":
        return v.over(lambda x: jnp.sort(x, axis=axis, descending=True))
    return v.over(lambda x: jnp.sort(x, axis=axis))


@operation("fi", 1.0)
def _argsort(r, v, other):
    v = with_axes(r, r.one(v, other), 1)
    axis = r.number(0, len(v.shape) - 1)
    found = jnp.argsort(v.x, axis=axis, descending=r.chance(0.3))
    return Number(found.astype(jnp.int32), 0, v.shape[axis])


@operation("if", 0.8)
def _sort_several(r, first, second):
    second = with_axes(r, second, 1)
    first = fitted(r, first, second.shape)
    axis, keys = r.number(0, len(second.shape) - 1), r.number(1, 2)
    x = r.one(first.x, first.x.astype(jnp.uint32), first.x > 0)
    _, found = lax.sort((x, second.x), dimension=axis, num_keys=keys)
    return replace(second, x=found)


@operation("f", 1.0)
def _top_k(r, v):
    v = with_axes(r, v, 1)
    found, places = lax.top_k(v.x, r.number(1, v.shape[-1]))
    if r.chance(0.4):
        return Number(places.astype(jnp.int32), 0, v.shape[-1])
    return replace(v, x=found)


@operation("ff", 0.8)
def _searchsorted(r, v, asked):
    v = fitted(r, v, (r.number(1, 6),))
    method = r.one("scan", "sort", "compare_all")
    side = r.one("left", "right")
    line = jnp.sort(lax.stop_gradient(v.x))
    asked = lax.stop_gradient(fitted(r, asked, r.shape(1)).x)
    found = jnp.searchsorted(line, asked, side=side, method=method)
    return Number(found.astype(jnp.int32), 0, 6)
