"""A program as one compiled function in each direction.

Components without nodes in a graph make no trips, so one executable serves every graph
of a program family and size class.
"""

from functools import lru_cache
from itertools import chain, islice
from typing import Any, NamedTuple

from dynetjax.core.dims import Shape
from dynetjax.core.lazy import jax, jnp
from dynetjax.core.registry import INPUT
from dynetjax.core.tables import forgets, remembers
from dynetjax.engine.plan.causes import note_made
from dynetjax.engine.plan.code import BodyOp
from dynetjax.engine.plan.program import Program, written
from dynetjax.engine.xla.body import needed
from dynetjax.engine.xla.buffers import BufferPool, buffer_pool_for
from dynetjax.engine.xla.compiling import Compiled, shape_of
from dynetjax.engine.xla.component_loop import Loop, is_source, residual_shapes_of
from dynetjax.engine.xla.loop_back import LoopBack, add_to
from dynetjax.engine.xla.sharding import everywhere

Array = Any

# A program takes some sixty memory maps, of which Linux grants a process 65,530: past
# that, XLA crashes. So those that were not used for long are dropped.
KEPT = 128  # of each direction


class Pools(NamedTuple):
    """What a run forward has written.

    Attributes:
        pools: by number.
        residuals: of each component, the results of contractions that backward reads.
        source: the buffer pool that all of them are of.
    """

    pools: list[Array]
    residuals: list[list[Array]]
    source: BufferPool

    def release(self) -> None:
        """Nobody reads them any more."""
        self.source.release([*self.pools, *chain.from_iterable(self.residuals)])


class Gradients(NamedTuple):
    """What a run backward has found.

    Attributes:
        pools: of rows, by pool.
        weight_gradients: of weights, by number.
        tables: of the rows of each component that looks rows up, lane by lane.
    """

    pools: dict[int, Array]
    weight_gradients: dict[int, Array]
    tables: dict[int, Array]


@remembers
def keeps(program: Program) -> bool:
    """Whether backward needs results that are not rows anyway."""
    return any(any(needed(op)) for body in program.code.components for op in body)


def is_given(body: tuple[BodyOp, ...]) -> bool:
    """Whether a component's rows come from outside."""
    return body[0].form == INPUT


def run_forward(
    program: Program,
    keeping: bool,
    weights: list[Array],
    given: list[Array],
    indices: Array,
) -> Pools:
    """Run a program.

    Args:
        keeping: whether backward is to follow.
        given: the rows of components that get them from outside, in order.
    """
    use = program, keeping and keeps(program)
    of_place = *use, everywhere(weights)  # arrays stay on the devices where they are
    source = buffer_pool_for(of_place, lambda: _buffers(*use))
    run = forward(*use)
    args = weights, given, indices
    if run.is_new:  # what compiling takes is free again before arrays are made
        run.compile(*jax.tree.map(shape_of, args), [*map(_of_floats, source.shapes)])
    pools, residuals = run(*args, source.acquire())
    return Pools(pools, residuals, source)


def prepare_forward(program: Program, keeping: bool, weights: list[Any]) -> None:
    """Have it compiled beside other work, for weights of these shapes, if it is new."""
    use = program, keeping and keeps(program)
    run = forward(*use)
    if not run.is_new:
        return
    pairs = zip(program.lanes, program.code.components, strict=True)
    given = [(lanes, *body[0].shape) for lanes, body in pairs if is_given(body)]
    buffers = [*map(_of_floats, _buffers(*use))]
    run.prepare(weights, [*map(_of_floats, given)], _indices_of(program), buffers)


def prepare_backward(program: Program, pool: int, weights: list[Any]) -> None:
    """Have the way back from a row of a pool compiled likewise."""
    run = backward(program, pool)
    if not run.is_new:
        return
    shapes = [*map(_of_floats, _buffers(program, keeps(program)))]
    count = len(program.rows)
    run.prepare(
        weights,
        shapes[:count],
        _dealt(shapes[count:], program, keeps(program)),
        _indices_of(program),
    )


def run_backward(
    program: Program,
    pool: int,
    weights: list[Array],
    values: Pools,
    indices: Array,
) -> Gradients:
    """Go back from the number in a row of a pool, which the index buffer tells."""
    run = backward(program, pool)
    return Gradients(*run(weights, values.pools, values.residuals, indices))


def _buffers(program: Program, keeping: bool) -> list[Shape]:
    """The shapes of the pools by number, and of each component's residuals if any."""
    shapes = zip(program.rows, program.code.pools, strict=True)
    pools = [(rows, *shape) for rows, shape in shapes]
    return [*pools, *chain.from_iterable(_residuals(program, keeping))]


def _residuals(program: Program, keeping: bool) -> list[list[Shape]]:
    """Of each component, the shapes of residuals."""
    components = range(len(program.code.components))
    return [residual_shapes_of(program, k) if keeping else [] for k in components]


def _indices_of(program: Program) -> "jax.ShapeDtypeStruct":
    return jax.ShapeDtypeStruct((program.size,), jnp.int32)


def _of_floats(shape: Shape) -> "jax.ShapeDtypeStruct":
    return jax.ShapeDtypeStruct(shape, jnp.float32)


def _dealt(arrays: list, program: Program, keeping: bool) -> list[list]:
    """Arrays for residuals, those of each component in a list."""
    rest = iter(arrays)
    return [[*islice(rest, len(shapes))] for shapes in _residuals(program, keeping)]


@lru_cache(maxsize=KEPT)
def forward(program: Program, keeping: bool) -> Compiled:
    """``(weights, given, indices, buffers) -> (pools, residuals)``, compiled.

    `buffers`, donated, are the arrays for both results.
    """
    note_made("forward", program)

    def run(weights, given, indices, buffers):
        count, rows = len(program.rows), iter(given)
        pools, residuals = buffers[:count], _dealt(buffers[count:], program, keeping)
        for k, body in enumerate(program.code.components):
            loop = Loop(program, k, weights, indices)
            given_rows = next(rows) if is_given(body) else None
            pools, residuals[k] = loop.forward(pools, residuals[k], given_rows, keeping)
        return pools, residuals

    return Compiled(run, "buffers")


@lru_cache(maxsize=KEPT)
def backward(program: Program, root: int) -> Compiled:
    """``(weights, pools, residuals, indices) -> Gradients``, compiled.

    They are those of the number in a row of pool `root`.
    """
    note_made("backward", program)

    def run(weights, pools, residuals, indices):
        above = {root: sown(jnp.zeros_like(pools[root]), indices[-1])}
        weight_gradients: dict[int, Array] = {}
        tables: dict[int, Array] = {}
        for k in reversed(range(len(program.code.components))):
            body = program.code.components[k]
            if above.keys().isdisjoint(written(body)):
                continue
            if not any(op.differentiable for op in body):
                continue
            loop = Loop(program, k, weights, indices)
            if is_source(body):
                tables[k] = loop.source_rows(above)
                continue
            gradients = LoopBack(loop, pools, residuals[k], above, root).run()
            for number, gradient in gradients.items():
                add_to(weight_gradients, number, gradient)
        return above, weight_gradients, tables

    return Compiled(run)


forgets(forward.cache_clear)
forgets(backward.cache_clear)


def sown(zeros: Array, row: Array) -> Array:
    """The gradients of a pool's rows where a backward begins with the number in one."""
    return zeros.at[row].set(1.0)
