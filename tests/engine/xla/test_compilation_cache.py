"""Programs that one process compiled are read by the next."""

import os
import pathlib
import subprocess
import sys
from types import SimpleNamespace

import jax
import pytest

from dynetjax.engine import cache_folder as module
from dynetjax.engine.cache_folder import VARIABLE, cache_folder, is_private
from dynetjax.engine.xla import compilation_cache
from dynetjax.engine.xla.compilation_cache import DAY, LOOKED, keep_compilations

from ...backends import on_cpu

PROGRAM = """\
import dynetjax as dy
dy.init(tier="xla")
dy.tanh(dy.inputVector([0.5, 1.5])).value()
"""
TRAINING = """\
import dynetjax as dy

dy.init(tier="xla", deterministic=True)
dy.reset_random_seed(3)
model = dy.ParameterCollection()
table = model.add_lookup_parameters((20, 8))
read = dy.VanillaLSTMBuilder(1, 8, 8, model)
out = model.add_parameters((3, 8))
trainer = dy.AdamTrainer(model)
for k in range(30):
    dy.renew_cg()
    words = [(7 * k + 3 * j) % 20 for j in range(2 + k % 5)]
    states = read.initial_state().transduce([table[w] for w in words])
    loss = dy.esum([dy.pickneglogsoftmax(out * s, k % 3) for s in states])
    print(loss.value())
    loss.backward()
    trainer.update()
"""
REPORT = """\
import jax
stats = dy.stats()
print(stats.compilations, stats.loads, jax.config.jax_compilation_cache_dir)
"""


def run(home, **variables):
    """How many programs a process compiled, and read; and the folder that it has."""
    return run_program(PROGRAM, home, **variables)[1:]


def run_program(program, home, **variables):
    """The same, after what the program printed."""
    kept = {k: v for k, v in os.environ.items() if "CACHE_DIR" not in k}
    environment = {**kept, "HOME": str(home), "XDG_CACHE_HOME": "", **variables}
    done = subprocess.run(
        [sys.executable, "-c", program + REPORT],
        capture_output=True,
        text=True,
        check=True,
        env=environment,
    )
    *printed, report = done.stdout.rstrip("\n").split("\n")
    compiled, loaded, folder = report.split(" ", 2)
    return printed, int(compiled), int(loaded), folder


def test_the_next_process_reads_them(tmp_path):
    compiled, loaded, folder = run(tmp_path)
    assert compiled > 0 == loaded
    assert pathlib.Path(folder).parent == tmp_path / ".cache" / "dynetjax"
    assert run(tmp_path) == (0, compiled, folder)


@on_cpu
def test_a_training_in_two_processes(tmp_path):
    """The second one compiles nothing, and computes the same."""
    losses = run_program(TRAINING, tmp_path)[0]
    again, compiled, loaded, _ = run_program(TRAINING, tmp_path)
    assert len(losses) == 30
    assert again == losses
    assert compiled == 0 < loaded


def test_not_if_the_user_wants_none(tmp_path):
    for name, value in (
        (VARIABLE, ""),
        (VARIABLE, "none"),
        (VARIABLE, "Off"),
        ("JAX_COMPILATION_CACHE_DIR", ""),
    ):
        assert run(tmp_path, **{name: value})[2] in ("", "None")
    assert not list(tmp_path.iterdir())


def test_where_the_user_wants_them(tmp_path):
    there = str(tmp_path / "there")
    assert run(tmp_path, **{VARIABLE: there})[2].startswith(f"{there}/")
    assert run(tmp_path, JAX_COMPILATION_CACHE_DIR=there)[2] == there
    assert run(tmp_path, XDG_CACHE_HOME=there)[2].startswith(f"{there}/dynetjax/")


@pytest.fixture
def folder(tmp_path, monkeypatch):
    """That which `keep_compilations` chooses, in this process."""
    monkeypatch.setenv(VARIABLE, str(tmp_path))
    monkeypatch.delenv("JAX_COMPILATION_CACHE_DIR", raising=False)
    before = jax.config.jax_compilation_cache_dir
    jax.config.update("jax_compilation_cache_dir", None)
    yield cache_folder()
    jax.config.update("jax_compilation_cache_dir", before)


def numbers(folder):
    """The names of the files that a test made."""
    return {int(file.name) for file in folder.iterdir() if file.name != LOOKED}


def test_the_oldest_half_goes(folder, monkeypatch):
    monkeypatch.setattr(compilation_cache, "MOST_BYTES", 1000)
    folder.mkdir(mode=0o700)
    for k in range(12):
        (folder / f"{k}").write_bytes(bytes(100))
        os.utime(folder / f"{k}", (k, k))
    keep_compilations()
    assert numbers(folder) == {7, 8, 9, 10, 11}
    assert jax.config.jax_compilation_cache_dir == str(folder)


posix = pytest.mark.skipif(os.name != "posix", reason="Windows has other means")


@posix
def test_the_folder_is_the_users_own(folder):
    keep_compilations()
    assert folder.stat().st_mode & 0o777 == 0o700


@posix
@pytest.mark.parametrize("mode", [0o777, 0o770, 0o702])
def test_not_where_others_may_write(folder, mode, monkeypatch):
    """They could put there what this process would run; which is said once."""
    monkeypatch.setattr(module, "_is_alone_in", lambda group: False)
    folder.mkdir()
    folder.chmod(mode)
    is_private.cache_clear()
    with pytest.warns(RuntimeWarning, match=r"others could put(.|\n)*chmod go-w"):
        keep_compilations()
    keep_compilations()
    assert jax.config.jax_compilation_cache_dir is None
    folder.chmod(0o700)
    is_private.cache_clear()
    keep_compilations()
    assert jax.config.jax_compilation_cache_dir == str(folder)


@posix
def test_not_where_it_is_somebody_elses(folder, monkeypatch):
    folder.mkdir(mode=0o700)
    monkeypatch.setattr(os, "geteuid", lambda: folder.stat().st_uid + 1)
    is_private.cache_clear()
    with pytest.warns(RuntimeWarning, match="a folder of user"):
        keep_compilations()
    is_private.cache_clear()
    assert jax.config.jax_compilation_cache_dir is None


@posix
class TestFoldersAbove:
    """Who may write to one can put another folder in the place of the next."""

    @pytest.fixture
    def above(self, folder, tmp_path, monkeypatch):
        above = tmp_path / "above"
        (above / "cache").mkdir(mode=0o700, parents=True)
        monkeypatch.setenv(VARIABLE, str(above / "cache"))
        is_private.cache_clear()
        yield above
        is_private.cache_clear()

    @pytest.mark.parametrize("mode", [0o777, 0o770, 0o702])
    def test_others_may_write(self, above, mode, monkeypatch):
        monkeypatch.setattr(module, "_is_alone_in", lambda group: False)
        above.chmod(mode)
        with pytest.warns(RuntimeWarning, match=rf"got: +{above} of (.|\n)*chmod go-w"):
            keep_compilations()
        assert jax.config.jax_compilation_cache_dir is None

    def test_a_group_of_the_user_alone(self, above, monkeypatch):
        """As many systems make one, to which whatever a user makes is writable."""
        monkeypatch.setattr(module, "_is_alone_in", lambda group: True)
        above.chmod(0o770)
        keep_compilations()
        assert jax.config.jax_compilation_cache_dir == str(cache_folder())

    def test_who_is_in_a_group(self, monkeypatch):
        user = SimpleNamespace(pw_name="ada")
        groups = {1: ("ada", []), 2: ("ada", ["ada", "bob"]), 3: ("staff", [])}
        groups = {
            k: SimpleNamespace(gr_name=n, gr_mem=m) for k, (n, m) in groups.items()
        }
        monkeypatch.setattr(module.pwd, "getpwuid", lambda number: user)
        monkeypatch.setattr(module.grp, "getgrgid", groups.__getitem__)
        assert [module._is_alone_in(group) for group in (1, 2, 3, 4)] == [1, 0, 0, 0]

    def test_sticky(self, above):
        """Only its owner can remove what is in there, as in ``/tmp``."""
        above.chmod(0o1777)
        keep_compilations()
        assert jax.config.jax_compilation_cache_dir == str(cache_folder())

    def test_sticky_itself(self, above):
        """Others can put files into it."""
        cache_folder().mkdir()
        cache_folder().chmod(0o1777)
        with pytest.warns(RuntimeWarning, match="others could put"):
            keep_compilations()

    def test_somebody_elses(self, above, monkeypatch):
        """His own to change, whatever the mode."""
        other = cache_folder().parent.stat().st_uid + 1
        lstat = pathlib.Path.lstat

        def of_another(path):
            info = lstat(path)
            return (
                info if path != above else os.stat_result([*info[:4], other, *info[5:]])
            )

        monkeypatch.setattr(pathlib.Path, "lstat", of_another)
        with pytest.warns(RuntimeWarning, match=f"{above} of user {other}"):
            keep_compilations()

    def test_a_link(self, above, monkeypatch):
        """The folders that it leads through count."""
        (above / "link").symlink_to(above / "open" / "cache")
        (above / "open" / "cache").mkdir(parents=True)
        (above / "open").chmod(0o777)
        monkeypatch.setenv(VARIABLE, str(above / "link"))
        with pytest.warns(RuntimeWarning, match=f"{above}/open of user"):
            keep_compilations()

    def test_made_for_the_user_alone(self, above, monkeypatch):
        """Whatever the mask says."""
        monkeypatch.setenv(VARIABLE, str(above / "new" / "cache"))
        before = os.umask(0)
        try:
            keep_compilations()
        finally:
            os.umask(before)
        assert (above / "new").stat().st_mode & 0o777 == 0o700
        assert jax.config.jax_compilation_cache_dir == str(cache_folder())


def test_a_look_a_day(folder, monkeypatch):
    monkeypatch.setattr(compilation_cache, "MOST_BYTES", 100)
    keep_compilations()
    for k in range(2):
        (folder / f"{k}").write_bytes(bytes(100))
        os.utime(folder / f"{k}", (k, k))
    jax.config.update("jax_compilation_cache_dir", None)
    keep_compilations()
    assert numbers(folder) == {0, 1}
    yesterday = (folder / LOOKED).stat().st_mtime - DAY
    os.utime(folder / LOOKED, (yesterday, yesterday))
    jax.config.update("jax_compilation_cache_dir", None)
    keep_compilations()
    assert not numbers(folder)


def test_a_folder_that_cannot_be_made(folder):
    folder.write_text("a file in its place")
    keep_compilations()
    assert jax.config.jax_compilation_cache_dir is None


def test_another_processor_has_another_folder(folder, monkeypatch):
    monkeypatch.setattr("platform.machine", lambda: "z80")
    assert cache_folder() != folder
