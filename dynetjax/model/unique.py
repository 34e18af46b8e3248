"""Objects that are what they are: neither copied nor pickled, as in DyNet."""

from typing import NoReturn

from dynetjax.errors import explain


class Unique:
    """Mixin that refuses ``copy.copy``, ``copy.deepcopy`` and ``pickle.dumps``."""

    __slots__ = ()

    def __reduce_ex__(self, protocol: object) -> NoReturn:
        raise TypeError(
            explain(
                f"{type(self).__name__}: no copies and no pickles",
                got="copy or pickle",
                expected="one object, passed around",
                fix="save the collection to a file and load it",
            )
        )
