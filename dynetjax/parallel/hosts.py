"""A group of processes on several machines, which meet through JAX's collectives."""

from typing import Any, NamedTuple

import numpy as np

from dynetjax.core.devices import have_one_each
from dynetjax.core.group import Message
from dynetjax.core.lazy import jax
from dynetjax.engine.device import host_sees_device
from dynetjax.native import core
from dynetjax.parallel.collectives import Collectives, connect

LEAST = 1 << 10  # words of what is gathered: few sizes are compiled


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
        if have_one_each(local_size):
            where["local_device_ids"] = [local_rank]
        connect("give --coordinator ADDRESS:PORT, --hosts and --host to each", **where)
        self._every = Collectives()
        self.rank: int = self._every.rank
        self.size: int = self._every.size
        self.collectives = None if host_sees_device() else self._every

    def exchange(
        self, message: Message, dense: list[np.ndarray], scale: float = 1.0
    ) -> tuple[list[Message], list[np.ndarray]]:
        """Meet the others; see `Group`."""
        numbers = np.empty(message.numbers.size, np.float32)
        core.gather(numbers, [message.numbers], scale)
        total = np.empty(sum([array.size for array in dense]), np.float32)
        core.gather(total, dense, scale)
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
            return messages, []
        if not sizes[2]:
            return messages, [total]
        (sum_of_all,), _ = self._every.meet([total], [])
        return messages, [np.array(sum_of_all)]

    def _gather(self, row: np.ndarray) -> np.ndarray:
        """The rows of all processes."""
        _, (rows,) = self._every.meet([], [row])
        return np.array(rows).reshape(self.size, -1)

    def file_written(self, path: str) -> None:
        """The others do not wait: it is seen when the hosts have the same disk."""

    def end(self) -> None:
        """This process has done its work."""
        jax.distributed.shutdown()
