"""Tracebacks that end at the user's line.

Python, IPython and pytest leave out the frames of this package, and of `runpy`, when
they print an error. The error itself stays as it is, so that debuggers, loggers and
programs which catch it find all frames. ``DYNETJAX_TRACEBACK=full`` shows them, as
``pytest --full-trace`` does.
"""

import os
import sys
import threading
from collections.abc import Callable
from pathlib import Path
from types import FrameType, TracebackType
from typing import Any, Final

FULL = "DYNETJAX_TRACEBACK"
_FOLDER: Final = str(Path(__file__).parents[1]) + os.sep
Hook = Callable[[Any, BaseException, TracebackType | None], object]


def is_full() -> bool:
    """Whether the user wants to see all frames."""
    return os.environ.get(FULL) == "full"


def _is_own(frame: FrameType) -> bool:
    file, name = frame.f_code.co_filename, frame.f_globals.get("__name__")
    is_script = name == "__main__" and Path(file).stem == "dynetjax"
    return name == "runpy" or is_script or file.startswith(_FOLDER)


def without_own(traceback: TracebackType | None) -> TracebackType | None:
    """A traceback without the frames of this package; as it is if it has no others."""
    kept, at = [], traceback
    while at is not None:
        if not _is_own(at.tb_frame):
            kept.append(at)
        at = at.tb_next
    made: TracebackType | None = None
    for at in reversed(kept):
        made = TracebackType(made, at.tb_frame, at.tb_lasti, at.tb_lineno)
    return made or traceback


def _chain(error: BaseException) -> list[BaseException]:
    """The error, and those that it came from."""
    found: list[BaseException] = []
    todo = [error]
    while todo:
        at = todo.pop()
        if at not in found:
            found.append(at)
            todo += [e for e in (at.__cause__, at.__context__) if e is not None]
    return found


def show_by(previous: Hook) -> Hook:
    """What prints an error as `previous` does, without the frames of this package."""

    def show(kind: Any, error: BaseException, traceback: TracebackType | None) -> None:
        if is_full():
            previous(kind, error, traceback)
            return
        before = [(e, e.__traceback__) for e in _chain(error)]
        shown = without_own(traceback)
        try:
            for e, whole in before:
                e.__traceback__ = without_own(whole)
            previous(kind, error, shown)
        finally:
            for e, whole in before:
                e.__traceback__ = whole
        if _length(shown) < _length(traceback):
            print(f"({FULL}=full shows the frames of dynetjax, too)", file=sys.stderr)

    return show


def _length(traceback: TracebackType | None) -> int:
    count = 0
    while traceback is not None:
        count, traceback = count + 1, traceback.tb_next
    return count


def shorten() -> None:
    """Have errors printed so, from now on."""
    sys.excepthook = show_by(sys.excepthook)
    threading.excepthook = _in_threads(threading.excepthook)
    if "IPython" in sys.modules:
        _shorten_in_ipython(sys.modules["IPython"].get_ipython())
    hide_from_pytest()


def _in_threads(previous: Callable[[Any], object]) -> Callable[[Any], None]:
    """What prints the error that a thread has ended by."""

    def show(args: Any) -> None:
        def by(kind: Any, error: BaseException, traceback: Any) -> None:
            previous(threading.ExceptHookArgs((kind, error, traceback, args.thread)))

        show_by(by)(args.exc_type, args.exc_value, args.exc_traceback)

    return show


def _shorten_in_ipython(shell: Any) -> None:
    """IPython prints errors by itself."""

    def show(
        shell: Any, kind: Any, error: Exception, traceback: Any, tb_offset: Any = None
    ) -> None:
        def previous(kind: Any, error: BaseException, shown: Any) -> None:
            shell.showtraceback((kind, error, shown), tb_offset=tb_offset)

        show_by(previous)(kind, error, traceback)

    if shell is not None and not shell.custom_exceptions:
        shell.set_custom_exc((Exception,), show)


def hide_from_pytest() -> None:
    """Mark the modules that are imported, where pytest runs."""
    if "_pytest" in sys.modules and not is_full():
        for name, module in list(sys.modules.items()):
            if name.partition(".")[0] == "dynetjax":
                setattr(module, "__tracebackhide__", True)  # noqa: B010
