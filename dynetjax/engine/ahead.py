"""Programs that are loaded before anybody asks for them.

A process that begins with the same program as an earlier one mostly needs the same ones
after it. Each is asked for when the one before has been run or traced, so one core
would wait, where there are two. So the first ones are listed in a file beside the very
first, and once that is asked for, threads load the others.
"""

import threading
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import suppress
from pathlib import Path
from typing import Any

from dynetjax.engine import stored
from dynetjax.engine.cache_folder import draft_of

PREFIX = "dynetjax_next-"
MOST = 8  # programs that are listed
THREADS = 2


class Ahead:
    """The first programs of a process."""

    def __init__(self) -> None:
        self._list: Path | None = None
        self._names: list[str] = []
        self._coming: dict[Path, Future[Any]] = {}
        self._lock = threading.Lock()

    def note(self, file: Path) -> None:
        """A program is asked for; it is kept in a file, or will be."""
        with self._lock, suppress(OSError, UnicodeDecodeError):  # loaded one by one
            if self._list is None:
                self._begin(file)
            elif file.name not in self._names and len(self._names) < MOST:
                self._names.append(file.name)
                with draft_of(self._list) as draft:
                    draft.write_text("\n".join(self._names))

    def _begin(self, first: Path) -> None:
        self._list = first.with_name(f"{PREFIX}{first.name}")
        self._names = [first.name]
        if not self._list.exists():
            return
        self._names = self._list.read_text().split("\n")[:MOST]
        pool = ThreadPoolExecutor(THREADS, "dynetjax-loading")
        for name in self._names:
            file = first.with_name(name)
            if file != first:
                self._coming[file] = pool.submit(stored.load, file)
        pool.shutdown(wait=False)

    def load(self, file: Path) -> Any:
        """As `stored.load`; what was loaded, or is being loaded, is waited for."""
        coming = self._coming.pop(file, None)
        return stored.load(file) if coming is None else coming.result()


ahead = Ahead()
