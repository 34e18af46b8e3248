"""The report about an installation."""

import subprocess
import sys
from pathlib import Path

import numpy as np

import dynetjax as dy
from dynetjax.inspect import doctor


def report(capsys, **options):
    """(how many findings ask for something, the lines)."""
    count = doctor.doctor(**options)
    return count, capsys.readouterr().out.splitlines()


def test_all_is_well(capsys):
    _, lines = report(capsys, seconds=0.1)
    titles = [line[:14].strip() for line in lines]
    for title in (*doctor.PACKAGES, "tier 0", "devices", "cache", "first update"):
        assert title in titles
    assert f"numpy          {np.__version__}" in lines
    assert f"package        {Path(dy.__file__).parent}" in lines
    assert "gradients      ok (against finite differences)" in lines
    assert any("sentences/s (of 20 words" in line for line in lines)
    assert "training" not in titles


def test_advice(capsys, monkeypatch, tmp_path):
    monkeypatch.setattr(doctor, "PACKAGES", ("absent-package",))
    monkeypatch.delenv("JAX_COMPILATION_CACHE_DIR", raising=False)
    monkeypatch.setenv("DYNETJAX_CACHE_DIR", "none")
    count, lines = report(capsys, seconds=0.05)
    advice = [line.strip() for line in lines if line.strip().startswith("->")]
    assert count == len(advice) >= 2
    for text in ("pip install absent", "DYNETJAX_CACHE_DIR"):
        assert any(text in line for line in advice)
    assert lines[-1] == f"{count} problems"


def test_a_cache_that_cannot_be_used(capsys, monkeypatch, tmp_path):
    file = tmp_path / "file"
    file.write_text("")
    monkeypatch.delenv("JAX_COMPILATION_CACHE_DIR", raising=False)
    monkeypatch.setenv("DYNETJAX_CACHE_DIR", str(file))
    _, lines = report(capsys, seconds=0.05)
    assert any("cannot be used" in line for line in lines)


def test_a_wrong_gradient_is_told(capsys, monkeypatch):
    monkeypatch.setattr(doctor, "STEP", 50.0)
    dy.reset_random_seed(1)
    _, lines = report(capsys, seconds=0.05)
    (line,) = [line for line in lines if line.startswith("gradients")]
    assert "finite differences give" in line


def test_command():
    command = [sys.executable, "-m", "dynetjax", "doctor"]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    assert "speed" in done.stdout
    assert done.returncode in (0, 1)
    assert not done.stderr
