"""Files are replaced whole or not at all."""

import contextlib
import errno
import os
import signal
import stat
import subprocess
import sys
import threading

import pytest

import dynetjax
import dynetjax as dy
from dynetjax.compat import old_api
from dynetjax.io.atomic import Draft, replacing

try:
    import resource
except ImportError:  # Windows
    resource = None


def write(path, content, **how):
    with replacing(str(path), **how) as file:
        file.write(content)


def names(folder):
    return sorted(p.name for p in folder.iterdir())


class TestContent:
    def test_new_and_replaced(self, tmp_path):
        for content in b"one", b"other":
            write(tmp_path / "m", content)
            assert (tmp_path / "m").read_bytes() == content
        assert names(tmp_path) == ["m"]

    def test_append(self, tmp_path):
        for content in b"one ", b"two":
            write(tmp_path / "m", content, append=True)
        assert (tmp_path / "m").read_bytes() == b"one two"

    @pytest.mark.parametrize("append", [False, True])
    def test_exception(self, tmp_path, append):
        """The old file stays, and nothing else does."""
        (tmp_path / "m").write_bytes(b"old")

        def interrupted():
            with replacing(str(tmp_path / "m"), append=append) as file:
                file.write(b"new")
                file.flush()
                raise KeyboardInterrupt

        with pytest.raises(KeyboardInterrupt):
            interrupted()
        assert (tmp_path / "m").read_bytes() == b"old"
        assert names(tmp_path) == ["m"]

    def test_unseen_until_the_end(self, tmp_path):
        with replacing(str(tmp_path / "m")) as file:
            file.write(b"new")
            file.flush()
            assert not (tmp_path / "m").exists()

    def test_long_name(self, tmp_path):
        write(tmp_path / ("n" * 255), b"x")
        assert names(tmp_path) == ["n" * 255]


class TestWhatStays:
    def test_permissions(self, tmp_path):
        path = tmp_path / "m"
        path.write_bytes(b"old")
        path.chmod(0o640)
        write(path, b"new")
        assert stat.S_IMODE(path.stat().st_mode) == 0o640

    def test_permissions_of_a_new_file(self, tmp_path):
        """Those that `open` gives."""
        write(tmp_path / "m", b"x")
        (tmp_path / "other").write_bytes(b"x")
        modes = {(tmp_path / n).stat().st_mode for n in ("m", "other")}
        assert len(modes) == 1

    def test_link(self, tmp_path):
        (tmp_path / "target").write_bytes(b"old")
        (tmp_path / "link").symlink_to("target")
        write(tmp_path / "link", b"new")
        assert (tmp_path / "link").is_symlink()
        assert (tmp_path / "target").read_bytes() == b"new"

    def test_link_to_nothing_yet(self, tmp_path):
        (tmp_path / "link").symlink_to("target")
        write(tmp_path / "link", b"new")
        assert (tmp_path / "target").read_bytes() == b"new"
        assert (tmp_path / "link").is_symlink()

    def test_device(self):
        """Written to, not replaced."""
        write(os.devnull, b"x")
        assert stat.S_ISCHR(os.stat(os.devnull).st_mode)


class TestRefused:
    def test_no_folder(self, tmp_path):
        """The error names the file that was asked for."""
        with pytest.raises(FileNotFoundError, match=r"no/m'"):
            write(tmp_path / "no" / "m", b"x")

    def test_folder(self, tmp_path):
        with pytest.raises(IsADirectoryError):
            write(tmp_path, b"x")

    def test_read_only(self, tmp_path, monkeypatch):
        path = tmp_path / "m"
        path.write_bytes(b"old")
        path.chmod(0o400)
        # Root may write to it: what the system answers is the point here.
        monkeypatch.setattr(os, "access", lambda *_: False)
        with pytest.raises(PermissionError, match="m'"):
            write(path, b"new")
        assert names(tmp_path) == ["m"]


# Without JAX, whose threads a fork would not copy: modules of the floor only.
KILLING = """
import os, random, signal, sys, time, types
package = sys.modules["dynetjax"] = types.ModuleType("dynetjax")
package.__path__ = [sys.argv[1]]
from dynetjax.io.atomic import replacing
from dynetjax.io.text import write_block
import numpy as np

path, append = sys.argv[2], sys.argv[3] == "append"
values = [np.full(20_000, n, np.float32) for n in (1, 2)]

def save(n, append):
    with replacing(path, append=append) as file:
        write_block(file, is_table=False, key="/W", dims=(20_000,), values=values[n])

def content():
    with open(path, "rb") as file:
        return file.read()

allowed = set()
for n in range(2):
    save(n, False)
    allowed.add(content())
if append:
    allowed = {content() * times for times in range(1, 6)}
dice, drafts, folder = random.Random(1), 0, os.path.dirname(path)
for trial in range(int(sys.argv[4])):
    child = os.fork()
    if not child:
        n = 0
        while True:
            save(1 if append else n % 2, append and n % 5 > 0)
            n += 1
    time.sleep(dice.uniform(0.001, 0.008))
    os.kill(child, signal.SIGKILL)
    os.waitpid(child, 0)
    assert content() in allowed, trial
    drafts += len(os.listdir(folder)) - 1
print(drafts)
save(0, False)
assert len(os.listdir(folder)) == 1
"""


@pytest.mark.skipif(not hasattr(os, "fork"), reason="needs fork")
@pytest.mark.parametrize(("how", "trials"), [("replace", 200), ("append", 50)])
def test_killed_at_any_moment(tmp_path, how, trials):
    """The name has an old file or a new one, each complete, and nothing is beside it.

    Nothing that outlives the next who writes to it, that is.
    """
    line = [sys.executable, "-c", KILLING, *dynetjax.__path__, str(tmp_path / "m")]
    done = subprocess.run(
        [*line, how, str(trials)], capture_output=True, text=True, check=False
    )
    assert not done.stderr
    assert int(done.stdout) > 0, "no child was killed while it wrote"


# Writes a draft, tells of it, and waits.
WRITING = """
import sys
from dynetjax.io.atomic import replacing
with replacing(sys.argv[1]) as file:
    file.write(b"other")
    file.flush()
    print("written", flush=True)
    sys.stdin.read()
"""


class TestDraftsOfOthers:
    @pytest.fixture
    def other(self, tmp_path):
        """A process that has begun to write ``m``, and ends when its input does."""
        line = [sys.executable, "-c", WRITING, str(tmp_path / "m")]
        pipe = subprocess.PIPE
        with subprocess.Popen(line, stdin=pipe, stdout=pipe, text=True) as process:
            assert process.stdout.readline() == "written\n"
            yield process

    def test_killed(self, other, tmp_path):
        """What it left goes with the next that writes to the name."""
        other.send_signal(signal.SIGKILL)
        other.wait()
        assert len(names(tmp_path)) == 1
        write(tmp_path / "n", b"x")
        assert len(names(tmp_path)) == 2
        write(tmp_path / "m", b"x")
        assert names(tmp_path) == ["m", "n"]

    def test_alive(self, other, tmp_path):
        """Its draft stays, and takes the place of ours in the end."""
        write(tmp_path / "m", b"ours")
        assert len(names(tmp_path)) == 2
        other.communicate()
        assert other.returncode == 0
        assert (tmp_path / "m").read_bytes() == b"other"
        assert names(tmp_path) == ["m"]

    def test_complete_and_not_yet_in_place(self, tmp_path):
        """The files of a pair are finished before either is published."""
        path = str(tmp_path / "m")
        draft = Draft(path)
        draft.finish()
        write(path, b"ours")
        draft.publish()
        assert names(tmp_path) == ["m"]
        assert (tmp_path / "m").read_bytes() == b""

    def test_threads(self, tmp_path):
        """Each writes whole files, and removes nobody's."""
        failures = []

        def writing(content):
            try:
                for _ in range(100):
                    write(tmp_path / "m", content)
            except OSError as error:
                failures.append(error)

        threads = [threading.Thread(target=writing, args=(b"%d" % k,)) for k in (1, 2)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        assert not failures
        assert names(tmp_path) == ["m"]

    @pytest.mark.parametrize(
        "name", [".m.0123.tmp", ".m.tmp", "m.0123456789abcdef.tmp"]
    )
    def test_other_files(self, tmp_path, name):
        (tmp_path / name).touch()
        write(tmp_path / "m", b"x")
        assert names(tmp_path) == sorted([name, "m"])

    def test_link(self, tmp_path):
        """Nothing behind it is touched."""
        (tmp_path / "precious").write_bytes(b"x")
        (tmp_path / ".m.0123456789abcdef.tmp").symlink_to("precious")
        write(tmp_path / "m", b"x")
        assert (tmp_path / "precious").read_bytes() == b"x"

    def test_no_locks(self, tmp_path, monkeypatch):
        """On a file system without them nothing is removed, and all is written."""
        fcntl = pytest.importorskip("fcntl")

        def refused(*_):
            raise OSError(errno.ENOLCK, "no locks")

        monkeypatch.setattr(fcntl, "flock", refused)
        (tmp_path / ".m.0123456789abcdef.tmp").touch()
        write(tmp_path / "m", b"x")
        assert names(tmp_path) == [".m.0123456789abcdef.tmp", "m"]

    def test_taken_for_abandoned_before_it_is_held(self, tmp_path, monkeypatch):
        """Then another draft is begun."""
        fcntl = pytest.importorskip("fcntl")
        flock, taken = fcntl.flock, []

        def late(descriptor, how):
            if not taken:
                taken.extend(tmp_path.iterdir())
                taken[0].unlink()
            flock(descriptor, how)

        monkeypatch.setattr(fcntl, "flock", late)
        write(tmp_path / "m", b"x")
        assert len(taken) == 1
        assert names(tmp_path) == ["m"]

    def test_about_to_be_removed(self, tmp_path, monkeypatch):
        """Held by another one when it is to be held."""
        fcntl = pytest.importorskip("fcntl")
        flock, refusals = fcntl.flock, [BlockingIOError]

        def contended(descriptor, how):
            if refusals:
                raise refusals.pop()
            flock(descriptor, how)

        monkeypatch.setattr(fcntl, "flock", contended)
        write(tmp_path / "m", b"x")
        drafts = [name for name in names(tmp_path) if name != "m"]
        assert len(drafts) == 1
        write(tmp_path / "m", b"x")
        assert names(tmp_path) == ["m"]


class Component(old_api.Saveable):
    def __init__(self, model):
        self.text = "x" * 300_000
        self.components = model.parameters_list()[-1:]

    def get_components(self):
        return self.components


SAVERS = {
    "dy.save": lambda m, path: dy.save(path, m.parameters_list()),
    "save": lambda m, path: m.save(path),
    "save, append": lambda m, path: m.save(path, append=True),
    "parameter": lambda m, path: m.parameters_list()[0].save(path),
    "table": lambda m, path: m.lookup_parameters_list()[0].save(path),
    "checkpoint": lambda m, path: dy.save_checkpoint(path, m),
    "safetensors": lambda m, path: dy.save_safetensors(m, path),
    "trainer": lambda m, path: trained(m).save(path),
    "saveable": lambda m, path: old_api.save_objects(path, [Component(m)]),
}


def trained(m):
    trainer = dy.AdamTrainer(m)
    trainer.update()
    return trainer


@contextlib.contextmanager
def short_files():
    """No file may grow beyond 16 KiB, as if the disk were full."""
    limits = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (1 << 14, limits[1]))
    try:
        yield
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, limits)


@pytest.fixture
def small_disk(tmp_path):
    """A folder with room for 64 KiB."""
    folder = tmp_path / "disk"
    folder.mkdir()
    line = ["mount", "-t", "tmpfs", "-o", "size=64k", "none", str(folder)]
    try:
        subprocess.run(line, check=True, capture_output=True)
    except (OSError, subprocess.CalledProcessError):
        pytest.skip("needs the right to mount")
    yield folder
    subprocess.run(["umount", str(folder)], check=True)


@pytest.mark.skipif(resource is None, reason="needs limits")
@pytest.mark.parametrize("saver", SAVERS.values(), ids=SAVERS)
class TestFullDisk:
    """Every saver says so in the same words, and leaves what was there."""

    def check(self, saver, folder, full):
        m = dy.ParameterCollection()
        m.add_parameters(20_000), m.add_lookup_parameters((20_000, 1))
        m.add_parameters(2)
        old = b"#Parameter# /W {1} 17 ZERO_GRAD\n+1.0 \n"
        for name in "m", "m.objects":
            (folder / name).write_bytes(old)
        dy.save(folder / "m", [m.parameters_list()[-1]])
        before = {path: path.read_bytes() for path in folder.iterdir()}
        match = r"cannot write .*/m(.|\n)*fix: +make room, or save elsewhere"
        with full, pytest.raises(OSError, match=match) as raised:
            saver(m, str(folder / "m"))
        after = {path: path.read_bytes() for path in folder.iterdir()}
        assert after == before
        return raised.value.errno

    def test_limit(self, saver, tmp_path):
        assert self.check(saver, tmp_path, short_files()) == errno.EFBIG

    def test_disk(self, saver, small_disk):
        whole = contextlib.nullcontext()
        assert self.check(saver, small_disk, whole) == errno.ENOSPC


@pytest.mark.skipif(not os.path.exists("/dev/full"), reason="needs /dev/full")
def test_full_device():
    """What is no file is written to as it is, and tells the same."""
    m = dy.ParameterCollection()
    m.add_parameters(2)
    with pytest.raises(OSError, match=r"save: cannot write /dev/full(.|\n)*make room"):
        m.save("/dev/full")
