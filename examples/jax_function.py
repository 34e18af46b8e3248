"""A JAX function in a graph, and a graph as a JAX function.

A swing is seen for two seconds, with noise. A network reads frequency and damping off
what it sees; a function written in JAX computes the swing for these two numbers, step
by step; training makes it agree with what was seen. So the physics, an operation by
`dy.jax_op`, is differentiated like all other nodes, and nobody tells the network the
true numbers. Then `dy.to_jax` makes a JAX function of the network: `jax.vmap` has it
read all swings at once, and `jax.jacrev` tells which moments it looks at.

    python examples/jax_function.py [--updates N] [--quick]
"""

import argparse
import random

import jax
import jax.numpy as jnp
import numpy as np
from progress import trange

import dynetjax as dy

STEPS, SECONDS, BATCH = 40, 2.0, 32


def swing(numbers):
    """Positions of a damped swing: x'' = -w^2 x - d x', from x = 1 at rest."""
    frequency, damping = numbers
    dt = SECONDS / STEPS

    def step(state, _):
        x, v = state
        v = v - dt * (frequency**2 * x + damping * v)
        x = x + dt * v
        return (x, v), x

    return jax.lax.scan(step, (1.0, 0.0), None, length=STEPS)[1]


simulate = dy.jax_op(swing, dim=lambda numbers: (STEPS,))
softplus = dy.jax_op(jax.nn.softplus)
many_swings = jax.jit(jax.vmap(swing))


class Reader:
    """Frequency and damping of a swing, both above zero."""

    def __init__(self, model, hidden=48):
        self.W = model.add_parameters((hidden, STEPS), name="W")
        self.b = model.add_parameters(hidden, name="b")
        self.V = model.add_parameters((2, hidden), name="V")
        self.c = model.add_parameters(2, init=1, name="c")

    def __call__(self, seen):
        h = dy.tanh(self.W * seen + self.b)
        return softplus(self.V * h + self.c)


def swings(count, noise):
    """What is seen, a column for each swing, and the true numbers."""
    truth = np.random.uniform([1.0, 0.1], [5.0, 1.5], (count, 2)).astype(np.float32)
    seen = np.asarray(many_swings(truth)).T
    return seen + noise * np.random.randn(*seen.shape), truth


def train(reader, trainer, updates):
    """Make the computed swings agree with those that are seen; the last losses."""
    losses = []
    progress = trange(updates, unit="update", mininterval=0.5)
    for k in progress:
        dy.renew_cg()
        seen = dy.inputTensor(swings(BATCH, 0.05)[0], batched=True)
        computed = simulate(reader(seen))
        loss = dy.mean_batches(dy.squared_distance(computed, seen))
        losses.append(loss.value())
        loss.backward()
        trainer.update()
        if k % 50 == 0:
            progress.set_postfix(loss=f"{losses[-1]:.3f}")
    return losses[0], sum(losses[-20:]) / len(losses[-20:])


def as_function(reader):
    """The network as a pure function: from what is seen to the two numbers."""
    dy.renew_cg()
    f = dy.to_jax(reader(dy.inputTensor(np.zeros(STEPS))))
    return jax.jit(lambda seen: f(f.parameters, [seen]))


def main():
    """Train through the JAX function, then use the network from JAX."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").split("\n")[0])
    parser.add_argument("--updates", type=int, default=1500)
    parser.add_argument("--quick", action="store_true", help="a few seconds only")
    args = parser.parse_args()
    updates = 100 if args.quick else args.updates
    dy.reset_random_seed(1)
    random.seed(1)
    np.random.seed(1)
    model = dy.ParameterCollection()
    reader = Reader(model)
    first, last = train(reader, dy.AdamTrainer(model), updates)
    print(f"squared distance of swings: {first:.2f} -> {last:.2f}")

    seen, truth = swings(500, 0.05)
    f = as_function(reader)
    read = jax.vmap(f, in_axes=1)(jnp.asarray(seen))
    error = np.abs(np.asarray(read) - truth).mean(0)
    guess = np.abs(truth.mean(0) - truth).mean(0)
    one = reader(dy.inputTensor(seen[:, 0])).npvalue()
    gradient = np.abs(jax.jacrev(f)(jnp.asarray(seen[:, 0])))
    moments = gradient.argmax(1) * SECONDS / STEPS
    print(f"graph and JAX agree on a swing: {np.allclose(one, read[0], atol=1e-5)}")
    print(f"frequency depends most on the moment {moments[0]:.2f} s, ", end="")
    print(f"damping on {moments[1]:.2f} s, by jax.jacrev")
    for k, name in enumerate(["frequency", "damping"]):
        print(f"error of {name}: {error[k]:.3f} (always the average: {guess[k]:.3f})")
    stats = dy.stats()
    print(f"XLA compilations: {stats.compilations} ({stats.loads} read from its cache)")


if __name__ == "__main__":
    main()
