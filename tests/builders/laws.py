"""What holds for a cell, given its equations in NumPy."""

import numpy as np

import dynetjax as dy

from .golden import fill_all, flat

STEP = 1e-6
START = np.array([[0.3, -0.2], [0.1, 0.6], [-0.4, 0.5], [0.8, -0.7]])
INPUTS = np.cos(0.9 * np.arange(3)[:, None] + 0.5 * np.arange(3))
WEIGHTS = np.array([0.7, -1.1, 0.4, 1.3, 0.9, -0.6, 1.2, 0.5])


def sigmoid(a):
    return 1 / (1 + np.exp(-a))


def central_differences(function, arrays):
    """Gradients of a function of float64 arrays to one number."""
    gradients = [np.zeros_like(array) for array in arrays]
    for array, gradient in zip(arrays, gradients, strict=True):
        for index in np.ndindex(array.shape):
            kept = array[index]
            array[index] = kept + STEP
            above = function()
            array[index] = kept - STEP
            gradient[index] = (above - function()) / (2 * STEP)
            array[index] = kept
    return gradients


class CellLaws:
    """Two layers of a cell over three inputs; a test class of each cell inherits it.

    Attributes:
        vectors: how many vectors of each layer a state has.
        fixed: positions of parameters that take no gradient.
        numbers: what DyNet 2.1 computes, with its own release; the state at the end.
        zeros_are_nothing: no state is the same as one of zeros.
    """

    vectors = 1
    zeros_are_nothing = True
    fixed = ()
    numbers: tuple[float, ...]

    def make(self, model):
        """The builder, of two layers with inputs of 3 and outputs of 2."""
        raise NotImplementedError

    def fill(self, builder):
        """Give the parameters their values."""
        fill_all(builder)

    def layers(self, builder):
        """The parameters of each layer, in the order that `step` takes them."""
        return builder.get_parameters()

    def step(self, parameters, x, state):
        """The vectors of a layer after reading `x`, the output last."""
        raise NotImplementedError

    def made(self):
        dy.renew_cg()
        builder = self.make(dy.ParameterCollection())
        self.fill(builder)
        return builder

    def run(self, layers, xs, start):
        """The state after `xs`, in the order of `RNNState.s`."""
        count = len(layers)
        states = [[start[v * count + k] for v in range(self.vectors)] for k in (0, 1)]
        for x in xs:
            for k, parameters in enumerate(layers):
                states[k] = self.step(parameters, x, states[k])
                x = states[k][-1]
        return np.concatenate([s[v] for v in range(self.vectors) for s in states])

    def test_dynet_numbers(self):
        builder = self.made()
        xs = [dy.inputVector(x) for x in INPUTS]
        state = builder.initial_state().add_inputs(xs)[-1]
        np.testing.assert_allclose(flat(state.s()), self.numbers, atol=2e-6)

    def test_equations(self):
        """From no state, and from given vectors."""
        builder = self.made()
        layers = [[p.as_array() for p in ps] for ps in self.layers(builder)]
        xs = [dy.inputVector(x) for x in INPUTS]
        start = START[: 2 * self.vectors]
        cases = [(builder.initial_state_from_raw_vectors(start), start)]
        if self.zeros_are_nothing:
            cases.append((builder.initial_state(), 0 * start))
        for state, vectors in cases:
            found = [flat(s.s()) for s in state.add_inputs(xs)]
            wanted = [self.run(layers, INPUTS[:n], vectors) for n in (1, 2, 3)]
            np.testing.assert_allclose(found, wanted, rtol=1e-5, atol=1e-6)

    def test_gradients(self):
        """Those of parameters, inputs and first vectors are central differences."""
        builder = self.made()
        inputs, start = INPUTS.copy(), START[: 2 * self.vectors].copy()
        layers = [[p.as_array() for p in ps] for ps in self.layers(builder)]
        r = WEIGHTS[: 2 * len(start)]
        given = [dy.inputVector(v) for v in start]
        xs = [dy.inputVector(x) for x in inputs]
        state = builder.initial_state(given).add_inputs(xs)[-1]
        loss = dy.dot_product(dy.concatenate(list(state.s())), dy.inputVector(r))
        loss.backward(full=True)
        arrays = [inputs, start, *(a for arrays in layers for a in arrays)]
        wanted = central_differences(
            lambda: self.run(layers, inputs, start) @ r, arrays
        )
        for k in self.fixed:
            wanted[2 + k][:] = wanted[2 + len(layers[0]) + k][:] = 0
        every = [p for ps in self.layers(builder) for p in ps]
        found = [p.grad_as_array() for p in every]
        found = [[x.gradient() for x in some] for some in (xs, given)] + found
        for one, other in zip(found, wanted, strict=True):
            np.testing.assert_allclose(one, other, rtol=1e-4, atol=1e-5)
