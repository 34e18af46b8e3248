"""How times and sizes are shown."""

import pytest

from dynetjax.core.reprs import bytes_text, counted, time_text

TIMES = {
    0: "0 us",
    12e-6: "12 us",
    0.9996e-3: "1.00 ms",
    0.5: "500.00 ms",
    1: "1.00 s",
    75: "75.00 s",
}
SIZES = {
    0: "0 B",
    999: "999 B",
    1000: "1.0 KB",
    1536: "1.5 KB",
    20 << 10: "20 KB",
    1000 << 10: "1.0 MB",
    3 << 29: "1.5 GB",
    5000 << 30: "5,000 GB",
}


@pytest.mark.parametrize("seconds", TIMES)
def test_time(seconds):
    assert time_text(seconds) == TIMES[seconds]


@pytest.mark.parametrize("size", SIZES)
def test_bytes(size):
    assert bytes_text(size) == SIZES[size]


def test_counts():
    assert counted(1, "node") == "1 node"
    assert counted(0, "node") == "0 nodes"
    assert counted(1234, "node") == "1,234 nodes"
