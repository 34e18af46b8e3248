"""Words classified by convolutions over their characters.

Kim 2014, arXiv:1408.5882, over characters instead of words: filters of several widths,
their greatest value over the word, and a softmax. Words are made up: each has somewhere
in it one of the pieces that tell its class.
"""

import argparse
import random

import dynet as dy

LETTERS = "abcdefghijklmnopqrstuvwxyz"
PIECES = [("ing", "ede"), ("tion", "ist"), ("qu", "ez"), ("anth", "olog")]
WIDTHS = 2, 3, 4


def words(count, rng):
    """Pairs of a word and the number of its class."""
    for _ in range(count):
        label = rng.randrange(len(PIECES))
        before, after = (
            "".join(rng.choice(LETTERS) for _ in range(rng.randint(1, 5)))
            for _ in range(2)
        )
        yield before + rng.choice(PIECES[label]) + after, label


class Classifier:
    def __init__(self, model, options):
        size, filters = options.embedding, options.filters
        self.filters = filters
        # An image of one row for each letter, with the embedding as its channels.
        self.lookup = model.add_lookup_parameters((len(LETTERS), 1, 1, size))
        self.banks = [
            (
                model.add_parameters((1, width, size, filters)),
                model.add_parameters(filters),
            )
            for width in WIDTHS
        ]
        self.W = model.add_parameters((len(PIECES), len(WIDTHS) * filters))
        self.b = model.add_parameters(len(PIECES))

    def scores(self, word):
        embedded = [dy.lookup(self.lookup, LETTERS.index(c)) for c in word]
        image = dy.concatenate(embedded, d=1)
        pooled = []
        for filters, bias in self.banks:
            filters, bias = dy.parameter(filters), dy.parameter(bias)
            found = dy.conv2d_bias(image, filters, bias, stride=(1, 1), is_valid=True)
            greatest = dy.max_dim(found, d=1)
            pooled.append(dy.rectify(dy.reshape(greatest, (self.filters,))))
        return dy.affine_transform([self.b, self.W, dy.concatenate(pooled)])


def accuracy(classifier, data):
    right = 0
    for word, label in data:
        dy.renew_cg()
        right += int(classifier.scores(word).npvalue().argmax() == label)
    return right / len(data)


def main():
    arguments = argparse.ArgumentParser(description=__doc__)
    arguments.add_argument("--updates", type=int, default=50)
    arguments.add_argument("--embedding", type=int, default=16)
    arguments.add_argument("--filters", type=int, default=20)
    arguments.add_argument("--batch", type=int, default=10)
    options, _ = arguments.parse_known_args()

    model = dy.Model()
    trainer = dy.AdamTrainer(model, 0.01)
    classifier = Classifier(model, options)
    rng = random.Random(1)
    train, test = list(words(200, rng)), list(words(40, rng))
    updates = 0
    while updates < options.updates:
        rng.shuffle(train)
        for start in range(0, len(train), options.batch):
            dy.renew_cg()
            losses = [
                dy.pickneglogsoftmax(classifier.scores(word), label)
                for word, label in train[start : start + options.batch]
            ]
            loss = dy.esum(losses) / len(losses)
            updates += 1
            print(updates, f"{loss.value():.6f}")
            loss.backward()
            trainer.update()
            if updates == options.updates:
                break
        trainer.update_epoch(1.0)
    print(f"accuracy: {accuracy(classifier, test):.3f}")


if __name__ == "__main__":
    main()
