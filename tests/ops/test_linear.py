"""Linear algebra."""

import numpy as np
import pytest
from laws import Case, Laws, close, rejects

import dynetjax as dy
from dynetjax.ops.linear import matmul


def affine(xs):
    bias, *rest = xs
    total = sum(w @ x for w, x in zip(rest[::2], rest[1::2], strict=True))
    return total + (bias if bias.ndim == total.ndim else bias[:, None])


CASES = [
    Case(matmul, np.matmul, x=(2, 3), y=(3,)),
    Case(matmul, np.matmul, x=(2, 3), y=(3, 4)),
    Case(matmul, np.matmul, x=(2, 3), y=(3, 1)),
    Case(matmul, lambda x, y: x * y, x=(3,), y=(1,)),
    Case(matmul, np.outer, x=(3,), y=(1, 2)),
    Case(dy.affine_transform, affine, exprs=[(2,), (2, 3), (3,)]),
    Case(dy.affine_transform, affine, exprs=[(2,), (2, 3), (3,), (2, 4), (4,)]),
    Case(dy.affine_transform, affine, exprs=[(2,), (2, 3), (3, 4)]),
    Case(dy.affine_transform, affine, exprs=[(2, 4), (2, 3), (3, 4)]),
    Case(
        dy.affine_transform,
        lambda xs: xs[0] + xs[1] @ xs[2][:, 0],
        exprs=[(2,), (2, 3), (3, 1)],
    ),
    Case(dy.affine_transform, lambda xs: xs[0], exprs=[(2,)]),
    Case(dy.dot_product, lambda x, y: np.sum(x * y)[None], x=(4,), y=(4,)),
    Case(dy.dot_product, lambda x, y: np.sum(x * y)[None], x=(2, 2), y=(2, 2)),
    Case(dy.trace_of_product, lambda x, y: np.trace(x @ y.T)[None], x=(2, 3), y=(2, 3)),
    Case(dy.colwise_add, lambda x, y: x + y[:, None], x=(2, 3), y=(2,)),
    Case(dy.inverse, np.linalg.inv, x=(2, 2), low=0.2),
]


@pytest.mark.parametrize("case", CASES, ids=str)
class TestEveryOperation(Laws):
    pass


POSITIVE = np.array([[2.0, 0.5], [0.3, 1.0]])


@pytest.mark.parametrize(
    "case",
    [
        Case(
            lambda x: dy.logdet(x + dy.inputTensor(POSITIVE * 3)),
            lambda x: np.log(np.linalg.det(x + POSITIVE * 3))[None],
            covers=dy.logdet,
            x=(2, 2),
            low=0,
            high=1,
        )
    ],
    ids=str,
)
class TestLogdet(Laws):
    pass


def test_logdet_of_a_negative_determinant():
    dy.renew_cg()
    assert np.isnan(dy.logdet(dy.inputTensor([[0.0, 1], [1, 0]])).value())


def test_one_weight_meets_a_batch():
    dy.renew_cg()
    w, x = np.random.RandomState(0).rand(2, 3), np.random.RandomState(1).rand(3, 5)
    y = dy.inputTensor(w) * dy.inputTensor(x, batched=True)
    close(y.npvalue(), w @ x)


def test_weights_get_the_gradient_of_every_use():
    dy.renew_cg()
    w = dy.ParameterCollection().parameters_from_numpy(np.ones((2, 3)))
    x = dy.inputTensor(np.arange(6.0).reshape(3, 2), batched=True)
    b = dy.inputVector([0.0, 0.0])
    y = dy.affine_transform([b, w, x, w, dy.inputVector([1.0, 1.0, 1.0])])
    dy.sum_batches(dy.sum_elems(y)).backward()
    close(w.grad_as_array(), [[3, 7, 11]] * 2)


def test_true_float32():
    dy.renew_cg()
    w = np.full((1, 64), 1 + 2.0**-12)
    close((dy.inputTensor(w) * dy.inputVector(w[0])).value(), (w @ w[0])[0], rtol=1e-6)


def tensors(*shapes):
    return [dy.inputTensor(np.ones(shape)) for shape in shapes]


@pytest.mark.parametrize(
    "shapes", [((2, 3), (2,)), ((3,), (3, 2)), ((2, 2, 2), (2,)), ((1,), (3,))]
)
def test_products_that_do_not_fit(shapes):
    message = "matmul: the dims of the operands do not fit"
    rejects(lambda: matmul(*tensors(*shapes)), ValueError, message)


@pytest.mark.parametrize(
    ("shapes", "message"),
    [
        (((2,), (2, 3)), r"expected: \[b, W1, x1, ...\]"),
        (((1,), (2, 3), (3,)), "a bias of 2 rows"),
        (((2,), (2, 3), (3,), (2, 3), (4,)), r"\{m,k\} times \{k\} or"),
        (((2,), (2, 3), (3,), (3, 3), (3,)), "products W . x of the same dims"),
    ],
)
def test_affine_transforms_that_do_not_fit(shapes, message):
    rejects(lambda: dy.affine_transform(tensors(*shapes)), ValueError, message)


def test_affine_transform_of_different_batches():
    def build():
        x, y = (dy.inputTensor(np.ones((3, n)), batched=True) for n in (2, 4))
        dy.affine_transform([*tensors((2,), (2, 3)), x, *tensors((2, 3)), y])

    rejects(build, ValueError, "affine_transform: the operands have different batch")


def test_other_refusals():
    rejects(lambda: dy.dot_product(*tensors((3,), (3, 1))), ValueError, "the same dims")
    rejects(lambda: dy.trace_of_product(*tensors((2,), (3,))), ValueError, "the same")
    rejects(lambda: dy.colwise_add(*tensors((2, 3), (3,))), ValueError, "{m,n} and {m}")
    rejects(lambda: dy.inverse(*tensors((2, 3))), ValueError, "a square matrix")
    rejects(lambda: dy.logdet(*tensors((2, 3))), ValueError, "logdet: the dims")


@pytest.mark.parametrize("settled", [False, True])
@pytest.mark.parametrize("number", [3, 5])
def test_an_affine_transform_of_what_is_no_expression(settled, number):
    """Also where sums like it have been made, and need no checks."""
    model = dy.ParameterCollection()
    b, W = model.add_parameters(2), model.add_parameters((2, 2))
    x = dy.inputVector([1, 2])
    exprs = [b, *[W, x] * (number // 2)]
    for _ in range(2 * settled):
        dy.affine_transform(exprs)
    for wrong, error in (None, AssertionError), (1, TypeError):
        with pytest.raises(error, match="affine_transform: "):
            dy.affine_transform([*exprs[:-2], wrong, x])
