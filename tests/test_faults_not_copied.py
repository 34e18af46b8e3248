"""Where DyNet is known to be wrong, or to end the process, this is right."""

import numpy as np
import pytest

import dynetjax as dy

RANDOM = np.random.RandomState(3)
X, W, V = RANDOM.randn(4, 3), RANDOM.randn(2, 4), RANDOM.randn(2, 4)


@pytest.fixture(autouse=True)
def graph():
    dy.renew_cg()


@pytest.fixture
def pc():
    return dy.ParameterCollection()


def test_a_batched_sum_that_several_products_read(pc):
    """The gradient of ``x + y`` comes from both products, whole."""
    w, v = (pc.parameters_from_numpy(a) for a in (W, V))
    y = pc.parameters_from_numpy(np.ones(4))
    both = dy.inputTensor(X, batched=True) + y
    loss = dy.sum_elems(dy.sum_batches(dy.square(w * both) + dy.square(v * both)))
    loss.backward()
    rows = X + 1
    wanted = sum(2 * a.T @ (a @ rows) for a in (W, V))
    np.testing.assert_allclose(y.grad_as_array(), wanted.sum(1), rtol=1e-5)
    for p, a in ((w, W), (v, V)):
        np.testing.assert_allclose(p.grad_as_array(), 2 * a @ rows @ rows.T, rtol=1e-5)


class TestMinusInfinity:
    """DyNet multiplies what its memory held before by 0; of -inf that makes NaN."""

    def test_a_product_after_it(self, pc):
        w = pc.parameters_from_numpy(W)
        for _ in range(3):
            dy.renew_cg()
            masked = dy.inputVector([0.0, -np.inf, 1.0, -np.inf]) + dy.inputVector(
                X.T[0]
            )
            assert not np.isfinite(masked.npvalue()).all()
            found = (w * dy.inputVector(X.T[1])).npvalue()
            np.testing.assert_allclose(found, W @ X.T[1], rtol=1e-5)

    def test_a_parser_that_masks_with_it_learns(self, pc):
        """Actions that are not allowed score -inf, and the others are learned."""
        w = pc.add_parameters((4, 4))
        trainer = dy.SimpleSGDTrainer(pc, 0.5)
        losses = []
        for step in range(40):
            dy.renew_cg()
            allowed, gold = [0, 2, 3], step % 2 + 2
            mask = dy.inputVector([0.0 if k in allowed else -np.inf for k in range(4)])
            state = dy.one_hot(4, gold)
            for _ in range(2):  # what is chosen is read before the next step
                scores = dy.log_softmax(w * state + mask)
                assert scores.npvalue().argmax() in allowed
                state = dy.tanh(w * state)
            losses.append(-dy.pick(scores, gold))
            losses[-1].backward()
            losses[-1] = losses[-1].value()
            trainer.update()
        assert np.isfinite(losses).all()
        assert np.mean(losses[-4:]) < 0.5 * np.mean(losses[:4])

    def test_written_by_design_is_valid(self):
        """check_validity does not take it for an error."""
        dy.renew_cg(immediate_compute=True, check_validity=True)
        found = dy.log_softmax(dy.inputVector([1.0, 2, 3]), restrict=[0, 2])
        assert found.npvalue()[1] == -np.inf
        with pytest.raises(RuntimeError, match="log"):
            dy.log(dy.inputVector([0.0]))
        dy.renew_cg()


@pytest.mark.parametrize(
    "use",
    [
        lambda x: x + 1,
        lambda x: 1 - x,
        lambda x: x * 2,
        lambda x: -x,
        lambda x: x / 3,
        lambda x: dy.tanh(x),
        lambda x: dy.esum([x, x]),
    ],
)
def test_a_stale_expression(use):
    """DyNet dies of some of these."""
    x = dy.inputVector([1.0, 2.0])
    dy.renew_cg()
    with pytest.raises(ValueError, match="stale"):
        use(x)


def test_a_row_of_another_length(pc):
    """DyNet dies of it; here the table is as before."""
    table = pc.lookup_parameters_from_numpy(W)
    with pytest.raises(ValueError, match="init_row: the length is not"):
        table.init_row(0, [1.0, 2.0])
    np.testing.assert_array_equal(table.as_array(), np.float32(W))


class TestAutobatching:
    """DyNet's batches together nodes whose settings differ."""

    def test_settings_are_kept_apart(self):
        x = dy.inputVector([-1.0, 0.5])
        found = [dy.rectify(x), dy.elu(x), dy.elu(x, alpha=3.0), dy.silu(x, beta=2.0)]
        values = dy.npvalues(found)
        a = np.array([-1.0, 0.5])
        wanted = [
            np.maximum(a, 0),
            np.where(a > 0, a, np.expm1(a)),
            np.where(a > 0, a, 3 * np.expm1(a)),
            a / (1 + np.exp(-2 * a)),
        ]
        np.testing.assert_allclose(values, wanted, rtol=1e-5)

    def test_axes_are_kept_apart(self):
        x = dy.inputTensor(X)
        values = dy.npvalues([dy.softmax(x, d=0), dy.softmax(x, d=1)])
        e = np.exp(X)
        wanted = [e / e.sum(0), e / e.sum(1, keepdims=True)]
        np.testing.assert_allclose(values, wanted, rtol=1e-5)
