"""How much may be added to a collection while a saved object is made again."""

import numpy as np
import pytest

import dynetjax as dy
from dynetjax.io.text import Header
from dynetjax.model.collection import limited
from dynetjax.model.room import Room

MATCH = "load: m.data has too little for what is made for it"


@pytest.fixture
def m():
    return dy.ParameterCollection()


@pytest.fixture
def room():
    return Room("m.data", [Header(False, "/W", (2, 3), False, 0)])


class TestNumbers:
    def test_of_one(self, m, room):
        """Twice what the file has, and 64 MB in float32."""
        with limited(m, room):
            m.add_parameters((1 << 12, 1 << 12), 0)
            m.add_parameters(12, 0)
            with pytest.raises(RuntimeError, match=MATCH):
                m.add_parameters(1)

    @pytest.mark.parametrize("add", ["add_parameters", "add_lookup_parameters"])
    def test_told(self, m, room, add):
        """The parameter and what the file has."""
        part = m.add_subcollection("part").add_subcollection("inner")
        match = r"/part/inner/W \{40000,50000\}(.|\n)*1 parameters, 6 numbers"
        with limited(m, room), pytest.raises(RuntimeError, match=match):
            getattr(part, add)((40000, 50000), name="W")

    def test_of_arrays(self, m, room):
        """They are there already."""
        array = np.broadcast_to(np.float32(0), (1 << 12, 1 << 12))
        with limited(m, room):
            for _ in range(2):
                m.parameters_from_numpy(array)
            for _ in range(2):
                m.lookup_parameters_from_numpy(array)
        assert m.parameter_count() == 1 << 26


class TestParameters:
    @pytest.mark.parametrize("dim", [0, (0, 5)])
    def test_without_numbers(self, m, room, dim):
        """Four for each in the file, and 1000."""
        with limited(m, room):
            for _ in range(1004):
                m.add_parameters(dim, 0)
            with pytest.raises(RuntimeError, match=MATCH):
                m.add_parameters(dim, 0)

    def test_arrays(self, m, room):
        with limited(m, room):
            for _ in range(502):
                m.add_parameters(1, np.zeros(1))
                m.add_lookup_parameters(1, np.zeros((1, 1)))
            for add in m.add_parameters, m.add_lookup_parameters:
                with pytest.raises(RuntimeError, match=MATCH):
                    add(1, np.zeros((1, 1)))


class TestLimited:
    def test_this_collection_alone(self, m, room):
        with limited(m, room):
            dy.ParameterCollection().add_parameters((1 << 13, 1 << 12), 0)

    def test_until_the_end(self, m, room):
        part = m.add_subcollection()
        with limited(m, room), pytest.raises(RuntimeError, match=MATCH):
            part.add_parameters((1 << 13, 1 << 12))
        assert part.add_parameters((1 << 13, 1 << 12), 0).shape() == (1 << 13, 1 << 12)

    def test_nearest(self, m, room):
        """A file that is loaded within has room of its own, which ends with it."""
        large = Room("n.data", [Header(False, "/W", (1 << 25,), False, 0)])
        part = m.add_subcollection()
        with limited(m, room):
            with limited(part, large):
                part.add_parameters((1 << 13, 1 << 12), 0)
            with pytest.raises(RuntimeError, match=MATCH):
                part.add_parameters((1 << 13, 1 << 12), 0)
