"""What `operations.py` measures: families of operations, at sizes typical of DyNet.

A row is one operation on operands of some shapes. What DyNet refuses to batch is not
batched.
"""

import collections
import dataclasses
from collections.abc import Callable

import harness
import numpy as np

dy = harness.dynet()

APPLICATIONS = 100  # in a graph
SMALL, LARGE, WIDE = (50,), (512,), (128,)
SQUARE, SENTENCE = (64, 64), (128, 50)  # a matrix; the states of a sentence


@dataclasses.dataclass
class Row:
    """An operation at one size.

    Attributes:
        shapes: of the operands, which differ from application to application.
        apply: ``(k, *parameters, *operands) -> result``, for application k.
        batch: size of the operands' batch.
        weights: shapes of parameters that all applications share.
        regular: square operands are made close to the unit matrix.
        baseline: nothing is applied: operands are summed as they are.
    """

    name: str
    shapes: tuple
    apply: Callable
    batch: int = 1
    weights: tuple = ()
    regular: bool = False
    baseline: bool = False

    @property
    def size(self):
        """Shapes and batch, as the table shows them."""
        counts = collections.Counter(self.weights + self.shapes)
        parts = [
            (f"{count} of " if count > 1 else "") + "x".join(map(str, shape))
            for shape, count in counts.items()
        ]
        return "; ".join(parts) + (f", batch {self.batch}" if self.batch > 1 else "")


def each(op, *arguments):
    """`apply` for an operation of the operands, in order."""
    return lambda k, *operands: op(*operands, *arguments)


def together(op, *arguments):
    """`apply` for an operation of a list."""
    return lambda k, *operands: op(list(operands), *arguments)


def at_sizes(name, apply, *sizes, operands=1):
    """A row for each size, a shape and a batch size, with operands all alike."""
    return [Row(name, (shape,) * operands, apply, batch) for shape, batch in sizes]


COMMON = ((SMALL, 1), (LARGE, 1), (WIDE, 16), (WIDE, 64), (SQUARE, 1))
USUAL = ((SMALL, 1), (WIDE, 16))
ONE = ((WIDE, 16),)
MATRICES = ((SENTENCE, 1),)
ALONE = ((SMALL, 1), (LARGE, 1))  # for what DyNet does not batch


def unary():
    """Element by element, of one operand."""
    rows = []
    for name in ("tanh", "logistic", "rectify"):
        rows += at_sizes(name, each(getattr(dy, name)), *COMMON)
    for name in ("exp", "log", "square", "sqrt"):
        rows += at_sizes(name, each(getattr(dy, name)), *USUAL)
    rest = (
        "elu selu silu softsign erf cube abs lgamma log_sigmoid "
        "sin cos tan asin acos atan sinh cosh asinh atanh"
    )
    for name in rest.split():
        rows += at_sizes(name, each(getattr(dy, name)), *ONE)
    rows += at_sizes("negate", each(lambda x: -x), *USUAL)
    rows += at_sizes("add number", each(lambda x: x + 1.5), *USUAL)
    rows += at_sizes("times number", each(lambda x: x * 1.5), *USUAL)
    return rows


def binary():
    """Element by element, of two operands."""
    ops = {"add": lambda x, y: x + y, "cmult": dy.cmult}
    rows = []
    for name, op in ops.items():
        rows += at_sizes(name, each(op), *COMMON, operands=2)
    ops = {"subtract": lambda x, y: x - y, "cdiv": dy.cdiv, "bmax": dy.bmax}
    for name, op in ops.items():
        rows += at_sizes(name, each(op), *USUAL, operands=2)
    rows += at_sizes("bmin", each(dy.bmin), *ONE, operands=2)
    return [
        *rows,
        Row("pow", ((128,), (1,)), each(dy.pow)),
        Row("add a parameter", (WIDE,), each(lambda p, x: x + p), 16, (WIDE,)),
        Row("cmult by a scalar", (WIDE, (1,)), each(dy.cmult), 16),
        Row("colwise_add", (SENTENCE, WIDE), each(dy.colwise_add)),
        Row("colwise_add", (SQUARE, (64,)), each(dy.colwise_add), 16),
    ]


def products():
    """Matrix products; a matrix that is named first is a parameter."""

    def times(x, y):
        return x * y

    def affine(*operands):
        return dy.affine_transform(list(operands))

    square = (128, 128)
    return [
        Row("W * x", (SMALL,), each(times), 1, ((50, 50),)),
        Row("W * x", (LARGE,), each(times), 1, ((512, 512),)),
        Row("W * x", (WIDE,), each(times), 16, (square,)),
        Row("W * x", (WIDE,), each(times), 64, (square,)),
        Row("W * X", (SENTENCE,), each(times), 1, (square,)),
        Row("matrix * vector", (SQUARE, (64,)), each(times)),
        Row("matrix * matrix", (SQUARE, SQUARE), each(times)),
        Row("matrix * matrix", ((128, 50), (50, 64)), each(times)),
        Row("matrix * matrix", ((32, 32), (32, 32)), each(times), 16),
        Row("affine_transform", (SMALL,), each(affine), 1, (SMALL, (50, 50))),
        Row("affine_transform", (WIDE,), each(affine), 16, (WIDE, square)),
        Row("affine_transform", (SENTENCE,), each(affine), 1, (WIDE, square)),
        Row(
            "affine_transform, two",
            (WIDE, WIDE),
            lambda k, b, W, U, x, y: dy.affine_transform([b, W, x, U, y]),
            16,
            (WIDE, square, (128, 128)),
        ),
        *at_sizes("dot_product", each(dy.dot_product), *COMMON, operands=2),
    ]


def reductions():
    """From many numbers to few."""
    rows = at_sizes("sum_elems", each(dy.sum_elems), *COMMON)
    for name in ("mean_elems", "std_elems", "squared_norm", "l2_norm"):
        rows += at_sizes(name, each(getattr(dy, name)), *USUAL)
    rows += at_sizes("moment_elems", each(dy.moment_elems, 2), *ONE)
    vectors = {"max_dim": dy.max_dim, "min_dim": dy.min_dim, "cumsum": dy.cumsum}
    vectors["logsumexp_dim"] = dy.logsumexp_dim
    for name, op in vectors.items():
        rows += at_sizes(name, each(op, 0), *USUAL, *MATRICES)
    rows += at_sizes("sum_dim 1", each(dy.sum_dim, [1]), *MATRICES)
    rows += at_sizes("max_dim 1", each(dy.max_dim, 1), *MATRICES)
    rows += at_sizes("mean_dim 1", each(dy.mean_dim, [1], False), *MATRICES)
    rows += at_sizes("std_dim 1", each(dy.std_dim, [1], False), *MATRICES)
    for name in ("sum_batches", "mean_batches", "std_batches"):
        rows += at_sizes(name, each(getattr(dy, name)), *ONE)
    return rows


def lists():
    """Of lists of expressions, ten each."""
    rows = []
    for name in ("esum", "average", "concatenate"):
        rows += at_sizes(name, together(getattr(dy, name)), *USUAL, operands=10)
    for name in ("emax", "logsumexp"):
        rows += at_sizes(name, together(getattr(dy, name)), *USUAL, operands=10)
    for name in ("concatenate_cols", "concatenate_to_batch"):
        rows += at_sizes(name, together(getattr(dy, name)), *USUAL, operands=10)
    rows += at_sizes("concatenate, two", together(dy.concatenate), *USUAL, operands=2)
    return rows


def selection():
    """Parts of an operand, or all of it in another order."""

    def pick(k, x):
        return dy.pick(x, k % 50)

    def column(k, x):
        return dy.pick(x, k % 50, 1)

    def element(k, x):
        return dy.pick_batch_elem(x, k % 16)

    def chosen(k, x):
        return dy.pick_batch(x, [(k + i) % 128 for i in range(16)])

    some = [3, 17, 4, 40, 21]
    return [
        *at_sizes("pick", pick, *ALONE, (WIDE, 16)),
        *at_sizes("pick, of dim 1", column, *MATRICES),
        *at_sizes("pick_batch", chosen, *ONE),
        *at_sizes("pick_range", each(dy.pick_range, 10, 40), *ALONE, (WIDE, 16)),
        *at_sizes("pick_range, of dim 1", each(dy.pick_range, 10, 40, 1), *MATRICES),
        *at_sizes("x[10:40]", each(lambda x: x[10:40]), *USUAL),
        *at_sizes("select_rows", each(dy.select_rows, some), *USUAL, *MATRICES),
        *at_sizes("select_cols", each(dy.select_cols, some), *MATRICES),
        *at_sizes(
            "strided_select", each(dy.strided_select, [2], [0], [50]), *USUAL, *MATRICES
        ),
        *at_sizes("pick_batch_elem", element, *ONE),
        *at_sizes("pick_batch_elems", each(dy.pick_batch_elems, [1, 5, 9, 12]), *ONE),
        *at_sizes("reshape", each(dy.reshape, (32, 4)), *ONE),
        *at_sizes("reshape", each(dy.reshape, (50, 128)), *MATRICES),
        *at_sizes("transpose", each(dy.transpose), (SQUARE, 1), *MATRICES),
    ]


def softmaxes():
    """Distributions."""
    rows = []
    for name in ("softmax", "log_softmax"):
        op = each(getattr(dy, name))
        rows += at_sizes(name, op, *ALONE, *ONE, (WIDE, 64), *MATRICES)
    rows += at_sizes("softmax 1", each(dy.softmax, 1), *MATRICES)
    restrict = [3, 17, 4, 40, 21]
    rows += at_sizes("log_softmax, restricted", each(dy.log_softmax, restrict), *ALONE)
    rows += at_sizes("sparsemax", each(dy.sparsemax), *ALONE)
    constrained = each(dy.constrained_softmax)
    return rows + at_sizes("constrained_softmax", constrained, (SMALL, 1), operands=2)


def losses():
    """One number for each batch element."""

    def gold(op):
        return lambda k, x: op(x, k % 50)

    def golds(op):
        return lambda k, x: op(x, list(range(k, k + 16)))

    rows = at_sizes("pickneglogsoftmax", gold(dy.pickneglogsoftmax), *ALONE)
    rows += at_sizes("pickneglogsoftmax_batch", golds(dy.pickneglogsoftmax_batch), *ONE)
    rows += at_sizes("hinge", gold(dy.hinge), *ALONE)
    rows += at_sizes("hinge_batch", golds(dy.hinge_batch), *ONE)
    rows += at_sizes("hinge_dim", each(dy.hinge_dim, list(range(50))), *MATRICES)
    rows += at_sizes(
        "squared_distance", each(dy.squared_distance), *ALONE, *ONE, operands=2
    )
    for name in ("l1_distance", "huber_distance", "binary_log_loss"):
        rows += at_sizes(name, each(getattr(dy, name)), *ALONE, operands=2)
    rows += at_sizes(
        "pairwise_rank_loss", each(dy.pairwise_rank_loss), ((1, 50), 1), operands=2
    )
    return [*rows, Row("poisson_loss", ((1,),), lambda k, x: dy.poisson_loss(x, k % 9))]


def algebra():
    """Linear algebra other than products."""
    cube = ((32, 32, 8), (8,))
    return [
        Row("inverse", ((16, 16),), each(dy.inverse), regular=True),
        Row("inverse", (SQUARE,), each(dy.inverse), regular=True),
        Row("logdet", ((16, 16),), each(dy.logdet), regular=True),
        Row("logdet", (SQUARE,), each(dy.logdet), regular=True),
        Row("trace_of_product", (SQUARE, SQUARE), each(dy.trace_of_product)),
        Row("contract3d_1d_bias", (*cube, (32, 32)), each(dy.contract3d_1d_bias)),
        Row("contract3d_1d_1d", (*cube, (32,)), each(dy.contract3d_1d_1d)),
        *at_sizes("circ_conv", each(dy.circ_conv), *ALONE, operands=2),
        *at_sizes("circ_corr", each(dy.circ_corr), *ALONE, operands=2),
    ]


def convolutions():
    """Convolution and pooling; filters are parameters."""

    def conv(is_valid):
        return lambda k, f, x: dy.conv2d(x, f, [1, 1], is_valid)

    def conv_bias(k, f, b, x):
        return dy.conv2d_bias(x, f, b, [1, 1], False)

    def narrow(k, f, x):
        return dy.filter1d_narrow(x, f)

    pool = each(dy.maxpooling2d, [2, 2], [2, 2])
    image, layer, words = (28, 28, 1), (14, 14, 8), (50, 20)
    return [
        Row("conv2d", (image,), conv(True), 1, ((5, 5, 1, 8),)),
        Row("conv2d", (layer,), conv(False), 1, ((3, 3, 8, 16),)),
        Row("conv2d", (layer,), conv(False), 8, ((3, 3, 8, 16),)),
        Row("conv2d_bias", (layer,), conv_bias, 1, ((3, 3, 8, 16), (16,))),
        Row("maxpooling2d", ((24, 24, 8),), pool),
        Row("maxpooling2d", (layer,), pool, 8),
        Row("filter1d_narrow", (words,), narrow, 1, ((50, 3, 32),)),
        Row("kmax_pooling", ((32, 20),), each(dy.kmax_pooling, 3)),
        Row("fold_rows", ((64, 20),), each(dy.fold_rows)),
        Row("kmh_ngram", ((64, 20),), each(dy.kmh_ngram, 3)),
    ]


def noise():
    """Random numbers; all of them times a parameter where there is no operand."""

    def normal(k, p):
        return dy.cmult(dy.random_normal((128,), batch_size=16), p)

    def uniform(k, p):
        return dy.cmult(dy.random_uniform((128,), 0, 1, batch_size=16), p)

    return [
        *at_sizes("dropout", each(dy.dropout, 0.5), *COMMON),
        *at_sizes("noise", each(dy.noise, 0.1), *USUAL),
        *at_sizes("dropout_batch", each(dy.dropout_batch, 0.5), *ONE),
        *at_sizes("dropout_dim", each(dy.dropout_dim, 1, 0.5), *MATRICES),
        *at_sizes("block_dropout", each(dy.block_dropout, 0.5), (SMALL, 1)),
        Row("random_normal, batch 16", (), normal, weights=(WIDE,)),
        Row("random_uniform, batch 16", (), uniform, weights=(WIDE,)),
    ]


def normalisation():
    """Layers and weights made regular."""

    def layer(k, g, b, x):
        return dy.layer_norm(x, g, b)

    rows = [
        Row("layer_norm", (shape,), layer, batch, (shape, shape))
        for shape, batch in (*ALONE, (WIDE, 16), (WIDE, 64))
    ]
    return [*rows, Row("weight_norm", (SQUARE, (1,)), each(dy.weight_norm))]


def lstm_steps():
    """Steps of an LSTM whose inputs and states are given; matrices are parameters."""

    def gates(k, W, U, b, x, h):
        return dy.vanilla_lstm_gates(x, h, W, U, b)

    def step(k, W, U, b, x, h, c):
        z = dy.vanilla_lstm_gates(x, h, W, U, b)
        return dy.vanilla_lstm_h(dy.vanilla_lstm_c(c, z), z)

    rows = []
    for n, batch in ((50, 1), (128, 16), (256, 1)):
        state, stacked = (n,), (4 * n,)
        weights = ((4 * n, n), (4 * n, n), stacked)
        rows += [
            Row("vanilla_lstm_gates", (state,) * 2, gates, batch, weights),
            Row("vanilla_lstm_c", (state, stacked), each(dy.vanilla_lstm_c), batch),
            Row("vanilla_lstm_h", (state, stacked), each(dy.vanilla_lstm_h), batch),
            Row("gates, c and h", (state,) * 3, step, batch, weights),
        ]
    return rows


def inputs():
    """Numbers from outside, times a parameter; and rows of tables as they are."""
    rng = np.random.default_rng(1)
    columns, numbers = rng.random((128, 16)), rng.random(50).tolist()

    def given(shape):
        arrays = rng.random((APPLICATIONS, *shape))
        return lambda k, p: dy.cmult(dy.inputTensor(arrays[k]), p)

    def listed(k, p):
        return dy.cmult(dy.inputVector(numbers), p)

    def batched(k, p):
        return dy.cmult(dy.inputTensor(columns, batched=True), p)

    def scalar(k, p):
        return dy.cmult(dy.scalarInput(0.5 + k), p)

    def hot(k, p):
        return dy.cmult(dy.one_hot(512, k), p)

    def hots(k, p):
        return dy.cmult(dy.one_hot(128, list(range(k, k + 16))), p)

    def zeros(k, p):
        return dy.zeros((512,)) + p

    return [
        *(
            Row("inputTensor", (), given(shape), weights=(shape,))
            for shape in (SMALL, LARGE, SQUARE)
        ),
        Row("inputVector of a list", (), listed, weights=(SMALL,)),
        Row("inputTensor, batch 16", (), batched, weights=(WIDE,)),
        Row("scalarInput", (), scalar, weights=((1,),)),
        Row("one_hot", (), hot, weights=(LARGE,)),
        Row("one_hot, batch 16", (), hots, weights=(WIDE,)),
        Row("zeros", (), zeros, weights=(LARGE,)),
        *at_sizes("lookup", each(lambda x: x), *ALONE, (SQUARE, 1)),
        *at_sizes("lookup_batch", each(lambda x: x), (WIDE, 16), (WIDE, 64)),
    ]


FAMILIES = {
    made.__name__: made
    for made in (
        unary, binary, products, reductions, lists, selection, softmaxes, losses,
        algebra, convolutions, noise, normalisation, lstm_steps, inputs,
    )
}  # fmt: skip


def baselines(rows):
    """What the programs of `rows` are without their operations."""
    kinds = dict.fromkeys((row.shapes, row.batch) for row in rows if row.shapes)
    return [
        Row("baseline", shapes, each(None), batch, baseline=True)
        for shapes, batch in kinds
    ]
