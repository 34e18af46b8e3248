"""A JAX function as a user's operation in tier 0, beside its formula in NumPy."""

import jax.numpy as jnp
import numpy as np
from jax import lax

import dynetjax as dy
from dynetjax.engine.native.lowering.bytecode import OP
from dynetjax.engine.native.part import NativePart
from dynetjax.native import core

STEP = 1e-6


def check(function, numpy, *arrays, **about):
    """On one lane and on three, values and gradients of `function` are `numpy`'s.

    Each lane has other numbers: those of the first, scaled.
    """
    arrays = [np.asarray(a, np.float64) for a in arrays]
    for scales in (1,), (1, -0.5, 0.75):
        lanes = [[a * s for a in arrays] for s in scales]
        check_lanes(function, numpy, *lanes, **about)


def check_lanes(function, numpy, *lanes, smooth=True, rtol=1e-3, atol=1e-4):
    """As `check`, of the arrays that each lane has.

    Gradients are compared with central differences in float64; they are zero if
    `smooth` is not set.
    """
    lanes = [[np.asarray(a, np.float64) for a in arrays] for arrays in lanes]
    wanted = np.stack([np.asarray(numpy(*arrays)) for arrays in lanes], -1)
    dy.renew_cg()
    given = [np.stack(arrays, -1) for arrays in zip(*lanes, strict=True)]
    xs = [dy.inputTensor(a, batched=True) for a in given]
    y = dy.jax_op(function)(*xs)
    r = np.random.RandomState(7).uniform(0.5, 1.5, wanted.shape[:-1] or (1,))
    loss = dy.sum_batches(dy.dot_product(y, dy.inputTensor(r)))
    value = y.npvalue()
    loss.backward(full=True)
    assert all(isinstance(part, NativePart) for part in loss.graph.state.parts)
    np.testing.assert_allclose(value.reshape(wanted.shape), wanted, rtol, atol)
    for number, (x, a) in enumerate(zip(xs, given, strict=True)):
        found = x.gradient().reshape(a.shape)
        for lane, arrays in enumerate(lanes):
            slopes = np.zeros(arrays[number].shape)
            for index in np.ndindex(slopes.shape) if smooth else ():
                slopes[index] = _slope(numpy, arrays, number, index, r)
            np.testing.assert_allclose(found[..., lane], slopes, rtol, atol)


def _slope(numpy, arrays, number, index, r):
    found = []
    for step in STEP, -STEP:
        moved = [a.copy() for a in arrays]
        moved[number][index] += step
        found.append(np.sum(np.reshape(numpy(*moved), r.shape) * r))
    return (found[0] - found[1]) / (2 * STEP)


def of_ints(function):
    """A function without derivatives, of ints, in JAX."""
    return lambda *xs: function(
        *[jnp.round(lax.stop_gradient(x) * 8).astype(jnp.int32) for x in xs]
    )


def of_ints_in_numpy(function):
    """The same in NumPy."""
    return lambda *xs: function(*[np.rint(x * 8).astype(np.int32) for x in xs])


def program(*rows, extra=(), words=2):
    """A program with so many words, all zero, and instructions: opcode, n, m, k.

    Results and operands begin at the first word.
    """
    word = [1, 0, 0, words, 0]  # of temporaries
    code = [[OP[name], 0, *sizes, 0, *word * 4] for name, *sizes in rows]
    about = {"forward": np.array(code, np.int32), "extra": np.array(extra, np.int32)}
    constants = np.zeros(1, np.float32)
    return core.Program(form=0, size=1, constants=constants, temporary=words, **about)
