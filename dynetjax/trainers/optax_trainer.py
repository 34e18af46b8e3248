"""Any optax transformation as a trainer."""

from typing import Any

from dynetjax.core.errors import error_text
from dynetjax.core.lazy import optax
from dynetjax.model.collection import ParameterCollection
from dynetjax.trainers.base import Trainer
from dynetjax.trainers.whole_tree import as_tree


class OptaxTrainer(Trainer):
    """Trains with an optax transformation: a rule, a schedule, a chain of several.

        rate = optax.cosine_decay_schedule(1e-3, decay_steps=10_000)
        trainer = dy.OptaxTrainer(pc, optax.lion(rate))

    All that trainers do around a rule stays: clipping at 5 (``set_clip_threshold(0)``
    leaves it to `tx`), weight decay of the collection, sparse updates. The
    transformation sees a dict of all that is updated, by full name, so that masks and
    labels can go by names. Parameters made later join with a state of their own; what
    `tx` counts goes on.

    Transformations that treat numbers apart, but for what all have in common (counts,
    rates, the norm of all gradients), run in C++ where DyNet's trainers do: Adam and
    Lion, masks, schedules, clipping by the global norm. XLA compiles the others.

    In a sparse update it sees only the rows of tables that were touched, and their
    state. That is right for every `tx` that treats rows apart or adds up over all
    numbers (Adam, Lion, clipping by the global norm); not for one that looks at a
    table as a matrix (LARS, Muon), which needs ``set_sparse_updates(False)``.

    Args:
        m: the collection to train.
        tx: what `optax` makes. It has its own learning rate; those that need more than
            gradients and parameters to update will not do.
        learning_rate: one more factor on what `tx` returns.
    Raises:
        TypeError: `tx` is no transformation.
        ValueError: in `update`, when the state of a table does not go by rows.
    Examples:
        >>> import optax
        >>> m = dy.ParameterCollection()
        >>> p = m.add_parameters(1, init=1)
        >>> tx = optax.chain(optax.clip(0.5), optax.sgd(0.1))
        >>> trainer = dy.OptaxTrainer(m, tx)
        >>> dy.square(p).backward()
        >>> trainer.update()  # the gradient is 2, and clipped to 0.5
        >>> print(p.as_array().round(3))
        [0.95]
    """

    _way = staticmethod(as_tree)

    def __init__(
        self,
        m: ParameterCollection,
        tx: "optax.GradientTransformation",
        learning_rate: float = 1.0,
    ):
        if not isinstance(tx, optax.GradientTransformation):
            raise TypeError(
                error_text(
                    "OptaxTrainer: tx is no transformation",
                    got=f"{tx!r} ({type(tx).__name__})",
                    expected="an optax.GradientTransformation",
                    fix="optax.adam(1e-3), say",
                )
            )
        super().__init__(m, learning_rate, rule=tx)
        self._tx = tx

    def _differing(self) -> dict[str, Any]:
        return {"tx": self._tx.init} | super()._differing()
