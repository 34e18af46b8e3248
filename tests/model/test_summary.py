"""Collections as trees and tables."""

import re

import dynetjax as dy
from dynetjax.model.summary import MOST


def test_a_tree():
    m = dy.ParameterCollection()
    encoder = m.add_subcollection("encoder")
    encoder.add_subcollection("lstm").add_parameters((20, 100), name="W")
    encoder.add_parameters(3, name="b")
    m.add_parameters((3, 4), name="W")
    m.add_lookup_parameters((50, 4), name="E")
    assert repr(m).splitlines() == [
        "ParameterCollection /: 2,215 numbers",
        "  W         {3,4}        12",
        "  E         50 x {4}    200",
        "  encoder/            2,003",
        "    b       {3}           3",
        "    lstm/             2,000",
        "      W     {20,100}  2,000",
    ]
    assert repr(encoder).splitlines()[:2] == [
        "ParameterCollection /encoder/: 2,003 numbers",
        "  b      {3}           3",
    ]


def test_an_empty_one():
    assert repr(dy.ParameterCollection()) == "ParameterCollection /: 0 numbers"


def test_what_was_loaded_has_a_name_of_its_own(tmp_path):
    m = dy.ParameterCollection()
    m.add_parameters(3, name="b").save(tmp_path / "file", "/old/b")
    into = dy.ParameterCollection().add_subcollection("new")
    into.load_param(tmp_path / "file", "/old/b")
    assert "/" in repr(into).splitlines()[1]
    assert repr(into).splitlines()[-1].split() == ["b", "{3}", "3"]


def test_inner_ones_are_closed_where_there_are_many():
    """No number is lost, and the outer ones are open as long as they fit."""
    m = dy.ParameterCollection()
    for _ in range(MOST):
        dy.VanillaLSTMBuilder(2, 4, 5, m)
    lines = repr(m).splitlines()
    assert len(lines) == MOST + 1
    assert lines[1].split() == ["vanilla-lstm-builder/", "420"]
    dy.VanillaLSTMBuilder(2, 4, 5, m)
    lines = repr(m).splitlines()
    assert len(lines) == MOST + 1
    assert lines[-1].split() == ["2", "more", "840"]
    numbers = [int(line.split()[-1].replace(",", "")) for line in lines[1:]]
    assert sum(numbers) == m.parameter_count()


def test_a_table_for_notebooks():
    """With the same lines; names are text, and no tags."""
    m = dy.ParameterCollection()
    m.add_subcollection("<b>").add_parameters((3, 4), name="a&b")
    html = m._repr_html_()
    assert "&lt;b&gt;" in html
    assert "a&amp;b" in html
    assert "<b>" not in html
    assert len(re.findall("<tr>", html)) == len(repr(m).splitlines())
    assert "<td>{3,4}</td><td>12</td>" in html
