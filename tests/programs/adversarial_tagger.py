"""Tagger for two domains whose shared layer does not tell which one it reads.

Ganin & Lempitsky 2015, arXiv:1409.7495: the gradient of a classifier of domains is
turned around before it reaches the shared network, little at first. Only sentences of
the first domain have tags. Sentences are made up: both domains have the same tags and
the same endings, with other stems.
"""

import argparse
import math
import random

import dynet_config

dynet_config.set(random_seed=1, mem="256", autobatch=1)

import dynet as dy  # noqa: E402
import numpy as np  # noqa: E402

TAGS, STEMS = 4, 12  # stems of each domain; a word is a stem and its tag's ending


def sentence(domain, rng):
    tag, words = rng.randrange(TAGS), []
    for _ in range(rng.randint(3, 7)):
        ending = tag if rng.random() < 0.9 else rng.randrange(TAGS)
        words.append((domain * STEMS + rng.randrange(STEMS), ending, tag))
        tag = (tag + rng.choice([1, 1, 1, 2])) % TAGS
    return words


class Tagger:
    def __init__(self, model, dim, hidden):
        self.stems = model.add_lookup_parameters((2 * STEMS, dim))
        self.endings = model.add_lookup_parameters((TAGS, dim))
        self.bilstm = dy.BiRNNBuilder(1, 2 * dim, hidden, model, dy.CoupledLSTMBuilder)
        self.W = model.add_parameters((TAGS, hidden))
        self.b = model.add_parameters(TAGS)
        self.W_domain = model.add_parameters((hidden, hidden))
        self.b_domain = model.add_parameters(hidden)
        self.v_domain = model.add_parameters((1, hidden))

    def read(self, words):
        both = [dy.concatenate([self.stems[s], self.endings[e]]) for s, e, _ in words]
        return self.bilstm.transduce(both)

    def scores(self, states):
        return [self.W * h + self.b for h in states]

    def domain(self, states, strength):
        """How probable it is that this is the second domain."""
        mean = dy.average(states)
        if strength:
            mean = dy.scale_gradient(dy.flip_gradient(mean), strength)
        h = dy.tanh(self.W_domain * mean + self.b_domain)
        return dy.logistic(self.v_domain * h)


def main():
    arguments = argparse.ArgumentParser(description=__doc__)
    arguments.add_argument("--updates", type=int, default=50)
    arguments.add_argument("--dim", type=int, default=10)
    arguments.add_argument("--hidden", type=int, default=16)
    options, _ = arguments.parse_known_args()

    model = dy.ParameterCollection()
    tagger = Tagger(model, options.dim, options.hidden)
    trainer = dy.RMSPropTrainer(model, 0.005)
    rng = random.Random(1)
    for update in range(1, options.updates + 1):
        strength = 2 / (1 + math.exp(-update / 8)) - 1
        dy.renew_cg()
        losses, domains, guesses = [], [], []
        for domain in (0, 1, 0, 1):
            words = sentence(domain, rng)
            states = tagger.read(words)
            if domain == 0:
                for scores, (_, _, tag) in zip(
                    tagger.scores(states), words, strict=True
                ):
                    losses.append(dy.pickneglogsoftmax(scores, tag))
            p = tagger.domain(states, strength)
            domains.append(dy.binary_log_loss(p, dy.scalarInput(domain)))
            guesses.append((p, domain))
        loss = dy.average(losses) + dy.average(domains)
        print(update, f"{loss.value():.6f}")
        right = sum((p.scalar_value() > 0.5) == domain for p, domain in guesses)
        loss.backward()
        trainer.update()
    print("domains told apart by the last update:", right, "of 4")

    right = total = 0
    for _ in range(20):
        dy.renew_cg()
        words = sentence(1, rng)
        for scores, (_, _, tag) in zip(
            tagger.scores(tagger.read(words)), words, strict=True
        ):
            right += int(np.argmax(scores.npvalue())) == tag
            total += 1
    print(f"tags found in the other domain: {right / total:.3f}")


if __name__ == "__main__":
    main()
