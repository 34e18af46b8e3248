"""OptaxTrainer, beside optax applied to a tree by hand."""

import jax
import jax.numpy as jnp
import numpy as np
import optax
import pytest

import dynetjax as dy
from dynetjax.engine.runtime import RUNTIME
from dynetjax.trainers.base import Trainer

ROWS = 5
SCHEDULE = optax.exponential_decay(0.1, transition_steps=2, decay_rate=0.5)
TRANSFORMATIONS = {
    "adam": optax.adam(0.05),
    "lion": optax.lion(0.01),
    "schedule": optax.sgd(SCHEDULE, momentum=0.9),
    "chain": optax.chain(
        optax.clip_by_global_norm(0.5), optax.scale_by_rms(), optax.scale(-0.01)
    ),
    "injected": optax.inject_hyperparams(optax.adamw)(0.05, weight_decay=0.01),
    "without state": optax.sgd(0.1),
    "matrices decay": optax.adamw(
        optax.cosine_decay_schedule(0.05, 10),
        weight_decay=0.1,
        mask=lambda tree: {name: x.ndim > 1 for name, x in tree.items()},
    ),
    "counts": optax.chain(optax.apply_every(2), optax.radam(0.05)),
    "norm": optax.chain(optax.normalize_by_update_norm(), optax.sgd(0.1)),
    "nesterov": optax.sgd(0.1, momentum=0.9, nesterov=True),
    "rates": optax.multi_transform(
        {"few": optax.adagrad(0.1), "many": optax.set_to_zero()},
        lambda tree: {
            name: "few" if x.ndim < 2 else "many" for name, x in tree.items()
        },
    ),
}
BY_XLA = {
    "norms of parameters": optax.chain(optax.scale_by_trust_ratio(), optax.sgd(0.1)),
    "norm of changes": optax.chain(optax.sgd(0.1), optax.clip_by_global_norm(0.1)),
    "several steps": optax.MultiSteps(optax.sgd(0.1), 2).gradient_transformation(),
    "noise": optax.noisy_sgd(0.1, eta=0.0, key=jax.random.key(0)),
    "state of bools": optax.apply_if_finite(optax.sgd(0.1), 3),
    "callback": optax.stateless(lambda g, _: (jax.debug.callback(str), g)[1]),
    "state of another type": optax.GradientTransformation(
        lambda tree: jnp.zeros((), jnp.int32), lambda g, n, tree=None: (g, n + 0.5)
    ),
    "sorted": optax.stateless(
        lambda g, _: {name: -0.1 * jnp.sort(x, axis=0) for name, x in g.items()}
    ),
}
TIERS = ["native", "xla"]


@pytest.fixture(params=TRANSFORMATIONS)
def tx(request):
    return TRANSFORMATIONS[request.param]


@pytest.fixture(params=TIERS, autouse=True)
def tier(request, monkeypatch):
    """By the executor in C++, or by XLA."""
    monkeypatch.setattr(RUNTIME, "tier", request.param)
    return request.param


class World:
    """Two parameters and a table, and the same as a tree for optax."""

    def __init__(self, tx, sparse, weight_decay=0.0):
        random = np.random.RandomState(0)
        self.m = dy.ParameterCollection()
        self.m.set_weight_decay(weight_decay)
        self.kept = 1 - weight_decay
        self.W = self.m.parameters_from_numpy(random.randn(3, 2))
        self.b = self.m.parameters_from_numpy(random.randn(3))
        self.E = self.m.lookup_parameters_from_numpy(random.randn(ROWS, 2))
        self.trainer = dy.OptaxTrainer(self.m, tx)
        self.trainer.set_clip_threshold(0)
        self.trainer.set_sparse_updates(sparse)
        self.tx, self.tree, self.state = tx, self.now(), None

    def now(self):
        return {
            p.name(): jnp.asarray(p.as_array(), jnp.float32)
            for p in (self.W, self.b, self.E)
        }

    def loss(self, row):
        dy.renew_cg()
        return dy.squared_norm(dy.tanh(self.W * self.E[row] + self.b))

    def step(self, row, only=None):
        """One update, here and in optax, of all or of `only` these names."""
        self.loss(row).backward()
        tree = {n: v for n, v in self.tree.items() if only is None or n in only}
        grads = {n: self.gradient(n) for n in tree}
        self.trainer.update()
        if self.state is None:
            self.state = self.tx.init(tree)
        updates, self.state = self.tx.update(grads, self.state, tree)
        self.tree |= optax.apply_updates(tree, updates)
        self.tree |= {n: self.kept * self.tree[n] for n in tree}

    def gradient(self, name):
        (p,) = [p for p in (self.W, self.b, self.E) if p.name() == name]
        return jnp.asarray(p.grad_as_array(), jnp.float32)

    def check(self, rows=slice(None)):
        found = self.now()
        for name, expected in self.tree.items():
            seen = rows if name == self.E.name() else slice(None)
            np.testing.assert_allclose(
                found[name][seen], expected[seen], rtol=1e-4, atol=1e-6
            )


def test_dense(tx, tier, monkeypatch):
    monkeypatch.setattr(Trainer, "_update_at_once" if tier == "xla" else "_send", None)
    world = World(tx, sparse=False)
    for row in 0, 3, 0, 1:
        world.step(row)
    world.check()


@pytest.mark.parametrize("tx", BY_XLA.values(), ids=BY_XLA)
def test_what_is_left_to_xla(tx, monkeypatch):
    monkeypatch.setattr(Trainer, "_update_at_once", None)
    world = World(tx, sparse=False)
    for row in 0, 3, 0, 1:
        world.step(row)
    world.check()


def test_executors_in_turn(tx, monkeypatch):
    """The state goes from one to the other and back."""
    world = World(tx, sparse=False)
    for row, tier in zip([0, 3, 0, 1, 2], "nxxnn", strict=True):
        monkeypatch.setattr(RUNTIME, "tier", {"n": "native", "x": "xla"}[tier])
        world.step(row)
    world.check()


def test_norm_of_what_is_updated():
    """A transformation does not see the gradient of a frozen parameter."""
    world = World(optax.chain(optax.clip_by_global_norm(0.5), optax.sgd(0.1)), False)
    world.b.set_updated(False)
    for row in 0, 3, 0:
        world.step(row, only=[world.W.name(), world.E.name()])
        world.b.scale_gradient(0)
    world.check()


def test_norm_of_what_was_clipped():
    """The trainer clips first."""
    m = dy.ParameterCollection()
    p = m.add_parameters(2, init=0.0)
    tx = optax.chain(optax.clip_by_global_norm(0.5), optax.scale(-1.0))
    trainer = dy.OptaxTrainer(m, tx)
    trainer.set_clip_threshold(0.25)
    p.storage.gradient = np.array([3, 4], np.float32)
    trainer.update()
    np.testing.assert_allclose(p.as_array(), [-0.15, -0.2], rtol=1e-6)


def test_sparse(tx):
    """With one row in every update, that row's steps are those of a dense one."""
    world = World(tx, sparse=True)
    others = world.E.as_array()[1:]
    for _ in range(4):
        world.step(0)
    world.check(rows=slice(1))
    np.testing.assert_array_equal(world.E.as_array()[1:], others)


def test_weight_decay(tx):
    for sparse in True, False:
        world = World(tx, sparse, weight_decay=0.1)
        for _ in range(3):
            world.step(0)
        world.check(rows=slice(1))


def test_used_whole():
    world = World(optax.adam(0.05), sparse=True)
    dy.renew_cg()
    dy.squared_norm(world.E).backward()
    grads = {n: world.gradient(n) for n in world.tree}
    world.trainer.update()
    updates, _ = world.tx.update(grads, world.tx.init(world.tree), world.tree)
    world.tree = optax.apply_updates(world.tree, updates)
    world.check()


def test_frozen_parameters_keep_their_state():
    """One that is away for a while finds its moments; the count goes on."""
    world = World(optax.adam(0.05), sparse=False)
    world.step(0)
    before = world.state[0].mu[world.b.name()]
    world.b.set_updated(False)
    names = [world.W.name(), world.E.name()]
    mu = {n: world.state[0].mu[n] for n in names}
    nu = {n: world.state[0].nu[n] for n in names}
    b_nu = world.state[0].nu[world.b.name()]
    inner = world.state[0]._replace(mu=mu, nu=nu)
    world.state = (inner, *world.state[1:])
    world.step(1, only=names)
    world.b.set_updated(True)
    world.b.scale_gradient(0)
    inner = world.state[0]
    inner = inner._replace(
        mu=inner.mu | {world.b.name(): before}, nu=inner.nu | {world.b.name(): b_nu}
    )
    world.state = (inner, *world.state[1:])
    world.step(2)
    world.check()


@pytest.mark.parametrize("early", [0, 1])
def test_late_parameter(early):
    """It begins with zeros, and the count that there is."""
    m = dy.ParameterCollection()
    for _ in range(early):
        m.add_parameters(1, init=1.0)
    trainer = dy.OptaxTrainer(m, optax.sgd(SCHEDULE))
    for _ in range(4):
        trainer.update()
    late = m.add_parameters(1, init=1.0)
    dy.renew_cg()
    dy.sum_elems(late).backward()
    trainer.update()
    np.testing.assert_allclose(late.as_array(), 1 - SCHEDULE(4), rtol=1e-5)


def test_masks_go_by_names():
    m = dy.ParameterCollection()
    W, b = m.add_parameters(1, init=1.0, name="W"), m.add_parameters(1, init=1.0)
    decayed = optax.add_decayed_weights(0.5, mask={"/W": True, "/_0": False})
    dy.OptaxTrainer(m, optax.chain(decayed, optax.scale(-1.0))).update()
    assert (W.as_array(), b.as_array()) == (0.5, 1.0)


def test_parameters_of_one_name():
    m = dy.ParameterCollection()
    a = m.add_parameters(1, init=1.0, name="W")
    b = m.add_subcollection().add_parameters(2, init=1.0, name="W")
    b.storage.name = a.name()  # as loading can do
    dy.renew_cg()
    (dy.sum_elems(a) + 2 * dy.sum_elems(b)).backward()
    dy.OptaxTrainer(m, optax.sgd(0.25)).update()
    assert (a.as_array(), b.as_array().tolist()) == (0.75, [0.5, 0.5])


def test_restart():
    m = dy.ParameterCollection()
    W = m.add_parameters(1, init=1.0)
    trainer = dy.OptaxTrainer(m, optax.sgd(SCHEDULE))
    trainer.update()
    trainer.update()
    trainer.restart()
    dy.renew_cg()
    dy.sum_elems(W).backward()
    trainer.update()
    np.testing.assert_allclose(W.as_array(), 1 - SCHEDULE(0), rtol=1e-6)


def test_learning_rate_is_a_factor():
    m = dy.ParameterCollection()
    W = m.add_parameters(1, init=1.0)
    trainer = dy.OptaxTrainer(m, optax.sgd(0.5), learning_rate=0.5)
    dy.renew_cg()
    dy.sum_elems(W).backward()
    trainer.update()
    assert W.as_array() == 0.75


@pytest.mark.parametrize("sparse", [True, False])
def test_a_refused_update_changes_nothing(sparse, tier):
    world = World(optax.adam(0.05), sparse)
    world.step(0)
    world.trainer.set_clip_threshold(5)
    before = jax.tree.map(np.array, (world.now(), world.trainer._states._state))
    (world.loss(1) * float("nan")).backward()
    bad = "Magnitude of gradient is bad"
    if tier == "native":
        with pytest.raises(RuntimeError, match=bad):
            world.trainer.update()
    else:
        world.trainer.update()
        with pytest.raises(RuntimeError, match=bad):
            world.trainer.check()
    after = jax.tree.map(np.array, (world.now(), world.trainer._states._state))
    jax.tree.map(np.testing.assert_array_equal, before, after)


def test_state_that_does_not_go_by_rows():
    m = dy.ParameterCollection()
    E = m.add_lookup_parameters((200, 200))
    trainer = dy.OptaxTrainer(m, optax.adafactor(0.1))
    before = E.as_array()
    dy.renew_cg()
    dy.squared_norm(E[3]).backward()
    with pytest.raises(ValueError, match="the state of /_0 does not go by rows"):
        trainer.update()
    np.testing.assert_array_equal(E.as_array(), before)
    trainer.set_sparse_updates(False)
    trainer.update()
    assert (E.as_array()[3] != before[3]).all()


def test_no_transformation():
    with pytest.raises(TypeError, match="tx is no transformation"):
        dy.OptaxTrainer(dy.ParameterCollection(), 0.1)


def test_compiles_once(monkeypatch):
    monkeypatch.setattr(RUNTIME, "tier", "xla")
    world = World(optax.adam(0.07), sparse=True)
    for row in 0, 1, 2:
        world.step(row)
    programs = world.trainer._compiled().programs.values()
    assert [len(p._programs) for p in programs] == [1]
