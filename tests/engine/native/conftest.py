"""Lets the tests of this folder import `bench`."""

import pathlib
import sys

sys.path.insert(0, str(pathlib.Path(__file__).parent))
