"""What the REPL shows: of each public class something of the object."""

import subprocess
import sys

import numpy as np
import optax
import pytest
from IPython.lib.pretty import pretty

import dynetjax as dy
from dynetjax import parallel

ERRORS = BaseException, Warning
ABSTRACT = {dy.PyInitializer, dy.SoftmaxBuilder, dy.Trainer}
TRAINERS = [
    kind
    for kind in vars(dy).values()
    if isinstance(kind, type)
    and issubclass(kind, dy.Trainer)
    and kind is not dy.Trainer
]
PUBLIC = {
    kind
    for module in (dy, parallel)
    for name, kind in vars(module).items()
    if isinstance(kind, type) and not name.startswith("_")
    if not issubclass(kind, ERRORS) and kind not in ABSTRACT
}


@pytest.fixture
def things(tmp_path):
    """One or more objects of each public class."""
    dy.reset_stats()
    m = dy.ParameterCollection()
    exported = dy.export(lambda x: 2 * dy.scalarInput(x), x=dy.Numbers())
    dy.renew_cg()
    W, E = m.add_parameters((3, 4), name="W"), m.add_lookup_parameters((9, 4), name="E")
    words = {"cat": 0, "dog": 1, "runs": 2}
    (tmp_path / "classes").write_text("0 cat\n0 dog\n1 runs\n")
    (tmp_path / "tree").write_text("0\tcat\n1 0\tdog\n1 1\truns\n")
    recurrent = (
        dy.VanillaLSTMBuilder,
        dy.CompactVanillaLSTMBuilder,
        dy.CoupledLSTMBuilder,
        dy.LSTMBuilder,
        dy.FastLSTMBuilder,
        dy.SparseLSTMBuilder,
        dy.GRUBuilder,
        dy.SimpleRNNBuilder,
        dy.BinaryTreeLSTMBuilder,
        dy.ChildSumTreeLSTMBuilder,
        dy.BidirectionalTreeLSTMBuilder,
        dy.UnidirectionalTreeLSTMBuilder,
    )
    x = dy.inputVector([1, 2, 3, 4])
    state = dy.GRUBuilder(1, 4, 4, m).initial_state()
    trees = dy.NaryTreeLSTMBuilder(2, 1, 4, 4, m)
    trainers = [kind(m) for kind in TRAINERS if kind is not dy.OptaxTrainer]
    return [
        *[kind(1, 4, 4, m) for kind in recurrent],
        *[dy.BiRNNBuilder(1, 4, 4, m, dy.GRUBuilder), trees, trees.add_input(x)],
        *[state, state.add_input(x), dy.StackedRNNState([state])],
        dy.StandardSoftmaxBuilder(4, 3, m),
        *[
            dy.ClassFactoredSoftmaxBuilder(4, str(tmp_path / "classes"), words, m),
            dy.HierarchicalSoftmaxBuilder(4, str(tmp_path / "tree"), words, m),
        ],
        *[*trainers, dy.OptaxTrainer(m, optax.sgd(0.1))],
        *[dy.GlorotInitializer(), dy.IdentityInitializer(), dy.SaxeInitializer()],
        *[dy.ConstInitializer(2), dy.UniformInitializer(3), dy.NormalInitializer()],
        *[dy.FromFileInitializer(b"numbers"), dy.NumpyInitializer(np.ones((2, 3)))],
        *[m, W, E, W.expr(False), x, E[3], dy.cg(), x.graph, dy.to_jax(W * x)],
        *[x.tensor_value(), dy.find_nonfinite(dy.log(x - 1)), dy.Dim((2,), 3)],
        *[dy.stats(), dy.timeline(), dy.get_device_info("CPU"), dy.DynetParams()],
        *[parallel.shard([1, 2, 3]), parallel.Report(0, 1, 2.0, None, True, 3.0)],
        *[dy.tanh, dy.jax_op(np.tanh)],
        *[dy.Id(9), dy.Ids(9, max_len=2), dy.Numbers((2,)), exported, exported._here],
    ]


def test_no_class_is_missing(things):
    assert PUBLIC - {type(thing) for thing in things} == set()


def test_none_is_an_address(things):
    for thing in things:
        for text in (repr(thing), str(thing)):
            assert " object at 0x" not in text, text
            assert len(text) < 3000


def test_none_computes_or_adds_nodes(things):
    nodes, before = len(dy.cg()), dy.stats()
    for thing in things:
        assert repr(thing) == repr(thing)
    assert len(dy.cg()) == nodes
    assert dy.stats().launches == before.launches
    assert dy.stats().graphs == before.graphs


class TestOfAGraph:
    def test_an_expression(self):
        dy.renew_cg()
        version = dy.cg_version()
        x = dy.inputTensor(np.ones((5, 3)), batched=True)
        y = dy.tanh(x)
        assert repr(y) == f"expression 1/{version}: tanh {{5X3}}"
        assert str(y) == f"expression 1/{version}"  # DyNet's
        dy.renew_cg()
        assert repr(y) == str(y) == "expression (stale)"

    def test_an_expression_that_was_cut(self):
        dy.renew_cg()
        x = dy.inputVector([1, 2])
        dy.cg_checkpoint()
        y = dy.tanh(x)
        dy.cg_revert()
        assert repr(y) == "expression (stale)"
        assert "input {2}" in repr(x)

    def test_the_graph(self):
        dy.renew_cg()
        dy.tanh(dy.inputVector([1, 2]))
        assert repr(dy.cg()) == f"ComputationGraph {dy.cg_version()}: 2 nodes"

    def test_states(self):
        dy.renew_cg()
        rnn = dy.GRUBuilder(1, 2, 3, dy.ParameterCollection())
        first = rnn.initial_state()
        later = first.add_inputs([dy.ones(2)] * 4)[-1]
        of = "of GRUBuilder(layers=1, input_dim=2, hidden_dim=3)"
        assert repr(first) == f"RNNState after 0 steps {of}"
        assert repr(later) == f"RNNState after 4 steps {of}"
        stack = dy.StackedRNNState([first]).add_input(dy.ones(2))
        assert repr(stack).startswith("StackedRNNState after 1 step of GRUBuilder(")
        dy.renew_cg()
        assert repr(later) == "RNNState (stale)"

    def test_states_of_trees(self):
        dy.renew_cg()
        trees = dy.ChildSumTreeLSTMBuilder(1, 2, 3, dy.ParameterCollection())
        leaves = [trees.add_input(dy.ones(2)) for _ in range(2)]
        root = trees.add_input(dy.ones(2), *leaves)
        assert repr(root).startswith("TreeState of 3 nodes by ChildSumTreeLSTMBuilder(")
        dy.renew_cg()
        assert repr(root) == "TreeState (stale)"

    def test_a_function_for_jax(self):
        dy.renew_cg()
        p = dy.ParameterCollection().add_parameters((2, 3))
        f = dy.to_jax(dy.tanh(p * dy.inputVector([1, 2, 3]) + dy.inputVector([4, 5])))
        assert repr(f) == "JaxFunction: tanh {2} of 1 parameter and 2 inputs"


class TestOfAModel:
    def test_parameters(self):
        m = dy.ParameterCollection()
        W, E = m.add_parameters((3, 4), name="W"), m.add_lookup_parameters((9, 2, 3))
        assert repr(W) == str(W) == "Parameter /W"  # DyNet's
        assert repr(E) == str(E) == "LookupParameter /_0"
        assert repr(W.expr(False)) == "Constant /W"
        assert pretty(W) == "Parameter /W {3,4}"
        assert pretty(W.expr(False)) == "Constant /W {3,4}"
        assert pretty(E) == "LookupParameter /_0 9 rows of {2,3}"
        W.set_updated(False)
        assert pretty(W) == "Parameter /W {3,4}, not updated"

    def test_builders(self):
        m = dy.ParameterCollection()
        lstm = dy.VanillaLSTMBuilder(1, 4, 5, m, forget_bias=0.5)
        sizes = "layers=1, input_dim=4, hidden_dim=5"
        assert repr(lstm) == f"VanillaLSTMBuilder({sizes}, forget_bias=0.5)"
        trees = dy.NaryTreeLSTMBuilder(3, 1, 4, 5, m)
        assert repr(trees) == f"NaryTreeLSTMBuilder({sizes}, N=3)"
        birnn = dy.BiRNNBuilder(2, 4, 6, m, dy.GRUBuilder)
        assert repr(birnn) == (
            "BiRNNBuilder(num_layers=2, input_dim=4, hidden_dim=6, "
            "rnn_builder_factory=GRUBuilder)"
        )
        assert repr(dy.StandardSoftmaxBuilder(4, 10, m)) == (
            "StandardSoftmaxBuilder(input_dim=4, size=10)"
        )

    def test_builders_of_the_users(self):
        class Encoder(dy.GRUBuilder):
            def __init__(self, m, depth):
                super().__init__(depth, 4, 5, m)

        made = Encoder(dy.ParameterCollection(), 2)
        assert repr(made) == "Encoder(layers=2, input_dim=4, hidden_dim=5)"

    def test_builders_that_are_not_made_yet(self):
        """As a debugger shows them."""
        assert repr(object.__new__(dy.GRUBuilder)) == "GRUBuilder()"

    def test_birnn_of_given_builders(self):
        m = dy.ParameterCollection()
        pairs = [(dy.GRUBuilder(1, 4, 3, m), dy.GRUBuilder(1, 4, 3, m))]
        made = dy.BiRNNBuilder(None, None, None, m, None, pairs)
        assert "num_layers=1, input_dim=4, hidden_dim=6" in repr(made)
        assert repr(dy.BiRNNBuilder(None, None, None, m, None, [])) == "BiRNNBuilder()"

    def test_initialisers(self):
        glorot = dy.GlorotInitializer(gain=2)
        assert repr(glorot) == "GlorotInitializer(is_lookup=False, gain=2)"
        assert repr(dy.NormalInitializer(1, 4)) == "NormalInitializer(mean=1, var=4)"
        assert repr(dy.ConstInitializer(0.5)) == "ConstInitializer(c=0.5)"
        numbers = dy.NumpyInitializer(np.ones((2, 3)))
        assert repr(numbers) == "NumpyInitializer(array={2,3})"
        assert repr(dy.FromFileInitializer(b"a")) == "FromFileInitializer(fname=b'a')"


class TestOfAProgram:
    def test_exported(self):
        made = dy.export(lambda words: dy.ones(len(words)), words=dy.Ids(9, max_len=4))
        told = "Exported(words=Ids(9, max_len=4, min_len=1)): 4 programs"
        assert repr(made) == told
        assert repr(made._here) == "Served(words): 4 programs"


class TestOfATrainer:
    def test_by_default(self):
        m = dy.ParameterCollection()
        assert repr(dy.AdamTrainer(m)) == "AdamTrainer(learning_rate=0.001), 0 updates"

    def test_what_differs(self):
        trainer = dy.AdamTrainer(dy.ParameterCollection(), 0.002, eps=1e-6)
        trainer.set_clip_threshold(0)
        trainer.set_sparse_updates(False)
        trainer.exponential_moving_average(0.9)
        trainer.update()
        assert repr(trainer) == (
            "AdamTrainer(learning_rate=0.002, eps=1e-06, clip_threshold=0, "
            "sparse_updates=False, moving_average=0.9), 1 update"
        )

    def test_by_place_and_as_the_first_release_has_it(self):
        m = dy.ParameterCollection()
        trainer = dy.MomentumSGDTrainer(m, 0.5, 0.8, lazy_correct=True)
        told = "learning_rate=0.5, mom=0.8, lazy_correct=True"
        assert repr(trainer) == f"MomentumSGDTrainer({told}), 0 updates"
        program = "import dynetjax.dropin, dynet as dy; m = dy.Model(); "
        program += "print([dy.SimpleSGDTrainer(m, e0=0.5, edecay=0.25)])"
        command = [sys.executable, "-c", program]
        done = subprocess.run(command, capture_output=True, text=True)
        told = "learning_rate=0.5, edecay=0.25"
        assert done.stdout == f"[SimpleSGDTrainer({told}), 0 updates]\n"

    def test_the_rate_is_that_of_now(self):
        trainer = dy.SimpleSGDTrainer(dy.ParameterCollection(), learning_rate=0.5)
        trainer.learning_rate = 0.25
        assert repr(trainer) == "SimpleSGDTrainer(learning_rate=0.25), 0 updates"

    def test_of_optax(self):
        trainer = dy.OptaxTrainer(dy.ParameterCollection(), optax.adam(0.1))
        assert repr(trainer) == "OptaxTrainer(learning_rate=1, tx=chain), 0 updates"
        trainer.cumulative_moving_average()
        assert "moving_average='cumulative'" in repr(trainer)


def test_settings():
    params = dy.DynetParams()
    params.from_args(words=["program", "--dynet-seed", "7"])
    assert repr(params) == "DynetParams(seed=7)"


def test_a_shard():
    shard = parallel.shard([1, 2, 3])
    list(shard)
    assert repr(shard) == "Shard: 3 of 3 data, epoch 1"
