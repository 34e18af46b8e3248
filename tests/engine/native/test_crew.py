"""Threads that share large kernels: how many there are changes nothing."""

import os
import subprocess
import sys

import numpy as np
import pytest

PROGRAM = """
import os
import sys
import threading

import numpy as np

import dynetjax as dy
from dynetjax.core import expression

RNG = np.random.default_rng(0)
LANES, INSIDE, HIDDEN = 61, 130, 523
X = RNG.normal(size=(INSIDE, LANES)).astype(np.float32)
W = RNG.normal(size=(HIDDEN, INSIDE)).astype(np.float32)


def train():
    "The loss, gradients and what an update makes of a wide layer, as bytes."
    pc = dy.ParameterCollection()
    weights, bias = pc.parameters_from_numpy(W), pc.add_parameters(HIDDEN, init=0)
    trainer = dy.AdamTrainer(pc)
    dy.renew_cg()
    x = dy.inputTensor(X, batched=True)
    h = dy.softmax(dy.tanh(weights * x + bias))
    y = dy.transpose(weights) * h
    loss = dy.sum_batches(dy.sum_elems(dy.square(y)))
    found = [loss.npvalue(), h.npvalue()]
    loss.backward()
    found += [weights.grad_as_array(), bias.grad_as_array()]
    trainer.update()
    found += [weights.as_array(), bias.as_array()]
    return b"".join([np.asarray(x, np.float32).tobytes() for x in found])


first = train()
assert all(train() == first for _ in range(20))
several = []
threads = [threading.Thread(target=lambda: several.append(train())) for _ in range(3)]
for thread in threads:
    thread.start()
for thread in threads:
    thread.join()
assert several == [first] * 3
sys.stdout.buffer.write(first)
"""
FORK = """
engine = expression.engine()
child = os.fork()
if not child:
    try:
        expression.use_engine(engine)  # which is not to be used, for JAX may be
        os._exit(train() != first)
    finally:
        os._exit(2)
assert os.waitpid(child, 0)[1] == 0
"""

pytestmark = pytest.mark.usefixtures("natively")


def run(threads, program=PROGRAM):
    environment = {**os.environ, "DYNETJAX_THREADS": threads}
    command = [sys.executable, "-W", "ignore", "-c", program]
    done = subprocess.run(command, env=environment, capture_output=True, check=False)
    assert done.returncode == 0, done.stderr.decode()
    return done.stdout


def test_bits_do_not_depend_on_threads():
    """One, several, more than there are processors, and a number that is none."""
    alone = run("1")
    assert np.isfinite(np.frombuffer(alone, np.float32)).all()
    for threads in "2", "7", "none":
        assert run(threads) == alone


SHAPES = """
import sys

import numpy as np

import dynetjax as dy

RNG = np.random.default_rng(0)
for rows, columns, lanes in [
    (128, 1000, 20), (128, 500, 40), (100, 640, 40), (777, 300, 13), (2000, 640, 7),
    (33, 1000, 400), (300, 300, 130), (5, 1000, 1000), (1024, 513, 6), (2000, 1500, 1),
]:
    pc = dy.ParameterCollection()
    weights = pc.parameters_from_numpy(RNG.normal(size=(rows, columns)))
    x = dy.inputTensor(RNG.normal(size=(columns, lanes)), batched=True)
    y = weights * x
    loss = dy.sum_batches(dy.squared_norm(y))
    loss.backward(full=True)
    for found in y.npvalue(), weights.grad_as_array(), x.gradient():
        sys.stdout.buffer.write(found.astype(np.float32).tobytes())
"""


def test_bits_of_products_of_many_shapes():
    """Columns that threads share out are added up as those of one thread are."""
    alone = run("1", SHAPES)
    for threads in "2", "3":
        assert run(threads, SHAPES) == alone


@pytest.mark.skipif(not hasattr(os, "fork"), reason="no fork here")
def test_a_forked_process():
    """It has none of the helpers, and gets others."""
    run("2", PROGRAM + FORK)
