"""Models are served where there is no dynetjax."""

import json
import subprocess
import sys
import zipfile

import numpy as np
import pytest

import dynetjax as dy

flatbuffers = pytest.importorskip("flatbuffers")

MOST, VOCABULARY = 6, 20
PROGRAM = """
import json, sys
sys.modules["dynetjax"] = sys.modules["dynet"] = None  # importing them raises
file, result = sys.argv[1:]
sys.path.insert(0, file)
import numpy as np
import served
tagger = served.load(file)
tagger.warm_up()
sentences = json.loads(sys.stdin.read())
np.savez(result, *[tagger(words) for words in sentences])
assert not [name for name in sys.modules if name.startswith("dynetjax.")]
"""


@pytest.fixture(scope="module")
def tagger():
    m = dy.ParameterCollection()
    E = m.add_lookup_parameters((VOCABULARY, 4))
    birnn = dy.BiRNNBuilder(2, 4, 6, m, dy.VanillaLSTMBuilder)
    W, b = m.add_parameters((3, 6)), m.add_parameters(3, init=1)

    def scores(words):
        dy.renew_cg()
        states = birnn.transduce([E[w] for w in words])
        return [dy.softmax(dy.affine_transform([b, W, h])) for h in states]

    return scores


@pytest.fixture(scope="module")
def file(tagger, tmp_path_factory):
    path = tmp_path_factory.mktemp("served") / "tagger.zip"
    dy.export(tagger, words=dy.Ids(VOCABULARY, max_len=MOST)).save(path)
    return path


@pytest.fixture(scope="module")
def served(file):
    return dy.load_export(file)


def test_jax_alone(tagger, file, tmp_path):
    """Sentences of all lengths, in a process that cannot import dynetjax."""
    random = np.random.RandomState(5)
    sentences = [
        random.randint(VOCABULARY, size=n).tolist() for n in range(1, MOST + 1)
    ]
    command = [sys.executable, "-c", PROGRAM, file, tmp_path / "values.npz"]
    text = json.dumps(sentences)
    subprocess.run(command, input=text, text=True, check=True, timeout=300)
    found = np.load(tmp_path / "values.npz")
    assert len(found.files) == MOST
    for name, words in zip(found.files, sentences, strict=True):
        expected = np.array([x.npvalue() for x in tagger(words)])
        assert found[name].shape == (len(words), 3)
        assert np.allclose(found[name], expected, atol=1e-5)


def test_arguments_by_name_and_as_arrays(served):
    expected = np.array(served([1, 2, 3]))
    for given in (np.array([1, 2, 3]), (1, 2, 3), np.array([1, 2, 3], np.uint8)):
        assert (np.array(served(words=given)) == expected).all()


@pytest.mark.parametrize(
    ("words", "kind", "match"),
    [
        ([1] * (MOST + 1), ValueError, r"words has shape \[7\], not \['1 to 6'\]"),
        ([], ValueError, r"words has shape \[0\], not \['1 to 6'\]"),
        ([[1, 2]], ValueError, r"words has shape \[1, 2\]"),
        ([1, VOCABULARY], ValueError, "words has 20, and not 0 to 19"),
        ([-1], ValueError, "words has -1, and not 0 to 19"),
        ([1.0, 2.0], TypeError, "words has float64, and not ints"),
    ],
)
def test_bad_arguments(served, words, kind, match):
    with pytest.raises(kind, match=match):
        served(words)


def test_other_arguments(served):
    match = r"the arguments are \['words'\]; got \(\.\.\., tags=\.\.\.\)"
    with pytest.raises(TypeError, match=match):
        served([1], tags=[2])
    with pytest.raises(TypeError, match="the arguments are"):
        served()


def test_lengths_that_differ():
    def f(a, b):
        return dy.inputVector([*a, *b])

    a, b = dy.Ids(9, max_len=3), dy.Numbers((), like="a")
    exported = dy.export(f, a=a, b=b)
    assert exported([1, 2], [3.5, 4]).tolist() == [1, 2, 3.5, 4]
    with pytest.raises(ValueError, match=r"b has shape \[1\], not \[2\]"):
        exported([1, 2], [3])


def test_no_such_file(tmp_path):
    with pytest.raises(FileNotFoundError):
        dy.load_export(tmp_path / "nothing.zip")


def test_other_files(tmp_path):
    path = tmp_path / "other.zip"
    path.write_text("no zip")
    with pytest.raises(ValueError, match="no model that dynetjax exported"):
        dy.load_export(path)
    with zipfile.ZipFile(path, "w") as archive:
        archive.writestr("other.txt", "nothing")
    with pytest.raises(ValueError, match="no model that dynetjax exported"):
        dy.load_export(path)


def test_damaged(file, tmp_path):
    """A program has another byte than was written."""
    data = bytearray(file.read_bytes())
    at = data.index(b"programs/3/program") + 200
    data[at] ^= 255
    path = tmp_path / "damaged.zip"
    path.write_bytes(data)
    served = dy.load_export(path)
    assert np.shape(served([1, 2])) == (2, 3)
    with pytest.raises(ValueError, match="zip is damaged"):
        served([1, 2, 3])


def test_later_versions(tmp_path):
    path = tmp_path / "later.zip"
    with zipfile.ZipFile(path, "w") as archive:
        archive.writestr("served.json", json.dumps({"format": 99, "parameters": {}}))
    with pytest.raises(ValueError, match="of a later version of dynetjax"):
        dy.load_export(path)
