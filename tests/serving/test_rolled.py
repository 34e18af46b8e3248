"""What is computed together, and in loops."""

import random

import numpy as np
import pytest

import dynetjax as dy
from dynetjax.serving.probes import Prober
from dynetjax.serving.rolled import Loop, order

VOCABULARY = 30
WORDS = [3, 1, 4, 1, 5, 9, 2, 6]


class Network:
    def __init__(self):
        self.model = dy.ParameterCollection()
        self.E = self.model.add_lookup_parameters((VOCABULARY, 4))
        self.W = self.model.add_parameters((4, 4))
        self.V = self.model.add_parameters((4, 4))
        self.b = self.model.add_parameters(4, init=0.25)


@pytest.fixture(scope="module")
def net():
    return Network()


def parts(f, length=8):
    """The order of what a function builds, loops and classes."""
    arguments = {"words": dy.Ids(VOCABULARY, max_len=length)}
    ordered = order(Prober(f, arguments).build({"words": length}))
    loops = [x for x in ordered.parts if isinstance(x, Loop)]
    return ordered, loops


def require_same(f, words=WORDS):
    """Values by JAX are those of the graph."""
    length = len(words)
    spec = dy.Ids(VOCABULARY, min_len=length, max_len=length)
    found = dy.export(f, words=spec)(words)
    dy.renew_cg()
    returned = f(words)
    if isinstance(returned, list):
        expected = np.array([x.npvalue() for x in returned])
    else:
        expected = returned.npvalue()
    assert np.allclose(found, expected, atol=1e-5)


def of_builder(net, builder):
    def f(words):
        return builder.initial_state().transduce([net.E[w] for w in words])

    return f


def chain(net):
    """The first step has no state before it."""

    def f(words):
        h = None
        for w in words:
            x = net.W * net.E[w] + net.b
            h = dy.tanh(x if h is None else x + net.V * h)
        return h

    return f


def backwards_with_sums(net):
    """Nodes outside of the loop read it from the other end."""

    def f(words):
        h, states = net.b, []
        for w in reversed(words):
            h = dy.tanh(net.V * h + net.E[w])
            states.append(h)
        return [x + net.E[w] for x, w in zip(reversed(states), words, strict=True)]

    return f


def tree(net):
    """Halves of the sentence, and halves of these."""

    def f(words):
        if len(words) == 1:
            return net.E[words[0]]
        middle = len(words) // 2 + (len(words) > 4)
        return dy.tanh(net.W * f(words[:middle]) + net.V * f(words[middle:]))

    return f


def sometimes(net):
    """Every third step does more."""

    def f(words):
        h = net.b
        for k, w in enumerate(words):
            h = dy.tanh(net.V * h + net.E[w])
            if k % 3 == 2:
                h = dy.cmult(h, dy.logistic(net.W * h))
        return h

    return f


GRAPHS = chain, backwards_with_sums, tree, sometimes
BUILDERS = (
    dy.VanillaLSTMBuilder,
    dy.CompactVanillaLSTMBuilder,
    dy.CoupledLSTMBuilder,
    dy.FastLSTMBuilder,
    dy.GRUBuilder,
    dy.SimpleRNNBuilder,
)


class TestValues:
    @pytest.mark.parametrize("graph", GRAPHS)
    @pytest.mark.parametrize("length", [1, 3, 8])
    def test_graph(self, net, graph, length):
        require_same(graph(net), WORDS[:length])

    @pytest.mark.parametrize("builder", BUILDERS)
    def test_builder(self, net, builder):
        require_same(of_builder(net, builder(2, 4, 4, net.model)))

    @pytest.mark.parametrize("seed", range(8))
    def test_any_graph(self, net, seed):
        """Operations follow from any others before them."""

        def f(words):
            draw = random.Random(seed)
            nodes = [net.b, *[net.E[w] for w in words]]
            for _ in range(40):
                x, y = draw.choices(nodes[-8:], k=2)
                nodes.append(
                    draw.choice(
                        [
                            lambda x, y: dy.tanh(x),
                            lambda x, y: dy.cmult(x, y),
                            lambda x, y: 0.5 * (x + y),
                            lambda x, y: dy.tanh(net.W * x),
                            lambda x, y: dy.average([x, y, net.b]),
                            lambda x, y: dy.tanh(net.V * x + y),
                        ]
                    )(x, y)
                )
            return nodes[-8:]

        require_same(f)

    def test_attention_at_every_step(self, net):
        """A loop in which a matrix is the same in all steps."""

        def f(words):
            M = dy.concatenate_cols([net.E[w] for w in words])
            h = net.b
            for _ in words:
                h = dy.tanh(M * dy.softmax(dy.transpose(M) * h) + net.V * h)
            return h

        require_same(f)
        assert [len(loop.steps[0]) for loop in parts(f)[1]] == [len(WORDS)]

    def test_classes_in_a_loop(self, net):
        """Each step has runtime data of its own."""

        def f(words):
            h, losses = net.b, []
            for k, w in enumerate(words):
                scaled = dy.pick(h, k % 4) * dy.scalarInput(k)
                h = dy.tanh(net.V * h + net.E[w] + scaled)
                losses.append(dy.pickneglogsoftmax(h, k % 4))
            return dy.esum(losses)

        require_same(f)


class TestOrder:
    def test_recurrence_is_a_loop(self, net):
        """All else is outside, and is computed at once."""
        ordered, loops = parts(backwards_with_sums(net))
        (loop,) = loops
        assert loop.is_worth_it
        assert [len(nodes) for nodes in loop.steps] == [len(WORDS)] * 3
        others = [ordered.classes[c] for c in ordered.parts if c != loop]
        wide = [len(nodes) for nodes in others if len(nodes) > 1]
        assert wide == [2 * len(WORDS), len(WORDS)]  # lookups, and sums

    def test_layers_are_loops_of_their_own(self, net):
        builder = dy.BiRNNBuilder(2, 4, 8, net.model, dy.GRUBuilder)
        loops = parts(lambda words: builder.transduce([net.E[w] for w in words]))[1]
        assert len(loops) == 4
        assert all(loop.is_worth_it for loop in loops)
        assert all(len(loop.steps[0]) == len(WORDS) for loop in loops)

    @pytest.mark.parametrize(("length", "is_loop"), [(4, False), (5, True)])
    def test_few_steps_are_no_loop(self, net, length, is_loop):
        """The first step has operands of other classes, and is outside."""
        (loop,) = parts(chain(net), length)[1]
        assert loop.is_worth_it == is_loop

    @pytest.mark.parametrize(("last", "is_loop"), [(5, True), (-1, False)])
    def test_few_nodes_in_the_steps_are_no_loop(self, last, is_loop):
        alone = [1, -1, -1, -1]
        assert Loop([0, 1, 2], [[0, 3, 4, last], alone, alone]).is_worth_it == is_loop

    @pytest.mark.parametrize("graph", GRAPHS)
    def test_operands_come_first(self, net, graph):
        """In a loop, in an earlier step or an earlier class of the same."""
        arguments = {"words": dy.Ids(VOCABULARY, max_len=8)}
        built = Prober(graph(net), arguments).build({"words": 8})
        ordered = order(built)
        computed = set()
        for part in ordered.parts:
            if isinstance(part, Loop):
                for nodes in zip(*part.steps, strict=True):
                    for node in filter(lambda x: x >= 0, nodes):
                        assert computed.issuperset(built.operands[node])
                        computed.add(node)
            else:
                nodes = ordered.classes[part]
                for node in nodes:
                    assert computed.issuperset(built.operands[node])
                computed.update(nodes)
        assert computed == set(range(len(built.nodes)))

    def test_programs_do_not_grow(self, net):
        lstm = of_builder(net, dy.VanillaLSTMBuilder(1, 4, 4, net.model))
        exported = dy.export(lstm, words=dy.Ids(VOCABULARY, min_len=10, max_len=20))
        short, long = [exported.stablehlo(n).count("\n") for n in (10, 20)]
        assert long - short < 20
        assert "stablehlo.while" in exported.stablehlo(10)
