"""BiRNNBuilder: both directions, stored numbers of DyNet 2.1, and mistakes."""

import numpy as np
import pytest

import dynetjax as dy

from .golden import COPIES, fill, x

NUMBERS = {
    dy.CoupledLSTMBuilder: [
        [-0.091666, -0.200166, -0.184746, 0.097603],
        [-0.155088, -0.208544, -0.131724, 0.047439],
        [-0.185367, -0.194483, -0.072377, 0.009744],
    ],
    dy.VanillaLSTMBuilder: [
        [0.045316, 0.088693, -0.053268, 0.059485],
        [0.089342, 0.136244, -0.061431, 0.082306],
        [0.148647, 0.140909, -0.046853, 0.070215],
    ],
}


@pytest.fixture
def builder():
    dy.renew_cg()
    return dy.BiRNNBuilder(2, 3, 4, dy.ParameterCollection(), dy.GRUBuilder)


@pytest.fixture
def xs():
    dy.renew_cg()
    return [x(t) for t in range(3)]


def values(es):
    return np.array([e.npvalue() for e in es])


@pytest.mark.parametrize("make", NUMBERS)
def test_dynet_numbers(make):
    dy.renew_cg()
    m = dy.ParameterCollection()
    builder = dy.BiRNNBuilder(2, 3, 4, m, make)
    for n, p in enumerate(m.parameters_list()):
        p.set_value(fill(n, p.shape()))
    found = values(builder.transduce([x(t) for t in range(3)]))
    np.testing.assert_allclose(found, NUMBERS[make], atol=2e-6)


@pytest.mark.parametrize("copied", COPIES)
def test_copies(builder, copied):
    def run(some):
        dy.renew_cg()
        return values(some.transduce([x(t) for t in range(3)]))

    np.testing.assert_allclose(run(copied(builder)), run(builder), rtol=1e-5, atol=1e-6)


def test_parameters():
    m = dy.ParameterCollection()
    builder = dy.BiRNNBuilder(
        num_layers=2,
        input_dim=3,
        hidden_dim=4,
        model=m,
        rnn_builder_factory=dy.SimpleRNNBuilder,
    )
    names = [
        b.param_collection().name() for pair in builder.builder_layers for b in pair
    ]
    ends = ["", "_1", "_2", "_3"]
    assert names == [f"/birnn/simple-rnn-builder{end}/" for end in ends]
    shapes = [p.shape() for p in m.parameters_list() if p.name().endswith("_0")]
    assert shapes == [(2, 3), (2, 3), (2, 4), (2, 4)]
    assert builder.param_collection() is builder.model
    assert builder.model.name() == "/birnn/"
    second = dy.BiRNNBuilder(1, 3, 2, m, dy.GRUBuilder)
    assert second.param_collection().name() == "/birnn_1/"
    assert builder.spec == (2, 3, 4, dy.SimpleRNNBuilder, None)
    assert builder.whoami() == "BiRNNBuilder"


def test_sizes_are_whole():
    """A factory is given ints, also where the sizes are not."""
    given = []

    def factory(layers, input_dim, hidden_dim, model):
        given.append((layers, input_dim, hidden_dim))
        return dy.SimpleRNNBuilder(layers, input_dim, hidden_dim, model)

    dy.BiRNNBuilder(2, 3.0, 4.0, dy.ParameterCollection(), factory)
    assert given == [(1, 3, 2)] * 2 + [(1, 4, 2)] * 2
    assert all(type(n) is int for sizes in given for n in sizes)


def test_directions(builder, xs):
    """The first half has read from the start, the second from the end."""
    (f1, b1), (f2, b2) = builder.builder_layers
    ahead = f1.initial_state().transduce(xs)
    behind = b1.initial_state().transduce(xs[::-1])[::-1]
    middle = [dy.concatenate([f, b]) for f, b in zip(ahead, behind, strict=True)]
    ahead = values(f2.initial_state().transduce(middle))
    behind = values(b2.initial_state().transduce(middle[::-1]))[::-1]
    found = values(builder.transduce(xs))
    np.testing.assert_allclose(found, np.hstack([ahead, behind]), atol=1e-6)


def test_states(builder, xs):
    pairs = builder.add_inputs(tuple(xs))
    outputs = values(dy.concatenate([f.output(), b.output()]) for f, b in pairs)
    np.testing.assert_allclose(outputs, values(builder.transduce(xs)), atol=1e-6)
    forward, backward = builder.builder_layers[1]
    assert pairs[0][0].prev() is forward.initial_state()
    assert pairs[-1][1].prev() is backward.initial_state()


def test_calls_are_independent(builder, xs):
    first = values(builder.transduce(xs))
    again = values(builder.transduce(xs))
    np.testing.assert_allclose(again, first, atol=1e-6)
    assert builder.transduce([]) == builder.add_inputs([]) == []


def test_batches(builder):
    arrays = np.random.RandomState(0).randn(3, 3, 4)
    batched = [dy.inputTensor(a, batched=True) for a in arrays]
    found = values(builder.transduce(batched))
    for k in range(4):
        alone = builder.transduce([dy.inputVector(a[:, k]) for a in arrays])
        np.testing.assert_allclose(found[:, :, k], values(alone), atol=1e-6)


def test_gradients_reach_all(builder, xs):
    dy.squared_norm(dy.esum(builder.transduce(xs))).backward(full=True)
    assert all(p.grad_as_array().any() for p in builder.model.parameters_list())
    assert all(x.gradient().any() for x in xs)


def test_given_builders():
    m = dy.ParameterCollection()
    pair = dy.SimpleRNNBuilder(1, 3, 2, m), dy.GRUBuilder(1, 3, 5, m)
    dy.renew_cg()
    builder = dy.BiRNNBuilder(0, 0, 7, m, None, [pair])
    assert builder.builder_layers == [pair]
    assert builder.model.name() == "/birnn/"
    assert builder.transduce([x(0)])[0].dim() == ((7,), 1)


def test_dropout(builder, xs):
    expected = values(builder.transduce(xs))
    builder.set_dropout(0.9)
    assert not np.allclose(values(builder.transduce(xs)), expected)
    builder.disable_dropout()
    np.testing.assert_allclose(values(builder.transduce(xs)), expected, atol=1e-6)
    with pytest.raises(ValueError, match="set_dropout: the rate is out of range"):
        builder.set_dropout(1.0)


def test_from_spec(builder):
    class Own(dy.BiRNNBuilder):
        pass

    made = Own.from_spec(builder.spec, dy.ParameterCollection())
    assert type(made) is Own
    assert made.spec == builder.spec
    assert len(made.builder_layers) == 2


class TestMistakes:
    def test_sizes(self):
        for layers, hidden in (0, 4), (1, 3):
            with pytest.raises(AssertionError, match="the sizes will not do"):
                dy.BiRNNBuilder(
                    layers, 3, hidden, dy.ParameterCollection(), dy.GRUBuilder
                )

    def test_model(self):
        with pytest.raises(TypeError, match="BiRNNBuilder: model is no collection"):
            dy.BiRNNBuilder(1, 3, 4, None, dy.GRUBuilder)

    @pytest.mark.parametrize("name", ["transduce", "add_inputs"])
    def test_generator(self, builder, xs, name):
        with pytest.raises(TypeError, match=f"{name}: .* is no sequence"):
            getattr(builder, name)(x for x in xs)

    def test_stale_input(self, builder, xs):
        dy.renew_cg()
        with pytest.raises(ValueError, match="stale"):
            builder.transduce(xs)

    def test_wrong_size(self, builder):
        with pytest.raises(ValueError, match="1 number, input_dim is 3"):
            builder.transduce([dy.inputVector([1.0])])
        builder.transduce([x(0)])[0].npvalue()
