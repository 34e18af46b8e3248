"""Random numbers for first values: DyNet's generator, draw for draw.

One 32-bit Mersenne Twister serves the process. The same seed and the same order of
creation give the values that DyNet gives (to the last bit or the one before).
"""

import secrets
import threading
from typing import Any

import numpy as np

from dynetjax.core.errors import error_text
from dynetjax.core.group import PROCESS
from dynetjax.graph import current_graph

_BELOW_ONE = np.nextafter(np.float32(1), np.float32(0))
_MAX_SEED = 2**32 - 1
_PIECE = 1 << 20  # draws at a time: large tables need no memory but their own
_MASKS = 1  # tells the stream of masks from that of first values


def new_seed() -> int:
    """A seed that nobody knows; not 0, which stands for none where seeds are given."""
    return secrets.randbelow(_MAX_SEED) + 1


class _Generator:
    def __init__(self) -> None:
        self.lock = threading.RLock()
        self.reset(new_seed())

    def reset(self, seed: int) -> None:
        with self.lock:
            self.twister = np.random.RandomState(seed)
            rank = [PROCESS.rank] if PROCESS.rank else []  # others in each process
            self.masks = np.random.RandomState([seed, _MASKS, *rank])

    def streams(self) -> dict[str, np.random.RandomState]:
        """By what they are for."""
        return {"values": self.twister, "masks": self.masks}

    def unit(self, count: int) -> np.ndarray:
        """`count` float32 numbers in ``[0, 1)``, one 32-bit draw each."""
        numbers = np.empty(count, np.float32)
        for start in range(0, count, _PIECE):
            piece = numbers[start : start + _PIECE]
            piece[:] = self.twister.randint(0, 2**32, len(piece), dtype=np.uint32)
            piece *= np.float32(2.0**-32)
            np.minimum(piece, _BELOW_ONE, out=piece)
        return numbers

    def pairs(self, count: int) -> np.ndarray:
        """`count` pairs of float32 standard normal numbers, ``[count, 2]``.

        The polar method. No draw is taken beyond the last pair, so that what
        follows in the stream is what follows in DyNet's.
        """
        chunks: list[np.ndarray] = []
        while count > 0:
            points = np.float32(2) * self.unit(2 * count).reshape(count, 2)
            points -= np.float32(1)
            squared = points[:, 0] * points[:, 0] + points[:, 1] * points[:, 1]
            inside = (squared <= 1) & (squared > 0)
            points, squared = points[inside], squared[inside]
            factor = np.sqrt(np.float32(-2) * np.log(squared) / squared)
            chunks.append(points[:, ::-1] * factor[:, None])
            count -= len(points)
        return np.concatenate(chunks) if chunks else np.zeros((0, 2), np.float32)


_generator = _Generator()


def uniform(count: int, left: float, right: float) -> np.ndarray:
    """`count` float32 numbers, uniform in ``[left, right)``."""
    with _generator.lock:
        numbers = _generator.unit(count)
    numbers *= np.float32(right) - np.float32(left)
    numbers += np.float32(left)
    return numbers


def normal(count: int, mean: float, std: float) -> np.ndarray:
    """`count` float32 numbers from a normal distribution."""
    with _generator.lock:
        pairs = _generator.pairs((count + 1) // 2)
    return pairs.ravel()[:count] * np.float32(std) + np.float32(mean)


def reset_random_seed(seed: int) -> None:
    """Start the random numbers of the process again, from `seed`.

    Random nodes that this thread makes from now on have new draws, too.

    Args:
        seed: any 32-bit number; 0 is one like the others.
    Raises:
        OverflowError: `seed` is negative or above 2**32 - 1.
        TypeError: it is not a number.
    Examples:
        >>> m = dy.ParameterCollection()
        >>> first = m.add_parameters(4).as_array()
        >>> dy.reset_random_seed(1)
        >>> again = m.add_parameters(4).as_array()
        >>> print(np.array_equal(first, again))
        True
    """
    if isinstance(seed, str):
        raise TypeError(f"reset_random_seed: expected a number, got {seed!r}")
    number = int(seed)
    if not 0 <= number <= _MAX_SEED:
        raise OverflowError(
            error_text(
                "reset_random_seed: the seed is out of range",
                got=seed,
                expected=f"0 to {_MAX_SEED}",
                fix="take it modulo 2**32",
            )
        )
    _generator.reset(number)
    graph = current_graph()
    graph.reseeded.append(len(graph))


def state() -> dict[str, Any]:
    """Where both streams are, in plain values."""
    with _generator.lock:
        states = {}
        for name, stream in _generator.streams().items():
            _, key, position, *_ = stream.get_state()
            states[name] = [*map(int, key), int(position)]
        return states


def checked(state: dict[str, Any]) -> dict[str, Any]:
    """What `restore` takes, made of what `state` returned.

    Raises:
        KeyError, TypeError, ValueError: it is none.
    """
    states = {}
    for name in _generator.streams():
        *key, position = state[name]
        states[name] = ("MT19937", np.array(key, np.uint32), int(position), 0, 0.0)
        np.random.RandomState().set_state(states[name])
    return states


def restore(state: dict[str, Any]) -> None:
    """Go on from there."""
    with _generator.lock:
        for name, stream in _generator.streams().items():
            stream.set_state(state[name])


def mask_seed() -> int:
    """32 bits to make the keys of masks and noise from; others at each call.

    A stream of its own, set by the same seed: how many masks a program draws leaves
    the first values of its parameters alone.
    """
    with _generator.lock:
        return int(_generator.masks.randint(0, 2**32, dtype=np.uint32))
