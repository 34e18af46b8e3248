"""Trees for the tests of builders over them."""

import json
import pathlib

import numpy as np

import dynetjax as dy

from .golden import fill

RECORDED = json.loads(
    (pathlib.Path(__file__).parent.parent / "data/builders/recorded.json").read_text(
        encoding="utf-8"
    )
)
CHILDREN = [[], [], [0, 1], [], [2], [4, 3, 2]]
BINARY = [[], [], [0, 1], [], [2], [4, 3]]


def sigmoid(a):
    return 1 / (1 + np.exp(-a))


def number(p):
    """The n of a parameter ``/builder/_n``."""
    return int(p.name().rsplit("_", 1)[1])


def everything(builder):
    """Parameters and tables of a builder, in order of creation where it has numbers."""
    own = builder.param_collection()
    return [*own.parameters_list(), *own.lookup_parameters_list()]


def fill_one(p, n):
    values = fill(n, p.shape())
    if isinstance(p, dy.LookupParameters):
        p.init_from_array(values)
    else:
        p.set_value(values)


def fill_tree(builder):
    """n goes by names; of builders made of others, by the order of creation."""
    nested = builder.param_collection().parameters_list()[0].name().count("/") > 2
    for k, p in enumerate(everything(builder)):
        fill_one(p, k if nested else number(p))


def numbers(size, count=6):
    """Inputs of the nodes."""
    return np.cos(0.9 * np.arange(count)[:, None] + 0.5 * np.arange(size))


def nodes(arrays, children=CHILDREN):
    """What `transduce` takes."""
    xs = [dy.inputTensor(a, batched=np.ndim(a) > 1) for a in arrays]
    return list(zip(xs, children, strict=True))


def outputs(builder, children=CHILDREN):
    """Values of all nodes, ``[node, hidden_dim]``."""
    found = builder.transduce(nodes(numbers(builder.input_dim), children))
    return np.array([e.npvalue() for e in found])


def run(step, layers, arrays, children):
    """The same by a cell in NumPy, ``step(layer, x, [(c, h) of children])``."""
    made = []
    for x, below in zip(arrays, children, strict=True):
        states = []
        for k, layer in enumerate(layers):
            c, h = step(layer, x, [made[j][k] for j in below])
            states.append((c, h))
            x = h
        made.append(states)
    return np.array([states[-1][1] for states in made])


def check_gradients(builder, forward, children=CHILDREN):
    """Those of all parameters are central differences, in float64.

    Args:
        forward: ``(layers, arrays, children) -> [node, hidden_dim]`` in NumPy.
    """
    parameters = builder.get_parameters()
    layers = [[p.as_array() for p in layer] for layer in parameters]
    arrays, r = numbers(builder.input_dim), np.sin(1 + np.arange(builder.hidden_dim))
    found = builder.transduce(nodes(arrays, children))
    dy.esum([dy.dot_product(e, dy.inputVector(r)) for e in found]).backward()

    def loss():
        return np.sum(np.array(forward(layers, arrays, children)) @ r)

    for some, values in zip(parameters, layers, strict=True):
        for p, array in zip(some, values, strict=True):
            wanted = differences(loss, array)
            np.testing.assert_allclose(
                p.grad_as_array(), wanted, rtol=1e-3, atol=1e-5, err_msg=p.name()
            )


def differences(loss, array, step=1e-6):
    """The gradient of `loss`, which reads `array`, by central differences."""
    gradient = np.zeros_like(array)
    for index in np.ndindex(array.shape):
        kept = array[index]
        array[index] = kept + step
        above = loss()
        array[index] = kept - step
        gradient[index] = (above - loss()) / (2 * step)
        array[index] = kept
    return gradient
