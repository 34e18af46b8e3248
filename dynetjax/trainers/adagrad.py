"""Adagrad."""

from dynetjax.core.lazy import optax
from dynetjax.model.collection import ParameterCollection
from dynetjax.trainers.base import Trainer
from dynetjax.trainers.rules import rule_of_numbers
from dynetjax.trainers.sgd import sgd


@rule_of_numbers
def adagrad(eps: float) -> "optax.GradientTransformationExtraArgs":
    """-learning_rate g / sqrt(G + eps), where G is the sum of all g^2; 0 where G is"""
    by_root = optax.scale_by_rss(initial_accumulator_value=0.0, eps=eps)
    return optax.chain(by_root, sgd().made)


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
