"""Memory that was freed goes back to the system."""

import ctypes
import sys
from pathlib import Path

import pytest

from dynetjax.engine.xla import heap

PIECES, SIZE = 2000, 100_000  # too small to be mapped apart


def resident():
    pages = int(Path("/proc/self/statm").read_text().split()[1])
    return pages * 4096


def freed_below(libc):
    """Free many pieces of the heap, but for the last one, which is on top."""
    pieces = [libc.malloc(SIZE) for _ in range(PIECES)]
    for piece in pieces:
        ctypes.memset(piece, 1, SIZE)
    for piece in pieces[:-1]:
        libc.free(piece)
    return pieces[-1]


@pytest.mark.skipif(
    sys.platform != "linux" or heap._malloc_trim() is None, reason="glibc alone has it"
)
def test_what_is_free_is_returned():
    libc = ctypes.CDLL(None)
    libc.malloc.restype = ctypes.c_void_p
    libc.free.argtypes = [ctypes.c_void_p]
    last = freed_below(libc)
    before = resident()
    heap.give_back()
    assert before - resident() > PIECES * SIZE / 2
    libc.free(last)


def test_nothing_happens_where_the_library_has_no_such_function(monkeypatch):
    monkeypatch.setattr(heap, "_malloc_trim", lambda: None)
    heap.give_back()


def test_other_systems_are_not_asked(monkeypatch):
    monkeypatch.setattr(sys, "platform", "darwin")
    assert heap._malloc_trim.__wrapped__() is None
