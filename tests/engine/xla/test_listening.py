"""What JAX tells of its compilations is counted once."""

import numpy as np

from dynetjax.engine.xla.listening import Spans


def test_time_that_is_spent_side_by_side_counts_once():
    """Spans come as they end, some within others; seconds of a ruler are the check."""
    rng = np.random.default_rng(2)
    for _ in range(50):
        spans, ruler, counted = Spans(), np.zeros(40, bool), 0.0
        several = rng.integers(0, 40, (12, 2))
        several.sort(axis=1)
        for start, end in several[several[:, 1].argsort()].tolist():
            ruler[start:end] = True
            counted += spans.add(start, end)
        assert counted == ruler.sum()
