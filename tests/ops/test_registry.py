"""What holds for the operations as a whole."""

import importlib
import pathlib
import pkgutil

import numpy as np
import pytest
from laws import ALL, COVERED, central_differences, close, loss_of, weights

import dynetjax as dy
from dynetjax import ops
from dynetjax.core.registry import OPS
from dynetjax.graph import current_graph

HERE = pathlib.Path(__file__).parent
SECTIONS = ("Args:", "Returns:", "Source: clab/dynet, ``")


def public():
    """Every function of every family that users see."""
    families = [
        importlib.import_module(f"dynetjax.ops.{module.name}")
        for module in pkgutil.iter_modules(ops.__path__)
    ]
    return [getattr(f, name) for f in families for name in getattr(f, "__all__", [])]


def test_every_operation_has_a_case():
    for path in HERE.glob("test_*.py"):
        importlib.import_module(path.stem)
    assert {function.__name__ for function in public()} <= COVERED


@pytest.mark.parametrize("function", public(), ids=lambda f: f.__name__)
def test_docstring(function):
    """Says what goes in and what comes out, and where DyNet has it."""
    assert all(section in function.__doc__ for section in SECTIONS)


BATCH = np.arange(6.0).reshape(2, 3)

# Each takes a vector of four and the number of the run, which is runtime data alone.
SAME_PROGRAM = {
    "input": lambda x, k: x + dy.inputVector([k, 1, 2, 3]),
    "scale": lambda x, k: x * (k + 0.5),
    "shift": lambda x, k: x + 1.5 * k,
    "subtract_from": lambda x, k: k - x,
    "quotient": lambda x, k: x / (k + 1),
    "power": lambda x, k: dy.square(x) ** (k + 1),
    "elu": lambda x, k: dy.elu(x, 0.1 * k),
    "silu": lambda x, k: dy.silu(x, 1 + k),
    "pick": lambda x, k: dy.pick(x, k),
    "index": lambda x, k: x[k - 1],
    "pick_batch": lambda x, k: dy.sum_batches(dy.pick_batch(x, [k, 1, k])),
    "select_rows": lambda x, k: dy.select_rows(x, [k, 0]),
    "pick_batch_elem": lambda x, k: dy.pick_batch_elem(
        dy.inputTensor(BATCH, batched=True), k
    ),
    "pickneglogsoftmax": lambda x, k: dy.pickneglogsoftmax(x, k),
    "pickneglogsoftmax_batch": lambda x, k: dy.sum_batches(
        dy.pickneglogsoftmax_batch(dy.inputTensor(BATCH, batched=True), [0, 1, k % 2])
    ),
    "hinge": lambda x, k: dy.hinge(x, k, 0.5 * k),
    "huber_distance": lambda x, k: dy.huber_distance(x, dy.vecInput(4), 1.0 + k),
    "log_softmax": lambda x, k: dy.log_softmax(x, [k, 3]),
    "dropout": lambda x, k: dy.dropout(x, 0.2 * k + 0.1),
    "noise": lambda x, k: dy.noise(x, 0.1 * k + 0.1),
    "average": lambda x, k: dy.average([x] * (6 - k)),
    "constant": lambda x, k: x + dy.constant(4, k + 0.5),
    "one_hot": lambda x, k: dy.cmult(x, dy.one_hot(4, k)),
    "random_normal": lambda x, k: x + dy.random_normal(4, k, k + 1),
    "random_uniform": lambda x, k: x + dy.random_uniform(4, k, k + 1),
    "random_bernoulli": lambda x, k: x + dy.random_bernoulli(4, 0.2 * k, k),
    "dropout_batch": lambda x, k: dy.dropout_batch(x, 0.2 * k + 0.1),
    "dropout_dim": lambda x, k: dy.dropout_dim(x, 0, 0.2 * k + 0.1),
    "block_dropout": lambda x, k: dy.block_dropout(x, 0.2 * k + 0.1),
    "scale_gradient": lambda x, k: dy.scale_gradient(x, k),
    "poisson_loss": lambda x, k: dy.poisson_loss(x[0], k),
    "pairwise_rank_loss": lambda x, k: dy.pairwise_rank_loss(x[0], x[1], 0.5 * k),
    "hinge_batch": lambda x, k: dy.hinge_batch(x, [k], 0.5 * k),
    "hinge_dim": lambda x, k: dy.hinge_dim(dy.reshape(x, (2, 2)), [k % 2, 1], 0, k),
    "sparsemax_loss": lambda x, k: dy.sparsemax_loss(x, list(range(k + 1))),
    "lookup": lambda x, k: x + TABLE[k],
    "weight noise": lambda x, k: dy.vanilla_lstm_gates(
        x, x[:1], dy.ones((4, 4)), dy.ones((4, 1)), x, 0.1 + k
    ),
}
TABLE = dy.ParameterCollection().lookup_parameters_from_numpy(np.ones((3, 4)))


@pytest.mark.parametrize("build", SAME_PROGRAM.values(), ids=SAME_PROGRAM)
def test_runtime_data_never_recompiles(build):
    collection = dy.ParameterCollection()
    p = collection.parameters_from_numpy(np.array([0.1, -0.4, 0.7, 1.2]))
    compilations = []
    for k in (0, 0, 0, 1, 2):
        dy.renew_cg()
        loss = dy.sum_elems(build(dy.tanh(p), k))
        loss.value()
        loss.backward()
        p.grad_as_array()
        stats = dy.stats()
        compilations.append(stats.compilations + stats.loads)
    assert compilations[2:] == compilations[2:3] * 3


def test_every_operation_with_runtime_data_has_a_program():
    """In the table above, for those that users call."""
    dy.renew_cg()
    x = dy.inputVector([0.1, -0.4, 0.7, 1.2])
    for build in SAME_PROGRAM.values():
        build(x, 1)
    ops = {node.signature.op for node in current_graph().nodes}
    wanted = {
        op for op in OPS.values() if op.given and not op.internal and not op.padded
    }
    assert wanted <= ops, {op.name for op in wanted - ops}


def groups():
    """The cases of all files, by the dims of their operands."""
    for path in HERE.glob("test_*.py"):
        importlib.import_module(path.stem)
    found = {}
    for case in ALL.values():
        if case.name != "logdet":  # of which other draws are NaN
            found.setdefault((*case.shapes, case.batch), []).append(case)
    return {str(key): cases for key, cases in found.items() if len(cases) > 1}


GROUPS = groups()


def wrong_calls(case):
    """Arguments of a case, one of which is wrong: no expression, or of other dims."""
    wrong = [
        lambda: "x",
        lambda: None,
        lambda: [],
        lambda: [3],
        lambda: dy.ones((5, 7, 2, 3)),
        lambda: dy.ones(7),
        lambda: [dy.ones(2, batch_size=2), dy.ones(2, batch_size=3)],
    ]
    for k in range(len(case.args)):
        for make in wrong:
            dy.renew_cg()
            args = case.call(lambda *args: list(args), map(dy.ones, case.shapes))
            bad = make()
            if isinstance(args[k], list) and isinstance(bad, dy.Expression):
                bad = [*args[k], bad]
            args[k] = bad
            yield args


CALLED = {case.name: case for case in ALL.values() if case.op in public()}


@pytest.mark.parametrize("case", CALLED.values(), ids=CALLED)
def test_errors_name_the_function(case):
    """And no other that it is made of."""
    messages = []
    for args in wrong_calls(case):
        try:
            case.op(*args)
        except (TypeError, ValueError, AssertionError, RuntimeError) as error:
            messages.append(str(error))
    assert messages
    assert [m for m in messages if not m.startswith(f"{case.name}: ")] == []


@pytest.mark.parametrize("cases", GROUPS.values(), ids=GROUPS)
def test_operations_side_by_side(cases):
    """In one graph, with operands of the same dims, each is what it is alone."""
    dy.renew_cg()
    add = dy.ParameterCollection().parameters_from_numpy
    terms, wanted = [], []
    for case in cases:
        arrays = case.arrays()
        given = [add(array) for array in arrays]
        pairs = zip(given, case.shapes, strict=True)
        operands = [dy.reshape(p, shape, case.batch) for p, shape in pairs]
        y = case.call(case.op, operands)
        shape, batch = y.dim()
        r = weights((*shape, batch) if batch > 1 else shape)
        terms.append(loss_of(y, r))
        wanted.append((case, y, given, arrays, r))
    dy.esum(terms).backward()
    for case, y, given, arrays, r in wanted:
        close(y.npvalue(), case.expected(arrays))
        if case.smooth:
            compare_gradients(case, given, arrays, r)


def compare_gradients(case, given, arrays, r):
    def loss(arrays):
        return np.sum(case.expected(arrays) * r)

    for p, gradient in zip(given, central_differences(loss, arrays), strict=True):
        close(p.grad_as_array(), gradient, rtol=1e-3, atol=1e-4)


STRANGE = np.array([np.inf, -np.inf, np.nan, 0.0, -0.0, 8.5, 1.5, -1.5])
ELEMENTWISE = {f"dynetjax.ops.{name}" for name in ("activations", "elementwise")}


@pytest.mark.filterwarnings("ignore::RuntimeWarning")  # of NumPy
def test_numbers_that_are_not_finite_flow_through():
    """Element-wise functions of them are what NumPy says."""
    dy.renew_cg()
    cases = [
        case
        for case in ALL.values()
        if case.op.__module__ in ELEMENTWISE and case.name != "lgamma"
    ]
    assert len(cases) > 20
    results = [case.call(case.op, [dy.inputTensor(STRANGE)]) for case in cases]
    for case, value in zip(cases, dy.npvalues(results), strict=True):
        wanted = case.call(case.numpy, [STRANGE.copy()]).astype(np.float32)
        np.testing.assert_allclose(value, wanted, rtol=1e-4, err_msg=str(case))


def share(x):
    terms = np.exp(x - x.max())
    return terms / terms.sum()


def one_hot(x):
    return np.arange(len(x)) == x.argmax()


def of_second(x):
    return np.arange(len(x)) == 1


# Of a list of numbers: the operation, its formula, and the slopes of that.
OF_LISTS = {
    "logsumexp": (dy.logsumexp, lambda x: np.log(np.exp(x).sum()), share),
    "emax": (dy.emax, np.max, one_hot),
    "esum": (dy.esum, np.sum, np.ones_like),
    "average": (dy.average, np.mean, lambda x: np.full(len(x), 1 / len(x))),
    "log_softmax": (
        lambda xs: dy.log_softmax(dy.concatenate(xs))[1],
        lambda x: np.log(share(x)[1]),
        lambda x: of_second(x) - share(x),
    ),
}


def lists(size):
    """Numbers most of which are -inf, and zeros, which are equal."""
    x = np.random.RandomState(size).uniform(-2, 2, size)
    for kept in ([1], [1, size - 1], range(1, size, 3)):
        yield np.where(np.isin(np.arange(size), kept), x, -np.inf)
    yield np.zeros(size)


@pytest.mark.parametrize("size", [4, 8, 9, 17, 37])
def test_lists_with_infinities(size):
    """As a whole and in pieces, a list gives the formula's value, and its slopes."""
    dy.renew_cg()
    numbers = np.stack(list(lists(size)), axis=1)
    found = {}
    for name, (op, _, _) in OF_LISTS.items():
        x = dy.inputTensor(numbers, batched=True)
        found[name] = x, op([x[k] for k in range(size)])
    dy.esum([dy.sum_batches(y) for _, y in found.values()]).backward(full=True)
    for name, (x, y) in found.items():
        _, formula, slopes = OF_LISTS[name]
        values = [formula(column) for column in numbers.T]
        np.testing.assert_allclose(y.npvalue()[0], values, rtol=1e-5, err_msg=name)
        wanted = np.stack([slopes(column) for column in numbers.T], axis=1)
        np.testing.assert_allclose(x.gradient(), wanted, atol=1e-6, err_msg=name)


@pytest.mark.parametrize("size", [4, 9])
def test_lists_of_nothing(size):
    """A sum of no terms is 0, its logarithm -inf; shares of nothing are NaN."""
    dy.renew_cg()
    xs = [dy.scalarInput(-np.inf) for _ in range(size)]
    total = dy.logsumexp(xs)
    assert total.value() == -np.inf
    total.backward(full=True)
    assert sum(x.gradient() for x in xs) == pytest.approx(1)
    assert np.isnan(dy.softmax(dy.concatenate(xs)).npvalue()).all()
