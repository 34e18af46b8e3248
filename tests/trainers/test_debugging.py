"""What `init(debug=True)` tells of steps that are perhaps not meant."""

import warnings

import pytest

import dynetjax as dy


@pytest.fixture
def step():
    """Parameter, loss and trainer under debug; as before afterwards."""
    dy.init(debug=True)
    dy.renew_cg()
    m = dy.ParameterCollection()
    p, E = m.add_parameters(3), m.add_lookup_parameters((4, 3))
    yield p, E, dy.SimpleSGDTrainer(m)
    dy.init(debug=False)
    dy.renew_cg()


def test_nothing_is_told_of_usual_steps(step):
    p, E, trainer = step
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        for of in p, E[1], E[1] + p:
            dy.squared_norm(of).backward()
            trainer.update()


def test_update_without_backward(step):
    _, _, trainer = step
    with pytest.warns(RuntimeWarning, match="update: no parameter has") as caught:
        trainer.update()
    assert caught[0].filename == __file__


def test_two_backward(step):
    p, _, trainer = step
    loss = dy.squared_norm(p)
    loss.backward()
    with pytest.warns(RuntimeWarning, match="backward: its gradients are") as caught:
        loss.backward(full=True)
    assert caught[0].filename == __file__
    assert "test_debugging.py:" in str(caught[0].message)
    trainer.update()
    loss.backward()


def test_silenced(step):
    p, _, trainer = step
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        warnings.filterwarnings("ignore", "backward: ")
        warnings.filterwarnings("ignore", "update: ")
        dy.squared_norm(p).backward()
        dy.squared_norm(p).backward()
        trainer.update()
        trainer.update()


def test_only_under_debug(step):
    p, _, trainer = step
    dy.init(debug=False)
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        dy.squared_norm(p).backward()
        dy.squared_norm(p).backward()
        trainer.update()
        trainer.update()
