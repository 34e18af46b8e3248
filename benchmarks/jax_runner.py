"""What the hand-written JAX versions share: padding, Adam, one program an update.

This is the limit: every program is written for its one task, and knows its shapes.
"""

import functools

import harness
import jax
import jax.numpy as jnp
import numpy as np

RATE, BETA_1, BETA_2, EPSILON = 1e-3, 0.9, 0.999, 1e-8
COMPILED = "/jax/core/compile/backend_compile_duration"


def padded(length, multiple=8):
    """`length`, rounded up."""
    return -(-length // multiple) * multiple


def lstm(weights, size, x, reverse=False):
    """Outputs ``[steps, ..., size]`` of an LSTM; all inputs are multiplied at once."""
    inputs = jnp.einsum("t...x,xg->t...g", x, weights["x"]) + weights["b"]

    def step(state, gates):
        h, c = state
        i, f, o, g = jnp.split(gates + h @ weights["h"], 4, axis=-1)
        c = jax.nn.sigmoid(f + 1) * c + jax.nn.sigmoid(i) * jnp.tanh(g)
        h = jax.nn.sigmoid(o) * jnp.tanh(c)
        return (h, c), h

    zero = jnp.zeros((*x.shape[1:-1], size))
    return jax.lax.scan(step, (zero, zero), inputs, reverse=reverse)[1]


def glorot(rng, *shape):
    """Uniform values as DyNet draws them."""
    bound = np.sqrt(3 * len(shape) / sum(shape))
    return jnp.asarray(rng.uniform(-bound, bound, shape), jnp.float32)


def moved(p, m, v, g, scale):
    """Adam, element by element."""
    m = BETA_1 * m + (1 - BETA_1) * g
    v = BETA_2 * v + (1 - BETA_2) * g * g
    return p - scale * m / (jnp.sqrt(v) + EPSILON), m, v


def adam(state, gradients, scale):
    """All of (parameters, first moments, second moments), moved."""
    leaves = [jax.tree.leaves(part) for part in (*state, gradients)]
    found = [moved(*four, scale) for four in zip(*leaves, strict=True)]
    shape = jax.tree.structure(gradients)
    return tuple(jax.tree.unflatten(shape, part) for part in zip(*found, strict=True))


def sparse_adam(state, rows, gradient, scale):
    """The same for the rows of a table that occur in `rows`, each of them once."""
    unique, place = jnp.unique(
        rows, return_inverse=True, size=len(rows), fill_value=len(state[0])
    )
    summed = jnp.zeros_like(gradient).at[place.ravel()].add(gradient)
    read = [part.at[unique].get(mode="fill", fill_value=0) for part in state]
    new = moved(*read, summed, scale)
    return tuple(
        part.at[unique].set(values, mode="drop")
        for part, values in zip(state, new, strict=True)
    )


class JaxRunner:
    """Trains `network`, which has `parameters`, `arrays`, and `loss`.

    ``loss(parameters, rows, arrays)`` reads the rows that ``arrays[0]`` names.
    """

    def __init__(self, network, args):
        self.network, self.sparse = network, args.sparse
        self.loss, self.count = jnp.zeros(()), 0
        self.counters = {"compilations": 0, "compile_seconds": 0.0}
        jax.monitoring.register_event_duration_secs_listener(self._listen)
        table, parameters = network.parameters["table"], dict(network.parameters)
        del parameters["table"]
        self.table = (table, jnp.zeros_like(table), jnp.zeros_like(table))
        zeros = jax.tree.map(jnp.zeros_like, parameters)
        self.state = (parameters, zeros, jax.tree.map(jnp.zeros_like, parameters))

    def _listen(self, event, seconds, **_):
        if event.startswith("/jax/core/compile/"):
            self.counters["compile_seconds"] += seconds
            self.counters["compilations"] += event == COMPILED

    @functools.partial(jax.jit, static_argnums=0, donate_argnums=(1, 2))
    def _update(self, table, state, arrays, count):
        ids = arrays[0].ravel()
        scale = RATE * jnp.sqrt(1 - BETA_2**count) / (1 - BETA_1**count)

        def loss(parameters, rows):
            return self.network.loss(parameters, rows, arrays)

        value, (gradients, by_row) = jax.value_and_grad(loss, (0, 1))(
            state[0], table[0][ids]
        )
        state = adam(state, gradients, scale)
        if self.sparse:
            return value, sparse_adam(table, ids, by_row, scale), state
        by_table = jnp.zeros_like(table[0]).at[ids].add(by_row)
        return value, moved(*table, by_table, scale), state

    def train(self, content, read, clock):
        """One update; waits for the loss and returns it if `read`."""
        arrays = self.network.arrays(content)
        clock.mark("build")
        self.count += 1
        self.loss, self.table, self.state = self._update(
            self.table, self.state, arrays, np.float32(self.count)
        )
        clock.mark("update")
        if not read:
            return None
        value = self.loss.item()
        clock.mark("value")
        return value

    @functools.partial(jax.jit, static_argnums=0)
    def _predict(self, table, parameters, arrays):
        return self.network.predict(parameters, table[arrays[0].ravel()], arrays)

    def infer(self, content, clock):
        """Predictions only."""
        arrays = self.network.arrays(content)
        clock.mark("build")
        np.asarray(self._predict(self.table[0], self.state[0], arrays))
        clock.mark("value")

    def finish(self):
        """Wait for what was sent."""
        self.loss.block_until_ready()

    def stats(self):
        """Compilations, and the time they took."""
        return dict(self.counters)


def run(task, network, args, units):
    """Measure a network."""
    harness.measure(task, "jax", args, JaxRunner(network, args), units)
