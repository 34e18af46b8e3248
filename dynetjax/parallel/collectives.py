"""Arrays of all processes, summed and gathered by XLA on the devices they lie on.

JAX calls NCCL for GPUs, uses the links between the chips of a TPU, and Gloo on CPUs.
"""

from functools import cached_property
from typing import Any

import numpy as np

from dynetjax.core.errors import error_text
from dynetjax.core.lazy import jax

Array = Any
HEARTBEAT = 10  # seconds until a process that is gone is missed


def connect(fix: str, **where: Any) -> None:
    """Have JAX know of all processes; before it looks for devices.

    Args:
        fix: what to do if they do not meet.
        where: see ``jax.distributed.initialize``; nothing where the environment tells.
    Raises:
        RuntimeError: the others were not found.
    """
    try:
        jax.distributed.initialize(heartbeat_timeout_seconds=HEARTBEAT, **where)
    except (RuntimeError, ValueError) as error:
        raise RuntimeError(
            error_text(
                "parallel: the other processes were not found",
                got=error,
                expected="a coordinator that each of them reaches",
                fix=fix,
            )
        ) from error


class Collectives:
    """The first device of each process, between which arrays travel.

    Attributes:
        rank, size: of this process, and how many there are.
    """

    def __init__(self) -> None:
        self.rank: int = jax.process_index()
        self.size: int = jax.process_count()
        firsts = {d.process_index: d for d in reversed(jax.devices())}
        devices = [firsts[rank] for rank in range(self.size)]
        self._own = devices[self.rank]
        mesh = jax.sharding.Mesh(np.array(devices), ("process",))
        spec = jax.sharding.PartitionSpec
        self._by_process = jax.sharding.NamedSharding(mesh, spec("process"))
        self._everywhere = jax.sharding.NamedSharding(mesh, spec())

    def meet(
        self, summed: list[Array], gathered: list[Array], scale: float = 1.0
    ) -> tuple[list[Array], list[Array]]:
        """The sums of some arrays over all processes, and others end to end by rank.

        Args:
            summed, gathered: of NumPy or JAX, of one axis or more; of the same shapes
                in each process.
            scale: factor on what is float32.
        Returns:
            arrays of JAX on this process's device, the same to the last bit in each.
        """
        mine = jax.tree.map(self._of_all, (summed, gathered))
        found = self._run(*mine, np.float32(scale))
        return jax.tree.map(lambda x: x.addressable_data(0), found)

    def _of_all(self, array: Array) -> Array:
        """The arrays of all processes, of which this one has its own."""
        count, *row = array.shape
        own = jax.device_put(array, self._own)
        return jax.make_array_from_single_device_arrays(
            (self.size * count, *row), self._by_process, [own]
        )

    @cached_property
    def _run(self) -> Any:
        def scaled(x: Array, scale: Array) -> Array:
            return x * scale if x.dtype == np.float32 else x

        def run(summed: list[Array], gathered: list[Array], scale: Array) -> Any:
            each = [x.reshape(self.size, -1, *x.shape[1:]) for x in summed]
            sums = [scaled(x.sum(0), scale) for x in each]
            return sums, [scaled(x, scale) for x in gathered]

        return jax.jit(run, out_shardings=self._everywhere)
