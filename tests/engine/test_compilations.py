"""Structure is data: what may differ between graphs without a compilation."""

import numpy as np
import pytest

import dynetjax as dy


class Network:
    """A recurrent net with a bilinear output; sizes that no other test has."""

    def __init__(self, size=11):
        rng = np.random.default_rng(5)
        self.pc = dy.ParameterCollection()
        new = self.pc.parameters_from_numpy
        self.table = self.pc.lookup_parameters_from_numpy(rng.normal(size=(9, size)))
        self.W, self.U = new(rng.normal(size=(size, size))), new(np.eye(size))
        self.b, self.out = new(np.zeros(size)), new(rng.normal(size=(4, size)))
        self.trainer = dy.AdamTrainer(self.pc)

    def train(self, words, label=1, rate=0.5):
        """One update on a sequence of batches of words."""
        dy.renew_cg()
        h = dy.tanh(self.W * dy.lookup_batch(self.table, words[0]))
        losses = []
        for batch in words:
            x = dy.lookup_batch(self.table, batch)
            h = dy.tanh(dy.affine_transform([self.b, self.W, x, self.U, h]))
            scores = self.out * dy.dropout(h, rate)
            labels = [label] * len(batch)
            losses.append(dy.pickneglogsoftmax_batch(scores, labels))
        loss = dy.sum_batches(dy.esum(losses)) * (1 / len(words))
        value = loss.value()
        loss.backward()
        self.trainer.update()
        return value


def words(length, batch, seed=0):
    return np.random.default_rng(seed).integers(9, size=(length, batch)).tolist()


@pytest.fixture(scope="module")
def network():
    """A network that has seen some lengths and batch sizes, as a warm-up."""
    net = Network()
    for length, batch in [(3, 2), (1, 1), (7, 3), (2, 1), (20, 4)]:
        net.train(words(length, batch))
        net.train(words(length, batch))
    return net


def compiled():
    """Programs that XLA compiled, or found in its persistent cache."""
    stats = dy.stats()
    return stats.compilations + stats.loads


def new_compilations(action):
    before = compiled()
    action()
    return compiled() - before


@pytest.mark.parametrize(
    ("length", "batch"),
    [(3, 2), (4, 2), (1, 2), (1, 5), (5, 1), (19, 3), (6, 8), (2, 20)],
)
def test_lengths_and_batch_sizes(network, length, batch):
    assert new_compilations(lambda: network.train(words(length, batch, seed=7))) == 0


@pytest.mark.parametrize("change", [{"label": 3}, {"rate": 0.1}])
def test_runtime_arguments(network, change):
    assert new_compilations(lambda: network.train(words(3, 2), **change)) == 0


def test_a_second_model_of_the_same_shape(network):
    def action():
        second = Network()
        for seed in range(4):
            second.train(words(3 + seed, 2, seed))

    del network
    assert new_compilations(action) == 0


def test_a_model_of_another_shape_compiles(network):
    """The counter counts."""
    del network
    assert new_compilations(lambda: Network(size=13).train(words(3, 2))) > 0


@pytest.mark.parametrize("chain", [False, True], ids=["esum", "one by one"])
def test_twenty_losses_and_three_hundred(chain, runtime):
    pc = dy.ParameterCollection()
    table = pc.lookup_parameters_from_numpy(np.arange(24.0).reshape(8, 3))
    w = pc.parameters_from_numpy(np.ones((3, 3)))

    def run(count):
        dy.renew_cg()
        terms = [
            dy.dot_product(table[k % 8], w * table[(k + 1) % 8]) for k in range(count)
        ]
        loss = sum(terms[1:], terms[0]) if chain else dy.esum(terms)
        loss.value()
        loss.backward()
        table.grad_as_array()
        w.scale_gradient(0)

    for _ in range(3):
        run(20)
    assert new_compilations(lambda: run(300)) == 0


def test_values_read_at_any_step(network):
    def run(length):
        dy.renew_cg()
        h = dy.tanh(network.W * network.table[0])
        for k in range(length):
            h = dy.tanh(network.W * h + network.table[k % 9])
            h.value()

    run(4)
    assert new_compilations(lambda: run(12)) == 0


def test_a_second_model_while_the_first_lives():
    """It has programs of its own, and they are those of the first."""
    first = Network(size=17)
    for seed in range(3):
        first.train(words(3, 2, seed))
    second = Network(size=17)

    def action():
        for seed in range(40):
            second.train(words(3, 2, seed))
            first.train(words(3, 2, seed))

    assert new_compilations(action) == 0
