"""Lets the tests of this folder import `cases` and `computed`; see the one above."""

import pathlib
import sys

from dynetjax.engine.native import core

sys.path.insert(0, str(pathlib.Path(__file__).parent))
if core is None:
    collect_ignore_glob = ["test_*.py"]
