"""Which random numbers the nodes of a graph get."""

from collections.abc import Callable

import numpy as np

# Seeds and numbers of random nodes, by their numbers in the graph.
Draws = Callable[[np.ndarray], tuple[np.ndarray, np.ndarray]]


class SeededDraws:
    """Seeds and numbers of random nodes, from which their keys are made.

    Calling it with the numbers of nodes in the graph gives a seed for each, drawn when
    it is first met, and a number to go with it, counted from the last time that random
    numbers began again. It knows nothing of what was computed, and so keeps none of it.

    Args:
        draw_seed: gives a seed.
        reseeded: how many nodes there were each time that random numbers began again.
    """

    def __init__(self, draw_seed: Callable[[], int], reseeded: list[int]):
        self._draw_seed, self._reseeded = draw_seed, reseeded
        self._seeds: dict[int, int] = {}

    def _seed(self, epoch: int) -> int:
        found = self._seeds.get(epoch)
        if found is None:
            found = self._seeds[epoch] = self._draw_seed()
        return found

    def __call__(self, nodes: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        starts = self._reseeded
        if not starts:
            return np.full(len(nodes), self._seed(0), np.uint64), nodes
        epochs = np.searchsorted(starts, nodes, side="right")
        seeds = [self._seed(epoch) for epoch in epochs.tolist()]
        return np.array(seeds, np.uint64), nodes - np.array([0, *starts])[epochs]


def undrawn(nodes: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Stands for draws where the runtime data of a tape is to be written later."""
    return np.zeros(len(nodes), np.uint64), nodes
