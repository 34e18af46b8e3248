"""Exported programs, against the values of dynetjax for the same arguments."""

import json
import sys
import zipfile

import jax
import numpy as np
import pytest

import dynetjax as dy
from dynetjax.graph import are_lines_noted

VOCABULARY, TAGS, MOST = 50, 5, 9
RANDOM = np.random.RandomState(3)


class Tagger:
    def __init__(self, lstm=dy.VanillaLSTMBuilder):
        self.model = dy.ParameterCollection()
        self.E = self.model.add_lookup_parameters((VOCABULARY, 6))
        self.birnn = dy.BiRNNBuilder(1, 6, 8, self.model, lstm)
        self.W = self.model.add_parameters((TAGS, 8))
        self.b = self.model.add_parameters(TAGS, init=0.5)

    def scores(self, words):
        dy.renew_cg()
        states = self.birnn.transduce([self.E[w] for w in words])
        return [dy.affine_transform([self.b, self.W, h]) for h in states]

    def loss(self, words, tags):
        pairs = zip(self.scores(words), tags, strict=True)
        return dy.esum([dy.pickneglogsoftmax(scores, t) for scores, t in pairs])


def sentence(length):
    return RANDOM.randint(VOCABULARY, size=length).tolist()


@pytest.fixture(scope="module")
def tagger():
    return Tagger()


@pytest.fixture(scope="module")
def exported(tagger):
    return dy.export(tagger.scores, words=dy.Ids(VOCABULARY, max_len=MOST))


class TestValues:
    @pytest.mark.parametrize("length", [1, 2, MOST])
    def test_tagger(self, tagger, exported, length):
        words = sentence(length)
        expected = [scores.npvalue() for scores in tagger.scores(words)]
        assert np.allclose(exported(words), expected, atol=1e-5)
        assert np.shape(exported(words)) == (length, TAGS)

    def test_the_same_word_twice(self, tagger, exported):
        """What two examples never had alike is alike here."""
        expected = [scores.npvalue() for scores in tagger.scores([7, 7, 7])]
        assert np.allclose(exported([7, 7, 7]), expected, atol=1e-5)

    def test_classes(self, tagger):
        tags = dy.Ids(TAGS, like="words")
        words = dy.Ids(VOCABULARY, max_len=4)
        exported = dy.export(tagger.loss, words=words, tags=tags)
        for given in ([1, 2, 3], [4, 0, 4]), ([9, 9], [1, 1]), ([5], [2]):
            expected = tagger.loss(*given).value()
            assert np.allclose(exported(*given), expected, atol=1e-5)
            assert np.shape(exported(*given)) == ()

    def test_bits(self):
        """There are but two values of each of many arguments."""
        exported = dy.export(
            lambda bits: [dy.pick(dy.inputVector([5, 7]), b) for b in bits],
            bits=dy.Ids(2, min_len=30, max_len=30),
        )
        bits = RANDOM.randint(2, size=30)
        assert (np.array(exported(bits)) == np.where(bits, 7, 5)).all()

    def test_numbers(self):
        """Numbers of the arguments in any order, and among fixed ones."""

        def f(x, rows, k):
            mixed = dy.inputVector([x[1], 10, x[0], 20])
            batch = dy.inputTensor(rows.T, batched=True)
            return {"mixed": mixed * k, "rows": (dy.sum_batches(batch), batch)}

        shape = {"x": dy.Numbers((2,)), "rows": dy.Numbers((2,), max_len=3)}
        exported = dy.export(f, **shape, k=dy.Numbers())
        rows = np.arange(6.0).reshape(3, 2)
        found = exported([1, 2], rows, 3)
        assert found["mixed"].tolist() == [6, 30, 3, 60]
        assert found["rows"][0].tolist() == [6, 9]
        assert found["rows"][1].tolist() == rows.T.tolist()
        assert exported([1, 2], rows[:1], 3)["rows"][0].tolist() == [0, 1]

    def test_batches(self, tagger):
        """A batch of rows, one of them padding that the function adds itself."""

        def f(words, at, gold):
            xs = dy.lookup_batch(tagger.E, [*words, 0])
            losses = dy.pickneglogsoftmax_batch(xs, [*gold, 1])
            return dy.pick_batch_elem(losses, at) + dy.sum_batches(losses)

        words, gold = dy.Ids(VOCABULARY, max_len=3), dy.Ids(6, like="words")
        exported = dy.export(f, words=words, at=dy.Id(2), gold=gold)
        dy.renew_cg()
        expected = f([4, 8], 1, [5, 0]).value()
        assert np.allclose(exported([4, 8], 1, [5, 0]), expected, atol=1e-5)

    def test_two_lengths(self, tagger):
        def f(a, b):
            return dy.dot_product(
                dy.esum([tagger.E[k] for k in a]), dy.average([tagger.E[k] for k in b])
            )

        either = dy.Ids(VOCABULARY, max_len=3)
        exported = dy.export(f, a=either, b=either)
        for a, b in ([1], [2, 3, 4]), ([5, 6], [7]):
            dy.renew_cg()
            assert np.allclose(exported(a=a, b=b), f(a, b).value(), atol=1e-5)

    def test_attention(self, tagger):
        """Lengths are sizes of matrices, too."""

        def f(words):
            M = dy.concatenate_cols([tagger.E[w] for w in words])
            return M * dy.softmax(dy.transpose(M) * tagger.E[words[0]])

        exported = dy.export(f, words=dy.Ids(VOCABULARY, max_len=4))
        for words in [1, 2, 3, 4], [6], [8, 8]:
            dy.renew_cg()
            assert np.allclose(exported(words), f(words).npvalue(), atol=1e-5)


class TestParameters:
    def test_values_are_those_of_the_export(self):
        m = dy.ParameterCollection()
        p = m.add_parameters(2, init=1)
        exported = dy.export(lambda k: dy.pick(p, k), k=dy.Id(2))
        p.set_value([5, 5])
        assert exported(0) == 1

    def test_equal_names(self):
        """Each of two collections has a parameter of the name."""
        p, q = [
            dy.ParameterCollection().add_parameters(2, init=k, name="p") for k in (1, 2)
        ]
        exported = dy.export(lambda k: dy.pick(p + 10 * q, k), k=dy.Id(2))
        assert exported(0) == 21
        assert list(exported.parameters) == ["/p", "/p#2"]

    def test_pure_function(self, tagger):
        """The gradient by JAX is that of the graph."""
        tags = dy.Ids(TAGS, like="words")
        words = dy.Ids(VOCABULARY, max_len=2)
        exported = dy.export(tagger.loss, words=words, tags=tags)
        given = np.array([3, 3]), np.array([0, 2])
        gradients = jax.grad(exported.function(2))(exported.parameters, *given)
        tagger.loss([3, 3], [0, 2]).backward()
        for p in (tagger.W, tagger.b):
            assert np.allclose(gradients[p.name()], p.grad_as_array(), atol=1e-5)


@pytest.fixture(scope="module")
def file(exported, tmp_path_factory):
    pytest.importorskip("flatbuffers")
    path = tmp_path_factory.mktemp("served") / "tagger.zip"
    exported.save(path)
    return path


class TestFile:
    def test_loaded(self, exported, file):
        words = sentence(4)
        assert np.allclose(dy.load_export(file)(words), exported(words), atol=1e-6)

    def test_has_each_parameter_once(self, exported, file):
        with zipfile.ZipFile(file) as archive:
            arrays = [n for n in archive.namelist() if n.endswith(".npy")]
            programs = [n for n in archive.namelist() if n.startswith("programs/")]
            about = json.loads(archive.read("served.json"))
        assert len(arrays) == len(exported.parameters) == len(about["parameters"])
        assert len(programs) == MOST
        assert about["platforms"] == ["cpu", "cuda", "tpu"]

    def test_has_no_gradients(self, file):
        served = dy.load_export(file)
        program = served._of((2,))
        words = np.array([1, 2], np.int32)
        with pytest.raises(ValueError, match="VJP"):
            jax.grad(lambda p: program(p, words).sum())(served.parameters)

    def test_no_pickles(self, file):
        with zipfile.ZipFile(file) as archive:
            for name in archive.namelist():
                if name.endswith(".npy"):
                    with archive.open(name) as entry:
                        array = np.lib.format.read_array(entry, allow_pickle=False)
                    assert array.dtype == np.float32

    def test_stablehlo(self, exported):
        """A program takes the ids as an argument, and holds no table."""
        text = exported.stablehlo(4)
        assert "stablehlo" in text
        assert "tensor<4xi32>" in text
        assert f"tensor<{VOCABULARY}x6xf32>" in text

    def test_cannot_be_written(self, exported, tmp_path):
        with pytest.raises(OSError, match="save: cannot write"):
            exported.save(tmp_path / "no" / "folder.zip")
        with pytest.raises(AttributeError, match="save: the name of the file"):
            exported.save(7)

    def test_without_flatbuffers(self, exported, tmp_path, monkeypatch):
        monkeypatch.setitem(sys.modules, "jax._src.export.serialization", None)
        with pytest.raises(ImportError, match=r"pip install dynetjax\[io\]"):
            exported.save(tmp_path / "tagger.zip")
        assert not list(tmp_path.iterdir())


class TestErrors:
    words = dy.Ids(VOCABULARY, max_len=3)

    def refused(self, f, match, kind=ValueError, **arguments):
        with pytest.raises(kind, match=match) as caught:
            dy.export(f, **(arguments or {"words": self.words}))
        return str(caught.value)

    @pytest.mark.parametrize(
        "use",
        [
            lambda w: w == 0,
            lambda w: w < 3,
            lambda w: w + 1,
            lambda w: {0: 1}.get(w),
            lambda w: not w,
            lambda w: [1, 2] * w,
        ],
    )
    def test_ids_are_used(self, tagger, use):
        def f(words):
            return tagger.E[1 if use(words[0]) else 2]

        self.refused(f, r"words\[0\] is used outside operations", TypeError)

    def test_graphs_differ(self, tagger):
        """A list is indexed by an id."""
        functions = [dy.tanh, dy.exp, dy.sin, dy.cos] * 20

        def f(words):
            return functions[words[0]](tagger.E[3])

        text = self.refused(f, "examples of the same lengths make different graphs")
        assert "test_export.py" in text
        assert "(f)" in text

    def test_numbers_are_no_arguments(self, tagger):
        """A list of other ids is indexed by an id."""
        others = [*range(10, 40), *range(10, 40)]

        def f(words):
            x = tagger.E[others[words[0]]]
            return dy.tanh(x)

        line = f.__code__.co_firstlineno + 1
        text = self.refused(f, "lookup has a number that is neither an argument")
        assert f"test_export.py:{line} (f)" in text

    def test_random(self, tagger):
        def f(words):
            return dy.dropout(tagger.E[words[0]], 0.5)

        self.refused(f, "export: dropout draws random numbers")

    def test_values_are_read(self, tagger):
        def f(words):
            x = dy.sum_elems(tagger.E[words[0]])
            return x * (2 if x.value() > 0 else 3)

        self.refused(f, "export: the function reads a value")

    @pytest.mark.parametrize("result", [3, [], None, ()])
    def test_no_expressions(self, result):
        self.refused(lambda words: result, "returns something else", TypeError)

    def test_lists_of_other_dims(self, tagger):
        def f(words):
            return [tagger.E[words[0]], tagger.b]

        self.refused(f, r"a list of dims \{\d\}, \{\d\}", TypeError)

    def test_arguments(self, tagger):
        f = tagger.scores
        match = "what words is was not told"
        self.refused(f, match, TypeError, words=[1, 2, 3])
        with pytest.raises(TypeError, match="missing a required argument"):
            dy.export(f, tags=self.words)
        with pytest.raises(TypeError, match="export: there are no arguments"):
            dy.export(lambda: tagger.b)
        match = "words is like an argument without max_len"
        self.refused(f, match, words=dy.Ids(5, like="other"))

    def test_too_many_lengths(self):
        match = r"too many lengths(.|\n)*100 \* 100 programs"
        long = dy.Ids(5, max_len=100)
        self.refused(lambda a, b: None, match, a=long, b=long)

    def test_errors_of_the_function(self, tagger):
        """They say for which lengths it was built."""

        def f(words):
            return dy.concatenate([tagger.E[w] for w in words[2:]])

        with pytest.raises(AssertionError, match="concatenate") as caught:
            dy.export(f, words=self.words)
        assert "lengths {'words': 1}" in caught.value.__notes__[0]

    def test_lines_are_noted_no_longer(self, tagger):
        self.test_graphs_differ(tagger)
        assert not are_lines_noted()

    def test_no_program(self, exported):
        with pytest.raises(ValueError, match="no program for these lengths"):
            exported.function(MOST + 1)
        with pytest.raises(ValueError, match="no program for these lengths"):
            exported.stablehlo()
