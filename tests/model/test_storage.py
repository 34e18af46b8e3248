"""Identities, and the gradient of tables as a list of parts."""

import gc

import jax.numpy as jnp
import numpy as np
import pytest

import dynetjax as dy
from dynetjax.model.storage import (
    DenseStorage,
    TableStorage,
    aligned,
    capacity_for,
    copy_of,
    on_host,
)


def table(rows=5, size=2):
    return TableStorage("/E", np.arange(rows * size, dtype=float).reshape(rows, size))


def part(*rows, size=2, pad=0, past=5):
    ids = np.array([*rows, *[past] * pad], np.int32)
    values = np.full((len(ids), size), np.nan, np.float32)
    values[: len(rows)] = np.arange(1, len(rows) + 1)[:, None]
    return ids, jnp.asarray(values)


class TestIdent:
    def test_unique_and_recycled(self):
        a, b = table(), DenseStorage("/W", np.zeros(2))
        assert a.ident != b.ident
        freed = a.ident
        del a
        gc.collect()
        assert freed != DenseStorage("/W", np.zeros((5, 2))).ident
        assert freed != table(rows=6).ident
        others = [table() for _ in range(3)]
        assert freed in [other.ident for other in others]
        assert len({other.ident for other in others} | {b.ident}) == 4


class TestRowGradient:
    def test_one_part_is_used_as_it_is(self):
        E = table()
        rows, values = part(3, 1, pad=2)
        E.add_row_gradients(rows, values)
        assert E.touched().tolist() == [1, 3]
        assert E.row_gradient(E.row_capacity()).values is values

    def test_rows_are_summed(self):
        E = table()
        E.add_row_gradients(*part(3, 1, 3, pad=1))
        E.add_row_gradients(*part(1, pad=3))
        assert E.row_capacity() == capacity_for(2)
        rows, values = E.row_gradient(2)
        assert rows.tolist() == [1, 3]
        assert values.tolist() == [[3, 3], [4, 4]]

    def test_padded_to_capacity(self):
        E = table()
        E.add_row_gradients(*part(4, 0, 2))
        assert E.row_capacity() == 3
        rows, values = E.row_gradient(8)
        assert rows.tolist() == [0, 2, 4, 5, 5, 5, 5, 5]
        assert values[:, 0].tolist() == [2, 3, 1, 0, 0, 0, 0, 0]

    def test_one_part_of_the_right_size_stays(self):
        """Its rows may come repeatedly; another size is made by summing them."""
        E = table()
        rows, values = part(3, 1, 3, pad=1)
        E.add_row_gradients(rows, values)
        assert E.has_rows()
        assert E.part_size() == 4
        assert E.part(4).values is values
        rows, values = E.part(6)
        assert rows.tolist() == [1, 3, 5, 5, 5, 5]
        assert values[:, 0].tolist() == [2, 4, 0, 0, 0, 0]

    def test_several_parts_become_one(self):
        E = table()
        E.add_row_gradients(*part(3, 1, pad=1))
        E.add_row_gradients(*part(1))
        assert E.part_size() == capacity_for(2)
        rows, values = E.part(2)
        assert rows.tolist() == [1, 3]
        assert values[:, 0].tolist() == [3, 1]

    def test_no_part(self):
        assert not table().has_rows()
        assert table().row_capacity() == 0
        assert table().touched().tolist() == []

    def test_parts_do_not_pile_up(self):
        E = table()
        for _ in range(1200):
            E.add_row_gradients(*part(1, 2))
        assert len(E._parts) < 600
        assert E.host_gradient()[2].tolist() == [2400, 2400]

    def test_host_gradient(self):
        E = table()
        E.add_row_gradients(*part(3, 3, pad=1))
        E.gradient = jnp.ones((5, 2))
        expected = np.ones((5, 2))
        expected[3] += 3
        np.testing.assert_array_equal(E.host_gradient(), expected)

    def test_scale(self):
        E = table()
        E.add_row_gradients(*part(3))
        E.gradient = jnp.ones((5, 2))
        E.scale_gradient(0.5)
        assert E.host_gradient()[3].tolist() == [1, 1]

    def test_take(self):
        E = table()
        E.add_row_gradients(*part(3))
        now = E.gradient_now()
        assert E.has_gradient
        assert E.take_gradient() == now
        assert not E.has_gradient
        assert not E.host_gradient().any()

    def test_largest(self):
        """NaN counts most, and not at padding."""
        E = table()
        assert E.largest(E.gradient_now()) == 0
        rows, values = np.int32([3, 9]), jnp.array([[1.0, -4.0], [jnp.nan, 7.0]])
        E.add_row_gradients(rows, values)
        assert E.largest(E.gradient_now()) == 4
        E.gradient = jnp.full((5, 2), 5.0)
        assert E.largest(E.gradient_now()) == 5
        E.add_row_gradients(np.int32([9, 3]), values)
        assert np.isnan(E.largest(E.gradient_now()))

    def test_not_of_a_parameter(self):
        with pytest.raises(AssertionError, match="/W is no table"):
            DenseStorage("/W", np.zeros(2)).add_row_gradients(*part(0))


class TestEdit:
    def test_rows_are_sent_once(self):
        E = table()
        before = E.values
        E.edit()[2] = 7
        assert E.host_values()[2].tolist() == [7, 7]
        assert before[2].tolist() == [4, 5]
        assert E.values[2].tolist() == [7, 7]

    def test_assignment_wins(self):
        E = table()
        E.edit()[2] = 7
        E.values = jnp.zeros((5, 2))
        assert not E.host_values().any()


@pytest.mark.parametrize(("count", "capacity"), [(0, 0), (1, 64), (64, 64), (65, 256)])
def test_capacity(count, capacity):
    assert capacity_for(count) == capacity


class TestGradientsOfNumPy:
    """They stay arrays of NumPy, and are added up like others."""

    def test_table(self):
        E = table(5, 2)
        rows = np.array([3, 1, 9], np.int32)
        values = np.array([[1, 2], [3, 4], [np.nan, 0]], np.float32)
        E.add_row_gradients(rows, values)
        E.add_row_gradients(rows[:1], values[1:2])
        E.scale_gradient(2)
        found = E.row_gradient(E.row_capacity())
        assert isinstance(found.values, np.ndarray)
        assert len(found.rows) == len(found.values) == 64
        assert found.rows[:2].tolist() == [1, 3]
        assert found.values[:2].tolist() == [[6, 8], [8, 12]]
        assert (found.rows[2:] == 5).all()
        assert not found.values[2:].any()
        assert E.largest(E.gradient_now()) == 12

    def test_one_part_gets_one_of_few_sizes(self):
        """The XLA program that reads it would be compiled for any other."""
        E = table(5, 2)
        E.add_row_gradients(np.array([3, 1], np.int32), np.ones((2, 2), np.float32))
        assert E.part_size() == 64
        assert len(E.part(64).rows) == 64

    def test_parameter(self):
        W = DenseStorage("/W", np.zeros(2))
        W.gradient = np.array([1, -3], np.float32)
        W.scale_gradient(2)
        assert W.gradient.tolist() == [2, -6]
        assert isinstance(W.gradient, np.ndarray)
        assert W.largest(W.gradient) == 6

    def test_scaled_to_no_number(self):
        """Without a warning, which tests would take for an error."""
        W, E = DenseStorage("/W", np.zeros(2)), table()
        W.gradient = np.array([0, 1], np.float32)
        E.add_row_gradients(np.array([1], np.int32), np.zeros((1, 2), np.float32))
        W.scale_gradient(np.inf)
        E.scale_gradient(np.inf)
        np.testing.assert_array_equal(W.host_gradient(), [np.nan, np.inf])
        np.testing.assert_array_equal(E.host_gradient()[:2], [[0, 0], [np.nan] * 2])


class TestWhereValuesAre:
    def test_both_kinds_are_the_same(self):
        W = DenseStorage("/W", np.arange(3.0))
        assert W.host_values() is W.host_values()
        assert W.values is W.values
        for values in np.full(3, 2, np.float32), jnp.full(3, 5.0):
            W.values = values
            assert W.values.tolist() == W.host_values().tolist() == values.tolist()

    def test_a_table_moves(self):
        E = table(3, 2)
        for _ in range(2):
            E.edit()[1] = 7
            assert E.values.tolist() == [[0, 1], [7, 7], [4, 5]]
            array, factor = E.stored_on_host()
            assert factor == 1
            array[1] = 8
            E.wrote(array, 1.0)
            assert E.host_rows([1]).tolist() == [[8, 8]]
            assert E.values.tolist() == [[0, 1], [8, 8], [4, 5]]

    def test_what_is_set_or_read_from_a_file_waits_on_the_host(self, tmp_path):
        m = dy.ParameterCollection()
        W, E = m.add_parameters(2, init=3), m.add_lookup_parameters((2, 1), init=4)
        several = [W.storage, E.storage]
        m.save(tmp_path / "model")
        for change, w, e in (
            (lambda: m.populate(tmp_path / "model"), [3, 3], [[4], [4]]),
            (lambda: (W.set_value([1, 2]), E.zero()), [1, 2], [[0], [0]]),
        ):
            assert not any(on_host(storage.values) for storage in several)
            change()
            E.scale(2)
            assert all(on_host(storage.present) for storage in several)
            assert W.as_array().tolist() == w
            assert E.as_array().tolist() == [[2 * n for n in row] for row in e]

    def test_a_table_that_decays(self):
        """Its factor is taken in where it is small."""
        E = table(3, 2)
        E.start_to_decay()
        for k in range(1, 5):
            array, factor = E.stored_on_host()
            E.wrote(array, factor * 0.5)
            expected = np.arange(6).reshape(3, 2) / 2**k
            assert E.host_rows([0, 1, 2]).tolist() == expected.tolist()
            assert E.stored_on_host()[1] == [1, 0.5, 0.25, 1, 0.5][k]
        array, factor = E.stored
        assert (np.asarray(array) * np.asarray(factor)).tolist() == expected.tolist()
        assert E.values.tolist() == E.host_values().tolist() == expected.tolist()


class TestWhereArraysBegin:
    """At a line of the cache, before and after updates."""

    @staticmethod
    def starts(arrays):
        return {a.__array_interface__["data"][0] % 64 for a in arrays}

    def test_new_ones(self):
        shapes = [(3, 5), (), (16,), (2, 2, 2)]
        arrays = [*map(aligned, shapes)]
        assert [a.shape for a in arrays] == shapes
        assert self.starts(arrays) == {0}

    def test_copies(self):
        given = np.arange(9.0)[1:].reshape(2, 4)
        copy = copy_of(given.T)
        given[:] = 0
        np.testing.assert_array_equal(copy, np.arange(1.0, 9).reshape(2, 4).T)
        assert self.starts([copy]) == {0}
        assert copy.dtype == np.float32

    def test_parameters(self, natively):
        m = dy.ParameterCollection()
        ps = [m.add_parameters(shape) for shape in [(3, 5), 7, (2, 3)]]
        trainer = dy.AdamTrainer(m)
        for _ in range(2):
            assert self.starts([p.storage.host_values() for p in ps]) == {0}
            dy.renew_cg()
            dy.esum([dy.squared_norm(p) for p in ps]).backward()
            trainer.update()
