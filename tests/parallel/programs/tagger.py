"""A tagger written for DyNet, in as many processes as it is run in."""

import os
import random
import sys

import dynet as dy
import numpy as np

from dynetjax import parallel

out, seed = sys.argv[1], int(sys.argv[2])
rng = random.Random(1)
DATA = [[rng.randrange(30) for _ in range(rng.randrange(2, 9))] for _ in range(12)]
if seed:
    dy.reset_random_seed(seed)
m = dy.ParameterCollection()
trainer = dy.AdamTrainer(m)
words = m.add_lookup_parameters((30, 8))
lstm = dy.VanillaLSTMBuilder(1, 8, 6, m)
W = m.add_parameters((4, 6))


def loss(sentence):
    """Of every word's tag."""
    states = lstm.initial_state().transduce([words[w] for w in sentence])
    pairs = zip(states, sentence, strict=True)
    return dy.esum([dy.pickneglogsoftmax(W * h, w % 4) for h, w in pairs])


def train(groups):
    """One update by the sum of the losses of each group."""
    for group in groups:
        dy.renew_cg()
        total = dy.esum([loss(sentence) for sentence in group])
        total.value()
        total.backward()
        trainer.update()


for _ in range(2):
    if parallel.size() == 1:
        train([DATA[k : k + 2] for k in range(0, 12, 2)])
    else:
        train([[sentence] for sentence in parallel.shard(DATA, shuffle=False)])
if "save" in sys.argv:
    m.save(out)  # by the first process alone
    print("rank", parallel.rank(), os.path.exists(out), flush=True)
    again = dy.ParameterCollection()
    again.add_lookup_parameters((30, 8))
    dy.VanillaLSTMBuilder(1, 8, 6, again)
    again.add_parameters((4, 6))
    again.populate(out)
numbers = [p.as_array().ravel() for p in (words, W, *lstm.get_parameters()[0])]
np.save(f"{out}.{parallel.rank()}.npy", np.concatenate(numbers))
