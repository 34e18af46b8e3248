"""What Python's library and NumPy had in Python 2, by modules.

A converted program that imports ``math`` has `CHANGED` ``+ "math"``: a module with all
that ``math`` has, and what is here. Other modules import ``math`` as it is.
"""

import collections.abc
import configparser
import errno
import hashlib
import inspect
import math
import string
import subprocess
import time
from collections.abc import Callable
from functools import partial
from typing import Any

from dynetjax.compat.python2 import files, names

CHANGED = "python2_"


def _collections() -> dict[str, Any]:
    abstract = collections.abc
    return {name: getattr(abstract, name) for name in abstract.__all__}


def _hashes() -> dict[str, Any]:
    """The hashes, of text, too."""

    def of_text(make: Any) -> Any:
        return lambda data=b"", **options: make(files.encoded(data), **options)

    return {name: of_text(getattr(hashlib, name)) for name in ("md5", "sha1", "sha256")}


def _string() -> dict[str, Any]:
    """Functions that are methods now, and names of letters."""
    methods = "lower upper strip lstrip rstrip split rsplit replace find count"
    made: dict[str, Any] = {name: getattr(str, name) for name in methods.split()}
    made |= {
        "letters": string.ascii_letters,
        "lowercase": string.ascii_lowercase,
        "uppercase": string.ascii_uppercase,
        "join": lambda words, between=" ": between.join(words),
        "maketrans": str.maketrans,
        "atoi": int,
        "atof": float,
    }
    return made


def _subprocess() -> dict[str, Any]:
    """Processes whose pipes have text."""
    text = {"encoding": files.UTF8[0], "errors": files.UTF8[1]}
    return {
        "Popen": partial(subprocess.Popen, **text),
        "check_output": partial(subprocess.check_output, **text),
    }


def _floats() -> dict[str, Any]:
    return {
        "floor": lambda number: float(math.floor(number)),
        "ceil": lambda number: float(math.ceil(number)),
    }


def _numpy() -> dict[str, Any]:
    """Python's types, which NumPy no longer has."""
    types = {"int": int, "float": float, "bool": bool, "object": object, "long": int}
    return types | {"str": str, "unicode": str}


MADE: dict[str, Callable[[], dict[str, Any]]] = {
    "codecs": lambda: {"getreader": files.reader, "getwriter": files.writer},
    "collections": _collections,
    "configparser": lambda: {"SafeConfigParser": configparser.ConfigParser},
    "gzip": lambda: {"open": files.gzip_open},
    "hashlib": _hashes,
    "inspect": lambda: {"getargspec": inspect.getfullargspec},
    "math": _floats,
    "numpy": _numpy,
    "operator": lambda: {"div": names.divide, "idiv": names.divide_in_place},
    "os": lambda: {"errno": errno},
    "pickle": lambda: {"dump": files.dump, "load": files.load, "loads": files.loads},
    "string": _string,
    "subprocess": _subprocess,
    "time": lambda: {"clock": time.process_time},
}
