"""What holds for the operations as a whole."""

import importlib
import pathlib
import pkgutil

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from laws import COVERED

import dynetjax as dy
from dynetjax import ops
from dynetjax.ops.gates import activation
from dynetjax.ops.registry import OPS

HERE = pathlib.Path(__file__).parent
SECTIONS = ("Args:", "Returns:", "Source: clab/dynet, ``")


def public():
    """Every function of every family that users see."""
    families = [
        importlib.import_module(f"dynetjax.ops.{module.name}")
        for module in pkgutil.iter_modules(ops.__path__)
    ]
    return [getattr(f, name) for f in families for name in getattr(f, "__all__", [])]


def test_every_operation_has_a_case():
    for path in HERE.glob("test_*.py"):
        importlib.import_module(path.stem)
    assert {function.__name__ for function in public()} <= COVERED


@pytest.mark.parametrize("function", public(), ids=lambda f: f.__name__)
def test_docstring(function):
    """Says what goes in and what comes out, and where DyNet has it."""
    assert all(section in function.__doc__ for section in SECTIONS)


BATCH = np.arange(6.0).reshape(2, 3)

# Each takes a vector of four and the number of the run, which is runtime data alone.
SAME_PROGRAM = {
    "input": lambda x, k: x + dy.inputVector([k, 1, 2, 3]),
    "scale": lambda x, k: x * (k + 0.5),
    "shift": lambda x, k: x + 1.5 * k,
    "subtract_from": lambda x, k: k - x,
    "quotient": lambda x, k: x / (k + 1),
    "power": lambda x, k: dy.square(x) ** (k + 1),
    "elu": lambda x, k: dy.elu(x, 0.1 * k),
    "silu": lambda x, k: dy.silu(x, 1 + k),
    "pick": lambda x, k: dy.pick(x, k),
    "index": lambda x, k: x[k - 1],
    "pick_batch": lambda x, k: dy.sum_batches(dy.pick_batch(x, [k, 1, k])),
    "select_rows": lambda x, k: dy.select_rows(x, [k, 0]),
    "pick_batch_elem": lambda x, k: dy.pick_batch_elem(
        dy.inputTensor(BATCH, batched=True), k
    ),
    "pickneglogsoftmax": lambda x, k: dy.pickneglogsoftmax(x, k),
    "pickneglogsoftmax_batch": lambda x, k: dy.sum_batches(
        dy.pickneglogsoftmax_batch(dy.inputTensor(BATCH, batched=True), [0, 1, k % 2])
    ),
    "hinge": lambda x, k: dy.hinge(x, k, 0.5 * k),
    "huber_distance": lambda x, k: dy.huber_distance(x, dy.vecInput(4), 1.0 + k),
    "log_softmax": lambda x, k: dy.log_softmax(x, [k, 3]),
    "dropout": lambda x, k: dy.dropout(x, 0.2 * k),
    "noise": lambda x, k: dy.noise(x, 0.1 * k),
    "average": lambda x, k: dy.average([x] * (6 - k)),
}


@pytest.mark.parametrize("build", SAME_PROGRAM.values(), ids=SAME_PROGRAM)
def test_runtime_data_never_recompiles(build):
    collection = dy.ParameterCollection()
    p = collection.parameters_from_numpy(np.array([0.1, -0.4, 0.7, 1.2]))
    compilations = []
    for k in (0, 0, 1, 2):
        dy.renew_cg()
        loss = dy.sum_elems(build(dy.tanh(p), k))
        loss.value()
        loss.backward()
        p.grad_as_array()
        stats = dy.stats()
        compilations.append(stats.compilations + stats.loads)
    assert compilations[1:] == compilations[1:2] * 3


SLOPED = {op.name: op for op in [*OPS.values(), activation(1.0).op] if op.slope}


@pytest.mark.parametrize("op", SLOPED.values(), ids=SLOPED)
def test_a_slope_is_the_derivative(op):
    with jax.enable_x64(True):
        x = jnp.linspace(-3, 3, 8, dtype=jnp.float64)
        _, expected = jax.jvp(op.fn, (x,), (jnp.ones_like(x),))
        np.testing.assert_allclose(op.slope(op.fn(x)), expected, rtol=1e-9)


def test_there_are_slopes():
    assert {"tanh", "logistic", "lstm_gates"} <= SLOPED.keys()
