"""Adagrad."""

from dynetjax.core.lazy import jnp, lax
from dynetjax.model.collection import ParameterCollection
from dynetjax.trainers.base import Trainer
from dynetjax.trainers.rules import Update, rule_of_numbers


@rule_of_numbers(states=1)
def adagrad(eps: float) -> Update:
    """-learning_rate g / sqrt(G + eps), where G is the sum of all g^2; 0 where G is"""

    def update(g, state, values=None, *, step, learning_rate):
        (total,) = state
        total = total + g * g
        by_root = jnp.where(total > 0, lax.rsqrt(total + eps), 0.0)
        return -learning_rate * (g * by_root), (total,)

    return update


class AdagradTrainer(Trainer):
    """Adagrad (Duchi et al., jmlr.org/papers/v12/duchi11a.html).

        G <- G + g^2
        p <- p - learning_rate * g / sqrt(G + eps)

    Args:
        m: the collection to train.
        learning_rate: factor on every step; the length of the first one.
        eps: added inside the root.
    Source: clab/dynet, ``dynet/training.cc``.
    Examples:
        >>> m = dy.ParameterCollection()
        >>> p = m.add_parameters(2, init=1)
        >>> trainer = dy.AdagradTrainer(m, learning_rate=0.1)
        >>> dy.dot_product(p, dy.inputVector([0.01, 4])).backward()
        >>> trainer.update()
        >>> print(p.as_array().round(3))
        [0.9 0.9]
    """

    def __init__(
        self, m: ParameterCollection, learning_rate: float = 0.1, eps: float = 1e-20
    ):
        numbers = (float(eps),)
        rule = adagrad(*numbers)
        super().__init__(m, learning_rate, rule=rule, numbers=numbers, still=True)
