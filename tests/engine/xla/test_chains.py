"""Loops over one sentence, of which every trip has a single lane."""

import re

import jax
import numpy as np
import pytest

import dynetjax as dy
from dynetjax.engine.xla import executable
from dynetjax.engine.xla.compiling import shape_of
from dynetjax.graph import current_graph

from ...backends import on_cpu

SIZE = 37  # of no other array here


class Net:
    """An LSTM over equal inputs."""

    def __init__(self, size=SIZE):
        self.pc = dy.ParameterCollection()
        self.lstm = dy.VanillaLSTMBuilder(1, size, size, self.pc)
        self.x = np.random.RandomState(5).uniform(-1, 1, size)

    def loss(self, steps, chains=1):
        """Of that many chains in a new graph, the first `steps` long, others half."""
        dy.renew_cg()
        lengths = [steps, *[steps // 2] * (chains - 1)]
        return dy.esum([dy.squared_norm(self._last(length)) for length in lengths])

    def _last(self, steps):
        xs = [dy.inputVector(self.x)] * steps
        return self.lstm.initial_state().transduce(xs)[-1]

    def width(self):
        """Of the loop of the graph at hand."""
        (run,) = current_graph().state.parts
        layout = run.layout
        (width,) = [
            layout.program.widths[k]
            for k, body in enumerate(layout.program.code.components)
            if layout.family.cyclic[k] and any(op.weights for op in body)
        ]
        return width


@on_cpu
def test_one_lane_a_trip(runtime):
    net = Net()
    net.loss(9).value()
    assert net.width() == 1


def test_more_lanes_once_there_are_more_chains(runtime):
    """One graph of a single chain does not make every later one a slow one."""
    net = Net()
    net.loss(9).value()
    net.loss(9, chains=40).value()
    assert net.width() > 1
    wide = net.width()
    net.loss(10).value()  # which is near enough
    assert net.width() == wide


def test_a_device_beside_the_host_has_few_widths(far):
    """To begin a trip there takes as long as very many lanes do."""
    del far
    net, seen = Net(SIZE + 3), set()
    for chains in 1, 3, 12, 20, 90, 300:
        net.loss(4, chains).value()
        seen.add(net.width())
    assert seen == {16, 256}


@on_cpu
@pytest.mark.parametrize("direction", ["forward", "backward"])
def test_no_trip_copies_all_rows(monkeypatch, direction):
    texts, real = [], getattr(executable, direction)

    def watched(*about):
        program = real(*about)

        def run(*args):
            shapes = jax.tree.map(shape_of, args)
            texts.append(program.lowered(shapes).compile().as_text())
            return program(*args)

        run.is_new, run.prepare = False, program.prepare
        return run

    monkeypatch.setattr(executable, direction, watched)
    Net().loss(9).backward()
    (text,) = texts
    parts = dict(
        re.findall(r"^%(\S+) \(.*?\{\n(.*?)^\}", text, re.DOTALL | re.MULTILINE)
    )
    loops = [parts[name] for name in re.findall(r" body=%([^\s,]+)", text)]
    copied = re.findall(rf"f32\[(\d+),{SIZE}\]\S* copy\(", "".join(loops))
    assert len(loops) > 2
    assert [rows for rows in map(int, copied) if rows > SIZE] == []
