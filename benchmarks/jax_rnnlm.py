"""LSTM language model in JAX by hand: padded minibatches and one scan."""

import corpora
import harness
import jax
import jax.numpy as jnp
import jax_runner
import numpy as np

EMBEDDING, HIDDEN = 128, 256


class LanguageModel:
    """An LSTM that predicts every next word."""

    def __init__(self, data, args):
        rng = np.random.default_rng(args.seed)
        self.size = args.minibatch

        def glorot(*shape):
            return jax_runner.glorot(rng, *shape)

        self.parameters = {
            "table": glorot(len(data.words), EMBEDDING),
            "rnn": {
                "x": glorot(EMBEDDING, 4 * HIDDEN),
                "h": glorot(HIDDEN, 4 * HIDDEN),
                "b": jnp.zeros(4 * HIDDEN),
            },
            "out": glorot(HIDDEN, len(data.words)),
            "bias": jnp.zeros(len(data.words)),
        }

    def arrays(self, sentences):
        """Ids of words read and of words to predict ``[steps, sentences]``, a mask."""
        shape = jax_runner.padded(len(sentences[0])), self.size
        read, gold = np.zeros((2, *shape), np.int32)
        mask = np.zeros(shape, np.float32)
        for k, sentence in enumerate(sentences):
            length = len(sentence)
            read[1:length, k] = sentence[:-1]
            gold[:length, k] = sentence
            mask[:length, k] = 1
        return read, gold, mask

    def loss(self, p, rows, arrays):
        """Negative log likelihood of the sentences."""
        _, gold, mask = arrays
        xs = rows.reshape(*gold.shape, EMBEDDING)
        outputs = jax_runner.lstm(p["rnn"], HIDDEN, xs)
        scores = outputs @ p["out"] + p["bias"]
        found = jnp.take_along_axis(scores, gold[..., None], axis=-1)[..., 0]
        return jnp.sum(mask * (jax.nn.logsumexp(scores, axis=-1) - found))

    predict = loss


def main():
    """Measure the language model."""
    args = harness.arguments(__doc__, minibatch=1)
    data = corpora.read_text(args)
    units = corpora.minibatch_units(data, args.minibatch)
    jax_runner.run("rnnlm", LanguageModel(data, args), args, units)


if __name__ == "__main__":
    main()
