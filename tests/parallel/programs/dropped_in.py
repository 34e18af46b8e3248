"""A program for DyNet, which trains in a pool."""

import dynet as dy
import numpy as np

import dynetjax.parallel


class Learner:
    """Of the main module."""

    def __init__(self, m):
        self.w = m.parameters_from_numpy(np.ones(3))

    def __call__(self, target):
        return dy.squared_distance(self.w, dy.inputVector([target] * 3))


class Total(Learner):
    """The number."""

    def __init__(self, learner):
        self.learner = learner

    def __call__(self, target):
        dy.renew_cg()
        return self.learner(target).value()


if __name__ == "__main__":
    m = dy.ParameterCollection()
    learner, trainer = Learner(m), dy.AdamTrainer(m, alpha=0.1)
    dynetjax.parallel.train(learner, [4.0] * 200, trainer=trainer, processes=2)
    (total,) = dynetjax.parallel.map(Total(learner), [4.0], processes=1)
    print(type(trainer).__module__, total < 0.1, total == Total(learner)(4.0))
