"""dy.save and dy.load: names, values, classes, and what is refused."""

import pathlib
import pickle
import sys
import threading
import types

import numpy as np
import pytest

import dynetjax as dy
from dynetjax.io import pair
from dynetjax.io.classes import find_class, name_of

FILES = pathlib.Path(__file__).parent.parent / "data" / "files"


class Scorer:
    """A user's class."""

    class Inner:
        pass

    def __init__(self, size, words, model):
        self.spec = size, words
        self.collection = model.add_subcollection("scorer")
        self.W = self.collection.add_parameters((1, size))
        self.E = self.collection.add_lookup_parameters((len(words), size))

    def param_collection(self):
        return self.collection

    @classmethod
    def from_spec(cls, spec, model):
        return cls(*spec, model)


class Outer:
    class Nested(Scorer):
        pass


class Fails(Scorer):
    fail = False

    @classmethod
    def from_spec(cls, spec, model):
        made = super().from_spec(spec, model)
        if cls.fail:
            raise ZeroDivisionError
        return made


@pytest.fixture
def m():
    return dy.ParameterCollection()


@pytest.fixture
def base(tmp_path):
    return str(tmp_path / "pair")


def arrays(collection):
    things = collection.parameters_list() + collection.lookup_parameters_list()
    return [t.as_array().tolist() for t in things]


def write_meta(base, *values):
    pathlib.Path(base + ".meta").write_bytes(b"".join(map(pickle.dumps, values)))
    pathlib.Path(base + ".data").touch()


class TestRoundTrip:
    def test_all_kinds(self, m, base):
        E = m.add_lookup_parameters((3, 2), name="E")
        lstm = dy.VanillaLSTMBuilder(2, 2, 3, m, forget_bias=0.5)
        scorer = Scorer(2, {"a": 0, "b": 1}, m)
        W = m.add_parameters((2, 3), name="W")
        dy.save(base, iter([E, lstm, scorer, W]))
        other = dy.ParameterCollection()
        E2, lstm2, scorer2, W2 = dy.load(base, other)
        assert arrays(other) == arrays(m)
        assert [p.name() for p in (E2, W2)] == ["/E", "/W"]
        assert type(lstm2) is dy.VanillaLSTMBuilder
        assert lstm2.spec == lstm.spec == (2, 2, 3, False, 0.5)
        assert scorer2.spec == (2, {"a": 0, "b": 1})

    def test_into_a_part(self, m, base):
        dy.save(base, [m.add_parameters(1), dy.LSTMBuilder(1, 1, 1, m)])
        part = m.add_subcollection("part")
        p, lstm = dy.load(base, part)
        assert p.name() == "/_0"
        assert lstm.param_collection().name() == "/part/lstm-builder/"
        assert part.add_parameters(1).name() == "/part/_1"

    def test_generator(self, m, base):
        dy.save(base, [m.add_parameters(1), m.add_parameters(2)])
        other = dy.ParameterCollection()
        things = dy.load_generator(base, other)
        assert other.parameters_list() == []
        first = next(things)
        assert other.parameters_list() == [first]
        assert len(list(things)) == 1

    def test_nothing(self, m, base):
        dy.save(base, [])
        assert pathlib.Path(base + ".data").read_bytes() == b""
        assert dy.load(base, m) == []

    def test_same_names(self, base):
        """Each gets its own values; DyNet gives all the first one's."""
        collections = [dy.ParameterCollection() for _ in range(3)]
        params = [c.add_parameters(2, init=n) for n, c in enumerate(collections)]
        lstms = [dy.LSTMBuilder(1, 1, 1, c) for c in collections]
        dy.save(base, [*params, *lstms, params[0]])
        other = dy.ParameterCollection()
        found = dy.load(base, other)
        assert [p.as_array()[0] for p in (*found[:3], found[-1])] == [0, 1, 2, 0]
        for old, new in zip(lstms, found[3:6], strict=True):
            assert arrays(old.param_collection()) == arrays(new.param_collection())

    def test_other_order_of_blocks(self, m, base):
        """Parameters are found by their names, wherever they are."""
        a, b = m.add_parameters(1, init=1), m.add_parameters(1, init=2)
        dy.save(base, [a, b])
        b.save(base + ".data"), a.save(base + ".data", append=True)
        assert [p.as_array() for p in dy.load(base, m)] == [1, 2]

    def test_gradients(self, m, base):
        W = m.load_param(str(FILES / "gradients.model"), "/W")
        dy.save(base, [W])
        (found,) = dy.load(base, m)
        assert found.grad_as_array()[1].tolist() == [6, 8, 10]

    def test_nested_class(self, m, base):
        dy.save(base, [Outer.Nested(1, [], m)])
        assert type(dy.load(base, m)[0]) is Outer.Nested

    def test_class_of_another_module(self, m, base, monkeypatch):
        """Once the module is imported, that is."""
        module = types.ModuleType("my_models")
        module.Model = type("Model", (Scorer,), {"__module__": "my_models"})
        with monkeypatch.context() as patch:
            patch.setitem(sys.modules, "my_models", module)
            dy.save(base, [module.Model(1, [], m)])
            assert type(dy.load(base, m)[0]) is module.Model
        with pytest.raises(pickle.UnpicklingError, match="No module named 'my_models'"):
            dy.load(base, m)
        data = pathlib.Path(base + ".meta").read_bytes()
        pathlib.Path(base + ".meta").write_bytes(data[:2] + data[37:])
        with pytest.raises(pickle.UnpicklingError, match="import my_models before"):
            dy.load(base, m)


class Wasteful(Scorer):
    """Makes parameters that it does not save."""

    def __init__(self, size, spare, model):
        super().__init__(size, ["a"], model)
        self.spec = size, spare
        model.add_parameters(spare, 0)


class Many(Scorer):
    def __init__(self, size, count, model):
        super().__init__(size, ["a"], model)
        self.spec = size, count
        for _ in range(count):
            model.add_lookup_parameters((1, 1), np.zeros((1, 1)))


class Loads(Scorer):
    """Is made of what another pair has."""

    def __init__(self, base, large, model):
        super().__init__(1, ["a"], model)
        self.spec = base, large
        dy.load(large, model)


def of_softmax(tmp_path, m):
    (tmp_path / "clusters").write_text("0 a\n0 b\n1 c\n1 d\n")
    words = {word: k for k, word in enumerate("abcd")}
    return dy.ClassFactoredSoftmaxBuilder(2, tmp_path / "clusters", words, m)


SIZED = {
    "LSTM": lambda _, m: dy.LSTMBuilder(1, 2, 3, m),
    "normalised": lambda _, m: dy.VanillaLSTMBuilder(1, 2, 3, m, ln_lstm=True),
    "two ways": lambda _, m: dy.BiRNNBuilder(1, 2, 4, m, dy.GRUBuilder),
    "tree": lambda _, m: dy.NaryTreeLSTMBuilder(2, 1, 2, 3, m),
    "tree of sums": lambda _, m: dy.ChildSumTreeLSTMBuilder(1, 2, 3, m),
    "softmax": lambda _, m: dy.StandardSoftmaxBuilder(2, 3, m),
    "classes": of_softmax,
    "user's": lambda _, m: Scorer(2, ["a"], m),
}
LARGE = [1 << 16, (1 << 31) - 2, 1 << 62, 10**300]


class TestSizes:
    """Those that the ``.data`` file cannot have are refused before they are made."""

    @pytest.fixture(autouse=True)
    def no_memory(self):
        """What is refused takes none: not 2 GiB more than there are now."""
        resource = pytest.importorskip("resource")
        if not pathlib.Path("/proc/self/statm").exists():
            pytest.skip("needs Linux")
        limits = resource.getrlimit(resource.RLIMIT_AS)
        with open("/proc/self/statm") as file:
            pages = int(file.read().split()[0])
        most = pages * resource.getpagesize() + (2 << 30)
        resource.setrlimit(resource.RLIMIT_AS, (most, limits[1]))
        yield
        resource.setrlimit(resource.RLIMIT_AS, limits)

    @pytest.mark.parametrize("make", SIZED.values(), ids=SIZED)
    @pytest.mark.parametrize("size", LARGE)
    def test_of_a_builder(self, m, base, tmp_path, make, size):
        """Each of its sizes, one at a time; what is small is made and compared."""
        match = "has too little for what is made" + "|not those of" * (size < 1 << 30)
        thing = make(tmp_path, m)
        dy.save(base, [thing])
        for k, old in enumerate(thing.spec):
            if type(old) is not int or (make is of_softmax and k):
                continue
            spec = *thing.spec[:k], size, *thing.spec[k + 1 :]
            write_spec(base, thing, spec)
            other = dy.ParameterCollection()
            with pytest.raises(RuntimeError, match=match):
                dy.load(base, other)
            assert not other.parameters_list()

    @pytest.mark.parametrize("size", [-1, -(2**31), -(10**300)])
    def test_negative(self, m, base, size):
        lstm = dy.LSTMBuilder(1, 2, 3, m)
        dy.save(base, [lstm])
        for k in range(3):
            write_spec(base, lstm, (*lstm.spec[:k], size, *lstm.spec[k + 1 :]))
            with pytest.raises(OverflowError, match="is negative") as raised:
                dy.load(base, dy.ParameterCollection())
            assert "in load, of CoupledLSTMBuilder with (" in raised.value.__notes__[0]

    def test_in_lists(self, m, base):
        """However deep the size stands."""
        scorer = Scorer(2, ["a"], m)
        dy.save(base, [scorer])
        write_spec(base, scorer, (2, [[]] * 10**5))
        with pytest.raises(RuntimeError, match="not those of the model"):
            dy.load(base, m)
        write_spec(base, scorer, (64, [[]] * 10**6))
        with pytest.raises(
            RuntimeError, match=r"/scorer.*/_1 \{1000000,64\}, and what"
        ):
            dy.load(base, m)

    def test_not_saved(self, m, base):
        """There is room for some of it, and for all if the file is trusted."""
        for spare in 1, 10**6:
            dy.save(base, [Wasteful(2, spare, m)])
            assert dy.load(base, m)[0].spec == (2, spare)
        dy.save(base, [Wasteful(2, (1 << 24) + 100, m)])
        with pytest.raises(RuntimeError, match="trust=True, if a class makes much"):
            dy.load(base, m)
        assert len(dy.load(base, m, trust=True)) == 1

    def test_many(self, m, base):
        """However small they are, and whoever has made their numbers."""
        many = Many(2, 3, m)
        dy.save(base, [many])
        assert dy.load(base, m)[0].spec == (2, 3)
        write_spec(base, many, (2, 10**12))
        with pytest.raises(RuntimeError, match="expected: 2 parameters, 4 numbers"):
            dy.load(base, m)

    def test_another_pair_within(self, m, base, tmp_path):
        """It has room for its own numbers."""
        large = str(tmp_path / "large")
        dy.save(large, [dy.StandardSoftmaxBuilder(5000, 4000, m)])
        dy.save(base, [Loads(base, large, m)])
        assert dy.load(base, m)[0].spec == (base, large)

    def test_afterwards(self, m, base):
        """A collection has room for anything again."""
        dy.save(base, [dy.LSTMBuilder(1, 2, 3, m)])
        (lstm,) = dy.load(base, m)
        for collection in m, lstm.param_collection():
            p = collection.add_parameters((1 << 12, 1 << 13), 0)
            assert p.shape() == (1 << 12, 1 << 13)


class TestDamage:
    """A byte is another one: what was saved comes, or an error that is documented."""

    @pytest.fixture
    def files(self, m, base):
        """What stands in the two files."""
        lstm = dy.VanillaLSTMBuilder(1, 2, 2, m, ln_lstm=True)
        W = m.add_parameters((2, 300), name="W")
        dy.save(base, [lstm, Scorer(300, {"a": 0}, m), W])
        self.errors = []
        yield {n: pathlib.Path(base + n).read_bytes() for n in (".meta", ".data")}
        for error in self.errors:
            assert "  fix: " in error

    def load(self, base, name, damaged):
        """The loaded values; None if it is refused."""
        pathlib.Path(base + name).write_bytes(damaged)
        collection = dy.ParameterCollection()
        try:
            dy.load(base, collection)
        except (pickle.UnpicklingError, RuntimeError, OverflowError, ValueError) as e:
            self.errors.append(str(e))
            return None
        return arrays(collection)

    @pytest.mark.parametrize("change", [1, 0x80, 0xFF], ids=hex)
    def test_meta(self, m, base, files, change):
        """Numbers are those of the file, whatever becomes of names and words."""
        saved = set(map(str, arrays(m)))
        whole, refused = files[".meta"], 0
        for k in range(len(whole)):
            damaged = whole[:k] + bytes([whole[k] ^ change]) + whole[k + 1 :]
            found = self.load(base, ".meta", damaged)
            refused += found is None
            assert found is None or set(map(str, found)) <= saved
        assert refused > len(whole) / 2

    @pytest.mark.parametrize("byte", [b"9", b"0", b",", b"}", b"\n", b"\xff"])
    def test_headers(self, m, base, files, byte):
        """Names of what a builder has may change, and counts of bytes: none is used."""
        saved = arrays(m)
        whole, at, refused, tried = files[".data"], 0, 0, 0
        for line in whole.splitlines(keepends=True):
            for k in range(at, at + len(line)) if line.startswith(b"#") else ():
                found = self.load(base, ".data", whole[:k] + byte + whole[k + 1 :])
                refused, tried = refused + (found is None), tried + 1
                assert found is None or sorted(map(str, found)) == sorted(
                    map(str, saved)
                )
            at += len(line)
        assert refused > tried / 4

    @pytest.mark.parametrize(
        "dims",
        [
            "{4294967296,4294967296}",
            "{999999999999999999,999999999999999999,99}",
            "{-2,300}",
            "{0,999999999999999999}",
            "{2,300,1,1,1,1,1,1}",
            "{2,30000000}",
            "{99999999999999999999}",
        ],
    )
    def test_dims(self, base, files, dims):
        """Products that overflow, and more numbers than there are bytes."""
        damaged = files[".data"].replace(b"/W {2,300}", f"/W {dims}".encode())
        assert self.load(base, ".data", damaged) is None

    @pytest.mark.parametrize("count", ["0", "-5", "9601000000000000", "x"])
    def test_bytes(self, m, base, files, count):
        """A count is not relied on."""
        damaged = files[".data"].replace(
            b"{2,300} 9601 ", f"{{2,300}} {count} ".encode()
        )
        assert damaged != files[".data"]
        found = self.load(base, ".data", damaged)
        assert sorted(map(str, found)) == sorted(map(str, arrays(m)))


def write_spec(base, thing, spec):
    """Change the spec of the only object of a file."""
    entry = type(thing), spec, thing.param_collection().name()
    pathlib.Path(base + ".meta").write_bytes(pickle.dumps(entry))


class TestFilesOfDynet:
    def test_load(self, m):
        """Its LSTMBuilder is what it calls VanillaLSTMBuilder in files."""
        E, vanilla, alias, coupled, W = dy.load(str(FILES / "lstms"), m)
        kinds = [dy.VanillaLSTMBuilder, dy.VanillaLSTMBuilder, dy.CoupledLSTMBuilder]
        assert [type(b) for b in (vanilla, alias, coupled)] == kinds
        assert [E.shape(), W.shape(), E.name()] == [(3, 2), (2, 3), "/E"]
        assert coupled.param_collection().name() == "/lstm-builder/"

    def test_written_as_dynet_does(self, m, base):
        """The same numbers; pickles that mean the same, of `_dynet`'s classes."""
        dy.save(base, dy.load(str(FILES / "lstms"), m))
        theirs = FILES / "lstms.data"
        assert pathlib.Path(base + ".data").read_bytes() == theirs.read_bytes()

        class Names(pickle.Unpickler):
            def find_class(self, module, name):
                return module, name

        def entries(path):
            with open(path, "rb") as file:
                return [Names(file).load() for _ in range(5)]

        ours = entries(base + ".meta")
        assert ours == entries(FILES / "lstms.meta")
        assert ours[3][0] == ("_dynet", "CoupledLSTMBuilder")

    def test_alias_in_a_file(self, m, base):
        """What the release of 2.1 means by LSTMBuilder."""
        assert find_class("_dynet", "LSTMBuilder") is dy.VanillaLSTMBuilder
        assert find_class("dynetjax", "CoupledLSTMBuilder") is dy.LSTMBuilder


class TestSaveRefuses:
    """Before it touches the files."""

    @pytest.fixture(autouse=True)
    def untouched(self, tmp_path):
        yield
        assert not list(tmp_path.iterdir())

    def test_what_cannot_be_saved(self, m, base):
        for thing in m, 3, None, dy.SimpleSGDTrainer(m):
            with pytest.raises(AttributeError, match="save: the object cannot be"):
                dy.save(base, [m.add_parameters(1), thing])

    def test_a_parameter_alone(self, m, base):
        for thing in m.add_parameters(3), m.add_lookup_parameters((3, 1)):
            with pytest.raises(AttributeError, match="objects is a single parameter"):
                dy.save(base, thing)

    def test_no_folder(self, m, base):
        with pytest.raises(FileNotFoundError, match=r"no/pair\.data"):
            dy.save(base.replace("pair", "no/pair"), [m.add_parameters(1)])

    def test_spec(self, m, base):
        scorer = Scorer(1, [], m)
        scorer.spec = 1, threading.Lock()
        with pytest.raises(pickle.PicklingError, match="spec has what no pickle can"):
            dy.save(base, [scorer])

    def test_local_class(self, m, base):
        class Local(Scorer):
            pass

        with pytest.raises(pickle.PicklingError, match="cannot be found by its name"):
            dy.save(base, [Local(1, [], m)])


def test_warnings(m, base):
    m.parameters_from_numpy(np.array([np.nan]), "W")
    with pytest.warns(RuntimeWarning, match="not finite") as first:
        dy.save(base, m.parameters_list())
    assert {w.filename for w in first} == {__file__}


class TestGainsOfAnLSTM:
    """They belong to the outer collection, and are saved with the builder."""

    def made(self, m):
        lstm = dy.VanillaLSTMBuilder(2, 1, 1, m, ln_lstm=True)
        for k, p in enumerate(m.parameters_list()):
            p.set_value(np.full(p.shape(), k / 8))
        return lstm

    def values(self, lstm):
        return [p.as_array().tolist() for q in lstm.all_parameters() for p in q]

    def test_alone(self, m, base):
        lstm = self.made(m)
        dy.save(base, [lstm])
        (again,) = dy.load(base, dy.ParameterCollection())
        assert self.values(again) == self.values(lstm)

    def test_among_others(self, m, base):
        lstm = self.made(m)
        gain = m.parameters_list()[-1]
        other = self.made(dy.ParameterCollection())
        dy.save(base, [gain, lstm, gain, other, gain])
        found = dy.load(base, dy.ParameterCollection())
        for k in 0, 2, 4:
            np.testing.assert_array_equal(found[k].as_array(), gain.as_array())
        assert self.values(found[1]) == self.values(lstm)
        assert self.values(found[3]) == self.values(other)

    def test_a_file_without_them(self, m, base, monkeypatch):
        """As DyNet writes it; what comes next is not taken for them."""
        lstm = self.made(m)
        gain = next(p for p in m.parameters_list() if "builder" not in p.name())
        monkeypatch.setattr(pair, "_outside", lambda thing: [])
        dy.save(base, [lstm, gain, lstm])
        monkeypatch.undo()
        match = "VanillaLSTMBuilder has parameters outside its collection, which the"
        with pytest.warns(RuntimeWarning, match=match) as told:
            first, found, _ = dy.load(base, dy.ParameterCollection())
        assert {w.filename for w in told} == {__file__}
        np.testing.assert_array_equal(found.as_array(), gain.as_array())
        assert self.values(first)[:3] == self.values(lstm)[:3]
        assert self.values(first)[3] == [1.0] * 4


class TestCrash:
    """Between the two files."""

    def save_and_crash(self, monkeypatch, base, objects, count):
        """Die when `count` files have their new content."""
        publish = pair.Draft.publish

        def dying(draft):
            nonlocal count
            if not count:
                raise KeyboardInterrupt
            count -= 1
            publish(draft)

        with monkeypatch.context() as patch:
            patch.setattr(pair.Draft, "publish", dying)
            with pytest.raises(KeyboardInterrupt):
                dy.save(base, objects)

    @pytest.mark.parametrize("count", [0, 1])
    def test_same_objects(self, m, base, monkeypatch, count):
        """Old numbers or new ones."""
        p = m.add_parameters(1, init=0)
        dy.save(base, [p])
        p.set_value([1])
        self.save_and_crash(monkeypatch, base, [p], count)
        assert dy.load(base, m)[0].as_array() == count

    @pytest.mark.parametrize("count", [0, 1])
    def test_other_objects(self, m, base, monkeypatch, count):
        """The new numbers are not taken for those of the old objects."""
        dy.save(base, [m.add_parameters(1, name="W"), Scorer(1, ["old"], m)])
        new = dy.ParameterCollection()
        objects = [new.add_parameters(1, name="W"), Scorer(1, ["new"], new)]
        self.save_and_crash(monkeypatch, base, objects, count)
        with pytest.raises(FileNotFoundError, match=r"pair\.meta"):
            dy.load(base, m)
        dy.save(base, objects)
        assert dy.load(base, m)[1].spec == (1, ["new"])

    def test_nothing_is_left_behind(self, m, base, monkeypatch, tmp_path):
        self.save_and_crash(monkeypatch, base, [m.add_parameters(1)], 0)
        assert not list(tmp_path.iterdir())


class TestLoadRefuses:
    """With nothing left in the collection."""

    @pytest.fixture
    def unchanged(self):
        m = dy.ParameterCollection()
        m.add_parameters(1, name="before")
        yield m.add_subcollection("part")
        assert [p.name() for p in m.parameters_list()] == ["/before"]
        assert m.lookup_parameters_list() == []

    def test_no_files(self, unchanged, m, base):
        with pytest.raises(FileNotFoundError, match=r"pair\.meta"):
            dy.load(base, unchanged)
        dy.save(base, [m.add_parameters(1)])
        pathlib.Path(base + ".data").unlink()
        with pytest.raises(RuntimeError, match="load: cannot read"):
            dy.load(base, unchanged)

    def test_no_collection(self, base):
        with pytest.raises(TypeError, match="load: params is no collection"):
            dy.load(base, None)
        things = dy.load_generator(base, None)
        with pytest.raises(TypeError, match="load: params is no collection"):
            next(things)

    @pytest.mark.parametrize(
        ("kind", "message"),
        [("Parameters", "no parameter /x"), ("LookupParameters", "no table /_0")],
    )
    def test_missing_parameter(self, unchanged, m, base, kind, message):
        """Found out before anything is made, though it is the last one."""
        p = m.add_parameters(1)
        dy.save(base, [p, p])
        key = message.split()[-1]
        write_meta(base, ("Parameters", "/_0"), (kind, key))
        made = []
        with pytest.raises(RuntimeError, match=message):
            made.extend(dy.load_generator(base, unchanged))
        assert not made

    def test_damage(self, unchanged, m, base):
        dy.save(base, [Scorer(2, ["a"], m), m.add_parameters(3)])
        data = pathlib.Path(base + ".data")
        data.write_bytes(data.read_bytes()[:-5])
        with pytest.raises(RuntimeError, match="bad values of /_0"):
            dy.load(base, unchanged)
        assert unchanged.add_subcollection("scorer").name() == "/part/scorer/"

    def test_other_numbers_of_parameters(self, unchanged, m, base):
        lstm = dy.VanillaLSTMBuilder(1, 2, 2, m)
        dy.save(base, [m.add_parameters(1), lstm])
        write_meta(
            base,
            ("Parameters", "/_0"),
            (Scorer, (2, ["a"]), "/vanilla-lstm-builder/"),
        )
        with pytest.raises(RuntimeError, match="not those of the model"):
            dy.load(base, unchanged)

    def test_from_spec_raises(self, unchanged, m, base, monkeypatch):
        dy.save(base, [m.add_parameters(1), Fails(1, [], m)])
        monkeypatch.setattr(Fails, "fail", True)
        with pytest.raises(ZeroDivisionError):
            dy.load(base, unchanged)

    @pytest.mark.parametrize(
        "value",
        [
            ("Parameter", "/W"),
            ("Parameters", 3),
            ("Parameters", "/W", "/x"),
            (Scorer, "/x"),
            ["Parameters", "/W"],
            3,
        ],
        ids=repr,
    )
    def test_other_pickles(self, unchanged, base, value):
        write_meta(base, value)
        with pytest.raises(pickle.UnpicklingError, match="has other pickles than"):
            dy.load(base, unchanged)

    def test_garbage(self, unchanged, base):
        write_meta(base)
        pathlib.Path(base + ".meta").write_bytes(b"garbage")
        with pytest.raises(pickle.UnpicklingError, match="load: the pickle is damaged"):
            dy.load(base, unchanged)


class Spy(type):
    """A metaclass that notes when it is asked for something."""

    asked = False

    def __getattr__(cls, name):
        Spy.asked = True
        raise AttributeError(name)


class Guarded(metaclass=Spy):
    pass


class TestFindClass:
    @pytest.fixture(autouse=True)
    def nobody_is_asked(self):
        Spy.asked = False  # pytest asks, when it collects
        yield
        assert not Spy.asked

    @pytest.mark.parametrize(
        ("module", "name"),
        [
            ("os", "system"),
            ("builtins", "eval"),
            ("builtins", "dict"),
            ("collections", "OrderedDict"),
            (__name__, "Scorer.Inner"),
            (__name__, "Scorer.from_spec"),
            (__name__, "pair.Draft"),
            (__name__, "Guarded"),
            (__name__, "Guarded.anything"),
            (__name__, ""),
            ("_dynet", "ParameterCollection"),
            ("_dynet", "Parameters"),
            ("dynetjax", "os"),
            ("this", "Zen"),
            ("no_such_module", "X"),
        ],
    )
    def test_refused(self, module, name):
        """Unknown, and neither imported nor asked."""
        assert "this" not in sys.modules
        with pytest.raises(pickle.UnpicklingError, match="class that is not known"):
            find_class(module, name)
        assert "this" not in sys.modules

    def test_module_that_is_none(self, monkeypatch):
        """Something else in sys.modules is not asked either."""
        monkeypatch.setitem(sys.modules, "odd", Guarded)
        with pytest.raises(pickle.UnpicklingError, match="not known"):
            find_class("odd", "x")

    def test_builders_by_the_name_dynet_has(self):
        assert name_of(dy.LSTMBuilder) == ("_dynet", "CoupledLSTMBuilder")
        assert find_class("_dynet", "VanillaLSTMBuilder") is dy.VanillaLSTMBuilder

    def test_unknown_builder(self):
        with pytest.raises(
            pickle.UnpicklingError, match="update dynetjax, if DyNet has"
        ):
            find_class("_dynet", "TreeLSTMOfTomorrow")

    def test_users(self):
        assert find_class(*name_of(Scorer)) is Scorer
