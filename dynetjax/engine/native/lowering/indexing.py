"""Byte code of slices that begin where numbers say, and of random bits."""

from dataclasses import replace
from typing import Any

import numpy as np

from dynetjax.core.lazy import jax
from dynetjax.engine.native.lowering.arrays import (
    Array,
    Lowering,
    NotCoveredError,
    Values,
)
from dynetjax.engine.native.lowering.bytecode import Code
from dynetjax.engine.native.lowering.gathers import (
    By,
    gathered,
    one_block,
    scattered,
    signed,
)


def _starts(code: Code, operands: Values) -> Array:
    """Places along each axis, as one array."""
    d = code.temporary((len(operands),), "i")
    for k, x in enumerate(operands):
        at = signed(code, code.array(x)).like((1,))
        code.copy(d.part((k,), (1,)), at)
    code.made.pop(d.buffer, None)
    return d


def _dynamic_slice(code: Code, equation: Any, operands: Values) -> Values:
    x, shape = code.array(operands[0]), equation.outvars[0].aval.shape
    at = _starts(code, operands[1:])
    return [gathered(code, x, at, one_block(x.shape, shape))]


def _dynamic_update_slice(code: Code, equation: Any, operands: Values) -> Values:
    x, block = code.array(operands[0]), code.contiguous(operands[1])
    at = _starts(code, operands[2:])
    return [scattered(code, x, block, at, one_block(x.shape, block.shape), By())]


def _random_bits(code: Code, equation: Any, operands: Values) -> Values:
    result = equation.outvars[0].aval
    aval = equation.invars[0].aval
    is_threefry = str(aval.dtype) == "key<fry>" and not aval.shape
    partitionable = getattr(jax.config, "jax_threefry_partitionable", False)
    if not (is_threefry and partitionable):
        raise NotCoveredError("random bits of another generator")
    if equation.params["bit_width"] != 32:
        raise NotCoveredError("random numbers of another size than 32 bits")
    d = code.temporary(result.shape, "u")
    key = code.array(operands[0])
    return [code.emit("RANDOM_BITS", d, key, n=d.size)]


def _random_seed(code: Code, equation: Any, operands: Values) -> Values:
    """The key of a seed that is known."""
    seed, result = code.pool.number(code.array(operands[0])), equation.outvars[0].aval
    if seed is None or str(result.dtype) != "key<fry>" or result.shape:
        raise NotCoveredError("a random key that is not of one known seed")
    words = np.asarray(jax.random.key_data(jax.random.key(int(seed))))
    # of words that are all the same the pool keeps one, and a key is read as two
    several = code.pool.constant(np.append(words, ~words[:1]))
    return [replace(several.part((0,), words.shape), kind="k")]


LOWERINGS: dict[str, Lowering] = {
    "dynamic_slice": _dynamic_slice,
    "dynamic_update_slice": _dynamic_update_slice,
    "random_bits": _random_bits,
    "random_seed": _random_seed,
}
