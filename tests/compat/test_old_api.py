"""What programs of DyNet's first release call."""

import copy
import pickle

import numpy as np
import pytest

import dynetjax as dy
from dynetjax.compat import old_api


@pytest.fixture(autouse=True)
def nothing_told(monkeypatch):
    monkeypatch.setattr(old_api, "_told", set())


def with_old_arguments(kind):
    """A subclass of this name, so that the class itself stays as it is."""
    made = type(kind.__name__, (kind,), {})
    old_api.take_old_arguments(made)
    return made


class TestTrainers:
    def test_learning_rate(self, capsys):
        m = dy.ParameterCollection()
        kind = with_old_arguments(dy.SimpleSGDTrainer)
        for _ in range(2):
            trainer = kind(m, e0=0.5)
            assert trainer.learning_rate == 0.5
        assert capsys.readouterr().err.count("e0 is deprecated") == 1
        assert trainer.whoami() == "SimpleSGDTrainer"
        assert with_old_arguments(dy.AdamTrainer)(m, e0=0.5).learning_rate == 0.5
        assert kind(m, 0.25).learning_rate == 0.25

    def test_decay(self, capsys):
        kind = with_old_arguments(dy.SimpleSGDTrainer)
        trainer = kind(dy.ParameterCollection(), e0=0.5, edecay=0.5)
        rates = []
        for _ in range(3):
            trainer.update_epoch()
            rates.append(trainer.learning_rate)
        assert rates == [np.float32(0.5 / 1.5), 0.25, np.float32(0.5 / 2.5)]
        assert "edecay is deprecated" in capsys.readouterr().err
        copied = copy.deepcopy(trainer)
        copied.update_epoch()
        assert copied.learning_rate == np.float32(0.5 / 3)
        other = kind(dy.ParameterCollection(), eta_decay=1.0)
        other.update_epoch(1.0)
        assert other.learning_rate == np.float32(0.05)

    @pytest.mark.parametrize(
        ("name", "words"),
        [
            ("SimpleSGDTrainer", (0.5,)),
            ("MomentumSGDTrainer", (0.5, 0.9)),
            ("AdagradTrainer", (0.5, 1e-20)),
            ("AdamTrainer", (0.5, 0.9, 0.999, 1e-8)),
        ],
    )
    def test_decay_after_the_others(self, name, words):
        """As the first release declared them."""
        kind = with_old_arguments(getattr(dy, name))
        trainer = kind(dy.ParameterCollection(), *words, 1.0)
        trainer.update_epoch()
        assert trainer.learning_rate == 0.25
        with pytest.raises(TypeError, match="positional arguments"):
            kind(dy.ParameterCollection(), *words, 1.0, 2.0)

    def test_no_decay(self, capsys):
        kind = with_old_arguments(dy.SimpleSGDTrainer)
        trainer = kind(dy.ParameterCollection())
        trainer.update_epoch(1.0)
        assert "has been deprecated" in capsys.readouterr().err
        assert trainer.learning_rate == np.float32(0.1)


class Layer(old_api.Saveable):
    def __init__(self, m, size):
        self.size = size
        self.W = m.add_parameters((size, size))

    def get_components(self):
        return [self.W]

    def restore_components(self, components):
        (self.W,) = components


class Network(old_api.Saveable):
    def __init__(self, m, sizes):
        self.sizes = sizes
        self.layers = [Layer(m, size) for size in sizes]
        self.lstm = dy.VanillaLSTMBuilder(1, 2, 2, m)
        self.E = m.add_lookup_parameters((3, 2))

    def get_components(self):
        return [*self.layers, self.lstm, self.E]

    def restore_components(self, components):
        *self.layers, self.lstm, self.E = components


class TestSaveable:
    def test_objects_come_back(self, tmp_path):
        m = dy.ParameterCollection()
        network, alone = Network(m, (2, 3)), m.add_parameters(4)
        path = str(tmp_path / "model")
        old_api.save_objects(path, [network, alone])
        others = dy.ParameterCollection()
        other, p = old_api.load_objects(path, others)
        assert type(other) is Network
        assert other.sizes == (2, 3)
        assert [layer.size for layer in other.layers] == [2, 3]
        pairs = [(network.E, other.E), (alone, p)]
        pairs += [(a.W, b.W) for a, b in zip(network.layers, other.layers, strict=True)]
        for ours, theirs in pairs:
            np.testing.assert_array_equal(theirs.as_array(), ours.as_array())
        ours, theirs = (n.lstm.get_parameters()[0][0] for n in (network, other))
        np.testing.assert_array_equal(theirs.as_array(), ours.as_array())
        assert others.parameter_count() == m.parameter_count()

    def test_other_objects_after_these(self, tmp_path):
        """What is left of an older file does not count."""
        m = dy.ParameterCollection()
        path = str(tmp_path / "model")
        old_api.save_objects(path, [Layer(m, 2)])
        old_api.save_objects(path, [m.add_parameters(3)])
        (p,) = old_api.load_objects(path, dy.ParameterCollection())
        assert p.shape() == (3,)

    def test_collections(self, tmp_path, monkeypatch, capsys):
        for name in "save", "load":
            method = getattr(old_api, f"_{name}")
            monkeypatch.setattr(dy.ParameterCollection, name, method, raising=False)
        m = dy.ParameterCollection()
        W = m.add_parameters(3)
        m.save(str(tmp_path / "model"), [W])
        (p,) = dy.ParameterCollection().load(str(tmp_path / "model"))
        np.testing.assert_array_equal(p.as_array(), W.as_array())
        err = capsys.readouterr().err
        assert "Model.save(fname, objects) is deprecated" in err
        assert "Model.load is deprecated" in err
        m.save(str(tmp_path / "text"))
        other = dy.ParameterCollection()
        q = other.add_parameters(3)
        assert other.load(str(tmp_path / "text")) == []
        np.testing.assert_array_equal(q.as_array(), W.as_array())
        assert "Use model.populate(fname)" in capsys.readouterr().err

    def test_classes_that_are_not_saveable(self, tmp_path):
        m = dy.ParameterCollection()
        path = tmp_path / "model"
        old_api.save_objects(path, [Layer(m, 2)])
        for name in ("os", "system"), ("pathlib", "Path"), ("missing", "Layer"):
            text = "c{}\n{}\n.".format(*name).encode()
            (tmp_path / "model.objects").write_bytes(text)
            with pytest.raises(
                pickle.UnpicklingError, match="names a class that is not"
            ):
                old_api.load_objects(path, dy.ParameterCollection())

    def test_base(self):
        with pytest.raises(NotImplementedError):
            old_api.Saveable().get_components()
        with pytest.raises(NotImplementedError):
            old_api.Saveable().restore_components([])
