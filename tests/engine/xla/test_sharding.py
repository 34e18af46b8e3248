"""Tables whose rows lie on several devices come to what they would on one.

A process with four devices runs what is below `test_several_devices`.
"""

import os
import pathlib
import subprocess
import sys

import jax
import numpy as np
import optax
import pytest

import dynetjax as dy
from dynetjax.engine.xla.sharding import everywhere, place_of, placed

ROWS, DEVICES = 40, 4


class Model:
    """A recurrence over words of a table."""

    def __init__(self, sharded):
        numbers = np.random.default_rng(0)
        m = self.collection = dy.ParameterCollection()
        given = numbers.normal(size=(ROWS, 3))
        self.E = m.add_lookup_parameters((ROWS, 3), init=given, sharded=sharded)
        self.W = m.parameters_from_numpy(numbers.normal(size=(3, 3)))

    def losses(self, trainer, updates=3):
        found = []
        for k in range(updates):
            dy.renew_cg()
            h = self.E[k]
            for word in (1, ROWS - 1, 17, 1):
                h = dy.tanh(self.W * h + self.E[word])
            loss = dy.squared_norm(h)
            found.append(loss.value())
            loss.backward()
            trainer.update()
        return found


def devices_of(array):
    return len(array.sharding.device_set)


TRAINERS = {
    "sgd": dy.SimpleSGDTrainer,
    "adam": dy.AdamTrainer,
    "dense": lambda m: dense(dy.AdamTrainer(m)),
    "optax": lambda m: dy.OptaxTrainer(m, optax.adam(0.1)),
}


def dense(trainer):
    trainer.set_sparse_updates(False)
    return trainer


def check_losses(make, decay):
    found = []
    for sharded in (False, True):
        model = Model(sharded)
        model.collection.set_weight_decay_lambda(decay)
        losses = model.losses(make(model.collection))
        found.append((losses, model.E.as_array(), model.W.as_array()))
    for one, several in zip(*found, strict=True):
        np.testing.assert_allclose(several, one, rtol=1e-6)
    stored = model.E.storage.values
    assert stored.sharding.spec == jax.sharding.PartitionSpec("rows")
    shards = [x.data.shape for x in stored.addressable_shards]
    assert shards == [(ROWS // DEVICES, 3)] * DEVICES


def check_state():
    model = Model(True)
    trainer = dy.AdamTrainer(model.collection)
    model.losses(trainer)
    states = jax.tree.leaves(trainer._states.of_table(model.E.storage))
    assert [x.sharding for x in states] == [model.E.storage.place] * 2


def check_others_stay():
    """A model like it, with no sharded table, is computed by one device as before."""
    Model(True).losses(TRAINERS["sgd"](dy.ParameterCollection()))
    model = Model(False)
    model.losses(dy.SimpleSGDTrainer(model.collection))
    assert devices_of(model.E.storage.values) == devices_of(model.W.storage.values) == 1


def check_files(path):
    model = Model(True)
    model.losses(dy.SimpleSGDTrainer(model.collection))
    model.collection.save(path)
    other = Model(True)
    other.collection.populate(path)
    assert np.array_equal(other.E.as_array(), model.E.as_array())
    assert devices_of(other.E.storage.values) == DEVICES


def check_rows():
    m = dy.ParameterCollection()
    error = r"(?s)each device has a part of.*42 rows for 4.*multiple of 4.*add 2 more"
    with pytest.raises(ValueError, match=error):
        m.add_lookup_parameters((42, 3), sharded=True)
    assert not m.lookup_parameters_list()


def test_several_devices(tmp_path):
    code = (
        "import sys; sys.path.insert(0, sys.argv[1]);"
        "import test_sharding as t; t.everything(sys.argv[2])"
    )
    env = os.environ | {
        "XLA_FLAGS": f"--xla_force_host_platform_device_count={DEVICES}",
        "JAX_PLATFORMS": "cpu",
    }
    here = str(pathlib.Path(__file__).parent)
    command = [sys.executable, "-c", code, here, str(tmp_path / "model")]
    done = subprocess.run(command, env=env, capture_output=True, text=True)
    assert done.returncode == 0, done.stderr


def everything(path):
    dy.init(tier="xla")
    for make in TRAINERS.values():
        check_losses(make, 0.0)
    check_losses(TRAINERS["sgd"], 0.4)
    check_state()
    check_others_stay()
    check_files(path)
    check_rows()


def test_where_there_is_one_device():
    model = Model(True)
    assert model.E.storage.place is None
    model.losses(dy.SimpleSGDTrainer(model.collection))


def test_all_devices_or_one():
    m = dy.ParameterCollection()
    with pytest.raises(ValueError, match=r"(?s)all devices.*device='CPU'.*leave out"):
        m.add_lookup_parameters((4, 3), device="CPU", sharded=True)


def test_arguments_without_a_place_are_everywhere():
    mesh = jax.sharding.Mesh(np.array(jax.devices()[:1]), ("rows",))
    rows = jax.sharding.NamedSharding(mesh, jax.sharding.PartitionSpec("rows"))
    shapes = [jax.ShapeDtypeStruct((2,), np.float32, sharding=s) for s in (None, rows)]
    place = everywhere(shapes)
    assert place.is_fully_replicated
    assert [*map(place_of, placed(shapes, place))] == [place, rows]
    assert everywhere(shapes[:1]) is None
