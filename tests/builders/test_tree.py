"""What holds for every builder over trees."""

import random

import numpy as np
import pytest

import dynetjax as dy

from .golden import COPIES
from .trees import BINARY, CHILDREN, everything, fill_tree, nodes, numbers, outputs

BUILDERS = {
    "nary": lambda m, layers=2, size=4: dy.NaryTreeLSTMBuilder(
        2, layers, size, size, m
    ),
    "unidirectional": lambda m, layers=2, size=4: dy.UnidirectionalTreeLSTMBuilder(
        layers, size, size, m
    ),
    "bidirectional": lambda m, layers=2, size=4: dy.BidirectionalTreeLSTMBuilder(
        layers, size, size, m
    ),
    "child sum": lambda m, layers=2, size=4: dy.ChildSumTreeLSTMBuilder(
        layers, size, size, m
    ),
    "binary": lambda m, layers=2, size=4: dy.BinaryTreeLSTMBuilder(
        layers, size, size, m
    ),
}
pytestmark = pytest.mark.parametrize("make", BUILDERS.values(), ids=BUILDERS)


@pytest.fixture
def builder(make):
    dy.renew_cg()
    made = make(dy.ParameterCollection())
    fill_tree(made)
    return made


def shape_of(builder):
    return BINARY if isinstance(builder, dy.BinaryTreeLSTMBuilder) else CHILDREN


def embed(leaf):
    return dy.inputVector(numbers(4, 9)[leaf])


@pytest.mark.parametrize("copied", COPIES)
def test_copies(builder, copied):
    """They compute the same; the trees of one are not those of the other."""
    shape = shape_of(builder)

    def values(some):
        dy.renew_cg()
        return outputs(some, shape)

    wanted = values(builder)
    model, again = copied((builder.param_collection(), builder))
    np.testing.assert_allclose(values(again), wanted, rtol=1e-5, atol=1e-6)
    model.parameters_list()[0].zero()
    np.testing.assert_allclose(values(builder), wanted, rtol=1e-5, atol=1e-6)
    assert abs(values(again) - wanted).max() > 0.01


class Node:
    """A tree of objects."""

    def __init__(self, word, *children):
        self.word, self.below = word, children

    def children(self):
        return self.below


class Labelled(list):
    """A tree as NLTK's are."""

    def __init__(self, label, children):
        super().__init__(children)
        self._label = label

    def label(self):
        return self._label


class TestStates:
    def test_vectors(self, builder):
        leaf = builder.add_input(embed(0))
        root = builder.add_input(embed(1), leaf)
        assert root.children() == (leaf,)
        assert root.b() is builder
        assert root.nodes() == [leaf, root]
        assert root.output() is root.h()[-1] is root.s()[-1]
        assert len(root.h()) == 2
        assert root.s()[-2:] == root.h()
        assert root.output().dim() == ((4,), 1)

    def test_a_list_of_children(self, builder):
        leaves = [builder.add_input(embed(k)) for k in range(2)]
        one = builder.add_input(embed(2), leaves).output()
        other = builder.add_input(embed(2), *leaves).output()
        np.testing.assert_array_equal(one.npvalue(), other.npvalue())

    def test_numbered(self, builder):
        """DyNet's form; ids in any order."""
        wanted = outputs(builder, shape_of(builder))
        dy.renew_cg()
        builder.initial_state().set_num_elements(60)
        found = []
        for k, (x, ids) in enumerate(nodes(numbers(4), shape_of(builder))):
            found.append(builder.add_input(50 - 3 * k, [50 - 3 * j for j in ids], x))
        np.testing.assert_allclose([e.npvalue() for e in found], wanted, atol=1e-6)

    def test_branches(self, builder):
        """A state may be a child of several nodes."""
        leaf = builder.add_input(embed(0))
        one, other = [builder.add_input(embed(1), leaf).output() for _ in range(2)]
        np.testing.assert_array_equal(one.npvalue(), other.npvalue())

    def test_after_a_revert(self, builder):
        """Weights that were made since are made again."""
        dy.cg_checkpoint()
        wanted = builder.add_input(embed(1), builder.add_input(embed(0))).output()
        wanted = wanted.npvalue()
        dy.cg_revert()
        leaf = builder.add_input(embed(0))
        dy.cg_checkpoint()
        gone = builder.add_input(embed(1), leaf)
        leaf.output()
        dy.cg_revert()
        with pytest.raises(ValueError, match="the state of a tree is stale"):
            gone.output()
        root = builder.add_input(embed(1), leaf)
        np.testing.assert_allclose(root.output().npvalue(), wanted, atol=1e-6)
        assert leaf.output().npvalue().shape == (4,)


class TestBuild:
    def test_nested(self, builder):
        root = builder.build(([0, 1], 2), embed)
        leaves = [builder.add_input(embed(k)) for k in range(3)]
        inner = builder.add_input(None, leaves[0], leaves[1])
        wanted = builder.add_input(None, inner, leaves[2]).output().npvalue()
        np.testing.assert_allclose(root.output().npvalue(), wanted, atol=1e-6)
        assert [s.node for s in root.nodes()] == [0, 1, [0, 1], 2, ([0, 1], 2)]

    def test_labels(self, builder):
        tree = Labelled(3, [Labelled(4, [0, 1]), 2])
        root = builder.build(tree, embed, inner=lambda t: embed(t.label()))
        leaves = [builder.add_input(embed(k)) for k in range(3)]
        inner = builder.add_input(embed(4), leaves[0], leaves[1])
        wanted = builder.add_input(embed(3), inner, leaves[2]).output().npvalue()
        np.testing.assert_allclose(root.output().npvalue(), wanted, atol=1e-6)

    def test_objects(self, builder):
        def word(node):
            return embed(node.word)

        tree = Node(0, Node(1), Node(2, Node(3)))
        root = builder.build(tree, word, inner=word)
        deepest = builder.add_input(embed(3))
        right = builder.add_input(embed(2), deepest)
        left = builder.add_input(embed(1))
        wanted = builder.add_input(embed(0), left, right).output().npvalue()
        np.testing.assert_allclose(root.output().npvalue(), wanted, atol=1e-6)
        assert [s.node.word for s in root.nodes()] == [1, 3, 2, 0]

    def test_another_way_to_the_children(self, builder):
        below = {0: [1, 2], 2: [3]}
        root = builder.build(0, embed, embed, children=lambda k: below.get(k, []))
        assert [s.node for s in root.nodes()] == [1, 3, 2, 0]

    def test_a_leaf(self, builder):
        root = builder.build(1, embed)
        wanted = builder.add_input(embed(1)).output().npvalue()
        np.testing.assert_array_equal(root.output().npvalue(), wanted)

    def test_no_tree(self, builder):
        tree = [0]
        tree.append(tree)
        with pytest.raises(ValueError, match="build: a node is among its own"):
            builder.build(tree, embed)

    def test_leaf_without_input(self, builder):
        with pytest.raises(ValueError, match="a node has neither input nor children"):
            builder.build((0, 1), lambda leaf: None)


def test_deep(make):
    """No recursion, in Python or in the engine's notes."""
    dy.renew_cg()
    builder = make(dy.ParameterCollection(), 1)
    depth = 10_000
    tree = 0
    for _ in range(depth):
        tree = [tree]
    root = builder.build(tree, embed)
    assert len(root.nodes()) == depth + 1


def test_deep_values(make):
    dy.renew_cg()
    builder = make(dy.ParameterCollection(), 1)
    fill_tree(builder)
    tree = 0
    for _ in range(150):
        tree = [tree]
    loss = dy.squared_norm(builder.build(tree, embed).output())
    assert np.isfinite(loss.value())
    loss.backward()
    assert any(p.grad_as_array().any() for p in everything(builder))


def test_batch(builder):
    """It is its elements; nodes without a batch fit any."""
    children = shape_of(builder)
    arrays = np.random.RandomState(0).randn(6, 4, 3)
    found = builder.transduce(nodes([arrays[0, :, 0], *arrays[1:]], children))
    arrays[0] = arrays[0, :, :1]
    for k in range(3):
        wanted = builder.transduce(nodes(arrays[:, :, k], children))
        for one, other in zip(found[2:], wanted[2:], strict=True):
            value = one.npvalue()[..., k]
            np.testing.assert_allclose(value, other.npvalue(), atol=1e-6)


def test_update_false(builder):
    """No gradient reaches the builder; only the first call of a graph decides."""
    w = dy.ParameterCollection().add_parameters(4, init=0.5)
    assert builder.initial_state(update=False) is builder
    builder.initial_state(update=True)
    root = builder.add_input(w, builder.add_input(w))
    dy.squared_norm(root.output()).backward()
    assert w.grad_as_array().any()
    assert not any(p.grad_as_array().any() for p in everything(builder))


class TestDropout:
    def test_off(self, builder):
        wanted = outputs(builder, BINARY)
        dy.renew_cg()
        builder.set_dropout(0.5)
        builder.disable_dropout()
        np.testing.assert_allclose(outputs(builder, BINARY), wanted, atol=1e-6)

    def test_masks_last_as_long_as_the_graph(self, builder):
        builder.set_dropout(0.5)
        seen = set()
        for _ in range(8):
            dy.renew_cg()
            one, other = outputs(builder, BINARY), outputs(builder, BINARY)
            np.testing.assert_allclose(one, other, atol=1e-6)
            seen.add(tuple(np.round(one.ravel(), 4)))
        assert len(seen) > 1

    def test_elements_of_a_batch_differ(self, builder):
        builder.set_dropout(0.5)
        x = dy.inputTensor(np.ones((4, 16)), batched=True)
        value = builder.add_input(x, builder.add_input(x)).output().npvalue()
        assert len({tuple(row) for row in np.round(value.T, 5)}) > 1

    def test_rate_out_of_range(self, builder):
        with pytest.raises(ValueError, match="the rate is out"):
            builder.set_dropout(1.0)


def random_tree(rng, leaves):
    """Any shape with so many leaves, of at most two children to a node."""
    if leaves == 1:
        return rng.randrange(9)
    left = rng.randrange(1, leaves)
    parts = [random_tree(rng, left), random_tree(rng, leaves - left)]
    return [parts] if rng.random() < 0.2 else parts


def test_shapes_compile_nothing(make):
    """Fifty trees of new shapes run programs that there are."""
    model = dy.ParameterCollection()
    table = model.add_lookup_parameters((9, 14))  # a size that no other test has
    builder = make(model, 1, 14)
    trainer = dy.SimpleSGDTrainer(model)
    rng = random.Random(3)

    def train(count):
        for _ in range(count):
            dy.renew_cg()
            tree = random_tree(rng, rng.randint(1, 12))
            root = builder.build(tree, lambda word: table[word])
            loss = dy.esum([dy.squared_norm(s.output()) for s in root.nodes()])
            loss.value()
            loss.backward()
            trainer.update()

    train(128)
    before = dy.stats()
    train(50)
    after = dy.stats()
    assert after.compilations + after.loads == before.compilations + before.loads


def test_save_and_load(builder, tmp_path):
    dy.save(str(tmp_path / "model"), [builder])
    wanted = outputs(builder, BINARY)
    (again,) = dy.load(str(tmp_path / "model"), dy.ParameterCollection())
    assert type(again) is type(builder)
    assert again.spec == builder.spec
    np.testing.assert_allclose(outputs(again, BINARY), wanted, atol=1e-6)


class TestMistakes:
    def test_stale(self, builder):
        leaf = builder.add_input(embed(0))
        x = embed(1)
        dy.renew_cg()
        with pytest.raises(ValueError, match="the state of a tree is stale"):
            leaf.h()
        with pytest.raises(ValueError, match="the state of a tree is stale"):
            builder.add_input(embed(0), leaf)
        with pytest.raises(ValueError, match="stale"):
            builder.add_input(x)

    def test_children(self, builder):
        with pytest.raises(TypeError, match="add_input: a child is no state"):
            builder.add_input(embed(0), embed(1))
        other = type(builder).from_spec(builder.spec, dy.ParameterCollection())
        with pytest.raises(
            ValueError, match="add_input: a child is of another builder"
        ):
            builder.add_input(embed(0), other.add_input(embed(0)))

    def test_input(self, builder):
        with pytest.raises(TypeError, match="add_input: it is no Expression"):
            builder.build(0, lambda leaf: [1.0])
        with pytest.raises(ValueError, match="x does not fit the builder"):
            builder.add_input(dy.inputVector([1.0]))

    def test_numbers(self, builder):
        with pytest.raises(ValueError, match="transduce: a child does not come before"):
            builder.transduce([(embed(0), [0])])
        builder.add_input(0, [], embed(0))
        with pytest.raises(ValueError, match="add_input: there is no such child"):
            builder.add_input(1, [2], embed(0))
        with pytest.raises(ValueError, match="add_input: the id will not do"):
            builder.add_input(0, [], embed(0))
        builder.set_num_elements(2)
        with pytest.raises(ValueError, match="add_input: the id will not do"):
            builder.add_input(2, [], embed(0))

    def test_constructor(self, builder):
        spec = list(builder.spec)
        kind = type(builder)
        with pytest.raises(TypeError, match="model is no collection"):
            kind.from_spec(spec, None)
        at = spec.index(2, 1) if kind is dy.NaryTreeLSTMBuilder else 0
        for wrong, error, match in [
            (0, ValueError, "there are no layers"),
            (-1, OverflowError, "layers is negative"),
        ]:
            spec[at] = wrong
            with pytest.raises(error, match=match):
                kind.from_spec(spec, dy.ParameterCollection())
