"""JAX and optax are imported when something needs them, and not before."""

import os
import signal
import subprocess
import sys
import threading

import jax
import pytest

from dynetjax.core import lazy
from dynetjax.core.lazy import Module, at_first_call, with_jax

DYNETJAX = "import sys\nimport dynetjax as dy"
DROPIN = "import sys\nimport dynetjax.dropin\nimport dynet as dy"
REPORT = """
print(sorted({"jax", "jaxlib", "optax"} & sys.modules.keys()))
"""
MODEL = """
m = dy.ParameterCollection()
W, b = m.add_parameters((3, 3)), m.add_parameters(3, init=0.5)
E = m.add_lookup_parameters((5, 3), init="glorot")
lstm = dy.VanillaLSTMBuilder(1, 3, 3, m)
for kind in (
    dy.SimpleSGDTrainer, dy.CyclicalSGDTrainer, dy.MomentumSGDTrainer,
    dy.AdagradTrainer, dy.AdadeltaTrainer, dy.RMSPropTrainer, dy.AdamTrainer,
    dy.AmsgradTrainer,
):
    trainer = kind(m)
dy.renew_cg()
states = lstm.initial_state().transduce([E[1], dy.dropout(E[2], 0.5)])
loss = dy.pickneglogsoftmax(dy.affine_transform([b, W, states[-1]]), 2)
loss += dy.squared_norm(dy.inputVector([1, 2]))
m.save(FILE)
m.populate(FILE)
E.scale(0.5)
E.zero()
W.set_value([[0.0] * 3] * 3)
"""
LOOKUPS = """
m = dy.ParameterCollection()
E = m.add_lookup_parameters((5, 1), init=2)
trainer = dy.AdamTrainer(m, alpha=0.5)
E[3].backward()
trainer.update()
print(round(E[3].value(), 5), E.row_as_array(1))
"""
WEIGHTS = """
m = dy.ParameterCollection()
E = m.add_lookup_parameters((5, 3), init=0.5)
W = m.add_parameters((3, 3), init=1.0)
trainer = dy.SimpleSGDTrainer(m)
for step in range(2):
    dy.renew_cg()
    h = dy.tanh(W * E[1])
    losses = [dy.pickneglogsoftmax(dy.transpose(E) * h, k) for k in (1, 2)]
    loss = dy.esum(losses) + dy.sum_elems((W * W) * h)
    loss.value(), W.npvalue(), E.npvalue(), dy.transpose(W * W).npvalue()
    loss.backward()
    loss.backward()
    W.gradient(), E.gradient()
    trainer.update()
"""
KEPT = """
import pickle
m = dy.ParameterCollection()
E = m.add_lookup_parameters((5, 3), init=0.5)
b = m.add_parameters(3, init=1.0)
trainer = dy.AdamTrainer(m)
pickle.loads(pickle.dumps(trainer))
(dy.dot_product(E[1], b) + dy.sum_elems(E * dy.ones(5))).backward()
m.save(FILE)
m.populate(FILE)
collection = pickle.loads(pickle.dumps(m))
print(collection.parameters_list()[0].grad_as_array())
dy.save_checkpoint(FILE + ".npz", m, trainer)
dy.load_checkpoint(FILE + ".npz", m, trainer)
print(b.grad_as_array(), E.grad_as_array()[1])
trainer.update()
"""
AFTER_US = """
import jax
before = jax.config.jax_compilation_cache_dir
dy.init(tier="xla")
dy.tanh(dy.scalarInput(1)).value()
print(before, jax.config.jax_compilation_cache_dir, dy.stats().compilations > 0)
"""

DRAWS = """
import random
import numpy as np
np.random.seed(7)
random.seed(7)
expected = np.random.RandomState(7).rand(), random.Random(7).random()
dy.tanh(dy.scalarInput(1)).value()
assert "jax" in sys.modules
print((np.random.rand(), random.random()) == expected)
"""


def run(program, tmp_path, first=DYNETJAX):
    """What a process prints that has nothing but a CPU."""
    told = {name: v for name, v in os.environ.items() if "CACHE_DIR" not in name}
    told |= {"JAX_PLATFORMS": "cpu", "DYNETJAX_CACHE_DIR": str(tmp_path / "cache")}
    file = f"FILE = {str(tmp_path / 'model')!r}"
    done = subprocess.run(
        [sys.executable, "-c", f"{first}\n{file}\n{program}"],
        env=told,
        capture_output=True,
        text=True,
    )
    assert not done.returncode, done.stderr
    return done.stdout.splitlines()


@pytest.mark.parametrize("first", [DYNETJAX, DROPIN], ids=["dynetjax", "dropin"])
@pytest.mark.parametrize("plain", ["", "1"])
def test_the_import_needs_neither(tmp_path, monkeypatch, first, plain):
    monkeypatch.setenv("DYNETJAX_PLAIN_IMPORT", plain)
    assert run(REPORT, tmp_path, first) == ["[]"]


@pytest.mark.parametrize("first", [DYNETJAX, DROPIN], ids=["dynetjax", "dropin"])
def test_nor_do_models_trainers_and_graphs(tmp_path, first):
    assert run(MODEL + REPORT, tmp_path, first) == ["[]"]


def test_nor_does_tier_0_where_the_rule_was_traced_earlier(tmp_path):
    """One step of Adam is as long as its rate."""
    first = run(LOOKUPS + REPORT, tmp_path)
    assert first[0] == "1.5 [2.]"
    assert "optax" not in first[1]
    assert run(LOOKUPS + REPORT, tmp_path) == ["1.5 [2.]", "[]"]


def test_nor_do_weights_where_all_was_traced_earlier(tmp_path):
    """Whole tables, matrices made of parameters, and the gradients of both."""
    assert "'jax'" in run(WEIGHTS + REPORT, tmp_path)[-1]
    assert run(WEIGHTS + REPORT, tmp_path) == ["[]"]


def test_nor_do_files_and_pickles_with_gradients(tmp_path):
    run(KEPT, tmp_path)
    half, of_row = "[0.5 0.5 0.5]", "[2. 2. 2.]"
    assert run(KEPT + REPORT, tmp_path) == [half, f"{half} {of_row}", "[]"]


def test_jax_is_set_up_before_its_first_use(tmp_path):
    """Even if the user imports it meanwhile."""
    (line,) = run(AFTER_US, tmp_path)
    before, after, counted = line.split()
    assert before == "None"
    assert after.startswith(str(tmp_path / "cache"))
    assert counted == "True"


def test_draws_of_the_program_stay_as_they_are(tmp_path):
    """JAX draws from NumPy's generator while it is imported."""
    assert run(DRAWS, tmp_path) == ["True"]


class TestSettingUp:
    def test_at_once_where_jax_is_there(self):
        done = []
        with_jax(lambda: done.append(jax.__version__))
        assert done == [jax.__version__]

    @pytest.fixture
    def absent(self, monkeypatch):
        """A JAX that is not imported yet; what imports it here."""
        monkeypatch.setattr(lazy, "is_jax_imported", lambda: False)
        lazy._imported.cache_clear()
        yield
        lazy._imported.cache_clear()

    def test_once_and_in_order_before_the_first_use(self, absent):
        done = []
        with_jax(lambda: done.append("first"))
        with_jax(lambda: done.append(lazy.jnp.float32(2)))  # which may use JAX
        assert done == []
        assert lazy.jax.__version__ == jax.__version__
        assert lazy.lax.add(1, 2) == 3
        assert done == ["first", 2]

    def test_once_by_threads(self, absent):
        done = []
        with_jax(lambda: done.append(1))
        uses = [threading.Thread(target=lambda: lazy.jax.tree) for _ in range(8)]
        for use in uses:
            use.start()
        for use in uses:
            use.join()
        assert done == [1]

    def test_an_interrupt_waits_until_it_is_imported(self, absent, monkeypatch):
        imported = []

        def interrupted(name):
            signal.raise_signal(signal.SIGINT)
            imported.append(name)
            return jax

        monkeypatch.setattr("importlib.import_module", interrupted)
        before = signal.signal(signal.SIGINT, signal.default_int_handler)
        try:
            with pytest.raises(KeyboardInterrupt):
                lazy.jax.tree  # noqa: B018
        finally:
            signal.signal(signal.SIGINT, before)
        assert imported == ["jax"]


class TestModule:
    def test_is_asked_each_time(self, monkeypatch):
        """A patched function is what everybody gets."""
        monkeypatch.setattr(jax, "default_backend", lambda: "abacus")
        assert lazy.jax.default_backend() == "abacus"

    def test_what_is_set_is_the_modules(self, monkeypatch):
        before = jax.default_backend
        with monkeypatch.context() as patch:
            patch.setattr(lazy.jax, "default_backend", lambda: "abacus")
            assert jax.default_backend() == "abacus"
        assert jax.default_backend is before

    def test_has_what_the_module_has_and_no_more(self):
        assert lazy.jnp.tanh is jax.numpy.tanh
        with pytest.raises(AttributeError, match="no attribute 'abacus'"):
            lazy.jax.abacus  # noqa: B018

    def test_that_is_not_there(self):
        with pytest.raises(ModuleNotFoundError, match="dynetjax_abacus"):
            Module("dynetjax_abacus").anything  # noqa: B018


class TestAtFirstCall:
    def test_is_transformed_once(self):
        made = []

        @at_first_call(lambda f: made.append(f) or jax.jit(f, static_argnums=1))
        def power(x, n):
            """x to the n."""
            return x**n

        assert not made
        assert [float(power(3.0, 2)), float(power(2.0, n=3))] == [9, 8]
        assert made == [power.__wrapped__]
        assert (power.__name__, power.__doc__) == ("power", "x to the n.")

    def test_derivatives_that_are_given(self):
        """Here those of 3 x and of 5 x, for functions that return x."""

        @at_first_call(lambda f: jax.custom_jvp(f))
        def forward(x):
            return x

        @forward.defjvp
        def _(primals, tangents):
            return primals[0], 3 * tangents[0]

        @at_first_call(lambda f: jax.custom_vjp(f))
        def backward(x):
            return x

        backward.defvjp(lambda x: (x, None), lambda _, cotangent: (5 * cotangent,))
        for function, slope in (forward, 3), (backward, 5):
            assert jax.value_and_grad(function)(2.0) == (2, slope)
