"""Training in a pool of processes."""

import random
import shutil

import numpy as np
import optax
import pytest
from learners import Failing, Learner, Tagger, Total, Waiting, alone

import dynetjax as dy
from dynetjax import parallel
from dynetjax.engine import policy
from dynetjax.parallel import segment

needs_native = pytest.mark.skipif(not policy.native(), reason="updates are by tier 0")
RNG = random.Random(1)
DATA = [[RNG.randrange(30) for _ in range(RNG.randrange(2, 9))] for _ in range(24)]


def made(trainer=dy.AdamTrainer, **options):
    """Trainer and tagger, with the same first values each time."""
    dy.reset_random_seed(5)
    m = dy.ParameterCollection()
    tagger = Tagger(m)
    return trainer(m, **options), tagger


def reported(trainer, tagger, report, synchronous):
    """Three epochs in two processes, of which `report` hears."""
    parallel.train(
        tagger,
        DATA,
        trainer=trainer,
        processes=2,
        epochs=3,
        report=report,
        synchronous=synchronous,
    )


def mean_loss(tagger):
    return np.mean([Total(tagger)(sentence) for sentence in DATA])


@needs_native
def test_one_worker_does_what_one_process_does():
    trainer, tagger = made()
    parallel.train(tagger, DATA, trainer=trainer, processes=1, epochs=2, seed=3)
    alone, other = made()
    for epoch in range(2):
        for k in np.random.default_rng([3, epoch]).permutation(len(DATA)):
            dy.renew_cg()
            loss = other(DATA[k])
            loss.value()
            loss.backward()
            alone.update()
    assert mean_loss(tagger) == pytest.approx(mean_loss(other), rel=1e-5)
    for one in trainer, alone:  # which go on alike
        dy.renew_cg()
        loss = (tagger if one is trainer else other)(DATA[0])
        loss.value()
        loss.backward()
        one.update()
    assert mean_loss(tagger) == pytest.approx(mean_loss(other), rel=1e-5)


@pytest.mark.parametrize("synchronous", [True, pytest.param(False, marks=needs_native)])
def test_two_workers_learn(synchronous):
    trainer, tagger = made(alpha=0.05)
    before, reports, saved = mean_loss(tagger), [], []
    best = parallel.train(
        tagger,
        DATA,
        DATA[:6],
        trainer=trainer,
        processes=2,
        epochs=30,
        report=reports.append,
        save=lambda: saved.append(mean_loss(tagger)),
        synchronous=synchronous,
        seed=1,
    )
    assert mean_loss(tagger) < before / 3
    assert [report.epoch for report in reports] == [*range(30)]
    assert reports[0].loss == pytest.approx(before, rel=0.2)
    assert best == min(report.dev_loss for report in reports)
    assert len(saved) == sum(report.is_best for report in reports)
    assert saved[0] < before  # by the values of then
    assert all(report.seen == len(DATA) for report in reports)


def test_synchronous_workers_go_by_the_mean_of_gradients():
    trainer, tagger = made(dy.SimpleSGDTrainer)
    parallel.train(tagger, DATA, trainer=trainer, processes=2, synchronous=True, seed=3)
    alone, other = made(dy.SimpleSGDTrainer)
    order = np.random.default_rng([3, 0]).permutation(len(DATA))
    for pair in order.reshape(-1, 2):
        dy.renew_cg()
        loss = dy.esum([other(DATA[k]) for k in pair]) / 2
        loss.value()
        loss.backward()
        alone.update()
    assert mean_loss(tagger) == pytest.approx(mean_loss(other), rel=1e-4)


@needs_native
def test_reports_come_as_often_as_asked():
    trainer, tagger = made()
    reports = []
    parallel.train(
        tagger,
        DATA,
        trainer=trainer,
        processes=1,
        report=reports.append,
        report_frequency=6,
    )
    assert [report.seen for report in reports] == [6, 12, 18, 24, 24]


@needs_native
def test_run_multi_process(tmp_path, capfd):
    trainer, tagger = made(alpha=0.05)
    before, file = mean_loss(tagger), tmp_path / "saved"
    learner = Learner(tagger, str(file))
    parallel.run_multi_process(2, learner, trainer, DATA, DATA[:6], 20, 12, 1000)
    assert mean_loss(tagger) < before / 3
    told = capfd.readouterr().err
    assert told.count("held out") == 40  # after every 12 of 24
    assert told.count("(best)") == file.read_text().count("saved") > 1


@needs_native
@pytest.mark.parametrize(
    ("datum", "told"),
    [
        ("raise", "has failed\nTraceback(.|\n)*ValueError: as it was told"),
        ("kill", "was ended by SIGKILL"),
        ("exit", "has ended before its work was done"),
    ],
)
def test_a_worker_that_fails_ends_training(datum, told):
    m = dy.ParameterCollection()
    w = m.parameters_from_numpy(np.ones(2))
    trainer = dy.SimpleSGDTrainer(m)
    data = ["go"] * 20 + [datum]
    with pytest.raises(parallel.WorkerError, match=told) as raised:
        parallel.train(Failing(w), data, trainer=trainer, processes=2, epochs=5, seed=1)
    assert raised.value.rank in (0, 1)
    assert np.isfinite(w.as_array()).all()
    dy.renew_cg()
    assert dy.squared_norm(w).value() >= 0  # the model is still there


@needs_native
def test_what_cannot_be_sent():
    trainer, tagger = made()
    with pytest.raises(TypeError, match="train: the learner cannot be"):
        parallel.train(lambda x: tagger(x), DATA, trainer=trainer, processes=2)
    with pytest.raises(ValueError, match="train: there is no data"):
        parallel.train(tagger, [], trainer=trainer, processes=2)


@needs_native
@pytest.mark.parametrize(
    ("spoil", "told"),
    [
        (lambda t, m: t.exponential_moving_average(0.9), "moving averages"),
        (lambda t, m: m.set_weight_decay(0.1), "weight decay"),
    ],
)
def test_state_that_cannot_be_shared(spoil, told):
    m = dy.ParameterCollection()
    tagger = Tagger(m)
    trainer = dy.AdamTrainer(m)
    spoil(trainer, m)
    with pytest.raises(ValueError, match=f"cannot be shared(.|\n)*{told}"):
        parallel.train(tagger, DATA, trainer=trainer, processes=1)


@pytest.mark.parametrize("synchronous", [True, pytest.param(False, marks=needs_native)])
class TestBothWays:
    def test_a_learner_without_the_model(self, synchronous):
        trainer, _ = made()
        told = "train: the learner has none of the trainer's parameters"
        with pytest.raises(ValueError, match=told):
            parallel.train(
                alone, [1.0], trainer=trainer, processes=1, synchronous=synchronous
            )

    def test_what_was_learned_before_a_failure_stays(self, synchronous):
        trainer, tagger = made(alpha=0.05)
        before, data = mean_loss(tagger), DATA * 20
        told = "ValueError: as it was told"
        with pytest.raises(parallel.WorkerError, match=told):
            parallel.train(
                Waiting(tagger),
                data,
                ["raise"],
                trainer=trainer,
                processes=2,
                synchronous=synchronous,
            )
        assert mean_loss(tagger) < before / 2

    def test_a_report_may_change_the_learning_rate(self, synchronous):
        trainer, tagger = made(dy.SimpleSGDTrainer)
        seen = []

        def report(told):
            trainer.learning_rate = 0.0
            seen.append(mean_loss(tagger))

        reported(trainer, tagger, report, synchronous)
        assert seen[0] == seen[1] == seen[2] == mean_loss(tagger)
        assert trainer.count_of_updates in (36, 72)

    def test_a_report_may_set_values(self, synchronous):
        trainer, tagger = made(dy.SimpleSGDTrainer, learning_rate=0.0)
        seen = []

        def report(told):
            seen.append(float(tagger.W.as_array()[0, 0]))
            tagger.W.set_value(np.full((4, 6), len(seen)))
            tagger.words.init_row(0, [len(seen)] * 8)

        reported(trainer, tagger, report, synchronous)
        assert seen[1:] == [1, 2]
        assert tagger.W.as_array()[0, 0] == 3
        assert (tagger.words.row_as_array(0) == 3).all()

    def test_number_of_processes(self, synchronous):
        trainer, tagger = made()
        told = "train: there is no such number of processes"
        with pytest.raises(ValueError, match=told):
            parallel.train(
                tagger, DATA, trainer=trainer, processes=0, synchronous=synchronous
            )


def test_a_trainer_that_cannot_be_sent():
    m = dy.ParameterCollection()
    tagger = Tagger(m)
    trainer = dy.OptaxTrainer(m, optax.chain(optax.clip(1.0), optax.sgd(0.1)))
    with pytest.raises(TypeError, match="train: the trainer cannot be sent"):
        parallel.train(tagger, DATA, trainer=trainer, processes=1, synchronous=True)


def test_rows_that_catch_up_do_not_tell_replicas_apart():
    """They are rounded as they are read, which differs by process."""
    trainer, tagger = made(lazy_correct=True)
    parallel.train(
        tagger,
        DATA,
        DATA,
        trainer=trainer,
        processes=2,
        epochs=15,
        synchronous=True,
        seed=1,
    )


def test_too_little_shared_memory(monkeypatch):
    usage = shutil.disk_usage("/")._replace(free=1000)
    monkeypatch.setattr(segment.shutil, "disk_usage", lambda path: usage)
    monkeypatch.setattr(segment, "FOLDER", "/")
    trainer, tagger = made()
    with pytest.raises(OSError, match="there is not enough shared memory"):
        parallel.train(tagger, DATA, trainer=trainer, processes=1, synchronous=True)
