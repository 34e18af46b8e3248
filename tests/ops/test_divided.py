"""Operations where parts of a graph lie on several devices: node by node."""

import importlib
import pathlib

import pytest
from laws import ALL, central_differences, close, loss_of, weights

import dynetjax as dy
from dynetjax.graph import current_graph

for path in sorted(pathlib.Path(__file__).parent.glob("test_*.py")):
    if path.stem != pathlib.Path(__file__).stem:
        importlib.import_module(path.stem)
FIRST = {case.name: case for case in reversed(ALL.values())}.values()


@pytest.mark.parametrize("case", FIRST, ids=str)
def test_value_and_gradient(case, two_devices):
    """The value of the formula, and the gradient if there is one."""
    dy.renew_cg()
    collection, arrays = dy.ParameterCollection(), case.arrays()
    given = [collection.parameters_from_numpy(a, device="CPU") for a in arrays]
    pairs = zip(given, case.shapes, strict=True)
    alone = case.batch == 1
    y = case.call(
        case.op, [p if alone else dy.reshape(p, s, case.batch) for p, s in pairs]
    )
    value, expected = y.npvalue(), case.expected(arrays)
    close(value, expected)
    loss = loss_of(y, weights(expected.shape))
    loss.backward()
    assert current_graph().state.divided is not None
    if not case.smooth:
        return
    r = weights(expected.shape).astype(float)
    wanted = central_differences(lambda xs: (case.expected(xs) * r).sum(), arrays)
    for p, gradient in zip(given, wanted, strict=True):
        close(p.grad_as_array(), gradient, rtol=1e-3, atol=1e-4)
