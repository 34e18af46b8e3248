"""Parameters: trainable tensors, usable wherever an Expression is."""

from typing import Any, TypeVar, overload

import numpy as np
from numpy.typing import ArrayLike

from dynetjax.core.dims import Dim, Shape
from dynetjax.core.errors import error_text
from dynetjax.core.expression import Expression, Leaf
from dynetjax.graph import ComputationGraph, current_graph
from dynetjax.io.text import FilePath
from dynetjax.model import loading, saving
from dynetjax.model.storage import DenseStorage, copy_of, to_host
from dynetjax.model.unique import Whole
from dynetjax.ops.arrays import to_array
from dynetjax.ops.flow import nobackprop
from dynetjax.ops.sources import parameter_signature

Given = TypeVar("Given")


class _Leaf(Leaf):
    """A parameter seen as an expression of whichever graph it is used in."""

    __slots__ = ("still",)
    constant: bool = False
    storage: DenseStorage
    still: "ConstantParameters | None"

    def __init__(self, storage: DenseStorage):
        self.storage = storage
        self.still = None
        of = storage.ident, storage.shape
        self._set_signature(parameter_signature(*of, self.constant))

    def __reduce__(self) -> tuple[Any, ...]:
        return type(self), (self.storage,)

    def __repr__(self) -> str:
        """DyNet's."""
        return str(self)

    def _repr_pretty_(self, printer: Any, cycle: bool) -> None:
        """IPython shows dims, too."""
        del cycle
        frozen = "" if self.storage.updated else ", not updated"
        printer.text(f"{self} {Dim(self.storage.shape)}{frozen}")

    def locate(self) -> tuple[ComputationGraph, Expression]:
        return current_graph(), self

    def _for_numpy(self) -> np.ndarray:
        return to_host(self.storage.host_values())


class ConstantParameters(_Leaf):
    """What ``p.expr(update=False)`` gives: the values, without a gradient."""

    __slots__ = ()
    constant: bool = True

    def __str__(self) -> str:
        return f"Constant {self.storage.name}"


class Parameters(Whole, _Leaf):
    """A trainable tensor of a collection; made by `add_parameters`.

    It is an expression of every graph.
    Arrays come out as float64 copies, so that writing to one never changes the
    model. Gradients add up over all ``backward()`` until a trainer's ``update()``.

    Examples:
        >>> m = dy.ParameterCollection()
        >>> W = m.parameters_from_numpy(np.array([[1, 2], [3, 4]]), name="W")
        >>> loss = dy.sum_elems(W * dy.inputVector([1, 10]))
        >>> loss.backward()
        >>> print(W.name(), loss.value())
        /W 64.0
        >>> print(W.grad_as_array())
        [[ 1. 10.]
         [ 1. 10.]]
    """

    __slots__ = ()
    still: ConstantParameters | None

    def __str__(self) -> str:
        return f"Parameter {self.storage.name}"

    def name(self) -> str:
        """Full name, ``/encoder/W``."""
        return self.storage.name

    def shape(self) -> Shape:
        return self.storage.shape

    def expr(self, update: bool = False) -> Expression:
        """This parameter as an expression.

        With `update` False, the default, no gradient reaches the parameter.
        """
        if update:
            return self
        if self.still is None:
            self.still = ConstantParameters(self.storage)
        return self.still

    def as_array(self) -> np.ndarray:
        """The values, a float64 copy."""
        return to_host(self.storage.host_values())

    def grad_as_array(self) -> np.ndarray:
        """The accumulated gradient, a float64 copy; zeros if there is none."""
        return self.storage.host_gradient()

    def set_value(self, arr: ArrayLike) -> None:
        """Replace the values by an array or nested lists of the same shape.

        Raises:
            ValueError: the shape differs.
        """
        array = to_array(arr, np.float32)
        if array.shape != self.storage.shape:
            raise ValueError(
                error_text(
                    f"set_value: the shape is not that of {self.name()}",
                    got=array.shape,
                    expected=self.storage.shape,
                    fix="reshape the array",
                )
            )
        self.storage.values = copy_of(array)

    def zero(self) -> None:
        """Set the values to 0, and clear the gradient."""
        self.storage.values = np.zeros(self.storage.shape, np.float32)
        self.storage.take_gradient()

    def scale(self, s: float) -> None:
        """Multiply the values by `s`."""
        self.storage.values = self.storage.present * np.float32(s)

    def scale_gradient(self, s: float) -> None:
        """Multiply the gradient by `s`."""
        self.storage.scale_gradient(s)

    def clip_inplace(self, left: float, right: float) -> None:
        """Bring every value into ``[left, right]``."""
        low, high = np.float32(left), np.float32(right)
        self.storage.values = self.storage.present.clip(low, high)

    def is_updated(self) -> bool:
        """Whether trainers change this parameter."""
        return self.storage.updated

    def set_updated(self, b: bool) -> None:
        """Let trainers change this parameter, or leave it as it is.

        A frozen parameter keeps collecting gradients, which count in the norm that
        trainers clip by and are applied once it is updated again, as in DyNet.
        """
        self.storage.updated = bool(b)

    def save(self, fname: FilePath, key: str = "", append: bool = False) -> None:
        """Write the values, and the gradient if there is one, to a text file.

        Args:
            fname: the file.
            key: the name in the file; if empty, the full name.
            append: keep what the file has, and add to it.
        Raises:
            AttributeError: `fname` is no str or path.
            OSError: the disk is full.
            RuntimeError: the file cannot be written, or an update was refused.
            ValueError: `key` is ``/``, or has a space or a ``#`` in it.
        Warns:
            RuntimeWarning: a value is not finite, so that the file cannot be loaded.
        """
        saving.check_key(key, of_collection=False)
        saving.save(fname, [self.storage], [key or self.name()], bool(append))

    def write_to_textfile(
        self, fname: FilePath, key: str = "", append: bool = False
    ) -> None:
        """The same as `save`."""
        self.save(fname, key, append)

    def populate(self, fname: FilePath, key: str) -> None:
        """Set values and gradient to those that a text file has under `key`.

        Raises:
            AttributeError: `fname` is no str or path.
            RuntimeError: the file cannot be read, is damaged, has no parameter of
                that name or one with other dims; or an update was refused. Nothing
                was changed.
            ValueError: `key` is empty.
        """
        loading.fill_one(fname, key, self.storage)

    def populate_from_textfile(self, fname: FilePath, key: str = "") -> None:
        """The same as `populate`."""
        self.populate(fname, key)


_told = False


@overload
def parameter(arg: Given, /) -> Given: ...


@overload
def parameter() -> tuple[()]: ...


@overload
def parameter(first: Any, second: Any, /, *more: Any) -> tuple[Any, ...]: ...


def parameter(*args: Any) -> Any:
    """Its argument as it is; a tuple for none or several. Not needed any more.

    The first call prints DyNet's notice.

    Examples:
        >>> import contextlib, sys
        >>> W = dy.ParameterCollection().add_parameters((3, 2))
        >>> with contextlib.redirect_stdout(sys.stderr):  # for the notice
        ...     same = dy.parameter(W) is W
        >>> print(same)
        True
    """
    global _told
    if not _told:
        _told = True
        print("The dy.parameter(...) call is now DEPRECATED.")
        print(
            "        There is no longer need to explicitly add parameters to the"
            " computation graph."
        )
        print("        Any used parameter will be added automatically.")
    return args[0] if len(args) == 1 else args


@overload
def const_parameter(arg: Expression, /) -> Expression: ...


@overload
def const_parameter() -> list[Expression]: ...


@overload
def const_parameter(
    first: Expression, second: Expression, /, *more: Expression
) -> list[Expression]: ...


def const_parameter(*args: Expression) -> Any:
    """The values without a gradient; a list of them for none or several.

    The parameter counts as reached by `backward`, with a gradient of zero, and a
    table as used whole. ``p.expr(update=False)`` leaves it out altogether.

    Raises:
        TypeError: an argument is no Expression.
    Examples:
        >>> m = dy.ParameterCollection()
        >>> p = m.parameters_from_numpy(np.array([1, 2]))
        >>> dy.dot_product(p, dy.const_parameter(p)).backward()
        >>> print(p.grad_as_array())
        [1. 2.]
    """
    constants = [nobackprop(arg) for arg in args]
    return constants[0] if len(constants) == 1 else constants
