"""ClassFactoredSoftmaxBuilder against DyNet's numbers and NumPy."""

import pathlib
import random

import numpy as np
import pytest

import dynetjax as dy

from .golden import fill, x

NUMBERS = [1.959719, 1.980030, 2.680806, 1.634351, 1.095523, 2.094877]
SAVED = pathlib.Path(__file__).parent.parent / "data/builders/class_factored.model"
# As record.py, beside it, prints them.
SAVED_NUMBERS = [3.051495, 1.799975, 2.083174, 0.727436, 2.353673, 2.468538]
WORDS = {f"w{k}": k for k in range(6)}
LINES = "A w0 7\nB\tw1\nA  w2 1 2\n C w3\nB w4\r\nA w5\n"


def make(tmp_path, lines=LINES, words=WORDS, bias=True, size=3):
    dy.renew_cg()
    file = tmp_path / "clusters.txt"
    file.write_bytes(lines.encode())
    m = dy.ParameterCollection()
    builder = dy.ClassFactoredSoftmaxBuilder(size, str(file), words, m, bias)
    for n, p in enumerate(parameters(builder)):
        p.set_value(fill(n, p.shape()))
    return builder


def parameters(builder):
    return builder.param_collection().parameters_list()


def log_softmax(a):
    return a - np.log(np.exp(a).sum())


def test_dynet_numbers(tmp_path):
    builder = make(tmp_path)
    found = [builder.neg_log_softmax(x(1), c).value() for c in range(6)]
    np.testing.assert_allclose(found, NUMBERS, atol=2e-6)
    found = builder.full_log_distribution(x(1)).npvalue()
    np.testing.assert_allclose(found, -np.array(NUMBERS), atol=2e-6)
    found = builder.full_logits(x(1)).npvalue()
    np.testing.assert_allclose(found, -np.array(NUMBERS), atol=2e-6)


@pytest.mark.parametrize("bias", [True, False])
def test_equations(tmp_path, bias):
    builder = make(tmp_path, bias=bias)
    arrays = iter([p.as_array() for p in parameters(builder)])
    v = x(1).npvalue()

    def scores():
        return next(arrays) @ v + (next(arrays) if bias else 0)

    of_classes = scores()
    of_words = [scores(), scores()]
    for update in (True, False):
        pairs = [
            (builder.class_logits(x(1), update), of_classes),
            (builder.class_log_distribution(x(1), update), log_softmax(of_classes)),
        ]
        for k in (0, 1):
            logits = builder.subclass_logits(x(1), k, update)
            logs = builder.subclass_log_distribution(x(1), k, update)
            pairs += [(logits, of_words[k]), (logs, log_softmax(of_words[k]))]
        for found, wanted in pairs:
            np.testing.assert_allclose(found.npvalue(), wanted, atol=1e-6)
    logs = log_softmax(of_classes)
    wanted = np.zeros(6)
    wanted[[0, 2, 5]] = logs[0] + log_softmax(of_words[0])
    wanted[[1, 4]] = logs[1] + log_softmax(of_words[1])
    wanted[3] = logs[2]
    found = builder.full_log_distribution(x(1)).npvalue()
    np.testing.assert_allclose(found, wanted, atol=1e-6)


def test_files_of_dynet(tmp_path):
    """A file that DyNet saved is read, and written again, block by block."""
    m = dy.ParameterCollection()
    m.add_parameters((2, 2))
    (tmp_path / "clusters").write_text(LINES, encoding="utf-8")
    builder = dy.ClassFactoredSoftmaxBuilder(3, tmp_path / "clusters", WORDS, m)
    m.add_parameters(2)
    m.populate(str(SAVED))
    dy.renew_cg()
    found = [builder.neg_log_softmax(x(1), c).value() for c in range(6)]
    np.testing.assert_allclose(found, SAVED_NUMBERS, atol=2e-6)
    m.save(str(tmp_path / "again"))
    heads = [
        [line.split()[:3] for line in path.read_text().splitlines() if line[0] == "#"]
        for path in (SAVED, tmp_path / "again")
    ]
    assert heads[0] == heads[1]
    assert m.parameter_count() == 4 + 12 + 12 + 8 + 2


def test_parameters(tmp_path):
    builder = make(tmp_path)
    own = "/class-factored-softmax-builder/_"
    names = [p.name() for p in parameters(builder)]
    assert names == [f"{own}{k}" for k in range(6)]
    shapes = [p.shape() for p in parameters(builder)]
    assert shapes == [(3, 3), (3,), (3, 3), (3,), (2, 3), (2,)]
    bare = make(tmp_path, bias=False)
    assert [p.shape() for p in parameters(bare)] == [(3, 3), (3, 3), (2, 3)]


def test_classes_of_many_sizes(tmp_path):
    """They are in several tables; all of it agrees."""
    sizes = [1, 2, 3, 40, 1, 9, 2, 7]
    classes = [k for k, n in enumerate(sizes) for _ in range(n)]
    random.Random(1).shuffle(classes)
    lines = "".join(f"c{k} w{w}\n" for w, k in enumerate(classes))
    words = {f"w{w}": w for w in range(len(classes))}
    builder = make(tmp_path, lines, words)
    assert len(builder.param_collection().lookup_parameters_list()) > 1
    wanted = -builder.full_log_distribution(x(1)).npvalue()
    assert np.exp(-wanted).sum() == pytest.approx(1, abs=1e-5)
    found = [builder.neg_log_softmax(x(1), w).value() for w in range(len(words))]
    np.testing.assert_allclose(found, wanted, atol=1e-5)
    order = list(range(len(words)))
    random.Random(2).shuffle(order)
    batch = np.tile(x(1).npvalue()[:, None], len(order))
    losses = builder.neg_log_softmax_batch(dy.inputTensor(batch, batched=True), order)
    np.testing.assert_allclose(losses.npvalue()[0], wanted[order], atol=1e-5)


def test_clusters_compile_nothing(tmp_path):
    """Nor do graphs with other words, or other numbers of them."""
    rng = random.Random(1)
    classes = [rng.randrange(60) for _ in range(400)]
    lines = "".join(f"c{k} w{w}\n" for w, k in enumerate(classes))
    words = {f"w{w}": w for w in range(len(classes))}
    builder = make(tmp_path, lines, words, size=5)
    m = dy.ParameterCollection()
    table = m.add_lookup_parameters((30, 5))
    trainer = dy.SimpleSGDTrainer(builder.param_collection())

    def train(count):
        for _ in range(count):
            dy.renew_cg()
            n = rng.randint(2, 12)
            some = [builder.neg_log_softmax(table[0], rng.randrange(400))]
            some += [
                dy.sum_batches(
                    builder.neg_log_softmax_batch(
                        dy.lookup_batch(table, range(n)), rng.sample(range(400), n)
                    )
                )
            ]
            loss = dy.esum(some)
            loss.value()
            loss.backward()
            trainer.update()

    train(25)
    before = dy.stats()
    train(60)
    after = dy.stats()
    assert after.compilations + after.loads == before.compilations + before.loads


def test_repeated_word(tmp_path):
    """It belongs to its last class, and still has its place in the first."""
    builder = make(tmp_path, "A a\nA b\nB c\nB a\n", {"a": 0, "b": 1, "c": 2})
    assert [p.shape() for p in parameters(builder)][::2] == [(2, 3), (2, 3), (2, 3)]
    W_c, b_c, _, _, W, b = [p.as_array() for p in parameters(builder)]
    v = x(1).npvalue()
    wanted = log_softmax(W_c @ v + b_c)[1] + log_softmax(W @ v + b)[1]
    found = builder.neg_log_softmax(x(1), 0).value()
    assert found == pytest.approx(-wanted, abs=1e-6)


def test_word_in_no_class(tmp_path):
    builder = make(tmp_path, "A a\nA b\n", {"a": 0, "b": 1, "c": 2})
    with pytest.raises(ValueError, match="neg_log_softmax: the word is in no class"):
        builder.neg_log_softmax(x(1), 2)
    batch = dy.inputTensor(np.ones((3, 2)), batched=True)
    with pytest.raises(ValueError, match="batch: the word is in no class"):
        builder.neg_log_softmax_batch(batch, [0, 2])
    found = builder.full_log_distribution(x(1)).npvalue()
    assert found[2] == -np.inf
    assert np.exp(found).sum() == pytest.approx(1, abs=1e-6)


def test_classes(tmp_path):
    builder = make(tmp_path)
    with pytest.raises(ValueError, match="subclass_logits: the class has one word"):
        builder.subclass_logits(x(1), 2)
    with pytest.raises(ValueError, match="subclass_logits: classid is out of range"):
        builder.subclass_logits(x(1), 3)
    with pytest.raises(ValueError, match="subclass_log_distribution: the class has"):
        builder.subclass_log_distribution(x(1), 2)
