"""Names, lists, shapes and first values of what a collection makes."""

import gc

import numpy as np
import pytest

import dynetjax as dy


@pytest.fixture
def m():
    return dy.ParameterCollection()


class TestNames:
    def test_roots(self, m):
        assert m.name() == "/"
        assert dy.ParameterCollection(m).name() == "/"
        assert dy.Model is dy.ParameterCollection

    def test_numbers(self, m):
        named = [m.add_parameters(1, name="w") for _ in range(2)]
        unnamed = [m.add_parameters(1) for _ in range(2)]
        table = m.add_lookup_parameters((2, 1), name="w")
        names = [p.name() for p in (*named, *unnamed, table)]
        assert names == ["/w", "/w_1", "/_0", "/_1", "/w_2"]

    def test_subcollections(self, m):
        names = [m.add_subcollection(n).name() for n in (None, "", "w", "w")]
        assert names == ["/_0/", "/_1/", "/w/", "/w_1/"]
        nested = m.add_subcollection("a").add_subcollection("b")
        assert nested.add_parameters(1, name="x").name() == "/a/b/x"

    def test_failed_initializer_takes_a_number(self, m):
        with pytest.raises(RuntimeError):
            m.add_parameters((2, 3), init="identity")
        assert m.add_parameters(1).name() == "/_1"

    @pytest.mark.parametrize("name", ["a/b", "a_b"])
    def test_refused(self, m, name):
        with pytest.raises(RuntimeError, match="it has a / or a _ in it"):
            m.add_parameters(1, name=name)
        with pytest.raises(RuntimeError, match="name:"):
            m.add_subcollection(name)


class TestLists:
    def test_descendants_in_order_of_creation(self, m):
        child = m.add_subcollection()
        made = [m.add_parameters(1), child.add_parameters(2), m.add_parameters(3)]
        table = child.add_lookup_parameters((2, 3))
        assert m.parameters_list() == made
        assert child.parameters_list() == [made[1]]
        assert m.lookup_parameters_list() == [table]
        assert m.parameter_count() == 12
        assert child.parameter_count() == 8

    def test_parameters_outlive_their_collection(self, m):
        p = m.add_subcollection().add_parameters(2, init=3.0)
        del m
        gc.collect()
        assert p.as_array().tolist() == [3, 3]


class TestDim:
    @pytest.mark.parametrize(
        ("dim", "shape"),
        [(3, (3,)), ((2, 3), (2, 3)), ([2, 3], (2, 3)), ((2.7,), (2,)), ((), ())],
        ids=str,
    )
    def test_parameters(self, m, dim, shape):
        assert m.add_parameters(dim, init=0).shape() == shape

    @pytest.mark.parametrize(
        ("dim", "shape"),
        [(3, (3, 1)), ((3,), (3,)), ((4, 2), (4, 2)), ([4, 2, 3], (4, 2, 3))],
        ids=str,
    )
    def test_tables(self, m, dim, shape):
        assert m.add_lookup_parameters(dim, init=0).shape() == shape

    @pytest.mark.parametrize("dim", [2.5, np.zeros(2), "2"], ids=str)
    def test_wrong_type(self, m, dim):
        with pytest.raises(AssertionError, match="dim is no int, tuple or list"):
            m.add_parameters(dim)
        with pytest.raises(AssertionError, match="add_lookup_parameters: dim"):
            m.add_lookup_parameters(dim)

    def test_out_of_range(self, m):
        with pytest.raises(ValueError, match="dim is out of range"):
            m.add_parameters((1,) * 8)
        with pytest.raises(ValueError, match="dim is out of range"):
            m.add_lookup_parameters((2, -1))
        with pytest.raises(ValueError, match="there is no number of rows"):
            m.add_lookup_parameters(())


class TestInit:
    def test_array_counts_instead_of_dim(self, m):
        array = np.arange(6.0).reshape(2, 3)
        np.testing.assert_array_equal(m.add_parameters(1, init=array).as_array(), array)
        table = m.add_lookup_parameters(1, init=array)
        np.testing.assert_array_equal(table.as_array(), array)

    def test_from_numpy(self, m):
        array = np.arange(24.0).reshape(2, 3, 4)
        assert m.parameters_from_numpy(array).as_array().tolist() == array.tolist()
        table = m.lookup_parameters_from_numpy(array, "E")
        assert table.name() == "/E"
        assert table.as_array().tolist() == array.tolist()
        assert m.parameters_from_numpy([1.0]).as_array().tolist() == [1]

    def test_values_of_a_seed(self, m):
        """DyNet's values: the twister's draws, row by row for a table."""
        draws = np.random.RandomState(6)._bit_generator.random_raw(12) / 2**32
        dy.reset_random_seed(6)
        table = m.add_lookup_parameters((3, 2))
        W = m.add_parameters((2, 3), init="uniform", scale=2.0)
        bound = np.sqrt(6 / 5)
        rows = (draws[:6] * 2 - 1).reshape(3, 2) * bound
        np.testing.assert_allclose(table.as_array(), rows, rtol=1e-5)
        matrix = (draws[6:] * 4 - 2).reshape((2, 3), order="F")
        np.testing.assert_allclose(W.as_array(), matrix, rtol=1e-5, atol=1e-6)

    def test_identity_table(self, m):
        assert m.add_lookup_parameters((2, 2), init="identity").as_array()[0, 0] == 1

    def test_numpy_initializer_is_not_for_tables(self, m):
        with pytest.raises(ValueError, match="init is not for tables"):
            m.add_lookup_parameters((2, 2), init=dy.NumpyInitializer(np.zeros((2, 2))))

    def test_array_is_copied(self, m):
        array = np.zeros((2, 2), np.float32)
        p = m.parameters_from_numpy(array)
        array[:] = 1
        assert not p.as_array().any()


def test_device(m):
    assert m.add_parameters(1, device="CPU").shape() == (1,)
    with pytest.raises(RuntimeError, match="add_parameters: Invalid device name"):
        m.add_parameters(1, device="TPU:7")
    with pytest.raises(RuntimeError, match="add_lookup_parameters: Invalid device"):
        m.add_lookup_parameters((1, 1), device="TPU:7")


def test_parent_is_a_collection():
    with pytest.raises(TypeError, match="parent is no collection"):
        dy.ParameterCollection(3)


def test_weight_decay(m):
    assert m.get_weight_decay() == 0.0


def test_arrays_are_copied():
    """What becomes of an array that was given is nobody's business but the user's."""
    m = dy.ParameterCollection()
    for size in 5, 16, 64, 4096:
        array = np.zeros((size, 1), np.float32)
        made = [
            m.parameters_from_numpy(array),
            m.lookup_parameters_from_numpy(array),
            m.add_parameters((size, 1), init=array),
            m.add_parameters((size, 1), init=dy.NumpyInitializer(array)),
            m.add_parameters((size, 1)),
        ]
        made[-1].set_value(array)
        table = m.add_lookup_parameters((size, 1))
        table.init_from_array(array)
        array[:] = 1
        for p in [*made, table]:
            assert not p.as_array().any()
