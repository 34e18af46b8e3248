"""Processes that `multiprocessing` spawns find DyNet's names, as their parent does."""

import os
import subprocess
import sys

import pytest

PROGRAM = """
import concurrent.futures
import multiprocessing
import pickle
import sys

import dynet as dy
import {helper}

class Model:
    def __init__(self, size):
        self.m = dy.ParameterCollection()
        self.w = self.m.add_parameters(size, init=2.0)

def loss(model):
    dy.renew_cg()
    return dy.squared_norm(model.w).value(), sys.argv[1:], {helper}.half(7)

def put(queue, model):
    queue.put(loss(model))

class Worker(multiprocessing.get_context({method!r}).Process):
    def __init__(self, pipe):
        super(Worker, self).__init__()
        self.pipe = pipe
    def run(self):
        self.pipe.send(dy.random_normal(1).value())

if __name__ == "__main__":
    context = multiprocessing.get_context({method!r})
    models = [Model(n) for n in (1, 2)]
    with context.Pool(2) as pool:
        print(pool.map(loss, models))
    queue = context.Queue()
    process = context.Process(target=put, args=(queue, models[1]))
    process.start()
    print(queue.get(timeout=60))
    process.join()
    with concurrent.futures.ProcessPoolExecutor(1, mp_context=context) as pool:
        print(pool.submit(loss, models[0]).result())
    here, there = context.Pipe()
    worker = Worker(there)
    worker.start()
    print(here.recv() == dy.random_normal(1).value())
    worker.join()
"""
EXPECTED = """[(4.0, {words}, {half}), (8.0, {words}, {half})]
(8.0, {words}, {half})
(4.0, {words}, {half})
True
"""


def run(folder, *words):
    """What `python -m dynetjax` prints for these words."""
    done = subprocess.run(
        [sys.executable, "-m", "dynetjax", *words, "--dynet-seed", "7"],
        cwd=folder,
        env={**os.environ, "PYTHONSAFEPATH": ""},  # modules lie where it starts
        capture_output=True,
        text=True,
        timeout=60,
    )
    assert not done.returncode, done.stderr
    return done.stdout


@pytest.mark.parametrize("words", [["program.py"], ["-m", "program"]], ids=len)
@pytest.mark.parametrize("method", ["spawn", "forkserver"])
def test_a_program(tmp_path, method, words):
    """Its options hold in the processes, too: they draw its numbers."""
    (tmp_path / "helper.py").write_text("half = lambda n: n / 2\n")
    program = PROGRAM.format(helper="helper", method=method)
    (tmp_path / "program.py").write_text(program)
    expected = EXPECTED.format(words=["--dynet-seed", "7"], half=3.5)
    assert run(tmp_path, *words) == expected


@pytest.mark.parametrize("words", [["program.py"], ["-m", "program"]], ids=len)
@pytest.mark.parametrize("method", ["spawn", "forkserver"])
def test_a_program_in_python_2(tmp_path, method, words):
    """The processes convert what they import, and the main module."""
    (tmp_path / "helper.py").write_text("def half(n):\n    return int(`n`) / 2\n")
    program = PROGRAM.format(helper="helper", method=method)
    (tmp_path / "program.py").write_text(program.replace("print(", "print ("))
    expected = EXPECTED.format(words=["--dynet-seed", "7"], half=3)
    assert run(tmp_path, "--py2", *words) == expected
