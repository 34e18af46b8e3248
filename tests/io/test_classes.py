"""Objects in a spec: those of the program's own classes come back, others do not."""

import datetime
import decimal
import enum
import functools
import os
import pathlib
import pickle
import re
import subprocess
import sys
import threading
import types
from collections import Counter, OrderedDict, defaultdict, deque, namedtuple
from multiprocessing.process import current_process
from os import system

import numpy as np
import pytest
from sortedcontainers import SortedDict

import dynetjax as dy
from dynetjax.io.classes import find_part, is_own, name_of
from dynetjax.io.meta import dumps, loads_all

assert system  # a name that this module has and does not define


@pytest.fixture(autouse=True)
def _program_lies_here(monkeypatch):
    monkeypatch.chdir(pathlib.Path(__file__).parent)


def function(*args):
    raise AssertionError("it is called")


class Vocabulary:
    def __init__(self, words):
        self.words = list(words)
        self.index = {w: i for i, w in enumerate(self.words)}
        self.counts = Counter(self.words)

    def __eq__(self, other):
        return type(other) is type(self) and vars(other) == vars(self)

    __hash__ = None


class Slots:
    __slots__ = "a", "b"

    def __init__(self, a):
        self.a = a


class Mixed(Slots):
    def __init__(self, a, c):
        super().__init__(a)
        self.c = c


class Words(dict):
    """What sets attributes in its own methods cannot be filled by these."""

    def __init__(self, unknown):
        super().__init__()
        self.order = []
        self.unknown = unknown

    def __setitem__(self, key, value):
        self.order.append(key)
        super().__setitem__(key, value)


class Items(list):
    pass


class Tags(set):
    pass


class Ordered(OrderedDict):
    pass


class Tally(Counter):
    pass


class Index(defaultdict):
    pass


class Chosen:
    """Says itself what is saved of it."""

    def __init__(self):
        self.lock = function

    def __getstate__(self):
        return {"size": 3}

    def __setstate__(self, state):
        self.__init__()
        self.size = state["size"]


class Key:
    def __init__(self, name):
        self.name = name

    def __hash__(self):
        return 7

    def __eq__(self, other):
        return self.name == other.name


class Model:
    """What is saved."""

    def __init__(self, spec, model):
        self.spec = spec
        self.collection = model.add_subcollection("model")
        self.W = self.collection.add_parameters(2)

    def param_collection(self):
        return self.collection

    @classmethod
    def from_spec(cls, spec, model):
        return cls(spec, model)


def again(value):
    (found,) = loads_all(dumps(value, name_of), find_part, is_own)
    return found


def words():
    made = Words("<unk>")
    made["b"], made["a"] = 1, 2
    return made


def ordered():
    made = Ordered(b=1)
    made["a"] = [2]
    made.move_to_end("b")
    made.name = "x"
    return made


def index():
    made = Index(list)
    made["a"].append(1)
    return made


def by_name():
    return OrderedDict([("b", 1), ("a", Vocabulary("a"))])


OBJECTS = {
    "vocabulary": lambda: (100, Vocabulary("abca"), Vocabulary([])),
    "OrderedDict": by_name,
    "Counter": lambda: Counter("abca"),
    "defaultdict": lambda: defaultdict(int, a=1),
    "defaultdict of lists": lambda: defaultdict(list, a=[Vocabulary("a")]),
    "defaultdict of none": lambda: defaultdict(None, a=1),
    "deque": lambda: deque([1, 2], 5),
    "deque without a length": lambda: deque("ab"),
    "dict's subclass": words,
    "list's subclass": lambda: Items([Items(), 1]),
    "set's subclass": lambda: Tags("ab"),
    "OrderedDict's subclass": ordered,
    "Counter's subclass": lambda: Tally({"a": 2}),
    "defaultdict's subclass": index,
}


@pytest.mark.parametrize("made", OBJECTS.values(), ids=OBJECTS)
class TestComeBack:
    """As from Python's own pickle, of either's bytes."""

    def check(self, found, made):
        assert found == made
        assert type(found) is type(made)
        assert getattr(found, "__dict__", 0) == getattr(made, "__dict__", 0)
        for name in "default_factory", "maxlen":
            assert getattr(found, name, 0) == getattr(made, name, 0)
        if isinstance(made, dict):
            assert list(found.items()) == list(made.items())

    def test_ours(self, made):
        self.check(again(made()), made())

    def test_python_reads_ours(self, made):
        if made is not words:  # its method needs attributes, which come later
            self.check(pickle.loads(dumps(made(), name_of)), made())

    @pytest.mark.parametrize("protocol", [2, 3, 4, 5])
    def test_we_read_pythons(self, made, protocol):
        data = pickle.dumps(made(), protocol)
        if b"__builtin__" not in data:  # Python 2's names
            self.check(loads_all(data, find_part, is_own)[0], made())


class TestObjects:
    def test_slots(self):
        assert again(Slots(3)).a == 3
        assert not hasattr(again(Slots(3)), "b")
        found = again(Mixed([1], 2))
        assert (found.a, found.c, vars(found)) == ([1], 2, {"c": 2})

    def test_shared_and_round(self):
        """One object at two places stays one, and an object may hold itself."""
        made = Vocabulary("ab")
        made.same, made.self, made.pair = made.index, made, (made, made.words)
        found = again([made, made, made.words])
        assert found[0] is found[1] is found[0].self is found[0].pair[0]
        assert found[0].same is found[0].index
        assert found[2] is found[0].words is found[0].pair[1]

    def test_values_that_are_made_for_the_file(self):
        """States that live for a moment only are not taken for each other."""
        found = again([Chosen() for _ in range(50)])
        assert [x.size for x in found] == [3] * 50

    def test_own_setstate(self):
        assert vars(again(Chosen())) == {"lock": function, "size": 3}

    def test_keys(self):
        found = again({Key("a"): 1, Key("b"): 2})
        assert found[Key("a")] == 1
        assert found[Key("b")] == 2

    def test_class(self):
        assert again((Vocabulary, Slots)) == (Vocabulary, Slots)


class Closes:
    def __del__(self):
        function()


class Made:
    def __new__(cls):
        raise AssertionError("it is called")


class Reduces:
    def __reduce__(self):
        return os.system, ("echo hacked > hacked",)


class Called:
    """Says that it is made by a call."""

    def __reduce__(self):
        return Called, ("echo hacked > hacked",)


class Array(np.ndarray):
    pass


class Meta(type):
    def __setstate__(cls, state):
        function()


class WithMeta(metaclass=Meta):
    pass


class Property:
    @property
    def name(self):
        return ""

    @name.setter
    def name(self, value):
        function()


def text(value):
    return b"\x8c" + bytes([len(value)]) + value.encode()


def named(module, name):
    return text(module) + text(name) + b"\x93"


def mine(name):
    return named(__name__, name)


ECHO = text("echo hacked > hacked")
MADE = b")\x81"  # an object without arguments
STATE = b"}" + text("name") + b"K\x01sb"
SLOT = b"N}" + text("default_factory") + mine("Vocabulary") + b"s\x86b"
NOT_KNOWN = "names a class that is not known"
DAMAGED = "the pickle is damaged, or has more than"
HOSTILE = {
    "reduce of a program's class": (
        b"\x80\x04" + named("os", "system") + ECHO + b"\x85R.",
        NOT_KNOWN,
    ),
    "posix": (b"\x80\x04" + named("posix", "system") + ECHO + b"\x85R.", NOT_KNOWN),
    "by Python": (pickle.dumps(Reduces()), NOT_KNOWN),
    "imported function": (mine("system") + ECHO + b"\x85R.", NOT_KNOWN),
    "function": (mine("function") + b")R.", NOT_KNOWN),
    "method": (mine("Model.from_spec") + b")R.", NOT_KNOWN),
    "dotted": (mine("os.system") + ECHO + b"\x85R.", NOT_KNOWN),
    "dotted through a class": (
        mine("Vocabulary.__init__.__globals__.os") + b".",
        NOT_KNOWN,
    ),
    "class's class": (mine("Vocabulary.__class__") + b")R.", NOT_KNOWN),
    "eval": (named("builtins", "eval") + text("1/0") + b"\x85R.", NOT_KNOWN),
    "getattr": (named("builtins", "getattr") + b".", NOT_KNOWN),
    "object": (named("builtins", "object") + MADE + b".", NOT_KNOWN),
    "imported class": (mine("subprocess.Popen") + b".", NOT_KNOWN),
    "class of the library": (named("subprocess", "Popen") + b".", NOT_KNOWN),
    "class of a package": (named("numpy", "memmap") + b".", NOT_KNOWN),
    "another module's class": (named("re", "Scanner") + b".", NOT_KNOWN),
    "called with arguments": (
        mine("Vocabulary") + ECHO + b"\x85R.",
        r"Vocabulary made from arguments",
    ),
    "called without arguments": (
        mine("Vocabulary") + b")R.",
        r"Vocabulary made from arguments",
    ),
    "new with arguments": (
        mine("Vocabulary") + ECHO + b"\x85\x81.",
        r"Vocabulary made from arguments",
    ),
    "new": (mine("Made") + MADE + b".", r"Made, which has a __new__"),
    "reduce of the class": (
        mine("Called") + MADE + b".",
        r"Called, which has a __reduce__",
    ),
    "del": (mine("Closes") + MADE + b".", r"Closes, which has a __del__"),
    "array": (mine("Array") + MADE + b".", r"Array, which has a __new__"),
    "metaclass": (mine("Meta") + MADE + b".", r"Meta, which has a __new__"),
    "attributes of a class": (
        mine("Vocabulary") + STATE + b".",
        "attributes of the class",
    ),
    "metaclass's setstate": (
        mine("WithMeta") + STATE + b".",
        "attributes of the class",
    ),
    "property": (
        mine("Property") + MADE + b"N}" + text("name") + b"K\x01s\x86b.",
        "name, which is no slot of",
    ),
    "class of an object": (
        mine("Slots") + MADE + b"N}" + text("__class__") + mine("Mixed") + b"s\x86b.",
        "__class__, which is no slot",
    ),
    "attributes that are none": (
        mine("Vocabulary") + MADE + mine("Words") + MADE + b"b.",
        "attributes ",
    ),
    "attributes where none are": (mine("Slots") + MADE + STATE + b".", DAMAGED),
    "name that is no text": (
        mine("Vocabulary") + MADE + b"}K\x01K\x01sb.",
        DAMAGED,
    ),
    "factory": (
        named("collections", "defaultdict") + mine("Vocabulary") + b"\x85R.",
        r"a collections.defaultdict of",
    ),
    "factory of a subclass": (mine("Index") + mine("Made") + b"\x85R.", "Index of"),
    "factory, set later": (
        named("collections", "defaultdict") + b")R" + SLOT + b".",
        "an object of collections.defaultdict",
    ),
    "factory that is a function": (
        named("collections", "defaultdict") + named("os", "system") + b"\x85R.",
        NOT_KNOWN,
    ),
    "counter of an object": (
        named("collections", "Counter") + mine("Words") + MADE + b"\x85R.",
        "a collections.Counter of",
    ),
    "builder": (named("_dynet", "GRUBuilder") + MADE + b".", "an object of"),
    "model": (mine("Model") + b"N\x85R.", "Model made from arguments"),
    "append to an object": (mine("Vocabulary") + MADE + b"K\x01a.", DAMAGED),
    "inst": (f"(i{__name__}\nVocabulary\n.".encode(), DAMAGED),
    "newobj_ex": (mine("Vocabulary") + b")}\x92.", DAMAGED),
}


@pytest.mark.parametrize(("data", "match"), HOSTILE.values(), ids=HOSTILE)
def test_hostile(data, match, tmp_path, monkeypatch):
    """Refused, and nothing has been run or imported."""
    base = str(tmp_path / "pair")
    key = text("/model/")
    if data[:1] == b"\x80":
        data = data[2:]
    entry = b"\x80\x04(" + mine("Model") + data[:-1] + key + b"t."
    pathlib.Path(base + ".meta").write_bytes(entry)
    pathlib.Path(base + ".data").touch()
    before = set(sys.modules)
    with pytest.raises(pickle.UnpicklingError, match=match):
        dy.load(base, dy.ParameterCollection())
    assert set(sys.modules) == before
    assert not list(pathlib.Path(__file__).parent.glob("hacked"))


class TestOwn:
    """Which modules are the program's."""

    @pytest.fixture
    def module(self, monkeypatch):
        def made(file):
            module = types.ModuleType("somewhere")
            module.C = type("C", (), {"__module__": "somewhere"})
            if file:
                module.__file__ = str(file)
            monkeypatch.setitem(sys.modules, "somewhere", module)
            return module.C

        return made

    def test_beside_the_main_program(self, module, tmp_path, monkeypatch):
        kind = module(tmp_path / "deep" / "m.py")
        assert not is_own(kind)
        main = sys.modules["__main__"]
        monkeypatch.setattr(main, "__file__", str(tmp_path / "main.py"), raising=False)
        assert is_own(kind)
        assert find_part("somewhere", "C") is kind

    def test_current_folder(self, module, tmp_path, monkeypatch):
        kind = module(tmp_path / "m.py")
        monkeypatch.chdir(tmp_path)
        assert is_own(kind)
        monkeypatch.chdir("/")
        assert is_own(kind)

    @pytest.mark.parametrize(
        "file",
        [
            None,
            os.__file__,
            dy.__file__,
            np.__file__,
            "/usr/lib/python3/dist-packages/m.py",
        ],
    )
    def test_nobodys(self, module, monkeypatch, file):
        """Wherever it lies."""
        monkeypatch.chdir("/")
        assert not is_own(module(file))

    def test_a_name_beside(self, module, tmp_path, monkeypatch):
        (tmp_path / "a").mkdir()
        monkeypatch.chdir(tmp_path / "a")
        assert not is_own(module(tmp_path / "ab" / "m.py"))

    def test_main(self, monkeypatch):
        kind = type("C", (), {"__module__": "__main__"})
        assert is_own(kind)
        monkeypatch.setitem(sys.modules, "__main__", types.ModuleType("__main__"))
        sys.modules["__main__"].C = kind
        assert find_part("__main__", "C") is kind

    def test_setstate_of_a_package(self, module, tmp_path):
        """The program's class inherits it."""
        base = module("/usr/lib/python3/dist-packages/m.py")
        base.__setstate__ = function
        kind = type("Heir", (base,), {"__module__": __name__})
        data = b"\x80\x04" + named(__name__, "Heir") + MADE + STATE + b"."
        with pytest.raises(pickle.UnpicklingError, match=r"an object of somewhere\.C"):
            loads_all(data, lambda *_: kind, is_own)


Point = namedtuple("Point", "x y")


class Colour(enum.Enum):
    RED = 1


class Bidict(dict):
    """Of a package that the program uses, say."""

    def __reduce__(self):
        return Bidict, (dict(self),)


def nothing():
    return 0


FOREIGN = {
    "function": (lambda: function, "test_classes.function"),
    "builtin": (lambda: len, "builtins.len"),
    "pattern": (lambda: re.compile("a"), "re._compile"),
    "array": (lambda: np.arange(3.0), "_reconstruct"),
    "array of objects": (lambda: np.array([{}, 1], object), "_reconstruct"),
    "type of arrays": (lambda: np.dtype("f4"), "numpy"),
    "class with arguments": (lambda: Bidict(a=1), "Bidict, which has a __reduce__"),
    "named tuple": (lambda: Point(1, 2), "Point, which has a __new__"),
    "enumeration": (lambda: Colour.RED, "Colour, which has a __new__"),
    "factory": (lambda: defaultdict(nothing, a=1), "test_classes.nothing"),
    "date": (lambda: datetime.date(2000, 1, 2), "datetime.date"),
    "time": (lambda: np.datetime64("2000-01-02"), "scalar"),
    "path": (lambda: pathlib.Path("a"), r"pathlib[\w.]*.PosixPath"),
    "number": (lambda: decimal.Decimal("0.1"), "decimal.Decimal"),
    "complex": (lambda: 1j, "builtins.complex"),
    "sorted": (lambda: SortedDict(a=1), "SortedDict"),
    "partial": (lambda: functools.partial(nothing), "functools.partial"),
    "method": (lambda: Vocabulary("ab").__eq__, "builtins.getattr"),
    "ellipsis": (lambda: ..., "ellipsis|Ellipsis"),
    "ufunc": (lambda: np.sin, "numpy.*sin|_ufunc_reconstruct"),
}


@pytest.fixture
def other_process():
    """Be another process to those who look at signatures."""
    process, key = current_process(), current_process().authkey

    def become():
        process.authkey = bytes(32)

    yield become
    process.authkey = key


@pytest.mark.parametrize(("made", "name"), FOREIGN.values(), ids=FOREIGN)
class TestForeign:
    """What pickle can save is saved. It is read in the process that has saved it."""

    @pytest.fixture
    def base(self, tmp_path, made):
        base, m = str(tmp_path / "pair"), dy.ParameterCollection()
        dy.save(base, [m.add_parameters(1), Model([made()], m)])
        return base

    def check(self, things, made):
        assert pickle.dumps(things[1].spec) == pickle.dumps([made()])

    def test_same_process(self, base, made, name):
        self.check(dy.load(base, dy.ParameterCollection()), made)

    def test_python_reads_it(self, base, made, name):
        with open(base + ".meta", "rb") as file:
            assert pickle.load(file) == ("Parameters", "/_0")
            assert pickle.dumps(pickle.load(file)[1]) == pickle.dumps([made()])

    def test_another_process(self, base, made, name, other_process):
        other_process()
        match = rf"(?s){name}.*dy\.load\(\.\.\., trust=True\)"
        with pytest.raises(pickle.UnpicklingError, match=match):
            dy.load(base, dy.ParameterCollection())
        self.check(dy.load(base, dy.ParameterCollection(), trust=True), made)

    def test_changed(self, base, made, name):
        """By a byte: it is no longer what this process has saved."""
        path = pathlib.Path(base + ".meta")
        path.write_bytes(path.read_bytes().replace(b"/model/", b"/model-"))
        with pytest.raises(pickle.UnpicklingError, match=name):
            dy.load(base, dy.ParameterCollection())


class TestSignature:
    def test_of_another_file(self, tmp_path, monkeypatch):
        """It holds for one file."""
        base, m = str(tmp_path / "pair"), dy.ParameterCollection()
        dy.save(base, [Model([Point(1, 2)], m)])
        start = pathlib.Path(base + ".meta").read_bytes()[:37]
        entry = pickle.dumps((Model, Reduces(), "/model/"), 4)
        pathlib.Path(base + ".meta").write_bytes(start + entry[2:])
        called = []
        monkeypatch.setattr(os, "system", called.append)
        with pytest.raises(pickle.UnpicklingError, match=r"posix\.system|nt\.system"):
            dy.load(base, dy.ParameterCollection())
        assert not called

    def test_only_where_it_is_needed(self, tmp_path):
        """What DyNet alone can name is the same file from any process."""
        base, m = str(tmp_path / "pair"), dy.ParameterCollection()
        dy.save(base, [m.add_parameters(1), dy.BiRNNBuilder(1, 1, 2, m, dy.GRUBuilder)])
        data = pathlib.Path(base + ".meta").read_bytes()
        assert data == b"".join(
            dumps(value, name_of)
            for value in (
                ("Parameters", "/_0"),
                (dy.BiRNNBuilder, (1, 1, 2, dy.GRUBuilder, None), "/birnn/"),
            )
        )

    def test_workers(self, tmp_path):
        """A process that another one starts reads what that one has saved."""
        (tmp_path / "program.py").write_text(WORKER)
        done = subprocess.run(
            [sys.executable, "program.py"],
            cwd=tmp_path,
            capture_output=True,
            text=True,
            timeout=100,
        )
        assert done.stdout == "a\n", done.stderr


WORKER = """
import multiprocessing
from pathlib import Path
import dynetjax as dy

class Model:
    def __init__(self, spec, model):
        self.spec, self.collection = spec, model.add_subcollection("model")
    def param_collection(self):
        return self.collection
    @classmethod
    def from_spec(cls, spec, model):
        return cls(spec, model)

def show():
    print(dy.load("pair", dy.ParameterCollection())[0].spec, flush=True)

if __name__ == "__main__":
    dy.save("pair", [Model(Path("a"), dy.ParameterCollection())])
    worker = multiprocessing.get_context("spawn").Process(target=show)
    worker.start()
    worker.join()
"""


class TestOperations:
    """Known by their names, as classes of builders are."""

    def test_loaded(self, tmp_path, other_process):
        base, m = str(tmp_path / "pair"), dy.ParameterCollection()
        dy.save(base, [Model((dy.tanh, dy.rectify), m)])
        data = pathlib.Path(base + ".meta").read_bytes()
        assert b"_dynet" in data
        assert b"ops" not in data
        other_process()
        for trust in False, True:
            (found,) = dy.load(base, m, trust=trust)
            assert found.spec == (dy.tanh, dy.rectify)

    @pytest.mark.parametrize("name", ["save", "init", "np", "__loader__", "jax_op2"])
    def test_other_functions(self, name):
        with pytest.raises(pickle.UnpicklingError, match="not known"):
            find_part("_dynet", name)

    def test_not_called(self):
        data = b"\x80\x04" + named("_dynet", "zeros") + b"K\x03\x85R."
        with pytest.raises(pickle.UnpicklingError, match=DAMAGED):
            loads_all(data, find_part, is_own)


def levels(count):
    value = Point(1, 2)
    for _ in range(count):
        value = [value]
    return value


class TestDeep:
    """As deep as Python's own pickles may be."""

    def test_comes_back(self, tmp_path):
        base, m = str(tmp_path / "pair"), dy.ParameterCollection()
        deepest = 150
        while _can_be_pickled(levels(2 * deepest)) and deepest < 1000:
            deepest *= 2
        dy.save(base, [Model(levels(deepest), m), dy.GRUBuilder(1, 1, 1, m)])
        found = dy.load(base, m)[0].spec
        for _ in range(deepest):
            (found,) = found
        assert found == Point(1, 2)

    def test_refused(self, tmp_path):
        model = Model(levels(10**5), dy.ParameterCollection())
        with pytest.raises(pickle.PicklingError, match="save: spec is too deep"):
            dy.save(str(tmp_path / "pair"), [model])


def _can_be_pickled(value):
    try:
        return bool(pickle.dumps(value))
    except RecursionError:
        return False


class TestSave:
    @pytest.mark.parametrize(
        ("value", "match"),
        [
            (lambda: 0, "cannot be found by its name"),
            (threading.Lock(), "no pickle can hold"),
            ((x for x in "a"), "no pickle can hold"),
            (type("Local", (), {"__qualname__": "f.<locals>.Local"}), "by its name"),
        ],
        ids=lambda value: type(value).__name__,
    )
    def test_refused(self, value, match, tmp_path):
        model = Model([Vocabulary("a")], dy.ParameterCollection())
        model.spec[0].more = value
        with pytest.raises(pickle.PicklingError, match=match):
            dy.save(str(tmp_path / "pair"), [model])
        assert not list(tmp_path.iterdir())

    def test_collection(self, tmp_path):
        model = Model(Vocabulary("a"), dy.ParameterCollection())
        gru = dy.GRUBuilder(1, 1, 1, dy.ParameterCollection())
        for thing in model.collection, model.W, gru:
            model.spec.more = thing
            with pytest.raises(pickle.PicklingError, match="keep collections and para"):
                dy.save(str(tmp_path / "pair"), [model])


class TestTrusted:
    @pytest.fixture
    def base(self, tmp_path):
        """A pair as DyNet writes it, with an object that is not the program's."""
        base, m = str(tmp_path / "pair"), dy.ParameterCollection()
        model, W = Model(pathlib.PurePosixPath("/a"), m), m.add_parameters(1)
        spec, model.spec = model.spec, ()
        lstm = dy.VanillaLSTMBuilder(1, 1, 1, m)
        dy.save(base, [model, W, lstm])
        with open(base + ".meta", "wb") as file:
            pickle.dump((Model, spec, "/model/"), file)
            pickle.dump(("Parameters", "/_0"), file)
            file.write(
                dumps((type(lstm), lstm.spec, "/vanilla-lstm-builder/"), name_of)
            )
        return base

    @pytest.mark.parametrize("load", [dy.load, dy.load_generator])
    def test_as_pickle_does(self, base, load):
        found, W, lstm = load(base, dy.ParameterCollection(), trust=True)
        assert found.spec == pathlib.PurePosixPath("/a")
        assert W.shape() == (1,)
        assert type(lstm) is dy.VanillaLSTMBuilder

    def test_damaged(self, base):
        data = pathlib.Path(base + ".meta").read_bytes()
        for end in 1, 30, -1:
            pathlib.Path(base + ".meta").write_bytes(data[:end])
            with pytest.raises(
                pickle.UnpicklingError, match="cannot be made again here"
            ):
                dy.load(base, dy.ParameterCollection(), trust=True)

    def test_not_without(self, base):
        with pytest.raises(pickle.UnpicklingError, match="pathlib"):
            dy.load(base, dy.ParameterCollection())
        with pytest.raises(TypeError, match="positional"):
            dy.load(base, dy.ParameterCollection(), True)

    def test_what_is_no_class(self, base):
        data = pickle.dumps((os.getpid, 1, "/model/"))
        pathlib.Path(base + ".meta").write_bytes(data)
        with pytest.raises(pickle.UnpicklingError, match="has other pickles than"):
            dy.load(base, dy.ParameterCollection(), trust=True)


PROGRAM = """
import sys
import dynet as dy
from words import Vocabulary

class Options:
    pass

class Tagger:
    def __init__(self, spec, model):
        self.spec = spec
        self.pc = model.add_subcollection("tagger")
        self.E = self.pc.add_lookup_parameters((len(spec[0].index), 2))
    def param_collection(self):
        return self.pc
    @classmethod
    def from_spec(cls, spec, model):
        return cls(spec, model)

m = dy.ParameterCollection()
if sys.argv[1] == "save":
    options = Options()
    options.size = 2
    dy.save("model", [Tagger((Vocabulary("ab"), options), m)])
else:
    (tagger,) = dy.load("model", m)
    words, options = tagger.spec
    print(words.index, options.size, tagger.E.shape())
"""


def test_another_process(tmp_path):
    """A vocabulary of a module and an object of the program, as parsers have them."""
    (tmp_path / "words.py").write_text(
        "class Vocabulary:\n"
        "    def __init__(self, words):\n"
        "        self.index = {w: i for i, w in enumerate(words)}\n"
    )
    (tmp_path / "program.py").write_text(PROGRAM)
    for word in "save", "load":
        done = subprocess.run(
            [sys.executable, "-m", "dynetjax", "program.py", word],
            cwd=tmp_path,
            capture_output=True,
            text=True,
        )
        assert not done.returncode, done.stderr
    assert done.stdout == "{'a': 0, 'b': 1} 2 (2, 2)\n"


FOREIGN_PROGRAM = PROGRAM.replace(
    "options.size = 2", "options.size = Path('a')"
).replace("import sys\n", "import sys\nfrom pathlib import Path\n")


@pytest.mark.parametrize("start", ["", "import dynet_config\ndynet_config.set(mem=9)"])
def test_flag(tmp_path, start):
    """A file with objects of a library, and a program that takes DyNet's words."""
    (tmp_path / "words.py").write_text("class Vocabulary:\n    index = ()\n")
    (tmp_path / "words.py").write_text(
        "class Vocabulary:\n"
        "    def __init__(self, words):\n"
        "        self.index = {w: i for i, w in enumerate(words)}\n"
    )
    (tmp_path / "program.py").write_text(start + FOREIGN_PROGRAM)

    def run(*words):
        line = [sys.executable, "-m", "dynetjax", "program.py", *words]
        return subprocess.run(line, cwd=tmp_path, capture_output=True, text=True)

    assert not run("save").returncode
    refused = run("load")
    assert refused.returncode == 1
    assert "pathlib" in refused.stderr
    assert "dy.load(..., trust=True)" in refused.stderr
    done = run("load", "--dynet-trust")
    assert done.stdout == "{'a': 0, 'b': 1} a (2, 2)\n", done.stderr
