"""Recordings: what a program computes, in a file, to be compared elsewhere.

This file needs NumPy alone, and works under DyNet as under dynetjax: copy it to where
DyNet is installed, and call `record` there.

    import dynet, recording
    recording.record(dynet, program, {"W": W, "E": E, "x": x}, "scores.npz")

A *program* is a function ``program(dy, P, L, A)`` that returns expressions by name:
``P(name)`` is a parameter with the values of the input of this name, ``L(name)`` a
lookup table, ``A[name]`` the array itself.
"""

import os
import pathlib
from collections.abc import Callable, Mapping
from typing import Any

import numpy as np

FORMAT = "dynet-recording-1"
MOST = 8  # differences that are told


# Types are in quotes where an old Python, as DyNet may need, cannot evaluate them.


def compute(
    dy: Any,
    program: "Callable[..., dict[str, Any]]",
    inputs: "Mapping[str, Any]",
    weights: "Mapping[str, Any] | None" = None,
) -> "dict[str, Any]":
    """What a program computes, by ``section/name``.

    The sections are ``out`` (values), ``R`` (random weights of each), ``loss`` (the sum
    of all outputs, each number times its weight) and ``grad`` (of the loss).

    Args:
        dy: the module.
        program: see the module.
        inputs: arrays by name.
        weights: of outputs, by name; new ones if None.
    """
    dy.renew_cg()
    collection, made = dy.ParameterCollection(), {}

    def once(make):
        def named(name):
            if name not in made:
                made[name] = make(inputs[name])
            return made[name]

        return named

    parameter = once(collection.parameters_from_numpy)
    table = once(collection.lookup_parameters_from_numpy)
    outputs = program(dy, parameter, table, inputs)
    rng = np.random.RandomState(1)
    found, terms = {}, []
    for name, expression in outputs.items():
        value = np.asarray(expression.npvalue())
        weight = rng.normal(size=value.shape) if weights is None else weights[name]
        found["out/" + name], found["R/" + name] = value, weight
        if np.shape(weight) == value.shape:
            batched = expression.dim()[1] > 1
            factors = dy.inputTensor(np.atleast_1d(weight), batched=batched)
            product = dy.cmult(expression, factors)
            terms.append(dy.sum_batches(dy.sum_elems(product)))
    loss = dy.esum(terms)
    found["loss/value"] = np.asarray(loss.npvalue())
    if made:
        loss.backward()
    for name, parameters in made.items():
        found["grad/" + name] = np.asarray(parameters.grad_as_array())
    return found


def record(
    dy: Any,
    program: "Callable[..., dict[str, Any]]",
    inputs: "Mapping[str, Any]",
    file: "str | os.PathLike[str]",
) -> None:
    """Write what a program computes to a file, with what it was given."""
    found = compute(dy, program, inputs)
    found.update({"in/" + name: np.asarray(array) for name, array in inputs.items()})
    np.savez_compressed(pathlib.Path(file), format=np.array(FORMAT), **found)


def differences(
    dy: Any,
    program: "Callable[..., dict[str, Any]]",
    file: "str | os.PathLike[str]",
    rtol: float,
    atol: float,
) -> "list[str]":
    """In which arrays a program differs from a recording, in words."""
    with np.load(pathlib.Path(file)) as stored:
        if str(stored.get("format")) != FORMAT:
            raise ValueError(f"{file} is no recording")
        arrays = {key: stored[key] for key in stored.files if "/" in key}
    inputs = {key[3:]: a for key, a in arrays.items() if key.startswith("in/")}
    weights = {key[2:]: a for key, a in arrays.items() if key.startswith("R/")}
    found = compute(dy, program, inputs, weights)
    told = []
    for key, want in arrays.items():
        if key.startswith(("in/", "R/")):
            continue
        if key not in found:
            told.append(f"{key}: there is none")
        elif found[key].shape != want.shape:
            told.append(f"{key}: {found[key].shape}, expected {want.shape}")
        elif not np.allclose(found[key], want, rtol, atol, equal_nan=True):
            worst = np.nanmax(np.abs(found[key] - want))
            told.append(f"{key}: off by {worst:.3g} at most")
    return told
