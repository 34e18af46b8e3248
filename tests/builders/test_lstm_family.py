"""What holds for every LSTM builder: states, batches, dropout, errors."""

import copy

import numpy as np
import pytest

import dynetjax as dy

from .golden import fill_all, flat, x

BUILDERS = [dy.CoupledLSTMBuilder, dy.VanillaLSTMBuilder]
pytestmark = pytest.mark.parametrize("builder", BUILDERS, indirect=True)


@pytest.fixture
def builder(request):
    dy.renew_cg()
    made = request.param(2, 3, 2, dy.ParameterCollection())
    fill_all(made)
    return made


def values(states):
    return [flat(state.s()) for state in states]


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
        assert len(state.s()) == 4
        assert state.h() == state.s()[2:]
        assert state.output() is state.h()[-1] is state.output()

    def test_sequence(self, builder):
        """add_inputs and transduce do what add_input does, input by input."""
        xs = [x(t) for t in range(3)]
        state, expected = builder.initial_state(), []
        for one in xs:
            state = state.add_input(one)
            expected.append(state)
        states = builder.initial_state().add_inputs(iter(xs))
        np.testing.assert_allclose(values(states), values(expected), rtol=1e-6)
        outputs = builder.initial_state().transduce(iter(xs))
        found = [e.npvalue() for e in outputs]
        np.testing.assert_allclose(found, [s.output().npvalue() for s in expected])
        assert builder.initial_state().add_inputs([]) == []
        assert builder.initial_state().transduce([]) == []

    def test_branches(self, builder):
        state = builder.initial_state().add_input(x(0))
        one, other = state.add_input(x(1)), state.add_input(x(2))
        again = state.add_input(x(1))
        np.testing.assert_array_equal(flat(one.s()), flat(again.s()))
        assert not np.allclose(flat(one.s()), flat(other.s()))

    def test_zero_state_is_no_state(self, builder):
        zeros = [dy.inputVector([0.0, 0.0]) for _ in range(4)]
        found = builder.initial_state(zeros).add_input(x(0))
        expected = builder.initial_state().add_input(x(0))
        np.testing.assert_allclose(flat(found.s()), flat(expected.s()), atol=1e-6)

    def test_initial_vectors(self, builder):
        vectors = [[0.1, 0.2], [0.3, 0.4], [0.5, 0.6], [0.7, 0.8]]
        state = builder.initial_state([dy.inputVector(v) for v in vectors])
        raw = builder.initial_state_from_raw_vectors(vectors)
        np.testing.assert_allclose(flat(state.s()), np.ravel(vectors), rtol=1e-6)
        np.testing.assert_allclose(flat(raw.s()), np.ravel(vectors), rtol=1e-6)
        assert state.output() is state.s()[-1]
        assert state.prev() is builder.initial_state()

    def test_cells_only(self, builder):
        """The outputs are those of the state itself; zeros before any input."""
        cells = [dy.inputVector([1.0, 2.0]) for _ in range(2)]
        state = builder.initial_state().add_input(x(0))
        builder.initial_state().add_input(x(1))
        assert state.set_s(cells).s() == (*cells, *state.h())
        from_root = builder.initial_state(cells)
        assert flat(from_root.h()).tolist() == [0, 0, 0, 0]

    def test_set_h(self, builder):
        outputs = [dy.inputVector([1.0, 2.0]) for _ in range(2)]
        state = builder.initial_state().add_input(x(0))
        builder.initial_state().add_input(x(1))
        assert state.set_h(outputs).s() == (*state.s()[:2], *outputs)
        assert state.set_h(outputs).prev() is state
        from_root = builder.initial_state().set_h(outputs)
        assert flat(from_root.s()[:2]).tolist() == [0, 0, 0, 0]

    @pytest.mark.parametrize("count", [0, 1, 3, 5])
    def test_wrong_count(self, builder, count):
        state = builder.initial_state().add_input(x(0))
        vectors = [dy.inputVector([1.0, 2.0])] * count
        with pytest.raises(ValueError, match="set_s: the number of vectors"):
            state.set_s(vectors)
        with pytest.raises(ValueError, match="set_h: the number of vectors"):
            state.set_h(vectors)
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
        with pytest.raises(ValueError, match="affine_transform"):
            state.add_input(dy.inputVector([1.0]))
        with pytest.raises(ValueError, match="stale"):
            builder.initial_state([old] * 4)
        state.add_input(x(0)).output().npvalue()

    def test_wrong_arguments(self, builder):
        make, m = type(builder), dy.ParameterCollection()
        with pytest.raises(OverflowError, match="input_dim is negative"):
            make(1, -1, 2, m)
        with pytest.raises(TypeError, match="model is no collection"):
            make(1, 1, 2, None)
        with pytest.raises(TypeError):
            make(1, 1, 2)

    def test_no_layers(self, builder):
        empty = type(builder)(0, 3, 2, dy.ParameterCollection())
        assert empty.get_parameters() == []
        with pytest.raises(ValueError, match="add_input: the builder has no layers"):
            empty.initial_state().add_input(x(0))
        with pytest.raises(ValueError, match="expressions: the builder has no layers"):
            empty.get_parameter_expressions()

    def test_no_copies(self, builder):
        for thing in builder, builder.initial_state():
            with pytest.raises(TypeError, match="no copies"):
                copy.deepcopy(thing)


class TestParameters:
    def test_expressions(self, builder):
        with pytest.raises(ValueError, match="get_parameter_expressions: the state"):
            builder.get_parameter_expressions()
        builder.initial_state()
        layers = builder.get_parameter_expressions()
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
        names = [type(builder)(1, 2, 2, m).param_collection().name() for _ in range(2)]
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


class TestDropout:
    def test_off(self, builder):
        expected = flat(builder.initial_state().add_input(x(0)).s())
        builder.set_dropout(0.5)
        builder.disable_dropout()
        found = flat(builder.initial_state().add_input(x(0)).s())
        np.testing.assert_allclose(found, expected, rtol=1e-6)

    def test_masks_last_as_long_as_the_graph(self, builder):
        """All sequences of a graph share the masks; the next graph has others."""
        builder.set_dropout(0.5)
        seen = set()
        for _ in range(12):
            dy.renew_cg()
            runs = [
                flat(builder.initial_state().add_inputs([x(0), x(1)])[-1].s())
                for _ in range(2)
            ]
            np.testing.assert_allclose(runs[0], runs[1], atol=1e-6)
            seen.add(tuple(np.round(runs[0], 4)))
        assert len(seen) > 1

    def test_input_masks(self, builder):
        """Every run is one of those with some inputs dropped, the others doubled."""
        one = type(builder)(1, 3, 2, dy.ParameterCollection())
        fill_all(one)
        vector = np.array([0.3, -0.5, 0.9])
        possible = [
            flat(one.initial_state().add_input(dy.inputVector(2 * vector * bits)).s())
            for bits in np.ndindex(2, 2, 2)
        ]
        one.set_dropouts(0.5, 0.0)
        for _ in range(10):
            dy.renew_cg()
            found = flat(one.initial_state().add_input(dy.inputVector(vector)).s())
            assert min(np.abs(found - p).max() for p in possible) < 1e-6

    def test_elements_of_a_batch_differ(self, builder):
        builder.set_dropout(0.5)
        batch = dy.inputTensor(np.ones((3, 16)), batched=True)
        output = builder.initial_state().add_input(batch).output().npvalue()
        assert len({tuple(row) for row in np.round(output.T, 5)}) > 1

    def test_shared_masks(self, builder):
        builder.set_dropout(0.5)
        state = builder.initial_state()
        builder.set_dropout_masks(batch_size=1)
        batch = dy.inputTensor(np.ones((3, 16)), batched=True)
        output = state.add_input(batch).output().npvalue()
        np.testing.assert_allclose(output, output[:, :1].repeat(16, 1), rtol=1e-6)

    def test_other_batch_size(self, builder):
        builder.set_dropout(0.5)
        for size in 2, 3, 1:
            batch = dy.inputTensor(np.ones((3, size)), batched=True)
            output = builder.initial_state().add_input(batch).output()
            assert output.npvalue().size == 2 * size

    def test_masks_need_a_graph(self, builder):
        with pytest.raises(ValueError, match="set_dropout_masks: the state is stale"):
            builder.set_dropout_masks()

    @pytest.mark.parametrize("rate", [-0.1, 1, 1.5, np.nan])
    def test_rate_out_of_range(self, builder, rate):
        with pytest.raises(ValueError, match="set_dropout: the rate is out"):
            builder.set_dropout(rate)
        with pytest.raises(ValueError, match="set_dropouts: the rate is out"):
            builder.set_dropouts(0.5, rate)

    def test_rate_is_a_number(self, builder):
        with pytest.raises(TypeError, match="set_dropout: p is not a number"):
            builder.set_dropout("0.5")
