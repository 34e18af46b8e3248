"""Collections, parameters and tables: saved, populated, loaded by their keys."""

import pathlib
from itertools import chain

import numpy as np
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

import dynetjax as dy

FILES = pathlib.Path(__file__).parent.parent / "data" / "files"


@pytest.fixture
def m():
    return dy.ParameterCollection()


@pytest.fixture
def file(tmp_path):
    return str(tmp_path / "m")


def text(path):
    return pathlib.Path(path).read_text()


def everything(collection):
    """Names, values and gradients, to compare."""
    things = collection.parameters_list() + collection.lookup_parameters_list()
    return [
        (t.name(), t.as_array().tolist(), t.grad_as_array().tolist()) for t in things
    ]


def small_model():
    """A matrix, a vector in a part of the model, a table."""
    m = dy.ParameterCollection()
    W = m.parameters_from_numpy(np.arange(1.0, 7.0).reshape(2, 3), "W")
    b = m.add_subcollection("part").parameters_from_numpy(np.array([0.5, -1]), "b")
    E = m.lookup_parameters_from_numpy(np.arange(8.0).reshape(4, 2), "E")
    return m, W, b, E


HEADERS = [
    "#Parameter# /W {2,3} 97 ZERO_GRAD",
    "#Parameter# /part/b {2} 33 ZERO_GRAD",
    "#LookupParameter# /E {2,4} 129 ZERO_GRAD",
]


def headers(path):
    return [line for line in text(path).splitlines() if line.startswith("#")]


class TestSave:
    def test_text(self, file):
        """Column by column, parameters first; nothing is returned."""
        m, *_ = small_model()
        assert m.save(file) is None
        assert headers(file) == HEADERS
        lines = text(file).splitlines()
        assert lines[1].split() == [f"{x:+.8e}" for x in (1, 4, 2, 5, 3, 6)]
        assert lines[5].split() == [f"{x:+.8e}" for x in range(8)]

    def test_rows_that_are_matrices(self, m, file):
        array = np.arange(12.0).reshape(2, 3, 2)
        m.lookup_parameters_from_numpy(array).save(file)
        numbers = np.array(text(file).splitlines()[1].split(), float)
        rows = [row.ravel(order="F") for row in array]
        assert headers(file) == ["#LookupParameter# /_0 {3,2,2} 193 ZERO_GRAD"]
        assert numbers.tolist() == np.concatenate(rows).tolist()

    def test_part(self, file):
        m, *_ = small_model()
        part = m.add_subcollection("part")
        part.add_subcollection().add_parameters(1, name="x")
        part.save(file)
        part.save(file, "/key", append=True)
        part.write_to_textfile(file, key="/key/", append=True)
        names = [line.split()[1] for line in headers(file)]
        assert names == ["/part_1/_0/x", "/key/_0/x", "/key/_0/x"]

    def test_single_ones(self, file):
        _, W, _, E = small_model()
        W.save(file)
        E.save(file, "table", append=True)
        W.write_to_textfile(file, "/V", append=True)
        E.write_to_textfile(file, append=True)
        names = [line.split()[1] for line in headers(file)]
        assert names == ["/W", "table", "/V", "/E"]

    def test_gradients(self, m, file):
        """Recorded from DyNet: FULL_GRAD where a backward has been."""
        W = m.parameters_from_numpy(np.arange(6.0).reshape(2, 3), name="W")
        E = m.lookup_parameters_from_numpy(np.arange(8.0).reshape(4, 2), name="E")
        (dy.squared_norm(W) + dy.squared_norm(E[1])).backward()
        m.save(file)
        assert text(file) == text(FILES / "gradients.model")

    def test_scalar(self, m, file):
        m.add_parameters((), init=3, name="s").save(file)
        assert text(file) == "#Parameter# /s {} 17 ZERO_GRAD\n+3.00000000e+00 \n"
        assert m.load_param(file, "/s").as_array() == 3

    def test_decayed(self, m, file):
        """What is seen is saved, not what is stored with a factor."""
        E = m.lookup_parameters_from_numpy(np.ones((3, 1)))
        m.set_weight_decay(0.5)
        trainer = dy.SimpleSGDTrainer(m, learning_rate=0)
        dy.sum_elems(E[0]).backward()
        trainer.update()
        m.save(file)
        assert text(file).splitlines()[1] == "+5.00000000e-01 " * 3

    def test_not_finite(self, m, file):
        m.parameters_from_numpy(np.array([np.nan, 1, np.inf]), "W")
        m.parameters_from_numpy(np.array([1.0]), "b")
        message = r"not finite(.|\n)*got:      /W\n"
        with pytest.warns(RuntimeWarning, match=message) as caught:
            m.save(file)
        assert caught[0].filename == __file__
        lines = text(file).splitlines()
        assert lines[:2] == [
            "#Parameter# /W {3} 27 ZERO_GRAD",
            "+nan +1.00000000e+00 +inf ",
        ]
        assert m.load_param(file, "/b").as_array() == 1
        with pytest.raises(RuntimeError, match=r"bad values of /W in .*m\n"):
            m.load_param(file, "/W")

    @pytest.mark.parametrize("key", ["/", "a b", "/a#"])
    def test_bad_key(self, file, key):
        m, W, _, E = small_model()
        for thing in m, W, E:
            with pytest.raises(ValueError, match="save: the key will not do"):
                thing.save(file, key)
        assert not pathlib.Path(file).exists()

    def test_key_of_a_collection_starts_with_a_slash(self, file):
        m, W, *_ = small_model()
        with pytest.raises(ValueError, match="save: the key will not do"):
            m.save(file, "key")
        W.save(file, "key")

    def test_key_where_a_name_is_not_under_the_collection(self, m, file):
        m.parameters_from_numpy(np.ones(1), "a").save(file)
        part = m.add_subcollection("a-long-name")
        part.load_param(file, "/a")
        with pytest.raises(IndexError, match="save: /a is not under /a-long-name/"):
            part.save(file, "/key")

    def test_unwritable(self, tmp_path, m):
        p = m.add_parameters(1)
        for thing in m, p:
            with pytest.raises(RuntimeError, match=r"save: cannot write .*no/m"):
                thing.save(str(tmp_path / "no" / "m"))
            with pytest.raises(AttributeError, match="the name of the file is no str"):
                thing.save(None)

    def test_path(self, tmp_path):
        m, *_ = small_model()
        m.save(tmp_path / "m")
        m.populate(tmp_path / "m")


class TestPopulate:
    @pytest.mark.parametrize("name", ["dense", "nested"])
    def test_file_of_dynet(self, m, file, name):
        """Its own values come out as the same text, whatever the names."""
        shapes = {
            "dense": [3, (2, 3), (2, 2, 2), 4],
            "nested": [2, (2, 2), (2, 2), 3],
        }
        for shape in shapes[name]:
            m.add_parameters(shape)
        if name == "nested":
            m.add_lookup_parameters((2, 3))
        assert m.populate(str(FILES / f"{name}.model")) is None
        m.save(file)
        ours, theirs = text(file).splitlines(), text(FILES / f"{name}.model")
        assert ours[1::2] == theirs.splitlines()[1::2]

    @pytest.mark.parametrize("key", ["/second", "/second/"])
    def test_key(self, m, file, key):
        W, E = m.add_parameters((2, 2)), m.add_lookup_parameters((3, 2))
        m.populate_from_textfile(str(FILES / "two_keys.model"), key)
        lines = text(FILES / "two_keys.model").splitlines()
        expected = np.array(" ".join(lines[5::2]).split(), np.float32)
        found = np.concatenate([W.as_array().ravel(order="F"), E.as_array().ravel()])
        assert found.tolist() == expected.tolist()

    def test_gradients(self, m, file):
        """Both the numbers and that there is one: saved again, the same file."""
        path = str(FILES / "gradients.model")
        m.add_parameters((2, 3), name="W")
        E = m.add_lookup_parameters((4, 2), name="E")
        m.populate(path)
        assert E.row_grad_as_array(1).tolist() == [4, 6]
        m.save(file)
        assert text(file) == text(path)
        dy.sum_elems(E[1]).backward()
        assert E.grad_as_array().tolist() == [[0, 0], [5, 7], [0, 0], [0, 0]]

    def test_gradients_are_used_and_cleared(self, m):
        W, E = m.add_parameters((2, 3)), m.add_lookup_parameters((4, 2))
        m.populate(str(FILES / "gradients.model"))
        trainer = dy.SimpleSGDTrainer(m, learning_rate=0.5)
        trainer.set_clip_threshold(0)
        trainer.update()
        assert not W.as_array().any()
        assert E.row_as_array(1).tolist() == [0, 0]
        assert E.row_as_array(2).tolist() == [4, 5]
        assert not E.grad_as_array().any()

    def test_no_gradient_clears_it(self, file):
        m, W, b, E = small_model()
        m.save(file)
        for thing, key in (W, "/W"), (E, "/E"):
            thing.populate(str(FILES / "gradients.model"), key)
        m.populate(file)
        assert not any(p.grad_as_array().any() for p in (W, b, E))
        m.save(file)
        assert headers(file) == HEADERS

    def test_graph_sees_it(self, file):
        m, W, *_ = small_model()
        m.save(file)
        W.zero()
        m.populate(file)
        assert dy.sum_elems(W).value() == 21

    @pytest.mark.parametrize("tables_first", [False, True])
    @settings(
        deadline=None,
        max_examples=20,
        suppress_health_check=[HealthCheck.function_scoped_fixture],
    )
    @given(data=st.data())
    def test_round_trip(self, file, tables_first, data):
        """Whatever the shapes, and whichever kind comes first in the file."""
        shape = st.lists(st.integers(1, 3), max_size=3).map(tuple)
        dense = data.draw(st.lists(shape, max_size=3))
        tables = data.draw(st.lists(shape.map(lambda s: (2, *s)), max_size=3))
        rng = np.random.default_rng(data.draw(st.integers(0, 99)))
        m, other = dy.ParameterCollection(), dy.ParameterCollection()
        for s in dense:
            m.parameters_from_numpy(rng.standard_normal(s))
            other.add_parameters(s, init=0)
        for s in tables:
            m.lookup_parameters_from_numpy(rng.standard_normal(s))
            other.add_lookup_parameters(s, init=0)
        pathlib.Path(file).write_text("")
        lists = [m.parameters_list(), m.lookup_parameters_list()]
        for thing in chain(*(lists[::-1] if tables_first else lists)):
            thing.save(file, append=True)
        other.populate(file)
        assert everything(other) == everything(m)


class TestByKey:
    def test_populate(self, m):
        path = str(FILES / "nested.model")
        W, E = m.add_parameters((2, 2)), m.add_lookup_parameters((2, 3))
        W.populate(path, "/side_1/W")
        E.populate_from_textfile(path, "/side_1/inner/E")
        loaded = (
            m.load_param(path, "/side_1/W"),
            m.load_lookup_param(path, "/side_1/inner/E"),
        )
        lines = text(path).splitlines()
        for thing, line in (W, 5), (E, 9), (loaded[0], 5), (loaded[1], 9):
            numbers = np.array(lines[line].split(), np.float32)
            order = "F" if line == 5 else "C"
            assert thing.as_array().ravel(order=order).tolist() == numbers.tolist()

    def test_first_of_several(self, m, file):
        for n in range(2):
            m.parameters_from_numpy(np.full(1, n), "W").save(file, "/W", append=n > 0)
        assert m.load_param(file, "/W").as_array() == 0

    def test_name_is_the_key(self, m, file):
        """Even in another collection, and if it is taken; a number is passed over."""
        small_model()[0].save(file)
        part = m.add_subcollection("sub")
        first, second = part.load_param(file, "/W"), part.load_param(file, "/W")
        table = part.load_lookup_param(file, "/E")
        assert [p.name() for p in (first, second, table)] == ["/W", "/W", "/E"]
        assert part.add_parameters(1).name() == "/sub/_3"
        assert m.parameters_list()[:2] == [first, second]
        assert m.lookup_parameters_list() == [table]

    def test_draws(self, m, file):
        """As many as there are elements, as in DyNet."""
        small_model()[0].save(file)
        dy.reset_random_seed(3)
        m.add_parameters((2, 3)), m.add_lookup_parameters((4, 2))
        expected = m.add_parameters(5).as_array()
        dy.reset_random_seed(3)
        m.load_param(file, "/W"), m.load_lookup_param(file, "/E")
        assert m.add_parameters(5).as_array().tolist() == expected.tolist()

    def test_gradient(self, m):
        path = str(FILES / "gradients.model")
        assert m.load_param(path, "/W").grad_as_array()[1].tolist() == [6, 8, 10]
        E = m.load_lookup_param(path, "/E")
        assert E.row_grad_as_array(1).tolist() == [4, 6]


@pytest.mark.parametrize("shape", [(0, 2), (3, 0), (3,), (2, 2, 2)], ids=str)
def test_gradients_of_tables_of_any_shape(m, file, shape):
    numbers = [f"{n % 3:+.8e} " for n in range(int(np.prod(shape)))]
    dims = ",".join(map(str, (*shape[1:], shape[0])))
    size = 2 * (16 * len(numbers) + 1)
    header = f"#LookupParameter# /E {{{dims}}} {size} FULL_GRAD\n"
    whole = header + 2 * ("".join(numbers) + "\n")
    pathlib.Path(file).write_text(whole)
    E = m.load_lookup_param(file, "/E")
    assert E.shape() == shape
    E.save(file)
    assert text(file) == whole


class TestNothingChanges:
    """Where loading fails, all is as it was."""

    @pytest.fixture
    def unchanged(self):
        """A model; at the end it must be what it was."""
        m, W, *_ = small_model()
        W.populate(str(FILES / "gradients.model"), "/W")
        before = everything(m), m.parameter_count()
        yield m
        assert (everything(m), m.parameter_count()) == before
        assert m.add_parameters(1).name() == "/_0"

    def other(self, file, *, shapes=((2, 3), 2), table=(4, 2), key=""):
        m = dy.ParameterCollection()
        for shape in shapes:
            m.add_parameters(shape)
        if table:
            m.add_lookup_parameters(table, name="E")
        m.save(file, key)
        return file

    def test_dims(self, unchanged, file):
        self.other(file, shapes=((2, 3), 3))
        with pytest.raises(RuntimeError) as caught:
            unchanged.populate(file)
        assert str(caught.value) == (
            f"populate: the blocks of {file} are not those of the model,"
            " from number 2 on\n"
            "  got:      2 parameters and 1 tables in the file\n"
            "    parameter /_0 {2,3}\n    parameter /_1 {3}\n    table /E {2,4}\n"
            "  expected: 2 parameters and 1 tables in the model\n"
            "    parameter /W {2,3}\n    parameter /part/b {2}\n    table /E {2,4}\n"
            "  fix:      make the same parameters in the same order as the model that"
            " was saved, or give the key of a part"
        )

    @pytest.mark.parametrize(
        ("how", "message"),
        [
            ({"table": (4, 3)}, "from number 3 on"),
            ({"table": ()}, "from number 3 on"),
            ({"shapes": ((2, 3),)}, "1 parameters and 1 tables in the file"),
            ({"shapes": ((2, 3), 2, 2)}, "3 parameters and 1 tables in the file"),
            ({"shapes": ((2, 3), (2, 1))}, r"parameter /_1 \{2,1\}"),
        ],
    )
    def test_misfits(self, unchanged, file, how, message):
        with pytest.raises(RuntimeError, match=message):
            unchanged.populate(self.other(file, **how))

    def test_key_without_blocks(self, unchanged, file):
        self.other(file, key="/a")
        with pytest.raises(RuntimeError, match="0 parameters and 0 tables in the file"):
            unchanged.populate(file, "/b")

    def test_damage_in_the_last_block(self, unchanged, file):
        self.other(file)
        whole = text(file)
        pathlib.Path(file).write_text(whole[:-20])
        with pytest.raises(RuntimeError, match="bad values of /E"):
            unchanged.populate(file)
        with pytest.raises(RuntimeError, match="bad values of /E"):
            unchanged.load_lookup_param(file, "/E")
        with pytest.raises(RuntimeError, match="bad values of /E"):
            unchanged.lookup_parameters_list()[0].populate(file, "/E")

    def test_no_such_key(self, unchanged, file):
        """A table is not found as a parameter."""
        self.other(file)
        W, E = unchanged.parameters_list()[0], unchanged.lookup_parameters_list()[0]
        for call in unchanged.load_param, W.populate:
            with pytest.raises(RuntimeError, match="has no parameter /E"):
                call(file, "/E")
        for call in unchanged.load_lookup_param, E.populate:
            with pytest.raises(RuntimeError, match="has no table /_0"):
                call(file, "/_0")

    def test_empty_key(self, unchanged, file):
        self.other(file)
        W, E = unchanged.parameters_list()[0], unchanged.lookup_parameters_list()[0]
        for call in unchanged.load_param, unchanged.load_lookup_param, W.populate:
            with pytest.raises(ValueError, match="load: the key is empty"):
                call(file, "")
        with pytest.raises(ValueError, match="load: the key is empty"):
            E.populate(file)

    def test_dims_of_one(self, unchanged, file):
        self.other(file, table=(4, 3))
        W, E = unchanged.parameters_list()[0], unchanged.lookup_parameters_list()[0]
        with pytest.raises(RuntimeError, match=r"/_1 in .*m has other dims than /W"):
            W.populate(file, "/_1")
        with pytest.raises(RuntimeError, match=r"got:      \{3,4\}\n  exp.* \{2,4\}"):
            E.populate(file, "/E")

    def test_no_file(self, unchanged, file):
        for call in unchanged.populate, unchanged.parameters_list()[0].populate:
            with pytest.raises(RuntimeError, match="load: cannot read"):
                call(file, "/E")
        for call in unchanged.populate, unchanged.load_param:
            with pytest.raises(AttributeError, match="name of the file is no str"):
                call(None, "/E")

    def test_long_lists_are_shortened(self, m, file):
        for n in range(60):
            m.add_parameters(1 + (n == 40))
        m.save(file)
        other = dy.ParameterCollection()
        for _ in range(60):
            other.add_parameters(1)
        with pytest.raises(RuntimeError, match="from number 41 on") as caught:
            other.populate(file)
        message = str(caught.value)
        assert "/_40 {2}" in message
        assert "(30 before)" in message
        assert "(10 more)" in message
        assert message.count("\n") < 50

    @pytest.mark.parametrize("swap", [False, True])
    def test_one_lstm_for_the_other(self, m, file, swap):
        builders = [dy.VanillaLSTMBuilder, dy.LSTMBuilder][:: -1 if swap else 1]
        builders[0](1, 2, 2, m)
        m.save(file)
        other = dy.ParameterCollection()
        builders[1](1, 2, 2, other)
        where = "the model" if swap else "the file"
        with pytest.raises(RuntimeError, match=f"{where} has a VanillaLSTMBuilder"):
            other.populate(file)


SAVE = {
    "text": lambda m, W, file: m.save(file),
    "pair": lambda m, W, file: dy.save(file, [W]),
    "tensors": lambda m, W, file: dy.save_safetensors(m, file),
    "checkpoint": lambda m, W, file: dy.save_checkpoint(file, m),
}
USES = [
    ("text", SAVE["text"]),
    ("text", lambda m, W, file: W.save(file)),
    ("text", lambda m, W, file: m.populate(file)),
    ("text", lambda m, W, file: W.populate(file, "/W")),
    ("text", lambda m, W, file: m.load_param(file, "/W")),
    ("pair", SAVE["pair"]),
    ("pair", lambda m, W, file: dy.load(file, m)),
    ("tensors", SAVE["tensors"]),
    ("tensors", lambda m, W, file: dy.load_safetensors(m, file)),
    ("checkpoint", SAVE["checkpoint"]),
    ("checkpoint", lambda m, W, file: dy.load_checkpoint(file, m)),
]


@pytest.mark.usefixtures("by_xla")
@pytest.mark.parametrize(("kind", "use"), USES)
def test_a_refused_update_does_not_get_in_the_way_of_files(m, file, kind, use):
    """It has changed nothing; whoever reads a value next is told of it."""
    W = m.add_parameters((2, 3), name="W")
    W.populate(str(FILES / "gradients.model"), "/W")
    known = W.as_array().copy()
    SAVE[kind](m, W, file)
    W.scale_gradient(float("inf"))
    trainer = dy.SimpleSGDTrainer(m)
    trainer.update()
    use(m, W, file)
    with pytest.raises(RuntimeError, match="update: Magnitude of gradient is bad"):
        dy.scalarInput(1).value()
    np.testing.assert_allclose(m.parameters_list()[0].as_array(), known, rtol=1e-6)
