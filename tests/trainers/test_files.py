"""Trainer files, beside those that DyNet wrote (tests/data/trainers/record.cc)."""

import pathlib

import numpy as np
import pytest

import dynetjax as dy

RECORDED = pathlib.Path(__file__).parent.parent / "data" / "trainers"
MAKE = {
    "SimpleSGD": dy.SimpleSGDTrainer,
    "CyclicalSGD": dy.CyclicalSGDTrainer,
    "MomentumSGD": dy.MomentumSGDTrainer,
    "Adagrad": dy.AdagradTrainer,
    "Adadelta": dy.AdadeltaTrainer,
    "RMSProp": lambda m: dy.RMSPropTrainer(m, 0.1, eps=1e-20, rho=0.95),
    "Adam": dy.AdamTrainer,
    "Amsgrad": dy.AmsgradTrainer,
    "MomentumSGD-exponential": dy.MomentumSGDTrainer,
    "Adam-cumulative": dy.AdamTrainer,
}
AVERAGES = {
    "MomentumSGD-exponential": lambda t: t.exponential_moving_average(0.75),
    "Adam-cumulative": lambda t: t.cumulative_moving_average(2),
}


class World:
    """The model of the recorded files."""

    def __init__(self, name):
        self.m = dy.ParameterCollection()
        self.W = self.m.add_parameters(2, init=0.5)
        self.E = self.m.add_lookup_parameters((3, 2), init=0.25)
        self.trainer = MAKE[name](self.m)

    def steps(self, *rows):
        for row in rows:
            dy.renew_cg()
            loss = dy.dot_product(self.W, self.E[row]) + dy.squared_norm(self.W)
            loss.backward()
            self.trainer.update()

    def now(self):
        return np.concatenate([self.W.as_array(), self.E.as_array().ravel()])


@pytest.fixture(params=MAKE)
def name(request):
    return request.param


def recorded(name):
    return RECORDED / f"{name}.trainer"


def words(path):
    return path.read_text().split()


def is_number(word):
    return word.startswith(("+", "-"))


def test_writes_what_dynet_writes(name, tmp_path):
    world = World(name)
    AVERAGES.get(name, lambda trainer: None)(world.trainer)
    world.steps(0, 1, 0)
    world.trainer.save(tmp_path / "trainer")
    ours, theirs = words(tmp_path / "trainer"), words(recorded(name))
    assert len(ours) == len(theirs)
    for mine, other in zip(ours, theirs, strict=True):
        if is_number(other):
            assert float(mine) == pytest.approx(float(other), rel=1e-4)
            assert len(mine) == len(other)
        else:
            assert mine == other


def test_reads_what_dynet_wrote(name, tmp_path):
    """And writes it again, byte for byte."""
    world = World(name)
    world.trainer.populate(str(recorded(name)))
    world.trainer.save(tmp_path / "trainer")
    assert (tmp_path / "trainer").read_bytes() == recorded(name).read_bytes()


def test_goes_on(name, tmp_path):
    """As if it had never stopped; averages too."""
    world, other = World(name), World(name)
    average = AVERAGES.get(name, lambda trainer: None)
    average(world.trainer)
    world.steps(0, 1)
    world.trainer.save(tmp_path / "trainer")
    other.trainer.populate(tmp_path / "trainer")
    for p, q in (world.W, other.W), (world.E, other.E):
        q.storage.values = p.storage.values + 0
    for one in world, other:
        one.steps(1, 2)
        if name in AVERAGES:
            one.trainer.swap_params_to_moving_average()
    np.testing.assert_allclose(world.now(), other.now(), rtol=1e-6)


def test_lazy_rows_are_brought_up_to_date(tmp_path):
    m = World("Adam")
    lazy = dy.AdamTrainer(m.m, lazy_correct=True)
    m.trainer = lazy
    m.steps(0, 1, 1)
    lazy.save(tmp_path / "trainer")
    dense = World("Adam")
    dense.trainer.set_sparse_updates(False)
    dense.steps(0, 1, 1)
    dense.trainer.save(tmp_path / "dense")
    for mine, other in zip(
        words(tmp_path / "trainer"), words(tmp_path / "dense"), strict=True
    ):
        if is_number(other):
            assert float(mine) == pytest.approx(float(other), rel=1e-4)
    other = World("Adam")
    other.trainer = dy.AdamTrainer(other.m, lazy_correct=True)
    other.trainer.populate(tmp_path / "dense")
    dense.trainer.populate(tmp_path / "dense")
    other.W.storage.values = dense.W.storage.values + 0
    other.E.storage.values = dense.E.storage.values + 0
    for world in other, dense:
        world.steps(2, 0)
    np.testing.assert_allclose(other.now(), dense.now(), rtol=1e-5)


def test_learning_rate_may_be_given():
    world = World("Adam")
    world.trainer.populate(recorded("Adam"), 0.5)
    assert world.trainer.learning_rate == 0.5


def test_more_parameters_than_the_file_has():
    """Their state begins with zeros."""
    world = World("Adam")
    late = world.m.add_parameters(1, init=1.0)
    world.trainer.populate(recorded("Adam"))
    world.steps(0)
    assert late.as_array() == 1


TEXT = recorded("Adam").read_text()
BROKEN = {
    "another class": (TEXT.replace("#AdamTrainer#", "#AdagradTrainer#"), "line 4"),
    "cut off": (TEXT[:300], "line 7"),
    "nothing": ("", "the end of the file"),
    "no trainer": ("#Parameter# /W {2} 33 ZERO_GRAD\n", "line 1"),
    "too many": (TEXT.replace("#Trainer# 1 1", "#Trainer# 9 1"), "at most 1 param"),
    "too few fields": (TEXT.replace("None +0", ""), "ten fields"),
    "no number": (TEXT.replace("+4.66528861e-03", "x", 1), "line 6"),
    "another size": (TEXT.replace("#Parameter# 2", "#Parameter# 3"), "#Parameter# 2"),
    "averages or not": (TEXT.replace("[MA:FALSE]", "[MA:PERHAPS]"), "MA:TRUE"),
}


@pytest.mark.parametrize("kind", BROKEN)
def test_broken_file(kind, tmp_path):
    """An error, and nothing has changed."""
    text, message = BROKEN[kind]
    (tmp_path / "broken").write_text(text)
    world = World("Adam")
    world.steps(0)
    world.trainer.save(tmp_path / "before")
    with pytest.raises(RuntimeError, match="no file of such a trainer") as caught:
        world.trainer.populate(tmp_path / "broken")
    assert message in str(caught.value)
    world.trainer.save(tmp_path / "after")
    assert (tmp_path / "after").read_bytes() == (tmp_path / "before").read_bytes()


def test_other_numbers():
    world = World("Adam")
    trainer = dy.AdamTrainer(world.m, beta_1=0.8)
    with pytest.raises(RuntimeError, match="the file is of another AdamTrainer"):
        trainer.populate(recorded("Adam"))


def test_no_file(tmp_path):
    trainer = World("Adam").trainer
    with pytest.raises(RuntimeError, match="the file cannot be read"):
        trainer.populate(tmp_path / "none")
    with pytest.raises(RuntimeError, match="cannot write"):
        trainer.save(tmp_path / "none" / "trainer")
    with pytest.raises(AttributeError, match="the name of the file is no str"):
        trainer.save(None)


def test_averages_in_place(tmp_path):
    world = World("Adam-cumulative")
    world.trainer.cumulative_moving_average()
    world.steps(0)
    world.trainer.swap_params_to_moving_average()
    with pytest.raises(RuntimeError, match="moving averages stand in the place"):
        world.trainer.save(tmp_path / "trainer")


def test_classes_without_a_file(tmp_path):
    trainer = dy.EGTrainer(dy.ParameterCollection())
    with pytest.raises(NotImplementedError, match="DyNet has no such file of it"):
        trainer.save(tmp_path / "trainer")
