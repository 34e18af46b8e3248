"""Tier 1 by itself, and a device beside the host, where there is none."""

import pytest

from dynetjax.engine import device, policy
from dynetjax.engine.plan import widths
from dynetjax.engine.runtime import RUNTIME
from dynetjax.engine.xla import buffers, compiling, run


@pytest.fixture(autouse=True, scope="module")
def _tier_1(request):
    """XLA computes all graphs, however small, but in tests of tier 0."""
    with pytest.MonkeyPatch.context() as patch:
        if "native" not in request.path.parts:
            patch.setattr(RUNTIME, "tier", "xla")
        yield


@pytest.fixture
def far(monkeypatch):
    """Programs run as on a device whose memory the host does not see."""
    for module in device, policy, run, buffers, widths, compiling:
        monkeypatch.setattr(module, "host_sees_device", lambda: False)
