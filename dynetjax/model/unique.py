"""Objects that are what they are."""

from typing import NoReturn

from dynetjax.core.errors import error_text


class Whole:
    """Mixin that refuses ``copy.copy``: half a copy would share what it must not.

    ``copy.deepcopy`` and ``pickle`` make whole copies, of all that belongs to it.
    """

    __slots__ = ()

    def __copy__(self) -> NoReturn:
        raise TypeError(
            error_text(
                f"{type(self).__name__}: no shallow copies",
                got="copy.copy",
                expected="one object, passed around",
                fix="copy.deepcopy, which copies the parameters, too",
            )
        )


class Unique:
    """Mixin that refuses ``copy.copy``, ``copy.deepcopy`` and ``pickle.dumps``."""

    __slots__ = ()

    def __reduce_ex__(self, protocol: object) -> NoReturn:
        raise TypeError(
            error_text(
                f"{type(self).__name__}: no copies and no pickles",
                got="copy or pickle",
                expected="one object, passed around",
                fix="copy or save what it was made of, and make it again",
            )
        )
