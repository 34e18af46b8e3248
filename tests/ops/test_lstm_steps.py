"""A step of an LSTM in the parts that DyNet has."""

import numpy as np
import pytest
from laws import Case, Laws, close, rejects

import dynetjax as dy


def sigmoid(x):
    return 1 / (1 + np.exp(-x))


def gates(x, h, Wx, Wh, b):
    i, f, o, g = np.split(Wx @ x + Wh @ h + b, 4)
    return np.concatenate([sigmoid(i), sigmoid(f + 1), sigmoid(o), np.tanh(g)])


def gates_concat(xs, *others):
    return gates(np.concatenate(xs), *others)


def masked(x, h, Wx, Wh, b, mask_x, mask_h):
    return gates(x * mask_x, h * mask_h, Wx, Wh, b)


def masked_concat(xs, *others):
    return masked(np.concatenate(xs), *others)


def cell(c, gates):
    i, f, _, g = np.split(gates, 4)
    return f * c + i * g


def output(c, gates):
    return np.split(gates, 4)[2] * np.tanh(c)


SIZES = {"h_tm1": (2,), "Wx": (8, 3), "Wh": (8, 2), "b": (8,)}
PARTS = [(2,), (1,)]
MASKS = {"dropout_mask_x": [2.0, 0.0, 1.5], "dropout_mask_h": [0.0, 2.0]}


def with_masks(function, formula, x_t):
    """The case of a function whose masks are numbers without a gradient."""

    def call(x, h, Wx, Wh, b, mask_x, mask_h):
        masks = dy.inputVector(mask_x), dy.inputVector(mask_h)
        return function(x, h, Wx, Wh, b, *masks)

    return Case(call, formula, covers=function, x_t=x_t, **SIZES, **MASKS)


GATES = [
    Case(dy.vanilla_lstm_gates, gates, x_t=(3,), **SIZES),
    Case(dy.vanilla_lstm_gates_concat, gates_concat, x_t=PARTS, **SIZES),
    Case(dy.vanilla_lstm_gates_concat, gates_concat, x_t=[(3,)], **SIZES),
    with_masks(dy.vanilla_lstm_gates_dropout, masked, (3,)),
    with_masks(dy.vanilla_lstm_gates_dropout_concat, masked_concat, PARTS),
]


@pytest.mark.parametrize("case", GATES, ids=str)
class TestGates(Laws):
    def test_batch(self, case):
        """A batch of three equals three runs of one; the weights have no batch."""
        dy.renew_cg()
        arrays = case.arrays(seed=1, batch=3)
        weights = [array[..., 0] for array in arrays[-3:]]
        given = [
            *[dy.inputTensor(array, batched=True) for array in arrays[:-3]],
            *[dy.inputTensor(array) for array in weights],
        ]
        y = case.call(case.op, given)
        runs = [
            case.expected([*[array[..., k] for array in arrays[:-3]], *weights])
            for k in range(3)
        ]
        close(y.npvalue(), np.stack(runs, axis=-1))


STEPS = [
    Case(dy.vanilla_lstm_c, cell, c_tm1=(2,), gates_t=(8,)),
    Case(dy.vanilla_lstm_h, output, c_t=(2,), gates_t=(8,)),
]


@pytest.mark.parametrize("case", STEPS, ids=str)
class TestCellAndOutput(Laws):
    pass


def drawn(*shape):
    return np.random.RandomState(0).uniform(-1, 1, shape)


def test_masks_get_no_gradient_and_have_a_batch_or_none():
    dy.renew_cg()
    add = dy.ParameterCollection().parameters_from_numpy
    x, h = drawn(3, 4), drawn(2, 4)
    weights = drawn(8, 3), drawn(8, 2), drawn(8)
    mask_x, mask_h = add(drawn(3)), drawn(2, 4)
    y = dy.vanilla_lstm_gates_dropout(
        dy.inputTensor(x, batched=True),
        dy.inputTensor(h, batched=True),
        *map(add, weights),
        mask_x,
        dy.inputTensor(mask_h, batched=True),
    )
    runs = [
        masked(x[:, k], h[:, k], *weights, drawn(3), mask_h[:, k]) for k in range(4)
    ]
    close(y.npvalue(), np.stack(runs, axis=-1))
    dy.sum_batches(dy.sum_elems(y)).backward()
    assert mask_x.grad_as_array().tolist() == [0, 0, 0]


def test_steps_in_a_row():
    """Two steps have the values and gradients of `VanillaLSTMBuilder`."""
    dy.renew_cg()
    builder = dy.VanillaLSTMBuilder(1, 3, 2, dy.ParameterCollection())
    ((Wx, Wh, b),) = builder.get_parameters()
    h = c = dy.inputVector([0.0, 0.0])
    state = builder.initial_state()
    for x in map(dy.inputVector, drawn(2, 3)):
        z = dy.vanilla_lstm_gates(x, h, Wx, Wh, b)
        c = dy.vanilla_lstm_c(c, z)
        h = dy.vanilla_lstm_h(c, z)
        state = state.add_input(x)
    close(h.npvalue(), state.output().npvalue())
    close(c.npvalue(), state.s()[0].npvalue())
    dy.sum_elems(h).backward()
    ours = [p.grad_as_array() for p in (Wx, Wh, b)]
    for p in (Wx, Wh, b):
        p.scale_gradient(0)
    dy.sum_elems(state.output()).backward()
    for p, gradient in zip((Wx, Wh, b), ours, strict=True):
        close(p.grad_as_array(), gradient)


SIZE = 100  # H of the tests of noise


def noisy_gates(std=0.1, x=0.0, h=0.0, batch=1):
    """Gates from weights of zero, from inputs of `x` and outputs of `h` before."""
    inputs = [
        dy.inputTensor(np.full((n, batch), k), batched=True)
        for n, k in ((1, x), (SIZE, h))
    ]
    sizes = (4 * SIZE, 1), (4 * SIZE, SIZE), (4 * SIZE,)
    weights = [dy.inputTensor(np.zeros(size)) for size in sizes]
    return dy.vanilla_lstm_gates(*inputs, *weights, std)


def before_activation(gates):
    """z, of which gates were made."""
    opened = gates[: 3 * SIZE]
    z = np.concatenate([np.log(opened / (1 - opened)), np.arctanh(gates[3 * SIZE :])])
    z[SIZE : 2 * SIZE] -= 1
    return z


@pytest.mark.parametrize(("x", "h"), [(0, 0), (5, 0), (0, 0.5)])
def test_noise_reaches_every_weight(x, h):
    """z has the variance ``std^2 (x^2 + H h^2 + 1)``."""
    dy.renew_cg()
    z = before_activation(noisy_gates(0.1, x, h).npvalue())
    expected = 0.1 * np.sqrt(x**2 + SIZE * h**2 + 1)
    assert 0.8 < z.std() / expected < 1.2
    assert abs(z.mean()) < expected / 3


def test_noise_is_drawn_once_for_a_node_and_anew_for_the_next():
    dy.renew_cg()
    first, second = (noisy_gates(x=1.0, h=1.0, batch=3).npvalue() for _ in range(2))
    close(first, first[:, :1].repeat(3, axis=1))
    assert (first != second).all()


def test_backward_has_the_noise_of_the_value():
    dy.renew_cg()
    add = dy.ParameterCollection().parameters_from_numpy
    b = add(np.zeros(8))
    others = [dy.inputTensor(a) for a in (drawn(3), drawn(2), drawn(8, 3), drawn(8, 2))]
    y = dy.vanilla_lstm_gates(*others, b, 0.5)
    value = y.npvalue()
    dy.sum_elems(y).backward()
    close(b.grad_as_array(), [*(value - value**2)[:6], *(1 - value**2)[6:]])


def test_the_deviation_never_recompiles():
    b = dy.ParameterCollection().parameters_from_numpy(np.zeros(8))
    compilations = []
    for std in (0.1, 0.1, 0.2, 0.3):
        dy.renew_cg()
        others = [dy.inputTensor(np.ones(n)) for n in (3, 2, (8, 3), (8, 2))]
        loss = dy.sum_elems(dy.vanilla_lstm_gates(*others, b, weightnoise_std=std))
        loss.value()
        loss.backward()
        b.grad_as_array()
        stats = dy.stats()
        compilations.append(stats.compilations + stats.loads)
    assert compilations[1:] == compilations[1:2] * 3


def operands(**other):
    """Operands of `vanilla_lstm_gates` by name, of these dims where they are given."""
    sizes = {"x_t": (3,), **SIZES, **other}
    return {name: dy.inputTensor(np.ones(size)) for name, size in sizes.items()}


def refused(**other):
    return lambda: dy.vanilla_lstm_gates(**operands(**other))


def batch(size, elements=2):
    return dy.inputTensor(np.ones((size, elements)), batched=True)


def with_batch(**other):
    return lambda: dy.vanilla_lstm_gates(**{**operands(), **other})


def concatenated(x_t):
    return lambda: dy.vanilla_lstm_gates_concat(**{**operands(), "x_t": x_t()})


def dropped(mask_x, mask_h):
    def call():
        masks = mask_x(), mask_h()
        return dy.vanilla_lstm_gates_dropout(*operands().values(), *masks)

    return call


def ones(n):
    return dy.inputTensor(np.ones(n))


@pytest.mark.parametrize(
    ("function", "error", "message"),
    [
        (refused(x_t=(3, 1)), ValueError, "vanilla_lstm_gates: x_t does not fit"),
        (refused(h_tm1=(2, 1)), ValueError, "vanilla_lstm_gates: h_tm1 does not fit"),
        (refused(Wx=(8, 2)), ValueError, r"expected: \{8,3}"),
        (refused(Wh=(8, 3)), ValueError, "vanilla_lstm_gates: Wh does not fit"),
        (refused(b=(8, 1)), ValueError, "vanilla_lstm_gates: b does not fit"),
        (with_batch(x_t=None), TypeError, "an operand is not an Expression"),
        (
            with_batch(weightnoise_std=None),
            TypeError,
            "weightnoise_std is not a number",
        ),
        (with_batch(weightnoise_std=-1), ValueError, "weightnoise_std is too small"),
    ],
)
def test_refusals(function, error, message):
    rejects(function, error, message)


def test_batches_that_do_not_fit():
    def unequal():
        dy.vanilla_lstm_gates(**{**operands(), "x_t": batch(3)})

    def batched_bias():
        args = {"x_t": batch(3), "h_tm1": batch(2), "b": batch(8)}
        dy.vanilla_lstm_gates(**{**operands(), **args})

    rejects(unequal, ValueError, r"expected: \{2X2}")
    rejects(batched_bias, ValueError, "b does not fit\n  got:      {8X2}")


def test_parts_and_masks_that_do_not_fit():
    name = "vanilla_lstm_gates_concat"
    rejects(concatenated(list), ValueError, f"{name}: x_t is not a list of expressions")
    rejects(concatenated(lambda: (ones(3),)), TypeError, "expected: a list of at least")
    rejects(concatenated(lambda: [ones(3), None]), TypeError, "not an Expression")
    rejects(concatenated(lambda: [ones(3), ones(1)]), ValueError, r"expected: \{8,4}")
    rejects(concatenated(lambda: [ones(2), batch(1)]), ValueError, "x_t does not fit")
    rejects(
        dropped(lambda: ones(2), lambda: ones(2)),
        ValueError,
        "vanilla_lstm_gates_dropout: dropout_mask_x does not fit",
    )
    rejects(
        dropped(lambda: ones(3), lambda: batch(2)),
        ValueError,
        "dropout_mask_h does not fit",
    )
    rejects(
        lambda: dy.vanilla_lstm_gates_dropout_concat([], *[ones(1)] * 6),
        ValueError,
        "vanilla_lstm_gates_dropout_concat: x_t is not a list",
    )


@pytest.mark.parametrize("function", [dy.vanilla_lstm_c, dy.vanilla_lstm_h])
def test_cells_and_gates_that_do_not_fit(function):
    message = f"{function.__name__}: the cell and the gates do not fit"
    rejects(lambda: function(ones(3), ones(3)), ValueError, message)
    rejects(lambda: function(ones((2, 1)), ones((8, 1))), ValueError, message)
    rejects(lambda: function(ones(2), ones((8, 1))), ValueError, message)
    rejects(lambda: function(ones(2), batch(8)), ValueError, message)
    message = "an operand is not an Expression"
    rejects(lambda: function(ones(2), None), TypeError, message)
    rejects(lambda: function(None, ones(8)), TypeError, message)
