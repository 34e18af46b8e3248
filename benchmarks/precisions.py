"""Losses of three tasks by the precision of products, which a CPU only imitates.

    python benchmarks/precisions.py [--updates 3000]

Operands of products with matrices, in both directions, are rounded as tensor cores do:
to 11 significant bits for TF32, to 8 for bfloat16. Sums are float32. Printed is the
mean loss a word, or a tree, over each part of the updates.
"""

import random
import subprocess
import sys

import corpora
import harness
import jax
import jax.numpy as jnp
import numpy as np
from rnnlm import LanguageModel
from tagger import Tagger
from treelstm import TreeLSTM

import dynetjax as dy
from dynetjax.engine.runtime import RUNTIME
from dynetjax.ops.linear import matmul

BITS = {"float32": 24, "tensorfloat32": 11, "bfloat16": 8}
PARTS = 6
ROWS = {
    "tagger": (Tagger, corpora.read_tagged, corpora.sentence_units, 1),
    "trees": (TreeLSTM, corpora.read_trees, lambda t: corpora.tree_units(t, 1), 1),
    "language model 16": (
        LanguageModel,
        corpora.read_text,
        lambda t: corpora.minibatch_units(t, 16),
        8,  # times as few updates
    ),
}


def rounded(x, bits):
    """Numbers with so many significant bits (Veltkamp's splitting)."""
    spread = x * np.float32(2.0 ** (24 - bits) + 1)
    return spread - (spread - x)


def product_of(bits):
    """A matrix product whose second operand, and cotangent, are rounded."""

    @jax.custom_vjp
    def same(z):
        return z

    same.defvjp(lambda z: (z, None), lambda _, g: (rounded(g, bits),))

    def product(x, y):
        near = y + jax.lax.stop_gradient(rounded(y, bits) - y)
        return same(jnp.dot(x.reshape(len(x), -1), near))

    return product


class Imitation:
    """Trains with products whose matrices are rounded, too.

    The parameters that are updated keep all of their bits.
    """

    def __init__(self, runner, bits):
        self.runner, self.bits = runner, bits
        parameters = runner.model.parameters_list()
        self.matrices = [p for p in parameters if len(p.shape()) == 2]

    def train(self, content):
        """One update; its loss."""
        dy.renew_cg()
        exact = [p.as_array() for p in self.matrices]
        for p, values in zip(self.matrices, exact, strict=True):
            p.set_value(rounded(values.astype(np.float32), self.bits))
        loss = self.runner.network.loss(content)
        value = loss.value()
        loss.backward()
        for p, values in zip(self.matrices, exact, strict=True):
            p.set_value(values)
        self.runner.trainer.update()
        return value


def curve(row, bits, args):
    """Mean losses a word, or a tree, over the parts of some updates."""
    network, read, units_of, slower = ROWS[row]
    if bits < 24:
        matmul.op.fn = product_of(bits)
    dy.reset_random_seed(args.seed)
    data = read(args)
    units = units_of(data)
    random.Random(args.seed).shuffle(units)
    runner = Imitation(harness.DynetRunner(dy, network, data, args), bits)
    losses, each = [], args.updates // slower // PARTS
    for start in range(0, each * PARTS, each):
        part = [units[k % len(units)] for k in range(start, start + each)]
        total = sum([runner.train(unit.content) for unit in part])
        losses.append(total / sum([unit.items for unit in part]))
    return losses


def main():
    """Print a row's losses for one precision; or all, each in its own process."""
    args = harness.arguments(__doc__, updates=3000, row="", bits=24)
    if args.row:
        RUNTIME.keeps_byte_code = False  # of other products
        print(*[f"{loss:9.4f}" for loss in curve(args.row, args.bits, args)])
        return
    for row in ROWS:
        print(row)
        for name, bits in BITS.items():
            words = [*sys.argv, "--row", row, "--bits", str(bits)]
            told = subprocess.check_output([sys.executable, *words], text=True)
            print(f"  {name:14}", told.rstrip(), flush=True)


if __name__ == "__main__":
    main()
