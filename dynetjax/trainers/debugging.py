"""Under ``init(debug=True)``: updates without gradients, and gradients that add up."""

import warnings
from typing import Any, Final

from dynetjax.core.errors import error_text
from dynetjax.core.expression import Expression
from dynetjax.core.nodes import frame_of_user, line_of_user
from dynetjax.trainers.base import Trainer
from dynetjax.trainers.members import Members

# What is called otherwise: methods are exchanged, so that nothing else becomes slower.
_backward, _update = Expression.backward, Trainer._update


class Watch:
    """Tells of steps that are perhaps not meant.

    Attributes:
        line: of the last `backward` since an update; "" if there is none.
    """

    def __init__(self) -> None:
        self.line = ""

    def begin(self) -> None:
        """Watch from now on."""
        self.line = ""
        self._exchange(_noted_backward, _noted_update)

    def end(self) -> None:
        """Watch no longer."""
        self._exchange(_backward, _update)

    def _exchange(self, backward: Any, update: Any) -> None:
        setattr(Expression, "backward", backward)  # noqa: B010
        setattr(Trainer, "_update", update)  # noqa: B010


WATCH: Final = Watch()


def _noted_backward(self: Expression, full: object = False) -> None:
    _backward(self, full)
    before, WATCH.line = WATCH.line, line_of_user()
    if before:
        _tell(
            "backward: its gradients are added to those of an earlier backward()",
            got=f"backward() at {before}, and no update() since",
            expected="an update() after each, unless gradients are to add up",
            fix="trainer.update(); or warnings.filterwarnings('ignore', 'backward: ')",
        )


def _noted_update(self: Trainer, members: Members) -> None:
    storages = self._storages()
    if storages and not any(s.has_gradient for s in storages):
        _tell(
            "update: no parameter has a gradient",
            got="update() without backward(), or of a loss without these parameters",
            expected="loss.backward() before",
            fix="backward(); or warnings.filterwarnings('ignore', 'update: ')",
        )
    WATCH.line = ""
    _update(self, members)


def _tell(problem: str, *, got: str, expected: str, fix: str) -> None:
    """Warn at the user's line."""
    frame = frame_of_user()
    message = error_text(problem, got=got, expected=expected, fix=fix)
    where = frame.f_code.co_filename, frame.f_lineno
    warnings.warn_explicit(message, RuntimeWarning, *where)
