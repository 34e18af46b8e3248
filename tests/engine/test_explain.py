"""What users are told: stats, explain, and the warning about endless compilations."""

import os
import re
import subprocess
import sys

import numpy as np
import pytest

import dynetjax as dy
from dynetjax.core.tables import forget_all
from dynetjax.engine.counters import Stats
from dynetjax.engine.explain import describe
from dynetjax.engine.runtime import RUNTIME
from dynetjax.graph import current_graph


@pytest.fixture
def settings():
    """Settings as they were, afterwards."""
    yield
    dy.init(debug=False, profiling=0, async_checks=True)


def chain(length, size=7, lanes=1):
    """The last output of a recurrence of one cell, or the sum of several such."""
    rng = np.random.default_rng(0)
    pc = dy.ParameterCollection()
    w = pc.parameters_from_numpy(rng.normal(size=(size, size)))
    dy.renew_cg()
    hs = [dy.inputVector([0.5] * size) for _ in range(lanes)]
    for _ in range(length):
        hs = [dy.tanh(w * h) for h in hs]
    return dy.sum_elems(dy.esum(hs))


class TestExplain:
    def test_components(self, capsys):
        chain(5)
        told = dy.explain().text
        assert told == str(dy.explain()) == repr(dy.explain())
        assert not capsys.readouterr().out
        assert re.search(r"loop, 5 trips of \d+ lanes?", told)
        assert "5 x tanh(matmul(W{7,7}, {7}))" in told
        assert "1 x input {7}" in told

    def test_of_a_graph_that_was_computed(self):
        loss = chain(3)
        before = describe(loss.graph)
        loss.value()
        assert describe(loss.graph) == before

    def test_of_what_came_later(self, monkeypatch):
        monkeypatch.setattr(RUNTIME, "tier", "xla")
        forget_all()  # or an operation may be stored as other graphs had it
        h = chain(3)
        h.value()
        (h * 2).value()
        assert "nodes 6 to 6: 2 components of 2" in describe(h.graph)

    def test_of_what_tier_0_computed(self, monkeypatch):
        monkeypatch.setattr(RUNTIME, "tier", "native")
        h = chain(3, lanes=2)
        h.value()
        (h * 2).value()
        told = describe(h.graph)
        assert "nodes 0 to" in told
        assert "in tier 0, on the host" in told
        assert re.search(
            r"loop, 3 trips\n +6 x tanh\(matmul\(W\{7,7\}, \{7\}\)\)", told
        )
        assert re.search(r"once, 1 trip\n +2 x input \{7\}", told)

    def test_lines_of_the_user(self, settings):
        dy.init(debug=True)
        chain(3)
        assert "test_explain.py:" in describe(current_graph())

    def test_an_empty_graph(self):
        dy.renew_cg()
        assert describe(current_graph()) == "an empty graph"


class TestStats:
    def test_work_and_waste(self):
        dy.reset_stats()
        chain(5, size=8, lanes=3).value()  # a size that no other test has
        loop = next(w for label, w in dy.stats().work.items() if "tanh" in label)
        assert (loop.runs, loop.trips, loop.rows) == (1, 5, 15)
        assert loop.room % 5 == 0
        assert loop.room > 15
        assert 0 < dy.stats().waste < 1
        assert dy.stats().pool_bytes > 0

    def test_causes(self):
        chain(4, size=23).value()
        dy.reset_stats()
        chain(4, size=29).value()
        chain(3000, size=29).value()
        causes = dy.stats().causes
        assert any("new operations or dims" in c and "tanh+1 {29}" in c for c in causes)
        assert "new operations" not in causes[-1]
        assert len(causes) == dy.stats().programs

    def test_counts_graphs(self):
        """And runs: a value and a backward are one each."""
        m = dy.ParameterCollection()
        p, trainer = m.add_parameters(3), dy.SimpleSGDTrainer(m)
        dy.reset_stats()
        for _ in range(7):
            dy.renew_cg()
            loss = dy.squared_norm(p)
            loss.value()
            loss.backward()
            trainer.update()
        assert (dy.stats().graphs, dy.stats().runs) == (7, 14)
        dy.exp(loss).value()
        assert (dy.stats().graphs, dy.stats().runs) == (7, 15)
        dy.reset_stats()
        dy.log(loss).value()  # a graph that goes on counts anew
        assert (dy.stats().graphs, dy.stats().runs) == (1, 1)

    def test_of_what_was_interpreted(self, monkeypatch, settings):
        """Nothing is said of XLA, and time is where it was measured."""
        monkeypatch.setattr(RUNTIME, "tier", "native")
        dy.reset_stats()
        assert str(dy.stats()).startswith("no graphs\ntime: measured after dy.init(")
        loss = chain(3)
        loss.value()
        loss.backward()
        told = str(dy.stats())
        assert repr(dy.stats()) == told
        assert told.startswith("1 graph in 2 runs, all interpreted\n")
        assert re.search(r"\nmemory: [\d.]+ [KM]?B held for the current graph$", told)
        assert "XLA" not in told
        assert "lanes" not in told
        dy.init(profiling=2)
        dy.reset_stats()
        chain(3).value()
        assert re.search(r"\ntime: run [\d.]+ [um]?s\n", str(dy.stats()))

    def test_of_what_was_compiled(self, monkeypatch):
        monkeypatch.setattr(RUNTIME, "tier", "xla")
        dy.reset_stats()
        chain(3, size=11).value()
        told = str(dy.stats())
        assert told.startswith("1 graph in 1 run, none interpreted\ntime: plan ")
        assert re.search(
            r"\nXLA: \d+ programs?, \d+ compilations? and \d+ loads? in", told
        )
        assert "of rows for XLA in one graph, at most\n" in told
        assert "empty lanes" in told
        assert "programs were made for:\n" in told

    def test_what_to_do(self):
        told = str(Stats(no_byte_code={"a b": 2}, exact={"c": 3}, fallbacks={"d": 1}))
        assert "byte code: a b (2) (graphs without these are interpreted)" in told
        assert "exact dims: c (3) (every length is compiled: pad" in told
        assert "another way: d (1) (slower; please report it)" in told


def test_a_program_that_keeps_compiling():
    def run():
        for size in range(2, 50):
            dy.renew_cg()
            x = dy.inputVector(np.ones(100))
            total = dy.l2_norm(dy.square(dy.pick_range(x, 0, size)))
            assert total.value() == pytest.approx(size**0.5)

    with pytest.warns(
        dy.CompilationWarning, match="32 values of e: 2, 3, 4, 5,"
    ) as caught:
        run()
    assert len(caught) == 1
    assert "pick_range: a program keeps compiling" in str(caught[0].message)


class TestInit:
    PROGRAM = """
import sys
import numpy as np
import dynetjax as dy
dy.init(deterministic=True)
dy.reset_random_seed(3)
pc = dy.ParameterCollection()
w, table = pc.add_parameters((8, 8)), pc.add_lookup_parameters((5, 8))
trainer = dy.AdamTrainer(pc)
for k in range(30):
    dy.renew_cg()
    h = table[0]
    for i in range(k % 4 + 1):
        h = dy.dropout(dy.tanh(w * h + table[i]), 0.3)
    loss = dy.dot_product(h, h)
    loss.backward()
    trainer.update()
sys.stdout.write(w.as_array().tobytes().hex() + table.as_array().tobytes().hex())
"""

    def test_deterministic(self):
        """Two processes end with the same bits."""
        command = [sys.executable, "-c", self.PROGRAM]
        first, second = (
            subprocess.run(command, capture_output=True, check=True).stdout
            for _ in range(2)
        )
        assert first == second
        assert len(first) > 1000

    def test_async_checks(self, settings):
        """With False, an update raises at its own line."""
        pc = dy.ParameterCollection()
        w = pc.parameters_from_numpy(np.array([0.0]))
        trainer = dy.SimpleSGDTrainer(pc)
        dy.init(async_checks=False)
        dy.renew_cg()
        dy.log(w * 0).backward()
        with pytest.raises(RuntimeError, match="Magnitude of gradient is bad"):
            trainer.update()

    @pytest.mark.parametrize("flag", ["--dynet-profiling=1", "--dynet_profiling=1"])
    def test_command_line(self, flag):
        program = "import dynetjax as dy; dy.scalarInput(2.0).value()"
        done = subprocess.run(
            [sys.executable, "-c", program, flag], capture_output=True, text=True
        )
        assert "1 graph in 1 run" in done.stderr

    def test_command_line_without_a_number(self):
        done = subprocess.run(
            [sys.executable, "-c", "import dynetjax", "--dynet-profiling", "x"],
            capture_output=True,
            text=True,
        )
        assert "--dynet-profiling: it will not do" in done.stderr

    def test_the_persistent_cache_keeps_short_compilations(self, tmp_path):
        """A second process loads what the first has compiled."""
        program = "import dynetjax as dy; dy.init(tier='xla'); "
        program += "dy.tanh(dy.scalarInput(2.0)).value(); "
        command = [sys.executable, "-c", program + "print(dy.stats().loads)"]
        kept = {k: v for k, v in os.environ.items() if "PERSISTENT_CACHE" not in k}
        environment = {**kept, "JAX_COMPILATION_CACHE_DIR": str(tmp_path)}
        first, second = (
            int(subprocess.run(command, capture_output=True, env=environment).stdout)
            for _ in range(2)
        )
        assert first == 0
        assert second > 0
