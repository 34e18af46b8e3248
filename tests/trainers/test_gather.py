"""What an update reads: who takes part, and row gradients in known sizes."""

import jax.numpy as jnp
import numpy as np

from dynetjax.model.collection import ParameterCollection
from dynetjax.trainers.adam import adam
from dynetjax.trainers.blocks import BlockStates
from dynetjax.trainers.gather import Gatherer, with_gradient
from dynetjax.trainers.members import Census, Members


def add_rows(table, size, *rows):
    ids = np.full(size, len(table), np.int32)
    ids[: len(rows)] = rows
    table.storage.add_row_gradients(ids, jnp.ones((size, 2)))


class TestCensus:
    def test_members(self):
        m = ParameterCollection()
        census = Census(m, BlockStates(adam(0.9, 0.999, 1e-8)).arrange)
        assert census.members() == Members((), [], [], [])
        W, E = m.add_parameters(2), m.add_lookup_parameters((3, 2))
        assert census.members() == Members(((W.storage,),), [E.storage], [], [])
        W.set_updated(False)
        V = m.add_subcollection().add_parameters(2)
        expected = Members(((V.storage,),), [E.storage], [W.storage], [])
        assert census.members() == expected
        assert census.members() is census.members()
        E.set_updated(False)
        assert census.members().frozen_tables == [E.storage]
        assert with_gradient(census.members()) == []
        add_rows(E, 4, 1)
        assert with_gradient(census.members()) == [E.storage]


class TestSizes:
    def setup_method(self):
        m = ParameterCollection()
        self.tables = [m.add_lookup_parameters((3000, 2)) for _ in "ab"]
        self.members = Members((), [t.storage for t in self.tables], [], [])
        self.gatherer = Gatherer()

    def sizes(self, *parts):
        """The sizes that are chosen after such parts of the tables."""
        for table, part in zip(self.tables, parts, strict=True):
            table.storage.take_gradient()
            for size, *rows in part:
                add_rows(table, size, *rows)
        found = self.gatherer.gather(self.members).tables
        for table, gradient in zip(self.tables, found, strict=True):
            assert len(gradient.rows) == len(gradient.values)
            self.check(table.storage, gradient)
        return [len(gradient.rows) for gradient in found]

    def check(self, storage, gradient):
        total = np.zeros((3001, 2))
        rows = np.minimum(gradient.rows, 3000)
        np.add.at(total, rows, np.asarray(gradient.values))
        np.testing.assert_array_equal(total[:3000], storage.host_gradient())

    def test_one_part_as_it_is(self):
        assert self.sizes([(1024, 5, 5, 7)], [(64, 1)]) == [1024, 64]

    def test_several_parts_are_summed(self):
        assert self.sizes([(8, 5, 5), (8, 7)], [(64, 1)]) == [64, 64]

    def test_known_sizes_are_used_again(self):
        assert self.sizes([(1024, 5)], [(1024, 1)]) == [1024, 1024]
        assert self.sizes([(256, 5, 5)], [(1024, 1)]) == [1024, 1024]
        assert self.sizes([(1024, 5)], []) == [1024, 1024]
        assert self.sizes([], []) == [1024, 1024]

    def test_not_where_they_are_much_too_large(self):
        assert self.sizes([(16384, 5)], [(16384, 1)]) == [16384, 16384]
        assert self.sizes([(64, 5)], [(64, 1)]) == [64, 64]
        assert self.sizes([(64, 5)], [(64, 1)]) == [64, 64]
