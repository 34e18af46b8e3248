"""StandardSoftmaxBuilder against DyNet's numbers and NumPy."""

import numpy as np
import pytest

import dynetjax as dy

from .golden import fill, x


def make(bias=True):
    dy.renew_cg()
    builder = dy.StandardSoftmaxBuilder(3, 4, dy.ParameterCollection(), bias)
    for n, p in enumerate(builder.param_collection().parameters_list()):
        p.set_value(fill(n, p.shape()))
    return builder


def test_dynet_numbers():
    builder = make()
    found = [builder.neg_log_softmax(x(1), c).value() for c in range(4)]
    wanted = [1.259416, 0.908140, 1.792625, 1.921520]
    np.testing.assert_allclose(found, wanted, atol=2e-6)


@pytest.mark.parametrize("bias", [True, False])
def test_scores(bias):
    builder = make(bias)
    W, *b = [p.as_array() for p in builder.param_collection().parameters_list()]
    wanted = W @ x(1).npvalue() + sum(b)
    np.testing.assert_allclose(builder.full_logits(x(1)).npvalue(), wanted, atol=1e-6)
    found = builder.full_log_distribution(x(1)).npvalue()
    wanted -= np.log(np.exp(wanted).sum())
    np.testing.assert_allclose(found, wanted, atol=1e-6)


def test_parameters():
    m = dy.ParameterCollection()
    builder = dy.StandardSoftmaxBuilder(input_dim=3, num_classes=4, pc=m, bias=True)
    W, b = builder.param_collection().parameters_list()
    assert [W.name(), b.name()] == [f"/standard-softmax-builder/_{k}" for k in (0, 1)]
    assert (W.shape(), b.shape()) == ((4, 3), (4,))
    assert W.as_array().any()
    assert not b.as_array().any()
    assert builder.spec == (3, 4, True)


def test_no_classes():
    with pytest.raises(ValueError, match="there are no classes"):
        dy.StandardSoftmaxBuilder(3, 0, dy.ParameterCollection())
