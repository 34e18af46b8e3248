"""BiLSTM tagger in JAX by hand: padded sentences, both directions in one scan."""

import corpora
import harness
import jax
import jax.numpy as jnp
import jax_runner
import numpy as np

EMBEDDING, HIDDEN, LAYER = 128, 50, 32


class Tagger:
    """Two LSTMs, a hidden layer, and scores for every word."""

    def __init__(self, data, args):
        rng = np.random.default_rng(args.seed)
        unknown = data.words[corpora.UNKNOWN]
        self.tags = data.tags
        self.ids = {w: unknown if w in data.rare else k for w, k in data.words.items()}

        def glorot(*shape):
            return jax_runner.glorot(rng, *shape)

        self.parameters = {
            "table": glorot(len(data.words), EMBEDDING),
            "x": jnp.stack([glorot(EMBEDDING, 4 * HIDDEN) for _ in "fb"]),
            "h": jnp.stack([glorot(HIDDEN, 4 * HIDDEN) for _ in "fb"]),
            "b": jnp.zeros((2, 4 * HIDDEN)),
            "hidden": glorot(2 * HIDDEN, LAYER),
            "out": glorot(LAYER, len(data.tags)),
        }

    def arrays(self, sentence):
        """Ids of words and tags, padded, and the sentence's length."""
        length = len(sentence)
        ids, tags = np.zeros((2, jax_runner.padded(length)), np.int32)
        ids[:length] = [self.ids[word] for word, _ in sentence]
        tags[:length] = [self.tags[tag] for _, tag in sentence]
        return ids, tags, np.int32(length)

    def scores(self, p, rows, arrays):
        """``[steps, tags]``."""
        length, steps = arrays[2], len(rows)
        turned = (length - 1 - jnp.arange(steps)) % steps  # its own inverse
        inputs = jnp.stack([rows, rows[turned]])
        gates = jnp.einsum("dtx,dxg->tdg", inputs, p["x"]) + p["b"]

        def step(state, gates):
            h, c = state
            gates = gates + jnp.einsum("dh,dhg->dg", h, p["h"])
            i, f, o, g = jnp.split(gates, 4, axis=-1)
            c = jax.nn.sigmoid(f + 1) * c + jax.nn.sigmoid(i) * jnp.tanh(g)
            h = jax.nn.sigmoid(o) * jnp.tanh(c)
            return (h, c), h

        zero = jnp.zeros((2, HIDDEN))
        _, outputs = jax.lax.scan(step, (zero, zero), gates)
        both = jnp.concatenate([outputs[:, 0], outputs[turned, 1]], axis=1)
        return jnp.tanh(both @ p["hidden"]) @ p["out"]

    def loss(self, p, rows, arrays):
        """Negative log likelihood of the sentence's tags."""
        _, tags, length = arrays
        scores = jax.nn.log_softmax(self.scores(p, rows, arrays))
        found = jnp.take_along_axis(scores, tags[:, None], axis=1)[:, 0]
        return -jnp.sum(jnp.where(jnp.arange(len(tags)) < length, found, 0))

    def predict(self, p, rows, arrays):
        """The likeliest tag of each word, padding included."""
        return self.scores(p, rows, arrays).argmax(axis=1)


def main():
    """Measure the tagger."""
    args = harness.arguments(__doc__)
    data = corpora.read_tagged(args)
    jax_runner.run("tagger", Tagger(data, args), args, corpora.sentence_units(data))


if __name__ == "__main__":
    main()
