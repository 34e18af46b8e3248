"""Neural Turing machine that learns to copy: Graves et al. 2014, arXiv:1410.5401.

A controller writes to a memory and reads from it, where contents match or next to where
it was: a shift is a circular convolution. Sequences of random bits are read, then
written again.
"""

import argparse
import random

import dynet as dy
import numpy as np

BITS = 4


def sequence(rng, most=4):
    length = rng.randint(1, most)
    return [[float(rng.random() < 0.5) for _ in range(BITS)] for _ in range(length)]


class Head:
    """Where to read or write."""

    def __init__(self, model, inputs, rows, width):
        self.rows, self.width = rows, width
        self.W = model.add_parameters((width + 6, inputs))
        self.b = model.add_parameters(width + 6)

    def address(self, h, memory, before):
        out = dy.affine_transform([self.b, self.W, h])
        key = dy.tanh(dy.pick_range(out, 0, self.width))
        rest = dy.pick_range(out, self.width, self.width + 6)
        strength = 1 + dy.log(1 + dy.exp(rest[0]))
        gate, sharpness = dy.logistic(rest[1]), 1 + dy.log(1 + dy.exp(rest[2]))
        norms = dy.sqrt(dy.sum_dim(dy.square(memory), [1]) + 1e-6)
        similar = dy.cdiv(memory * key, norms * dy.sqrt(dy.squared_norm(key) + 1e-6))
        content = dy.softmax(similar * strength)
        w = content * gate + before * (1 - gate)
        shift = dy.softmax(rest[3:6])
        kernel = dy.concatenate(
            [shift[1:3], dy.zeros(self.rows - 3), shift[0:1]]
        )  # stay, one on, ..., one back
        w = dy.circ_conv(w, kernel)
        w = dy.pow(w + 1e-6, sharpness)
        return dy.cdiv(w, dy.sum_elems(w))


class Machine:
    def __init__(self, model, options):
        rows, width, hidden = options.rows, options.width, options.hidden
        self.rnn = dy.SimpleRNNBuilder(1, BITS + 2 + width, hidden, model)
        self.reader = Head(model, hidden, rows, width)
        self.writer = Head(model, hidden, rows, width)
        self.W_erase = model.add_parameters((width, hidden))
        self.W_add = model.add_parameters((width, hidden))
        self.W_out = model.add_parameters((BITS, hidden + width))
        self.b_out = model.add_parameters(BITS)
        self.rows, self.width = rows, width

    def losses(self, bits):
        memory = dy.constant((self.rows, self.width), 0.1)
        first = dy.one_hot(self.rows, 0)
        read_at, write_at = first, first
        vector = dy.zeroes((self.width,))
        state = self.rnn.initial_state()
        inputs = [[*b, 0.0, 0.0] for b in bits] + [[0.0] * BITS + [1.0, 0.0]]
        inputs += [[0.0] * BITS + [0.0, 1.0] for _ in bits]
        losses = []
        for step, x in enumerate(inputs):
            state = state.add_input(dy.concatenate([dy.inputVector(x), vector]))
            h = state.output()
            write_at = self.writer.address(h, memory, write_at)
            erase, add = dy.logistic(self.W_erase * h), dy.tanh(self.W_add * h)
            memory = dy.cmult(memory, 1 - write_at * dy.transpose(erase))
            memory = memory + write_at * dy.transpose(add)
            read_at = self.reader.address(h, memory, read_at)
            vector = dy.transpose(memory) * read_at
            if step > len(bits):
                y = dy.affine_transform(
                    [self.b_out, self.W_out, dy.concatenate([h, vector])]
                )
                target = dy.inputVector(bits[step - len(bits) - 1])
                losses.append(dy.binary_log_loss(dy.logistic(y), target))
        return losses, memory


def main():
    arguments = argparse.ArgumentParser(description=__doc__)
    arguments.add_argument("--updates", type=int, default=50)
    arguments.add_argument("--rows", type=int, default=8)
    arguments.add_argument("--width", type=int, default=6)
    arguments.add_argument("--hidden", type=int, default=20)
    options, _ = arguments.parse_known_args()

    model = dy.Model()
    machine = Machine(model, options)
    trainer = dy.RMSPropTrainer(model, 0.005, 1e-8, 0.9)
    trainer.set_clip_threshold(10.0)
    rng = random.Random(1)
    for update in range(1, options.updates + 1):
        bits = sequence(rng)
        dy.renew_cg()
        losses, memory = machine.losses(bits)
        loss = dy.esum(losses) / len(bits)
        print(update, f"{loss.value():.6f}")
        loss.backward()
        trainer.update()
    print("memory:", memory.dim(), np.asarray(memory.value()).shape)


if __name__ == "__main__":
    main()
