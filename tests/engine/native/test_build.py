"""The executor is needed."""

import subprocess
import sys

PROGRAM = """
import sys
sys.modules["dynetjax.engine.native.core"] = None
import dynetjax
"""


def test_without_it_nothing_is_imported():
    command = [sys.executable, "-c", PROGRAM]
    done = subprocess.run(command, capture_output=True, text=True)
    assert done.returncode
    assert "ImportError: dynetjax: its C++ was not compiled here" in done.stderr
    assert "pip install -e ." in done.stderr
