"""The engine's state: what one graph leaves for the next, in one object."""

import threading
from collections.abc import Hashable, Iterator
from contextlib import contextmanager
from typing import Any, Final

from dynetjax.core.tables import forgets


class Runtime:
    """Everything that the engine knows of earlier graphs.

    Results of functions without effects, compiled ones among them, are theirs
    (`remembers`, `lru_cache`).

    Attributes:
        tier: that computes: auto, native or xla.
        device_named: the user has named the device that is to compute.
        deterministic: nothing may depend on how long something takes.
        keeps_byte_code: in files, for the next process.
        families: lists of program families, by the roots of their graphs and whether
            these are later parts of graphs (`plan.layout`).
        places: who settles on a width, by what it computes (`plan.widths`).
        made: by code, the sizes at which there was a program (`plan.causes`).
        components: that are in a program.
        variants: of operations, by the roots of graphs.
        byte_code: by number of a fused op (`native.part`).
        buffers: buffer pools, by use (`xla.buffers`).
        lock: for whoever changes these. An interrupt may leave it held, and a run may
            end, and release its arrays, while this thread holds it.
    """

    def __init__(self) -> None:
        self.tier = "auto"
        self.device_named = self.deterministic = False
        self.keeps_byte_code = True
        self.lock: threading.RLock = threading.RLock()
        self.families: dict[Hashable, list[Any]] = {}
        self.width_choices: dict[Hashable, Any] = {}
        self.made: dict[Any, list[tuple[Any, ...]]] = {}
        self.components: set[Any] = set()
        self.variants: dict[Hashable, Any] = {}
        self.byte_code: dict[int, Any] = {}
        self.buffers: dict[Hashable, Any] = {}

    def forget(self) -> None:
        """Know no graph any more."""
        with self.lock:
            for known in self._tables():
                known.clear()

    def _tables(self) -> list[Any]:
        programs = [self.families, self.width_choices, self.made, self.components]
        return [*programs, self.variants, self.byte_code, self.buffers]

    @contextmanager
    def apart(self) -> Iterator["Runtime"]:
        """A context in which nothing is known, and after which all is as before."""
        before = dict(vars(self))
        fresh = Runtime()
        fresh.tier, fresh.keeps_byte_code = self.tier, self.keeps_byte_code
        vars(self).update(vars(fresh))
        try:
            yield self
        finally:
            vars(self).update(before)


RUNTIME: Final = Runtime()
forgets(RUNTIME.forget)
