"""Less of a function in which something is wrong."""

from dataclasses import replace

import jax
import numpy as np
from in_numpy import Exact
from jax.interpreters import partial_eval as pe
from trials import Input, Trial

from dynetjax.engine.native.program import DATA


def minimised(trial, is_wrong):
    """A trial with less in it that is wrong, too."""
    trial = of_one_lane(trial, is_wrong)
    function = trial.function
    first = len(function.inputs) + len(function.types) - len(function.cuts)
    for k in range(first, first + len(function.steps)):
        less = with_function(trial, outputs=[k])
        if is_wrong(less):
            trial = less
            break
    for number in range(len(function.steps)):
        if first + number not in trial.function.outputs:
            less = cut(trial, number)
            if is_wrong(less):
                trial = less
    return trial


def of_one_lane(trial, is_wrong):
    """The trial on a lane on which it is wrong; all of it if it is on none alone."""
    for lane in range(trial.lanes):
        arrays = [
            x if k < trial.weights or len(x) == 1 else x[lane : lane + 1]
            for k, x in enumerate(trial.arrays)
        ]
        data = [x if isinstance(x, int) else x[lane : lane + 1] for x in trial.data]
        if "k" not in trial.function.types:
            less = Trial(trial.function, 1, arrays, data, trial.seed)
            if is_wrong(less):
                return less
    return trial


def with_function(trial, **about):
    function = replace(trial.function, **about)
    return Trial(function, trial.lanes, trial.arrays, trial.data, trial.seed)


def cut(trial, number):
    """What a step makes is given instead."""
    function = trial.function
    at = len(function.inputs) - len(function.cuts) + len(function.types) + number
    xs = [jax.ShapeDtypeStruct(x.shape, np.float32) for x in function.inputs]
    xs += [jax.ShapeDtypeStruct(s, t) for t, s in map(DATA.get, function.types)]
    values = jax.make_jaxpr(lambda *xs: function.values(*xs)[at].x)(*xs)
    rows = [Exact().closed(values, trial.given(lane))[0] for lane in range(trial.lanes)]
    arrays = [*trial.arrays, np.stack(rows).astype(np.float32)]
    inputs = [*function.inputs, Input(rows[0].shape, "leaf", "given")]
    cuts = {**function.cuts, number: len(function.inputs)}
    less = replace(function, inputs=inputs, cuts=cuts)
    return Trial(less, trial.lanes, arrays, trial.data, trial.seed)


def steps_of(function):
    """The steps that a result needs, by what they make."""
    first = len(function.inputs) + len(function.types) - len(function.cuts)
    needed, found = {*function.outputs}, {}
    for number in reversed(range(len(function.steps))):
        step, k = function.steps[number], first + number
        if k in needed and number not in function.cuts:
            needed |= {*step.reads}
            found[k] = step
    return dict(reversed(found.items()))


def told(trial, worst):
    """What is wrong, in words."""
    if "jaxprs" not in vars(trial):
        return f"it cannot be traced: {worst.what}"
    lines = [f"  {k} = {s.name}{s.reads}" for k, s in steps_of(trial.function).items()]
    forth, back = trial.jaxprs
    return "\n".join([
        f"{worst.what} {worst.place}: {worst.got!r} for {worst.exact!r}, "
        f"{worst.due:.2g} is due",
        *lines,
        f"  of {trial.function.inputs}, {trial.lanes} lanes, data {trial.data}",
        str(needed_of(forth, 1)),
        str(back.jaxpr) if worst.what.startswith("grad") else "",
    ])  # fmt: skip


def needed_of(closed, count):
    """What the first results of a jaxpr need of it."""
    used = [k < count for k in range(len(closed.jaxpr.outvars))]
    return pe.dce_jaxpr(closed.jaxpr, used, instantiate=True)[0]
