"""An encoder and decoder with attention: lengths of sentences compile nothing."""

import numpy as np
import pytest

import dynetjax as dy

SIZE, WORDS = 6, 9


class Translator:
    """Attention between sentences, additive or by dot products."""

    def __init__(self):
        self.pc = dy.ParameterCollection()
        rng = np.random.default_rng(4)
        new = self.pc.parameters_from_numpy
        self.table = self.pc.lookup_parameters_from_numpy(
            rng.normal(size=(WORDS, SIZE))
        )
        self.keys, self.query = [new(rng.normal(size=(SIZE, SIZE))) for _ in "kq"]
        self.energy = new(rng.normal(size=(1, SIZE)))
        self.step = new(rng.normal(size=(SIZE, 2 * SIZE)) / 4)
        self.bias = new(np.full(SIZE, 0.1))
        self.trainer = dy.SimpleSGDTrainer(self.pc, 0.01)

    def loss(self, source, target, additive):
        states = dy.concatenate_cols([self.table[w] for w in source])
        keys, h, losses = self.keys * states, dy.inputVector([0.0] * SIZE), []
        for word in target:
            if additive:
                mixed = dy.tanh(dy.colwise_add(keys, self.query * h))
                energies = dy.transpose(self.energy * mixed)
            else:
                energies = dy.transpose(keys) * h
            context = states * dy.softmax(energies)
            x = dy.concatenate([context, self.table[word]])
            h = dy.tanh(dy.affine_transform([self.bias, self.step, x]))
            pointed = dy.transpose(states) * h
            losses.append(dy.pickneglogsoftmax(pointed, word % len(source)))
        return dy.esum(losses)

    def reference(self, source, target, additive):
        def softmax(x):
            return np.exp(x - x.max()) / np.exp(x - x.max()).sum()

        rows, h, total = self.table.as_array(), np.zeros(SIZE), 0.0
        states = rows[source].T
        keys = self.keys.as_array() @ states
        for word in target:
            if additive:
                mixed = np.tanh(keys + (self.query.as_array() @ h)[:, None])
                energies = (self.energy.as_array().reshape(1, -1) @ mixed).ravel()
            else:
                energies = keys.T @ h
            context = states @ softmax(energies)
            x = np.concatenate([context, rows[word]])
            h = np.tanh(self.step.as_array() @ x + self.bias.as_array())
            total -= np.log(softmax(states.T @ h)[word % len(source)])
        return total

    def train(self, lengths, additive):
        """One update; the loss, and what it should be."""
        rng = np.random.default_rng(sum(map(sum, lengths)))
        pairs = [[rng.integers(WORDS, size=n).tolist() for n in p] for p in lengths]
        expected = sum(self.reference(*pair, additive) for pair in pairs)
        dy.renew_cg()
        loss = dy.esum([self.loss(*pair, additive) for pair in pairs])
        value = loss.value()
        loss.backward()
        self.trainer.update()
        return value, expected


@pytest.mark.parametrize("additive", [True, False], ids=["additive", "dot"])
def test_independent_lengths(additive):
    net = Translator()
    rng = np.random.default_rng(7)
    warm = [[(50, 4), (3, 50), (30, 30)], [(20, 50)] * 4, [(9, 3)] * 2, [(48, 50)] * 4]
    for lengths in warm * 2:
        net.train(lengths, additive)
    before = dy.stats()
    for _ in range(12):
        count = int(rng.integers(1, 5))
        lengths = rng.integers(3, 51, size=(count, 2)).tolist()
        value, expected = net.train(lengths, additive)
        assert value == pytest.approx(expected, rel=1e-4)
    after = dy.stats()
    assert after.compilations + after.loads == before.compilations + before.loads
