"""HierarchicalSoftmaxBuilder against numbers recorded from DyNet."""

import numpy as np
import pytest

import dynetjax as dy

from .golden import fill, x
from .trees import RECORDED

LINES = "0 0\ta\n0 0\tb\n0 1\tc\n1\td 7\n1\te\n1\tf\n2\tg\n3  0\th\n3  1\ti\n"
WORDS = {word: k for k, word in enumerate("abcdefghi")}


def make(tmp_path, lines=LINES, words=WORDS, filled=True):
    dy.renew_cg()
    file = tmp_path / "tree.txt"
    file.write_text(lines, encoding="utf-8")
    m = dy.ParameterCollection()
    builder = dy.HierarchicalSoftmaxBuilder(3, file, words, m)
    if filled:
        for n, p in enumerate(builder.param_collection().parameters_list()):
            p.set_value(fill(n, p.shape()))
    return builder


def test_dynet_numbers(tmp_path):
    builder, wanted = make(tmp_path), RECORDED["hierarchical losses"]
    losses = [builder.neg_log_softmax(x(1), w) for w in range(9)]
    np.testing.assert_allclose([e.value() for e in losses], wanted, atol=1e-6)
    found = builder.full_log_distribution(x(1)).npvalue()
    np.testing.assert_allclose(found, -np.array(wanted), atol=1e-6)
    np.testing.assert_array_equal(builder.full_logits(x(1)).npvalue(), found)
    dy.esum([dy.square(e) for e in losses]).backward()
    own = builder.param_collection().parameters_list()
    found = [p.grad_as_array().ravel(order="F") for p in own]
    wanted = RECORDED["hierarchical gradients"]
    np.testing.assert_allclose(np.concatenate(found), wanted, atol=1e-5)


def test_parameters(tmp_path):
    builder = make(tmp_path)
    own = builder.param_collection().parameters_list()
    shapes = [(*p.shape(), 1)[:2] for p in own]
    assert np.ravel(shapes).tolist() == RECORDED["hierarchical shapes"]
    assert [p.name() for p in own] == [f"/hsm-builder/_{k}" for k in range(10)]


def test_large_scores(tmp_path):
    """A sigmoid of -200 has a logarithm."""
    builder = make(tmp_path, "0\ta\n1\tb\n", {"a": 0, "b": 1})
    _, b = builder.param_collection().parameters_list()
    b.set_value([-200.0])
    nothing = dy.inputVector([0.0, 0.0, 0.0])
    losses = [builder.neg_log_softmax(nothing, k).value() for k in (0, 1)]
    assert losses == [200, 0]


def test_one_word(tmp_path):
    """There is nothing to choose, and nothing to learn."""
    builder = make(tmp_path, "0 1\ta\n", {"a": 0})
    assert builder.param_collection().parameters_list() == []
    assert builder.neg_log_softmax(x(1), 0).value() == 0
    batch = dy.inputTensor(np.ones((3, 2)), batched=True)
    losses = builder.neg_log_softmax_batch(batch, [0, 0])
    assert losses.npvalue().tolist() == [[0, 0]]
    assert builder.sample(x(1)) == 0


def test_words_that_need_no_choice(tmp_path):
    """Some ways have choices, others have none."""
    builder = make(tmp_path, "0\ta\n0\tb\n", {"a": 0, "b": 1, "c": 2})
    assert np.exp(builder.full_log_distribution(x(1)).npvalue()).sum() == (
        pytest.approx(1, abs=1e-6)
    )
    with pytest.raises(ValueError, match="softmax: the word is not in the tree"):
        builder.neg_log_softmax(x(1), 2)
    assert builder.full_log_distribution(x(1)).npvalue()[2] == -np.inf


def test_words_and_children(tmp_path):
    with pytest.raises(ValueError, match=r"tree\.txt, line 2: a node has words"):
        make(tmp_path, "0\ta\n0 1\tb\n", {"a": 0, "b": 1})
