"""The example's Tree-LSTM against the same network written in plain JAX."""

import importlib.util
import pathlib
import random

import jax
import jax.numpy as jnp
import numpy as np
import pytest

import dynetjax as dy

ROOT = pathlib.Path(__file__).parents[2]
WORDS = "abcdef"


@pytest.fixture(scope="module")
def example():
    path = ROOT / "examples" / "ast_treelstm.py"
    spec = importlib.util.spec_from_file_location("ast_treelstm", path)
    module = importlib.util.module_from_spec(spec)
    with pytest.MonkeyPatch.context() as patched:
        patched.syspath_prepend(path.parent)  # as for a program that is started
        spec.loader.exec_module(module)
    return module


def arrays_of(network):
    """The network's parameters by name, as JAX arrays."""
    groups = {"leaf": network.leaf, "left": network.left, "right": network.right}
    named = {f"{g}_{k}": p for g, ps in groups.items() for k, p in ps.items()}
    named |= {f"bias_{k}": p for k, p in network.bias.items()}
    named |= {"table": network.table, "out": network.out}
    return named, {k: jnp.asarray(p.as_array(), jnp.float32) for k, p in named.items()}


def direct(a, tree, losses):
    label, inside = tree
    if isinstance(inside, str):
        x = a["table"][1 + WORDS.index(inside)]
        i, o, u = (a[f"leaf_{k}"] @ x + a[f"bias_{k}"] for k in "iou")
        c = jax.nn.sigmoid(i) * jnp.tanh(u)
    else:
        (h1, c1), (h2, c2) = (direct(a, t, losses) for t in inside)
        i, o, u, f1, f2 = (
            a[f"left_{k}"] @ h1 + a[f"right_{k}"] @ h2 + a[f"bias_{k}"] for k in "ioulr"
        )
        c = jax.nn.sigmoid(i) * jnp.tanh(u)
        c = c + jax.nn.sigmoid(f1) * c1 + jax.nn.sigmoid(f2) * c2
    h = jax.nn.sigmoid(o) * jnp.tanh(c)
    losses.append(-jax.nn.log_softmax(a["out"] @ h)[label])
    return h, c


def random_tree(rng, leaves):
    label = rng.randrange(5)
    if leaves == 1:
        return label, rng.choice(WORDS)
    left = rng.randrange(1, leaves)
    return label, [random_tree(rng, left), random_tree(rng, leaves - left)]


@pytest.mark.parametrize("leaves", [[1], [2], [9], [25, 1, 4]], ids=str)
def test_loss_and_gradients(example, leaves):
    rng = random.Random(6)
    trees = [random_tree(rng, n) for n in leaves]
    pc = dy.ParameterCollection()
    network = example.TreeLSTM(pc, WORDS, 5, 12)
    named, arrays = arrays_of(network)

    def total(a):
        losses = []
        for tree in trees:
            direct(a, tree, losses)
        return sum(losses)

    value, gradients = jax.value_and_grad(total)(arrays)
    dy.renew_cg()
    seen = [pair for tree in trees for pair in network.encode(tree)[-1]]
    loss = dy.esum([dy.pickneglogsoftmax(*pair) for pair in seen])
    assert loss.value() == pytest.approx(float(value), rel=1e-5)
    loss.backward()
    for name, p in named.items():
        np.testing.assert_allclose(
            p.grad_as_array(), gradients[name], rtol=1e-4, atol=1e-5, err_msg=name
        )
