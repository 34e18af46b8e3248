"""Stack-LSTM dependency parser that explores: arc-hybrid with a dynamic oracle.

Dyer et al. 2015, arXiv:1505.08075, and Ballesteros et al. 2016, arXiv:1603.03793; the
oracle is that of Goldberg & Nivre 2013, "Training deterministic parsers with
non-deterministic oracles". Sentences are made up: the kinds of two words say which one
depends on the other.
"""

import argparse
import random

import dynet as dy

SHIFT, LEFT, RIGHT = range(3)
KINDS, WORDS = 4, 48


def sentences(count, rng):
    """Lists of words and of heads, projective; the word 0 is the root."""

    def grow(words, heads, kind, depth):
        several = [[1, 2], [0, 1, 2], [0]][depth]
        before, behind = rng.choice(several), rng.choice(several)
        own = [grow(words, heads, (kind + 1) % KINDS, depth + 1) for _ in range(before)]
        me = len(words)
        words.append(kind + KINDS * rng.randrange(WORDS // KINDS))
        heads.append(0)
        own += [
            grow(words, heads, (kind + 2) % KINDS, depth + 1) for _ in range(behind)
        ]
        for dependant in own:
            heads[dependant] = me
        return me

    for _ in range(count):
        words, heads = [WORDS], [-1]
        grow(words, heads, 0, 0)
        yield words, heads


def legal_actions(stack, buffer):
    legal = [SHIFT] if buffer else []
    if stack[-1] != 0:
        legal += [LEFT, RIGHT] if buffer else [RIGHT]
    return legal


def cost(action, stack, buffer, heads):
    """How many arcs of the tree can no longer be found after an action."""
    if action == SHIFT:
        word = buffer[0]
        return (heads[word] in stack[:-1]) + sum(heads[s] == word for s in stack)
    top = stack[-1]
    others = stack[-2:-1] + buffer[1:] if action == LEFT else buffer
    return (heads[top] in others) + sum(heads[b] == top for b in buffer)


class StackRNN:
    """A stack, read by an LSTM: to pop is to go back to an earlier state."""

    def __init__(self, builder, empty):
        self.states = [builder.initial_state().add_input(empty)]
        self.items = []

    def push(self, x, name=None):
        self.states.append(self.states[-1].add_input(x))
        self.items.append((x, name))

    def pop(self):
        self.states.pop()
        return self.items.pop()


class Parser:
    def __init__(self, model, options):
        dim, lstm, hidden = options.embedding, options.lstm, options.hidden
        self.words = model.add_lookup_parameters((WORDS + 1, dim))
        self.actions = model.add_lookup_parameters((3, dim))
        self.lstms = [dy.LSTMBuilder(1, dim, lstm, model) for _ in range(3)]
        self.empty = [model.add_parameters(dim) for _ in range(3)]
        sizes = [(dim, 2 * dim), (hidden, 3 * lstm), (3, hidden)]
        self.compose, self.hidden, self.output = [
            (model.add_parameters(size), model.add_parameters(size[0]))
            for size in sizes
        ]

    def start(self, words):
        """The stack with the root only, all words in the buffer, no actions."""
        empty = [dy.parameter(e) for e in self.empty]
        stack, buffer, history = map(StackRNN, self.lstms, empty)
        stack.push(self.words[words[0]], 0)
        for i in reversed(range(1, len(words))):
            buffer.push(self.words[words[i]], i)
        return stack, buffer, history

    def log_probabilities(self, stacks, legal):
        W, b = map(dy.parameter, self.hidden)
        h = dy.rectify(W * dy.concatenate([s.states[-1].output() for s in stacks]) + b)
        W, b = map(dy.parameter, self.output)
        return dy.log_softmax(W * h + b, legal)

    def act(self, action, stack, buffer, history):
        """The dependant and its head, of the actions that join two."""
        history.push(dy.lookup(self.actions, action))
        if action == SHIFT:
            stack.push(*buffer.pop())
            return None
        W, b = map(dy.parameter, self.compose)
        target = buffer if action == LEFT else stack
        (x, dependant), (y, head) = stack.pop(), target.pop()
        target.push(dy.tanh(W * dy.concatenate([y, x]) + b), head)
        return dependant, head

    def parse(self, words, heads, explores):
        """-log p of the best right actions, and the arcs that were found."""
        stack, buffer, _ = stacks = self.start(words)
        losses, arcs = [], set()
        while buffer.items or len(stack.items) > 1:
            left = [i for _, i in stack.items]
            right = [i for _, i in reversed(buffer.items)]
            legal = legal_actions(left, right)
            action = legal[0]
            if len(legal) > 1:
                log_p = self.log_probabilities(stacks, legal)
                legal.sort(key=log_p.npvalue().item, reverse=True)
                gold = min(legal, key=lambda a: cost(a, left, right, heads))
                losses.append(-dy.pick(log_p, gold))
                action = legal[0] if explores() else gold
            arcs.add(self.act(action, *stacks))
        return losses, arcs


def main():
    arguments = argparse.ArgumentParser(description=__doc__)
    arguments.add_argument("--updates", type=int, default=50)
    arguments.add_argument("--embedding", type=int, default=20)
    arguments.add_argument("--lstm", type=int, default=24)
    arguments.add_argument("--hidden", type=int, default=24)
    arguments.add_argument("--explore", type=float, default=0.5)
    options, _ = arguments.parse_known_args()

    model = dy.Model()
    trainer = dy.AdamTrainer(model, 0.01)
    parser = Parser(model, options)
    rng = random.Random(1)
    found = total = 0

    def explores():
        return rng.random() < options.explore

    for update, (words, heads) in enumerate(sentences(options.updates, rng), 1):
        dy.renew_cg()
        losses, arcs = parser.parse(words, heads, explores)
        found += len(arcs & set(enumerate(heads)))
        total += len(words) - 1
        loss = dy.average(losses)
        print(update, f"{loss.scalar_value():.6f}")
        loss.backward()
        trainer.update()
    print(f"heads found while exploring: {found / total:.2f}")


if __name__ == "__main__":
    main()
