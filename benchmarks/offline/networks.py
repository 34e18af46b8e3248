"""Networks in dynetjax that no other benchmark has: minibatches, attention, a CRF."""

import harness
import rnnlm
import seq2seq
import stack_parser
import tagger
from greedy_parser import gold_actions

dy = harness.dynet()


def column(lists, k):
    """The k-th entry of each list, 0 where a list ends before it."""
    return [x[k] if k < len(x) else 0 for x in lists]


def masked(loss, lists, k):
    """A loss of a minibatch, 0 for those whose lists end before k."""
    there = [float(k < len(x)) for x in lists]
    return dy.cmult(loss, dy.reshape(dy.inputVector(there), (1,), len(lists)))


def longest(lists):
    """The length of the longest list."""
    return max(map(len, lists))


class PaddedTagger(tagger.Tagger):
    """The tagger over a minibatch of padded sentences."""

    def loss(self, sentences):
        """Negative log likelihood of the tags of all sentences."""
        steps, count = longest(sentences), len(sentences)
        words = [
            [self.words["<unk>" if w in self.rare else w] for w, _ in sentence]
            for sentence in sentences
        ]
        gold = [[self.tags[tag] for _, tag in sentence] for sentence in sentences]
        forth = self._states(self.forward, words, steps)
        turned = self._states(self.backward, [w[::-1] for w in words], steps)
        all_turned, losses = dy.concatenate_to_batch(turned), []
        for k in range(steps):
            # What comes k-th in a sentence was read when so many words were to come.
            ahead = [max(len(s) - 1 - k, 0) for s in sentences]
            rows = [count * step + j for j, step in enumerate(ahead)]
            both = dy.concatenate([forth[k], dy.pick_batch_elems(all_turned, rows)])
            scores = self.out * dy.tanh(self.hidden * both)
            loss = dy.pickneglogsoftmax_batch(scores, column(gold, k))
            losses.append(masked(loss, sentences, k))
        return dy.sum_batches(dy.esum(losses))

    def _states(self, builder, words, steps):
        xs = [dy.lookup_batch(self.table, column(words, k)) for k in range(steps)]
        return builder.initial_state().transduce(xs)


class TaggerOfMany(tagger.Tagger):
    """The tagger over several sentences of a graph, each by itself."""

    def loss(self, sentences):
        """Negative log likelihood of the tags of all sentences."""
        one = super().loss
        return dy.esum([one(sentence) for sentence in sentences])


class CRFTagger(tagger.Tagger):
    """A tagger whose tags are scored in sequence (Lample et al. 2016)."""

    def __init__(self, model, data, args):
        super().__init__(model, data, args)
        self.transitions = model.add_parameters((len(self.tags), len(self.tags)))

    def loss(self, sentences):
        """Negative log likelihood of the sequences of all sentences."""
        return dy.esum([self._loss(sentence) for sentence in sentences])

    def _loss(self, sentence):
        scores = self.scores(sentence)
        tags = [self.tags[tag] for _, tag in sentence]
        forward, gold = scores[0], dy.pick(scores[0], tags[0])
        for k in range(1, len(tags)):
            each = dy.colwise_add(self.transitions, forward)  # from a row to a column
            forward = dy.logsumexp_dim(each, 0) + scores[k]
            step = dy.pick(dy.pick(self.transitions, tags[k], 1), tags[k - 1])
            gold = gold + step + dy.pick(scores[k], tags[k])
        return dy.logsumexp_dim(forward, 0) - gold


class PaddedTranslator(seq2seq.Translator):
    """The translator over a minibatch of padded pairs."""

    def loss(self, pairs):
        """Negative log likelihood of all targets."""
        sources, targets = zip(*pairs, strict=True)
        steps, count = longest(sources), len(pairs)
        xs = [dy.lookup_batch(self.source, column(sources, k)) for k in range(steps)]
        states = dy.concatenate_cols(self.reader.initial_state().transduce(xs))
        keys = self.of_states * states
        padding = [0.0 if k < len(s) else -1e9 for s in sources for k in range(steps)]
        hidden = dy.reshape(dy.inputVector(padding), (steps,), count)
        state, context = self.writer.initial_state(), dy.pick(states, 0, 1)
        last, losses = [0] * count, []
        for k in range(longest(targets)):
            x = dy.concatenate([dy.lookup_batch(self.target, last), context])
            state = state.add_input(x)
            query = self.of_query * state.output()
            energies = self.energy * dy.tanh(dy.colwise_add(keys, query))
            context = states * dy.softmax(dy.transpose(energies) + hidden)
            scores = dy.affine_transform([self.bias, self.out, state.output()])
            last = column(targets, k)
            loss = dy.pickneglogsoftmax_batch(scores, last)
            losses.append(masked(loss, targets, k))
        return dy.sum_batches(dy.esum(losses))


class TaughtParser(stack_parser.StackParser):
    """The stack-LSTM parser over many trees of a graph; no score is read."""

    def loss(self, trees):
        """Negative log likelihood of the actions that build the trees."""
        losses = []
        for tree in trees:
            steps = self.steps(tree)
            _, scores = next(steps)
            for action in gold_actions(tree):
                losses.append(dy.pickneglogsoftmax(scores, action))
                _, scores = stack_parser.next_of(steps, action)
        return dy.esum(losses)


class TiedAttention:
    """Attention to all words before, and scores by the embeddings themselves."""

    SIZE, WINDOW = 128, 16

    def __init__(self, model, data, args):
        del data, args
        add, size = model.add_parameters, self.SIZE
        self.embeddings = add((size, seq2seq.WORDS))
        self.places = add((size, self.WINDOW))
        self.query, self.key, self.value = [add((size, size)) for _ in "qkv"]
        self.inner, self.outer = add((4 * size, size)), add((size, 4 * size))

    def loss(self, pairs):
        """Negative log likelihood of the words of the first sentences."""
        return dy.esum([self._loss(words[: self.WINDOW]) for words, _ in pairs])

    def _loss(self, words):
        count = len(words)
        columns = [dy.pick(self.embeddings, w, 1) for w in [0, *words[:-1]]]
        places = dy.pick_range(self.places, 0, count, 1)
        xs = dy.concatenate_cols(columns) + places
        energies = dy.transpose(self.key * xs) * (self.query * xs)
        ahead = [[-1e9 * (k > j) for j in range(count)] for k in range(count)]
        weights = dy.softmax(energies * self.SIZE**-0.5 + dy.inputTensor(ahead))
        xs = xs + self.value * xs * weights
        xs = xs + self.outer * dy.rectify(self.inner * xs)
        scores = dy.transpose(self.embeddings) * xs
        picked = [dy.pick(scores, k, 1) for k in range(count)]
        pairs = zip(picked, words, strict=True)
        return dy.esum([dy.pickneglogsoftmax(each, w) for each, w in pairs])


class Rows:
    """Much to update and little to compute: a table, and matrices."""

    ROWS, SIZE, MATRICES, READ = 20_000, 256, 4, 2048

    def __init__(self, model, data, args):
        del data, args
        self.table = model.add_lookup_parameters((self.ROWS, self.SIZE))
        shape = (4 * self.SIZE, self.SIZE)
        self.matrices = [model.add_parameters(shape) for _ in range(self.MATRICES)]

    def loss(self, sentences):
        """Some number that depends on some rows and on all matrices."""
        words = [w for sentence in sentences for w in sentence]
        rows = [(7 * w + k) % self.ROWS for k, w in enumerate(words)]
        xs = dy.lookup_batch(self.table, (rows * self.READ)[: self.READ])
        squares = [dy.squared_norm(matrix * xs) for matrix in self.matrices]
        return dy.sum_batches(dy.esum(squares))


LanguageModel = rnnlm.LanguageModel
Translator = seq2seq.Translator
