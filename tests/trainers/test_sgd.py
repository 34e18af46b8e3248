"""SimpleSGDTrainer, from losses to parameters."""

import numpy as np

import dynetjax as dy


def test_linear_regression():
    """The same as gradient descent written out in NumPy."""
    random = np.random.RandomState(0)
    m = dy.ParameterCollection()
    start = random.randn(2, 3)
    W = m.parameters_from_numpy(start)
    trainer = dy.SimpleSGDTrainer(m, learning_rate=0.05)
    expected = start.copy()
    for _ in range(5):
        x, y = random.randn(3), random.randn(2)
        dy.renew_cg()
        difference = W * dy.inputVector(x) - dy.inputVector(y)
        dy.dot_product(difference, difference).backward()
        trainer.update()
        gradient = 2 * np.outer(expected @ x - y, x)
        norm = np.linalg.norm(gradient)
        expected -= 0.05 * gradient * min(1, 5 / norm)
        np.testing.assert_allclose(W.as_array(), expected, rtol=1e-4, atol=1e-5)


def test_default_rate():
    assert dy.SimpleSGDTrainer(dy.ParameterCollection()).learning_rate == np.float32(
        0.1
    )
