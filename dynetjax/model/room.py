"""How much may be made of a saved object before the numbers of it are read."""

from collections.abc import Iterable

from dynetjax.core.dims import Shape
from dynetjax.core.errors import error_text
from dynetjax.io.text import Header, show_dims

# What is made and not saved: gains of LSTMs in files of DyNet, parameters that a user's
# class keeps outside its collection.
_SPARE_NUMBERS, _SPARE_PARAMETERS = 1 << 24, 1000


class Room:
    """What may still be added to a collection.

    A size that is damaged is noticed before memory is taken for it. What fits is
    compared with the file parameter by parameter when it is filled.

    Args:
        path: the file with the numbers.
        headers: its blocks.
    """

    def __init__(self, path: str, headers: Iterable[Header]):
        sizes = [header.size for header in headers]
        self._path, self._blocks, self._total = path, len(sizes), sum(sizes)
        self._parameters = 4 * len(sizes) + _SPARE_PARAMETERS
        self._numbers = 2 * sum(sizes) + _SPARE_NUMBERS

    def take(self, name: str, dims: Shape, numbers: int) -> None:
        """Count a parameter that is about to be added, and memory that it takes.

        Raises:
            RuntimeError: there is no room for it.
        """
        self._parameters -= 1
        self._numbers -= numbers
        if self._parameters < 0 or self._numbers < 0:
            raise RuntimeError(
                error_text(
                    f"load: {self._path} has too little for what is made for it",
                    got=f"{name} {show_dims(dims)}, and what was made before",
                    expected=f"{self._blocks} parameters, {self._total} numbers",
                    fix="the .meta file is damaged, or of another .data file;"
                    " trust=True, if a class makes much that it does not save",
                )
            )
