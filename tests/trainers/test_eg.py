"""EGTrainer: parameters that are probabilities."""

import numpy as np
import pytest

import dynetjax as dy

RATE, MOM = 0.3, 0.9


class Replica:
    """The formula in NumPy, of one tensor."""

    def __init__(self, p):
        self.p, self.h = np.array(p), np.zeros_like(p)

    def step(self, g):
        self.h = MOM * self.h - RATE * g
        e = self.p * np.exp(self.h)
        self.p = e / e.sum()


@pytest.mark.parametrize("sparse", [True, False])
def test_formula(sparse):
    m = dy.ParameterCollection()
    start = np.array([0.2, 0.3, 0.5])
    W = m.parameters_from_numpy(start)
    V = m.parameters_from_numpy(np.full((2, 2), 0.25))
    E = m.lookup_parameters_from_numpy(np.array([start, start[::-1], start]))
    trainer = dy.EGTrainer(m, RATE, mom=MOM)
    trainer.set_sparse_updates(sparse)
    w, v = Replica(start), Replica(np.full((2, 2), 0.25))
    rows = [Replica(row) for row in E.as_array()]
    x, y = np.array([1.0, -2.0, 0.5]), np.array([[1.0, 0], [0.5, -1]])
    for row in 0, 1, 0:
        dy.renew_cg()
        loss = dy.dot_product(W + E[row], dy.inputTensor(x))
        (loss + dy.sum_elems(dy.cmult(V, dy.inputTensor(y)))).backward()
        trainer.update()
        w.step(x)
        v.step(y)
        for k, replica in enumerate(rows):
            if k == row or not sparse:
                replica.step(x if k == row else 0 * x)
        np.testing.assert_allclose(W.as_array(), w.p, rtol=1e-5)
        np.testing.assert_allclose(V.as_array(), v.p, rtol=1e-5)
        np.testing.assert_allclose(E.as_array(), [r.p for r in rows], rtol=1e-5)


def test_sums_become_one():
    m = dy.ParameterCollection()
    W = m.parameters_from_numpy(np.array([1.0, 3.0]))
    dy.EGTrainer(m).update()
    np.testing.assert_allclose(W.as_array(), [0.25, 0.75], rtol=1e-6)
