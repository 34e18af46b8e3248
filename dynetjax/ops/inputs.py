"""Inputs: numbers from outside become nodes.

An input node keeps its numbers as a float32 array ``[batch, *shape]``, which is fed
at each run and is never part of a program.
"""

from array import array
from collections.abc import Sequence
from typing import Any, NoReturn

import numpy as np

from dynetjax.core.devices import check_device, on_device
from dynetjax.core.dims import MAX_ORDER, Dim, DimError, Shape, to_shape
from dynetjax.core.errors import error_text
from dynetjax.core.expression import Expression
from dynetjax.core.registry import INPUT, Op
from dynetjax.graph import current_graph
from dynetjax.ops.arguments import (
    Int,
    Ints,
    Number,
    Numbers,
    are_below,
    are_sizes,
    number,
    unsigned,
)
from dynetjax.ops.arrays import (
    NoNumbersError,
    is_array,
    is_dimensional,
    raise_if_expressions,
    raise_if_traced,
    to_array,
)

__all__ = [
    "inputMatrix",
    "inputTensor",
    "inputTensorTranspose",
    "inputVector",
    "matInput",
    "scalarInput",
    "sparse_inputTensor",
    "vecInput",
]


def _float32(values: Any) -> np.ndarray:
    """A new array in C order; what exceeds float32 becomes infinite, as in DyNet."""
    if type(values) is list and values and type(values[0]) in (float, int):
        try:
            return np.frombuffer(array("f", values), np.float32)
        except (TypeError, OverflowError):
            pass  # which are raised below
    if isinstance(values, np.ndarray) and values.dtype == np.float32:
        return np.array(values, order="C")
    raise_if_expressions(values)
    with np.errstate(over="ignore"):  # takes longer than all else
        try:
            return np.array(values, dtype=np.float32, order="C")
        except TypeError as error:
            raise_if_traced(error)
            raise


def _new_numbers(dim: Dim, data: np.ndarray, value: Any) -> np.ndarray:
    """`value`, flat and first index fastest, laid out as `data` is."""
    flat = np.ravel(_float32(value))
    if flat.size != data.size:
        raise ValueError(
            error_text(
                "set: the number of values does not fit the input",
                got=f"{flat.size} values for {dim}",
                expected=f"{data.size} values, first index fastest, batch last",
                fix="make a new input for another size",
            )
        )
    return _laid_out(dim, flat)


def weighted(size: int, places: list[int], weight: float) -> np.ndarray:
    """A vector as ``[1, size]``: `weight` in some places, and 0 in all others."""
    numbers = array("f", bytes(4 * size))
    for place in places:
        numbers[place] = weight
    return np.frombuffer(numbers, np.float32)[None]


LARGEST = 3.4e38  # nearly the largest float32
INPUT_OP = Op("input", form=INPUT, reset=_new_numbers)
FIXED_INPUT_OP = Op("inputTensor", form=INPUT)


def _input(op: Op, data: np.ndarray, device: str) -> Expression:
    """A node of `data`, which has its batch first."""
    graph, shape = current_graph(), data.shape
    return on_device(graph.add_rows(op, (), shape[1:], data, shape[0]), device)


def scalarInput(s: Number, device: str = "") -> Expression:
    """One number; `.set(s)` changes it.

    Args:
        s: a number.
        device: "", or the name of a device; see `to_device`.
    Returns:
        ``{1}``.
    Raises:
        TypeError: `s` is not a number.
        RuntimeError: there is no such device.
    Source: clab/dynet, ``dynet/nodes-const.cc``, ``python/_dynet.pyx``.
    Examples:
        >>> x = dy.scalarInput(2)
        >>> y = 3 * x
        >>> x.set(5)
        >>> y.value()
        15.0
    """
    check_device("scalarInput", device)
    value = number("scalarInput", "s", s)
    if -LARGEST < value < LARGEST:
        return _input(INPUT_OP, np.array(value, np.float32, ndmin=2), device)
    return _input(INPUT_OP, _float32([[value]]), device)


def vecInput(dim: Int, device: str = "") -> Expression:
    """A vector of zeros, to be filled by `.set(values)`.

    Args:
        dim: its length.
        device: "", or the name of a device; see `to_device`.
    Returns:
        ``{dim}``.
    Raises:
        TypeError: `dim` is not a number.
        OverflowError: it is negative.
        RuntimeError: there is no such device.
    Source: clab/dynet, ``dynet/nodes-const.cc``, ``python/_dynet.pyx``.
    Examples:
        >>> x = dy.vecInput(3)
        >>> x.set([1, 2, 3])
        >>> x.value()
        [1.0, 2.0, 3.0]
    """
    check_device("vecInput", device)
    size = unsigned("vecInput", "dim", dim)
    return _input(INPUT_OP, np.zeros((1, size), np.float32), device)


def inputVector(v: Numbers, device: str = "") -> Expression:
    """A vector; `.set(values)` changes its numbers.

    Args:
        v: a sequence of numbers, or a 1-d array.
        device: "", or the name of a device; see `to_device`.
    Returns:
        ``{len(v)}``.
    Raises:
        TypeError: `v` is not a sequence of numbers.
        ValueError: it is empty.
        RuntimeError: there is no such device.
    Source: clab/dynet, ``dynet/nodes-const.cc``, ``python/_dynet.pyx``.
    Examples:
        >>> dy.inputVector([1, 2, 3]).dim()
        ((3,), 1)
        >>> dy.inputVector(np.arange(3)).value()
        [0.0, 1.0, 2.0]
    """
    check_device("inputVector", device)
    vector = _vector("inputVector", v)
    return _input(INPUT_OP, _not_empty("inputVector", vector[None]), device)


def inputTensor(
    arr: list[Any] | np.ndarray,
    batched: bool = False,
    device: str = "",
    reusable_expr: bool = False,
) -> Expression:
    """A tensor, or a batch of them.

    Args:
        arr: an array or a nested list of numbers. A list whose elements are all
            arrays is a batch of them, whatever `batched` says.
        batched: the last axis is the batch.
        device: "", or the name of a device; see `to_device`.
        reusable_expr: let `.set(values)` change the numbers: a flat list, first index
            fastest, batch elements one after the other.
    Returns:
        The dims of `arr`; indices stay what they are in NumPy.
    Raises:
        TypeError: `arr` is a number, a tuple or a string.
        ValueError: it is empty, ragged, or has more than seven dimensions.
        RuntimeError: there is no such device.
    Source: clab/dynet, ``dynet/nodes-const.cc``, ``python/_dynet.pyx``.
    Examples:
        >>> dy.inputTensor([[1, 2, 3], [4, 5, 6]]).dim()
        ((2, 3), 1)
        >>> dy.inputTensor([[1, 2, 3], [4, 5, 6]], batched=True).dim()
        ((2,), 3)
        >>> dy.inputTensor([np.zeros(2), np.ones(2), np.ones(2)]).dim()
        ((2,), 3)
    """
    check_device("inputTensor", device)
    data = _not_empty("inputTensor", _batch_first(arr, batched))
    if data.ndim > MAX_ORDER + 1:
        raise DimError(
            error_text(
                "inputTensor: arr has too many dimensions",
                got=Dim(data.shape[1:], len(data)),
                expected=f"at most {MAX_ORDER}, and the batch",
                fix="reshape arr",
            )
        )
    return _input(INPUT_OP if reusable_expr else FIXED_INPUT_OP, data, device)


def _batch_first(arr: Any, batched: bool) -> np.ndarray:
    """`arr` as ``[batch, *shape]``."""
    if not isinstance(arr, (list, np.ndarray)) and is_array(arr):
        arr = to_array(arr)
    if not isinstance(arr, (list, np.ndarray)) or _has_no_axis(arr):
        raise _not_an_array(arr)
    if isinstance(arr, list) and _are_arrays(arr):
        return _at_least_a_vector(_regular(arr))
    values = _regular(arr)
    if not batched:
        return values[None]
    axes = values.ndim - 1, *range(values.ndim - 1)
    return _at_least_a_vector(np.ascontiguousarray(values.transpose(axes)))


def _are_arrays(arr: list[Any]) -> bool:
    if not arr or type(arr[0]) in (float, int, list):  # which tells of nearly all
        return False
    return all(isinstance(a, np.ndarray) or is_dimensional(a) for a in arr)


def _has_no_axis(arr: Any) -> bool:
    return isinstance(arr, np.ndarray) and arr.ndim == 0


def _regular(arr: Any) -> np.ndarray:
    try:
        return _float32(arr)
    except ValueError:
        raise ValueError(
            error_text(
                "inputTensor: arr is not a regular array of numbers",
                got=f"a {type(arr).__name__} with parts of different shapes",
                expected="numbers, in parts of one shape",
                fix="pad the parts to one length",
            )
        ) from None


def _at_least_a_vector(data: np.ndarray) -> np.ndarray:
    return data if data.ndim > 1 else data[:, None]


def _not_an_array(arr: Any) -> TypeError:
    return TypeError(
        error_text(
            "inputTensor: arr is not an array",
            got="an array of no dimension"
            if isinstance(arr, np.ndarray)
            else type(arr).__name__,
            expected="an array of at least one dimension, or a list",
            fix="np.array(...), or scalarInput for one number",
        )
    )


def _not_empty(name: str, data: np.ndarray) -> np.ndarray:
    if data.size == 0:
        raise ValueError(
            error_text(
                f"{name}: there are no numbers",
                got=f"shape {data.shape[1:]}",
                expected="at least one number",
                fix="leave the input out",
            )
        )
    return data


def inputTensorTranspose(
    val: Numbers,
    dim: tuple[int, ...] | None = None,
    batch_size: Int = 1,
    device: str = "",
) -> Expression:
    """A tensor from a flat list of its numbers; `.set(values)` changes them.

    Args:
        val: a flat sequence or 1-d array of numbers, first index fastest, batch
            elements one after the other.
        dim: a tuple of sizes; a vector if it is not given.
        batch_size: how many batch elements.
        device: "", or the name of a device; see `to_device`.
    Returns:
        `dim`, with a batch of `batch_size`.
    Raises:
        TypeError: `val` is not a flat sequence of numbers, or `dim` not a tuple.
        ValueError: the sizes do not multiply to the number of numbers.
        RuntimeError: there is no such device.
    Source: clab/dynet, ``python/_dynet.pyx``.
    Examples:
        >>> x = dy.inputTensorTranspose([1, 2, 3, 4, 5, 6], dim=(2, 3))
        >>> print(x.npvalue())
        [[1. 3. 5.]
         [2. 4. 6.]]
    """
    name = "inputTensorTranspose"
    check_device(name, device)
    flat = _not_empty(name, _vector(name, val)[None])[0]
    if dim is not None:
        _require_tuple(name, "dim", dim)
    shape = (len(flat),) if dim is None else to_shape(name, dim)
    batch = unsigned(name, "batch_size", batch_size) or 1
    whole = Dim(shape, batch)
    if whole.size * batch != len(flat):
        raise DimError(
            error_text(
                f"{name}: the numbers do not fit the dims",
                got=f"{len(flat)} numbers for {whole}",
                expected=f"{whole.size * batch} numbers",
                fix="dim is that of one batch element",
            )
        )
    return _input(INPUT_OP, _laid_out(whole, flat), device)


def sparse_inputTensor(
    idxs: Sequence[Ints] | np.ndarray,
    values: Numbers,
    shape: tuple[int, ...],
    batched: bool = False,
    defval: Number = 0,
    device: str = "",
) -> Expression:
    """A tensor of one number everywhere but in some places.

    Args:
        idxs: a list of indices for each axis of `shape`: where `values` stand. Of
            several at one place, the last counts.
        values: as many numbers, in a list or a 1-d array.
        shape: a tuple of sizes.
        batched: the last axis of `shape` is the batch.
        defval: the number in all other places.
        device: "", or the name of a device; see `to_device`.
    Returns:
        The dims of `shape`.
    Raises:
        TypeError: `values` is not a list of numbers or a 1-d array, or `shape` not a
            tuple.
        ValueError: the lists do not fit each other or `shape`, or an index is outside.
        RuntimeError: there is no such device.
    Source: clab/dynet, ``dynet/nodes-const.cc``, ``python/_dynet.pyx``.
    Examples:
        >>> x = dy.sparse_inputTensor([[0, 1], [2, 0]], [5, 7], (2, 3))
        >>> print(x.npvalue())
        [[0. 0. 5.]
         [7. 0. 0.]]
    """
    name = "sparse_inputTensor"
    check_device(name, device)
    _require_tuple(name, "shape", shape)
    numbers = _vector(name, values)
    places = _places(idxs, len(numbers), shape)
    whole = np.full(shape, number(name, "defval", defval), np.float32)
    whole[places] = numbers
    data = _batch_first(_not_empty(name, whole[None])[0], batched)
    return _input(FIXED_INPUT_OP, data, device)


def _require_tuple(name: str, argument: str, value: Any) -> None:
    if not isinstance(value, tuple):
        raise TypeError(
            error_text(
                f"{name}: {argument} is not a tuple",
                got=f"{value!r} ({type(value).__name__})",
                expected="a tuple of ints",
                fix="pass (n,) for a vector",
            )
        )


def _places(idxs: Any, count: int, shape: Shape) -> tuple[Any, ...]:
    """`count` indices for each axis of `shape`, in a list or an array."""
    if type(idxs) is list and len(idxs) == len(shape) and are_sizes(shape):
        pairs = zip(idxs, shape, strict=True)
        if all(
            type(i) is list and len(i) == count and are_below(i, n) for i, n in pairs
        ):
            return tuple(idxs)
    places = tuple([to_array(axis, np.int64) for axis in idxs])
    inside = len(places) == len(shape) and all(
        axis.shape == (count,) and bool(((axis >= 0) & (axis < n)).all())
        for axis, n in zip(places, shape, strict=False)
    )
    if not inside:
        raise ValueError(
            error_text(
                "sparse_inputTensor: the indices do not fit",
                got=f"{len(places)} lists {idxs!r} for {count} values in {Dim(shape)}",
                expected="for each axis a list with an index for each value, from 0 on",
                fix="check the lengths, and that no index is as large as its axis",
            )
        )
    return places


def _vector(name: str, values: Any) -> np.ndarray:
    """A flat sequence of numbers as an array.

    Raises:
        TypeError: it is none.
    """
    try:
        vector = _float32(values)
    except NoNumbersError:
        raise
    except (TypeError, ValueError):
        vector = None
    if vector is None or vector.ndim != 1 or isinstance(values, str):
        raise TypeError(
            error_text(
                f"{name}: not a flat sequence of numbers",
                got=type(values).__name__,
                expected="a list, tuple or 1-d array of numbers",
                fix="use inputTensor for more dimensions, scalarInput for one number",
            )
        )
    return vector


def _laid_out(dim: Dim, flat: np.ndarray) -> np.ndarray:
    """Flat numbers, first index fastest, as ``[batch, *shape]``."""
    by_index = flat.reshape(dim.batch, *dim.shape[::-1])
    order = 0, *range(len(dim.shape), 0, -1)
    return np.ascontiguousarray(by_index.transpose(order))


def inputMatrix(v: object, d: object) -> NoReturn:
    """Gone from DyNet, where it raises as it does here.

    Args:
        v, d: of no use.
    Returns:
        Never.
    Raises:
        DeprecationWarning: always.
    Source: clab/dynet, ``python/_dynet.pyx``.
    Examples:
        >>> dy.inputMatrix([1, 2, 3, 4], (2, 2))
        Traceback (most recent call last):
        DeprecationWarning: inputMatrix is deprecated: use inputTensor instead
    """
    raise _use_input_tensor("inputMatrix")


def matInput(d1: object, d2: object) -> NoReturn:
    """Gone from DyNet, where it raises as it does here.

    Args:
        d1, d2: of no use.
    Returns:
        Never.
    Raises:
        DeprecationWarning: always.
    Source: clab/dynet, ``python/_dynet.pyx``.
    Examples:
        >>> dy.matInput(2, 2)
        Traceback (most recent call last):
        DeprecationWarning: matInput is deprecated: use inputTensor instead
    """
    raise _use_input_tensor("matInput")


def _use_input_tensor(name: str) -> DeprecationWarning:
    return DeprecationWarning(f"{name} is deprecated: use inputTensor instead")
