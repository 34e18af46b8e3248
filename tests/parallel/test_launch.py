"""``python -m dynetjax --processes N``."""

import os
import pathlib
import re
import signal
import socket
import subprocess
import sys
import time

import numpy as np
import pytest

PROGRAMS = pathlib.Path(__file__).parent / "programs"
SHARED = pathlib.Path("/dev/shm")


# A shell has interrupts ignored by what it runs in the background.
HEARING = """
import runpy, signal, sys
signal.signal(signal.SIGINT, signal.default_int_handler)
sys.argv[0] = "dynetjax"
runpy.run_module("dynetjax", run_name="__main__", alter_sys=True)
"""


def start(*words, **options):
    """``python -m dynetjax`` with these words."""
    command = [sys.executable, "-c", HEARING, *map(str, words)]
    pipe = subprocess.PIPE
    return subprocess.Popen(command, stdout=pipe, stderr=pipe, text=True, **options)


def run(*words):
    """(exit status, what was printed, what was told on stderr)."""
    process = start(*words)
    out, err = process.communicate(timeout=60)
    return process.returncode, out, err


@pytest.fixture(autouse=True)
def leaves_no_memory():
    """Whatever happens."""
    before = segments()
    yield
    until = time.monotonic() + 20  # where all was killed, others clean up
    left = segments() - before
    while left & segments() and time.monotonic() < until:
        time.sleep(0.1)
    assert not left & segments()


def segments():
    """Shared memory that there is, of whomever."""
    return {*SHARED.glob("psm_*")} if SHARED.exists() else set()


def values(file, rank=0):
    """The parameters that a process had at the end."""
    return np.load(f"{file}.{rank}.npy")


def test_as_one_process_that_adds_up_the_losses(tmp_path):
    one, two = tmp_path / "one", tmp_path / "two"
    assert run(PROGRAMS / "tagger.py", one, 3)[0] == 0
    words = "--processes", 2, "--sum", PROGRAMS / "tagger.py", two, 3, "save"
    status, out, err = run(*words)
    assert status == 0, err
    assert out == "rank 0 True\n"  # the other prints nothing
    assert values(two) == pytest.approx(values(one), rel=1e-4, abs=1e-6)
    assert np.array_equal(values(two), values(two, 1))  # to the last bit


def test_replicas_begin_equal_and_go_by_the_mean(tmp_path):
    """Without a seed of the program's own; Adam cares little about a factor."""
    file = tmp_path / "model"
    status, _, err = run("--processes", 3, PROGRAMS / "tagger.py", file, 0)
    assert status == 0, err
    first, *others = [values(file, rank) for rank in range(3)]
    assert all(np.array_equal(first, other) for other in others)
    assert err.count("random seed") == 1  # told once


@pytest.mark.parametrize(
    ("how", "told"),
    [
        ("raise", "process 1 has failed\nTraceback.*ValueError: as it was told"),
        ("exit", "process 1 has ended: enough"),
        ("kill", "process 1 was ended by SIGKILL"),
        ("end", "update: process 1 has ended.*its 3 updates"),
        ("order", "process 1 has another model than process 0.*/extra"),
        ("value", "the processes have different values.*process 0 in 1"),
    ],
)
def test_where_one_fails_all_end(how, told):
    begun = time.monotonic()
    status, _, err = run("--processes", 2, PROGRAMS / "failing.py", how)
    assert status == 1
    assert re.search(told, err, re.DOTALL), err
    assert time.monotonic() - begun < 30
    assert "leaked" not in err


def test_one_that_stands_still():
    words = "--processes", 2, "--patience", 2, PROGRAMS / "failing.py", "stop"
    status, _, err = run(*words)
    assert status == 1
    assert "process 1 stands still" in err


def is_alive(pid):
    try:
        return pathlib.Path(f"/proc/{pid}/stat").read_text().split()[2] != "Z"
    except FileNotFoundError:
        return False


@pytest.mark.skipif(not SHARED.exists(), reason="Linux tells which processes live")
@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGKILL])
def test_where_the_first_process_ends_the_others_do(number):
    words = "--processes", 2, PROGRAMS / "failing.py", "pids"
    with start(*words, start_new_session=True) as process:
        try:
            pid = int(process.stdout.readline())
            assert is_alive(pid)
            if number == signal.SIGINT:
                os.killpg(process.pid, number)  # as a terminal does
            else:
                process.send_signal(number)
            process.wait(timeout=40)
            until = time.monotonic() + 15
            while is_alive(pid) and time.monotonic() < until:
                time.sleep(0.1)
            assert not is_alive(pid)
        except BaseException:
            os.killpg(process.pid, signal.SIGKILL)  # with what cleans up after them
            raise


def test_files_that_one_process_alone_saves(tmp_path):
    """The others wait for those that they save, too."""
    status, _, err = run("--processes", 2, PROGRAMS / "guarded.py", tmp_path / "m")
    assert status == 0, err
    for rank in (0, 1):
        assert (tmp_path / f"m.rank{rank}").read_text() == "True\n" * 3


def test_a_program_for_dynet_has_a_pool():
    status, out, err = run(PROGRAMS / "dropped_in.py")
    assert (status, out) == (0, "_dynet True True\n"), err


def test_no_program():
    status, _, err = run("--processes", 2)
    assert status == 1
    assert err.count("program.py ARGS") == 1


def free_port():
    with socket.socket() as found:
        found.bind(("127.0.0.1", 0))
        return found.getsockname()[1]


def test_hosts_that_meet_through_jax(tmp_path):
    """Two of them, on this machine."""
    one, two = tmp_path / "one", tmp_path / "two"
    program = PROGRAMS / "tagger.py"
    assert run(program, one, 3)[0] == 0
    where = "--hosts", 2, "--coordinator", f"127.0.0.1:{free_port()}", "--sum"
    hosts = [start(*where, "--host", k, program, two, 3) for k in (0, 1)]
    told = [host.communicate(timeout=120) for host in hosts]
    assert [host.returncode for host in hosts] == [0, 0], told
    assert values(two) == pytest.approx(values(one), rel=1e-4, abs=1e-6)
    assert np.array_equal(values(two), values(two, 1))


def test_gradients_that_stay_on_devices(tmp_path):
    """A table's rows, and four parameters, go through JAX's collectives."""
    one, two = tmp_path / "one", tmp_path / "two"
    assert run(PROGRAMS / "tagger.py", one, 3)[0] == 0
    command = [sys.executable, PROGRAMS / "on_devices.py", str(free_port())]
    pipe = subprocess.PIPE
    processes = [
        subprocess.Popen([*command, str(k), two, "3"], stdout=pipe, stderr=pipe)
        for k in (0, 1)
    ]
    told = [process.communicate(timeout=120) for process in processes]
    assert [process.returncode for process in processes] == [0, 0], told
    assert all(out.endswith(b"12 updates\n") for out, _ in told)
    assert values(two) == pytest.approx(values(one), rel=1e-4, abs=1e-6)
    assert np.array_equal(values(two), values(two, 1))


@pytest.mark.parametrize(
    ("words", "told"),
    [
        (("--processes", "none"), "--processes wants something else"),
        (("--processes", "0"), "--processes wants something else"),
        (("--hosts", "2"), "--coordinator wants something else"),
        (("--hosts", "-1"), "--hosts wants something else"),
    ],
)
def test_options_are_checked(words, told):
    status, _, err = run(*words, "program.py")
    assert status == 1
    assert told in err
