"""Random programs over several ragged operands, against NumPy.

One program meets many lengths, in any order: what is decided for some of them, or
before an axis is ragged, holds for no others. Gradients are compared in one direction.
"""

import numpy as np
import pytest
from hypothesis import HealthCheck, Phase, given, settings
from hypothesis import strategies as st

import dynetjax as dy
from dynetjax.engine.runtime import RUNTIME
from dynetjax.ops import arithmetic, ragged

SIZE, ROWS = 3, 11
RNG = np.random.default_rng(3)
E = RNG.uniform(-1, 1, (ROWS, SIZE))
W = RNG.normal(size=(SIZE, SIZE)) * 0.5
B = RNG.normal(size=SIZE)
DIRECTION = RNG.normal(size=E.shape)
FEW = settings(
    deadline=None,
    derandomize=True,
    phases=[Phase.generate],
    suppress_health_check=[HealthCheck.too_slow, HealthCheck.data_too_large],
)
D = ("d",)  # a size is a tuple of letters, whose sizes are added up


def softmax(x, d):
    terms = np.exp(x - x.max(d, keepdims=True))
    return terms / terms.sum(d, keepdims=True)


def below(x, y):
    """`y` with axes of size 1 behind, as DyNet aligns it to `x`."""
    return y.reshape(y.shape + (1,) * (x.ndim - y.ndim))


def logsumexp(*xs):
    return np.log(sum(np.exp(x) for x in xs))


# By what is asked of the operands' sizes: functions of DyNet and of NumPy.
ANY = {
    "tanh": (dy.tanh, np.tanh),
    "logistic": (dy.logistic, lambda x: 1 / (1 + np.exp(-x))),
    "negate": (lambda x: -x, np.negative),
    "exp": (lambda x: dy.exp(dy.tanh(x)), lambda x: np.exp(np.tanh(x))),
    "scale": (lambda x: x * 0.5, lambda x: x * 0.5),
    "shift": (lambda x: x + 0.7, lambda x: x + 0.7),
    "subtract_from": (lambda x: 0.3 - x, lambda x: 0.3 - x),
    "rectify": (dy.rectify, lambda x: np.maximum(x, 0)),
    "square": (lambda x: dy.square(dy.tanh(x)), lambda x: np.tanh(x) ** 2),
    "softmax": (dy.softmax, lambda x: softmax(x, 0)),
    "log_softmax": (dy.log_softmax, lambda x: np.log(softmax(x, 0))),
    "cumsum": (lambda x: dy.cumsum(x, 0) * 0.2, lambda x: x.cumsum(0) * 0.2),
}
MATRIX = {
    "softmax of rows": (lambda x: dy.softmax(x, 1), lambda x: softmax(x, 1)),
    "cumsum of rows": (lambda x: dy.cumsum(x, 1) * 0.2, lambda x: x.cumsum(1) * 0.2),
}
ALIKE = {
    "add": (arithmetic.add, np.add),
    "subtract": (lambda x, y: x - y, np.subtract),
    "cmult": (dy.cmult, np.multiply),
    "cdiv": (
        lambda x, y: dy.cdiv(x, dy.exp(dy.tanh(y))),
        lambda x, y: x / np.exp(np.tanh(y)),
    ),
    "bmax": (dy.bmax, np.maximum),
    "bmin": (dy.bmin, np.minimum),
    "emax": (lambda x, y: dy.emax([x, y]), np.maximum),
    "esum": (lambda x, y: dy.esum([x, y, x]), lambda x, y: 2 * x + y),
    "average": (lambda x, y: dy.average([x, y]), lambda x, y: (x + y) / 2),
    "logsumexp": (lambda x, y: dy.logsumexp([x, y]), logsumexp),
}
COLUMN = {
    "add": (arithmetic.add, lambda x, y: x + below(x, y)),
    "cmult": (dy.cmult, lambda x, y: x * below(x, y)),
    "colwise_add": (dy.colwise_add, lambda x, y: x + below(x, y)),
}
REDUCED = {
    "max_dim": (dy.max_dim, lambda x, d: x.max(d)),
    "min_dim": (dy.min_dim, lambda x, d: x.min(d)),
    "sum_dim": (lambda x, d: dy.sum_dim(x, [d]), lambda x, d: x.sum(d)),
    "mean_dim": (lambda x, d: dy.mean_dim(x, [d], False), lambda x, d: x.mean(d)),
    "logsumexp_dim": (dy.logsumexp_dim, lambda x, d: np.log(np.exp(x).sum(d))),
    "first": (lambda x, d: dy.pick(x, 0, d), lambda x, d: x.take(0, d)),
    "last": (
        lambda x, d: dy.pick(x, x.dim()[0][d] - 1, d),
        lambda x, d: x.take(-1, d),
    ),
}
NUMBERS = {
    "dot_product": (dy.dot_product, lambda x, y: np.sum(x * y)),
    "squared_distance": (dy.squared_distance, lambda x, y: np.sum((x - y) ** 2)),
    "l1_distance": (dy.l1_distance, lambda x, y: np.sum(np.abs(x - y))),
}


class Step:
    """One operation: numbers of its operands, and what it does in DyNet and NumPy."""

    def __init__(self, name, operands, functions, sizes):
        self.name, self.operands, self.sizes = name, operands, sizes
        self.dynet, self.numpy = functions

    def __repr__(self):
        return f"{self.name}{self.operands} {self.sizes}"


def steps(sizes):
    """Every step that can follow, by the sizes of what there is."""
    for i, x in enumerate(sizes):
        for name, functions in ANY.items():
            yield Step(name, (i,), functions, x)
        if len(x) == 2:
            for name, functions in MATRIX.items():
                yield Step(name, (i,), functions, x)
            yield Step("transpose", (i,), (dy.transpose, np.transpose), x[::-1])
            for name, (f, g) in REDUCED.items():
                for d in (0, 1):
                    both = (lambda x, f=f, d=d: f(x, d)), (lambda x, g=g, d=d: g(x, d))
                    yield Step(f"{name} {d}", (i,), both, (x[1 - d],))
            if x[0] == D:
                yield Step("W *", (i,), (multiply, lambda x: W @ x), x)
            yield Step("columns", (i,), (columns, lambda x: np.tanh(x)), x)
        for j, y in enumerate(sizes):
            yield from steps_of_two(i, j, x, y)


def steps_of_two(i, j, x, y):
    if x == y:
        for name, functions in ALIKE.items():
            yield Step(name, (i, j), functions, x)
        if len(x) == 2 and x[0] == D:
            both = affine, lambda x, y: W @ x + W.T @ y + B[:, None]
            yield Step("affine_transform", (i, j), both, x)
    if len(x) == 2 and y == x[:1]:
        for name, functions in COLUMN.items():
            yield Step(name, (i, j), functions, x)
    if len(x) == 2 and y[0] == x[1]:
        both = (lambda x, y: x * y * 0.3), (lambda x, y: x @ y * 0.3)
        yield Step("*", (i, j), both, (x[0], *y[1:]))
    if len(x) == len(y):
        for d in range(len(x)):
            if x[:d] + x[d + 1 :] == y[:d] + y[d + 1 :] and len(x[d] + y[d]) < 4:
                joined = tuple(sorted(x[d] + y[d]))
                if x[d] + y[d] == joined:
                    both = (
                        lambda x, y, d=d: dy.concatenate([x, y], d),
                        lambda x, y, d=d: np.concatenate([x, y], d),
                    )
                    sizes = (*x[:d], joined, *x[d + 1 :])
                    yield Step(f"concatenate {d}", (i, j), both, sizes)


def multiply(x):
    return WORLD.W * x


def affine(x, y):
    return dy.affine_transform([WORLD.B, WORLD.W, x, dy.transpose(WORLD.W), y])


def columns(x):
    """A list of ever new length again, of pieces of what is ragged."""
    count = x.dim()[0][1]
    return dy.concatenate_cols([dy.tanh(dy.pick(x, k, 1)) for k in range(count)])


class World:
    def __init__(self):
        self.pc = dy.ParameterCollection()
        self.E = self.pc.lookup_parameters_from_numpy(E)
        self.W = self.pc.parameters_from_numpy(W)
        self.B = self.pc.parameters_from_numpy(B)


WORLD = None
LISTS = ("lookup", "tanh", "product", "numbers")


def source(kind, length, shift, batch):
    rows = [
        WORLD.E.batch([(k * 2 + shift + 5 * e) % ROWS for e in range(batch)])
        for k in range(length)
    ]
    match kind:
        case "lookup":
            return dy.concatenate_cols(rows)
        case "tanh":
            return dy.concatenate_cols([dy.tanh(x) for x in rows])
        case "product":
            return dy.concatenate_cols([WORLD.W * x for x in rows])
    return dy.concatenate([x[k % SIZE] for k, x in enumerate(rows)])


def source_in_numpy(kind, length, shift, element, table):
    rows = [table[(k * 2 + shift + 5 * element) % ROWS] for k in range(length)]
    if kind == "numbers":
        return np.array([x[k % SIZE] for k, x in enumerate(rows)])
    x = np.stack(rows, axis=1)
    return {"lookup": x, "tanh": np.tanh(x), "product": W @ x}[kind]


class Program:
    """Lists, each of a kind and a letter for its length; steps; and a batch size."""

    def __init__(self, draw, most_steps=7):
        self.batch = draw(st.sampled_from([1, 1, 2]))
        count = draw(st.integers(2, 4))
        self.lists = [
            (draw(st.sampled_from(LISTS)), draw(st.sampled_from("aab")))
            for _ in range(count)
        ]
        sizes = [((c,),) if kind == "numbers" else (D, (c,)) for kind, c in self.lists]
        self.steps = []
        for _ in range(draw(st.integers(2, most_steps))):
            possible = {}
            for step in steps(sizes):
                possible.setdefault(step.name, []).append(step)
            # the name first: there are many ways to add
            name = draw(st.sampled_from(sorted(possible)))
            step = draw(st.sampled_from(possible[name]))
            self.steps.append(step)
            sizes.append(step.sizes)

    def __repr__(self):
        return f"{self.lists} x{self.batch} {self.steps}"

    def values(self, lists, which):
        found = list(lists)
        for step in self.steps:
            function = step.dynet if which == "dynet" else step.numpy
            found.append(function(*[found[k] for k in step.operands]))
        return found

    def run(self, lengths, with_slope):
        """Values, and the slope of the sum of their squares along the direction."""
        dy.renew_cg()
        lists = [
            source(kind, lengths[c], shift, self.batch)
            for shift, (kind, c) in enumerate(self.lists)
        ]
        found = self.values(lists, "dynet")
        if not with_slope:
            return dy.npvalues(found), None
        before = WORLD.E.grad_as_array()
        losses = [dy.sum_batches(dy.squared_norm(y)) for y in found]
        dy.esum(losses).backward()
        slope = np.sum((WORLD.E.grad_as_array() - before) * DIRECTION)
        return dy.npvalues(found), slope

    def expected(self, lengths):
        def values(table):
            per_element = [
                self.values(
                    [
                        source_in_numpy(kind, lengths[c], shift, element, table)
                        for shift, (kind, c) in enumerate(self.lists)
                    ],
                    "numpy",
                )
                for element in range(self.batch)
            ]
            return [
                v[0] if self.batch == 1 else np.stack(v, axis=-1)
                for v in zip(*per_element, strict=True)
            ]

        def loss(table):
            return sum(np.sum(np.square(y)) for y in values(table))

        step = 1e-6
        slope = (loss(E + step * DIRECTION) - loss(E - step * DIRECTION)) / (2 * step)
        return values(E), slope


def check(program, all_lengths, with_slope):
    global WORLD
    WORLD = World()
    for k, lengths in enumerate(all_lengths):
        values, slope = program.run(lengths, with_slope)
        wanted, wanted_slope = program.expected(lengths)
        names = [*program.lists, *program.steps]
        for name, value, other in zip(names, values, wanted, strict=True):
            about = f"{name} of {program} at {lengths}, number {k}"
            scale = 1e-4 * max(1, np.abs(other).max())
            assert value.shape == other.shape, about
            np.testing.assert_allclose(value, other, 1e-3, scale, err_msg=about)
        if with_slope:
            total = sum(np.sum(np.square(y)) for y in wanted)
            about = f"{program} at {lengths}, number {k}"
            precision = 1e-3 * (1 + total)
            assert slope == pytest.approx(wanted_slope, 5e-3, precision), about


# From 2 on: of one column, some results are vectors, and have other consumers.
LENGTHS = st.lists(
    st.fixed_dictionaries({"a": st.integers(2, 20), "b": st.integers(2, 20)}),
    min_size=4,
    max_size=7,
)


def try_out(data, with_slope):
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(ragged, "_choices", {})
        patch.setattr(RUNTIME, "tier", "native")
        check(Program(data.draw), data.draw(LENGTHS), with_slope)


@settings(FEW, max_examples=14)
@given(data=st.data())
def test_values(data):
    try_out(data, False)


@settings(FEW, max_examples=2)
@given(data=st.data())
def test_gradients(data):
    try_out(data, True)
