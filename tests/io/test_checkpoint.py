"""Checkpoints: training goes on as if it had never stopped."""

import io
import json
import subprocess
import sys
import zipfile

import numpy as np
import optax
import pytest

import dynetjax as dy

TRAINERS = {
    "SimpleSGD": dy.SimpleSGDTrainer,
    "CyclicalSGD": lambda m: dy.CyclicalSGDTrainer(m, step_size=3),
    "MomentumSGD": dy.MomentumSGDTrainer,
    "Adagrad": dy.AdagradTrainer,
    "Adadelta": dy.AdadeltaTrainer,
    "RMSProp": dy.RMSPropTrainer,
    "Adam": dy.AdamTrainer,
    "Amsgrad": dy.AmsgradTrainer,
    "EG": dy.EGTrainer,
    "Optax": lambda m: dy.OptaxTrainer(m, optax.adam(optax.linear_schedule(1, 0, 9))),
    "lazy": lambda m: dy.AdamTrainer(m, lazy_correct=True),
}


class World:
    """A model with a frozen parameter, dropout, and a trainer."""

    def __init__(self, make):
        self.m = dy.ParameterCollection()
        self.W = self.m.parameters_from_numpy(np.array([[0.2, 0.3], [0.4, 0.1]]))
        self.frozen = self.m.add_subcollection("sub").add_parameters(2, init=0.5)
        self.frozen.set_updated(False)
        self.E = self.m.lookup_parameters_from_numpy(np.full((4, 2), 0.5))
        self.trainer = make(self.m)

    def step(self, row, update=True):
        dy.renew_cg()
        x = dy.dropout(self.W * self.E[row] + self.frozen, 0.5)
        loss = dy.squared_norm(x) + dy.squared_norm(self.W)
        value = loss.value()
        loss.backward()
        if update:
            self.trainer.update()
        return value

    def now(self):
        owners = self.W, self.frozen, self.E
        found = [p.as_array() for p in owners] + [p.grad_as_array() for p in owners]
        return np.concatenate([array.ravel() for array in found])


@pytest.fixture(params=TRAINERS)
def make(request):
    return TRAINERS[request.param]


def test_goes_on(make, tmp_path):
    """Values, gradients that wait, state, learning rate, counts and masks."""
    world = World(make)
    for row in 0, 1, 0:
        world.step(row)
    world.step(2, update=False)
    dy.save_checkpoint(tmp_path / "checkpoint", world.m, world.trainer, step=4)
    losses = [world.step(row) for row in (1, 2, 3)]
    other = World(make)
    other.step(3)
    step = dy.load_checkpoint(tmp_path / "checkpoint", other.m, other.trainer)
    assert step == 4
    assert [other.step(row) for row in (1, 2, 3)] == losses
    np.testing.assert_array_equal(other.now(), world.now())
    assert other.trainer.learning_rate == world.trainer.learning_rate


def test_first_values_follow_too(tmp_path):
    m = dy.ParameterCollection()
    dy.save_checkpoint(tmp_path / "checkpoint", m)
    expected = m.add_parameters(3).as_array()
    other = dy.ParameterCollection()
    dy.load_checkpoint(tmp_path / "checkpoint", other)
    np.testing.assert_array_equal(other.add_parameters(3).as_array(), expected)


def test_settings_and_averages(tmp_path, capsys):
    world, other = World(dy.AdamTrainer), World(dy.AdamTrainer)
    world.trainer.exponential_moving_average(0.5)
    world.trainer.set_clip_threshold(0.125)
    world.trainer.set_sparse_updates(False)
    world.trainer.learning_rate = 0.25
    world.step(0)
    world.trainer.swap_params_to_moving_average()
    dy.save_checkpoint(tmp_path / "checkpoint", world.m, world.trainer)
    dy.load_checkpoint(tmp_path / "checkpoint", other.m, [other.trainer])
    for one in world, other:
        assert one.trainer.learning_rate == 0.25
        assert one.trainer.get_clip_threshold() == 0.125
        assert one.trainer.sparse_updates_enabled is False
        one.trainer.status()
        assert capsys.readouterr().err == "[lr=0.25 clips=1 updates=1] "
        one.trainer.swap_params_to_moving_average(bias_correction=True)
    np.testing.assert_array_equal(other.now(), world.now())


def test_parameters_that_decay(tmp_path):
    """A table's true values are saved."""
    world, other = World(dy.SimpleSGDTrainer), World(dy.SimpleSGDTrainer)
    world.m.set_weight_decay(0.25)
    world.step(0)
    dy.save_checkpoint(tmp_path / "checkpoint", world.m, world.trainer)
    dy.load_checkpoint(tmp_path / "checkpoint", other.m, other.trainer)
    np.testing.assert_array_equal(other.now(), world.now())


def test_several_trainers(tmp_path):
    def both():
        m = dy.ParameterCollection()
        first, second = m.add_subcollection(), m.add_subcollection()
        W = first.add_parameters(1, init=1.0), second.add_parameters(1, init=1.0)
        return m, W, [dy.AdamTrainer(first), dy.MomentumSGDTrainer(second)]

    def step(W, trainers):
        dy.renew_cg()
        (dy.sum_elems(W[0]) + dy.sum_elems(W[1])).backward()
        for trainer in trainers:
            trainer.update()
        return [p.as_array().item() for p in W]

    m, W, trainers = both()
    step(W, trainers)
    dy.save_checkpoint(tmp_path / "checkpoint", m, trainers)
    expected = step(W, trainers)
    m, W, trainers = both()
    dy.load_checkpoint(tmp_path / "checkpoint", m, trainers)
    assert step(W, trainers) == expected


PROGRAM = """
import sys
import dynetjax as dy

dy.init(deterministic=True)
dy.reset_random_seed(7)
m = dy.ParameterCollection()
E = m.add_lookup_parameters((20, 8))
lstm = dy.VanillaLSTMBuilder(1, 8, 8, m)
W = m.add_parameters((3, 8))
trainer = dy.AdamTrainer(m)


def step(k):
    dy.renew_cg()
    words = [(k * i) % 20 for i in range(2 + k % 5)]
    states = lstm.initial_state().transduce([dy.dropout(E[w], 0.2) for w in words])
    losses = [dy.pickneglogsoftmax(W * h, w % 3) for h, w in zip(states, words)]
    dy.esum(losses).backward()
    trainer.update()


path, *mode = sys.argv[1:]
if mode == ["begin"]:
    for k in range(30):
        step(k)
    dy.save_checkpoint(path, m, trainer, step=30)
start = 30 if mode else dy.load_checkpoint(path, m, trainer)
for k in range(start, 50):
    step(k)
for p in [*m.parameters_list(), *m.lookup_parameters_list()]:
    print(p.as_array().tobytes().hex())
"""


def test_another_process_goes_on_bit_by_bit(tmp_path):
    def run(*mode):
        command = [sys.executable, "-c", PROGRAM, str(tmp_path / "checkpoint"), *mode]
        done = subprocess.run(command, capture_output=True, text=True, check=True)
        return done.stdout.split()

    first = run("begin")
    assert len(first) == 5
    assert run() == first


class TestRefused:
    """An error says why, and nothing has changed."""

    def setup_method(self):
        self.world = World(dy.AdamTrainer)
        self.world.step(1)

    def check(self, path, match, m=None, trainers=None):
        before = self.world.now()
        state = self.world.trainer.state_dict()
        trainers = self.world.trainer if trainers is None else trainers
        with pytest.raises(RuntimeError, match=match):
            dy.load_checkpoint(path, m or self.world.m, trainers)
        np.testing.assert_array_equal(self.world.now(), before)
        after = self.world.trainer.state_dict()
        for name, array in state.pop("arrays").items():
            np.testing.assert_array_equal(after["arrays"][name], array)
        assert after["updates"] == state["updates"]

    def save(self, path):
        other = World(dy.AdamTrainer)
        other.step(0)
        dy.save_checkpoint(path, other.m, other.trainer)
        return path

    def test_other_model(self, tmp_path):
        path = self.save(tmp_path / "checkpoint")
        self.world.m.add_parameters(3)
        self.check(path, r"3 parameters, number 3 a table /_1 of \(4, 2\)")

    def test_more_parameters_in_the_file(self, tmp_path):
        path = self.save(tmp_path / "checkpoint")
        m = dy.ParameterCollection()
        m.add_parameters((2, 2))
        self.check(path, "expected: 1 parameters, no number 2", m=m)

    def test_other_class(self, tmp_path):
        path = self.save(tmp_path / "checkpoint")
        trainer = dy.AmsgradTrainer(self.world.m)
        self.check(path, "not of this AmsgradTrainer", trainers=trainer)

    def test_other_numbers(self, tmp_path):
        path = self.save(tmp_path / "checkpoint")
        trainer = dy.AdamTrainer(self.world.m, beta_1=0.5)
        self.check(path, "not of this AdamTrainer", trainers=trainer)

    def test_other_transformation(self, tmp_path):
        trainer = dy.OptaxTrainer(self.world.m, optax.adam(0.1))
        trainer.update()
        dy.save_checkpoint(tmp_path / "checkpoint", self.world.m, trainer)
        other = dy.OptaxTrainer(self.world.m, optax.sgd(0.1, momentum=0.9))
        self.check(tmp_path / "checkpoint", "not of this OptaxTrainer", trainers=other)

    def test_other_number_of_trainers(self, tmp_path):
        path = self.save(tmp_path / "checkpoint")
        self.check(path, "of other trainers", trainers=[])

    def test_no_file(self, tmp_path):
        self.check(tmp_path / "none", "the file cannot be read")
        with pytest.raises(RuntimeError, match="cannot write"):
            dy.save_checkpoint(tmp_path / "none" / "checkpoint", self.world.m)

    def test_no_checkpoint(self, tmp_path):
        (tmp_path / "text").write_text("#Parameter# /W {1} 17 ZERO_GRAD\n")
        self.check(tmp_path / "text", "is no checkpoint, or it is broken")

    @pytest.mark.parametrize("size", [10, 1000, -1, -40])
    def test_cut_off(self, tmp_path, size):
        path = self.save(tmp_path / "checkpoint")
        path.write_bytes(path.read_bytes()[:size])
        self.check(path, "is no checkpoint, or it is broken")

    def test_flipped_bit(self, tmp_path):
        path = self.save(tmp_path / "checkpoint")
        content = bytearray(path.read_bytes())
        content[300] ^= 1
        path.write_bytes(content)
        self.check(path, "is no checkpoint, or it is broken")

    def rewrite(self, path, **changed):
        """The same file with other entries, raw bytes by name."""
        with zipfile.ZipFile(path) as archive:
            entries = {n: archive.read(n) for n in archive.namelist()}
        with zipfile.ZipFile(path, "w") as archive:
            for name, content in (entries | changed).items():
                archive.writestr(name, content)

    def test_an_array_larger_than_the_file(self, tmp_path):
        """What a header says is not believed."""
        path = self.save(tmp_path / "checkpoint")
        stream = io.BytesIO()
        header = {"descr": "<f4", "fortran_order": False, "shape": (2**40, 2)}
        np.lib.format.write_array_header_1_0(stream, header)
        name = "parameter.0.values.npy"
        self.rewrite(path, **{name: stream.getvalue() + b"0000"})
        self.check(path, "is no checkpoint, or it is broken")

    def test_an_array_of_another_shape(self, tmp_path):
        path = self.save(tmp_path / "checkpoint")
        for name in "parameter.0.values", "trainer.0.state.0.0":
            stream = io.BytesIO()
            np.save(stream, np.zeros(3, np.float32))
            self.rewrite(path, **{f"{name}.npy": stream.getvalue()})
            self.check(path, "no checkpoint|not of this")

    def test_python_objects(self, tmp_path):
        path = self.save(tmp_path / "checkpoint")
        stream = io.BytesIO()
        np.save(stream, np.array([{}]), allow_pickle=True)
        self.rewrite(path, **{"parameter.0.values.npy": stream.getvalue()})
        self.check(path, "Python objects")

    def test_compressed(self, tmp_path):
        np.savez_compressed(tmp_path / "archive.npz", about=np.zeros(10**6))
        self.check(tmp_path / "archive.npz", "is compressed")

    def test_another_version(self, tmp_path):
        about = np.frombuffer(json.dumps({"version": 9}).encode(), np.uint8)
        np.savez(tmp_path / "archive.npz", about=about)
        self.check(tmp_path / "archive.npz", "version 9 of the format")
