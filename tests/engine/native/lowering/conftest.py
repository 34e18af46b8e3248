"""Lets the tests of this folder import `cases` and `computed`; see the one above."""

import pathlib
import sys

sys.path.insert(0, str(pathlib.Path(__file__).parent))
