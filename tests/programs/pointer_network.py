"""Pointer network that sorts numbers.

Vinyals et al. 2015, arXiv:1506.03134: an LSTM reads the numbers, and another points at
one of them after the other: a softmax over additive attention, as wide as there are
numbers.
"""

import argparse
import random

import dynet_config

dynet_config.set(random_seed=1)
import dynet as dy  # noqa: E402


def problems(rng):
    """Endless lists of numbers, and of the places to point at, the least one first."""
    while True:
        numbers = [rng.random() for _ in range(rng.randint(3, 8))]
        yield numbers, sorted(range(len(numbers)), key=numbers.__getitem__)


class PointerNetwork:
    def __init__(self, model, size, attention):
        self.W_in = model.add_parameters((size, 1))
        self.b_in = model.add_parameters(size)
        self.first = model.add_parameters(size)
        self.encoder = dy.LSTMBuilder(1, size, size, model)
        self.decoder = dy.LSTMBuilder(1, size, size, model)
        self.W1 = model.add_parameters((attention, size))
        self.W2 = model.add_parameters((attention, size))
        self.v = model.add_parameters((attention, 1))

    def encode(self, numbers):
        """Numbers as vectors, keys of attention, and the decoder's first state."""
        W, b = dy.parameter(self.W_in), dy.parameter(self.b_in)
        inputs = [dy.tanh(W * dy.scalarInput(number) + b) for number in numbers]
        states = self.encoder.initial_state().add_inputs(inputs)
        encoded = dy.concatenate_cols([state.output() for state in states])
        state = self.decoder.initial_state(states[-1].s())
        return inputs, dy.parameter(self.W1) * encoded, state

    def point(self, state, keys):
        """A score for each place."""
        query = dy.parameter(self.W2) * state.output()
        return dy.transpose(dy.tanh(dy.colwise_add(keys, query))) * self.v

    def loss(self, numbers, order):
        inputs, keys, state = self.encode(numbers)
        losses, last = [], dy.parameter(self.first)
        for place in order:
            state = state.add_input(last)
            losses.append(dy.pickneglogsoftmax(self.point(state, keys), place))
            last = inputs[place]
        return dy.average(losses)

    def sort(self, numbers):
        """The numbers as they are pointed at, each but once."""
        inputs, keys, state = self.encode(numbers)
        left, last, found = set(range(len(numbers))), dy.parameter(self.first), []
        while left:
            state = state.add_input(last)
            scores = self.point(state, keys).vec_value()
            place = max(left, key=scores.__getitem__)
            left.remove(place)
            found.append(numbers[place])
            last = inputs[place]
        return found


def main():
    arguments = argparse.ArgumentParser(description=__doc__)
    arguments.add_argument("--updates", type=int, default=50)
    arguments.add_argument("--size", type=int, default=24)
    arguments.add_argument("--attention", type=int, default=16)
    arguments.add_argument("--batch", type=int, default=8)
    options, _ = arguments.parse_known_args()

    model = dy.Model()
    trainer = dy.RMSPropTrainer(model, 0.005)
    network = PointerNetwork(model, options.size, options.attention)
    data = problems(random.Random(1))
    for update in range(options.updates):
        dy.renew_cg()
        loss = dy.average([network.loss(*next(data)) for _ in range(options.batch)])
        print(update + 1, f"{loss.value():.6f}")
        loss.backward()
        trainer.update()
    trainer.update_epoch(1.0)

    for _ in range(3):
        numbers, _ = next(data)
        dy.renew_cg()
        print("sorted:", *(f"{number:.2f}" for number in network.sort(numbers)))


if __name__ == "__main__":
    main()
