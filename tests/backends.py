"""Which machine tests are about."""

import jax
import pytest

on_cpu = pytest.mark.skipif(
    jax.default_backend() != "cpu", reason="about a CPU, or what is done for one"
)
