"""LookupParameters: rows, batches of rows, and the whole table."""

import numpy as np
import pytest

import dynetjax as dy


@pytest.fixture(autouse=True)
def new_graph():
    dy.renew_cg()


@pytest.fixture
def E():
    values = np.arange(8.0).reshape(4, 2)
    return dy.ParameterCollection().lookup_parameters_from_numpy(values, "E")


def sum_of(e):
    return dy.dot_product(e, dy.inputVector([1.0, 1.0]))


class TestRows:
    @pytest.mark.parametrize("i", [2, np.int64(2)], ids=repr)
    def test_row(self, E, i):
        assert E[i].npvalue().tolist() == [4, 5]
        assert dy.lookup(E, i).npvalue().tolist() == [4, 5]
        assert E[True].npvalue().tolist() == [2, 3]
        assert dy.lookup(E).npvalue().tolist() == [0, 1]

    @pytest.mark.parametrize("ids", [[3, 1, 1], (3, 1, 1), np.array([3, 1, 1])])
    def test_batch(self, E, ids):
        expected = [[6, 2, 2], [7, 3, 3]]
        assert E.batch(ids).npvalue().tolist() == expected
        assert dy.lookup_batch(E, iter(ids)).npvalue().tolist() == expected

    def test_rows_of_two_dims(self):
        values = np.random.RandomState(0).randn(3, 2, 4)
        E = dy.ParameterCollection().lookup_parameters_from_numpy(values)
        assert E[1].dim() == ((2, 4), 1)
        np.testing.assert_allclose(E[1].npvalue(), values[1], rtol=1e-6)

    def test_gradient(self, E):
        (sum_of(E[1]) + sum_of(E[1]) + sum_of(E[3])).backward()
        assert E.grad_as_array().tolist() == [[0, 0], [2, 2], [0, 0], [1, 1]]
        assert E.row_grad_as_array(1).tolist() == [2, 2]
        assert E.rows_grad_as_array([1, 3]).tolist() == [[2, 2], [1, 1]]

    def test_without_update(self, E):
        (sum_of(dy.lookup(E, 1, update=False)) + sum_of(E[0])).backward()
        assert E.storage.touched().tolist() == [0]

    def test_iteration(self, E):
        assert [e.npvalue()[0] for e in E] == [0, 2, 4, 6]
        assert len(E) == 4

    @pytest.mark.parametrize(
        ("index", "error", "match"),
        [
            (-1, OverflowError, "the index is out of range"),
            (2**33, OverflowError, "the index is out of range"),
            (4, ValueError, "the index is out of range"),
            (1.0, TypeError, "the index is not an int"),
            ("1", TypeError, "the index is not an int"),
            (slice(1), TypeError, "the index is not an int"),
            ((1,), TypeError, "the index is not an int"),
        ],
        ids=repr,
    )
    def test_refused(self, E, index, error, match):
        with pytest.raises(error, match=match):
            E[index]
        with pytest.raises(error, match="lookup_batch: " + match):
            E.batch([0, index])
        with pytest.raises(error, match="set: " + match):
            E.batch([0, 1]).set([0, index])

    def test_refused_otherwise(self, E):
        with pytest.raises(ValueError, match="there is no index"):
            E.batch([])
        with pytest.raises(TypeError, match="the table is no LookupParameters"):
            dy.lookup(sum_of(E[0]), 0)

    def test_set(self, E):
        e, batch = E[0], E.batch([0, 1])
        e.set(2)
        batch.set([3, 2])
        assert e.npvalue().tolist() == [4, 5]
        assert batch.npvalue().tolist() == [[6, 4], [7, 5]]
        with pytest.raises(ValueError, match="expected 2"):
            batch.set([1, 2, 3])
        with pytest.raises(TypeError, match="set: the index is not an int"):
            e.set([1])


class TestWholeTable:
    def test_rows_come_last(self, E):
        assert E.dim() == ((2, 4), 1)
        assert E.shape() == (4, 2)
        assert E.npvalue().tolist() == E.as_array().T.tolist()
        assert E.expr() is E

    def test_gradient(self, E):
        x = dy.inputVector([1.0, 2.0, 3.0, 4.0])
        (sum_of(E * x) + sum_of(E[0])).backward()
        assert E.grad_as_array().tolist() == [[2, 2], [2, 2], [3, 3], [4, 4]]

    def test_in_every_graph(self, E):
        for _ in range(2):
            dy.renew_cg()
            assert E.npvalue().shape == (2, 4)

    def test_scalar_value(self, E):
        with pytest.raises(RuntimeError, match="more than one number"):
            E.scalar_value()


class TestArrays:
    def test_copies(self, E):
        E.as_array()[:] = 9
        E.row_as_array(0)[:] = 9
        assert E.as_array()[0].tolist() == [0, 1]
        assert E.as_array().flags.f_contiguous

    def test_some_rows(self, E):
        assert E.row_as_array(1).tolist() == [2, 3]
        assert E.rows_as_array([1, 0]).tolist() == [[2, 3], [0, 1]]
        for read in E.row_as_array, E.row_grad_as_array:
            with pytest.raises(IndexError, match="the index is out of range"):
                read(4)
        with pytest.raises(IndexError):
            E.rows_grad_as_array([0, 4])
        with pytest.raises(ValueError, match="the list of rows is empty"):
            E.rows_as_array([])

    def test_init_row(self, E):
        E.init_row(1, [8, 9])
        assert E.as_array()[:2].tolist() == [[0, 1], [8, 9]]
        assert E[1].npvalue().tolist() == [8, 9]
        with pytest.raises(ValueError, match="init_row: the length is not"):
            E.init_row(1, [1, 2, 3])
        with pytest.raises(IndexError, match="out of range"):
            E.init_row(4, [1, 2])
        with pytest.raises(OverflowError, match="out of range"):
            E.init_row(-1, [1, 2])
        with pytest.raises(TypeError):
            E.init_row(1, np.zeros((2, 2)))

    def test_init_row_of_two_dims(self):
        E = dy.ParameterCollection().add_lookup_parameters((2, 2, 3), init=0)
        E.init_row(1, range(6))
        assert E.row_as_array(1).tolist() == [[0, 2, 4], [1, 3, 5]]

    def test_init_from_array(self, E):
        E.init_from_array(np.ones((2, 2)))
        assert E.as_array().tolist() == [[1, 1], [1, 1], [4, 5], [6, 7]]
        for wrong in (5, 2), (4, 3):
            with pytest.raises(ValueError, match="the array does not fit /E"):
                E.init_from_array(np.zeros(wrong))

    def test_zero_keeps_gradients(self, E):
        sum_of(E[1]).backward()
        E.zero()
        assert not E.as_array().any()
        assert E.grad_as_array().any()

    def test_scale(self, E):
        sum_of(E[1]).backward()
        E.scale(2)
        E.scale_gradient(3)
        assert E.row_as_array(1).tolist() == [4, 6]
        assert E.row_grad_as_array(1).tolist() == [3, 3]

    def test_names(self, E):
        assert E.name() == "/E"
        assert str(E) == repr(E) == "LookupParameter /E"

    def test_set_updated(self, E):
        E.set_updated(False)
        assert not E.is_updated()
