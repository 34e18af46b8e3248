"""Every public name has an example in its docstring, and it prints what it says."""

import doctest
import inspect

import numpy as np
import pytest

import dynetjax as dy

PUBLIC = {
    name: value
    for name, value in vars(dy).items()
    if not name.startswith("_") and not inspect.ismodule(value)
}
NAMES = {"dy": dy, "np": np}


@pytest.mark.parametrize("name", PUBLIC)
def test_example(name, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    dy.renew_cg()
    dy.reset_random_seed(1)
    text = inspect.getdoc(PUBLIC[name]) or ""
    example = doctest.DocTestParser().get_doctest(text, dict(NAMES), name, None, 0)
    assert example.examples, f"{name} has no example"
    told: list[str] = []
    failed, _ = doctest.DocTestRunner(verbose=False).run(example, out=told.append)
    assert not failed, "".join(told)
