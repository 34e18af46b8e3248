"""JAX's primitives on shapes, at places that are data, and by order, in NumPy."""

from itertools import product

import numpy as np
from numbers_in_numpy import UNIT, Numbers, floats

COMBINED = {"": None, "add": np.add, "sub": np.subtract, "mul": np.multiply,
            "min": np.minimum, "max": np.maximum}  # fmt: skip


class Arrays(Numbers):
    """Primitives that move numbers."""

    def _broadcast_in_dim(self, equation, x):
        shape = equation.params["shape"]
        sizes = [1] * len(shape)
        for n, axis in zip(
            x.shape, equation.params["broadcast_dimensions"], strict=True
        ):
            sizes[axis] = n
        return np.broadcast_to(x.reshape(sizes), shape)

    def _concatenate(self, equation, *xs):
        return np.concatenate(xs, equation.params["dimension"])

    def _pad(self, equation, x, fill):
        for axis, (low, high, between) in enumerate(equation.params["padding_config"]):
            count = (x.shape[axis] - 1) * (between + 1) + 1 if x.shape[axis] else 0
            shape = [*x.shape]
            shape[axis] = max(0, low) + count + max(0, high)
            wide = np.full(shape, fill, x.dtype)
            at = [slice(None)] * x.ndim
            at[axis] = slice(max(0, low), max(0, low) + count, between + 1)
            wide[tuple(at)] = x
            at[axis] = slice(max(0, -low), shape[axis] - max(0, -high))
            x = wide[tuple(at)]
        return x

    def _reshape(self, equation, x):
        order = equation.params.get("dimensions")
        x = x if order is None else x.transpose(order)
        return x.reshape(equation.outvars[0].aval.shape)

    def _squeeze(self, equation, x):
        return x.reshape(equation.outvars[0].aval.shape)

    def _rev(self, equation, x):
        return np.flip(x, equation.params["dimensions"])

    def _slice(self, equation, x):
        params = equation.params
        starts, stops = params["start_indices"], params["limit_indices"]
        steps = params["strides"] or [1] * x.ndim
        return x[tuple(map(slice, starts, stops, steps))]

    def _split(self, equation, x):
        sizes, axis = equation.params["sizes"], equation.params["axis"]
        return np.split(x, np.cumsum(sizes)[:-1], axis)

    def _stack(self, equation, *xs):
        return np.stack(xs, equation.params["axis"])

    def _tile(self, equation, x):
        return np.tile(x, equation.params["reps"])

    def _transpose(self, equation, x):
        return x.transpose(equation.params["permutation"])

    def _unstack(self, equation, x):
        return [*np.moveaxis(x, equation.params["axis"], 0)]

    def _dynamic_slice(self, equation, x, *starts):
        sizes = equation.outvars[0].aval.shape
        return x[self.block(x, sizes, starts)]

    def _dynamic_update_slice(self, equation, x, update, *starts):
        x = x.copy()
        x[self.block(x, update.shape, starts)] = update
        return x

    @staticmethod
    def block(x, sizes, starts):
        places = [
            min(max(int(s), 0), n - size)
            for s, n, size in zip(starts, x.shape, sizes, strict=True)
        ]
        return tuple([slice(s, s + n) for s, n in zip(places, sizes, strict=True)])

    def _gather(self, equation, x, places):
        params, shape = equation.params, equation.outvars[0].aval.shape
        numbers, sizes = params["dimension_numbers"], params["slice_sizes"]
        dropped = {*numbers.collapsed_slice_dims, *numbers.operand_batching_dims}
        fill = params["fill_value"]
        if fill is None:
            fill = np.nan if floats(x) else True if x.dtype == bool else None
        if fill is None:
            bounds = np.iinfo(x.dtype)
            fill = bounds.min if x.dtype.kind == "i" else bounds.max
        found = np.full(shape, fill, x.dtype)
        outside = [k for k in range(len(shape)) if k not in numbers.offset_dims]
        for at in product(*[range(shape[k]) for k in outside]):
            start = self.start(
                x.shape, sizes, places, at, params["mode"],
                zip(numbers.start_index_map, range(places.shape[-1]), strict=True),
                numbers.operand_batching_dims, numbers.start_indices_batching_dims,
            )  # fmt: skip
            if start is None:
                continue
            pairs = zip(start, sizes, strict=True)
            block = x[tuple([slice(s, s + n) for s, n in pairs])]
            block = block.reshape([n for k, n in enumerate(sizes) if k not in dropped])
            to = [slice(None)] * len(shape)
            for k, place in zip(outside, at, strict=True):
                to[k] = place
            found[tuple(to)] = block
        return found

    @staticmethod
    def start(shape, sizes, places, at, mode, columns, lines, lines_of_places):
        """Where a block begins; None if it does not fit."""
        start = [0] * len(shape)
        for axis, column in columns:
            start[axis] = int(places[(*at, column)])
        for axis, k in zip(lines, lines_of_places, strict=True):
            start[axis] = at[k]
        last = [n - size for n, size in zip(shape, sizes, strict=True)]
        if "CLIP" in str(mode):
            return [min(max(s, 0), most) for s, most in zip(start, last, strict=True)]
        fits = all(0 <= s <= most for s, most in zip(start, last, strict=True))
        return start if fits else None

    def scatter(self, combine, params, x, places, updates):
        numbers = params["dimension_numbers"]
        window = numbers.update_window_dims
        dropped = {*numbers.inserted_window_dims, *numbers.operand_batching_dims}
        kept = [k for k in range(x.ndim) if k not in dropped]
        sizes = [1] * x.ndim
        for k, axis in zip(kept, window, strict=True):
            sizes[k] = updates.shape[axis]
        outside = [k for k in range(updates.ndim) if k not in window]
        found, size, _count = x.copy(), abs(x) if floats(x) else x, 0 * places.size
        touched = np.zeros(x.shape, int)
        for at in product(*[range(updates.shape[k]) for k in outside]):
            axes = numbers.scatter_dims_to_operand_dims
            columns = zip(axes, range(places.shape[-1]), strict=True)
            start = self.start(
                x.shape, sizes, places, at, params["mode"], columns,
                numbers.operand_batching_dims, numbers.scatter_indices_batching_dims,
            )  # fmt: skip
            if start is None:
                continue
            of = [slice(None)] * updates.ndim
            for k, place in zip(outside, at, strict=True):
                of[k] = place
            to = tuple([slice(s, s + n) for s, n in zip(start, sizes, strict=True)])
            block = updates[tuple(of)].reshape(sizes)
            touched[to] += 1
            if combine is None:
                found[to] = block
            else:
                with np.errstate(all="ignore"):
                    found[to] = combine(found[to], block)
                    if floats(x):
                        size[to] = size[to] + abs(block)
        if not floats(x) or combine not in (np.add, np.subtract, np.multiply):
            return found
        if combine is np.multiply:
            return self.error(found, UNIT * touched * abs(found))
        return self.error(found, UNIT * touched * size)

    # Order

    def _sort(self, equation, *xs):
        axis, count = equation.params["dimension"], equation.params["num_keys"]
        keys = [np.where(x == 0, 0, x) if floats(x) else x for x in xs[:count]]
        order = np.lexsort(keys[::-1], axis=axis)
        return [np.take_along_axis(x, order, axis) for x in xs]

    def _top_k(self, equation, x):
        axis = equation.params.get("axis", -1) % x.ndim
        keys = np.where(np.isnan(x), np.inf, x) if floats(x) else x
        first = -keys if floats(x) else -keys.astype(np.int64)
        order = np.lexsort([first, ~np.isnan(x)] if floats(x) else [first], axis=axis)
        order = np.take(order, np.arange(equation.params["k"]), axis)
        return [np.take_along_axis(x, order, axis), order]
