"""Gradients against central differences in float64."""

from collections.abc import Iterable, Iterator
from typing import Any

import numpy as np

from dynetjax.core.errors import error_text
from dynetjax.core.expression import Expression
from dynetjax.core.functions import JaxFunction, to_jax
from dynetjax.core.lazy import jax
from dynetjax.model.lookup import LookupParameters
from dynetjax.model.parameters import Parameters

STEP = 1e-6
MOST = 5  # entries that are told


def assert_gradients(
    loss: Expression,
    parameters: Iterable[Parameters | LookupParameters],
    *,
    samples: int = 20,
    rtol: float = 1e-3,
    atol: float = 1e-4,
    seed: int = 0,
) -> None:
    """Compare what ``loss.backward()`` gives with slopes of the loss.

    The slopes are central differences of the same graph in float64, which JAX computes
    operation by operation, without this package's engine. Gradients that the parameters
    have already stay as they are.

    Args:
        loss: one number, without random operations.
        parameters: which are looked at.
        samples: entries of each: half of them those with the largest gradient.
        rtol, atol: how much they may differ: ``atol + rtol * abs(slope)``.
        seed: of the choice of entries.
    Raises:
        AssertionError: some differ.
        ValueError: `loss` is not one number, or a parameter is not in it.
    Examples:
        >>> from dynetjax.testing import assert_gradients
        >>> m = dy.ParameterCollection()
        >>> W, x = m.add_parameters((3, 4)), dy.inputVector([1, 2, 3, 4])
        >>> assert_gradients(dy.squared_norm(dy.tanh(W * x)), [W])
    """
    chosen = list(parameters)
    _require_number(loss)
    function = to_jax(loss)
    for p in chosen:
        if p.name() not in function.parameters:
            raise ValueError(
                error_text(
                    f"assert_gradients: {p.name()} is not in the loss",
                    got=", ".join(function.parameters) or "no parameters",
                    expected="parameters that the loss is made of",
                    fix="leave it out, or look for what cuts it off",
                )
            )
    gradients = _gradients(loss, chosen)
    rng = np.random.default_rng(seed)
    told = list(_differences(function, gradients, samples, rtol, atol, rng))
    if told:
        raise AssertionError(
            error_text(
                "assert_gradients: gradients are no slopes of the loss",
                got="; ".join(told[:MOST]),
                expected="central differences in float64",
                fix="look for an operation that cuts or changes gradients",
            )
        )


def _require_number(loss: Expression) -> None:
    shape, batch = loss.dim()
    if np.prod(shape) * batch != 1:
        raise ValueError(
            error_text(
                "assert_gradients: the loss is not one number",
                got=f"dim {shape}, batch {batch}",
                expected="dim (1,), batch 1",
                fix="sum_elems and sum_batches",
            )
        )


def _gradients(loss: Expression, parameters: list[Any]) -> dict[str, np.ndarray]:
    """Of the loss, by names."""
    before = [p.storage.take_gradient() for p in parameters]
    try:
        loss.backward()
        return {p.name(): p.grad_as_array() for p in parameters}
    finally:
        for p, gradient in zip(parameters, before, strict=True):
            p.storage.take_gradient()
            p.storage.put_gradient(gradient)


def _differences(
    function: JaxFunction,
    gradients: dict[str, np.ndarray],
    samples: int,
    rtol: float,
    atol: float,
    rng: np.random.Generator,
) -> Iterator[str]:
    """Entries whose gradient is no slope, in words."""
    with jax.enable_x64(True):
        exact = {n: np.asarray(a, np.float64) for n, a in function.parameters.items()}
        inputs = [np.asarray(a, np.float64) for a in function.inputs]
        compute = jax.jit(function)

        def loss(name: str, entry: tuple[int, ...], by: float) -> float:
            moved = exact[name].copy()
            moved[entry] += by
            return float(compute({**exact, name: moved}, inputs))

        for name, gradient in gradients.items():
            for entry in _entries(gradient, samples, rng):
                step = STEP * max(1.0, abs(exact[name][entry]))
                rise = loss(name, entry, step) - loss(name, entry, -step)
                slope, got = rise / (2 * step), gradient[entry]
                if not abs(got - slope) <= atol + rtol * abs(slope):
                    yield f"{name}{list(entry)}: {got:.6g}, the slope is {slope:.6g}"


def _entries(
    gradient: np.ndarray, samples: int, rng: np.random.Generator
) -> list[tuple[int, ...]]:
    """Some entries: those with the largest gradient, and others by chance."""
    order = np.argsort(-np.abs(gradient), axis=None)
    first, rest = order[: samples // 2], order[samples // 2 :]
    others = rng.permutation(rest)[: samples - len(first)]
    places = np.unravel_index(np.concatenate([first, others]), gradient.shape)
    return [tuple(map(int, place)) for place in zip(*places, strict=True)]
