"""Files are replaced whole or not at all."""

import os
import stat
import subprocess
import sys

import pytest

import dynetjax
from dynetjax.io.atomic import replacing


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
dice = random.Random(1)
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
folder = os.path.dirname(path)
print(len(os.listdir(folder)) - 1)
"""


@pytest.mark.skipif(not hasattr(os, "fork"), reason="needs fork")
@pytest.mark.parametrize(("how", "trials"), [("replace", 200), ("append", 50)])
def test_killed_at_any_moment(tmp_path, how, trials):
    """The name has an old file or a new one, each complete."""
    line = [sys.executable, "-c", KILLING, *dynetjax.__path__, str(tmp_path / "m")]
    done = subprocess.run(
        [*line, how, str(trials)], capture_output=True, text=True, check=False
    )
    assert not done.stderr
    assert int(done.stdout) > 0, "no child was killed while it wrote"
