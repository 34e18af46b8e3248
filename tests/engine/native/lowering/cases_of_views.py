"""Shapes, slices, pads and concatenations."""

import jax.numpy as jnp
import numpy as np
from cases import BOX, Case
from jax import lax


def padded(x, fill, config):
    """As `lax.pad` is documented."""
    for axis, (low, high, between) in enumerate(config):
        count = (x.shape[axis] - 1) * (between + 1) + 1
        shape = list(x.shape)
        shape[axis] = count
        wide = np.full(shape, fill, np.float64)
        at = [slice(None)] * x.ndim
        at[axis] = slice(None, None, between + 1)
        wide[tuple(at)] = x
        around = [(0, 0)] * x.ndim
        around[axis] = max(low, 0), max(high, 0)
        wide = np.pad(wide, around, constant_values=fill)
        at[axis] = slice(max(-low, 0), wide.shape[axis] - max(-high, 0))
        x = wide[tuple(at)]
    return x


CASES = [
    Case("transpose", jnp.transpose, np.transpose, (3, 5)),
    Case(
        "transpose of three",
        lambda x: x.transpose(2, 0, 1) * 2,
        lambda x: x.transpose(2, 0, 1) * 2,
        BOX,
    ),
    Case("transposed sum", lambda x, y: x.T + y, lambda x, y: x.T + y, (3, 5), (5, 3)),
    Case(
        "reshape",
        lambda x: jnp.tanh(x.reshape(6, 10)),
        lambda x: np.tanh(x.reshape(6, 10)),
        BOX,
    ),
    Case(
        "reshape of turned",
        lambda x: x.T.reshape(15),
        lambda x: x.T.reshape(15),
        (3, 5),
    ),
    Case("squeeze", lambda x: lax.squeeze(x, (0, 2)), lambda x: x[0, :, 0], (1, 4, 1)),
    Case(
        "squeeze of turned",
        lambda x: jnp.exp(lax.squeeze(x.transpose(2, 1, 0), (1,))),
        lambda x: np.exp(x[:, 0].T),
        (3, 1, 5),
    ),
    Case("expand_dims", lambda x: lax.expand_dims(x, (1,)), lambda x: x[:, None], (4,)),
    Case(
        "broadcast",
        lambda x: jnp.broadcast_to(x, (4, 3)),
        lambda x: np.broadcast_to(x, (4, 3)),
        (3,),
    ),
    Case(
        "broadcast of a number",
        lambda x: jnp.broadcast_to(x[1], (4, 3)) * 3,
        lambda x: np.full((4, 3), x[1]) * 3,
        (3,),
    ),
    Case("outer", lambda x, y: x[:, None] * y[None], np.multiply.outer, (3,), (4,)),
    Case("slice", lambda x: x[1:3, 2:], lambda x: x[1:3, 2:], (4, 5)),
    Case("slice by steps", lambda x: x[::2, 1::3], lambda x: x[::2, 1::3], (5, 7)),
    Case(
        "slice of a sum", lambda x: (x + x.T)[1:, 1], lambda x: (x + x.T)[1:, 1], (4, 4)
    ),
    Case("rev", lambda x: lax.rev(x, (0,)), lambda x: x[::-1], (3, 5)),
    Case("rev of both", lambda x: lax.rev(x, (0, 1)), lambda x: x[::-1, ::-1], (3, 5)),
    Case(
        "rev of a slice",
        lambda x: lax.rev(x[1:, ::2], (1,)) @ x[:3],
        lambda x: x[1:, ::2][:, ::-1] @ x[:3],
        (4, 5),
    ),
    Case(
        "split",
        lambda x: lax.split(x, (1, 3, 2), 1)[1] * lax.split(x, (3, 3), 1)[0],
        lambda x: x[:, 1:4] * x[:, :3],
        (4, 6),
    ),
    Case(
        "split of joined",
        lambda x, y: lax.split(lax.concatenate([x, y, x], 1), (2, 3, 1, 1), 1)[1] * 2,
        lambda x, y: y * 2,
        (4, 2),
        (4, 3),
    ),
    Case(
        "split across joined",
        lambda x, y: lax.split(lax.concatenate([x, y], 0), (1, 4), 0)[1],
        lambda x, y: np.concatenate([x, y])[1:],
        (2, 3),
        (3, 3),
    ),
    Case("unstack", lambda x: x[2] * x[0], lambda x: x[2] * x[0], (3, 4)),
    Case(
        "unstack of three",
        lambda x: sum(k * y for k, y in enumerate(jnp.unstack(x, axis=1))),
        lambda x: sum(k * x[:, k] for k in range(4)),
        BOX,
    ),
    Case(
        "concatenate",
        lambda x, y: lax.concatenate([x, y], 1),
        lambda x, y: np.concatenate([x, y], 1),
        (3, 2),
        (3, 4),
    ),
    Case(
        "concatenate of turned",
        lambda x, y: lax.concatenate([x.T, y[::2], x.T], 0) * 2,
        lambda x, y: np.concatenate([x.T, y[::2], x.T]) * 2,
        (3, 2),
        (4, 3),
    ),
    Case(
        "concatenate of joined",
        lambda x, y: jnp.block([[x, y], [y, x]]) * 2,
        lambda x, y: np.block([[x, y], [y, x]]) * 2,
        (2, 3),
        (2, 3),
    ),
    Case(
        "slice of joined",
        lambda x, y: lax.concatenate([x, y], 0)[2:4, 1:],
        lambda x, y: y[:2, 1:],
        (2, 3),
        (3, 3),
    ),
    Case(
        "transpose of joined",
        lambda x, y: lax.concatenate([x, y], 1).T @ x,
        lambda x, y: np.concatenate([x, y], 1).T @ x,
        (3, 2),
        (3, 4),
    ),
    Case(
        "reshape of joined",
        lambda x, y: lax.concatenate([x, y], 0).reshape(1, 5, 3) * 2,
        lambda x, y: np.concatenate([x, y]).reshape(1, 5, 3) * 2,
        (2, 3),
        (3, 3),
    ),
    Case(
        "reshape across joined",
        lambda x, y: lax.concatenate([x, y], 0).reshape(3, 5),
        lambda x, y: np.concatenate([x, y]).reshape(3, 5),
        (2, 3),
        (3, 3),
    ),
    Case(
        "stack",
        lambda x, y: jnp.stack([x, y.T, x], 1),
        lambda x, y: np.stack([x, y.T, x], 1),
        (3, 2),
        (2, 3),
    ),
    *[
        Case(
            f"pad {config} of {fill}",
            lambda x, c=config, v=fill: lax.pad(x, jnp.float32(v), c),
            lambda x, c=config, v=fill: padded(x, v, c),
            (4, 5),
        )
        for fill in (0, 1.5)
        for config in (
            [(1, 2, 0), (0, 3, 0)],
            [(1, 0, 1), (0, 1, 2)],
            [(-1, 0, 0), (2, -2, 0)],
            [(-1, 1, 1), (-2, -1, 2)],
            [(-3, 4, 1), (3, -7, 0)],
            [(-4, 4, 0), (0, 0, 0)],
            [(-8, 9, 1), (0, -5, 1)],
        )
    ],
    Case(
        "pad of joined",
        lambda x, y: lax.pad(lax.concatenate([x, y], 0), 0.0, [(1, 1, 0), (0, 2, 0)]),
        lambda x, y: np.pad(np.concatenate([x, y]), [(1, 1), (0, 2)]),
        (2, 3),
        (3, 3),
    ),
    Case(
        "pad by an operand",
        lambda x, y: lax.pad(x, y[1], [(1, 1, 1)]),
        lambda x, y: padded(x, y[1], [(1, 1, 1)]),
        (4,),
        (3,),
    ),
    Case(
        "sum of pads",
        lambda x, y: lax.pad(x, 0.0, [(0, 3, 0)]) + lax.pad(y, 0.0, [(2, 0, 0)]),
        lambda x, y: np.pad(x, (0, 3)) + np.pad(y, (2, 0)),
        (2,),
        (3,),
    ),
    Case(
        "sum of pads that overlap",
        lambda x, y: lax.pad(x, 0.0, [(0, 2, 0)]) + lax.pad(y, 0.0, [(1, 1, 0)]),
        lambda x, y: np.pad(x, (0, 2)) + np.pad(y, (1, 1)),
        (2,),
        (2,),
    ),
]
