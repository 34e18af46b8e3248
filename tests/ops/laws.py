"""What holds for every operation, and the cases that say how it is called.

A `Case` names an operation, the dims of its operands and its formula in NumPy. The laws
compare the operation with that formula and its central differences in float64.
"""

import functools
import zlib

import jax
import jax.numpy as jnp
import numpy as np
import pytest

import dynetjax as dy
from dynetjax.core.registry import INPUT, KINDS, MAP
from dynetjax.engine import policy
from dynetjax.engine.ir.fused import FUSED_OPS
from dynetjax.engine.ir.structures import KNOWN
from dynetjax.engine.native.part import NativePart
from dynetjax.engine.parts import store
from dynetjax.engine.runtime import RUNTIME
from dynetjax.graph import current_graph
from dynetjax.ops import ragged

COVERED = set()
ALL = {}  # every case, by what it is called
STEP = 1e-6


def covers(*functions):
    """Note that a file tests `functions` without a `Case`."""
    COVERED.update(function.__name__ for function in functions)


class Case:
    """One way to call an operation.

    Args:
        op: the function users call, or a lambda that calls `covers`.
        numpy: the formula; with `batch`, of arrays that have the batch as last axis.
        covers: the function under test, where `op` is a lambda.
        low, high: bounds of the operands' numbers.
        batch: batch size of the operands. The law of batches holds only where it is 1.
        smooth: there is a gradient to compare.
        arguments: a tuple is the dims of an operand, a list of tuples those of a list
            of operands; anything else is passed on to both functions.
    """

    def __init__(
        self,
        op,
        numpy,
        *,
        covers=None,
        low=-2.0,
        high=2.0,
        batch=1,
        smooth=True,
        **args,
    ):
        self.op, self.numpy, self.args = op, numpy, args
        self.low, self.high, self.batch, self.smooth = low, high, batch, smooth
        self.name = (covers or op).__name__
        COVERED.add(self.name)
        ALL.setdefault(str(self), self)

    def __str__(self):
        shown = [f"{k}={v}" for k, v in self.args.items()]
        return f"{self.name}({', '.join(shown)})" + f"x{self.batch}" * (self.batch > 1)

    @property
    def shapes(self):
        """Dims of the operands, in order."""
        found = []
        for value in self.args.values():
            if isinstance(value, tuple):
                found.append(value)
            elif _is_list_of_shapes(value):
                found.extend(value)
        return found

    def arrays(self, seed=0, batch=None):
        """Float64 operands with float32 numbers, the batch last if there is one."""
        random = np.random.RandomState(zlib.crc32(str(self).encode()) + seed)
        batch = batch or self.batch
        tail = (batch,) if batch > 1 else ()
        draws = [random.uniform(self.low, self.high, s + tail) for s in self.shapes]
        return [draw.astype(np.float32).astype(np.float64) for draw in draws]

    def call(self, function, operands):
        """`function` of the operands, and the arguments that are none."""
        left, args = list(operands), []
        for value in self.args.values():
            if isinstance(value, tuple):
                args.append(left.pop(0))
            elif _is_list_of_shapes(value):
                args.append([left.pop(0) for _ in value])
            else:
                args.append(value)
        return function(*args)

    def expected(self, arrays):
        """The formula, with the batch last."""
        return np.asarray(self.call(self.numpy, arrays), np.float64)

    def inputs(self, arrays, batch=None):
        batched = (batch or self.batch) > 1
        return [dy.inputTensor(array, batched=batched) for array in arrays]


def written(make):
    """Words that tier 0 writes for a node and back from it, with all that it reads."""
    dy.renew_cg()
    loss = dy.sum_batches(dy.sum_elems(dy.square(make())))
    loss.value()
    (part,) = loss.graph.state.parts
    forward = part.graph.written()
    loss.backward(full=True)
    return forward, part.graph.written() - forward


def grows_linearly(make, count):
    """`make` of twice as much writes at most 2.5 times as many words, either way.

    Once it was seen that sizes differ, for then an axis may be told to be ragged.
    """
    for _ in range(2):
        few, many = written(lambda: make(count)), written(lambda: make(2 * count))
    for one, other in zip(few, many, strict=True):
        assert other <= 2.5 * one, (few, many)


def _is_list_of_shapes(value):
    return isinstance(value, list) and all(isinstance(v, tuple) for v in value)


def weights(shape):
    """Fixed numbers that turn a result into a loss."""
    return np.random.RandomState(7).uniform(0.5, 1.5, shape).astype(np.float32)


def spelled(graph):
    """What every stored node computes, as text."""
    store(graph, [])
    stored, known = graph.stored, []
    for n in range(len(stored)):
        fused = FUSED_OPS[stored.fused(n)]
        rows = ["0" if k < 0 else known[k] for k in stored.reads(n)]
        if fused.form != MAP:
            name = fused.steps[0].signature.op.name
            known.append(
                f"{name}{sorted(rows)}" if rows else f"{name} {stored.index(n)}"
            )
            continue
        steps = []
        for step in fused.steps:
            what = {
                "step": steps.__getitem__,
                "leaf": rows.__getitem__,
                "weight": lambda kind: f"weight {KINDS[kind].shape}",
            }
            inside = [what[role](k) for role, k in step.operands]
            steps.append(f"{step.signature.op.name}({', '.join(inside)})")
        known.append(f"{steps[-1]}{stored.data(n) or ''}")
    return known


def described(graph):
    """What every stored node computes, and how many rows it has, in any order."""
    texts, lanes = spelled(graph), graph.stored.lanes
    return sorted((text, lanes(n)) for n, text in enumerate(texts))


# What operands may be: rows, part of what reads them, or a sum that goes on.
OPERANDS = {"rows": lambda x: x, "inlined": dy.tanh, "sums": lambda x: dy.esum([x, x])}


def made(case, arrays, batched, operand, slowly=False):
    """The stored nodes of a graph of a case, `described`; None where it is refused.

    `slowly` knows nothing of nodes that were made before.
    """
    if slowly:
        KNOWN.forget()
    try:
        dy.renew_cg()
        xs = [dy.inputTensor(a, batched=batched) for a in arrays]
        graph = case.call(case.op, [operand(x) for x in xs]).graph
    except (ValueError, RuntimeError):
        return None
    all_of_it = described(graph)
    dy.renew_cg()
    return all_of_it


# Operands: the user's, nodes of these, parameters, and nodes of parameters.
SOURCES = {
    "inputs": lambda case, arrays: case.inputs(arrays),
    "nodes": lambda case, arrays: [dy.tanh(x) for x in case.inputs(arrays)],
    "parameters": lambda case, arrays: _parameters(case, arrays),
    "weights": lambda case, arrays: [dy.tanh(p) for p in _parameters(case, arrays)],
}


def _parameters(case, arrays):
    add = dy.ParameterCollection().parameters_from_numpy
    return [_element_dims(case, p, s) for p, s in _pairs(case, map(add, arrays))]


def told(case, source, *, grown=False, read=False, twice=False):
    """The values and gradients of every node of a graph of a case, in order.

    `grown`: something else was computed in the graph before. `read`: each node is,
    before the last ones are made. `twice`: the case stands there another time, and
    counts for nothing.
    """
    dy.renew_cg()
    if grown:
        dy.sum_elems(dy.inputVector([1, 2])).value()
    given = SOURCES[source](case, case.arrays())
    y = case.call(case.op, given)
    z = y * 2
    nodes = [*given, y, z]
    if read:
        for node in nodes:
            node.npvalue()
    r = weights(_shape(y))
    loss = loss_of(dy.tanh(z), r)
    if twice:
        loss += loss_of(case.call(case.op, given) * 0, r)
    loss.value()
    loss.backward(full=True)
    slope = 2 * r * (1 - np.tanh(2 * y.npvalue()) ** 2)
    if y not in given:
        close(y.gradient(), slope)
    found = [loss.value(), *[node.npvalue() for node in nodes], z.gradient()]
    return [*found, *[_gradient(node) for node in nodes]]


def _gradient(x):
    return x.grad_as_array() if isinstance(x, dy.Parameters) else x.gradient()


def loss_of(y, r):
    return dy.sum_batches(dy.dot_product(y, dy.inputTensor(r, batched=y.dim()[1] > 1)))


@functools.cache
def evaluated(case, tier):
    """Value of a case on parameters, and the gradient of each from one backward.

    In the `tier` that is in force.
    """
    dy.renew_cg()
    collection = dy.ParameterCollection()
    arrays = case.arrays()
    given = [collection.parameters_from_numpy(array) for array in arrays]
    y = case.call(case.op, [_element_dims(case, p, s) for p, s in _pairs(case, given)])
    r = weights(_shape(y))
    loss = loss_of(y, r)
    loss.backward()
    value = y.npvalue()
    close(loss.value(), np.sum(value * r))
    return value, [p.grad_as_array() for p in given]


def _shape(y):
    """That of the array which DyNet shows."""
    shape, batch = y.dim()
    return shape + (batch,) * (batch > 1)


def _pairs(case, given):
    return zip(given, case.shapes, strict=True)


def _element_dims(case, parameter, shape):
    return parameter if case.batch == 1 else dy.reshape(parameter, shape, case.batch)


def central_differences(function, arrays):
    """Gradients of a function of float64 arrays to one number."""
    gradients = [np.zeros_like(array) for array in arrays]
    for array, gradient in zip(arrays, gradients, strict=True):
        for index in np.ndindex(array.shape):
            kept = array[index]
            array[index] = kept + STEP
            above = function(arrays)
            array[index] = kept - STEP
            gradient[index] = (above - function(arrays)) / (2 * STEP)
            array[index] = kept
    return gradients


def close(actual, wanted, rtol=1e-4, atol=1e-5):
    np.testing.assert_allclose(actual, wanted, rtol=rtol, atol=atol)


def own_function(case, arrays):
    """JAX function of the case's node alone; None where it took several nodes."""
    dy.renew_cg()
    given = case.inputs(arrays)
    node = case.call(case.op, given)
    signature = node.signature
    op = signature.op
    own, rest = node.operands[: len(given)], node.operands[len(given) :]
    if (op.form, own) != (MAP, tuple(given)) or node.lanes > 1 or op.compose:
        return None
    if any(x.signature.op.form != INPUT for x in rest):
        return None
    data = getattr(node, "data", None)
    data = () if data is None else data if isinstance(data, tuple) else (data,)
    static = dict(zip(op.static, signature.static, strict=True))
    constants = [x.data[0].astype(np.float64) for x in rest]
    return lambda *xs: op.fn(*xs, *constants, *data, **static)


class Batches:
    """A case in the current graph, with three batch elements of some operands.

    Values are those of three runs; gradients are those of the sum of the runs.
    """

    def __init__(self, case, batched):
        self.case, self.batched = case, batched
        arrays = case.arrays(seed=1, batch=3)
        self.arrays = [a if k in batched else a[..., 0] for k, a in enumerate(arrays)]
        self.given = [
            dy.inputTensor(a, batched=k in batched) for k, a in enumerate(self.arrays)
        ]
        self.y = case.call(case.op, self.given)

    def expected(self, arrays):
        runs = [
            self.case.expected(
                [a[..., run] if k in self.batched else a for k, a in enumerate(arrays)]
            )
            for run in range(3)
        ]
        return np.stack(runs, axis=-1)

    def check_gradients(self, r):
        wanted = central_differences(
            lambda xs: np.sum(self.expected(xs) * r), self.arrays
        )
        for x, gradient in zip(self.given, wanted, strict=True):
            close(x.gradient(), gradient, rtol=1e-3, atol=1e-4)


def batches(case):
    """All operands with a batch, and each of the first two beside others without."""
    every = range(len(case.shapes))
    yield Batches(case, every)
    if len(every) > 1:
        for k in (0, 1):
            try:
                yield Batches(case, [k])
            except (dy.DimError, RuntimeError):
                if case.name not in REFUSES_MIXED:
                    raise


# Operations of which some operands, or all, have to have the batch of the others.
REFUSES_MIXED = {
    "binary_log_loss",
    "bmax",
    "bmin",
    "cdiv",
    "emax",
    "pairwise_rank_loss",
    "pow",
    "vanilla_lstm_c",
    "vanilla_lstm_gates",
    "vanilla_lstm_gates_concat",
    "vanilla_lstm_gates_dropout",
    "vanilla_lstm_gates_dropout_concat",
    "vanilla_lstm_h",
}


def same_shapes(case):
    """The numbers of two operands that have the same dims, or None."""
    seen = {}
    for k, shape in enumerate(case.shapes):
        if shape in seen:
            return seen[shape], k
        seen[shape] = k
    return None, None


# Numbers that are not usual, and of the k-th operand the places that have one.
PLACES = (
    lambda k: slice(k, k + 1),
    lambda k: slice(k % 2, None, 2),
    lambda k: slice(None),
)
UNUSUAL = [(x, at) for x in (-np.inf, np.inf) for at in PLACES]
UNUSUAL += [(0.5, PLACES[2]), (0.0, PLACES[1])]

# Operations that are not their formula there, or have not its slope, and why not.
NOT_THE_FORMULA = {
    "binary_log_loss": "the logarithm of 0 counts as -87",
    "circ_conv": "a Fourier transform has inf - inf",
    "circ_corr": "a Fourier transform has inf - inf",
    "inverse": "there is none of equal rows",
    "jax_op(gelu)": "the slope has inf * 0",
    "l2_norm": "the slope is x / |x|, inf / inf",
    "layer_norm": "the slope of a deviation of 0 is 0 / 0",
    "lgamma": "-inf is no argument of the formula",
    "logdet": "the slope is the inverse of a matrix with infinities",
    "pickneglogsoftmax": "the largest score is subtracted, inf - inf, as in DyNet",
    "pow": "the slope is y x^(y - 1), 0 * inf",
    "silu": "the slope has inf * 0",
}


def with_unusual(case, large):
    """The operands of a case with each of `UNUSUAL`; infinities are `large` ones."""
    for x, places in UNUSUAL:
        arrays = case.arrays()
        for k, array in enumerate(arrays):
            array.flat[places(k)] = np.clip(x, -large, large)
        yield arrays


def slopes(function, arrays):
    """Gradients as differences; NaN at a kink, or if the value leaves no precision."""
    here, found = function(arrays), [np.zeros_like(array) for array in arrays]
    for array, gradient in zip(arrays, found, strict=True):
        for index in np.ndindex(array.shape):
            kept, step = array[index], 1e-4
            array[index] = kept + step
            right = (function(arrays) - here) / step
            array[index] = kept - step
            left = (here - function(arrays)) / step
            array[index] = kept
            smooth = np.isclose(left, right, rtol=1e-3, atol=1e-3) and abs(here) < 1e7
            gradient[index] = (left + right) / 2 if smooth else np.nan
    return found


both_tiers = pytest.mark.parametrize("tier", ["native", "xla"])


class Laws:
    """Parametrise a subclass with `case`."""

    @both_tiers
    def test_value(self, case, tier, monkeypatch):
        """Equals the formula, written out in NumPy."""
        if tier == "xla" and case.smooth:
            pytest.skip("the value is tested with the gradient")
        monkeypatch.setattr(RUNTIME, "tier", tier)
        close(evaluated(case, tier)[0], case.expected(case.arrays()))

    def test_dim(self, case):
        """The dim rule says what the JAX function gives, and what NumPy gives."""
        dy.renew_cg()
        arrays = case.arrays()
        y = case.call(case.op, case.inputs(arrays))
        shape, _ = y.dim()
        assert _shape(y) == case.expected(arrays).shape
        function = own_function(case, arrays)
        if function:
            result = jax.eval_shape(function, *[a.astype(np.float32) for a in arrays])
            assert (result.shape, result.dtype) == (shape, np.float32)

    @both_tiers
    def test_gradient(self, case, tier, monkeypatch):
        """Equals central differences of the formula, taken in float64."""
        if not case.smooth:
            pytest.skip("no gradient")
        monkeypatch.setattr(RUNTIME, "tier", tier)
        value, gradients = evaluated(case, tier)
        close(value, case.expected(case.arrays()))
        r = weights(value.shape).astype(np.float64)
        wanted = central_differences(
            lambda arrays: np.sum(case.expected(arrays) * r), case.arrays()
        )
        for actual, expected in zip(gradients, wanted, strict=True):
            close(actual, expected, rtol=1e-3, atol=1e-4)

    @pytest.mark.parametrize("source", SOURCES)
    def test_history(self, case, source, natively):
        """No value and no gradient of any node depends on what came before.

        The case is made thrice, in turn with another; read in the middle or not, in
        one piece or not, alone or beside its like.
        """
        every = [*ALL.values()]
        other = every[every.index(ALL[str(case)]) - 1]
        first = told(case, source)
        for _ in range(3):
            for manner in {}, {"grown": True, "read": True}, {"twice": True}:
                for one, wanted in zip(
                    told(case, source, **manner), first, strict=True
                ):
                    close(one, wanted)
            told(other, source)

    @pytest.mark.parametrize("batched", ["all", 0, 1])
    def test_cost_of_batches(self, case, batched, natively):
        """Twice the batch elements, of all operands or of one, are twice the work."""
        if case.batch > 1 or batched not in ("all", *range(len(case.shapes))):
            pytest.skip("works across the batch, or there is no such operand")

        def make(count):
            arrays = case.arrays(batch=count)
            every = [batched in ("all", k) for k in range(len(arrays))]
            return case.call(
                case.op,
                [
                    dy.inputTensor(a if b else a[..., 0], batched=b)
                    for a, b in zip(arrays, every, strict=True)
                ],
            )

        dy.renew_cg()
        try:
            make(2)
        except (dy.DimError, RuntimeError):
            pytest.skip("takes no such batches")
        grows_linearly(make, 16)

    def test_cost_of_lists(self, case, natively, monkeypatch):
        """A list of twice as many operands is twice the work."""
        monkeypatch.setattr(ragged, "_choices", {})  # others are not to know of these

        def longer(count):
            given = iter(case.inputs(case.arrays()))
            for value in case.args.values():
                if _is_list_of_shapes(value):
                    xs = [next(given) for _ in value]
                    yield [dy.tanh(x) for _ in range(count) for x in xs]
                else:
                    yield next(given) if isinstance(value, tuple) else value

        dy.renew_cg()
        try:
            case.op(*longer(2))
        except ValueError:
            pytest.skip("the dims of other operands follow from the list's length")
        if not any(map(_is_list_of_shapes, case.args.values())):
            pytest.skip("it takes no list")
        grows_linearly(lambda count: case.op(*longer(count)), 64)

    @pytest.mark.parametrize("operand", OPERANDS.values(), ids=OPERANDS)
    @pytest.mark.parametrize("batch", [1, 3])
    def test_made_quickly(self, case, operand, batch):
        """Made again without checks, it is what it is with them."""
        arrays, batched = case.arrays(batch=batch), batch > 1
        KNOWN.forget()
        for _ in range(4):
            quickly = made(case, arrays, batched, operand)
        assert quickly == made(case, arrays, batched, operand, slowly=True)

    def test_runs_at_once(self, case, monkeypatch):
        """Tier 0 computes it, forward and back."""
        if not policy.native():
            pytest.skip("another tier is asked for")
        monkeypatch.setattr(RUNTIME, "tier", "native")
        dy.renew_cg()
        y = case.call(case.op, case.inputs(case.arrays()))
        loss = loss_of(y, weights(_shape(y)))
        loss.value()
        loss.backward()
        state = loss.graph.state
        ran = [isinstance(part, NativePart) for part in state.parts]
        assert ran
        assert all(ran)

    def test_gradient_float64(self, case):
        """The operation's own function agrees with its central differences."""
        arrays = case.arrays()
        function = own_function(case, arrays)
        if not case.smooth or function is None:
            pytest.skip("several nodes, a batch, or no gradient")
        with jax.enable_x64(True):
            r = weights(np.shape(function(*arrays))).astype(np.float64)
            loss = jax.jit(lambda *xs: (function(*xs) * r).sum())
            actual = jax.grad(loss, argnums=tuple(range(len(arrays))))(*arrays)
            wanted = central_differences(lambda xs: float(loss(*xs)), arrays)
        for one, other in zip(actual, wanted, strict=True):
            close(one, other, rtol=1e-5, atol=1e-6)

    def test_infinities(self, case):
        """Infinite, equal and zero numbers give the formula's value, and its slopes.

        Those for infinities are the slopes at large numbers, where larger ones have
        the same.
        """
        function = own_function(case, case.arrays())
        if function is None or not case.smooth or case.name in NOT_THE_FORMULA:
            pytest.skip("several nodes, a batch, or not the formula")
        with jax.enable_x64(True), np.errstate(all="ignore"):
            operands = list(with_unusual(case, np.inf))
            wanted = [np.array(case.expected(arrays)) for arrays in operands]
            r = weights(wanted[0].shape).astype(np.float64)

            def both(*xs):
                y, back = jax.vjp(function, *xs)
                return y, back(jnp.asarray(r))

            stacked = [np.stack(a) for a in zip(*operands, strict=True)]
            values, gradients = jax.jit(jax.vmap(both))(*stacked)

            def loss(arrays):
                return np.sum(case.expected(arrays) * r)

            pairs = zip(*[with_unusual(case, x) for x in (200.3, 300.7)], strict=True)
            for k, pair in enumerate(pairs):
                if np.isnan(wanted[k]).any():  # inf - inf and its like
                    continue
                close(values[k], wanted[k])
                near, far = [slopes(loss, arrays) for arrays in pair]
                for actual, a, b in zip(gradients, near, far, strict=True):
                    known = np.isclose(a, b, rtol=1e-3, atol=1e-6)
                    close(actual[k][known], a[known], rtol=1e-2, atol=2e-3)

    @both_tiers
    def test_batch(self, case, tier, monkeypatch):
        """A batch of three equals three runs of one, in values and gradients."""
        if case.batch > 1:
            pytest.skip("works across the batch")
        monkeypatch.setattr(RUNTIME, "tier", tier)
        dy.renew_cg()
        found = list(batches(case))
        rs = [weights(_shape(one.y)) for one in found]
        wanted = [one.expected(one.arrays) for one in found]
        if case.smooth:
            losses = [loss_of(one.y, r) for one, r in zip(found, rs, strict=True)]
            loss = dy.esum(losses)
            loss.backward(full=True)
            numbers = [np.sum(y * r) for y, r in zip(wanted, rs, strict=True)]
            close(loss.value(), sum(numbers))
            for one, r in zip(found, rs, strict=True):
                one.check_gradients(r)
        values = dy.npvalues([one.y for one in found])
        for value, other in zip(values, wanted, strict=True):
            close(value, other)

    def test_shared_operand(self, case):
        """One expression as two operands gets the gradients of both."""
        first, second = same_shapes(case)
        if case.batch > 1 or second is None or not case.smooth:
            pytest.skip("no two operands with the same dims, or no gradient")
        arrays = case.arrays(seed=3)
        dy.renew_cg()
        add = dy.ParameterCollection().parameters_from_numpy
        given = [add(array) for array in arrays]
        given[second] = given[first]

        def expected(xs):
            xs = [*xs[:second], xs[first], *xs[second + 1 :]]
            return case.expected(xs)

        y = case.call(case.op, given)
        r = weights(_shape(y))
        loss = loss_of(y, r)
        loss.backward()
        close(loss.value(), np.sum(expected(arrays) * r))
        close(y.npvalue(), expected(arrays))
        wanted = central_differences(lambda xs: np.sum(expected(xs) * r), arrays)
        close(given[first].grad_as_array(), wanted[first], rtol=1e-3, atol=1e-4)

    def test_increment(self, case):
        """A value is the same where those of the operands were read before."""
        dy.renew_cg()
        arrays = case.arrays()
        given = case.inputs(arrays)
        for x in given[:1]:
            x.npvalue()
        close(case.call(case.op, given).npvalue(), case.expected(arrays))

    def test_autobatch(self, case):
        """Computing a node together with others changes speed and nothing else."""
        dy.renew_cg()
        first, second = case.arrays(), case.arrays(seed=2)
        y = [case.call(case.op, case.inputs(arrays)) for arrays in (first, second)]
        after = dy.tanh(y[0])
        close(after.npvalue(), np.tanh(case.expected(first)))
        close(y[1].npvalue(), case.expected(second))


def rejects(function, error, match):
    """`function` raises, and leaves the graph as it was."""
    dy.renew_cg()
    with pytest.raises(error, match=match):
        function()
    made = [node for node in current_graph().nodes if node.operands]
    assert not made, [node.signature.op for node in made]
