"""Whatever does not fit a builder is told in words of that builder."""

import inspect

import pytest

import dynetjax as dy
from dynetjax.builders.base import RNNBuilder
from dynetjax.builders.softmax import SoftmaxBuilder
from dynetjax.builders.tree import TreeBuilder

INPUT, HIDDEN = 10, 8


def kinds(of):
    """The public builders of a family."""
    found = [
        kind
        for kind in vars(dy).values()
        if inspect.isclass(kind)
        and issubclass(kind, of)
        and not inspect.isabstract(kind)
    ]
    return sorted({*found} - {of}, key=lambda kind: kind.__name__)


def named(kind, *words):
    """What a message begins with, and has in its first line."""
    return rf"^{kind.__name__}\b" + "".join(rf"[^\n]*\b{word}\b" for word in words)


@pytest.fixture(autouse=True)
def graph():
    dy.renew_cg()


def vector(size):
    return dy.inputVector([1.0] * size)


def rnn(kind, layers=1):
    return kind(layers, INPUT, HIDDEN, dy.ParameterCollection())


@pytest.mark.parametrize("kind", kinds(RNNBuilder))
class TestSequences:
    @pytest.mark.parametrize("layers", [1, 2])
    @pytest.mark.parametrize("size", [5, 20])
    @pytest.mark.parametrize(
        "read",
        [
            lambda state, x: state.add_input(x),
            lambda state, x: state.add_inputs([x, x]),
            lambda state, x: state.transduce([x, x]),
            lambda state, x: dy.StackedRNNState([state]).add_input(x),
        ],
    )
    def test_input(self, kind, read, size, layers):
        state = rnn(kind, layers).initial_state()
        for at in state, state.add_input(vector(INPUT)):
            expected = named(kind, size, "numbers", "input_dim", INPUT)
            with pytest.raises(dy.DimError, match=expected) as caught:
                read(at, vector(size))
            assert "cmult" not in str(caught.value)

    def test_the_second_input(self, kind):
        state = rnn(kind).initial_state()
        with pytest.raises(dy.DimError, match=named(kind, 5, "input_dim", INPUT)):
            state.transduce([vector(INPUT), vector(5)])

    def test_sizes_of_the_state(self, kind):
        start = rnn(kind).initial_state()
        first = start.add_input(vector(INPUT))
        several = [vector(7) for _ in first.s()]
        for state in rnn(kind).initial_state(several), start.set_s(several):
            with pytest.raises(dy.DimError, match=named(kind, 7, "hidden_dim", HIDDEN)):
                state.add_input(vector(INPUT))
        with pytest.raises(dy.DimError, match=named(kind, 7, "hidden_dim", HIDDEN)):
            first.set_h([vector(7)]).add_input(vector(INPUT))

    def test_number_of_vectors(self, kind):
        builder = rnn(kind, 2)
        several = [vector(HIDDEN)] * 5
        expected = named(kind, "number of vectors")
        for given in (
            lambda: builder.initial_state(several),
            lambda: builder.initial_state().set_s(several),
            lambda: builder.initial_state().set_h(several),
        ):
            with pytest.raises(ValueError, match=expected):
                given()

    def test_batches(self, kind):
        """What fits in size, and not in its batch."""
        state = rnn(kind).initial_state()
        batches = [dy.zeros(INPUT, batch_size=n) for n in (2, 3)]
        with pytest.raises(dy.DimError, match=named(kind)):
            state.add_input(batches[0]).add_input(batches[1])


@pytest.mark.parametrize(
    "read", [dy.BiRNNBuilder.transduce, dy.BiRNNBuilder.add_inputs]
)
@pytest.mark.parametrize("kind", kinds(RNNBuilder))
def test_both_directions(kind, read):
    builder = dy.BiRNNBuilder(2, INPUT, HIDDEN, dy.ParameterCollection(), kind)
    expected = named(dy.BiRNNBuilder, 5, "input_dim", INPUT)
    with pytest.raises(dy.DimError, match=expected):
        read(builder, [vector(5)])


@pytest.mark.parametrize("kind", kinds(TreeBuilder))
class TestTrees:
    def make(self, kind):
        sizes = {"layers": 1, "input_dim": INPUT, "hidden_dim": INPUT, "N": 2}
        wanted = inspect.signature(kind).parameters
        return kind(
            **{name: n for name, n in sizes.items() if name in wanted},
            model=dy.ParameterCollection(),
        )

    def test_input(self, kind):
        builder = self.make(kind)
        for read in builder.add_input, lambda x: builder.build("a", lambda leaf: x):
            with pytest.raises(dy.DimError, match=named(kind)) as caught:
                read(vector(5))
            assert "{5}" in str(caught.value)
            assert "{10}" in str(caught.value)


@pytest.mark.parametrize("kind", kinds(SoftmaxBuilder))
@pytest.mark.parametrize(
    "read",
    [
        lambda builder, x: builder.neg_log_softmax(x, 0),
        lambda builder, x: builder.neg_log_softmax_batch(x, [0]),
        lambda builder, x: builder.full_logits(x),
        lambda builder, x: builder.full_log_distribution(x),
        lambda builder, x: builder.sample(x),
    ],
)
def test_softmaxes(kind, read, tmp_path):
    m = dy.ParameterCollection()
    if kind is dy.StandardSoftmaxBuilder:
        builder = kind(INPUT, 4, m)
    else:
        file = tmp_path / "classes"
        between = "\t" if kind is dy.HierarchicalSoftmaxBuilder else " "
        lines = [f"{k // 2}{between}{word}\n" for k, word in enumerate("abcd")]
        file.write_text("".join(lines))
        words = {word: k for k, word in enumerate("abcd")}
        builder = kind(INPUT, str(file), words, m)
    with pytest.raises(dy.DimError, match=named(kind)) as caught:
        read(builder, vector(5))
    assert "{5}" in str(caught.value)
    assert "{10}" in str(caught.value)
