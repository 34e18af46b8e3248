"""Graphs whose parts lie on several devices.

Most of these tests have two names for one device; the last one has two.
"""

import gc
import os
import subprocess
import sys

import numpy as np
import pytest

import dynetjax as dy
from dynetjax.core.registry import DEVICES
from dynetjax.engine import policy
from dynetjax.engine.explain import describe
from dynetjax.engine.runtime import RUNTIME
from dynetjax.graph import current_graph

NUMBERS = np.arange(6.0).reshape(3, 2) / 5


class Model:
    """A tagger in two halves, the second of which lies on another device."""

    def __init__(self, device):
        self.device = device
        m = self.collection = dy.ParameterCollection()
        dy.reset_random_seed(3)
        self.E = m.add_lookup_parameters((5, 4))
        self.lstm = dy.LSTMBuilder(1, 4, 3, m)
        self.W = m.parameters_from_numpy(NUMBERS, device=device)
        self.F = m.add_lookup_parameters((5, 2), device=device)
        self.b = m.parameters_from_numpy(NUMBERS[:, 0])
        self.all = [*m.parameters_list(), *m.lookup_parameters_list()]

    def loss(self):
        states = self.lstm.initial_state().transduce([self.E[k] for k in (1, 4, 1)])
        losses = []
        for k, h in enumerate(states):
            noisy = dy.dropout(h, 0.4)
            there = dy.transpose(self.W) * dy.to_device(noisy + self.b, self.device)
            scores = there + self.F[k] + dy.inputVector([k, 1], device=self.device)
            losses.append(dy.pickneglogsoftmax(scores, k % 2))
        return dy.to_device(dy.esum(losses), "CPU")


def outcome(updates=3):
    """Losses, gradients and values after some updates; whether it was divided."""
    model = Model("CPU:1")
    trainer = dy.AdamTrainer(model.collection)
    told = []
    for _ in range(updates):
        dy.renew_cg()
        loss = model.loss()
        told.append(loss.value())
        loss.backward()
        told += [p.grad_as_array() for p in model.all]
        trainer.update()
    values = [p.as_array() for p in model.all]
    return told + values, current_graph().state.divided is not None


def test_as_on_one_device(two_devices, monkeypatch):
    """Losses with dropout, gradients, rows of tables, and updates."""
    found, is_divided = outcome()
    assert is_divided
    monkeypatch.setattr(policy, "divides", lambda names: False)
    wanted, is_divided = outcome()
    assert not is_divided
    for one, other in zip(found, wanted, strict=True):
        np.testing.assert_allclose(one, other, rtol=2e-5, atol=1e-6)


def test_gradients_of_nodes(two_devices):
    w = dy.ParameterCollection().parameters_from_numpy(NUMBERS, device="CPU:1")
    x = dy.inputVector([1, 2])
    y = w * dy.to_device(x, "CPU:1")
    loss = dy.squared_norm(y)
    loss.backward()
    np.testing.assert_allclose(y.gradient(), 2 * NUMBERS @ [1, 2], rtol=1e-6)
    np.testing.assert_allclose(
        w.gradient(), 2 * np.outer(NUMBERS @ [1, 2], [1, 2]), rtol=1e-6
    )
    assert not x.gradient().any()  # nothing is learned below it
    loss.backward(full=True)
    wanted = 2 * NUMBERS.T @ NUMBERS @ [1, 2]
    np.testing.assert_allclose(x.gradient(), wanted, rtol=1e-6)


def test_a_matrix_made_of_parameters(two_devices):
    """It is moved itself, and learned."""
    m = dy.ParameterCollection()
    a, b = [m.parameters_from_numpy(NUMBERS * k) for k in (1, 2)]
    there = dy.to_device(dy.cmult(a, b), "CPU:1")
    y = dy.sum_elems(there * dy.inputVector([1, 3], device="CPU:1"))
    assert y.value() == pytest.approx((2 * NUMBERS**2 @ [1, 3]).sum())
    y.backward()
    slopes = np.ones((3, 1)) * [1, 3] * NUMBERS
    np.testing.assert_allclose(a.grad_as_array(), 2 * slopes, rtol=1e-6)
    np.testing.assert_allclose(b.grad_as_array(), slopes, rtol=1e-6)


def test_a_graph_that_grows_and_is_cut(two_devices):
    """What was tried is gone, and what goes on is right."""
    w = dy.ParameterCollection().parameters_from_numpy(NUMBERS)
    dy.renew_cg()
    x = dy.scalarInput(2)
    assert x.value() == 2  # before there is another device
    y = dy.to_device(dy.cmult(w, x), "CPU:1")
    first = y.npvalue()
    for factor in (2, 3):
        dy.cg_checkpoint()
        z = dy.sum_elems(dy.to_device(y, "CPU") * factor)
        assert z.value() == pytest.approx(factor * first.sum())
        dy.cg_revert()
    x.set(4)
    loss = dy.sum_elems(y)
    assert loss.value() == pytest.approx(2 * first.sum())
    loss.backward()
    np.testing.assert_allclose(w.grad_as_array(), np.full((3, 2), 4.0))


def test_operands_on_several_devices(two_devices):
    x = dy.inputVector([1, 2], device="CPU")
    y = dy.to_device(x, "CPU:1")
    z = dy.dot_product(x, y)
    with pytest.raises(
        ValueError,
        match=r"dot_product: .*several devices\n.*CPU, CPU:1\n(.*\n)*.*to_de",
    ):
        z.value()
    assert dy.dot_product(x, dy.inputVector([3, 4])).value() == 11  # has no device


def test_what_is_told(two_devices):
    dy.renew_cg()
    y = dy.to_device(dy.inputVector([1, 2]), "CPU:1")
    assert describe(y.graph) == "2 nodes, one by one, each on its device"


class Device:
    """Stands for one of JAX's."""

    def __init__(self, platform):
        self.platform = platform


@pytest.mark.parametrize(
    ("tier", "names", "expected"),
    [
        ("auto", {"CPU:1"}, False),  # in the same memory
        ("xla", {"CPU:1"}, True),
        ("xla", {"CPU"}, False),
        ("auto", {"GPU:0"}, True),
        ("native", {"GPU:0"}, False),
    ],
)
def test_when_a_graph_is_divided(monkeypatch, tier, names, expected):
    known = {name: Device(name[:3].lower()) for name in ("CPU", "CPU:1", "GPU:0")}
    known[""] = known["CPU"]
    monkeypatch.setattr(policy, "device_named", known.__getitem__)
    monkeypatch.setattr(RUNTIME, "tier", tier)
    assert policy.divides(names) == expected


PROGRAM = """
import numpy as np
import dynetjax as dy

dy.init(tier="{tier}")
m = dy.ParameterCollection()
W = m.add_parameters((2, 2), init=np.array([[1.0, 2], [3, 4]]), device="CPU:1")
V = m.add_parameters((2, 2), init=np.array([[0.5, 1], [1, 2]]))
h = dy.to_device(V * dy.inputVector([1, 2], device="CPU"), "CPU:1")
y = W * h
loss = dy.sum_elems(dy.to_device(y, ""))
print(loss.value())
loss.backward()
print(W.grad_as_array().tolist(), V.grad_as_array().tolist())
made = loss.graph.state.divided.made if loss.graph.state.divided else {{}}
print([d.id for x in (y, loss) if x in made for d in made[x].array.devices()])
"""


@pytest.mark.parametrize(("tier", "where"), [("auto", []), ("xla", [1, 0])])
def test_two_devices_of_xla(tier, where):
    """Values and gradients are those of the formulas, and lie where they are to."""
    flags = {"XLA_FLAGS": "--xla_force_host_platform_device_count=2"}
    told = subprocess.run(
        [sys.executable, "-c", PROGRAM.format(tier=tier)],
        env=os.environ | flags | {"JAX_PLATFORMS": "cpu"},
        capture_output=True,
        text=True,
    )
    assert not told.returncode, told.stderr
    loss, gradients, lie = told.stdout.splitlines()
    assert float(loss) == 4 * 2.5 + 6 * 5  # of columns of W, and V (1, 2)
    assert gradients == "[[2.5, 5.0], [2.5, 5.0]] [[4.0, 8.0], [6.0, 12.0]]"
    if policy.native() or tier == "xla":
        assert lie == str(where)


def test_a_device_is_not_handed_on(two_devices):
    """Another parameter has the id of one that is gone."""
    m = dy.ParameterCollection()
    ident = m.add_parameters(5, device="CPU:1").storage.ident
    assert DEVICES[ident] == "CPU:1"
    del m
    gc.collect()
    assert dy.ParameterCollection().add_parameters(5).storage.ident == ident
    assert ident not in DEVICES
