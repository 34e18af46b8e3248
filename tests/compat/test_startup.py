"""Settings that hold from the start."""

import os

import jax
import numpy as np
import pytest

import dynetjax as dy
from dynetjax.compat import startup
from dynetjax.compat.options import Options
from dynetjax.core.expression import engine, use_engine


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


def test_shared_parameters():
    with pytest.raises(RuntimeError, match="spawn"):
        startup.apply(Options(shared_parameters=True))


def test_a_forked_process_computes_nothing(monkeypatch):
    """It raises, where JAX would wait for ever."""
    before = engine()
    dy.renew_cg()
    x = dy.zeros(2)
    try:
        startup._after_fork(lambda: 0)
        assert x.value() == [0, 0]
        startup._after_fork(lambda: 1)
        with pytest.raises(RuntimeError, match="computing in a forked process"):
            (x + 1).value()
        with pytest.raises(RuntimeError, match="spawn"):
            dy.sum_elems(x).backward()
    finally:
        use_engine(before)


@pytest.mark.skipif(not hasattr(os, "fork"), reason="no fork here")
@pytest.mark.filterwarnings("ignore")
def test_fork():
    dy.renew_cg()
    assert np.isfinite(dy.zeros(2).npvalue()).all()
    child = os.fork()
    if not child:
        code = 1
        try:
            dy.zeros(2).value()
        except RuntimeError as error:
            code = 7 if "forked process" in str(error) else 2
        finally:
            os._exit(code)
    _, status = os.waitpid(child, 0)
    assert os.waitstatus_to_exitcode(status) == 7
