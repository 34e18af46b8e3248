"""Programs are lowered for devices that are not here, and hold nothing of this one."""

import jax
import numpy as np
import pytest

import dynetjax as dy
from dynetjax.core.tables import forget_all
from dynetjax.engine.xla.compiling import Compiled
from dynetjax.trainers.update import compiled_update


def language_model(m):
    table, out = m.add_lookup_parameters((7, 5)), m.add_parameters((7, 5))
    lstm = dy.VanillaLSTMBuilder(1, 5, 5, m)
    states = lstm.initial_state().transduce(
        [dy.dropout(dy.lookup_batch(table, [k, 3]), 0.5) for k in range(4)]
    )
    losses = [dy.pickneglogsoftmax_batch(out * h, [1, 2]) for h in states]
    return dy.sum_batches(dy.esum(losses))


def attention(m):
    table, W = m.add_lookup_parameters((7, 6)), m.add_parameters((6, 6))
    columns = dy.concatenate_cols([table[k] for k in range(5)])
    weights = dy.softmax(dy.transpose(columns) * (W * table[6]))
    return dy.squared_norm(dy.tanh(columns * weights))


def convolution(m):
    table = m.add_lookup_parameters((7, 1, 4))
    filters = m.add_parameters((1, 3, 4, 2))
    image = dy.concatenate([table[k] for k in range(5)])
    image = dy.reshape(image, (1, 5, 4))
    return dy.sum_elems(dy.rectify(dy.conv2d(image, filters, [1, 1])))


@pytest.mark.parametrize("platform", ["cuda", "rocm", "tpu"])
@pytest.mark.parametrize("program", [language_model, attention, convolution])
def test_training(by_xla, far, monkeypatch, program, platform):
    """Forward, back, and the update, with all that they read."""
    lowered, lower = [], Compiled.lowered

    def also_there(self, shapes):
        traced = jax.jit(self._run, donate_argnames=self._donated).trace(*shapes)
        lowered.append(traced.lower(lowering_platforms=(platform,)).as_text())
        return lower(self, shapes)

    monkeypatch.setattr(Compiled, "lowered", also_there)
    forget_all()  # or programs of another test are at hand
    compiled_update.cache_clear()
    m = dy.ParameterCollection()
    trainer = dy.AdamTrainer(m)
    dy.renew_cg()
    loss = program(m)
    assert np.isfinite(loss.value())
    loss.backward()
    trainer.update()
    assert len(lowered) >= 2
    assert all("func.func public @main" in text for text in lowered)
