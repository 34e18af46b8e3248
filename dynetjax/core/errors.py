"""How an error message is laid out: what went wrong, got, expected, what to do."""

import functools
from collections.abc import Callable
from typing import ParamSpec, TypeVar

Given = ParamSpec("Given")
Result = TypeVar("Result")


def error_text(problem: str, *, got: object, expected: object, fix: str) -> str:
    """A message of four lines; the first names the operation.

    pickneglogsoftmax: x is not a vector of scores
      got:      {3,2X4}
      expected: {n} or {n X b}
      fix:      reshape x to a vector
    """
    return f"{problem}\n  got:      {got}\n  expected: {expected}\n  fix:      {fix}"


def named(function: Callable[Given, Result]) -> Callable[Given, Result]:
    """Let errors of what `function` calls name it, as the user called it.

    For a function made of other operations, whose messages begin with their own names.
    """

    @functools.wraps(function)
    def build(*args: Given.args, **kwargs: Given.kwargs) -> Result:
        try:
            return function(*args, **kwargs)
        except Exception as error:
            name, colon, rest = str(error).partition(": ")
            if colon and name.isidentifier():
                error.args = (f"{function.__name__}: {rest}",)
            raise

    return build


class CompilationWarning(UserWarning):
    """A program is compiled again and again, because one of its sizes varies.

    Examples:
        >>> import warnings
        >>> with warnings.catch_warnings():  # in tests, say
        ...     warnings.simplefilter("error", dy.CompilationWarning)
        ...     loss = dy.squared_norm(dy.inputVector([3, 4])).value()
        >>> print(loss)
        25.0
    """
