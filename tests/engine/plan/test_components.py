"""Strongly connected components, beside SciPy's."""

import numpy as np
import pytest
from scipy.sparse.csgraph import connected_components

from dynetjax.engine.plan.components import strongly_connected


@pytest.mark.parametrize("seed", range(20))
def test_components_are_scipys_and_in_order(seed):
    """What feeds a component comes before it."""
    rng = np.random.default_rng(seed)
    count = int(rng.integers(1, 30))
    edges = rng.random((count, count)) < rng.uniform(0, 3) / count
    feeds = {a: set(np.flatnonzero(edges[a]).tolist()) for a in range(count)}
    found = strongly_connected([*range(count)], feeds)
    number, label = connected_components(edges, connection="strong")
    assert len(found) == number
    assert sorted(node for nodes in found for node in nodes) == [*range(count)]
    assert all(len({*label[nodes].tolist()}) == 1 for nodes in found)
    place = {node: k for k, nodes in enumerate(found) for node in nodes}
    for a, several in feeds.items():
        assert all(place[a] <= place[b] for b in several)


def test_a_chain_longer_than_python_may_recurse():
    count = 20_000
    feeds = {a: {a + 1} if a + 1 < count else set() for a in range(count)}
    assert strongly_connected([*range(count)], feeds) == [[a] for a in range(count)]
