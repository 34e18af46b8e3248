"""Numbers and arrays of other libraries, wherever numbers are taken."""

import copy
import operator

import jax
import jax.numpy as jnp
import numpy as np
import pytest

import dynetjax as dy
from dynetjax.core import expression


class Tensor:
    """Of another library: NumPy makes an array of it, and nothing else is known."""

    def __init__(self, array):
        self._array = np.asarray(array)

    def __array__(self, dtype=None, copy=None):
        return np.array(self._array, dtype)


KINDS = {"numpy": np.asarray, "jax": jnp.asarray, "other": Tensor}
kinds = pytest.mark.parametrize("kind", KINDS.values(), ids=KINDS)


@pytest.fixture
def x():
    dy.renew_cg()
    return dy.inputVector([1, 2, 4])


MATRIX = np.array([[1, 2, 3], [4, 5, 6]], np.float32)


@kinds
class TestInputs:
    """An array of any library is the same input."""

    def test_tensor(self, kind):
        assert (dy.inputTensor(kind(MATRIX)).npvalue() == MATRIX).all()

    def test_batched(self, kind):
        x = dy.inputTensor(kind(MATRIX), batched=True)
        assert x.dim() == ((2,), 3)
        assert (x.npvalue() == MATRIX).all()

    def test_list_of_arrays_is_a_batch(self, kind):
        x = dy.inputTensor([kind(row) for row in MATRIX])
        assert x.dim() == ((3,), 2)
        assert (x.npvalue() == MATRIX.T).all()

    def test_vector(self, kind):
        assert dy.inputVector(kind([1.0, 2.0])).value() == [1, 2]

    def test_scalar(self, kind):
        assert dy.scalarInput(kind(2.5)).value() == 2.5

    def test_scalar_of_one_element(self, kind):
        """As in DyNet."""
        assert dy.scalarInput(kind([2.5])).value() == 2.5

    def test_flat(self, kind):
        x = dy.inputTensorTranspose(kind([1.0, 2.0, 3.0, 4.0]), (2, 2))
        assert x.npvalue().tolist() == [[1, 3], [2, 4]]

    def test_set(self, kind, x):
        x.set(kind([7.0, 8.0, 9.0]))
        assert x.value() == [7, 8, 9]

    def test_sparse(self, kind):
        places = [kind([0, 1]), kind([2, 0])]
        x = dy.sparse_inputTensor(places, kind([5.0, 7.0]), (2, 3), defval=kind(1.0))
        assert x.npvalue().tolist() == [[1, 1, 5], [7, 1, 1]]


@kinds
class TestModel:
    def test_init(self, kind):
        m = dy.ParameterCollection()
        for made in (
            m.add_parameters((2, 3), init=kind(MATRIX)),
            m.add_lookup_parameters((2, 3), init=kind(MATRIX)),
            m.parameters_from_numpy(kind(MATRIX)),
            m.lookup_parameters_from_numpy(kind(MATRIX)),
            m.add_parameters(
                (2, 3), init=dy.NumpyInitializer(kind(MATRIX.ravel(order="F")))
            ),
        ):
            assert (made.as_array() == MATRIX).all()

    def test_number_as_init(self, kind):
        m = dy.ParameterCollection()
        number = np.float32(2) if kind is np.asarray else kind(2.0)
        assert m.add_lookup_parameters((2, 3), init=number).as_array().sum() == 12

    def test_set(self, kind):
        m = dy.ParameterCollection()
        W, E = m.add_parameters((2, 3)), m.add_lookup_parameters((2, 3))
        W.set_value(kind(MATRIX))
        E.init_from_array(kind(MATRIX))
        E.init_row(1, kind([7.0, 8.0, 9.0]))
        assert (W.as_array() == MATRIX).all()
        assert E.as_array().tolist() == [[1, 2, 3], [7, 8, 9]]

    def test_dim(self, kind):
        m = dy.ParameterCollection()
        size = kind(4)
        if not isinstance(size, Tensor):  # which Python takes for no int
            assert m.add_parameters(size).shape() == (4,)
            assert m.add_lookup_parameters(size).shape() == (4, 1)

    def test_learning_rate(self, kind):
        m = dy.ParameterCollection()
        assert dy.SimpleSGDTrainer(m, learning_rate=kind(0.5)).learning_rate == 0.5


@kinds
class TestIndices:
    def test_rows(self, kind, x):
        E = dy.ParameterCollection().lookup_parameters_from_numpy(MATRIX)
        assert E[kind(1)].value() == [4, 5, 6]
        assert E.batch(kind([1, 0])).dim() == ((3,), 2)
        assert x[kind(1)].value() == 2
        assert x[kind(-1)].value() == 4
        assert x[kind(1) : kind(3)].value() == [2, 4]

    @pytest.mark.parametrize(
        ("one", "expected"),
        [
            (dy.pick, 2),
            (dy.pickneglogsoftmax, np.log(np.exp([1, 2, 4]).sum()) - 2),
            (dy.hinge, 1 + 4 - 2),
        ],
    )
    def test_operations(self, kind, one, expected, x):
        assert one(x, kind(1)).value() == pytest.approx(expected)

    def test_several(self, kind, x):
        assert dy.select_rows(x, kind([2, 0])).value() == [4, 1]
        assert dy.one_hot(3, kind(1)).value() == [0, 1, 0]
        assert dy.one_hot(3, kind([1, 0])).dim() == ((3,), 2)
        several = dy.inputTensor(MATRIX, batched=True)
        assert dy.pick_batch(several, kind([0, 1, 0])).value() == [1, 5, 3]
        assert dy.transpose(dy.inputTensor(MATRIX), kind([1, 0])).dim() == ((3, 2), 1)
        assert dy.sum_dim(dy.inputTensor(MATRIX), kind([0])).value() == [5, 7, 9]
        assert dy.strided_select(x, kind([2]), kind([0]), kind([3])).value() == [1, 4]


NUMBERS = {
    "float32": np.float32(2),
    "int64": np.int64(2),
    "uint8": np.uint8(2),
    "0-d": np.array(2.0),
    "jax": jnp.float32(2),
    "bfloat16": jnp.bfloat16(2),
    "other": Tensor(2.0),
}
OPERATORS = operator.add, operator.sub, operator.mul, operator.truediv, operator.pow


class TestOperators:
    @pytest.mark.parametrize("number", NUMBERS.values(), ids=NUMBERS)
    @pytest.mark.parametrize("apply", OPERATORS)
    def test_numbers(self, x, apply, number):
        """Every kind of number is one to operators."""
        assert np.allclose(apply(x, number).value(), apply(np.array([1, 2, 4]), 2.0))

    @pytest.mark.parametrize("number", NUMBERS.values(), ids=NUMBERS)
    @pytest.mark.parametrize("apply", OPERATORS[:3])
    def test_numbers_on_the_left(self, x, apply, number):
        assert np.allclose(apply(number, x).value(), apply(2.0, np.array([1, 2, 4])))

    @kinds
    def test_product_with_an_array(self, kind, x):
        """`*` and `@` are the matrix product, whichever side the array is on."""
        A, B = np.arange(6.0).reshape(2, 3), np.arange(4.0).reshape(1, 4)
        for product in operator.mul, operator.matmul:
            y = product(kind(A), x)
            assert isinstance(y, dy.Expression)
            assert np.allclose(y.value(), A @ [1, 2, 4])
            assert np.allclose(product(x, kind(B)).npvalue(), [[1], [2], [4]] @ B)

    @kinds
    def test_sum_with_an_array(self, kind, x):
        a = kind([10.0, 20.0, 30.0])
        assert (x + a).value() == (a + x).value() == [11, 22, 34]
        assert (x - a).value() == [-9, -18, -26]
        assert (a - x).value() == [9, 18, 26]

    def test_gradient_goes_through(self, x):
        loss = dy.sum_elems(np.array([[1.0, 2, 3], [4, 5, 6]]) * x)
        loss.backward(full=True)
        assert x.gradient().tolist() == [5, 7, 9]

    def test_misfit(self, x):
        with pytest.raises(dy.DimError, match="matmul: the dims"):
            x * np.ones(3)

    def test_array_of_expressions(self, x):
        """Element by element, as in DyNet."""
        both = np.array([x, x + 1], dtype=object) + x
        assert [y.value() for y in both] == [[2, 4, 8], [3, 5, 9]]

    @pytest.mark.parametrize("other", ["a", None, np.array(["a"]), np.complex64(1)])
    def test_no_number(self, x, other):
        for apply in operator.add, operator.sub, operator.mul:
            with pytest.raises(NotImplementedError, match="not supported"):
                apply(x, other)
        with pytest.raises(NotImplementedError, match="not supported"):
            other * x

    def test_functions_of_numpy(self, x):
        with pytest.raises(TypeError, match="does not support ufuncs"):
            np.exp(x)

    def test_matrix_product(self, x):
        W = dy.ParameterCollection().parameters_from_numpy(MATRIX)
        assert (W @ x).value() == (W * x).value() == (MATRIX @ [1, 2, 4]).tolist()


class TestValues:
    """Expressions give NumPy, and Python, their numbers."""

    def test_array(self, x):
        assert np.asarray(x).dtype == np.float64
        assert np.array(x, np.float32).tolist() == [1, 2, 4]
        assert np.array([x, 2 * x]).tolist() == [[1, 2, 4], [2, 4, 8]]

    def test_array_of_expressions(self, x):
        array = np.array([x, x], dtype=object)
        assert array.tolist() == [x, x]

    def test_no_view(self, x):
        with pytest.raises(ValueError, match="the value of an expression is a copy"):
            np.asarray(x, copy=False)

    def test_model(self):
        m = dy.ParameterCollection()
        W, E = m.parameters_from_numpy(MATRIX), m.lookup_parameters_from_numpy(MATRIX)
        assert np.asarray(W).tolist() == np.asarray(E).tolist() == MATRIX.tolist()
        assert np.array(E, np.float32).dtype == np.float32

    def test_number(self, x):
        loss = dy.squared_norm(x)
        assert float(loss) == 21
        assert f"{loss:.1f}" == "%.1f" % loss == "21.0"  # noqa: UP031
        assert f"{loss}" == str(loss)
        assert loss > 20
        assert loss >= np.float32(21)
        assert not loss < 21
        assert 30 > loss  # noqa: SIM300
        assert max([loss, 2 * loss]).value() == 42
        assert loss != 21  # as ever: it is no number

    def test_no_number(self, x):
        for read in float, "{:.1f}".format, lambda x: x > 1:
            with pytest.raises(TypeError, match="more than one number"):
                read(x)
        with pytest.raises(TypeError, match="not supported between"):
            max(dy.squared_norm(x), "a")

    def test_expressions_are_no_numbers(self, x):
        """Gradients would not go through."""
        for take in dy.inputVector, dy.inputTensor, lambda xs: dy.inputTensor([xs]):
            with pytest.raises(TypeError, match="of numbers, not of expressions"):
                take([x[0], x[1]])

    def test_as_in_dynet(self, x, monkeypatch):
        """Under DyNet's name NumPy's arrays have expressions in them."""
        monkeypatch.setattr(expression, "_are_objects_in_arrays", False)
        expression.be_objects_in_arrays()
        assert np.array([x, x]).tolist() == [x, x]
        assert np.sum([x, x]).value() == [2, 4, 8]


def test_an_array_is_no_operand():
    dy.renew_cg()
    with pytest.raises(TypeError, match="an operand is not an Expression"):
        dy.esum([np.ones(3), dy.inputVector([1, 2, 3])])


TRACED = {
    "inputVector": dy.inputVector,
    "inputTensor": dy.inputTensor,
    "scalarInput": lambda a: dy.scalarInput(a[0]),
    "list": lambda a: dy.inputVector([a[0], a[1]]),
    "operator": lambda a: a * dy.scalarInput(1),
    "init": lambda a: dy.ParameterCollection().add_parameters(3, init=a),
    "set_value": lambda a: dy.ParameterCollection().add_parameters(3).set_value(a),
    "index": jax.jit(lambda a: dy.inputVector([1])[a[0].astype(int)]),
}


@pytest.mark.parametrize("use", TRACED.values(), ids=TRACED)
def test_traced(use):
    """What JAX traces has no numbers; there is another way."""
    dy.renew_cg()
    with pytest.raises(TypeError, match=r"no numbers yet(.|\n)*to_jax"):
        jax.grad(use)(jnp.ones(3))


def test_copies_are_refused_as_ever():
    with pytest.raises(TypeError, match="no copies"):
        copy.copy(dy.scalarInput(1))
