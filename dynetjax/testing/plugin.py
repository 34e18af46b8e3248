"""For pytest: ``pytest_plugins = ["dynetjax.testing.plugin"]`` in conftest.py."""

from collections.abc import Iterator

import pytest

from dynetjax.graph import renew_cg
from dynetjax.model.collection import ParameterCollection
from dynetjax.model.random import reset_random_seed


@pytest.fixture
def model() -> Iterator[ParameterCollection]:
    """A new collection in a new graph; random numbers begin with seed 1."""
    renew_cg()
    reset_random_seed(1)
    yield ParameterCollection()
    renew_cg()
