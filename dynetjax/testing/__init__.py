"""Tests of programs: gradients by differences, and values that DyNet has recorded.

    pytest_plugins = ["dynetjax.testing.plugin"]  # in conftest.py

gives pytest a fixture, `model`.
"""

from dynetjax.compat.tracebacks import hide_from_pytest
from dynetjax.testing.gradient_checks import assert_gradients
from dynetjax.testing.matching import assert_matches_dynet
from dynetjax.testing.recording import record

hide_from_pytest()

__all__ = ["assert_gradients", "assert_matches_dynet", "record"]
