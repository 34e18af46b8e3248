"""Random functions as byte code; see tests/random_functions.py for long campaigns."""

import copy
import pathlib
import sys

import jax
import numpy as np
import pytest

sys.path.append(str(pathlib.Path(__file__).parents[2]))

import random_functions
from random_functions import Tally, drawn, judged, primitives, smaller
from trials import OPERATIONS, Function, Input, Step

from dynetjax.engine.native import core
from dynetjax.engine.native.lowering import lower
from dynetjax.engine.native.lowering.arrays import NotCoveredError

SEED, COUNT, JAX = 7, 200, 40


@pytest.fixture(scope="module")
def law():
    """(the trials, what became of them, what is wrong)."""
    trials, tally = [*map(drawn, range(SEED, SEED + COUNT))], Tally()
    found = random_functions.run(trials, JAX, tally)
    return trials, tally, [(trial.seed, worst) for trial, worst in found]


def test_values_and_gradients(law):
    """None is further from float64 than float32 has to be; few are not compared."""
    _, tally, found = law
    assert not found
    assert tally.by_jax > COUNT // JAX // 2
    assert tally.right >= 0.97 * COUNT, str(tally)
    assert tally.vague_numbers < 0.01 * tally.numbers, str(tally)


def scaled(name, by):
    """A lowering whose results are a little off."""
    right = lower._LOWERINGS[name]

    def lowering(code, equation, operands):
        (x,) = [code.array(v) for v in right(code, equation, operands)]
        factor = code.pool.constant(np.float32(by)).like(x.shape)
        return [code.map("MUL", "f", x.shape, x, factor)]

    return lowering


WRONG = {
    "tanh": scaled("tanh", 1 + 1e-5),
    "rev": lambda code, equation, operands: operands,
}


def computed_anew(trial):
    """The same trial; what JAX makes of it is kept."""
    other = copy.copy(trial)
    vars(other).pop("found", None)
    return other


def met_by(trial):
    """The primitives of a trial; none if JAX has no account of it."""
    try:
        trial.jaxprs  # noqa: B018
    except NotCoveredError:
        return set()
    return {p for jaxpr, _ in trial.needed for p in primitives(jaxpr)}


@pytest.mark.parametrize("name", WRONG)
def test_what_is_wrong_is_found(name, law, monkeypatch):
    """A lowering that is wrong, and little of the function in which it is."""
    monkeypatch.setitem(lower._LOWERINGS, name, WRONG[name])
    trials = [computed_anew(t) for t in law[0] if name in met_by(t)]
    trial = next(filter(judged, trials))
    less = smaller.minimised(trial, random_functions.is_wrong)
    assert judged(less)
    assert name in met_by(less)
    steps = smaller.steps_of(less.function)
    assert {*steps} <= {*smaller.steps_of(trial.function)}
    assert len(steps) <= 2


def test_the_seed_of_what_is_wrong_is_printed(monkeypatch, capsys):
    monkeypatch.setitem(lower._LOWERINGS, "add", scaled("sub", 1.0))
    about = "--functions", "1", "--seed", "12", "--jax", "0"
    monkeypatch.setattr(sys, "argv", ["random_functions.py", *about])
    with pytest.raises(SystemExit, match="1"):
        random_functions.main()
    told = capsys.readouterr().out
    assert "python tests/random_functions.py --functions 1 --seed 12" in told
    assert "1 functions: 0 right, 1 wrong" in told


# Primitives that nothing draws, and why.
NEVER = {
    "empty": "of other versions of JAX",
    "scatter_mul": "of other versions of JAX",
    "scatter_sub": "of other versions of JAX",
    "eq_to": "no public function makes it",
    "empty2": "loops, of some versions of JAX",
    "le_to": "searchsorted, of some versions of JAX",
    "lt_to": "searchsorted, of some versions of JAX",
    "lu_pivots_to_permutation": "it has no byte code, and says so",
}
NEW = "one_minus_square", "polynomial", "stack", "unstack"
NEW = {p for p in NEW if not hasattr(jax.lax, p)}
SEVERAL = "bool", "bools", "int", "ints", "pool", "reduce", "same", "scan_of_numbers"
SEVERAL += (
    "determinant",
    "searchsorted",
    "shift",
    "put",
    "split",
    "tile",
    "stack",
    "noise",
)
SHAPES = (3, 4), (2, 2, 3), (5,)


def test_every_primitive_is_drawn(law):
    """In those functions, or by an operation that chooses among several."""
    missing = lower.PRIMITIVES - {*law[1].met} - NEVER.keys() - NEW
    for seed in range(40):
        for name in SEVERAL if missing else ():
            missing -= {*primitives_of(name, seed)}
    assert not missing


def test_primitives_that_are_never_drawn_have_a_lowering():
    assert NEVER.keys() <= lower.PRIMITIVES


def primitives_of(name, seed):
    """Those of an operation on small operands."""
    inputs = [Input(SHAPES[k % 3], "leaf", "plain") for k in range(4)]
    step = Step(name, tuple(range(len(OPERATIONS[name].kinds))), seed)
    function = Function(seed, inputs, "", steps=[step], outputs=[len(inputs)])
    xs = [jax.ShapeDtypeStruct(x.shape, np.float32) for x in inputs]
    return primitives(jax.make_jaxpr(function)(*xs).jaxpr)


@pytest.mark.skipif(core.LEVEL == "plain", reason="there is no other level")
def test_kernels_of_other_processors(law):
    """The same bits where numbers are moved, or rounded once; else what is due."""
    seen = random_functions.against("plain", law[0][:40])
    assert seen.free
    assert not seen.unequal
    assert seen.largest[0] < random_functions.TIMES
