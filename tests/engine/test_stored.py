"""What one process compiled, the next one loads without tracing it."""

import os
import threading

import jax
import jax.experimental.compilation_cache.compilation_cache
import jax.numpy as jnp
import numpy as np
import pytest

import dynetjax as dy
from dynetjax.engine import ahead, compiling, stored
from dynetjax.engine.ahead import Ahead
from dynetjax.engine.compiling import Compiled

pytestmark = pytest.mark.skipif(
    jax.default_backend() != "cpu", reason="programs are kept on a CPU only"
)


@pytest.fixture
def folder(tmp_path, monkeypatch):
    """Where programs are kept, in this process."""
    settings = {
        "jax_compilation_cache_dir": str(tmp_path),
        "jax_persistent_cache_min_compile_time_secs": 0.0,
    }
    before = {name: getattr(jax.config, name) for name in settings}
    for name, value in settings.items():
        jax.config.update(name, value)
    jax.experimental.compilation_cache.compilation_cache.reset_cache()
    monkeypatch.setattr(stored, "is_wanted", True)
    begin(monkeypatch)
    yield tmp_path
    for name, value in before.items():
        jax.config.update(name, value)
    jax.experimental.compilation_cache.compilation_cache.reset_cache()


def begin(monkeypatch):
    """Another process, as far as what is loaded ahead goes."""
    monkeypatch.setattr(compiling, "ahead", Ahead())


class Counted:
    """A program that no cache has, and how often it was traced."""

    def __init__(self):
        self.number = int.from_bytes(os.urandom(3), "big")
        self.traces = 0

    def made(self, *more, plus=0):
        def run(x, held):
            self.traces += 1
            return jnp.tanh(x["a"]) * self.number, held + (1 + plus)

        run.__name__ = f"run{sum(more)}"  # no two have the same text
        return Compiled(run, "held", ("counted", self.number, *more))

    def check(self, program, size=3):
        x = np.linspace(0, 1, size, dtype=np.float32)
        held = jnp.zeros(4)
        found, again = program({"a": x}, held)
        np.testing.assert_allclose(found, np.tanh(x) * self.number, rtol=1e-6)
        np.testing.assert_array_equal(again, np.ones(4))
        assert held.is_deleted()


def files(folder):
    return [f for f in folder.iterdir() if f.name.startswith(stored.PREFIX)]


class TestAnother:
    """An equal program of a later process, or what stands for it here."""

    def test_is_not_traced(self, folder):
        counted = Counted()
        counted.check(counted.made())
        assert counted.traces == len(files(folder)) == 1
        program, loads = counted.made(), dy.stats().loads
        for _ in range(3):
            counted.check(program)
        assert counted.traces == 1
        assert dy.stats().loads == loads + 1

    def test_is_traced_for_other_shapes(self, folder):
        counted = Counted()
        counted.check(counted.made())
        program = counted.made()
        counted.check(program)
        for size in 5, 3, 5:
            counted.check(program, size)
        counted.check(counted.made(), 5)
        assert counted.traces == len(files(folder)) == 2

    def test_of_something_else_is_another(self, folder):
        counted = Counted()
        counted.check(counted.made(1))
        counted.check(counted.made(2))
        assert counted.traces == len(files(folder)) == 2

    @pytest.mark.parametrize(
        "damage", [lambda b: b[:-1], lambda b: b"", lambda b: b * 2]
    )
    def test_is_compiled_if_the_file_is_damaged(self, folder, damage):
        counted = Counted()
        counted.check(counted.made())
        (file,) = files(folder)
        whole = file.read_bytes()
        file.write_bytes(damage(whole))
        for other in {*folder.iterdir()} - {file}:
            other.unlink()  # or JAX reads it, and then it cannot be written
        counted.check(counted.made())
        assert counted.traces == 2
        assert len(file.read_bytes()) == len(whole)
        counted.check(counted.made())
        assert counted.traces == 2

    def test_waits_for_one_that_is_prepared(self, folder):
        counted = Counted()
        shapes = {"a": compiling.shape_of(np.zeros(3, np.float32))}
        for _ in range(2):  # the second one is loaded
            program = counted.made()
            program.prepare(shapes, compiling.shape_of(jnp.zeros(4)))
            counted.check(program)
            assert counted.traces == 1


class TestNothingIsKept:
    @staticmethod
    def check(folder):
        counted = Counted()
        for traces in 1, 2:
            counted.check(counted.made())
            assert counted.traces == traces
        assert not files(folder)

    def test_of_what_jax_has_read(self, folder, monkeypatch):
        """XLA cannot write it once more."""
        counted = Counted()
        for source in "old", "new":
            monkeypatch.setattr(stored, "digest_of_source", lambda s=source: s)
            counted.check(counted.made())
        assert counted.traces == 2
        assert len(files(folder)) == 1

    @pytest.mark.filterwarnings("ignore:Error .* persistent compilation cache")
    def test_without_a_folder(self, folder):
        (folder / "file").write_text("")  # JAX makes a folder that is absent
        jax.config.update("jax_compilation_cache_dir", str(folder / "file" / "absent"))
        self.check(folder)

    def test_that_cannot_be_written(self, folder, monkeypatch):
        def full(*_):
            raise OSError("No space left on device")

        monkeypatch.setattr(os, "replace", full)
        self.check(folder)
        assert not list(folder.glob("*dynetjax*"))

    def test_if_the_user_says_so(self, folder):
        before = jax.config.jax_enable_compilation_cache
        jax.config.update("jax_enable_compilation_cache", False)
        self.check(folder)
        jax.config.update("jax_enable_compilation_cache", before)


class TestAhead:
    """What a process loads before it is asked for."""

    @pytest.fixture
    def loaded(self, monkeypatch):
        """What is loaded from now on: files, and the threads that load them."""
        found, load = [], stored.load

        def noted(file):
            if file.name.startswith(stored.PREFIX):  # and is no other name by the text
                found.append((file, threading.current_thread().name))
            return load(file)

        monkeypatch.setattr(stored, "load", noted)
        return found

    @staticmethod
    def run(monkeypatch, counted, *numbers):
        """A process that asks for programs in this order."""
        begin(monkeypatch)
        for k in numbers:
            counted.check(counted.made(k))

    @staticmethod
    def by_threads(loaded):
        return [file for file, thread in loaded if "loading" in thread]

    def test_is_what_came_after_the_same_first_program(
        self, folder, monkeypatch, loaded
    ):
        counted = Counted()
        for process in range(3):
            loaded.clear()
            self.run(monkeypatch, counted, 0)
            if process:
                for coming in [*compiling.ahead._coming.values()]:
                    coming.result()
            assert len(self.by_threads(loaded)) == (2 if process else 0)
            for k in 1, 2:
                counted.check(counted.made(k))
            assert len({file for file, _ in loaded}) == len(loaded)
        assert counted.traces == len(files(folder)) == 3

    def test_is_nothing_where_another_program_is_the_first(
        self, folder, monkeypatch, loaded
    ):
        counted = Counted()
        for first, second in (0, 1), (1, 0):
            self.run(monkeypatch, counted, first, second)
        assert not self.by_threads(loaded)

    def test_is_not_missed(self, folder, monkeypatch, loaded):
        counted = Counted()
        for _ in range(2):
            self.run(monkeypatch, counted, 0, 1)
            for file in files(folder):
                file.unlink()
        assert counted.traces == 4

    def test_is_not_more_than_a_few(self, folder, monkeypatch, loaded):
        monkeypatch.setattr(ahead, "MOST", 3)
        counted = Counted()
        for _ in range(2):
            loaded.clear()
            self.run(monkeypatch, counted, *range(5))
        assert len(self.by_threads(loaded)) == 2
        assert len(loaded) == counted.traces == 5

    def test_is_nothing_if_the_list_is_damaged(self, folder, monkeypatch, loaded):
        counted = Counted()
        for _ in range(3):
            loaded.clear()
            self.run(monkeypatch, counted, 0, 1)
            (known,) = folder.glob(f"{ahead.PREFIX}*")
            whole = known.read_bytes()
            assert whole.count(b"\n") == 1
            known.write_bytes(b"\xff")
        assert not self.by_threads(loaded)
        assert counted.traces == 2


def test_what_it_is_found_by(folder, monkeypatch):
    """All that decides what is compiled has a part in it."""

    def name(about=(1,), options=None):
        stored._surroundings.cache_clear()
        shapes = [compiling.shape_of(np.zeros(3, np.float32))]
        return stored.find(about, shapes, options or {}).name

    known = {name()}
    assert name() in known
    known |= {name((2,)), name(options={"a": True})}
    with jax.enable_x64(True):
        known.add(name())
    for what, value in {
        "jax.__version__": "99",
        "jaxlib.__version__": "99",
        "optax.__version__": "99",
        "sys.version": "99",
        "platform.machine": lambda: "z80",
        "os.cpu_count": lambda: 99,
        "dynetjax.engine.stored.digest_of_source": lambda: "edited",
    }.items():
        with monkeypatch.context() as patched:
            patched.setattr(what, value)
            known.add(name())
    with monkeypatch.context() as patched:
        patched.setenv("XLA_FLAGS", "--xla_something=1")
        known.add(name())
    assert len(known) == 12
    stored._surroundings.cache_clear()


def test_threads_that_want_the_same_program(folder):
    """One of them compiles it."""
    counted = Counted()
    program = counted.made()
    threads = [
        threading.Thread(target=counted.check, args=(program,)) for _ in range(4)
    ]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert counted.traces == 1
