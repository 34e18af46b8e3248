"""Constituency parser: scores of labelled spans, CKY's algorithm, and a margin loss.

Stern, Andreas & Klein 2017, arXiv:1705.03919: a span is what an LSTM's states differ by
at its ends. The loss is the margin by which another tree beats the right one, with each
wrong label worth one more. Sentences are made up by a small grammar.
"""

import argparse
import random

import dynet as dy
import numpy as np

LABELS = ["", "S", "NP", "VP", "PP"]  # the first one is that of no constituent
RULES = {
    "S": [["NP", "VP"]],
    "NP": [["det", "noun"], ["det", "adj", "noun"], ["NP", "PP"]],
    "VP": [["verb", "NP"], ["verb"], ["VP", "PP"]],
    "PP": [["prep", "NP"]],
}
WORDS = {"det": 3, "noun": 12, "adj": 5, "verb": 9, "prep": 4}
FIRST = {kind: sum([*WORDS.values()][:k]) for k, kind in enumerate(WORDS)}
START = END = sum(WORDS.values())


def derive(symbol, words, spans, rng, depth=0):
    """Append the words of a symbol, and put the label of each span into `spans`."""
    if symbol in WORDS:
        words.append(FIRST[symbol] + rng.randrange(WORDS[symbol]))
        return
    start, rules = len(words), RULES[symbol]
    rule = rules[0] if depth > 3 else rng.choice(rules)
    for part in rule:
        derive(part, words, spans, rng, depth + 1)
    spans[start, len(words)] = LABELS.index(symbol)


class Parser:
    def __init__(self, model, options):
        self.embeddings = model.add_lookup_parameters((END + 1, options.embedding))
        self.forward = dy.VanillaLSTMBuilder(1, options.embedding, options.lstm, model)
        self.backward = dy.VanillaLSTMBuilder(1, options.embedding, options.lstm, model)
        self.W1 = model.add_parameters((options.hidden, 2 * options.lstm))
        self.b1 = model.add_parameters((options.hidden,), init=dy.ConstInitializer(0))
        self.W2 = model.add_parameters((len(LABELS) - 1, options.hidden))
        self.b2 = model.add_parameters((len(LABELS) - 1,), init=dy.ConstInitializer(0))

    def span_scores(self, words):
        """For each span the scores of all labels; no label has zero."""
        inputs = [self.embeddings[w] for w in [START, *words, END]]
        ahead = self.forward.initial_state().transduce(inputs)
        back = self.backward.initial_state().transduce(inputs[::-1])[::-1]
        scores = {}
        for i in range(len(words)):
            for j in range(i + 1, len(words) + 1):
                ends = [ahead[j] - ahead[i], back[i + 1] - back[j + 1]]
                h = dy.rectify(self.W1 * dy.concatenate(ends) + self.b1)
                scores[i, j] = dy.concatenate([dy.zeros(1), self.W2 * h + self.b2])
        return scores

    def parse(self, words, gold=None):
        """Labels of the spans of the best tree, and the scores of all spans.

        With `gold`, labels that differ from those are worth one more.
        """
        scores, n = self.span_scores(words), len(words)
        best = {}
        for length in range(1, n + 1):
            for i in range(n - length + 1):
                j = i + length
                values = scores[i, j].npvalue().astype(float)
                if gold is not None:
                    values += np.arange(len(LABELS)) != gold.get((i, j), 0)
                if length == n:
                    values[0] = -np.inf  # the whole is a constituent
                label = int(values.argmax())
                inside, split = 0.0, None
                if length > 1:
                    inside, split = max(
                        (best[i, k][0] + best[k, j][0], k) for k in range(i + 1, j)
                    )
                best[i, j] = inside + values[label], label, split
        spans = {}

        def collect(i, j):
            _, label, split = best[i, j]
            spans[i, j] = label
            if split is not None:
                collect(i, split)
                collect(split, j)

        collect(0, n)
        return spans, scores

    def loss(self, words, gold):
        """By how much a tree, its wrong labels counted, beats the right one, if so."""
        found, scores = self.parse(words, gold)
        labels = {span: label for span, label in found.items() if label}
        if labels == gold:
            return None
        wrong = sum(gold.get(span, 0) != label for span, label in found.items())
        terms = [scores[span][label] for span, label in labels.items()]
        right = [scores[span][label] for span, label in gold.items()]
        return dy.esum(terms) - dy.esum(right) + wrong


def main():
    arguments = argparse.ArgumentParser(description=__doc__)
    arguments.add_argument("--updates", type=int, default=50)
    arguments.add_argument("--embedding", type=int, default=16)
    arguments.add_argument("--lstm", type=int, default=20)
    arguments.add_argument("--hidden", type=int, default=24)
    options, _ = arguments.parse_known_args()

    model = dy.ParameterCollection()
    trainer = dy.AdamTrainer(model, alpha=0.01)
    parser = Parser(model, options)
    rng = random.Random(1)
    updates = 0
    while updates < options.updates:
        words, gold = [], {}
        derive("S", words, gold, rng)
        if len(words) > 12:
            continue
        dy.renew_cg()
        loss = parser.loss(words, gold)
        if loss is None:
            continue
        updates += 1
        print(updates, f"{loss.value():.6f}")
        loss.backward()
        trainer.update()

    right = found = total = 0
    for _ in range(10):
        words, gold = [], {}
        derive("S", words, gold, rng)
        if len(words) <= 12:
            dy.renew_cg()
            labels = {s: y for s, y in parser.parse(words)[0].items() if y}
            right += len(labels.items() & gold.items())
            found, total = found + len(labels), total + len(gold)
    print(f"F1: {2 * right / (found + total):.3f}")


if __name__ == "__main__":
    main()
