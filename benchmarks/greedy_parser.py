"""Greedy shift-reduce parser over BiLSTM features (Cross & Huang 2016), DyNet's API.

It reads the scores of every step, and decides by them what to do (when it parses) or
whether there is a loss (when it learns). ``--batch`` trees a graph go in lock-step: a
step of all of them is read at once.
"""

import corpora
from treelstm import dy, run

EMBEDDING, LAYERS, HIDDEN, LAYER = 50, 2, 200, 200
SHIFT = 0
ACTIONS = 1 + corpora.SENTIMENTS  # shift, and a reduction for each label


def gold_actions(tree):
    """The actions that build a tree: shifts, and reductions by label."""
    if tree.word is not None:
        return [SHIFT]
    left, right = map(gold_actions, tree.children)
    return [*left, *right, 1 + tree.label]


class Configuration:
    """A stack of spans, each known by its first word, and the words to come."""

    def __init__(self, words):
        self.words, self.stack, self.next = words, [], 0

    @property
    def done(self):
        """Whether all words are one span."""
        return self.next == len(self.words) and len(self.stack) == 1

    def allowed(self, scores):
        """The action with the highest score among those that are possible."""
        if len(self.stack) < 2:
            return SHIFT
        first = 1 if self.next == len(self.words) else 0
        return first + int(scores[first:].argmax())

    def take(self, action):
        """Go on with an action."""
        if action == SHIFT:
            self.stack.append(self.next)
            self.next += 1
        else:
            self.stack.pop()


class Parser:
    """Scores of actions from the words around the top of the stack."""

    def __init__(self, model, data, args):
        del args
        self.numbers, self.unknown = data.words, data.words[corpora.UNKNOWN]
        self.table = model.add_lookup_parameters((len(data.words), EMBEDDING))
        self.forward = dy.VanillaLSTMBuilder(LAYERS, EMBEDDING, HIDDEN, model)
        self.backward = dy.VanillaLSTMBuilder(LAYERS, EMBEDDING, HIDDEN, model)
        self.nothing = model.add_parameters(2 * HIDDEN)
        self.hidden = model.add_parameters((LAYER, 6 * HIDDEN))
        self.bias = model.add_parameters(LAYER)
        self.out = model.add_parameters((ACTIONS, LAYER))

    def read(self, tree):
        """A configuration, and a vector for each of its words and for none."""
        words = tree.words()
        xs = [self.table[self.numbers.get(w, self.unknown)] for w in words]
        forth = self.forward.initial_state().transduce(xs)
        back = self.backward.initial_state().transduce(xs[::-1])[::-1]
        states = [dy.concatenate([f, b]) for f, b in zip(forth, back, strict=True)]
        return Configuration(words), [*states, dy.tanh(self.nothing)]

    def scores(self, at, states):
        """A score for each action."""
        top = [states[k] for k in [-1, -1, *at.stack][-2:]]
        ahead = states[at.next]  # after the last word, the vector for none
        x = dy.concatenate([*top, ahead])
        return self.out * dy.tanh(dy.affine_transform([self.bias, self.hidden, x]))

    def loss(self, trees):
        """Negative log likelihood of the actions that were not the best."""
        read = [(*self.read(tree), gold_actions(tree)) for tree in trees]
        losses = []
        for step in range(max(len(gold) for _, _, gold in read)):
            now = [(at, s, gold[step]) for at, s, gold in read if step < len(gold)]
            scores = [self.scores(at, states) for at, states, _ in now]
            for (at, _, action), score in zip(now, scores, strict=True):
                if at.allowed(score.npvalue()) != action or not losses:
                    losses.append(dy.pickneglogsoftmax(score, action))
                at.take(action)
        return dy.esum(losses)

    def predict(self, trees, clock):
        """The actions of each parse."""
        read = [self.read(tree) for tree in trees]
        parses = [[] for _ in read]
        clock.mark("build")
        while not all(at.done for at, _ in read):
            now = [(k, *both) for k, both in enumerate(read) if not both[0].done]
            scores = [self.scores(at, states) for _, at, states in now]
            for (k, at, _), score in zip(now, scores, strict=True):
                parses[k].append(at.allowed(score.npvalue()))
                at.take(parses[k][-1])
        clock.mark("value")
        return parses


if __name__ == "__main__":
    run("greedy_parser", Parser, __doc__)
