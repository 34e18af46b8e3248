"""What a loss is not made of has no part in its gradient, infinite slopes included."""

import numpy as np
import pytest

import dynetjax as dy

NUMBERS = np.random.RandomState(4).uniform(0.1, 1, (2, 3))
X = np.array([0.1, 0.5, 0.3])


def norm(h, *factors):
    """Its slope is infinite where the factors are 0."""
    return dy.l2_norm(dy.cmult(h, dy.inputVector(list(factors))))


def expected():
    h = np.tanh(NUMBERS @ X)
    return np.outer(h * (1 - h * h) / np.linalg.norm(h), X)


def before(h):
    for _ in range(3):
        norm(h, 0, 0)
    return norm(h, 1, 1)


def after(h):
    loss = norm(h, 1, 1)
    norm(h, 0, 0).value()
    return loss


def consumer(h):
    loss = norm(h, 1, 1)
    norm(h, 0, 0) + dy.tanh(loss)
    return loss


def chain(h):
    """All the unused nodes of a loop that the loss has a part of."""
    state, losses = h, []
    for k in range(9):
        state = dy.tanh(dy.cmult(state, dy.inputVector([1.0, 1.0])))
        losses.append(norm(state, k == 0, k == 0))
    return norm(h, 1, 1)


def batched(h):
    two = dy.inputTensor(np.zeros((2, 2)), batched=True)
    dy.l2_norm(dy.cmult(h, two))
    return norm(h, 1, 1)


@pytest.mark.parametrize("program", [before, after, consumer, chain, batched])
def test_unused_nodes(program):
    """One graph after the other: the components run one by one, and then as one."""
    p = dy.ParameterCollection().parameters_from_numpy(NUMBERS)
    for _ in range(27):
        dy.renew_cg()
        p.scale_gradient(0)
        loss = program(dy.tanh(p * dy.inputVector(X)))
        loss.backward()
        np.testing.assert_allclose(p.grad_as_array(), expected(), rtol=1e-5)


def test_an_infinite_slope_of_the_loss_itself():
    dy.renew_cg()
    p = dy.ParameterCollection().parameters_from_numpy(NUMBERS)
    norm(dy.tanh(p * dy.inputVector(X)), 0, 0).backward()
    assert np.isnan(p.grad_as_array()).all()
