"""What is where numbers say; and products."""

import jax
import jax.numpy as jnp
import numpy as np
from cases import BOX, Case, number, still
from jax import lax


def product(equation, *shapes):
    return Case(
        f"dot {equation}",
        lambda *xs: jnp.einsum(equation, *xs),
        lambda *xs: np.einsum(equation, *xs),
        *shapes,
    )


def clipped(starts, shape, block):
    return [
        slice(s, s + b)
        for s, b in zip(
            [
                int(np.clip(int(s) + n * (int(s) < 0), 0, n - b))
                for s, n, b in zip(starts, shape, block, strict=True)
            ],
            block,
            strict=True,
        )
    ]


def dynamic_slice(x, starts, block):
    return x[tuple(clipped(starts, x.shape, block))]


def dynamic_update(x, block, starts):
    x = np.array(x)
    x[tuple(clipped(starts, x.shape, block.shape))] = block
    return x


def take_along(x, y):
    places = np.abs(y).astype(np.int32) % x.shape[-1]
    return np.take_along_axis(x, places, -1)


def scattered(x, y):
    """Numbers of a row added to places of it, of which some are met twice."""
    places = np.abs(y).astype(np.int32)
    found = np.array(x)
    for k, at in np.ndenumerate(places):
        if at < x.shape[-1]:
            found[(*k[:-1], at)] += y[k]
    return found


def scatter_add(x, y):
    places = jnp.abs(y).astype(jnp.int32)
    return jax.vmap(lambda x, at, y: x.at[at].add(y, mode="drop"))(x, places, y)


def top(x, count):
    """The largest ones, and where they are."""
    order = np.argsort(-x, axis=-1, kind="stable")[..., :count]
    return np.take_along_axis(x, order, -1) * 10 + order


PLACES = [
    Case(
        "dynamic_slice",
        lambda x, y: lax.dynamic_slice(x, y[:2].astype(jnp.int32), (2, 3)),
        lambda x, y: dynamic_slice(x, y[:2], (2, 3)),
        (4, 5),
        (2,),
        low=-3,
        high=7,
    ),
    Case(
        "dynamic_update_slice",
        lambda x, y, z: lax.dynamic_update_slice(x, z, (y.astype(jnp.int32)[0], 2)),
        lambda x, y, z: dynamic_update(x, z, (y[0], 2)),
        (4, 5),
        (1,),
        (2, 2),
        low=-3,
        high=7,
    ),
    *[
        Case(
            f"sort {axis}",
            still(lambda x, a=axis: lax.sort(x, dimension=a)),
            lambda x, a=axis: np.sort(x, a),
            BOX,
            smooth=False,
        )
        for axis in (0, 1, 2)
    ],
    Case("sort of a row", lambda x: lax.sort(x), np.sort, (5,)),
    Case(
        "sort of two",
        still(lambda x, y: lax.sort((x, y), dimension=0, num_keys=1)[1]),
        lambda x, y: np.take_along_axis(y, np.argsort(x, 0), 0),
        (5, 3),
        (5, 3),
        smooth=False,
    ),
    Case(
        "argsort",
        lambda x: number(jnp.argsort(x, axis=0)),
        lambda x: number(np.argsort(x, 0)),
        (5, 3),
    ),
    Case(
        "top_k",
        lambda x: (lambda v, i: v * 10 + i)(*lax.top_k(x, 3)),
        lambda x: top(x, 3),
        (4, 7),
    ),
    Case(
        "top_k of a row",
        lambda x: lax.top_k(x, 2)[0],
        lambda x: np.sort(x)[:-3:-1],
        (5,),
    ),
    Case(
        "gather",
        lambda x, y: jnp.take_along_axis(x, jnp.abs(y).astype(int) % 6, 1, mode="clip"),
        take_along,
        (4, 6),
        (4, 3),
        low=-9,
        high=9,
    ),
    Case(
        "gather of one",
        lambda x, y: x[jnp.abs(y[0]).astype(int) % 6][None],
        lambda x, y: x[abs(int(y[0])) % 6][None],
        (6,),
        (1,),
        low=-9,
        high=9,
    ),
    Case(
        "gather that clips",
        lambda x, y: jnp.take(x, y.astype(int), mode="clip"),
        lambda x, y: x[y.astype(int).clip(0, 5)],
        (6,),
        (9,),
        low=-9,
        high=9,
    ),
    Case(
        "scatter-add",
        still(scatter_add),
        scattered,
        (4, 6),
        (4, 9),
        low=0,
        high=9,
        smooth=False,
    ),
    Case(
        "scatter-add that clips",
        lambda x, y: x.at[y.astype(int)].add(1.0, mode="clip"),
        lambda x, y: x + np.bincount(y.astype(int).clip(0, 5), minlength=6),
        (6,),
        (9,),
        low=0,
        high=9,
    ),
]
PRODUCTS = [
    product("ij,j->i", (7, 9), (9,)),
    product("ij,i->j", (7, 9), (7,)),
    product("i,ij->j", (7,), (7, 9)),
    product("ij,jk->ik", (7, 9), (9, 5)),
    product("ij,kj->ik", (7, 9), (5, 9)),
    product("ji,jk->ik", (9, 7), (9, 5)),
    product("ji,kj->ik", (9, 7), (5, 9)),
    product("i,i->", (9,), (9,)),
    product("i,j->ij", (9,), (4,)),
    product("ij,ij->", (3, 9), (3, 9)),
    product("bij,bjk->bik", (2, 3, 4), (2, 4, 5)),
    product("ijb,bkj->bki", (3, 4, 2), (2, 5, 4)),
    product("ijk,kl->ijl", (2, 3, 4), (4, 5)),
    product("ijk,jkl->il", (2, 3, 4), (3, 4, 5)),
    product("ijk,kjl->il", (2, 3, 4), (4, 3, 5)),
    product("ij,k->ijk", (2, 1), (5,)),
    Case(
        "product of slices",
        lambda x, y: x[::2, 1:4] @ lax.rev(y, (0,)).T[1:4],
        lambda x, y: x[::2, 1:4] @ y[::-1].T[1:4],
        (5, 6),
        (3, 4),
    ),
    Case(
        "product of one row for all",
        lambda x, y: jnp.broadcast_to(x, (3, 4)) @ y,
        lambda x, y: np.broadcast_to(x, (3, 4)) @ y,
        (4,),
        (4, 2),
    ),
    Case(
        "layer",
        lambda x, w, b: jnp.tanh(w @ x + b),
        lambda x, w, b: np.tanh(w @ x + b),
        (4,),
        (6, 4),
        (6,),
    ),
]

CASES = [*PLACES, *PRODUCTS]
