"""Ragged axes: padding is never seen, whatever is computed.

The same program runs on exact dims and on ragged ones; values and gradients agree.
"""

import numpy as np
import pytest

import dynetjax as dy
from dynetjax.engine.ir.structures import KNOWN
from dynetjax.graph import current_graph
from dynetjax.ops import ragged
from dynetjax.ops.flow import TO_DEVICE_OP

SIZE, ROWS = 3, 40
RNG = np.random.default_rng(5)
TABLE = RNG.uniform(0.1, 0.9, (ROWS, SIZE))
W = RNG.normal(size=(4, SIZE))
FILTERS = RNG.normal(size=(SIZE, 2, 1, 2))
CHANNELS = RNG.normal(size=(1, 2, SIZE, 2))


class World:
    """A model, and a matrix {3,T} and vectors {T} of it, for one batch size."""

    def __init__(self, length, batch=1):
        self.pc = dy.ParameterCollection()
        self.table = self.pc.lookup_parameters_from_numpy(TABLE)
        self.W = self.pc.parameters_from_numpy(W)
        self.b = self.pc.parameters_from_numpy(W[:, 0])
        self.column = self.pc.parameters_from_numpy(TABLE[0])
        self.filters = self.pc.parameters_from_numpy(FILTERS)
        self.low = self.pc.parameters_from_numpy(FILTERS[:1])
        self.two = self.pc.parameters_from_numpy(W[:2, 0])
        self.filters1d = self.pc.parameters_from_numpy(FILTERS[:, :, 0])
        self.channels = self.pc.parameters_from_numpy(CHANNELS)
        self.length, self.batch = length, batch
        dy.renew_cg()
        self.X = self.matrix(0)

    @property
    def Y(self):
        return self.matrix(7)

    @property
    def v(self):
        return self.vector(3)

    def row(self, k):
        return self.table.batch([(k + 11 * e) % ROWS for e in range(self.batch)])

    def matrix(self, shift):
        return dy.concatenate_cols([self.row(k + shift) for k in range(self.length)])

    def vector(self, shift):
        rows = [self.row(k + shift) for k in range(self.length)]
        return dy.concatenate([dy.pick(row, k % SIZE) for k, row in enumerate(rows)])

    @property
    def image(self):
        """``{1,T,3}``: a row has a number for each channel."""
        rows = [self.row(k + 5) for k in range(self.length)]
        return dy.concatenate([dy.reshape(r, (1, 1, SIZE)) for r in rows], d=1)

    @property
    def rows(self):
        """``{T,3}``."""
        rows = [self.row(k + 2) for k in range(self.length)]
        return dy.concatenate([dy.transpose(r) for r in rows])


PROGRAMS = {
    "abs": lambda w: dy.abs(w.X - w.Y),
    "acos": lambda w: dy.acos(w.X),
    "acosh": lambda w: dy.acosh(w.X + 1.5),
    "add": lambda w: w.X + w.Y,
    "affine_transform": lambda w: dy.affine_transform([w.b, w.W, w.X, w.W, w.Y]),
    "asin": lambda w: dy.asin(w.X),
    "asinh": lambda w: dy.asinh(w.X),
    "atan": lambda w: dy.atan(w.X),
    "atanh": lambda w: dy.atanh(w.X),
    "bmax": lambda w: dy.bmax(w.X, w.Y),
    "bmin": lambda w: dy.bmin(w.X, w.Y),
    "cdiv": lambda w: dy.cdiv(w.X, w.Y),
    "cmult": lambda w: dy.cmult(w.X, w.Y),
    "colwise_add": lambda w: dy.colwise_add(w.X, w.column),
    "concatenate": lambda w: dy.concatenate([w.X, w.Y]),
    "conv2d": lambda w: dy.conv2d(w.X, w.filters, [1, 1]),
    "conv2d with room": lambda w: dy.conv2d(w.X, w.filters, [1, 1], False),
    "conv2d by steps": lambda w: dy.conv2d(w.X, w.low, [2, 1]),
    "conv2d_bias": lambda w: dy.conv2d_bias(w.X, w.filters, w.two, [1, 1]),
    "cos": lambda w: dy.cos(w.X),
    "cosh": lambda w: dy.cosh(w.X),
    "cube": lambda w: dy.cube(w.X),
    "cumsum": lambda w: dy.cumsum(w.X, 1) + dy.cumsum(w.X, 0),
    "dot_product": lambda w: dy.dot_product(w.X, w.Y),
    "elu": lambda w: dy.elu(w.X - w.Y),
    "emax": lambda w: dy.emax([w.X, w.Y]),
    "erf": lambda w: dy.erf(w.X),
    "exp": lambda w: dy.exp(w.X),
    "filter1d_narrow": lambda w: dy.filter1d_narrow(w.X, w.filters1d),
    "flip_gradient": lambda w: dy.flip_gradient(w.X),
    "fold_rows": lambda w: dy.fold_rows(w.X, 3),
    "hinge": lambda w: dy.hinge(w.v, w.length - 1),
    "kmax_pooling": lambda w: dy.kmax_pooling(-w.X, 2),
    "kmax_pooling of columns": lambda w: dy.kmax_pooling(-w.X, 2, 0),
    "kmh_ngram": lambda w: dy.kmh_ngram(w.X, 2),
    "l1_distance": lambda w: dy.l1_distance(w.X, w.Y),
    "lgamma": lambda w: dy.lgamma(w.X),
    "log": lambda w: dy.log(w.X),
    "log_sigmoid": lambda w: dy.log_sigmoid(w.X),
    "log_softmax": lambda w: dy.log_softmax(w.v),
    "log_softmax of columns": lambda w: dy.log_softmax(w.X),
    "logistic": lambda w: dy.logistic(w.X),
    "logsumexp_dim": lambda w: dy.logsumexp_dim(w.X, 1),
    "logsumexp_dim of columns": lambda w: dy.logsumexp_dim(w.X, 0),
    "matmul": lambda w: w.W * w.X,
    "matmul over the axis": lambda w: w.X * w.v,
    "matmul to two axes": lambda w: dy.transpose(w.X) * w.Y,
    "max_dim": lambda w: dy.max_dim(-w.X, 1),
    "max_dim of columns": lambda w: dy.max_dim(-w.X, 0),
    "maxpooling2d": lambda w: dy.maxpooling2d(-w.X, [1, 2], [1, 1]),
    "maxpooling2d of all": lambda w: dy.maxpooling2d(-w.X, [1, w.length], [1, 1]),
    "maxpooling2d with room": lambda w: dy.maxpooling2d(-w.X, [2, 3], [1, 1], False),
    "maxpooling2d of conv2d": lambda w: dy.maxpooling2d(
        -dy.exp(dy.conv2d(w.X, w.filters, [1, 1])), [1, w.length - 1], [1, 1]
    ),
    "mean_elems": lambda w: dy.mean_elems(w.X),
    "min_dim": lambda w: dy.min_dim(w.X, 1),
    "negate": lambda w: -w.X,
    "nobackprop": lambda w: w.X + dy.nobackprop(w.X),
    "to_device": lambda w: current_graph().add(TO_DEVICE_OP, (w.X,)),
    "pick": lambda w: dy.pick(w.X, w.length - 1, 1),
    "pick of another axis": lambda w: dy.pick(w.X, 1, 0),
    "pickneglogsoftmax": lambda w: dy.pickneglogsoftmax(w.v, w.length // 2),
    "pow": lambda w: dy.pow(w.X, dy.scalarInput(2.5)),
    "rectify": lambda w: dy.rectify(w.X - w.Y),
    "scale": lambda w: w.X * 2.5,
    "scale_gradient": lambda w: dy.scale_gradient(w.X, 0.5),
    "selu": lambda w: dy.selu(w.X - w.Y),
    "shift": lambda w: w.X + 1.0,
    "silu": lambda w: dy.silu(w.X),
    "sin": lambda w: dy.sin(w.X),
    "sinh": lambda w: dy.sinh(w.X),
    "softmax": lambda w: dy.softmax(w.v),
    "softmax of columns": lambda w: dy.softmax(w.X),
    "softmax of rows": lambda w: dy.softmax(w.X, 1),
    "softmax of two axes": lambda w: dy.softmax(dy.transpose(w.X) * w.Y),
    "softsign": lambda w: dy.softsign(w.v),
    "sparsemax": lambda w: dy.sparsemax(w.v * 0.5),
    "sqrt": lambda w: dy.sqrt(w.X),
    "square": lambda w: dy.square(w.X),
    "squared_distance": lambda w: dy.squared_distance(w.X, w.Y),
    "squared_norm": lambda w: dy.squared_norm(w.X),
    "subtract": lambda w: w.X - w.Y,
    "subtract_from": lambda w: 1.0 - w.X,
    "sum_elems": lambda w: dy.sum_elems(w.X),
    "sum_over": lambda w: dy.sum_dim(w.X, [1]) + dy.sum_elems(dy.sum_dim(w.X, [0])),
    "mean_dim": lambda w: dy.mean_dim(w.X, [1], False),
    "tan": lambda w: dy.tan(w.X),
    "tanh": lambda w: dy.tanh(w.X),
    "trace_of_product": lambda w: dy.trace_of_product(w.X, w.Y),
    "transpose": lambda w: dy.transpose(w.X),
    "select_cols, by exact dims": lambda w: dy.select_cols(w.X, [0, w.length - 1]),
    "reshape, by exact dims": lambda w: dy.reshape(w.X, (w.length, SIZE)),
    "pick_range, by exact dims": lambda w: dy.pick_range(w.X, 0, w.length, 1),
    "esum, by exact dims": lambda w: dy.esum([w.X, w.Y]),
    "average, by exact dims": lambda w: dy.average([w.X, w.Y, w.X]),
    "std_elems, by exact dims": lambda w: dy.std_elems(w.X),
    "sum_batches, by exact dims": lambda w: dy.sum_batches(w.X),
    "to a batch, by exact dims": lambda w: dy.concatenate_to_batch([w.X, w.Y]),
    "of a batch, by exact dims": lambda w: dy.pick_batch_elem(w.X, w.batch - 1),
    "conv2d of channels": lambda w: dy.max_dim(
        dy.conv2d(w.image, w.channels, [1, 1]), 1
    ),
    "matmul of rows": lambda w: w.rows * dy.transpose(w.W),
    "conv2d by long steps, by exact dims": lambda w: dy.conv2d(w.X, w.filters, [1, 2]),
    "add, of an input": lambda w: w.v + dy.inputVector(list(range(w.length))),
    "cmult, of two axes of an input": lambda w: dy.cmult(
        dy.transpose(w.X) * w.Y, dy.inputTensor(np.eye(w.length) + 1)
    ),
    "of what one axis of is ragged, by exact dims": lambda w: dy.cmult(
        dy.transpose(w.X) * w.Y, (w.v + w.v) * dy.ones((1, w.length))
    ),
    "matmul, of an input": lambda w: w.X * dy.inputVector([0.5] * w.length),
    "restricted, by exact dims": lambda w: dy.log_softmax(w.v, [0]),
}
UNBATCHED = {"hinge", "pickneglogsoftmax", "restricted, by exact dims"}
RANDOM = {"dropout", "dropout_batch", "block_dropout", "noise"}


BATCHED = [name for name in PROGRAMS if name not in UNBATCHED]
GROUPS = [sorted(UNBATCHED), *[BATCHED[k::9] for k in range(9)]]


@pytest.fixture(autouse=True)
def _no_list_is_known():
    """A list whose length was exact is made as then, without being looked at."""


def run(monkeypatch, ragged_too, names, batch):
    """Dims and values of programs, and the gradients of what comes of all of them."""
    monkeypatch.setattr(ragged, "EXACT_LENGTHS", 0 if ragged_too else 10**9)
    monkeypatch.setattr(ragged, "_choices", {})
    world = World(5, batch)
    assert bool(world.X.signature.kind.ragged) == ragged_too
    results = [PROGRAMS[name](world) for name in names]
    values = dy.npvalues([world.X, *results])
    losses = [dy.sum_batches(dy.sum_elems(dy.square(y))) for y in results]
    dy.esum(losses).backward()
    learned = (
        world.table,
        world.W,
        world.filters,
        world.filters1d,
        world.channels,
    )
    gradients = [p.grad_as_array() for p in learned]
    return [y.dim() for y in results], [*values, *gradients]


@pytest.mark.parametrize("names", GROUPS, ids=lambda names: names[0])
def test_padding_is_never_seen(monkeypatch, names):
    batch = 1 if names[0] in UNBATCHED else 2
    exact = run(monkeypatch, False, names, batch)
    padded = run(monkeypatch, True, names, batch)
    assert padded[0] == exact[0]
    of = [
        "X",
        *names,
        *["gradient of " + name for name in ("table", "W", "f", "f1", "c")],
    ]
    for name, a, b in zip(of, padded[1], exact[1], strict=True):
        np.testing.assert_allclose(a, b, rtol=2e-5, atol=1e-6, err_msg=name)


@pytest.mark.parametrize("name", ["add", "cmult", "matmul"])
def test_what_meets_a_ragged_axis_becomes_one(monkeypatch, name):
    """An input of a sentence's length leaves attention as it is."""
    monkeypatch.setattr(ragged, "EXACT_LENGTHS", 0)
    monkeypatch.setattr(ragged, "_choices", {})
    (program,) = [f for n, f in PROGRAMS.items() if n.startswith(f"{name}, of")]
    exact = ragged.exact_uses.total()
    program(World(5))
    assert ragged.exact_uses.total() == exact


def test_a_parameter_stays_as_it_is(monkeypatch):
    """It has as many numbers as the list has rows by chance, and has none itself."""
    monkeypatch.setattr(ragged, "EXACT_LENGTHS", 0)
    monkeypatch.setattr(ragged, "_choices", {})
    world = World(5)
    p = dy.ParameterCollection().add_parameters(5, init=np.arange(5.0))
    total = dy.sum_elems(dy.square(world.v + p))
    v = world.v.npvalue()
    assert total.value() == pytest.approx(((v + np.arange(5)) ** 2).sum(), rel=1e-5)
    total.backward()
    expected = 2 * (v + np.arange(5))
    np.testing.assert_allclose(p.grad_as_array(), expected, rtol=1e-5)


def test_every_rule_has_a_program():
    assert (
        set(ragged.TREATMENT) == {n for n in PROGRAMS if n in ragged.TREATMENT} | RANDOM
    )


@pytest.mark.parametrize("name", sorted(RANDOM))
def test_noise_stays_inside(monkeypatch, name):
    monkeypatch.setattr(ragged, "EXACT_LENGTHS", 0)
    x = World(5).X
    y = dy.dropout_batch(x, 0.5) if name == "dropout_batch" else None
    y = y or getattr(dy, name)(x, 0.5)
    assert y.dim() == ((SIZE, 5), 1)
    total, parts = dy.sum_elems(dy.square(y)).value(), y.npvalue()
    assert total == pytest.approx((parts**2).sum(), rel=1e-5)


def test_mistakes_are_told_with_true_lengths(monkeypatch):
    monkeypatch.setattr(ragged, "EXACT_LENGTHS", 0)
    monkeypatch.setattr(ragged, "_choices", {})
    world = World(5)
    x, other = world.X, dy.concatenate_cols([world.row(k) for k in range(6)])
    with pytest.raises(dy.DimError, match=r"\{3,5\}, \{3,6\}"):
        dy.cmult(x, other)
    with pytest.raises(ValueError, match="5"):
        dy.pick(x, 5, 1)
    with pytest.raises(dy.DimError, match=r"\{3,5\}"):
        x * x


def test_an_axis_is_exact_until_it_has_shown_three_lengths(monkeypatch):
    monkeypatch.setattr(ragged, "_choices", {})
    world = World(4)
    rows = [world.row(k) for k in range(9)]

    def columns(count):
        return dy.concatenate_cols(rows[:count]).signature.kind

    assert [columns(n).ragged for n in (4, 9, 4, 9)] == [()] * 4
    assert columns(6).ragged == (1,)
    assert columns(4).shape == (SIZE, 16)  # room for nine


def test_lists_of_known_lengths_are_ragged_once_others_come(monkeypatch):
    """They were made quickly before."""
    monkeypatch.setattr(ragged, "_choices", {})
    found = []
    for lengths in [3, 3, 3, 4, 4, 3], [5], [3, 4]:
        for length in lengths:
            dy.renew_cg()
            X = dy.concatenate_cols(
                [dy.tanh(dy.inputVector([k])) for k in range(length)]
            )
            found.append(bool(X.signature.kind.ragged))
            np.testing.assert_allclose(X.npvalue(), [np.tanh(range(length))], rtol=1e-6)
    assert found == [False] * 6 + [True] * 3


def test_for_long_lists_two_lengths_are_enough(monkeypatch):
    monkeypatch.setattr(ragged, "_choices", {})
    world = World(4)
    rows = [world.row(k) for k in range(12)]
    kinds = [dy.concatenate_cols(rows[:count]).signature.kind for count in (9, 9, 12)]
    assert [kind.ragged for kind in kinds] == [(), (), (1,)]
    assert kinds[-1].shape == (SIZE, 16)


def test_room_grows_at_once_and_shrinks_with_patience(monkeypatch):
    monkeypatch.setattr(ragged, "PATIENCE", 5)
    choice = ragged.RoomChoice(dy.concatenate.op, 1)
    assert [choice.take(n) for n in (3, 4, 5, 30)] == [0, 0, 8, 32]
    assert [choice.take(7) for _ in range(8)] == [32] * 7 + [8]
    assert choice.take(9) == 16


def test_what_was_built_before_an_axis_grew(monkeypatch):
    """What was put together before keeps its room, beside what has the new one."""
    monkeypatch.setattr(ragged, "_choices", {})
    monkeypatch.setattr(ragged, "EXACT_LENGTHS", 0)
    world = World(3)
    short = dy.tanh(world.W * world.X)
    softened = dy.softmax(short, 1)
    long = dy.concatenate_cols([world.row(k) for k in range(20)])
    total = dy.sum_elems(softened) + dy.mean_elems(long) + dy.std_elems(short)
    x = TABLE[np.arange(3) % ROWS].T
    h = np.tanh(W @ x)
    expected = 4 + TABLE[:20].mean() + h.std()
    assert total.value() == pytest.approx(expected, rel=1e-5)
    shapes = [x.signature.kind.shape for x in (short, long)]
    assert shapes == [(4, 8), (3, 32)]
    np.testing.assert_allclose(short.npvalue(), h, rtol=1e-5)


def test_lists_as_long_with_different_rooms(monkeypatch):
    """Rows that something else computed have been in longer lists before."""
    monkeypatch.setattr(ragged, "_choices", {})
    monkeypatch.setattr(ragged, "EXACT_LENGTHS", 0)
    for length in (20, 5):
        world = World(length)
        x = world.X
        short = range(5)
        y = dy.concatenate_cols([dy.tanh(world.row(k)) for k in short])
    assert (x.signature.kind.shape, y.signature.kind.shape) == ((SIZE, 32), (SIZE, 8))
    a = TABLE[:5].T
    b = np.tanh(a)
    results = {
        "cmult": (dy.cmult(x, y), a * b),
        "concatenate": (dy.concatenate([y, x]), np.concatenate([b, a])),
        "affine": (
            dy.affine_transform([world.b, world.W, x, world.W, y]),
            W @ (a + b) + W[:, :1],
        ),
        "product": (x * dy.transpose(y), a @ b.T),
        "other product": (dy.transpose(y) * x, b.T @ a),
    }
    assert results["cmult"][0].signature.kind.ragged == (1,)
    for name, (y, wanted) in results.items():
        np.testing.assert_allclose(y.npvalue(), wanted, rtol=1e-4, err_msg=name)


def test_lists_of_matrices_of_ever_new_lengths(monkeypatch):
    """What was side by side once is not found again by its room alone."""
    monkeypatch.setattr(ragged, "_choices", {})
    for length in (1, 2, 3, 5, 9, 4):
        world = World(length)
        both = dy.concatenate([world.X, world.Y])
        assert both.dim() == ((2 * SIZE, length), 1)
        rows = TABLE[np.arange(length)], TABLE[np.arange(7, 7 + length)]
        wanted = np.concatenate([r.T for r in rows])
        np.testing.assert_allclose((both * 2.0).npvalue(), 2 * wanted, rtol=1e-5)


def test_what_has_no_rule_is_counted(monkeypatch):
    monkeypatch.setattr(ragged, "_choices", {})
    monkeypatch.setattr(ragged, "EXACT_LENGTHS", 0)
    dy.reset_stats()
    dy.std_elems(World(5).X)
    assert dy.stats().exact == {"std_elems": 1}
    assert "exact dims: std_elems (1)" in str(dy.stats())


def attend(world):
    """Attention over a matrix, some of whose steps have two consumers."""
    shown = dy.tanh(dy.colwise_add(world.W * world.X, world.b))
    energies = dy.transpose(shown) * world.b + dy.pick(shown, 1) * 0.5
    weights = dy.softmax(dy.cmult(energies, energies))
    both = dy.sum_elems(dy.cmult(shown, shown)) + dy.sum_elems(shown)
    return dy.sum_elems(world.X * weights) + both


def test_nodes_of_known_lengths_are_as_the_first(monkeypatch):
    """What was decided for the first is found, and the same is stored."""
    monkeypatch.setattr(ragged, "_choices", {})
    monkeypatch.setattr(ragged, "EXACT_LENGTHS", 0)
    for _ in range(2):
        for length in 4, 7:
            attend(World(length)).value()
    worlds = [World(length) for length in (4, 7)]
    found = []
    for forget in True, False, False:
        for world in worlds:
            if forget:
                KNOWN.forget()
            dy.renew_cg()
            world.X = world.matrix(0)
            loss = attend(world)
            graph, value = loss.graph, loss.value()
            nodes = [(x.signature, x.index, x.dim()) for x in graph.nodes]
            stored = graph.stored
            ops = [(stored.lanes(n), stored.reads(n)) for n in range(len(stored))]
            found.append((nodes, ops, value))
    assert found[:2] == found[2:4] == found[4:]


@pytest.mark.usefixtures("natively")
class TestAxesThatBecomeRagged:
    """Lists of several lengths in one graph make an axis ragged before it is read."""

    @pytest.fixture(autouse=True)
    def _forgotten(self, monkeypatch):
        monkeypatch.setattr(ragged, "_choices", {})

    def joined(self, count):
        return dy.concatenate([dy.scalarInput(k) for k in range(count)])

    def test_values(self):
        for most in range(2, 9):
            dy.renew_cg()
            several = [self.joined(n) for n in range(1, most)]
            for count, x in enumerate(several, 1):
                np.testing.assert_array_equal(x.npvalue(), np.arange(count))

    def test_backward_from_one_number_of_a_ragged_axis(self):
        p = dy.ParameterCollection().parameters_from_numpy(np.array([0.5]))
        for count in (2, 3, 5, 7, 9, 4, 1):
            dy.renew_cg()
            x = dy.tanh(dy.concatenate([p * k for k in range(1, count + 1)]))
            root = x if count == 1 else dy.sum_elems(x)
            root.backward(full=True)
        assert root.value() == pytest.approx(np.tanh(0.5))
        np.testing.assert_allclose(x.gradient(), [1])

    def test_another_index(self):
        for count in 3, 4, 5:
            dy.renew_cg()
            x = dy.pick(self.joined(count), 0)
            assert x.value() == 0
            x.set_index(2)
            assert x.value() == 2
