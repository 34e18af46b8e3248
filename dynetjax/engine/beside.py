"""Programs that are made while the host computes graphs without them."""

import threading
from collections.abc import Callable

from dynetjax.engine.compiling import compiles_well_at_once
from dynetjax.engine.device import host_sees_device
from dynetjax.engine.fused import Sized
from dynetjax.engine.heap import give_back
from dynetjax.engine.stats import falling_back


class Beside:
    """Makes programs beside other work, in threads.

    Args:
        is_training: whether graphs are computed to train a model.
    """

    def __init__(self, is_training: Callable[[], bool]) -> None:
        self._is_training = is_training
        self._thread: threading.Thread | None = None
        self._lock = threading.Lock()

    @property
    def is_wanted(self) -> bool:
        """Whether the host may compute a graph while programs for it are made."""
        return (
            host_sees_device() and self._is_training() and not compiles_well_at_once()
        )

    @property
    def is_busy(self) -> bool:
        """Whether something is not there yet.

        It is begun when this is first asked: in the next graph, after an update, which
        would have to share the cores while it is compiled itself.
        """
        thread = self._begun()
        return thread is not None and thread.is_alive()

    def wait(self) -> None:
        """Until all is there."""
        thread = self._begun()
        if thread is not None:
            thread.join()

    def make(self, programs: list[Callable[[], Sized]]) -> None:
        """Compile or load programs, after what is on its way."""
        self.wait()
        self._thread = threading.Thread(
            target=_make, args=(programs,), name="dynetjax-beside"
        )

    def _begun(self) -> threading.Thread | None:
        """The thread, which runs or has come to its end."""
        if self._thread is None:
            return None
        with self._lock:
            if self._thread.ident is None:
                self._thread.start()
            return self._thread


def _make(programs: list[Callable[[], Sized]]) -> None:
    """While some are compiled, others are traced."""
    begun = []
    for program in programs:
        if threading.main_thread().is_alive():
            with falling_back("beside"):  # it is raised when it is run
                made, shapes = program()
                made.prepare(*shapes)
                begun.append(made)
    for made in begun:
        made.wait()
    give_back()
