"""Rates of zero: no builder draws anything, whatever its rates were before."""

import inspect

import pytest

import dynetjax as dy
from dynetjax.graph import current_graph

BUILDERS = {
    name: cls
    for name, cls in vars(dy).items()
    if inspect.isclass(cls) and hasattr(cls, "set_dropout")
}
OFF = {
    "set_dropout": lambda b: b.set_dropout(0.0),
    "disable_dropout": lambda b: b.disable_dropout(),
    "rates": lambda b: (
        b.set_dropouts(*[0] * (len(inspect.signature(b.set_dropouts).parameters)))
        if hasattr(b, "set_dropouts")
        else b.set_dropout(0)
    ),
}


def made(cls, model):
    if cls is dy.BiRNNBuilder:
        return cls(1, 4, 4, model, dy.VanillaLSTMBuilder)
    return cls(*[2] * (cls is dy.NaryTreeLSTMBuilder), 2, 4, 4, model)


def draws(builder):
    dy.renew_cg()
    if hasattr(builder, "build"):
        builder.build([0, [1, 2]], lambda _: dy.ones(4))
    elif isinstance(builder, dy.BiRNNBuilder):
        builder.transduce([dy.ones(4), dy.ones(4)])
    else:
        builder.initial_state().transduce([dy.ones(4), dy.ones(4)])
    ops = [node.signature.op for node in current_graph().nodes]
    return [op.name for op in ops if "k" in op.runtime]


@pytest.mark.parametrize("off", OFF)
@pytest.mark.parametrize("name", BUILDERS)
@pytest.mark.filterwarnings("ignore:set_dropout. a FastLSTMBuilder")
def test_nothing_is_drawn(name, off):
    builder = made(BUILDERS[name], dy.ParameterCollection())
    builder.set_dropout(0.5)
    assert bool(draws(builder)) == (name != "FastLSTMBuilder")
    if hasattr(builder, "set_weightnoise"):
        builder.set_weightnoise(0.5)
        builder.set_weightnoise(0)
    OFF[off](builder)
    assert draws(builder) == []
