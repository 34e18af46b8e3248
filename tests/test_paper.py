"""The programs of the DyNet paper (arxiv.org/abs/1701.03980), as they stand there."""

import random

import numpy as np
import pytest

import dynetjax as dy


@pytest.fixture(autouse=True)
def _seed():
    dy.reset_random_seed(3)
    random.seed(3)


def learns(losses):
    """The last epoch's loss is far below the first's."""
    return losses[-1] < 0.35 * losses[0]


def epochs(data, trainer, loss_of, count):
    """Summed loss of every epoch of training, one update an example."""
    found = []
    for _ in range(count):
        total = 0.0
        for example in data:
            dy.renew_cg()
            loss = loss_of(*example)
            total += loss.value()
            loss.backward()
            trainer.update()
        found.append(total)
    return found


def test_figure_1_a_two_word_classifier():
    model = dy.Model()
    W_p = model.add_parameters((4, 12))
    b_p = model.add_parameters(4)
    E = model.add_lookup_parameters((20, 6))
    trainer = dy.SimpleSGDTrainer(model, 0.5)
    data = [((k % 5, k % 7), k % 5 % 4) for k in range(20)]

    def loss(in_words, out_label):
        W, b = dy.parameter(W_p), dy.parameter(b_p)
        score = W * dy.concatenate([E[in_words[0]], E[in_words[1]]]) + b
        return dy.pickneglogsoftmax(score, out_label)

    assert learns(epochs(data, trainer, loss, 12))


class TreeRNNEncoder:
    """Figure 2."""

    def __init__(self, model, words, hdim):
        self.W = model.add_parameters((hdim, 2 * hdim))
        self.E = model.add_lookup_parameters((words, hdim))

    def encode(self, tree):
        if isinstance(tree, int):
            return self.E[tree]
        if len(tree) == 1:  # unary node, skip
            return self.encode(tree[0])
        e1, e2 = self.encode(tree[0]), self.encode(tree[1])
        return dy.tanh(self.W * dy.concatenate([e1, e2]))


def test_figure_2_a_recursive_tree_encoder():
    model = dy.Model()
    U_p = model.add_parameters((2, 8))
    encoder = TreeRNNEncoder(model, 10, 8)
    trainer = dy.AdamTrainer(model, 0.02)
    trees = [1, (2, 3), ((4, 5), 6), (1, (2, (3, (4, 5)))), ((7,), (8, 9)), ((1, 2), 9)]
    data = [(tree, k % 2) for k, tree in enumerate(trees)]

    def loss(tree, label):
        return dy.pickneglogsoftmax(dy.parameter(U_p) * encoder.encode(tree), label)

    assert learns(epochs(data, trainer, loss, 25))


class StoppingClassifier:
    """Figure 3: reads words until it is sure."""

    def __init__(self, model, words, classes, threshold):
        self.W = model.add_parameters((classes, 8))
        self.b = model.add_parameters(classes)
        self.E = model.add_lookup_parameters((words, 8))
        self.threshold = threshold

    def read(self, words):
        """The class, how many words were read, and the score."""
        score = dy.parameter(self.b)
        count = 0
        for word in words:
            count += 1
            score = score + self.W * self.E[word]
            probabilities = dy.softmax(score).npvalue()
            if probabilities.max() > self.threshold:
                break
        return int(probabilities.argmax()), count, score


def test_figure_3_a_classifier_that_stops_reading_once_it_is_sure():
    model = dy.Model()
    classifier = StoppingClassifier(model, 12, 3, threshold=0.8)
    trainer = dy.AdamTrainer(model, 0.05)
    data = [([k % 3, 3 + k % 3, 6 + k % 5, k % 4], k % 3) for k in range(9)]

    def loss(words, label):
        return dy.pickneglogsoftmax(classifier.read(words)[2], label)

    assert learns(epochs(data, trainer, loss, 20))
    dy.renew_cg()
    reads = [classifier.read(words) for words, _ in data]
    assert [label for label, _, _ in reads] == [label for _, label in data]
    assert min(count for _, count, _ in reads) == 1


def test_figure_4_a_graph_that_uses_a_parameter_twice():
    """Values and gradients of tanh(W x + b) . tanh(W y + b), by hand."""
    pc = dy.ParameterCollection()
    w, b = np.array([[0.1, -0.2], [0.3, 0.4]]), np.array([0.05, -0.1])
    W, B = pc.parameters_from_numpy(w), pc.parameters_from_numpy(b)
    x, y = np.array([1.0, 2.0]), np.array([-1.0, 0.5])
    dy.renew_cg()
    left = dy.tanh(W * dy.inputVector(x) + B)
    right = dy.tanh(W * dy.inputVector(y) + B)
    loss = dy.dot_product(left, right)
    p, q = np.tanh(w @ x + b), np.tanh(w @ y + b)
    assert loss.value() == pytest.approx(p @ q, rel=1e-5)
    loss.backward()
    dp, dq = q * (1 - p**2), p * (1 - q**2)
    np.testing.assert_allclose(B.grad_as_array(), dp + dq, rtol=1e-5)
    np.testing.assert_allclose(
        W.grad_as_array(), np.outer(dp, x) + np.outer(dq, y), rtol=1e-5
    )


SENTENCES = [
    ([1, 2, 3], [0, 1, 0]),
    ([3, 1], [0, 0]),
    ([4, 5, 2, 2, 1], [1, 0, 1, 1, 0]),
]


@pytest.mark.parametrize("way", ["add_input", "transduce"], ids=["6a", "6c"])
@pytest.mark.parametrize("builder", [dy.LSTMBuilder, dy.VanillaLSTMBuilder])
def test_figure_6_an_rnn_tagger(builder, way):
    model = dy.Model()
    E = model.add_lookup_parameters((6, 8))
    W = model.add_parameters((2, 8))
    rnn = builder(1, 8, 8, model)
    trainer = dy.AdamTrainer(model, 0.02)

    def loss(words, tags):
        state = rnn.initial_state()
        if way == "transduce":
            outputs = state.transduce([E[w] for w in words])
        else:
            outputs = []
            for word in words:
                state = state.add_input(E[word])
                outputs.append(state.output())
        pairs = zip(outputs, tags, strict=True)
        return dy.esum([dy.pickneglogsoftmax(W * h, t) for h, t in pairs])

    assert learns(epochs(SENTENCES, trainer, loss, 40))


def test_figure_8_a_minibatched_classifier():
    model = dy.Model()
    W = model.add_parameters((4, 12))
    b = model.add_parameters(4)
    E = model.add_lookup_parameters((20, 6))
    trainer = dy.SimpleSGDTrainer(model, 0.1)
    firsts, seconds = [k % 5 for k in range(20)], [k % 7 for k in range(20)]
    labels = [k % 5 % 4 for k in range(20)]

    def loss(start):
        part = slice(start, start + 10)
        x = dy.concatenate(
            [dy.lookup_batch(E, firsts[part]), dy.lookup_batch(E, seconds[part])]
        )
        losses = dy.pickneglogsoftmax_batch(W * x + b, labels[part])
        return dy.sum_batches(losses)

    assert learns(epochs([(0,), (10,)], trainer, loss, 60))
