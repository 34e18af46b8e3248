"""A device beside the host, where there is none."""

import pytest

from dynetjax.engine import beside, device, engine, run, schedule, scratch


@pytest.fixture
def far(monkeypatch):
    """Programs run as on a device whose memory the host does not see."""
    for module in beside, device, engine, run, schedule, scratch:
        monkeypatch.setattr(module, "host_sees_device", lambda: False)
