"""What holds for every recurrent builder: states, mistakes, parameters, batches."""

import copy

import numpy as np
import pytest

import dynetjax as dy

from .golden import COPIES, fill_all, flat, x

BUILDERS = [
    dy.SimpleRNNBuilder,
    dy.GRUBuilder,
    dy.CoupledLSTMBuilder,
    dy.VanillaLSTMBuilder,
    dy.CompactVanillaLSTMBuilder,
    dy.SparseLSTMBuilder,
    dy.FastLSTMBuilder,
]
pytestmark = pytest.mark.parametrize("builder", BUILDERS, indirect=True)


@pytest.fixture
def builder(request):
    dy.renew_cg()
    made = request.param(2, 3, 2, dy.ParameterCollection())
    fill_all(made)
    return made


def values(states):
    return [flat(state.s()) for state in states]


def vectors(builder):
    """How many of them a state has."""
    return len(builder.initial_state().add_input(x(0)).s())


class TestStates:
    def test_root(self, builder):
        root = builder.initial_state()
        assert builder.initial_state() is root
        assert root.output() is None
        assert root.prev() is None
        assert root.h() == root.s() == ()
        assert root.b() is builder

    def test_one_input(self, builder):
        root = builder.initial_state()
        state = root.add_input(x(0))
        assert state.prev() is root
        assert state.h() == state.s()[-2:]
        assert state.output() is state.h()[-1] is state.output()

    def test_sequence(self, builder):
        """add_inputs and transduce do what add_input does, input by input."""
        xs = [x(t) for t in range(3)]
        state, expected = builder.initial_state(), []
        for one in xs:
            state = state.add_input(one)
            expected.append(state)
        states = builder.initial_state().add_inputs(iter(xs))
        np.testing.assert_allclose(
            values(states), values(expected), rtol=1e-5, atol=1e-6
        )
        outputs = builder.initial_state().transduce(iter(xs))
        found = [e.npvalue() for e in outputs]
        wanted = [s.output().npvalue() for s in expected]
        np.testing.assert_allclose(found, wanted, rtol=1e-5, atol=1e-6)
        assert builder.initial_state().add_inputs([]) == []
        assert builder.initial_state().transduce([]) == []

    def test_branches(self, builder):
        state = builder.initial_state().add_input(x(0))
        one, other = state.add_input(x(1)), state.add_input(x(2))
        again = state.add_input(x(1))
        np.testing.assert_array_equal(flat(one.s()), flat(again.s()))
        assert not np.allclose(flat(one.s()), flat(other.s()))

    def test_zero_state_is_no_state(self, builder):
        zeros = [dy.inputVector([0.0, 0.0]) for _ in range(vectors(builder))]
        found = builder.initial_state(zeros).add_input(x(0))
        expected = builder.initial_state().add_input(x(0))
        np.testing.assert_allclose(flat(found.s()), flat(expected.s()), atol=1e-6)

    def test_initial_vectors(self, builder):
        given = [[0.1, 0.2], [0.3, 0.4], [0.5, 0.6], [0.7, 0.8]][: vectors(builder)]
        state = builder.initial_state([dy.inputVector(v) for v in given])
        raw = builder.initial_state_from_raw_vectors(given)
        np.testing.assert_allclose(
            flat(state.s()), np.ravel(given), rtol=1e-5, atol=1e-6
        )
        np.testing.assert_allclose(flat(raw.s()), np.ravel(given), rtol=1e-5, atol=1e-6)
        assert state.output() is state.s()[-1]
        assert state.prev() is builder.initial_state()

    def test_set_h(self, builder):
        """The cells, if there are any, are those of the state itself."""
        outputs = [dy.inputVector([1.0, 2.0]) for _ in range(2)]
        state = builder.initial_state().add_input(x(0))
        builder.initial_state().add_input(x(1))
        assert state.set_h(outputs).s() == (*state.s()[:-2], *outputs)
        assert state.set_h(outputs).prev() is state
        assert state.set_h(outputs).output() is outputs[1]

    def test_set_s(self, builder):
        state = builder.initial_state().add_input(x(0))
        other = builder.initial_state().add_inputs([x(2), x(1)])[-1]
        found = state.set_s(other.s())
        assert found.s() == other.s()
        assert found.prev() is state
        one, two = found.add_input(x(2)), other.add_input(x(2))
        np.testing.assert_allclose(flat(one.s()), flat(two.s()), rtol=1e-5, atol=1e-6)

    @pytest.mark.parametrize("count", [0, 1, 3, 5])
    def test_wrong_count(self, builder, count):
        state = builder.initial_state().add_input(x(0))
        given = [dy.inputVector([1.0, 2.0])] * count
        with pytest.raises(ValueError, match="set_s: the number of vectors"):
            state.set_s(given)
        with pytest.raises(ValueError, match="set_h: the number of vectors"):
            state.set_h(given)
        with pytest.raises(ValueError, match="set_s"):
            builder.initial_state([])
        with pytest.raises(ValueError, match="set_h"):
            state.set_h()
        state.add_input(x(1)).output().npvalue()


class TestMistakes:
    def test_stale_state(self, builder):
        root = builder.initial_state()
        state = root.add_input(x(0))
        for renewed in range(2):
            dy.renew_cg()
            if renewed:
                builder.initial_state()
            for old in root, state:
                for use in old.h, old.s, old.set_h, old.set_s:
                    with pytest.raises(ValueError, match="the state is stale"):
                        use()
                with pytest.raises(ValueError, match="add_input: the state is stale"):
                    old.add_input(x(0))
                with pytest.raises(ValueError, match="add_inputs: the state is stale"):
                    state.add_inputs([])
                with pytest.raises(ValueError, match="transduce: the state is stale"):
                    old.transduce([])
            with pytest.raises(RuntimeError, match="stale"):
                state.output().npvalue()

    def test_wrong_input(self, builder):
        state = builder.initial_state()
        old = x(0)
        dy.renew_cg()
        state = builder.initial_state()
        with pytest.raises(ValueError, match="add_input: it is no Expression"):
            state.add_input(None)
        with pytest.raises(TypeError, match="add_input: it is no Expression"):
            state.add_input([1.0, 2.0, 3.0])
        with pytest.raises(ValueError, match="stale"):
            state.add_input(old)
        with pytest.raises(ValueError, match="1 number, input_dim is 3"):
            state.add_input(dy.inputVector([1.0]))
        with pytest.raises(ValueError, match="stale"):
            builder.initial_state([old] * vectors(builder))
        state.add_input(x(0)).output().npvalue()

    def test_wrong_arguments(self, builder):
        make, m = type(builder), dy.ParameterCollection()
        with pytest.raises(OverflowError, match="input_dim is negative"):
            make(1, -1, 2, m)
        with pytest.raises(TypeError, match="model is no collection"):
            make(1, 1, 2, None)
        with pytest.raises(TypeError, match="hidden_dim is not a number"):
            make(1, 1, "2", m)
        with pytest.raises(TypeError, match="missing"):
            make(1, 1, 2)

    def test_fractions_are_cut_off(self, builder):
        made = type(builder)(1.0, 3.9, 2.5, dy.ParameterCollection())
        assert made.spec[:3] == (1, 3, 2)

    def test_no_layers(self, builder):
        empty = type(builder)(0, 3, 2, dy.ParameterCollection())
        assert empty.get_parameters() == []
        with pytest.raises(ValueError, match="add_input: the builder has no layers"):
            empty.initial_state().add_input(x(0))
        with pytest.raises(ValueError, match="expressions: the builder has no layers"):
            empty.get_parameter_expressions()

    @pytest.mark.parametrize("make", COPIES)
    def test_copies(self, builder, make):
        """They compute the same, with parameters of their own collection."""
        wanted = builder.initial_state().add_input(x(0)).output().npvalue()
        model, again = make((builder.param_collection(), builder))
        owned = set(map(id, model.parameters_list()))
        assert all(id(p) in owned for layer in again.get_parameters() for p in layer)
        dy.renew_cg()
        found = again.initial_state().add_input(x(0)).output().npvalue()
        np.testing.assert_allclose(found, wanted, rtol=1e-5, atol=1e-6)
        model.parameters_list()[0].zero()
        dy.renew_cg()
        found = builder.initial_state().add_input(x(0)).output().npvalue()
        np.testing.assert_allclose(found, wanted, rtol=1e-5, atol=1e-6)

    def test_a_state_belongs_to_its_graph(self, builder):
        with pytest.raises(TypeError, match="RNNState: no copies and no pickles"):
            copy.deepcopy(builder.initial_state())
        with pytest.raises(TypeError, match="no shallow copies"):
            copy.copy(builder)


class TestParameters:
    def test_expressions(self, builder):
        with pytest.raises(ValueError, match="get_parameter_expressions: the state"):
            builder.get_parameter_expressions()
        builder.initial_state()
        layers = builder.get_parameter_expressions()
        if type(builder) is dy.SparseLSTMBuilder:  # tested with it
            return
        for expressions, parameters in zip(
            layers, builder.get_parameters(), strict=True
        ):
            for e, p in zip(expressions, parameters, strict=True):
                np.testing.assert_array_equal(e.npvalue(), p.as_array())

    def test_update_false(self, builder):
        """No gradient reaches the builder, and only the first call decides."""
        w = dy.ParameterCollection().add_parameters(3, init=0.5)
        state = builder.initial_state(update=False)
        assert builder.initial_state(update=True) is state
        output = state.add_input(w).output()
        dy.dot_product(output, output).backward()
        assert w.grad_as_array().any()
        for p in builder.param_collection().parameters_list():
            assert not p.grad_as_array().any()

    def test_spec(self, builder):
        again = type(builder).from_spec(builder.spec, dy.ParameterCollection())
        assert again.spec == builder.spec
        assert type(again) is type(builder)
        with pytest.raises(AttributeError):
            builder.spec = ()

    def test_second_builder(self, builder):
        m = dy.ParameterCollection()
        part = m.add_subcollection("part")
        names = [
            type(builder)(1, 2, 2, part).param_collection().name() for _ in range(2)
        ]
        assert names[0].startswith("/part/")
        assert names[1] == names[0][:-1] + "_1/"

    def test_whoami(self, builder):
        assert builder.whoami() == type(builder).__name__


class TestBatches:
    def test_batch_is_its_elements(self, builder):
        arrays = np.random.RandomState(0).randn(3, 3, 4)

        def run(pick):
            xs = [pick(arrays[t]) for t in range(3)]
            return builder.initial_state().add_inputs(xs)[-1].output()

        batched = run(lambda a: dy.inputTensor(a, batched=True)).npvalue()
        single = [
            run(lambda a, k=k: dy.inputVector(a[:, k])).npvalue() for k in range(4)
        ]
        np.testing.assert_allclose(batched, np.stack(single, axis=1), atol=1e-6)

    def test_columns_are_independent(self, builder):
        array = np.random.RandomState(0).randn(3, 4)
        states = builder.initial_state().add_inputs([dy.inputTensor(array)] * 2)
        batched = builder.initial_state().add_inputs(
            [dy.inputTensor(array, batched=True)] * 2
        )
        found = states[-1].output().npvalue()
        np.testing.assert_allclose(found, batched[-1].output().npvalue(), atol=1e-6)

    def test_unbatched_step(self, builder):
        batch = dy.inputTensor(np.ones((3, 2)), batched=True)
        state = builder.initial_state().add_input(x(0)).add_input(batch)
        assert state.add_input(x(1)).output().dim() == ((2,), 2)

    def test_unbatched_vectors(self, builder):
        """First vectors without a batch, and inputs with one."""
        given = [[0.1, 0.2], [0.3, 0.4], [0.5, 0.6], [0.7, 0.8]][: vectors(builder)]
        arrays = np.random.RandomState(0).randn(3, 4)
        state = builder.initial_state_from_raw_vectors(given)
        found = state.add_input(dy.inputTensor(arrays, batched=True)).output()
        for k in range(4):
            alone = builder.initial_state_from_raw_vectors(given)
            alone = alone.add_input(dy.inputVector(arrays[:, k])).output()
            np.testing.assert_allclose(
                found.npvalue()[:, k], alone.npvalue(), atol=1e-6
            )

    def test_column(self, builder):
        """A matrix of one column is a vector."""
        columns = [dy.inputTensor(np.cos(t + np.ones((3, 1)))) for t in range(2)]
        rows = [dy.inputVector(np.cos(t + np.ones(3))) for t in range(2)]
        found = builder.initial_state().add_inputs(columns)[-1]
        expected = builder.initial_state().add_inputs(rows)[-1]
        assert found.output().dim() == ((2,), 1)
        np.testing.assert_allclose(
            flat(found.s()), flat(expected.s()), rtol=1e-5, atol=1e-6
        )

    def test_input_that_is_a_parameter(self, builder):
        p = dy.ParameterCollection().parameters_from_numpy(np.cos(np.arange(3.0)))
        found = builder.initial_state().add_inputs([p, p])[-1]
        same = dy.inputVector(p.as_array())
        expected = builder.initial_state().add_inputs([same, same])[-1]
        np.testing.assert_allclose(
            flat(found.s()), flat(expected.s()), rtol=1e-5, atol=1e-6
        )


class TestGraph:
    def test_checkpoint(self, builder):
        """What the builder made after a mark is made again."""
        expected = flat(builder.initial_state().add_inputs([x(0), x(1)])[-1].s())
        dy.renew_cg()
        dy.cg_checkpoint()
        root = builder.initial_state()
        root.add_input(x(0)).output().npvalue()
        dy.cg_revert()
        assert builder.initial_state() is root
        found = flat(root.add_inputs([x(0), x(1)])[-1].s())
        np.testing.assert_allclose(found, expected, rtol=1e-5, atol=1e-6)
        assert builder.get_parameter_expressions()[0][0].npvalue().size

    def test_lengths_compile_nothing(self, builder):
        """Once some lengths and batches were seen; of sizes that no other test has."""
        size = 7 + BUILDERS.index(type(builder))
        builder = type(builder)(2, 5, size, dy.ParameterCollection())

        def train(length, batch):
            dy.renew_cg()
            ones = [
                dy.inputTensor(np.cos(t + np.ones((5, batch))), batched=True)
                for t in range(length)
            ]
            outputs = builder.initial_state().transduce(ones)
            loss = dy.sum_batches(dy.squared_norm(dy.esum(outputs)))
            value = loss.value()
            loss.backward()
            return value

        for length, batch in [(3, 2), (1, 1), (9, 3), (2, 1)] * 2:
            train(length, batch)
        before = dy.stats()
        for length, batch in [(4, 2), (7, 1), (5, 3), (8, 2), (6, 4)]:
            train(length, batch)
        after = dy.stats()
        assert after.compilations + after.loads == before.compilations + before.loads
