"""A module that makes a model when it is imported, and computes with it."""

import dynetjax as dy

m = dy.ParameterCollection()
w = m.add_parameters(2)


def total(x):
    """Of every process's own model."""
    dy.renew_cg()
    return (dy.squared_norm(w) * x).value()
