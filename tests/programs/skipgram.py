"""Skip-gram word vectors with a softmax over classes of words.

Mikolov et al. 2013, arXiv:1301.3781; the softmax is that of Goodman 2001,
arXiv:cs/0108006. Text is made up: each sentence is about one topic, and takes most of
its words from there.
"""

import argparse
import os
import random
import tempfile

import dynet_config

dynet_config.set(random_seed=1, mem="512")

import dynet as dy  # noqa: E402
import numpy as np  # noqa: E402

TOPICS, TOPIC_WORDS, COMMON_WORDS = 6, 15, 10


def vocabulary():
    """Words of each topic, then those that occur everywhere."""
    topics = [[f"t{t}w{w}" for w in range(TOPIC_WORDS)] for t in range(TOPICS)]
    return topics, [f"common{w}" for w in range(COMMON_WORDS)]


def sentences(count, topics, common, rng):
    for _ in range(count):
        topic, sentence = rng.choice(topics), []
        for _ in range(rng.randint(4, 12)):
            words = common if rng.random() < 0.2 else topic
            # Those at the start of a list are the frequent ones.
            place = min(rng.randrange(len(words)), rng.randrange(len(words)))
            sentence.append(words[place])
        yield sentence


def write_clusters(path, topics, common):
    """A line ``CLASS word`` for each; the most frequent word is a class by itself."""
    with open(path, "w") as file:
        for t, words in enumerate(topics):
            for word in words:
                file.write(f"topic{t} {word}\n")
        file.write(f"alone {common[0]}\n")
        for word in common[1:]:
            file.write(f"common {word}\n")


class SkipGram:
    def __init__(self, model, vocab, clusters, dim):
        self.vocab = vocab
        self.vectors = model.add_lookup_parameters(
            (len(vocab), dim), init=dy.UniformInitializer(0.5 / dim)
        )
        self.softmax = dy.ClassFactoredSoftmaxBuilder(dim, clusters, vocab, model)

    def losses(self, sentence, window):
        """-log p of each word of the window around each word."""
        ids = [self.vocab[word] for word in sentence]
        for i, centre in enumerate(ids):
            x = dy.lookup(self.vectors, centre)
            for context in ids[max(0, i - window) : i] + ids[i + 1 : i + 1 + window]:
                yield self.softmax.neg_log_softmax(x, context)

    def nearest(self, word):
        table = self.vectors.as_array()
        table = table / np.linalg.norm(table, axis=1, keepdims=True)
        order = np.argsort(-table.dot(table[self.vocab[word]]))
        names = list(self.vocab)
        return [names[i] for i in order[1:4]]


def main():
    arguments = argparse.ArgumentParser(description=__doc__)
    arguments.add_argument("--updates", type=int, default=50)
    arguments.add_argument("--sentences", type=int, default=4)
    arguments.add_argument("--dim", type=int, default=24)
    arguments.add_argument("--window", type=int, default=2)
    options, _ = arguments.parse_known_args()

    rng = random.Random(1)
    topics, common = vocabulary()
    vocab = {}
    for words in [*topics, common]:
        for word in words:
            vocab[word] = len(vocab)
    model = dy.Model()
    trainer = dy.SimpleSGDTrainer(model, learning_rate=1.0)
    with tempfile.TemporaryDirectory() as folder:
        clusters = os.path.join(folder, "clusters.txt")
        write_clusters(clusters, topics, common)
        skipgram = SkipGram(model, vocab, clusters, options.dim)

    for update in range(1, options.updates + 1):
        dy.renew_cg()
        losses = []
        for sentence in sentences(options.sentences, topics, common, rng):
            losses.extend(skipgram.losses(sentence, options.window))
        loss = dy.average(losses)
        print(update, f"{loss.value():.6f}")
        loss.backward()
        trainer.update()
    for words in topics:
        print("nearest to", words[0], *skipgram.nearest(words[0]))


if __name__ == "__main__":
    main()
