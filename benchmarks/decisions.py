"""Programs that look at values and then decide how to go on, against DyNet's API.

``--program``: `reader` stops when it is sure; `beam` keeps the best few histories;
`reinforce` learns from what it drew; `growing` goes on and on in one graph; `trials`
goes back to a checkpoint after each continuation.
"""

import math
import random

import corpora
import harness

dy = harness.dynet()
EMBEDDING, HIDDEN, LAYER = 100, 100, 100
BEAM, CANDIDATES, ROUNDS = 4, 3, 10


class Program:
    """An LSTM over words and the tags chosen before, and scores of tags."""

    def __init__(self, model, data, args):
        self.words, self.tags = data.words, data.tags
        self.count = len(data.tags)
        self.table = model.add_lookup_parameters((len(data.words), EMBEDDING))
        self.before = model.add_lookup_parameters((self.count + 1, EMBEDDING))
        self.lstm = dy.VanillaLSTMBuilder(1, 2 * EMBEDDING, HIDDEN, model)
        self.layer = model.add_parameters((LAYER, HIDDEN))
        self.bias = model.add_parameters(LAYER)
        self.out = model.add_parameters((self.count, LAYER))
        self.sure = model.add_parameters((1, EMBEDDING))
        self.random = random.Random(args.seed)

    def read(self, sentence):
        """Vectors of the words, and the numbers of the tags."""
        xs = [self.table[self.words[w]] for w, _ in sentence]
        return xs, [self.tags[t] for _, t in sentence]

    def step(self, state, x, tag):
        """The state after a word and the tag before it, and scores."""
        state = state.add_input(dy.concatenate([x, self.before[tag]]))
        h = dy.tanh(dy.affine_transform([self.bias, self.layer, state.output()]))
        return state, self.out * h

    def loss(self, sentence):
        """Negative log likelihood of the tags."""
        xs, tags = self.read(sentence)
        state, tag, losses = self.lstm.initial_state(), self.count, []
        for x, gold in zip(xs, tags, strict=True):
            state, scores = self.step(state, x, tag)
            losses.append(dy.pickneglogsoftmax(scores, gold))
            tag = gold
        return dy.esum(losses)

    def predict(self, sentence, clock):
        """What the program decides."""
        found = self.decide(sentence)
        clock.mark("value")
        return found


class Reader(Program):
    """Adds up words until it is sure whether there is a name among them."""

    def decide(self, sentence):
        return self.scored(sentence)[1]

    def scored(self, sentence):
        total, sure = None, None
        for x in self.read(sentence)[0]:
            total = x if total is None else total + x
            sure = dy.logistic(self.sure * dy.tanh(total))
            if not 0.05 < sure.value() < 0.95:
                break
        return sure, sure.value() > 0.5

    def loss(self, sentence):
        named = any(tag != "O" for _, tag in sentence)
        sure, _ = self.scored(sentence)
        return dy.binary_log_loss(sure, dy.scalarInput(float(named)))


class Beam(Program):
    """Beam search: several histories share states."""

    def decide(self, sentence):
        xs, _ = self.read(sentence)
        beam = [(0.0, self.lstm.initial_state(), self.count, [])]
        for x in xs:
            grown = []
            steps = [self.step(state, x, tag) for _, state, tag, _ in beam]
            for (score, _, _, tags), (state, scores) in zip(beam, steps, strict=True):
                logs = dy.log_softmax(scores).npvalue()
                grown += [
                    (score + logs[k], state, k, [*tags, k]) for k in range(self.count)
                ]
            beam = sorted(grown, key=lambda g: -g[0])[:BEAM]
        return beam[0][3]


class Reinforce(Program):
    """Draws each tag from its scores; what was right is made likelier."""

    def decide(self, sentence):
        return self.drawn(sentence)[1]

    def drawn(self, sentence):
        xs, tags = self.read(sentence)
        state, tag, losses, right = self.lstm.initial_state(), self.count, [], 0
        for x, gold in zip(xs, tags, strict=True):
            state, scores = self.step(state, x, tag)
            logs = dy.log_softmax(scores)
            weights = [math.exp(v) for v in logs.value()]
            (tag,) = self.random.choices(range(self.count), weights)
            right += tag == gold
            losses.append(dy.pick(logs, tag) * (0.5 - (tag == gold)))
        return dy.esum(losses), right

    def loss(self, sentence):
        return self.drawn(sentence)[0]


class Growing(Program):
    """Tags a sentence again and again in one graph, going on from where it was."""

    def decide(self, sentence):
        xs, _ = self.read(sentence)
        state, tag = self.lstm.initial_state(), self.count
        for x in xs * ROUNDS:
            state, scores = self.step(state, x, tag)
            tag = int(scores.npvalue().argmax())
        return tag


class Trials(Program):
    """Tries some tags for each word, and what the next word's scores say to them."""

    def decide(self, sentence):
        xs, _ = self.read(sentence)
        state, tag, tags = self.lstm.initial_state(), self.count, []
        for x, ahead in zip(xs, [*xs[1:], xs[-1]], strict=True):
            state, scores = self.step(state, x, tag)
            found = scores.npvalue()
            best = sorted(range(self.count), key=lambda k: -found[k])[:CANDIDATES]
            worth = {}
            for k in best:
                dy.cg_checkpoint()
                worth[k] = self.step(state, ahead, k)[1].npvalue().max()
                dy.cg_revert()
            tag = max(best, key=worth.get)
            tags.append(tag)
        return tags


PROGRAMS = {c.__name__.lower(): c for c in (Reader, Beam, Reinforce, Growing, Trials)}

if __name__ == "__main__":
    args = harness.arguments(__doc__, harness.DYNETS, program="reader")
    data = corpora.read_tagged(args)
    runner = harness.DynetRunner(dy, PROGRAMS[args.program], data, args)
    units = corpora.sentence_units(data)
    harness.measure(f"decisions-{args.program}", args.backend, args, runner, units)
