"""Graphs as text, and nodes by their numbers."""

import re

import numpy as np
import pytest

import dynetjax as dy
from dynetjax.engine.runtime import RUNTIME


@pytest.fixture
def model():
    return dy.ParameterCollection()


def example(model):
    """Its nodes: input, W, product, sum with b, tanh, pick."""
    W = model.parameters_from_numpy(np.array([[1.0, 2.0], [3.0, 4.0]]), name="W")
    b = model.add_parameters(2, init=0.5, name="b")
    dy.renew_cg()
    x = dy.inputVector([1.0, -1.0])
    y = dy.tanh(W * x + b)
    return x, y, dy.pick(y, 1)


def test_print_text_graphviz(model, capsys):
    example(model)
    assert dy.print_text_graphviz() is None
    assert capsys.readouterr().err == (
        "digraph G {\n"
        "  rankdir=LR;\n"
        "  nodesep=.05;\n"
        '  N0 [label="v0 = input({2})"];\n'
        '  N1 [label="v1 = parameters({2,2}) @ /W"];\n'
        '  N2 [label="v2 = v1 * v0"];\n'
        '  N3 [label="v3 = parameters({2}) @ /b"];\n'
        '  N4 [label="v4 = v2 + v3"];\n'
        '  N5 [label="v5 = tanh(v4)"];\n'
        '  N6 [label="v6 = pick(v5)"];\n'
        "  N1 -> N2;\n"
        "  N0 -> N2;\n"
        "  N2 -> N4;\n"
        "  N3 -> N4;\n"
        "  N4 -> N5;\n"
        "  N5 -> N6;\n"
        "}\n"
    )


def test_numbers_are_those_that_expressions_show(model):
    _, y, z = example(model)
    for e, number in (y, 5), (z, 6):
        assert str(e).startswith(f"expression {number}/")
        assert dy.cg().inc_forward_vec(number) == e.vec_value()


def test_what_operations_are_made_of_has_no_number(model, capsys):
    """An LSTM's zeros, for one."""
    lstm = dy.VanillaLSTMBuilder(1, 2, 2, model)
    dy.renew_cg()
    h = lstm.initial_state().add_input(dy.inputVector([1.0, 2.0])).output()
    dy.print_text_graphviz()
    text = capsys.readouterr().err
    number = int(str(h).split()[1].split("/")[0])
    assert f"N{number} [" in text
    assert f"N{number + 1} [" not in text
    assert "zeros" not in text


def test_dump(model, capsys, tmp_path):
    x, _, z = example(model)
    dy.dump_cg()
    assert capsys.readouterr().out.startswith(
        "Node 0\nValue: \n 1\n-1\nGradient: (not computed)\n"
        "Node 1\nValue: \n1 2\n3 4\nGradient: (not computed)\n"
    )
    z.backward(full=True)
    dy.dump_cg(show_values=False)
    numbers = capsys.readouterr().out.split("Gradient: \n")[1].splitlines()[:2]
    np.testing.assert_allclose([float(n) for n in numbers], x.gradient(), rtol=1e-5)
    dy.dump_cg(str(tmp_path / "dump"), show_gradients=False, nan_check_only=True)
    assert (tmp_path / "dump").read_text() == "".join(
        f"Node {k}\nValue: \nvalid\n" for k in range(7)
    )


def test_dump_of_numbers_that_are_not_finite(capsys):
    dy.renew_cg()
    dy.log(dy.inputVector([0.0, 1.0]))
    dy.dump_cg(show_gradients=False, nan_check_only=True)
    assert capsys.readouterr().out.endswith("Node 1\nValue: \ninvalid\n")


def test_dump_of_an_empty_graph(capsys):
    dy.renew_cg()
    dy.dump_cg()
    assert capsys.readouterr().out == "(the graph is empty)\n"


class TestComputationGraph:
    def test_one_object(self):
        assert dy.renew_cg() is dy.cg()
        assert isinstance(dy.cg(), dy.ComputationGraph)
        with pytest.raises(RuntimeError, match="there is one, and no other"):
            dy.ComputationGraph()

    def test_version(self):
        before = dy.cg_version()
        assert dy.cg().renew() is dy.cg()
        assert dy.cg().version() == dy.cg_version() == before + 1

    def test_nodes_by_number(self, model):
        x, _, z = example(model)
        graph = dy.cg()
        assert len(graph) == 7
        value = z.value()
        assert graph.inc_forward_scalar(6) == graph.forward_scalar(6) == value
        x.set([0.0, 0.0])
        graph.forward(6)
        graph.inc_forward(6)
        assert graph.forward_vec(0) == [0, 0]
        assert graph.forward_scalar(6) == pytest.approx(np.tanh(0.5))
        graph.backward(6, full=True)
        slope = 1 - np.tanh(0.5) ** 2
        np.testing.assert_allclose(x.gradient(), [3 * slope, 4 * slope], rtol=1e-5)

    def test_no_such_node(self, model):
        example(model)
        with pytest.raises(IndexError, match="there is no node of this number"):
            dy.cg().forward(7)

    def test_checkpoints(self, model):
        example(model)
        dy.cg().checkpoint()
        x = dy.zeros(3)
        dy.cg().revert()
        assert len(dy.cg()) == 7
        with pytest.raises(RuntimeError):
            x.value()

    def test_printing(self, model, capsys):
        example(model)
        dy.cg().print_graphviz()
        assert capsys.readouterr().err.startswith("digraph G {")
        dy.cg().dump(show_values=False, show_gradients=False)
        assert capsys.readouterr().out == "".join(f"Node {k}\n" for k in range(7))

    def test_inputs(self):
        dy.renew_cg()
        matrix = dy.cg().inputMatrixLiteral([1, 2, 3, 4], (2, 2))
        assert matrix.npvalue().tolist() == [[1, 3], [2, 4]]
        sparse = dy.cg().inputSparseTensor([[1], [0]], [5.0], (2, 2))
        assert sparse.npvalue().tolist() == [[0, 0], [5, 0]]


class TestDrawing:
    def test_print_graphviz(self, model, capsys):
        _, y, _ = example(model)
        dy.print_graphviz(expression_names={y: "hidden"})
        text = capsys.readouterr().out
        assert text.startswith("digraph G {")
        assert '[label="/W\\n{2,2}", shape=ellipse]' in text
        assert '[label="tanh\\nhidden\\n{2}"]' in text
        assert text.count("->") == 6

    def test_without_dims(self, model, capsys):
        example(model)
        dy.print_graphviz(show_dims=False)
        assert "{2}" not in capsys.readouterr().out

    def test_of_an_expression(self, model):
        """What it is not made of is left out."""
        _, y, _ = example(model)
        text = dy.dot(y)
        assert "tanh" in text
        assert "pick" not in text

    def test_large_graphs_are_folded(self, model, monkeypatch):
        """What runs together is one box; what is computed on the way is in it."""
        W, table = model.add_parameters((2, 2)), model.add_lookup_parameters((9, 2))
        dy.renew_cg()
        h = dy.inputVector([1.0, 2.0])
        for k in range(60):
            h = dy.tanh(W * h + table[k % 9])
        text = dy.dot(dy.squared_norm(h))
        assert re.search(r"once, \d+ trips? of \d+ lanes\\n60 x lookup \{2}", text)
        many = [rf"60 x {name} \{{2}}" for name in ("matmul", "add", "tanh")]
        loop = r"\\n".join([r"loop, 60 trips( of \d+ lanes?)?", *many])
        assert re.search(loop, text)
        assert text.count("->") == 5  # input, W, lookups, the loop; the norm
        assert dy.dot(fold=False).count("->") == 5 * 60 + 1
        for tier in "auto", "xla":
            monkeypatch.setattr(RUNTIME, "tier", tier)
            h.value(recalculate=True)
            assert re.search(loop, dy.dot())

    def test_lines_of_the_user(self):
        dy.init(debug=True)
        try:
            dy.renew_cg()
            text = dy.dot(dy.tanh(dy.inputVector([1.0])))
        finally:
            dy.init(debug=False)
            dy.renew_cg()
        assert "test_listing.py" in text

    def test_notebooks(self, monkeypatch):
        """SVG by graphviz, where that is installed."""
        dy.renew_cg()
        x = dy.tanh(dy.inputVector([1.0]))
        asked = []

        class Source:
            def __init__(self, text):
                asked.append(text)

            def pipe(self, **options):
                assert options == {"format": "svg", "encoding": "utf-8"}
                return "<svg/>"

        fake = type("graphviz", (), {"Source": Source})
        monkeypatch.setattr("importlib.import_module", lambda name: fake)
        assert x._repr_svg_() == "<svg/>"
        assert dy.cg()._repr_svg_() == "<svg/>"
        assert asked == [dy.dot(x), dy.dot()]

    def test_notebooks_without_graphviz(self, monkeypatch):
        dy.renew_cg()
        x = dy.tanh(dy.inputVector([1.0]))

        def missing(name):
            raise ImportError(name)

        monkeypatch.setattr("importlib.import_module", missing)
        assert x._repr_svg_() is None
        dy.renew_cg()
        assert x._repr_svg_() is None


def test_write_to_a_file_that_cannot_be(tmp_path, model):
    example(model)
    with pytest.raises(OSError, match="No such file"):
        dy.dump_cg(str(tmp_path / "none" / "dump"))
