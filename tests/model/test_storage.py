"""Identities, and the gradient of tables as a list of parts."""

import gc

import jax.numpy as jnp
import numpy as np
import pytest

from dynetjax.model.storage import DenseStorage, TableStorage, capacity_for


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
        for _ in range(600):
            E.add_row_gradients(*part(1, 2))
        assert len(E._parts) < 600
        assert E.host_gradient()[2].tolist() == [1200, 1200]

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
