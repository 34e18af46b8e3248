"""Progress bars where tqdm is installed and stderr is a terminal or a notebook.

Elsewhere (a log, or no tqdm) a bar is one line on stderr, when its items are through;
none, if the bar has no title or is not to stay.
"""

import sys
import time
from collections.abc import Iterable, Iterator
from typing import Any


class Line:
    """What the examples call of a bar."""

    def __init__(
        self,
        items: Iterable[Any],
        desc: str = "",
        *,
        leave: bool = True,
        unit: str = "item",
        mininterval: float = 0.1,
    ):
        self.items, self.unit = items, unit
        self.title = desc if leave else ""
        self.values: dict[str, Any] = {}

    def __iter__(self) -> Iterator[Any]:
        count, start = 0, time.perf_counter()
        for item in self.items:
            yield item
            count += 1
        if self.title:
            values = "".join(f", {name} {x}" for name, x in self.values.items())
            seconds = time.perf_counter() - start
            line = f"{self.title}: {count} x {self.unit}, {seconds:.1f} s{values}"
            print(line, file=sys.stderr, flush=True)

    def set_postfix(self, *, refresh: bool = True, **values: Any) -> None:
        """The last values stand in the line."""
        self.values = values

    @staticmethod
    def write(text: str) -> None:
        """Print a line to stdout, as a bar does above itself."""
        print(text)


def choose() -> Any:
    """The class of bars."""
    if sys.stderr.isatty() or "ipykernel" in sys.modules:
        try:
            from tqdm.auto import tqdm

            return tqdm
        except ImportError:
            pass
    return Line


tqdm = choose()


def trange(*limits: int, **options: Any) -> Any:
    """A bar over a range."""
    return tqdm(range(*limits), **options)
