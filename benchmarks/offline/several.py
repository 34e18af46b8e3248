"""A captured program as a step that several devices share, each with its own data."""

import jax
import targets
from jax.sharding import Mesh, NamedSharding, PartitionSpec

AXIS = "devices"
EVERYWHERE, APART = PartitionSpec(), PartitionSpec(AXIS)


def lowered(call, target):
    """The program of a call, forward or backward, lowered for eight devices.

    All have the same weights, the first argument; of what else there is each has its
    own, end to end along the first axis. Backward adds up the gradients of weights, its
    second result, with `psum`.
    """
    mesh = Mesh(targets.devices(target, several=True), (AXIS,))
    goes_back = call.name == "backward"
    run = call.function._run
    weights, *others = call.shapes

    def one(*args):
        found = run(*args)
        if not goes_back:
            return found
        above, gradients, tables = found
        return above, jax.lax.psum(gradients, AXIS), tables

    def of_all(x):
        whole = jax.ShapeDtypeStruct(
            (targets.DEVICES * x.shape[0], *x.shape[1:]), x.dtype
        )
        return targets.placed(NamedSharding(mesh, APART), whole)

    def of_each(x):
        return targets.placed(NamedSharding(mesh, EVERYWHERE), x)

    step = jax.jit(
        jax.shard_map(
            one,
            mesh=mesh,
            in_specs=(EVERYWHERE, *[APART] * len(others)),
            out_specs=(APART, EVERYWHERE, APART) if goes_back else APART,
            check_vma=False,
        ),
        donate_argnums=() if goes_back else len(others),  # forward's buffers, the last
        compiler_options=targets.options(target),
    )
    return step.lower(jax.tree.map(of_each, weights), *jax.tree.map(of_all, others))
