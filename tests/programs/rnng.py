"""Recurrent neural network grammar, the generative one.

Dyer et al. 2016, arXiv:1602.07776: a stack LSTM holds what is open and what is
complete; a complete constituent becomes one vector, read by an LSTM in both directions.
The states are taken back with `prev`. Sentences are made up by a small grammar.
"""

import argparse
import itertools
import random

import dynet as dy

NONTERMINALS = ["S", "NP", "VP", "PP"]
REDUCE, GEN = 0, 1  # then one action for each nonterminal
RULES = {
    "S": [["NP", "VP"]],
    "NP": [["d", "n"], ["d", "a", "n"], ["n"], ["NP", "PP"]],
    "VP": [["v"], ["v", "NP"], ["v", "NP", "PP"]],
    "PP": [["p", "NP"]],
}
LEXICON = {kind: [f"{kind}{i}" for i in range(6)] for kind in "danvp"}
WORDS = {word: i for i, word in enumerate(itertools.chain(*LEXICON.values()))}


def grow(symbol, rng, depth=0):
    """A word, or a nonterminal with its parts."""
    if symbol in LEXICON:
        return rng.choice(LEXICON[symbol])
    rules = RULES[symbol]
    rule = rng.choice(rules if depth < 4 else rules[:1])
    return symbol, [grow(part, rng, depth + 1) for part in rule]


def oracle(tree):
    """The actions that make a tree, with the word of each GEN."""
    if isinstance(tree, str):
        yield GEN, WORDS[tree]
        return
    symbol, parts = tree
    yield 2 + NONTERMINALS.index(symbol), None
    for part in parts:
        yield from oracle(part)
    yield REDUCE, None


class RNNG:
    def __init__(self, model, dim, hidden):
        self.words = model.add_lookup_parameters((len(WORDS), dim))
        self.labels = model.add_lookup_parameters((len(NONTERMINALS), dim))
        self.opened = model.add_lookup_parameters((len(NONTERMINALS), dim))
        self.past = model.add_lookup_parameters((len(NONTERMINALS) + 2, dim))
        self.stack_rnn = dy.LSTMBuilder(1, dim, hidden, model)
        self.action_rnn = dy.LSTMBuilder(1, dim, hidden, model)
        self.part_rnns = [dy.LSTMBuilder(1, dim, hidden, model) for _ in range(2)]
        self.W_part = model.add_parameters((dim, 2 * hidden))
        self.b_part = model.add_parameters((dim,), init=dy.ConstInitializer(0))
        self.W = model.add_parameters((hidden, 2 * hidden))
        self.b = model.add_parameters((hidden,), init=dy.ConstInitializer(0))
        self.W_act = model.add_parameters((len(NONTERMINALS) + 2, hidden))
        self.b_act = model.add_parameters((len(NONTERMINALS) + 2,))
        self.start = model.add_parameters((dim,))
        self.words_out = dy.StandardSoftmaxBuilder(hidden, len(WORDS), model)

    def compose(self, label, parts):
        x = self.labels[label]
        fwd = self.part_rnns[0].initial_state().transduce([x, *parts])[-1]
        bwd = self.part_rnns[1].initial_state().transduce([x, *parts[::-1]])[-1]
        both = dy.concatenate([fwd, bwd])
        return dy.tanh(dy.affine_transform([self.b_part, self.W_part, both]))

    def losses(self, tree):
        """-log p of each action, and of each word."""
        top = self.stack_rnn.initial_state().add_input(self.start)
        history = self.action_rnn.initial_state().add_input(self.start)
        items, losses = [], []  # items: a vector, and a label while it is open
        for action, word in oracle(tree):
            h = dy.concatenate([top.output(), history.output()])
            h = dy.tanh(dy.affine_transform([self.b, self.W, h]))
            legal = [k + 2 for k in range(len(NONTERMINALS))]
            if items:
                legal += [GEN] if items[-1][1] is not None else [GEN, REDUCE]
            if len(legal) > 1 or action != legal[0]:
                scores = dy.affine_transform([self.b_act, self.W_act, h])
                losses.append(-dy.log_softmax(scores, legal)[action])
            history = history.add_input(self.past[action])
            if action == GEN:
                losses.append(self.words_out.neg_log_softmax(h, word))
                items.append((self.words[word], None))
            elif action == REDUCE:
                parts, label = [], None
                while label is None:
                    vector, label = items.pop()
                    top = top.prev()
                    parts.append(vector)
                items.append((self.compose(label, parts[-2::-1]), None))
            else:
                items.append((self.opened[action - 2], action - 2))
            top = top.add_input(items[-1][0])
        return losses


def main():
    arguments = argparse.ArgumentParser(description=__doc__)
    arguments.add_argument("--updates", type=int, default=50)
    arguments.add_argument("--dim", type=int, default=20)
    arguments.add_argument("--hidden", type=int, default=24)
    arguments.add_argument("--batch", type=int, default=2)
    options, _ = arguments.parse_known_args()

    model = dy.ParameterCollection()
    grammar = RNNG(model, options.dim, options.hidden)
    trainer = dy.AdamTrainer(model, 0.005)
    trainer.set_clip_threshold(1.0)
    rng = random.Random(3)
    for update in range(1, options.updates + 1):
        dy.renew_cg()
        losses = []
        for _ in range(options.batch):
            losses += grammar.losses(grow("S", rng))
        loss = dy.esum(losses) / len(losses)
        print(update, f"{loss.value():.6f}")
        loss.backward()
        trainer.update()
    trainer.status()


if __name__ == "__main__":
    main()
