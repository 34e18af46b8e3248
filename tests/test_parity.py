"""Programs whose values and gradients were recorded from DyNet 2.1.2 (C++, CPU).

`data/parity.json` has the programs, `data/parity.npz` what they were given and what
DyNet computed. A program sees the module as `dy`, its arrays as `A`, and makes
parameters with ``P(name)`` and tables with ``L(name)``; it fills `out` with
expressions, `val` with plain values, and perhaps `loss`. Without one, the loss is the
sum of every output times the weights recorded under R. Programs that say
`LSTMBuilder` mean the one of release 2.1, which is `VanillaLSTMBuilder` here. Those
that read files find them in FILES, and write to TMP.
"""

import builtins
import json
import pathlib

import numpy as np
import pytest

import dynetjax as dy

DATA = pathlib.Path(__file__).parent / "data"
CASES = json.loads((DATA / "parity.json").read_text(encoding="utf-8"))
NUMBERS = {
    "bool": (bool, np.bool_),
    "int": (int, np.integer),
    "float": (float, np.floating),
}


class Release21:
    """The module under the names of release 2.1."""

    LSTMBuilder = dy.VanillaLSTMBuilder

    def __getattr__(self, name):
        return getattr(dy, name)


@pytest.fixture(scope="module")
def arrays():
    """All recorded arrays, by ``<case>/<section>/<name>``."""
    with np.load(DATA / "parity.npz") as stored:
        return {key: stored[key] for key in stored.files}


def recorded(arrays, case):
    """What is recorded of one case, by ``<section>/<name>``."""
    start = case["id"] + "/"
    return {k[len(start) :]: v for k, v in arrays.items() if k.startswith(start)}


def run(case, stored, folder):
    """Execute a case; its results by ``<section>/<name>``."""
    dy.renew_cg()
    pc, made = dy.ParameterCollection(), {}
    inputs = {k[3:]: v for k, v in stored.items() if k.startswith("in/")}

    def once(make):
        def named(name):
            if name not in made:
                made[name] = make(inputs[name])
            return made[name]

        return named

    names = {
        "dy": Release21(),
        "np": np,
        "pc": pc,
        "A": inputs,
        "G": made,
        "out": {},
        "val": {},
        "TMP": str(folder),
        "FILES": str(DATA / "files"),
        "P": once(pc.parameters_from_numpy),
        "L": once(pc.lookup_parameters_from_numpy),
    }
    exec(compile(case["program"], case["id"], "exec"), names)
    got = {f"val/{k}": v for k, v in names["val"].items()}
    got |= {f"out/{k}": e.npvalue() for k, e in names["out"].items()}
    got |= {f"dim/{k}": e.dim() for k, e in names["out"].items()}
    loss = names.get("loss")
    if loss is None and names["out"]:
        loss = weighted(names["out"], stored)
    if loss is not None:
        got["loss/value"] = loss.npvalue()
        if made:
            loss.backward()
            got |= {f"grad/{k}": p.grad_as_array() for k, p in made.items()}
    return got


def weighted(out, stored):
    """The sum of every output times its recorded weights."""
    terms = []
    for name, e in out.items():
        if f"R/{name}" in stored:
            weights = dy.inputTensor(stored[f"R/{name}"], batched=e.dim()[1] > 1)
            terms.append(dy.sum_batches(dy.dot_product(e, weights)))
    return dy.esum(terms) if terms else None


def assert_recorded(key, got, expected, case):
    """Numbers within the case's tolerance, of the same shape; all else by repr."""
    if isinstance(expected, str):
        assert repr(got) == expected, key
        return
    if key.startswith("val/"):
        kind = case["kinds"][key[4:]]
        assert isinstance(got, NUMBERS.get(kind, object)), key
        assert kind in NUMBERS or type(got).__name__ == kind, key
    assert np.shape(got) == expected.shape, key
    np.testing.assert_allclose(
        got, expected, rtol=case["rtol"], atol=case["atol"], err_msg=key
    )


@pytest.mark.parametrize("case", CASES, ids=[case["id"] for case in CASES])
@pytest.mark.filterwarnings("default")  # of NumPy, inside the recorded programs
def test_as_in_dynet(case, arrays, tmp_path):
    stored = recorded(arrays, case)
    if "raises" in case:
        with pytest.raises(getattr(builtins, case["raises"])):
            run(case, stored, tmp_path)
        return
    got = run(case, stored, tmp_path)
    expected = {k: v for k, v in stored.items() if not k.startswith(("in/", "R/"))}
    expected |= {f"dim/{k}": v for k, v in case.get("dims", {}).items()}
    expected |= {f"val/{k}": v for k, v in case.get("text", {}).items()}
    for key, value in expected.items():
        assert_recorded(key, got[key], value, case)
