"""Networks in JAX by hand that no other benchmark has: over padded minibatches."""

import jax
import jax.numpy as jnp
import jax_rnnlm
import jax_runner
import jax_tagger
import numpy as np
import seq2seq

LanguageModel = jax_rnnlm.LanguageModel


def cell(gates, c):
    """Output and cell of an LSTM, given the sums of its gates."""
    i, f, o, g = jnp.split(gates, 4, axis=-1)
    c = jax.nn.sigmoid(f + 1) * c + jax.nn.sigmoid(i) * jnp.tanh(g)
    return jax.nn.sigmoid(o) * jnp.tanh(c), c


def filled(lists, kind=np.int32):
    """Lists of numbers as an array ``[steps, lists]``, with zeros after each."""
    shape = jax_runner.padded(max(map(len, lists))), len(lists)
    array = np.zeros(shape, kind)
    for k, numbers in enumerate(lists):
        array[: len(numbers), k] = numbers
    return array


def picked(array, classes):
    """The entry of the last axis for the class at each place."""
    return jnp.take_along_axis(array, classes[..., None], axis=-1)[..., 0]


class Tagger(jax_tagger.Tagger):
    """The tagger: both directions of all sentences in one scan."""

    def arrays(self, sentences):
        """Ids of words and tags ``[steps, sentences]``, and the lengths."""
        words = filled([[self.ids[w] for w, _ in s] for s in sentences])
        tags = filled([[self.tags[t] for _, t in s] for s in sentences])
        return words, tags, np.array([*map(len, sentences)], np.int32)

    def loss(self, p, rows, arrays):
        """Negative log likelihood of the tags."""
        words, tags, lengths = arrays
        rows, place = rows.reshape(*words.shape, -1), jnp.arange(len(words))[:, None]
        turned = ((lengths - 1 - place) % len(words))[..., None]  # its own inverse
        both = jnp.stack([rows, jnp.take_along_axis(rows, turned, axis=0)])
        gates = jnp.einsum("dtbx,dxg->tdbg", both, p["x"]) + p["b"][:, None]

        def step(state, gates):
            h, c = state
            h, c = cell(gates + jnp.einsum("dbh,dhg->dbg", h, p["h"]), c)
            return (h, c), h

        zero = jnp.zeros((2, len(lengths), jax_tagger.HIDDEN))
        _, states = jax.lax.scan(step, (zero, zero), gates)
        back = jnp.take_along_axis(states[:, 1], turned, axis=0)
        layer = jnp.tanh(jnp.concatenate([states[:, 0], back], -1) @ p["hidden"])
        scores = jax.nn.log_softmax(layer @ p["out"])
        return -jnp.sum(jnp.where(place < lengths, picked(scores, tags), 0))


class Translator:
    """The translator: a scan that reads, and one that writes with attention."""

    def __init__(self, data, args):
        del data
        rng = np.random.default_rng(args.seed)
        words, hidden = seq2seq.WORDS, seq2seq.HIDDEN

        def glorot(*shape):
            return jax_runner.glorot(rng, *shape)

        def lstm(inputs):
            gates = 4 * hidden
            weights = {"x": glorot(inputs, gates), "h": glorot(hidden, gates)}
            return weights | {"b": jnp.zeros(gates)}

        self.parameters = {
            "table": glorot(2 * words, seq2seq.EMBEDDING),  # sources', then targets'
            "reader": lstm(seq2seq.EMBEDDING),
            "writer": lstm(seq2seq.EMBEDDING + hidden),
            "of_states": glorot(hidden, seq2seq.ATTENTION),
            "of_query": glorot(hidden, seq2seq.ATTENTION),
            "energy": glorot(seq2seq.ATTENTION, 1),
            "out": glorot(hidden, words),
            "bias": jnp.zeros(words),
        }

    def arrays(self, pairs):
        """Ids of all words that are read, what is real of sources, gold, a mask."""
        sources, targets = zip(*pairs, strict=True)
        gold = filled(targets)
        before = np.zeros_like(gold)
        before[1:] = gold[:-1]
        ids = np.concatenate([filled(sources), before + seq2seq.WORDS])
        real, mask = [
            filled([[1] * len(x) for x in lists], np.float32)
            for lists in (sources, targets)
        ]
        return ids, real, gold, mask

    def loss(self, p, rows, arrays):
        """Negative log likelihood of the targets."""
        ids, real, gold, mask = arrays
        rows = rows.reshape(*ids.shape, seq2seq.EMBEDDING)
        states = jax_runner.lstm(p["reader"], seq2seq.HIDDEN, rows[: len(real)])
        keys, weights = states @ p["of_states"], p["writer"]
        of_word, of_context = jnp.split(weights["x"], [seq2seq.EMBEDDING])
        words = rows[len(real) :] @ of_word + weights["b"]

        def step(carried, word):
            h, c, context = carried
            h, c = cell(word + context @ of_context + h @ weights["h"], c)
            energies = jnp.tanh(keys + h @ p["of_query"]) @ p["energy"]
            shares = jnp.where(real > 0, energies[..., 0], -1e9)
            shares = jax.nn.softmax(shares, axis=0)
            return (h, c, jnp.einsum("tb,tbh->bh", shares, states)), h

        zero = jnp.zeros_like(states[0])
        _, outputs = jax.lax.scan(step, (zero, zero, states[0]), words)
        scores = outputs @ p["out"] + p["bias"]
        losses = jax.nn.logsumexp(scores, axis=-1) - picked(scores, gold)
        return jnp.sum(mask * losses)
