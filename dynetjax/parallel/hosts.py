"""A group of processes on several machines, which meet through JAX's collectives."""

from functools import cached_property
from typing import Any, NamedTuple

import numpy as np

from dynetjax.core.errors import error_text
from dynetjax.core.group import Message
from dynetjax.core.lazy import jax, jnp

LEAST = 1 << 10  # words of what is gathered: few sizes are compiled
HEARTBEAT = 10  # seconds until a process that is gone is missed


class Hosts(NamedTuple):
    """Which machines train together, and which of them this is.

    Attributes:
        coordinator: address and port of the first, ``10.0.0.1:1234``; empty where the
            environment tells all of this, as Slurm's and Open MPI's do.
        machines: how many there are.
        number: of this one, from 0.
    """

    coordinator: str = ""
    machines: int = 1
    number: int = 0


class HostGroup:
    """See `dynetjax.core.group.Group`.

    Args:
        hosts: the machines.
        local_rank: of this process, among those of its machine.
        local_size: how many there are on each machine.
    Raises:
        RuntimeError: the others were not found.
    """

    def __init__(self, hosts: Hosts, local_rank: int, local_size: int):
        where: dict[str, Any] = {}
        if hosts.coordinator:
            where = {
                "coordinator_address": hosts.coordinator,
                "num_processes": hosts.machines * local_size,
                "process_id": hosts.number * local_size + local_rank,
            }
        try:
            jax.distributed.initialize(heartbeat_timeout_seconds=HEARTBEAT, **where)
        except (RuntimeError, ValueError) as error:
            raise RuntimeError(
                error_text(
                    "parallel: the other hosts were not found",
                    got=error,
                    expected="a coordinator that every host reaches",
                    fix="give --coordinator ADDRESS:PORT, --hosts and --host to each",
                )
            ) from error
        self.rank: int = jax.process_index()
        self.size: int = jax.process_count()

    @cached_property
    def _rows(self) -> Any:
        """Where an array has a row in each process."""
        firsts = {d.process_index: d for d in reversed(jax.devices())}
        devices = np.array([firsts[rank] for rank in range(self.size)])
        mesh = jax.sharding.Mesh(devices, ("process",))
        return jax.sharding.NamedSharding(mesh, jax.sharding.PartitionSpec("process"))

    @cached_property
    def _everywhere(self) -> Any:
        """Where an array is the same in each process."""
        return jax.sharding.NamedSharding(self._rows.mesh, jax.sharding.PartitionSpec())

    @cached_property
    def _sum(self) -> Any:
        return jax.jit(lambda x: jnp.sum(x, 0), out_shardings=self._everywhere)

    @cached_property
    def _all(self) -> Any:
        return jax.jit(lambda x: x, out_shardings=self._everywhere)

    def exchange(
        self, message: Message, dense: list[np.ndarray], scale: float = 1.0
    ) -> tuple[list[Message], np.ndarray]:
        """Meet the others; see `Group`."""
        by = np.float32(scale)
        numbers = np.multiply(message.numbers, by, dtype=np.float32)
        flat = [np.multiply(x.ravel(), by, dtype=np.float32) for x in dense]
        total = np.concatenate(flat) if flat else np.zeros(0, np.float32)
        sizes = len(message.words), len(numbers), len(total)
        every = self._gather(np.array(sizes, np.int32))
        room = LEAST
        while room < (every[:, 0] + every[:, 1]).max():
            room *= 2
        row = np.zeros(room, np.int32)
        row[: sizes[0]] = message.words
        row[sizes[0] : sizes[0] + sizes[1]] = numbers.view(np.int32)
        rows = self._gather(row)
        messages = [
            Message(words[:split], words[split : split + size].view(np.float32))
            for words, (split, size, _) in zip(rows, every.tolist(), strict=True)
        ]
        if (every[:, 2] != sizes[2]).any():
            return messages, np.zeros_like(total)
        return messages, self._run(self._sum, total) if sizes[2] else total

    def _gather(self, row: np.ndarray) -> np.ndarray:
        """The rows of all processes."""
        return self._run(self._all, row)

    def _run(self, function: Any, row: np.ndarray) -> np.ndarray:
        shape = self.size, *row.shape
        rows = jax.make_array_from_process_local_data(self._rows, row[None], shape)
        return np.array(function(rows).addressable_data(0))

    def file_written(self, path: str) -> None:
        """The others do not wait: it is seen when the hosts have the same disk."""

    def end(self) -> None:
        """This process has done its work."""
        jax.distributed.shutdown()
