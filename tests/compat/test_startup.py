"""Settings that hold from the start."""

import multiprocessing
import os
from types import SimpleNamespace

import jax
import numpy as np
import pytest

import dynetjax as dy
from dynetjax.compat import startup
from dynetjax.compat.options import Options
from dynetjax.core.expression import engine, use_engine
from dynetjax.core.lazy import RUNS
from dynetjax.core.precision import PRECISION
from dynetjax.engine import policy


@pytest.fixture
def as_before():
    """Afterwards new collections do not decay, and JAX computes where it did."""
    device = jax.config.jax_default_device
    yield
    startup.apply(Options())
    jax.config.update("jax_default_device", device)


def draws():
    dy.renew_cg()
    return dy.random_normal(5).value()


def test_seed(as_before):
    dy.reset_random_seed(5)
    expected = draws()
    startup.apply(Options(seed=6))
    assert draws() != expected
    startup.apply(Options(seed=5))
    assert draws() == expected


def test_weight_decay_of_new_collections(as_before):
    before = dy.ParameterCollection()
    startup.apply(Options(weight_decay=0.25))
    m = dy.ParameterCollection()
    assert m.get_weight_decay() == 0.25
    assert m.add_subcollection().get_weight_decay() == 0.25
    assert before.get_weight_decay() == 0


def test_what_dynet_tells(as_before, capsys):
    startup.apply(Options(seed=3, autobatch=1, mem="100,50,20,30"), tell=True)
    assert capsys.readouterr().err.splitlines() == [
        "[dynet] random seed: 3",
        "[dynet] using autobatching",
        "[dynet] allocating memory: 100,50,20,30MB",
        "[dynet] memory allocation done.",
    ]
    startup.apply(Options())
    assert capsys.readouterr().err == ""


def test_a_seed_is_chosen_and_told(as_before, capsys):
    startup.apply(Options(), tell=True)
    first = draws()
    seed = int(capsys.readouterr().err.split("random seed: ")[1].split()[0])
    dy.reset_random_seed(seed)
    assert draws() == first


no_gpu = pytest.mark.skipif(jax.default_backend() != "cpu", reason="there is a GPU")


@no_gpu
def test_no_gpu():
    with pytest.warns(RuntimeWarning, match="a GPU was asked for, and there is none"):
        startup.apply(Options(requested_gpus=1))


@no_gpu
def test_no_such_device():
    with pytest.raises(RuntimeError, match="there is no such device"):
        startup.apply(Options(devices=("CPU", "GPU:0")))


def test_cpu_by_name(as_before):
    startup.apply(Options(devices=("CPU",)))
    assert dy.zeros(2).value() == [0, 0]


@pytest.mark.parametrize(
    ("options", "named"),
    [
        (Options(), False),
        (Options(devices=("auto",)), False),
        (Options(requested_gpus=1), True),
    ],
)
def test_a_gpu_that_is_asked_for_computes_all(runtime, monkeypatch, options, named):
    """What is not asked for gets what pays."""
    gpu = SimpleNamespace(platform="gpu", id=0)
    monkeypatch.setattr(jax, "devices", lambda: [gpu])
    startup.apply(options)
    assert runtime.device_named is named


def test_precision():
    try:
        startup.apply(Options(precision="bfloat16"))
        assert PRECISION.name == "bfloat16"
    finally:
        dy.init(precision="highest")


def test_shared_parameters():
    with pytest.raises(RuntimeError, match="--dynet-shared-parameters: memory cannot"):
        startup.apply(Options(shared_parameters=True))


@pytest.fixture
def runs(monkeypatch):
    """Whether XLA may compute, as it was after the test."""
    monkeypatch.setattr(RUNS, "_are_safe", True)


def test_a_forked_process_computes_nothing_by_xla(by_xla, runs):
    """It raises, where JAX would wait for ever."""
    before = engine()
    dy.renew_cg()
    x = dy.zeros(2)
    try:
        startup._after_fork(lambda: 0)
        assert x.value() == [0, 0]
        startup._after_fork(lambda: 1)
        with pytest.raises(RuntimeError, match="computing by XLA in a forked process"):
            (x + 1).value()
        with pytest.raises(RuntimeError, match="spawn"):
            dy.sum_elems(x).backward()
    finally:
        use_engine(before)


def in_a_fork(does):
    """What a forked process sends of `does()`; its error, if it raised."""
    here, there = multiprocessing.Pipe(duplex=False)
    child = os.fork()
    if not child:
        try:
            there.send(does())
        except BaseException as error:
            there.send(str(error))
        finally:
            os._exit(0)
    os.waitpid(child, 0)
    return here.recv()


forks = [
    pytest.mark.skipif(not hasattr(os, "fork"), reason="no fork here"),
    pytest.mark.filterwarnings("ignore"),
]


class Net:
    """A little to train."""

    def __init__(self):
        m = dy.ParameterCollection()
        self.trainer = dy.AdamTrainer(m)
        self.W = m.parameters_from_numpy(np.ones((3, 2)))
        self.words = m.lookup_parameters_from_numpy(np.ones((4, 2)))

    def step(self, layers):
        """The loss before an update, and after it."""
        losses = []
        for _ in range(2):
            dy.renew_cg()
            x = self.W * self.words[1]
            for _ in range(layers):
                x = dy.softmax(x) + x
            loss = dy.squared_norm(x)
            losses.append(loss.value())
            loss.backward()
            self.trainer.update()
        return losses


@pytest.mark.skipif(not policy.native(), reason="tier 0 computes in forked processes")
@pytest.mark.usefixtures("natively")
class TestForks:
    pytestmark = forks

    @pytest.mark.parametrize("layers", [1, 3])
    def test_trains_there_as_here(self, layers):
        """Of one layer the byte code is known when it is forked."""
        Net().step(1)
        net = Net()
        there = in_a_fork(lambda: net.step(layers))
        assert there == net.step(layers)

    def test_large_products_there(self):
        x = dy.inputTensor(np.ones((512, 512)))
        value = dy.sum_elems(x * x).value()

        def does():
            dy.renew_cg()
            x = dy.inputTensor(np.ones((512, 512)))
            return dy.sum_elems(x * x).value()

        assert in_a_fork(does) == value

    def test_what_xla_would_compute_raises(self):
        @dy.jax_op
        def cube(x):
            return jax.pure_callback(lambda y: y * y * y, x, x)

        dy.renew_cg()
        dy.scalarInput(2).value()
        told = in_a_fork(lambda: cube(dy.scalarInput(2)).value())
        assert "computing by XLA in a forked process" in told
