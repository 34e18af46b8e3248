"""What a step of training takes on a device: launches of programs, and arrays sent."""

import numpy as np
import pytest

import dynetjax as dy

STEPS = 4  # after those that compile


class Net:
    """A language model over a minibatch."""

    def __init__(self, size):
        self.m = dy.ParameterCollection()
        self.table = self.m.add_lookup_parameters((9, size))
        self.lstm = dy.VanillaLSTMBuilder(1, size, size, self.m)
        self.out = self.m.add_parameters((9, size))
        self.trainer = dy.AdamTrainer(self.m)

    def loss(self, words):
        """That of all words but the last; no state is left over."""
        dy.renew_cg()
        xs = [dy.lookup_batch(self.table, word) for word in words[:-1]]
        states = self.lstm.initial_state().transduce(xs)
        losses = [
            dy.pickneglogsoftmax_batch(self.out * h, word)
            for h, word in zip(states, words[1:], strict=True)
        ]
        return dy.sum_batches(dy.esum(losses))

    def step(self, words):
        loss = self.loss(words)
        value = loss.value()
        loss.backward()
        self.trainer.update()
        return value


@pytest.fixture
def counted(far):
    """(launches, arrays sent) of what is done, a step."""

    def count(work):
        for _ in range(3):
            work()
        dy.reset_stats()
        for _ in range(STEPS):
            work()
        stats = dy.stats()
        return stats.launches / STEPS, stats.sent / STEPS

    return count


def sentence():
    return np.random.RandomState(1).randint(0, 9, (6, 3)).tolist()


def test_a_step_of_training(counted):
    """Forward, back, update; an index buffer, and the numbers of the update."""
    net, words = Net(5), sentence()
    assert counted(lambda: net.step(words)) == (3, 2)
    assert "3 launches" not in str(dy.stats())
    assert f"{3 * STEPS} launches of programs, {2 * STEPS} arrays sent" in str(
        dy.stats()
    )


def test_reading_alone(counted):
    net, words = Net(5), sentence()
    assert counted(lambda: net.loss(words).value()) == (1, 1)


def test_nodes_that_the_loss_is_not_made_of_take_another_buffer(counted):
    net, words = Net(5), sentence()

    def work():
        loss = net.loss(words)
        dy.tanh(loss)
        loss.value()
        dy.squared_norm(net.out * dy.inputVector([1.0] * 5))
        loss.backward()
        net.trainer.update()

    launches, sent = counted(work)
    assert launches == 3
    assert sent <= 3


def test_the_loss_of_another_node_goes_back_from_that(by_xla, far):
    """The row that a backward begins with is told anew."""
    net, words = Net(5), sentence()
    gradients = []
    for read_first in True, False:
        loss = net.loss(words)
        small = 0.5 * loss
        if read_first:
            loss.value()
        small.backward()
        gradients.append(net.out.grad_as_array().copy())
        net.trainer.learning_rate = 0
        net.trainer.update()
    np.testing.assert_allclose(*gradients, rtol=1e-5)


def test_nothing_is_sent_where_the_host_is_the_device(by_xla):
    Net(5).step(sentence())
    assert dy.stats().launches > 0
    dy.reset_stats()
    Net(5).step(sentence())
    assert dy.stats().sent == 0
