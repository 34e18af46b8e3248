"""Programs are compiled once, when they are called first or before."""

import sys
import threading
import time
import weakref
from types import SimpleNamespace

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from jax import lax

import dynetjax as dy
from dynetjax.engine.stats import falling_back
from dynetjax.engine.xla import compiling, internals
from dynetjax.engine.xla.compiling import Compiled


def scaled(x, factor, held):
    """`held` is donated, and comes back with one more."""
    return jnp.tanh(x) * factor, held + 1


def run(program, x=0.5):
    values, held = program(np.full(3, x, np.float32), 2, jnp.zeros(4))
    np.testing.assert_allclose(values, 2 * np.tanh(np.full(3, x)), rtol=1e-6)
    np.testing.assert_array_equal(held, np.ones(4))


def made():
    """Programs that XLA made or read."""
    found = dy.stats()
    return found.compilations + found.loads


class TestAPreparedProgram:
    @staticmethod
    def shapes(of=3):
        return [*map(compiling.shape_of, (np.zeros(of, np.float32), 2, jnp.zeros(4)))]

    def test_is_compiled_once(self):
        def unknown(x, factor, held):
            return scaled(x, factor, held)

        program, shapes = Compiled(unknown, "held"), self.shapes()
        before = made()
        program.prepare(*shapes)
        program.prepare(*shapes)
        run(program)
        assert made() == before + 1
        program.prepare(*shapes)
        run(program)
        assert made() == before + 1

    def test_is_traced_once_by_who_has_it_prepared(self):
        threads = []

        def noted(x, factor, held):
            threads.append(threading.current_thread())
            return scaled(x, factor, held)

        program = Compiled(noted, "held")
        program.prepare(*self.shapes())
        run(program)
        assert threads == [threading.current_thread()]

    def test_of_threads_that_want_it_one_compiles_it(self):
        traces = []

        def noted(x, factor, held):
            traces.append(x)
            return scaled(x, factor, held)

        program = Compiled(noted, "held")
        threads = [threading.Thread(target=run, args=(program,)) for _ in range(4)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        assert len(traces) == 1

    def test_runs_all_the_same_if_that_failed(self, monkeypatch):
        monkeypatch.setattr(falling_back, "raises", False)
        for of in (7, "nonsense"):
            program = Compiled(scaled, "held")
            program.prepare(*(self.shapes(of) if of == 7 else [of]))
            run(program)

    @pytest.mark.parametrize("trained", [True, False])
    def test_are_all_that_training_takes(self, trained, monkeypatch):
        """Backward, where there is a trainer; the first time."""
        prepared, prepare = [], Compiled.prepare

        def note(program, *shapes):
            prepared.append(program)
            prepare(program, *shapes)

        monkeypatch.setattr(Compiled, "prepare", note)
        monkeypatch.setattr("dynetjax.trainers.base._trainers", weakref.WeakSet())
        model = dy.ParameterCollection()
        W = model.add_parameters((3, 4 + trained))
        trainer = dy.SimpleSGDTrainer(model) if trained else None
        for _ in range(3):
            dy.renew_cg()
            loss = dy.squared_norm(W * dy.inputVector(range(4 + trained)))
            loss.value()
            loss.backward()
            assert len(prepared) == (trainer is not None)


class TestOptions:
    def test_xla_knows_them(self):
        """Where they are of use."""
        assert compiling.options_for("cpu") == {}
        assert "xla_gpu_graph_min_graph_size" in compiling.options_for("gpu")

    def test_no_graphs_where_they_end_the_process(self, monkeypatch):
        device = SimpleNamespace(client=SimpleNamespace(platform_version="rocm 7"))
        monkeypatch.setattr(jax, "local_devices", lambda: [device])
        assert compiling.options_for.__wrapped__("gpu") == internals.OPTIONS["gpu"]

    @pytest.mark.parametrize("deep", [False, True])
    def test_branches_in_others_are_in_no_graph(self, monkeypatch, deep):
        """XLA ends loops in loops too early in a graph of kernels."""
        monkeypatch.setattr(jax, "default_backend", lambda: "gpu")
        chosen, lower = [], Compiled._lower_with

        def noted(self, options, shapes):
            chosen.append(options)
            return lower(self, options, shapes)

        monkeypatch.setattr(Compiled, "_lower_with", noted)

        def halved(times, x, held):
            def step(t, x):
                return lax.cond(x > 1, lambda: x / 2, lambda: x) if deep else x / 2

            return lax.fori_loop(0, times, step, x), held + 1

        program = Compiled(halved, "held")
        assert program(3, 32.0, jnp.zeros(4))[0] == 4
        graph = internals.OPTIONS["one graph"].items()
        assert [graph <= options.items() for options in chosen] == (
            [True, False] if deep else [True]
        )

    def test_unknown_ones_are_left_out(self):
        known = {"xla_llvm_disable_expensive_passes": True}
        options = {"xla_cpu_no_such_option": True, **known}
        before = dy.stats().compilations
        assert compiling.known_options(options) == known
        assert dy.stats().compilations == before


def test_arguments_of_every_kind():
    """What is compiled fits the calls: numbers, NumPy's and JAX's arrays."""
    for x in (1, 2.0, np.int32(3), np.zeros(2, np.int32), jnp.ones((2, 3))):
        shape = compiling.shape_of(x)
        found = jax.typeof(x)
        assert (shape.shape, shape.dtype) == (found.shape, found.dtype)
        assert shape.weak_type == found.weak_type


class TestALongWait:
    @pytest.fixture
    def slow(self, monkeypatch):
        """A function that takes its time when it is first called."""
        monkeypatch.setattr(compiling, "PATIENCE", 0.01)

        def traced(x, held):
            time.sleep(0.3)
            return x + 1, held

        return lambda: Compiled(traced, "held")(jnp.ones(2), jnp.ones(3))

    def test_is_told_in_a_notebook(self, slow, monkeypatch, capsys):
        monkeypatch.setitem(sys.modules, "ipykernel", sys)
        slow()
        assert "dynetjax: compiling; graphs like this" in capsys.readouterr().err

    def test_that_nobody_watches(self, slow, monkeypatch, capsys):
        monkeypatch.delitem(sys.modules, "ipykernel", raising=False)
        slow()
        assert not capsys.readouterr().err

    def test_that_is_short(self, monkeypatch, capsys):
        monkeypatch.setitem(sys.modules, "ipykernel", sys)
        run(Compiled(scaled, "held"))
        assert not capsys.readouterr().err
