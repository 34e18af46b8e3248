"""Products, convolutions, pools and factors of matrices in NumPy."""

from math import prod, sqrt

import numpy as np
import scipy.linalg
from numbers_in_numpy import UNIT, Numbers

ANY = 1e12  # the error of a number that may be any
POOLS = {"sum": (np.sum, 0.0), "max": (np.max, -np.inf), "min": (np.min, np.inf)}


class Products(Numbers):
    """Primitives that are sums of products, or solve equations of these."""

    def _dot_general(self, equation, a, b):
        (left, right), (lines, others) = equation.params["dimension_numbers"]
        rows = [k for k in range(a.ndim) if k not in (*left, *lines)]
        columns = [k for k in range(b.ndim) if k not in (*right, *others)]
        shape = equation.outvars[0].aval.shape
        sizes = [a.shape[k] for k in lines], [a.shape[k] for k in left]
        batch, count = prod(sizes[0]), prod(sizes[1])
        a = a.transpose([*lines, *rows, *left]).reshape(batch, -1, count)
        b = b.transpose([*others, *right, *columns]).reshape(batch, count, -1)
        terms = a[:, :, :, None] * b[:, None]
        found = terms.sum(2, dtype=terms.dtype)
        return self.total(found, terms, (2,)).reshape(shape)

    def _conv_general_dilated(self, equation, a, b):
        params = equation.params
        numbers = params["dimension_numbers"]
        a, b = a.transpose(numbers.lhs_spec), b.transpose(numbers.rhs_spec)
        groups, lines = params["feature_group_count"], params["batch_group_count"]
        steps, apart = params["window_strides"], params["rhs_dilation"]
        a = self._spread(a, params["lhs_dilation"])
        for axis, (low, high) in enumerate(params["padding"], 2):
            a = self._padded(a, axis, low, high, 0.0)
        window = b.shape[2:]
        reach = [(n - 1) * d + 1 for n, d in zip(window, apart, strict=True)]
        axes = tuple(range(2, a.ndim))
        views = np.lib.stride_tricks.sliding_window_view(a, reach, axes)
        every = [*[slice(None, None, s) for s in (*steps, *apart)]]
        views = views[(slice(None), slice(None), *every)]
        made, reads = b.shape[:2]
        batch = a.shape[0] // lines
        parts, sizes = [], []
        shape = (1, reads, *[1] * len(steps), *window)
        for m in range(made):
            first = m * groups // made * reads
            line = m * lines // made * batch
            at = slice(line, line + batch), slice(first, first + reads)
            terms = views[at] * b[m].reshape(shape)
            over = (1, *range(2 + len(steps), terms.ndim))
            parts.append(terms.sum(over))
            sizes.append(abs(terms).sum(over))
        found, size = np.stack(parts, 1), np.stack(sizes, 1)
        found = self.error(found, UNIT * (1 + sqrt(reads * prod(window))) * size)
        return found.transpose(np.argsort(numbers.out_spec))

    @staticmethod
    def _spread(x, by):
        """Zeros between numbers of the axes after the first two."""
        for axis, n in enumerate(by, 2):
            shape = [*x.shape]
            shape[axis] = (shape[axis] - 1) * n + 1
            wide = np.zeros(shape)
            wide[(slice(None),) * axis + (slice(None, None, n),)] = x
            x = wide
        return x

    @staticmethod
    def _padded(x, axis, low, high, fill):
        around = [(0, 0)] * x.ndim
        around[axis] = max(0, low), max(0, high)
        x = np.pad(x, around, constant_values=fill)
        kept = slice(max(0, -low), x.shape[axis] - max(0, -high))
        return x[(slice(None),) * axis + (kept,)]

    def pool(self, function, none, params, x):
        for axis, n in enumerate(params["base_dilation"]):
            shape = [*x.shape]
            shape[axis] = (shape[axis] - 1) * n + 1
            wide = np.full(shape, none)
            wide[(slice(None),) * axis + (slice(None, None, n),)] = x
            x = wide
        for axis, (low, high) in enumerate(params["padding"]):
            x = self._padded(x, axis, low, high, none)
        window, apart = params["window_dimensions"], params["window_dilation"]
        reach = [(n - 1) * d + 1 for n, d in zip(window, apart, strict=True)]
        views = np.lib.stride_tricks.sliding_window_view(x, reach)
        steps = [slice(None, None, n) for n in params["window_strides"]]
        views = views[(*steps, *[slice(None, None, n) for n in apart])]
        axes = tuple(range(x.ndim, 2 * x.ndim))
        found = function(views, axis=axes)
        return self.total(found, views, axes) if function is np.sum else found

    def _select_and_scatter_add(self, equation, source, x):
        params = equation.params
        most = params["select_prim"].name == "ge"
        found, size = np.zeros(x.shape), np.zeros(x.shape)
        window, steps = params["window_dimensions"], params["window_strides"]
        lows = [low for low, _ in params["padding"]]
        for at in np.ndindex(source.shape):
            begin = np.multiply(at, steps) - lows
            places = [tuple(begin + off) for off in np.ndindex(*window)]
            inside = [p for p in places if min(p) >= 0 and np.less(p, x.shape).all()]
            if inside:
                numbers = np.array([x[p] for p in inside])
                best = inside[np.argmax(numbers) if most else np.argmin(numbers)]
                found[best] += source[at]
                size[best] += abs(source[at])
                if np.isnan(numbers).any():  # which of them counts, nobody says
                    size[tuple(np.transpose(inside))] = ANY
        return self.error(found, prod(window) * UNIT * size)

    # Matrices

    def nearly(self, x):
        """A matrix to which the errors of solving with it are added."""
        scale = np.max(abs(x), (-2, -1), keepdims=True) if x.size else abs(x)
        return self.error(x, np.broadcast_to(2 * x.shape[-1] * UNIT * scale, x.shape))

    def _cholesky(self, equation, x):
        x = self.nearly(x)
        found = np.zeros(x.shape)
        for at in np.ndindex(x.shape[:-2]):
            try:
                found[at] = np.linalg.cholesky(np.tril(x[at]) + np.tril(x[at], -1).T)
            except np.linalg.LinAlgError:
                found[at] = np.tril(np.full(x[at].shape, np.nan))
        return self.factors(found, x, x.shape[-1])

    def factors(self, found, x, units):
        """Factors of matrices; how far a NaN in one goes, nobody says."""
        is_told = np.isfinite(x).all((-2, -1), keepdims=True)
        size = np.where(is_told, units * UNIT * abs(found), ANY)
        return self.error(np.where(is_told, found, 0), size)

    def _lu(self, equation, x):
        x = self.nearly(x)
        factors = np.zeros(x.shape)
        lead, (rows, columns) = x.shape[:-2], x.shape[-2:]
        pivots = np.zeros((*lead, min(rows, columns)), np.int32)
        orders = np.zeros((*lead, rows), np.int32)
        for at in np.ndindex(lead):
            order, lower, upper = scipy.linalg.lu(
                x[at], p_indices=True, check_finite=False
            )
            order = np.argsort(order)
            count = min(rows, columns)
            factors[at][:, :count] = np.tril(lower, -1)[:, :count]
            factors[at][:count] += np.triu(upper)
            orders[at] = order
            places = np.arange(rows)
            for k in range(count):
                where = int(np.flatnonzero(places == order[k])[0])
                pivots[at][k] = where
                places[[k, where]] = places[[where, k]]
            orders[at] = places
        return [self.factors(factors, x, 2 * columns), pivots, orders]

    def _triangular_solve(self, equation, a, b):
        params = equation.params
        a = self.nearly(a)
        a = np.tril(a) if params["lower"] else np.triu(a)
        if params["unit_diagonal"]:
            one = np.eye(a.shape[-1])
            a = np.where(one, 1.0, a)
        a = np.swapaxes(a, -1, -2) if params["transpose_a"] else a
        if not params["left_side"]:  # x a = b is a' x' = b'
            a, b = np.swapaxes(a, -1, -2), np.swapaxes(b, -1, -2)
        found, size = np.array(b), a.shape[-1]
        from_above = params["lower"] == (params["left_side"] != params["transpose_a"])
        for k in range(size) if from_above else reversed(range(size)):
            done = slice(None, k) if from_above else slice(k + 1, None)
            known = a[..., k : k + 1, done] @ found[..., done, :]
            found[..., k : k + 1, :] -= known
            found[..., k, :] /= a[..., k, k, None]
        if not params["left_side"]:
            found = np.swapaxes(found, -1, -2)
        return self.within(found, 2 * a.shape[-1])

    def _custom_linear_solve(self, equation, *operands):
        params = equation.params
        lengths, solve = params["const_lengths"], params["jaxprs"].solve
        first = lengths.matvec + lengths.vecmat
        given = [*operands[first : first + lengths.solve], *operands[sum(lengths) :]]
        return self.closed(solve, given)
