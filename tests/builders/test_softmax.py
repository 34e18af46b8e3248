"""What holds for every builder of a softmax."""

import copy
import random

import jax
import numpy as np
import pytest

import dynetjax as dy

from .golden import COPIES, fill, x

WORDS = {f"w{k}": k for k in range(9)}
CLASSES = "A w0\nB w1\nA w2\nC w3\nB w4\nA w5\nD w6\nD w7\nA w8\n"
PATHS = "0 0\tw0\n0 0\tw1\n0 1\tw2\n1\tw3\n1\tw4\n1\tw5\n2\tw6\n3 0\tw7\n3 1\tw8\n"


def standard(pc, folder):
    del folder
    return dy.StandardSoftmaxBuilder(3, 9, pc)


def class_factored(pc, folder):
    (folder / "classes").write_text(CLASSES, encoding="utf-8")
    return dy.ClassFactoredSoftmaxBuilder(3, str(folder / "classes"), WORDS, pc)


def hierarchical(pc, folder):
    (folder / "paths").write_text(PATHS, encoding="utf-8")
    return dy.HierarchicalSoftmaxBuilder(3, str(folder / "paths"), WORDS, pc)


BUILDERS = [standard, class_factored, hierarchical]
FACTORED = BUILDERS[1:]


@pytest.fixture
def builder(request, tmp_path):
    dy.renew_cg()
    made = request.param(dy.ParameterCollection(), tmp_path)
    for n, p in enumerate(parameters(made)):
        p.set_value(fill(n, p.shape()))
    return made


every = pytest.mark.parametrize("builder", BUILDERS, indirect=True)
factored = pytest.mark.parametrize("builder", FACTORED, indirect=True)


def parameters(builder):
    return builder.param_collection().parameters_list()


def batch(size=4):
    return np.random.RandomState(0).randn(3, size)


@every
class TestDistribution:
    def test_losses(self, builder):
        wanted = -builder.full_log_distribution(x(1)).npvalue()
        assert wanted.shape == (9,)
        assert np.exp(-wanted).sum() == pytest.approx(1, abs=1e-5)
        found = [builder.neg_log_softmax(x(1), c).value() for c in range(9)]
        np.testing.assert_allclose(found, wanted, atol=1e-5)

    def test_logits(self, builder):
        logits = builder.full_logits(x(1))
        found = dy.log_softmax(logits).npvalue()
        wanted = builder.full_log_distribution(x(1)).npvalue()
        np.testing.assert_allclose(found, wanted, atol=1e-5)

    def test_batch(self, builder):
        xs, classes = batch(), [3, 0, 7, 3]
        together = dy.inputTensor(xs, batched=True)
        found = builder.neg_log_softmax_batch(together, classes)
        assert found.dim() == ((1,), 4)
        full = builder.full_log_distribution(together).npvalue()
        for k, c in enumerate(classes):
            one = dy.inputVector(xs[:, k])
            wanted = builder.neg_log_softmax(one, c).value()
            assert found.npvalue()[0, k] == pytest.approx(wanted, abs=1e-5)
            assert -full[c, k] == pytest.approx(wanted, abs=1e-5)

    def test_gradients(self, builder):
        """All of them are central differences, in float64."""
        together = dy.inputTensor(batch(9), batched=True)
        losses = builder.neg_log_softmax_batch(together, list(range(9)))
        weights = dy.inputTensor(1 + np.arange(9.0)[None], batched=True)
        loss = dy.sum_batches(dy.cmult(losses, weights))
        loss = loss + dy.sum_elems(dy.square(builder.full_log_distribution(x(1))))
        loss.backward()
        own = builder.param_collection()
        owners = [*parameters(builder), *own.lookup_parameters_list()]
        by_engine = {p.name(): p.grad_as_array() for p in owners}
        function = dy.to_jax(loss)
        with jax.enable_x64(True):
            values = {k: np.float64(v) for k, v in function.parameters.items()}
            given = [np.float64(v) for v in function.inputs]
            compiled = jax.jit(function)
            gradients = jax.grad(function)(values, given)
            for name, value in values.items():
                direction = np.cos(np.arange(value.size)).reshape(value.shape)
                ends = [
                    compiled({**values, name: value + step * direction}, given)
                    for step in (1e-5, -1e-5)
                ]
                slope = float(ends[0] - ends[1]) / 2e-5
                wanted = float(np.sum(gradients[name] * direction))
                assert slope == pytest.approx(wanted, rel=1e-5, abs=1e-7), name
        for name, gradient in gradients.items():
            found = by_engine[name]
            np.testing.assert_allclose(found, gradient, rtol=1e-3, atol=1e-4)


@every
class TestUpdate:
    def test_each_call_counts_for_itself(self, builder):
        for update in (True, False, True, False):
            for p in parameters(builder):
                p.scale_gradient(0)
            builder.neg_log_softmax(x(1), 5, update=update).backward()
            found = [p.grad_as_array().any() for p in parameters(builder)]
            assert any(found) is update

    def test_both_in_a_graph(self, builder):
        both = [builder.neg_log_softmax(x(1), 5, update=u) for u in (False, True)]
        dy.esum(both).backward()
        found = [p.grad_as_array() for p in parameters(builder)]
        dy.renew_cg()
        for p in parameters(builder):
            p.scale_gradient(0)
        builder.neg_log_softmax(x(1), 5).backward()
        for one, p in zip(found, parameters(builder), strict=True):
            np.testing.assert_allclose(p.grad_as_array(), one, atol=1e-6)

    @pytest.mark.parametrize("method", ["full_logits", "full_log_distribution"])
    def test_full(self, builder, method):
        w = dy.ParameterCollection().add_parameters(3, init=0.5)
        logs = getattr(builder, method)(w, update=False)
        dy.squared_norm(logs).backward()
        assert w.grad_as_array().any()
        assert not any(p.grad_as_array().any() for p in parameters(builder))

    def test_training(self, builder):
        """An update is that of the gradients that the parameters show."""
        trainer = dy.SimpleSGDTrainer(builder.param_collection(), 0.1)
        trainer.set_clip_threshold(0)
        builder.neg_log_softmax(x(1), 0).backward()
        wanted = [p.as_array() - 0.1 * p.grad_as_array() for p in parameters(builder)]
        assert any(p.grad_as_array().any() for p in parameters(builder))
        trainer.update()
        for p, values in zip(parameters(builder), wanted, strict=True):
            np.testing.assert_allclose(p.as_array(), values, atol=1e-6)
            assert not p.grad_as_array().any()


@every
class TestSamples:
    def test_follow_the_distribution(self, builder):
        dy.reset_random_seed(5)
        wanted = np.exp(builder.full_log_distribution(x(1)).npvalue())
        draws = [builder.sample(x(1)) for _ in range(400)]
        assert {*map(type, draws)} == {int}
        found = np.bincount(draws, minlength=9) / 400
        # Five standard deviations, of the likeliest class.
        assert np.abs(found - wanted).max() < 5 * np.sqrt(0.25 / 400)

    def test_follow_the_seed(self, builder):
        runs = []
        for _ in range(2):
            dy.reset_random_seed(5)
            runs.append([builder.sample(x(1)) for _ in range(20)])
        assert runs[0] == runs[1]
        assert len(set(runs[0])) > 1

    def test_batch(self, builder):
        with pytest.raises(ValueError, match="sample: x is batched"):
            builder.sample(dy.inputTensor(batch(), batched=True))


@every
class TestFiles:
    def test_save_and_load(self, builder, tmp_path):
        wanted = builder.full_log_distribution(x(1)).npvalue()
        dy.save(str(tmp_path / "model"), [builder])
        (again,) = dy.load(str(tmp_path / "model"), dy.ParameterCollection())
        assert type(again) is type(builder)
        assert again.spec == builder.spec
        found = again.full_log_distribution(x(1)).npvalue()
        np.testing.assert_allclose(found, wanted, rtol=1e-6)

    def test_populate(self, builder, tmp_path):
        wanted = builder.full_log_distribution(x(1)).npvalue()
        file = str(tmp_path / "values")
        builder.param_collection().save(file)
        for p in parameters(builder):
            p.zero()
        builder.param_collection().populate(file)
        dy.renew_cg()
        found = builder.full_log_distribution(x(1)).npvalue()
        np.testing.assert_allclose(found, wanted, rtol=1e-6)


@every
class TestMistakes:
    def test_classes(self, builder):
        with pytest.raises(ValueError, match="neg_log_softmax: c is out of range"):
            builder.neg_log_softmax(x(1), 9)
        with pytest.raises(OverflowError, match="neg_log_softmax: c is negative"):
            builder.neg_log_softmax(x(1), -1)
        together = dy.inputTensor(batch(), batched=True)
        with pytest.raises(ValueError, match="batch: c_list does not fit the batch"):
            builder.neg_log_softmax_batch(together, [1, 2])
        with pytest.raises(ValueError, match="batch: c_list does not fit the batch"):
            builder.neg_log_softmax_batch(x(1), [1, 2])
        with pytest.raises(ValueError, match="batch: c_list is out of range"):
            builder.neg_log_softmax_batch(together, [1, 2, 3, 9])
        with pytest.raises(TypeError, match="c_list is not a sequence"):
            builder.neg_log_softmax_batch(together, 1)

    @pytest.mark.parametrize(
        "use",
        [
            lambda b, x: b.neg_log_softmax(x, 0),
            lambda b, x: b.neg_log_softmax_batch(x, [0]),
            lambda b, x: b.sample(x),
            lambda b, x: b.full_logits(x),
            lambda b, x: b.full_log_distribution(x),
        ],
        ids=["one", "batch", "sample", "logits", "logs"],
    )
    def test_input(self, builder, use):
        with pytest.raises(ValueError, match=r"x does not fit the builder\n.*\{2\}"):
            use(builder, dy.inputVector([1.0, 2.0]))
        with pytest.raises(ValueError, match="it is no Expression"):
            use(builder, None)
        with pytest.raises(TypeError, match="it is no Expression"):
            use(builder, [1.0, 2.0, 3.0])
        old = x(1)
        dy.renew_cg()
        with pytest.raises(ValueError, match="stale"):
            use(builder, old)

    def test_batched_input(self, builder):
        with pytest.raises(ValueError, match="neg_log_softmax: x is batched"):
            builder.neg_log_softmax(dy.inputTensor(batch(), batched=True), 1)

    def test_collection(self, builder):
        with pytest.raises(TypeError, match="pc is no collection"):
            type(builder).from_spec(builder.spec, None)

    def test_names(self, builder):
        assert builder.whoami() == type(builder).__name__
        assert isinstance(builder, dy.SoftmaxBuilder)


def test_the_base_is_abstract():
    with pytest.raises(TypeError, match="abstract"):
        dy.SoftmaxBuilder(3, dy.ParameterCollection())


@factored
class TestTables:
    """Parameters that are parts of tables are like others for users."""

    def test_values(self, builder):
        for p in parameters(builder):
            p.set_value(np.ones(p.shape()))
            p.scale(3)
            assert (p.as_array() == 3).all()
            p.clip_inplace(-1, 2)
            assert (p.as_array() == 2).all()
            p.zero()
            assert not p.as_array().any()

    def test_gradients(self, builder):
        builder.neg_log_softmax(x(1), 0).backward()
        before = [p.grad_as_array() for p in parameters(builder)]
        for k, p in enumerate(parameters(builder)):
            p.scale_gradient(2)
            found = [q.grad_as_array() for q in parameters(builder)]
            wanted = [(1 + (j <= k)) * g for j, g in enumerate(before)]
            for one, other in zip(found, wanted, strict=True):
                np.testing.assert_allclose(one, other, atol=1e-6)

    def test_deep_copy(self, builder):
        """The copy's parameters are parts of the copy's tables."""
        again = copy.deepcopy(builder.param_collection())
        for p, q in zip(parameters(builder), again.parameters_list(), strict=True):
            np.testing.assert_array_equal(q.as_array(), p.as_array())
            q.set_value(np.full(q.shape(), 7.0))
            assert not (p.as_array() == 7).any()
        assert all((t.as_array() == 7).any() for t in again.lookup_parameters_list())

    @pytest.mark.parametrize("copied", COPIES)
    def test_copies_of_the_builder(self, builder, copied):
        again = copied(builder)
        wanted = builder.full_log_distribution(x(1)).npvalue()
        found = again.full_log_distribution(x(1)).npvalue()
        np.testing.assert_allclose(found, wanted, rtol=1e-5, atol=1e-6)
        parameters(again)[0].zero()
        dy.renew_cg()
        kept = builder.full_log_distribution(x(1)).npvalue()
        np.testing.assert_allclose(kept, wanted, rtol=1e-5, atol=1e-6)

    def test_as_expressions(self, builder):
        """A graph may read them, and gradients come back."""
        for p in parameters(builder):
            dy.renew_cg()
            values = p.as_array()
            loss = dy.squared_norm(p)
            assert loss.value() == pytest.approx(np.sum(values**2), rel=1e-5)
            loss.backward()
            np.testing.assert_allclose(p.grad_as_array(), 2 * values, atol=1e-6)

    def test_gradients_in_files(self, builder, tmp_path):
        file = str(tmp_path / "values")
        builder.neg_log_softmax(x(1), 0).backward()
        wanted = [p.grad_as_array() for p in parameters(builder)]
        builder.param_collection().save(file)
        for p in parameters(builder):
            p.scale_gradient(0)
        builder.param_collection().populate(file)
        for p, gradient in zip(parameters(builder), wanted, strict=True):
            np.testing.assert_allclose(p.grad_as_array(), gradient, atol=1e-6)

    def test_moving_average(self, builder):
        """Values and averages change places, and back."""
        trainer = dy.SimpleSGDTrainer(builder.param_collection(), 1.0)
        trainer.exponential_moving_average(0.5)
        wanted = [0 * p.as_array() for p in parameters(builder)]
        for c in (0, 3, 7):
            dy.renew_cg()
            builder.neg_log_softmax(x(1), c).backward()
            trainer.update()
            values = [p.as_array() for p in parameters(builder)]
            wanted = [(a + v) / 2 for a, v in zip(wanted, values, strict=True)]
        trainer.swap_params_to_moving_average()
        for p, array in zip(parameters(builder), wanted, strict=True):
            np.testing.assert_allclose(p.as_array(), array, atol=1e-6)
        trainer.swap_params_to_weights()
        for p, array in zip(parameters(builder), values, strict=True):
            np.testing.assert_allclose(p.as_array(), array, atol=1e-6)

    def test_adam_moves_what_was_read(self, builder):
        """Choices that no graph has read stay, as rows of tables do."""
        trainer = dy.AdamTrainer(builder.param_collection())
        seen = set()
        rng = random.Random(1)
        before = [p.as_array() for p in parameters(builder)]
        for _ in range(2):
            dy.renew_cg()
            builder.neg_log_softmax(x(1), rng.choice([3, 4])).backward()
            seen |= {k for k, p in enumerate(parameters(builder)) if has(p)}
            trainer.update()
        moved = {
            k
            for k, p in enumerate(parameters(builder))
            if not np.array_equal(p.as_array(), before[k])
        }
        assert moved == seen
        assert len(seen) < len(before)


def has(p):
    return p.grad_as_array().any()
