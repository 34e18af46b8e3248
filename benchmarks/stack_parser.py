"""Stack-LSTM shift-reduce parser (Dyer et al. 2015), against DyNet's API.

The stack is an LSTM whose states branch: a reduction goes back to an earlier state, and
on from there with what it has composed. The scores of every step are read.
"""

import corpora
from greedy_parser import ACTIONS, Configuration, gold_actions
from treelstm import dy, run

EMBEDDING, LAYERS, HIDDEN, LAYER = 100, 2, 100, 100


class StackParser:
    """Scores of actions from an LSTM over the stack, and one over the words ahead."""

    def __init__(self, model, data, args):
        del args
        add = model.add_parameters
        self.numbers, self.unknown = data.words, data.words[corpora.UNKNOWN]
        self.table = model.add_lookup_parameters((len(data.words), EMBEDDING))
        self.stack = dy.VanillaLSTMBuilder(LAYERS, EMBEDDING, HIDDEN, model)
        self.buffer = dy.VanillaLSTMBuilder(LAYERS, EMBEDDING, HIDDEN, model)
        self.guard = add(EMBEDDING)
        self.compose, self.compose_bias = (
            add((EMBEDDING, 2 * EMBEDDING)),
            add(EMBEDDING),
        )
        self.hidden, self.bias = add((LAYER, 2 * HIDDEN)), add(LAYER)
        self.out = add((ACTIONS, LAYER))

    def steps(self, tree):
        """Yields a configuration and its scores; send it the action to take."""
        words = tree.words()
        xs = [self.table[self.numbers.get(w, self.unknown)] for w in words]
        guard = dy.tanh(self.guard)
        ahead = self.buffer.initial_state().add_inputs([guard, *xs[::-1]])
        states, vectors = [self.stack.initial_state().add_input(guard)], []
        at = Configuration(words)
        while not at.done:
            x = dy.concatenate([states[-1].output(), ahead[-1].output()])
            scores = self.out * dy.tanh(
                dy.affine_transform([self.bias, self.hidden, x])
            )
            action = yield at, scores
            if action:
                both = dy.concatenate(vectors[-2:])
                new = dy.tanh(
                    dy.affine_transform([self.compose_bias, self.compose, both])
                )
                del vectors[-2:], states[-2:]
            else:
                new = xs[at.next]
                ahead.pop()
            vectors.append(new)
            states.append(states[-1].add_input(new))
            at.take(action)

    def loss(self, trees):
        """Negative log likelihood of the actions that were not the best."""
        losses = []
        for tree in trees:
            steps = self.steps(tree)
            at, scores = next(steps)
            for action in gold_actions(tree):
                if at.allowed(scores.npvalue()) != action or not losses:
                    losses.append(dy.pickneglogsoftmax(scores, action))
                at, scores = next_of(steps, action)
        return dy.esum(losses)

    def predict(self, trees, clock):
        """The actions of each parse."""
        parses = []
        for tree in trees:
            steps = self.steps(tree)
            at, scores = next(steps)
            parses.append([])
            while at is not None:
                parses[-1].append(at.allowed(scores.npvalue()))
                at, scores = next_of(steps, parses[-1][-1])
        clock.mark("value")
        return parses


def next_of(steps, action):
    """What follows on an action; (None, None) after the last."""
    try:
        return steps.send(action)
    except StopIteration:
        return None, None


if __name__ == "__main__":
    run("stack_parser", StackParser, __doc__)
