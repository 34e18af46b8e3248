"""Tables as matrices, and weights made of these. Expected values are NumPy's."""

import numpy as np
import pytest

import dynetjax as dy
from dynetjax.graph import current_graph

ROWS, DIM, RATE, CLASSES = 6, 3, 0.1, (2, 4, 0)
E = np.random.default_rng(5).normal(size=(ROWS, DIM)).astype(np.float32)
W = np.random.default_rng(6).normal(size=(DIM, DIM)).astype(np.float32)
X = np.array([0.5, -1.0, 2.0], np.float32)
CLOSE = {"rtol": 1e-4, "atol": 1e-5}

pytestmark = pytest.mark.usefixtures("natively")


class World:
    """A table `E`, a matrix `W` and a trainer without clipping."""

    def __init__(self, trainer=dy.SimpleSGDTrainer, sparse=True, table=E):
        self.pc = dy.ParameterCollection()
        self.E = self.pc.lookup_parameters_from_numpy(table)
        self.W = self.pc.parameters_from_numpy(W)
        self.trainer = trainer(self.pc, RATE)
        self.trainer.set_clip_threshold(0)
        self.trainer.set_sparse_updates(sparse)
        dy.renew_cg()


@pytest.fixture
def world():
    return World()


@pytest.fixture(autouse=True)
def no_xla():
    before = dy.stats().compilations
    yield
    assert dy.stats().compilations == before


def close(got, expected):
    np.testing.assert_allclose(got, expected, **CLOSE)


def softmax(x):
    powers = np.exp(x - x.max())
    return powers / powers.sum()


def tied(world):
    """The scores of all words come of the table that words are looked up in."""
    scores = dy.transpose(world.E)
    hidden = [dy.tanh(world.W * world.E[i]) for i in range(len(CLASSES))]
    pairs = zip(hidden, CLASSES, strict=True)
    return dy.esum([dy.pickneglogsoftmax(scores * h, c) for h, c in pairs])


def tied_in_numpy(e, w):
    """The loss, and its gradients at the table and the matrix."""
    loss, at_table, at_matrix = 0.0, np.zeros_like(e), np.zeros_like(w)
    for i, c in enumerate(CLASSES):
        h = np.tanh(w @ e[i])
        found = softmax(e @ h)
        loss -= np.log(found[c])
        slope = found - np.eye(ROWS)[c]
        at_table += np.outer(slope, h)
        inner = (e.T @ slope) * (1 - h**2)
        at_matrix += np.outer(inner, e[i])
        at_table[i] += w.T @ inner
    return loss, at_table, at_matrix


class TestValuesAndGradients:
    def test_rows_come_last(self, world):
        y = world.E * dy.inputVector(np.arange(ROWS))
        close(y.value(), E.T @ np.arange(ROWS))
        dy.dot_product(y, dy.inputVector(X)).backward()
        close(world.E.grad_as_array(), np.outer(np.arange(ROWS), X))

    def test_transposed(self, world):
        y = dy.transpose(world.E) * dy.inputVector(X)
        close(y.value(), E @ X)
        dy.squared_norm(y).backward()
        close(world.E.grad_as_array(), 2 * np.outer(E @ X, X))

    def test_beside_rows_of_the_same_table(self, world):
        loss = tied(world)
        wanted, at_table, at_matrix = tied_in_numpy(E, W)
        close(loss.value(), wanted)
        loss.backward()
        close(world.E.grad_as_array(), at_table)
        close(world.W.grad_as_array(), at_matrix)

    def test_of_all_ways_to_one_table(self, world):
        """As it is, transposed, twice transposed, and through a function."""
        turned = dy.transpose(world.E)
        bent = dy.tanh(turned)
        x = dy.inputVector(X)
        y = dy.transpose(dy.transpose(turned)) * x + turned * x + bent * x
        close(y.value(), 2 * E @ X + np.tanh(E) @ X)
        dy.sum_elems(y + dy.transpose(dy.colwise_add(world.E, x)) * x).backward()
        ones = np.outer(np.ones(ROWS), X)
        close(world.E.grad_as_array(), ones * (3 + 1 - np.tanh(E) ** 2))

    def test_rows_that_are_matrices(self):
        table = np.random.default_rng(7).normal(size=(4, 2, 3)).astype(np.float32)
        world = World(table=table)
        close(world.E.expr().npvalue(), table.transpose(1, 2, 0))
        seed = np.random.default_rng(8).normal(size=(4, 3, 2))
        turned = dy.transpose(world.E, [2, 1, 0])
        y = dy.cmult(turned, dy.inputTensor(seed))
        close(y.npvalue(), table.transpose(0, 2, 1) * seed)
        dy.sum_elems(y).backward()
        close(world.E.grad_as_array(), seed.transpose(0, 2, 1))

    def test_a_column_of_one_number_each(self):
        """A table of numbers: vectors of a row are no weights."""
        world = World(table=E[:, :1])
        y = dy.transpose(world.E) * dy.scalarInput(2.0)
        close(y.npvalue().ravel(), 2 * E[:, 0])
        dy.sum_elems(y).backward()
        close(world.E.grad_as_array(), np.full((ROWS, 1), 2.0))

    def test_its_gradient_as_an_expression(self, world):
        table = dy.parameter(world.E)
        dy.sum_elems(dy.transpose(table) * dy.inputVector(X)).backward()
        close(table.gradient(), np.outer(X, np.ones(ROWS)))

    def test_constant(self, world):
        still = dy.const_parameter(world.E)
        dy.squared_norm(dy.transpose(still) * (world.W * dy.inputVector(X))).backward()
        close(world.E.grad_as_array(), 0 * E)
        close(world.W.grad_as_array(), 2 * E.T @ E @ W @ np.outer(X, X))

    def test_the_scores_of_a_crf(self, world):
        """Two steps of the forward algorithm: a table of transitions, row by row."""
        crf = World(table=np.vstack([W, W[:1]])[:DIM])
        table = dy.transpose(crf.E)
        alpha = dy.inputVector(X)
        for _ in range(2):
            rows = [table[k] for k in range(DIM)]
            alpha = dy.concatenate([dy.logsumexp_dim(r + alpha, 0) for r in rows])
        loss = dy.logsumexp_dim(alpha, 0)
        wanted = forward_algorithm(W)
        close(loss.value(), wanted)
        loss.backward()
        slope = np.zeros_like(W, np.float64)
        for at in np.ndindex(*W.shape):
            ends = [W.astype(np.float64) for _ in range(2)]
            ends[0][at] += 1e-5
            ends[1][at] -= 1e-5
            above, below = map(forward_algorithm, ends)
            slope[at] = (above - below) / 2e-5
        close(crf.E.grad_as_array(), slope)


def forward_algorithm(scores):
    alpha = X.astype(np.float64)
    for _ in range(2):
        alpha = np.log(np.exp(scores + alpha).sum(1))
    return np.log(np.exp(alpha).sum())


class Momentum:
    """v = 0.9 v - rate g; what is missed is made up for in dense updates."""

    def __init__(self):
        self.v = 0.0

    def __call__(self, x, g, step):
        self.v = 0.9 * self.v - RATE * g
        return x + self.v


class Adam:
    def __init__(self):
        self.m = self.v = 0.0

    def __call__(self, x, g, step):
        self.m = 0.9 * self.m + 0.1 * g
        self.v = 0.999 * self.v + 0.001 * g**2
        factor = RATE * np.sqrt(1 - 0.999**step) / (1 - 0.9**step)
        return x - factor * self.m / (np.sqrt(self.v) + 1e-8)


class SGD:
    def __call__(self, x, g, step):
        return x - RATE * g


@pytest.mark.parametrize("sparse", [True, False])
@pytest.mark.parametrize(
    ("trainer", "rule"),
    [
        (dy.SimpleSGDTrainer, SGD),
        (dy.MomentumSGDTrainer, Momentum),
        (dy.AdamTrainer, Adam),
    ],
    ids=["sgd", "momentum", "adam"],
)
class TestTraining:
    def test_of_several_steps(self, trainer, rule, sparse):
        """A whole table changes as a matrix does, whatever updates of rows are."""
        world, at_table, at_matrix = World(trainer, sparse), rule(), rule()
        e, w = E.astype(np.float64), W.astype(np.float64)
        for step in range(1, 5):
            dy.renew_cg()
            loss = tied(world)
            wanted, of_table, of_matrix = tied_in_numpy(e, w)
            close(loss.value(), wanted)
            loss.backward()
            world.trainer.update()
            e, w = at_table(e, of_table, step), at_matrix(w, of_matrix, step)
        np.testing.assert_allclose(world.E.as_array(), e, rtol=2e-3, atol=2e-4)
        np.testing.assert_allclose(world.W.as_array(), w, rtol=2e-3, atol=2e-4)


class TestUpdates:
    def test_a_graph_keeps_the_numbers_that_it_has_read(self, world):
        x = dy.inputVector(X)
        y = dy.transpose(world.E) * x
        dy.squared_norm(y).backward()
        world.trainer.update()
        moved = E - RATE * 2 * np.outer(E @ X, X)
        close(world.E.as_array(), moved)
        close((dy.transpose(world.E) * (x * 2)).value(), 2 * E @ X)
        dy.renew_cg()
        close((dy.transpose(world.E) * dy.inputVector(X)).value(), moved @ X)

    def test_nor_do_rows_that_are_set_change_it(self, world):
        x = dy.inputVector(X)
        close((dy.transpose(world.E) * x).value(), E @ X)
        world.E.init_row(0, [9.0, 9.0, 9.0])
        close((dy.transpose(world.E) * (x * 2)).value(), 2 * E @ X)

    def test_nor_where_it_was_read_from_a_file(self, world, tmp_path):
        world.pc.save(str(tmp_path / "model"))
        world.pc.populate(str(tmp_path / "model"))
        x = dy.inputVector(X)
        y = dy.transpose(world.E) * x
        dy.squared_norm(y).backward()
        world.trainer.update()
        close((dy.transpose(world.E) * (x * 2)).value(), 2 * E @ X)

    def test_of_a_frozen_table(self, world):
        world.E.set_updated(False)
        loss = tied(world)
        loss.backward()
        world.trainer.update()
        close(world.E.as_array(), E)
        close(world.W.as_array(), W - RATE * tied_in_numpy(E, W)[2])

    def test_after_a_weight_decay(self, world):
        """A table that decays is stored with a factor on its rows."""
        world.pc.set_weight_decay_lambda(0.5)
        dy.squared_norm(world.E[1]).backward()
        world.trainer.update()
        moved = np.array(E)
        moved[1] -= RATE * 2 * E[1]
        dy.renew_cg()
        y = dy.transpose(world.E) * dy.inputVector(X)
        close(y.value(), 0.5 * moved @ X)

    def test_rows_that_missed_updates_catch_up(self):
        """With momentum, rows move on where nobody looks them up."""
        world = World(dy.MomentumSGDTrainer, sparse=False)
        dy.squared_norm(world.E[1]).backward()
        world.trainer.update()
        dy.renew_cg()
        dy.squared_norm(world.E[2]).backward()
        world.trainer.update()
        e = E.astype(np.float64)
        e[1] *= 1 - 2 * RATE * 1.9
        e[2] *= 1 - 2 * RATE
        dy.renew_cg()
        close((dy.transpose(world.E) * dy.inputVector(X)).value(), e @ X)


def test_an_operation_of_the_user_that_is_named_as_one_that_reorders(world):
    """It is told from the other by what it is."""

    def transpose(x):
        return 2 * x.T

    y = dy.jax_op(transpose)(world.W) * dy.inputVector(X)
    close(y.value(), 2 * W.T @ X)
    dy.sum_elems(y).backward()
    close(world.W.grad_as_array(), 2 * np.outer(X, np.ones(DIM)))


def test_a_transposed_table_takes_no_copy(world):
    """Transposed, it is the array that the table is stored as."""
    y = dy.transpose(world.E) * dy.inputVector(X)
    y.value()
    weights = current_graph().state.native.weights
    stored = world.E.storage.host_values()
    assert any(np.shares_memory(a, stored) for a in weights._arrays.values())
