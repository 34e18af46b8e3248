"""Lets the tests of this folder import `laws`, and has each compile what is its own.

Graphs without weights share a program, which would grow from one test to the next.
"""

import pathlib
import sys

import pytest

from dynetjax.engine.runtime import RUNTIME

sys.path.insert(0, str(pathlib.Path(__file__).parent))


@pytest.fixture(autouse=True)
def _by_itself():
    RUNTIME.families.clear()
