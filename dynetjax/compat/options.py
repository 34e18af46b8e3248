"""What can be set on the command line when a program starts.

A flag is ``--dynet-x VALUE`` or ``--dynet-x=VALUE``, with ``_`` for ``-`` if one likes.
Names may go on (``--dynet-memory``), as in DyNet; flags that are not known are left to
the program.
"""

import dataclasses
import math
import re
from collections.abc import Callable, Sequence
from typing import Any

from dynetjax.core.errors import error_text
from dynetjax.core.precision import EXACT, PRECISIONS

AUTO = "auto"


@dataclasses.dataclass
class Options:
    """The settings of a process.

    Attributes:
        mem: MB, or MB of four pools: ``"512"``, ``"100,200,100,100"``. Memory is
            taken as it is needed: the number means nothing here.
        seed: of random numbers; 0 asks for another one in every run.
        autobatch: DyNet's strategy. Nodes are computed together in any case.
        profiling: see `dynetjax.init`.
        weight_decay: of new collections.
        shared_parameters: asked for; cannot be had.
        requested_gpus: how many GPUs were asked for.
        devices: names of devices that were asked for; `AUTO` alone is for none.
        viz: draw graphs, and compute nothing.
        trust: let `dynetjax.load` trust every file.
        precision: see `dynetjax.init`.
    """

    mem: str = "512"
    seed: int = 0
    autobatch: int = 0
    profiling: int = 0
    weight_decay: float = 0.0
    shared_parameters: bool = False
    requested_gpus: int = 0
    devices: tuple[str, ...] = ()
    viz: bool = False
    trust: bool = False
    precision: str = EXACT


def parse(words: Sequence[str]) -> Options:
    """What a command line asks for.

    Raises:
        ValueError: a value is missing or will not do; GPUs or devices are asked for
            twice.
    """
    options, given = Options(), set()
    for k, word in enumerate(words):
        name, equals, value = word.partition("=")
        flag = _flag(name.replace("_", "-"))
        if flag is None:
            continue
        field, read = _FLAGS[flag]
        if flag in _ONCE and field in given:
            raise wrong(flag, "given twice", "once", "name all in one list")
        given.add(field)
        if read is None:
            setattr(options, field, 1 if field == "requested_gpus" else True)
            continue
        if not equals:
            value = words[k + 1] if k + 1 < len(words) else ""
            if not value or value.startswith("--"):
                raise wrong(flag, "no value", "a value", f"{flag}=VALUE")
        setattr(options, field, read(flag, value))
    if {"requested_gpus", "devices"} <= given:
        raise wrong(
            "--dynet-devices", "--dynet-gpus as well", "one of them", "leave one out"
        )
    return options


def _flag(name: str) -> str | None:
    """The flag that a word means, if it means one."""
    if name in _SWITCHES:
        return name
    return next((f for f in _VALUED if name.startswith(f)), None)


def memory(name: str, value: Any) -> str:
    """A number of MB, or four of them.

    Raises:
        ValueError: it is something else.
    """
    text = str(value)
    if not re.fullmatch(r"[1-9]\d*|\d+,\d+,\d+,\d+", text):
        raise wrong(name, repr(text), "MB, or MB of four pools", f"{name} 512")
    return text


def whole(low: float = -math.inf, high: float = math.inf) -> Callable[[str, Any], int]:
    """What reads a whole number in this range, or raises ValueError."""

    def read(name: str, value: Any) -> int:
        try:
            number = int(value)
        except (TypeError, ValueError):
            number = None
        if number is None or not low <= number <= high:
            expected = "a whole number"
            if low > -math.inf:
                expected += f" from {low:g}"
            if high < math.inf:
                expected += f" to {high:g}"
            raise wrong(name, repr(value), expected, f"{name} {max(low, 0):g}")
        return number

    return read


def seed(name: str, value: Any) -> int:
    """A number that is taken modulo 2**32.

    Raises:
        ValueError: it is none.
    """
    return whole()(name, value) % 2**32


def strategy(name: str, value: Any) -> int:
    """0 to 3, or more than 99.

    Raises:
        ValueError: it is something else.
    """
    number = whole(0)(name, value)
    if 3 < number < 100:
        raise wrong(name, number, "0, 1, 2, 3, or more than 99", f"{name} 1")
    return number


def decay(name: str, value: Any) -> float:
    """A number in [0, 1).

    Raises:
        ValueError: it is something else.
    """
    try:
        number = float(value)
    except (TypeError, ValueError):
        number = math.nan
    if not 0 <= number < 1:
        raise wrong(name, repr(value), "0 <= number < 1", f"{name} 0")
    return number


def _precision(name: str, value: str) -> str:
    if value not in PRECISIONS:
        expected = ", ".join(PRECISIONS)
        raise wrong(name, repr(value), expected, f"{name} {EXACT}")
    return value


def _devices(name: str, value: str) -> tuple[str, ...]:
    """Names of devices with commas between."""
    if value == AUTO:
        return (AUTO,)
    names = tuple(value.split(","))
    for one in names:
        if not re.fullmatch(r"CPU|GPU:\d+", one):
            raise wrong(
                name, repr(one), "auto, CPU, or GPU:0 and the like", f"{name} CPU"
            )
    if len(set(names)) < len(names):
        raise wrong(name, repr(value), "each device once", f"{name} CPU")
    return names


def wrong(name: str, got: Any, expected: str, fix: str) -> ValueError:
    message = f"{name}: it will not do"
    return ValueError(error_text(message, got=got, expected=expected, fix=fix))


Read = Callable[[str, str], Any]
_FLAGS: dict[str, tuple[str, Read | None]] = {
    "--dynet-mem": ("mem", memory),
    "--dynet-seed": ("seed", seed),
    "--dynet-autobatch": ("autobatch", strategy),
    "--dynet-profiling": ("profiling", whole(0, 2)),
    "--dynet-weight-decay": ("weight_decay", decay),
    "--dynet-gpus": ("requested_gpus", whole(0)),
    "--dynet-devices": ("devices", _devices),
    "--dynet-precision": ("precision", _precision),
    "--dynet-gpu": ("requested_gpus", None),
    "--dynet-viz": ("viz", None),
    "--dynet-trust": ("trust", None),
    "--dynet-shared-parameters": ("shared_parameters", None),
}
_SWITCHES = [flag for flag, (_, read) in _FLAGS.items() if read is None]
_VALUED = [flag for flag, (_, read) in _FLAGS.items() if read is not None]
_ONCE = ("--dynet-gpus", "--dynet-devices")
