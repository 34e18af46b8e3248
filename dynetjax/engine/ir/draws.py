"""Which random numbers the nodes of a graph get."""

from collections.abc import Callable

import numpy as np

_NODE = np.uint64(0xD6E8FEB86659FD93)
_GOLDEN = np.uint64(0x9E3779B97F4A7C15)
_MIX_1 = np.uint64(0xBF58476D1CE4E5B9)
_MIX_2 = np.uint64(0x94D049BB133111EB)


class Draws:
    """Seeds and numbers of random nodes, from which their keys are made.

    Calling it with the numbers of nodes in the graph gives a seed for each, drawn when
    it is first met, and a number to go with it, counted from the last time that random
    numbers began again. It knows nothing of what was computed, and so keeps none of it.

    Args:
        draw_seed: gives a seed.
        starts: how many nodes there were each time that random numbers began again.
    """

    def __init__(self, draw_seed: Callable[[], int], starts: list[int]):
        self._draw_seed, self.starts = draw_seed, starts
        self._seeds: dict[int, int] = {}

    def seed(self, epoch: int) -> int:
        """The seed for random numbers that have begun again `epoch` times."""
        seed = self._seeds.get(epoch)
        if seed is None:
            seed = self._seeds[epoch] = self._draw_seed()
        return seed

    def __call__(self, nodes: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        starts = self.starts
        if not starts:
            return np.full(len(nodes), self.seed(0), np.uint64), nodes
        epochs = np.searchsorted(starts, nodes, side="right")
        seeds = [self.seed(epoch) for epoch in epochs.tolist()]
        return np.array(seeds, np.uint64), nodes - np.array([0, *starts])[epochs]


def undrawn() -> Draws:
    """Stands for draws where the runtime data is to be written later."""
    return Draws(lambda: 0, [])


def keys_of(draws: Draws, nodes: np.ndarray, lanes: np.ndarray) -> np.ndarray:
    """Random keys ``[lanes of all nodes, 2]``, uint32, of nodes by their numbers.

    A key is made of a seed, the node's number and the batch element, so computing a
    node again repeats its numbers, and batching cannot change them. Tier 0 makes the
    same (``native/cpp/draws.h``).
    """
    seeds, numbers = draws(nodes)
    bits = (numbers.astype(np.uint64) * _NODE).repeat(lanes)
    starts = (lanes.cumsum() - lanes).repeat(lanes)
    element = np.arange(len(bits)) - starts
    bits += element.astype(np.uint64) * _GOLDEN
    bits = scramble(scramble(bits) ^ scramble(seeds).repeat(lanes))
    halves = bits & np.uint64(0xFFFFFFFF), bits >> np.uint64(32)
    return np.stack(halves, 1).astype(np.uint32)


def scramble(x: np.ndarray) -> np.ndarray:
    """64 well mixed bits of each number (the finaliser of SplitMix64)."""
    x = (x ^ (x >> np.uint64(30))) * _MIX_1
    x = (x ^ (x >> np.uint64(27))) * _MIX_2
    mixed: np.ndarray = x ^ (x >> np.uint64(31))
    return mixed
