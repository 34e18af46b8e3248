"""Strongly connected components, beside SciPy's."""

import itertools
import random

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


@pytest.mark.parametrize("seed", range(20))
def test_in_reverse(seed):
    """Each reaches all of itself, and what it leads to came before."""
    draw = random.Random(seed)
    size = draw.randint(1, 12)
    edges = [set(draw.choices(range(size), k=draw.randint(0, 2))) for _ in range(size)]
    reached = [[j in edges[i] or i == j for j in range(size)] for i in range(size)]
    for k, i, j in itertools.product(range(size), repeat=3):
        reached[i][j] = reached[i][j] or (reached[i][k] and reached[k][j])
    found = strongly_connected([*range(size)], dict(enumerate(edges)))[::-1]
    assert sorted(itertools.chain(*found)) == list(range(size))
    for at, part in enumerate(found):
        there, back = reached[part[0]], [row[part[0]] for row in reached]
        assert set(part) == {j for j in range(size) if there[j] and back[j]}
        assert not any(there[j] for later in found[at + 1 :] for j in later)
