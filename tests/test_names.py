"""Every function has the name, the parameters and the defaults that it has in DyNet.

`tests/data/signatures.json` has what DyNet 2.1 takes, for its 144 public functions that
make an expression. Functions of one parameter take no keyword there, and theirs may
have any name.
"""

import inspect
import json
import pathlib
import subprocess
import sys

import numpy as np
import pytest

import dynetjax as dy

DATA = pathlib.Path(__file__).parent / "data"
SIGNATURES = json.loads((DATA / "signatures.json").read_text(encoding="utf-8"))
# Every public name in the modules ``dynet`` and ``_dynet`` of DyNet 2.1.2.
NAMES = (DATA / "names.txt").read_text(encoding="utf-8").split()
# Those that are not here, and why.
LACKING = {
    "ERRMSG": "a text that its functions print",
    "FloatValue": "holds an input's number for the C++ core; nothing takes one",
    "FloatVectorValue": "the same for several",
    "UnsignedValue": "the same for an index",
    "UnsignedVectorValue": "the same for several",
    "print_function": "what a `from __future__ import` leaves behind",
}


def parameters(name):
    """Those of DyNet's function."""
    inside = SIGNATURES[name][1:-1]
    return list(inspect.signature(eval(f"lambda {inside}: None")).parameters.values())


def shown(some):
    return [(p.name, repr(p.default), p.kind) for p in some]


def test_all_are_there():
    assert len(SIGNATURES) == 144


def test_every_name_of_dynet():
    """Under DyNet's own name, there is what it has, but for what is listed here."""
    program = "import dynetjax.dropin, dynet; print(*dir(dynet))"
    words = [sys.executable, "-c", program]
    ours = subprocess.run(words, capture_output=True, text=True, check=True).stdout
    assert set(NAMES) - set(ours.split()) == LACKING.keys()


def test_star_import():
    names = {}
    exec("from dynetjax import *", names)
    assert SIGNATURES.keys() <= names.keys()


@pytest.mark.parametrize("name", SIGNATURES)
def test_parameters(name):
    theirs = parameters(name)
    every = list(inspect.signature(getattr(dy, name)).parameters.values())
    ours, further = every[: len(theirs)], every[len(theirs) :]
    if theirs[0].kind is inspect.Parameter.POSITIONAL_ONLY:
        assert [p.default for p in ours] == [inspect.Parameter.empty]
    else:
        assert shown(ours) == shown(theirs)
    assert all(p.default is not p.empty for p in further)


@pytest.fixture
def xs():
    dy.renew_cg()
    return [dy.inputVector([1.0, 2.0]), dy.inputVector([3.0, 5.0])]


KEYWORDS = {
    "cmult": (lambda x, y: dy.cmult(y=y, x=x), [3, 10]),
    "cdiv": (lambda x, y: dy.cdiv(y=x, x=y), [3, 2.5]),
    "layer_norm": (lambda x, y: dy.layer_norm(x=x, b=x, g=y), [-2, 7]),
    "concatenate": (lambda x, y: dy.concatenate(d=1, xs=[x, y]), [[1, 3], [2, 5]]),
    "logsumexp": (lambda x, y: dy.logsumexp(xs=[x]), [1, 2]),
}


@pytest.mark.parametrize("name", KEYWORDS)
def test_keywords(xs, name):
    call, expected = KEYWORDS[name]
    np.testing.assert_allclose(call(*xs).npvalue(), expected, rtol=1e-6)


@pytest.mark.parametrize("name", ["tanh", "sum_elems", "inverse", "sparsemax"])
def test_one_operand_has_no_keyword(xs, name):
    with pytest.raises(TypeError, match="positional-only"):
        getattr(dy, name)(x=xs[0])
