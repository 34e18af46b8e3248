"""Short campaigns; see tests/campaign.py and tests/mutants.py for longer ones."""

import pathlib
import sys

import pytest

import dynetjax as dy

sys.path.append(str(pathlib.Path(__file__).parents[2]))

import campaign
import mutants


def test_graphs():
    assert sum(1 for _ in campaign.run(20, seed=3, xla=0)) == 1


def test_the_seed_of_what_is_wrong_is_printed(monkeypatch, capsys):
    right = campaign.Exact.apply

    def wrong(self, name, xs, number):
        return right(self, name, xs, number) + (name == "tanh")

    monkeypatch.setattr(campaign.Exact, "apply", wrong)
    with pytest.raises(AssertionError):
        list(campaign.run(100, seed=3, xla=0))
    assert "python tests/campaign.py --graphs 20 --seed" in capsys.readouterr().out
    dy.renew_cg()


@pytest.mark.usefixtures("natively")
def test_mutants():
    """Some are refused, and whatever the others compute, they end."""
    _, tried = mutants.campaign(60, seed=1)
    assert tried.refused
    assert tried.run
