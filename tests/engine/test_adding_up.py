"""Gradients of weights, added up trip by trip."""

import numpy as np
import pytest

import dynetjax as dy

WORDS, SIZE = 5, 3
RNG = np.random.default_rng(2)


@pytest.mark.parametrize("many", [1201, 1536])
def test_scores_of_many_words(many):
    """Equals the formula: softmax less the class, times the row."""
    sizes = [(WORDS, SIZE), (many, SIZE), many]
    ROWS, W, B = (RNG.normal(size=size) for size in sizes)
    pc = dy.ParameterCollection()
    table = pc.lookup_parameters_from_numpy(ROWS)
    w, b = pc.parameters_from_numpy(W), pc.parameters_from_numpy(B)
    ids, classes = RNG.integers(0, WORDS, 3600), RNG.integers(0, many, 3600)
    dy.renew_cg()
    losses = [
        dy.pickneglogsoftmax(dy.affine_transform([b, w, table[int(n)]]), int(c))
        for n, c in zip(ids, classes, strict=True)
    ]
    dy.esum(losses).backward()

    scores = ROWS[ids] @ W.T + B
    slopes = np.exp(scores - scores.max(1, keepdims=True))
    slopes /= slopes.sum(1, keepdims=True)
    slopes[np.arange(3600), classes] -= 1
    rows = np.zeros((WORDS, SIZE))
    np.add.at(rows, ids, slopes @ W)
    found = [w.grad_as_array(), b.grad_as_array(), table.grad_as_array()]
    expected = [slopes.T @ ROWS[ids], slopes.sum(0), rows]
    for one, other in zip(found, expected, strict=True):
        np.testing.assert_allclose(one, other, rtol=2e-4, atol=2e-3)


def test_loops_over_large_batches():
    """A batch of seventy equals ten of seven."""
    pc = dy.ParameterCollection()
    lstm = dy.VanillaLSTMBuilder(1, 3, 5, pc)
    xs = RNG.normal(size=(4, 3, 70))

    def gradients(batches):
        for p in pc.parameters_list():
            p.scale_gradient(0)
        for batch in batches:
            dy.renew_cg()
            inputs = [dy.inputTensor(x[:, batch], batched=True) for x in xs]
            last = lstm.initial_state().transduce(inputs)[-1]
            dy.sum_batches(dy.squared_norm(last)).backward()
        return [p.grad_as_array() for p in pc.parameters_list()]

    whole = gradients([range(70)])
    parts = gradients([range(k, k + 7) for k in range(0, 70, 7)])
    for one, other in zip(whole, parts, strict=True):
        np.testing.assert_allclose(one, other, rtol=1e-4, atol=1e-5)
