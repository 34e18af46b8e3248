"""Jaxprs in NumPy's float64, exactly, or with the errors that float32 may make.

`Exact` computes what a jaxpr says, primitive by primitive. `Rounded` adds to each
result what float32 may be off there: half a unit in the last place where the operation
rounds once, some units where it is a series, and what a sum of so many terms loses. How
far its results are from the exact ones is the error that is due, however the numbers
cancel, and wherever a comparison is decided by the last digit.
"""

import jax
import numpy as np
from arrays_in_numpy import COMBINED, Arrays
from jax.extend import core as jax_core
from numbers_in_numpy import NUMBER_BY_NUMBER, REDUCTIONS, SCANS, TINY, floats
from products_in_numpy import POOLS, Products

CALLS = {"jit", "pjit", "closed_call", "core_call", "custom_jvp_call"}
CALLS |= {"custom_vjp_call", "checkpoint", "remat", "remat2"}
SAME = {"stop_gradient", "copy", "device_put", "optimization_barrier"}
SAME |= {"random_wrap", "random_unwrap"}


class Exact(Arrays, Products):
    """What jaxprs compute.

    Attributes:
        largest: the largest number met.
    """

    def __init__(self):
        self.largest = 0.0

    def run(self, jaxpr, consts, given):
        """The results of a jaxpr, of NumPy arrays."""
        names = dict(zip(jaxpr.constvars, map(self.array, consts), strict=True))
        names.update(zip(jaxpr.invars, given, strict=True))

        def value_of(atom):
            if not isinstance(atom, jax_core.Literal):
                return names[atom]
            return self.array(np.asarray(atom.val, atom.aval.dtype))

        for equation in jaxpr.eqns:
            operands = [value_of(x) for x in equation.invars]
            results = self.equation(equation, operands)
            for var, x in zip(equation.outvars, results, strict=True):
                names[var] = x
        return [value_of(x) for x in jaxpr.outvars]

    def closed(self, jaxpr, given):
        with np.errstate(all="ignore"):
            return self.run(jaxpr.jaxpr, jaxpr.consts, given)

    def equation(self, equation, operands):
        name, params = equation.primitive.name, equation.params
        if name in CALLS:
            inner = params.get("jaxpr") or params.get("call_jaxpr")
            inner = inner or params["fun_jaxpr"]
            consts = getattr(inner, "consts", ())
            return self.run(getattr(inner, "jaxpr", inner), consts, operands)
        if name == "call_hi_primitive":
            expanded = jax.make_jaxpr(params["_prim"].expand)
            inner = expanded(*[x.aval for x in equation.invars])
            return self.closed(inner, operands)
        if name in SAME:
            return operands
        shapes = [v.aval.shape for v in equation.outvars]
        results = self.result(name, equation, operands)
        if not isinstance(results, list):
            results = [results]
        found = []
        for x, shape, var in zip(results, shapes, equation.outvars, strict=True):
            x = np.asarray(x)
            key = jax.dtypes.issubdtype(var.aval.dtype, jax.dtypes.prng_key)
            assert key or x.shape == tuple(shape), (name, x.shape, shape)
            if not key and not floats(x):
                x = x.astype(var.aval.dtype)
            elif not key and x.size:
                size = np.max(abs(np.where(np.isfinite(x), x, 0)))
                self.largest = max(self.largest, size)
            found.append(x)
        return found

    def result(self, name, equation, operands):
        params = equation.params
        if name in NUMBER_BY_NUMBER:
            return self.number_by_number(name, operands)
        if name in REDUCTIONS:
            return self.reduction(name, params, *operands)
        if name in SCANS:
            return self.scan_of_numbers(name, params, *operands)
        if name.startswith("scatter"):
            by = name.replace("_", "-").removeprefix("scatter").removeprefix("-")
            return self.scatter(COMBINED[by], params, *operands)
        if name.startswith("reduce_window_"):
            return self.pool(*POOLS[name.rpartition("_")[2]], params, *operands)
        method = getattr(self, "_" + name.replace("-", "_"), None)
        if method is None:
            raise NotImplementedError(name)
        return method(equation, *operands)

    # Loops

    def _cond(self, equation, which, *operands):
        branches = equation.params["branches"]
        return self.closed(
            branches[min(max(int(which), 0), len(branches) - 1)], operands
        )

    def _while(self, equation, *operands):
        params = equation.params
        first = params["cond_nconsts"]
        second = first + params["body_nconsts"]
        carries = [*operands[second:]]

        def which():
            return self.closed(params["cond_jaxpr"], [*operands[:first], *carries])[0]

        while (on := np.asarray(which())).any():
            given = [*operands[first:second], *carries]
            new = self.closed(params["body_jaxpr"], given)
            for k, (x, y) in enumerate(zip(carries, new, strict=True)):
                goes_on = on.reshape((*on.shape, *[1] * (np.ndim(y) - on.ndim)))
                carries[k] = np.where(goes_on, y, x)  # `on` has axes under `vmap`
        return carries

    def _scan(self, equation, *operands):
        params = equation.params
        inner, length = params["jaxpr"], params["length"]
        held = sum(
            x.aval.shape == y.aval.shape
            for x, y in zip(equation.invars, inner.jaxpr.invars, strict=True)
        )
        count = sum(
            x.aval.shape == y.aval.shape
            for x, y in zip(equation.outvars, inner.jaxpr.outvars, strict=True)
        )
        consts, lists = operands[: held - count], operands[held:]
        carries = [*operands[held - count : held]]
        rows = []
        order = range(length)
        for k in reversed(order) if params["reverse"] else order:
            given = [*consts, *carries, *[x[k] for x in lists]]
            results = self.closed(inner, given)
            carries = results[:count]
            rows.append(results[count:])
        if params["reverse"]:
            rows.reverse()
        return [*carries, *[np.stack(several) for several in zip(*rows, strict=True)]]

    def _platform_index(self, equation):
        for number, names in enumerate(equation.params["platforms"]):
            if names is None or "cpu" in names:
                return np.array(number, np.int32)
        raise NotImplementedError("another platform")

    def _empty(self, equation, *operands):
        aval = equation.outvars[0].aval
        return self.array(np.zeros(aval.shape, aval.dtype))

    _empty2 = _empty

    # Random numbers

    def _random_bits(self, equation, key):
        key = jax.random.wrap_key_data(np.asarray(key, np.uint32))
        shape = equation.params["shape"]
        return np.asarray(jax.random.bits(key, shape, np.uint32))

    def _random_seed(self, equation, seed):
        return np.asarray(jax.random.key_data(jax.random.key(int(seed))))


class Rounded(Exact):
    """The same with errors, drawn by `rng`, of up to `times` the size that is due.

    They are numbers of float32, so that some are equal which exact ones are not, as
    where tanh comes to 1.
    """

    def __init__(self, rng, times=1.0):
        super().__init__()
        self.rng, self.times = rng, times

    def error(self, x, size):
        x = np.asarray(x)
        if not x.size:
            return x
        off = self.rng.uniform(0.5, 1, x.shape)
        off *= self.rng.integers(0, 2, x.shape) * 2 - 1
        with np.errstate(all="ignore"):
            size = np.where((x != 0) & (abs(x) < TINY), TINY, size)
            near = (x + self.times * off * size).astype(np.float32)
            return np.where(np.isfinite(x) & np.isfinite(near), near, x)
