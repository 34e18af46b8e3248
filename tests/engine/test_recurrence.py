"""Loops: chains, trees and shared nodes against the same network written in JAX."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest

import dynetjax as dy

SIZE = 6


@pytest.fixture
def model():
    """A collection with the parameters of a small recursive network, and a table."""
    rng = np.random.default_rng(0)
    pc = dy.ParameterCollection()
    made = {
        "W": pc.parameters_from_numpy(rng.normal(size=(SIZE, 2 * SIZE)) * 0.5),
        "U": pc.parameters_from_numpy(rng.normal(size=(SIZE, SIZE)) * 0.5),
        "b": pc.parameters_from_numpy(rng.normal(size=SIZE)),
        "E": pc.lookup_parameters_from_numpy(rng.normal(size=(7, SIZE))),
    }
    return made


def assert_same_gradients(model, function, loss):
    """The loss and its gradients equal those of `function` of the arrays."""
    arrays = {k: jnp.asarray(p.as_array(), jnp.float32) for k, p in model.items()}
    value, gradients = jax.value_and_grad(function)(arrays)
    assert loss.value() == pytest.approx(float(value), rel=1e-5)
    loss.backward()
    for name, p in model.items():
        np.testing.assert_allclose(
            p.grad_as_array(), gradients[name], rtol=1e-4, atol=1e-5, err_msg=name
        )


def nested(rng, leaves):
    """A random binary tree over word ids."""
    if leaves == 1:
        return int(rng.integers(7))
    left = int(rng.integers(1, leaves))
    return nested(rng, left), nested(rng, leaves - left)


def encode(model, tree):
    if isinstance(tree, int):
        return model["E"][tree]
    left, right = (encode(model, t) for t in tree)
    return dy.tanh(model["W"] * dy.concatenate([left, right]) + model["b"])


def encode_directly(arrays, tree):
    if isinstance(tree, int):
        return arrays["E"][tree]
    left, right = (encode_directly(arrays, t) for t in tree)
    return jnp.tanh(arrays["W"] @ jnp.concatenate([left, right]) + arrays["b"])


class TestTrees:
    @pytest.mark.parametrize("leaves", [1, 2, 3, 17])
    def test_values_and_gradients(self, model, leaves):
        tree = nested(np.random.default_rng(leaves), leaves)
        dy.renew_cg()
        h = encode(model, tree)

        def loss(arrays):
            h = encode_directly(arrays, tree)
            return jnp.sum(h * h) + 0 * jnp.sum(arrays["U"])

        assert_same_gradients(model, loss, dy.dot_product(h, h))

    def test_trees_together_equal_trees_apart(self, model):
        rng = np.random.default_rng(3)
        trees = [nested(rng, n) for n in (3, 9, 1, 5)]
        dy.renew_cg()
        hs = [encode(model, t) for t in trees]
        together = [h.npvalue() for h in hs]
        for tree, expected in zip(trees, together, strict=True):
            dy.renew_cg()
            np.testing.assert_allclose(
                encode(model, tree).npvalue(), expected, rtol=1e-5, atol=1e-6
            )

    def test_order_of_creation_does_not_matter(self, model):
        """Nodes made in random topological order give the same numbers."""
        rng = np.random.default_rng(4)
        tree = nested(rng, 20)

        def run(shuffled):
            dy.renew_cg()
            root = (
                encode_shuffled(model, tree, rng) if shuffled else encode(model, tree)
            )
            loss = dy.dot_product(root, root)
            loss.backward()
            gradients = [p.grad_as_array() for p in model.values()]
            for p in model.values():
                p.scale_gradient(0)
            return [loss.npvalue(), *gradients]

        expected = run(shuffled=False)
        for _ in range(3):
            for got, want in zip(run(shuffled=True), expected, strict=True):
                np.testing.assert_allclose(got, want, rtol=1e-5, atol=1e-6)


def encode_shuffled(model, tree, rng):
    """`encode`, but ready operations of the whole tree are done in random order."""
    jobs = []

    def plan(t):
        if isinstance(t, int):
            jobs.append((lambda: model["E"][t], []))
            return len(jobs) - 1
        parts = [plan(part) for part in t]
        jobs.append((lambda *hs: dy.concatenate(list(hs)), parts))
        jobs.append((lambda e: model["W"] * e, [len(jobs) - 1]))
        jobs.append((lambda z: z + model["b"], [len(jobs) - 1]))
        jobs.append((dy.tanh, [len(jobs) - 1]))
        return len(jobs) - 1

    root = plan(tree)
    done = {}
    while len(done) < len(jobs):
        ready = [
            k
            for k, (_, needs) in enumerate(jobs)
            if k not in done and all(n in done for n in needs)
        ]
        k = int(rng.choice(ready))
        make, needs = jobs[k]
        done[k] = make(*(done[n] for n in needs))
    return done[root]

    @pytest.mark.parametrize("length", [3, 150])
    def test_a_bias_that_is_also_a_factor(self, model, length):
        """One gradient comes from sums over lanes, the other from the loop."""
        W, U, b, E = (model[k] for k in "WUbE")
        dy.renew_cg()
        h = E[0]
        for t in range(length):
            left = dy.affine_transform([b, U, h]) + b
            h = dy.tanh(W * dy.concatenate([h, E[t % 7]]) + b)
            h = h + dy.cmult(dy.tanh(left), b)

        def loss(arrays):
            W, U, b, E = (arrays[k] for k in "WUbE")
            h = E[0]
            for t in range(length):
                left = b + U @ h + b
                h = jnp.tanh(W @ jnp.concatenate([h, E[t % 7]]) + b)
                h = h + jnp.tanh(left) * b
            return jnp.sum(h * h)

        assert_same_gradients(model, loss, dy.dot_product(h, h))


class TestChains:
    def test_recurrence_with_inputs(self, model):
        words = [3, 1, 4, 1, 5, 2, 6]
        dy.renew_cg()
        h = model["E"][0]
        for w in words:
            x = dy.concatenate([model["E"][w], h])
            h = dy.tanh(dy.affine_transform([model["b"], model["W"], x]))

        def loss(arrays):
            h = arrays["E"][0]
            for w in words:
                x = jnp.concatenate([arrays["E"][w], h])
                h = jnp.tanh(arrays["W"] @ x + arrays["b"])
            return jnp.sum(h * h)

        assert_same_gradients(model, loss, dy.dot_product(h, h))

    def test_two_recurrences_that_feed_each_other_at_different_times(self, model):
        """One cell reads the other's state of two steps ago."""
        dy.renew_cg()
        a = [model["E"][0], model["E"][1]]
        b = [model["E"][2], model["E"][3]]
        for _ in range(5):
            a.append(dy.tanh(model["U"] * a[-1] + b[-2]))
            b.append(dy.logistic(model["U"] * b[-1]) + a[-2])
        loss_node = dy.dot_product(a[-1], b[-1])

        def loss(arrays):
            e, u = arrays["E"], arrays["U"]
            a, b = [e[0], e[1]], [e[2], e[3]]
            for _ in range(5):
                a.append(jnp.tanh(u @ a[-1] + b[-2]))
                b.append(jax.nn.sigmoid(u @ b[-1]) + a[-2])
            return jnp.sum(a[-1] * b[-1])

        assert_same_gradients(model, loss, loss_node)

    def test_a_node_read_by_many_steps(self, model):
        """Every step reads the first state besides the last one."""
        dy.renew_cg()
        first = dy.tanh(model["U"] * model["E"][0])
        h = first
        for _ in range(6):
            h = dy.tanh(model["U"] * h + dy.cmult(first, h))

        def loss(arrays):
            u = arrays["U"]
            first = h = jnp.tanh(u @ arrays["E"][0])
            for _ in range(6):
                h = jnp.tanh(u @ h + first * h)
            return jnp.sum(h * h)

        assert_same_gradients(model, loss, dy.dot_product(h, h))

    def test_batches_in_a_recurrence(self, model):
        """A batch of three, started from one row for all."""
        ids = [[1, 2, 3], [4, 4, 0], [6, 5, 6]]
        dy.renew_cg()
        h = model["E"][0]
        for row in ids:
            h = dy.tanh(model["U"] * h + dy.lookup_batch(model["E"], row))

        def loss(arrays):
            h = jnp.tile(arrays["E"][0], (3, 1))
            for row in ids:
                h = jnp.tanh(h @ arrays["U"].T + arrays["E"][jnp.array(row)])
            return jnp.sum(h * h)

        assert_same_gradients(model, loss, dy.sum_batches(dy.dot_product(h, h)))

    def test_a_logarithm_of_zero_on_an_empty_lane_harms_nobody(self, model):
        """Lanes without a node compute on zeros; their infinite slopes stay there."""
        dy.renew_cg()
        hs = [dy.exp(model["E"][k]) for k in range(3)]
        total = dy.esum([dy.sum_elems(dy.cdiv(model["b"], h)) for h in hs])
        total = total + dy.sum_elems(dy.log(hs[0]))

        def loss(arrays):
            hs = jnp.exp(arrays["E"][:3])
            return jnp.sum(arrays["b"] / hs) + jnp.sum(jnp.log(hs[0]))

        assert_same_gradients(model, loss, total)


class TestSize:
    @pytest.mark.parametrize("length", [300, 20_000])
    def test_a_long_chain(self, length):
        pc = dy.ParameterCollection()
        w = pc.parameters_from_numpy(np.array([0.999]))
        dy.renew_cg()
        h = dy.inputVector([1.0])
        for _ in range(length):
            h = dy.cmult(w, h)
        assert h.value() == pytest.approx(0.999**length, rel=1e-3, abs=1e-6)
        h.backward()
        expected = length * 0.999 ** (length - 1)
        assert w.grad_as_array()[0] == pytest.approx(expected, rel=1e-3, abs=1e-4)

    def test_two_hundred_thousand_nodes(self):
        pc = dy.ParameterCollection()
        w = pc.parameters_from_numpy(np.array([0.5, 2.0]))
        dy.renew_cg()
        losses = [dy.dot_product(w, dy.inputVector([k, 1.0])) for k in range(80_000)]
        total = dy.esum(losses)
        total.backward()
        expected = [sum(range(80_000)), 80_000]
        # One float32 adds up thousands of partial sums, as many as a trip is narrow.
        np.testing.assert_allclose(w.grad_as_array(), expected, rtol=1e-3)

    @pytest.mark.parametrize("terms", [2, 3, 4, 5, 6, 9, 40, 1000])
    def test_a_sum_built_one_by_one(self, terms):
        pc = dy.ParameterCollection()
        w = pc.parameters_from_numpy(np.array([2.0]))
        dy.renew_cg()
        total = dy.cmult(w, dy.inputVector([1.0]))
        for k in range(2, terms + 1):
            total = total + dy.cmult(w, dy.inputVector([float(k)]))
        half = total * 0.5
        assert half.value() == pytest.approx(terms * (terms + 1) / 2)
        half.backward()
        assert w.grad_as_array()[0] == pytest.approx(terms * (terms + 1) / 4)
