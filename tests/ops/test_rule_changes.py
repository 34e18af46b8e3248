"""Another thread may decide at any moment that nodes of a rule are stored from now on.

Whatever a thread has made of a node by then, and makes of it afterwards, belongs
together. Which rows a graph reads is spelled out here, down to what the user gave, and
must be the same wherever the change falls: before every single line that makes nodes.
"""

import sys
import threading
from itertools import count

import numpy as np
import pytest
from laws import spelled

import dynetjax as dy
from dynetjax import graph as graph_module
from dynetjax.core import building, nodes
from dynetjax.ops import linear, steps

MODULES = building, steps, linear, graph_module, nodes
FILES = {module.__file__ for module in MODULES}
interpreted = pytest.mark.skipif(
    any(not name.endswith(".py") for name in FILES),
    reason="lines of compiled modules cannot be traced",
)
sizes = count(40)  # no two trials share a rule
MOST_TRIALS = 250


def chain(model, n):
    x = dy.inputVector(np.ones(n))
    return dy.tanh(x) * 2 + dy.logistic(x)


def pairs(model, n):
    x, y = dy.inputVector(np.ones(n)), dy.inputVector(np.zeros(n))
    return dy.cmult(dy.tanh(x), dy.exp(y)) - dy.rectify(y)


def lists(model, n):
    x = dy.inputVector(np.ones(n))
    return dy.concatenate([dy.tanh(x), x, dy.exp(x)]) + 1


def picked(model, n):
    x = dy.inputVector(np.ones(n))
    return dy.tanh(dy.exp(x)[2]) + dy.pick(x, 1)


def sums(model, n):
    x = dy.inputVector(np.ones(n))
    return dy.esum([dy.tanh(x), dy.exp(x), x]) * 2


def affine(model, n):
    W, V, b = model
    x, y = dy.inputVector(np.ones(n)), dy.inputVector(np.zeros(n))
    first = dy.affine_transform([b, W, dy.tanh(x)])
    return dy.tanh(dy.affine_transform([b, W, first, V, y]))


def recurrent(model, n):
    W, V, b = (dy.concatenate([p] * 4) for p in model)
    xs = [dy.inputVector(np.ones(n)) for _ in range(3)]
    h = c = dy.inputVector(np.zeros(n))
    kind = steps.vanilla(1.0)
    return steps.lstm_steps(kind, (W, V, b), xs, h, c)[-1][1]


BUILDS = chain, pairs, lists, picked, sums, affine, recurrent


class Trial:
    """A program of a shape that no other has, which was built before."""

    def __init__(self, build):
        self.build, self.n = build, next(sizes)
        collection = dy.ParameterCollection()
        square = (self.n, self.n)
        shapes = square, square, self.n
        self.model = [collection.add_parameters(shape) for shape in shapes]
        for _ in range(3):  # the quick ways are known then
            self.made()

    def made(self):
        dy.renew_cg()
        return self.build(self.model, self.n).graph

    def rules(self):
        """Those that may be stored yet."""
        several = [node.rule for node in self.made().nodes]
        several += [spec.rule for rule in several for spec in rule.operands]
        several = dict.fromkeys(rule for rule in several if rule is not None)
        return [rule for rule in several if rule.spec.rule is not None]


def made_with(trial, line, store):
    """The graph of a trial; `store` is called before the line of that number."""
    lines = count()

    def trace(frame, event, arg):
        if frame.f_code.co_filename not in FILES:
            return None
        if event == "line" and next(lines) == line:
            store()
        return trace

    sys.settrace(trace)
    try:
        graph = trial.made()
    finally:
        sys.settrace(None)
    return graph, next(lines)


@interpreted
@pytest.mark.parametrize("build", BUILDS, ids=lambda build: build.__name__)
def test_before_every_line(build):
    """Of every rule; of a long program, lines that are some way apart."""
    trial = Trial(build)
    _, lines = made_with(trial, -1, None)
    several = len(trial.rules())
    assert several
    assert lines > 20
    apart = 1 + lines * several // MOST_TRIALS
    for which in range(several):
        for line in range(which, lines, apart):
            trial = Trial(build)
            rule = trial.rules()[which]
            graph, _ = made_with(trial, line, rule.store)
            assert rule.spec.stored
            assert result(graph) == result(trial.made())


def result(graph):
    """What the last node computes."""
    graph.store(graph.nodes[-1])
    return spelled(graph)[-1]


def test_eight_threads_with_models_of_their_own():
    """Values and gradients, while each settles its rules and disturbs the others'."""
    errors = []
    start = threading.Barrier(8)

    def work(number):
        rng = np.random.default_rng(number)
        model = dy.ParameterCollection()
        w = rng.normal(size=(6, 6)).astype(np.float32)
        W = model.add_parameters((6, 6), init=dy.NumpyInitializer(w))
        start.wait()
        for turn in range(30):
            dy.renew_cg()
            x = rng.normal(size=6).astype(np.float32)
            h = dy.tanh(W * dy.inputVector(x))
            if turn % 3 == number % 3:
                h.npvalue()  # which stores it, for all threads
            y = dy.tanh(h) * 2 if turn % 2 else dy.exp(h) + h
            loss = dy.sum_elems(dy.cmult(y, y))
            true_h = np.tanh(w @ x)
            true = np.tanh(true_h) * 2 if turn % 2 else np.exp(true_h) + true_h
            if not np.isclose(loss.value(), (true**2).sum(), rtol=1e-4):
                errors.append((number, turn, loss.value(), (true**2).sum()))

    threads = [threading.Thread(target=work, args=(k,)) for k in range(8)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert not errors
