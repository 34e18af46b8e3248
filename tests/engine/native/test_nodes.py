"""What is wrong with a node is told, and its graph is as it was before."""

import numpy as np
import pytest
from bench import Tables, node, plain, program, stored, words

from dynetjax.core.registry import GATHER, INPUT, JOIN, LOOKUP, REDUCE
from dynetjax.engine.ir.draws import Draws
from dynetjax.engine.native import core

TWO, SUM, GATHERED, JOINED, ROWS, PLUS, SCALED, DRAWN = range(8)
ONES = np.ones(2, np.float32)
TABLE = np.arange(10.0, dtype=np.float32).reshape(5, 2)


def programs():
    """By number, all with two numbers a row."""
    return {
        TWO: plain(INPUT, 2),
        SUM: plain(REDUCE, 2),
        GATHERED: plain(GATHER, 2),
        JOINED: plain(JOIN, 4, pieces=2),
        ROWS: plain(LOOKUP, 2, table=0, weighted=True),
        PLUS: program(lambda u, x: u + x, (2,), [(2,)], [(2,)]),
        SCALED: program(lambda x, a: x * a, (2,), (), [(2,)], "f"),
        DRAWN: program(lambda x, k: x + k[0], (2,), (), [(2,)], "k"),
    }


PROGRAMS = programs()


def given(*rows):
    """An input of so many rows."""
    return node(TWO, lanes=len(rows), given=np.array(rows, np.float32))


def row():
    return given((1, 2))


def batch():
    return given((1, 2), (3, 4), (5, 6))


def elsewhere():
    """A node that something else has computed, which nobody looks at."""
    return node(99, 7, lanes=0)


class Mistaken(Tables):
    """Answers as `answers` has it."""

    def __init__(self, **answers):
        super().__init__(PROGRAMS, [np.array([10.0, 20.0])], TABLE)
        for name, answer in answers.items():
            attribute = name == "draws"
            setattr(self, name, answer if attribute else lambda *args, x=answer: x)


def extended(graph, nodes, *more):
    outcome = graph.extend(stored(nodes), len(nodes) - len(more))
    assert outcome == -1
    return graph


def rows(graph, number):
    return np.frombuffer(graph.rows(number), np.float32).tolist()


BROKEN = [
    ("a node without rows", ValueError, lambda: [node(TWO, lanes=0)]),
    ("a node without rows", ValueError, lambda: [node(TWO, lanes=-1)]),
    ("an input of another size", ValueError, lambda: [given((1, 2, 3))]),
    (
        "an input of another size",
        ValueError,
        lambda: [node(TWO, given=np.ones(1, np.float64))],
    ),
    ("an input without numbers", ValueError, lambda: [node(TWO)]),
    ("bytes-like", TypeError, lambda: [node(TWO, given=3)]),
    ("a node reads a later one", ValueError, lambda: [node(SUM, 3)]),
    ("a node reads a later one", ValueError, lambda: [node(SUM, 2)]),
    ("a node reads a later one", ValueError, lambda: [node(SUM, -2)]),
    ("a row of another size", ValueError, lambda: [node(JOINED, 0), node(SUM, 2)]),
    ("a node reads another batch", ValueError, lambda: [node(SUM, 1, lanes=2)]),
    ("a node reads another batch", ValueError, lambda: [node(PLUS, 1)]),
    ("an operand is missing", ValueError, lambda: [node(PLUS)]),
    ("an operand is missing", ValueError, lambda: [node(PLUS, 0, 0)]),
    ("runtime data is missing", ValueError, lambda: [node(SCALED, 0)]),
    (
        "runtime data is missing",
        ValueError,
        lambda: [node(SCALED, 1, data=words([[1.0, 2.0]], "f"), lanes=3)],
    ),
    ("runtime data is missing", ValueError, lambda: [node(DRAWN, 0)]),
    ("rows for another batch", ValueError, lambda: [node(ROWS, data=[1], lanes=2)]),
    ("rows for another batch", ValueError, lambda: [node(ROWS, data=[1, 2])]),
    ("rows for another batch", ValueError, lambda: [node(ROWS)]),
    ("elements for another batch", ValueError, lambda: [node(SUM, 1, data=[0, 1])]),
    (
        "elements for another batch",
        ValueError,
        lambda: [node(GATHERED, 1, data=[0, 1])],
    ),
    ("rows for another batch", ValueError, lambda: [node(GATHERED, 1, lanes=2)]),
    ("elements of several nodes", ValueError, lambda: [node(GATHERED, data=[0])]),
    ("no such batch element", ValueError, lambda: [node(SUM, 1, data=[3])]),
    ("no such batch element", ValueError, lambda: [node(SUM, 1, data=[-1])]),
    ("no such batch element", ValueError, lambda: [node(GATHERED, 0, data=[1])]),
    ("no such batch element", ValueError, lambda: [node(GATHERED, -1, data=[0])]),
    ("a batch of nothing", ValueError, lambda: [node(GATHERED, -1)]),
    ("too many pieces", ValueError, lambda: [node(JOINED, 0, 0, 0)]),
]


@pytest.mark.parametrize(("message", "error", "nodes"), BROKEN)
def test_nodes(message, error, nodes):
    """The graph computes on as if the broken node had not been there."""
    graph = core.Executor(Mistaken())
    before = [row(), batch()]
    extended(graph, before, *before)
    several = stored([*before, *nodes()])
    with pytest.raises(error, match=message):
        graph.extend(several, 2)
    with pytest.raises(IndexError, match="no such node"):
        graph.rows(2)
    several.cut(2)
    for good in (
        node(PLUS, 1, lanes=3),
        node(ROWS, data=[4, 0], lanes=2),
        node(SUM, 0, 0),
    ):
        several.add(*good)
    assert graph.extend(several, 2) == -1
    assert rows(graph, 1) == [1, 2, 3, 4, 5, 6]
    assert rows(graph, 2) == [11, 22, 13, 24, 15, 26]
    assert rows(graph, 3) == [8, 9, 0, 1]
    assert rows(graph, 4) == [2, 4]
    none = np.zeros(2, np.float32)
    graph.backward([(4, ONES)], 0, True, lambda kind: none)
    assert np.frombuffer(graph.gradient(0), np.float32).tolist() == [2, 2]


@pytest.mark.parametrize("nodes", [None, [], (), [row()]], ids=str)
def test_what_is_no_stored_nodes(nodes):
    with pytest.raises(TypeError, match="no StoredNodes"):
        core.Executor(Mistaken()).extend(nodes, 0)


@pytest.mark.parametrize(
    ("message", "error", "answers", "nodes"),
    [
        ("no Program", TypeError, {"program": 3}, [row()]),
        (
            "a weight is too small",
            ValueError,
            {"weight": np.zeros(1, np.float32)},
            [row(), node(PLUS, 0)],
        ),
        (
            "starts of random numbers are no list",
            TypeError,
            {"draws": Draws(lambda: 7, None)},
            [row(), node(DRAWN, 0, data=[7])],
        ),
        (
            "negative",
            OverflowError,
            {"draws": Draws(lambda: -1, [])},
            [row(), node(DRAWN, 0, data=[7])],
        ),
        (
            "not be interpreted as an integer",
            TypeError,
            {"draws": Draws(lambda: 7, ["4"])},
            [row(), node(DRAWN, 0, data=[7])],
        ),
        (
            "rows of a table have another size",
            ValueError,
            {"lookup": np.zeros((1, 3), np.float32)},
            [node(ROWS, data=[0])],
        ),
        ("not callable", TypeError, {}, None),
    ],
)
def test_answers(message, error, answers, nodes):
    tables = Mistaken(**answers)
    if nodes is None:
        tables.program, nodes = None, [row()]
    graph = core.Executor(tables)
    with pytest.raises(error, match=message):
        graph.extend(stored(nodes), 0)
    with pytest.raises(IndexError, match="no such node"):
        graph.rows(0)


def test_no_program():
    graph = core.Executor(Mistaken())
    before = [row()]
    extended(graph, before, *before)
    assert graph.extend(stored([row(), node(99, 0)]), 1) == 99
    assert graph.extend(stored([row(), node(SUM, 0)]), 1) == -1
    assert rows(graph, 1) == [1, 2]


class TestRowsOfOtherTiers:
    def graph(self, older):
        tables = Mistaken(rows=older)
        return core.Executor(tables)

    def test_they_are_asked_for(self):
        graph = self.graph(np.array([[1, 2], [3, 4]], np.float32))
        nodes = [elsewhere(), elsewhere(), node(PLUS, 1, lanes=2)]
        assert graph.extend(stored(nodes), 2) == -1
        assert rows(graph, 2) == [11, 22, 13, 24]
        assert rows(graph, 1) == [1, 2, 3, 4]

    @pytest.mark.parametrize(
        "older",
        [np.float32(1), np.zeros(3), np.zeros((0, 2), np.float32), b"abc"],
        ids=["a number", "float64", "nothing", "bytes"],
    )
    def test_broken(self, older):
        graph = self.graph(older)
        with pytest.raises(ValueError, match=r"rows are not \[batch, \*shape\]"):
            graph.extend(stored([elsewhere(), node(PLUS, 0)]), 1)
        with pytest.raises(IndexError, match="no such node"):
            graph.rows(0)

    def test_of_another_size(self):
        graph = self.graph(np.zeros((1, 3), np.float32))
        with pytest.raises(ValueError, match="a row of another size"):
            graph.extend(stored([elsewhere(), node(PLUS, 0)]), 1)

    def test_nodes_that_are_not_there(self):
        graph = self.graph(None)
        with pytest.raises(ValueError, match="fewer nodes than were computed"):
            graph.extend(stored([row()]), 2)
        with pytest.raises(ValueError, match="less than no nodes"):
            graph.extend(stored([row()]), -1)

    def test_backward_goes_round_them(self):
        graph = self.graph(np.array([[1, 2]], np.float32))
        nodes = [elsewhere(), elsewhere(), node(PLUS, 1, index=5)]
        assert graph.extend(stored(nodes), 2) == -1
        found = np.zeros(2, np.float32)
        roots = [(2, ONES)]
        ops, tables = graph.backward(roots, 5, False, lambda kind: found)
        assert (ops, tables, found.tolist()) == ([PLUS], [], [1, 1])
        assert graph.gradient(1) is None
        with pytest.raises(IndexError, match="no such node"):
            graph.backward(0, 5, False, lambda kind: found)


class TestBackward:
    @pytest.fixture
    def graph(self):
        nodes = [row(), node(PLUS, 0, index=1), batch()]
        return extended(core.Executor(Mistaken()), nodes, *nodes)

    @pytest.mark.parametrize("root", [-1, 3])
    def test_no_such_node(self, graph, root):
        with pytest.raises(IndexError, match="no such node"):
            graph.backward(root, 0, False, None)
        to = np.zeros(3, order="F")
        for read in graph.rows, lambda n: graph.array(n, to), graph.gradient:
            with pytest.raises(IndexError, match="no such node"):
                read(root)

    def test_root_of_several_numbers(self, graph):
        with pytest.raises(ValueError, match="has another size"):
            graph.backward(1, 0, False, lambda kind: None)
        with pytest.raises(ValueError, match="has another size"):
            graph.backward([(2, ONES)], 0, False, lambda kind: None)

    def test_root_that_is_no_pair(self, graph):
        with pytest.raises(TypeError, match="a root is no pair"):
            graph.backward([1], 0, False, lambda kind: None)

    def test_several_roots(self, graph):
        """Their gradients are added up; the second reads the first."""
        nodes = [row(), node(PLUS, 0, index=1), node(PLUS, 1, index=2)]
        graph = extended(core.Executor(Mistaken()), nodes, *nodes)
        found = np.zeros(2, np.float32)
        graph.backward([(1, ONES), (2, 2 * ONES)], 2, False, lambda kind: found)
        assert found.tolist() == [5, 5]

    def test_gradient_that_is_too_small(self, graph):
        with pytest.raises(ValueError, match="a gradient is too small"):
            graph.backward([(1, ONES)], 1, False, lambda kind: np.zeros(1, np.float32))

    def test_gradient_that_cannot_be_written(self, graph):
        with pytest.raises((BufferError, ValueError), match=r"read-only|writable"):
            graph.backward([(1, ONES)], 1, False, lambda kind: bytes(8))

    def test_cut(self, graph):
        with pytest.raises(ValueError, match="less than no nodes"):
            graph.cut(-1)
        with pytest.raises(OverflowError, match="more than 32 bits"):
            graph.cut(1 << 32)


def test_nobody_computes_a_graph_that_is_computed():
    """Not even one that the executor asks."""
    tables = Mistaken()
    graph = core.Executor(tables)
    refused = []

    def lookup(kind, ids):
        for act in (
            lambda: graph.extend(stored([row()]), 0),
            lambda: graph.backward(0, 0, False, None),
            lambda: graph.cut(0),
        ):
            with pytest.raises(RuntimeError, match="the graph is being computed"):
                act()
            refused.append(act)
        return TABLE[:1]

    tables.lookup = lookup
    nodes = [node(ROWS, data=[0])]
    extended(graph, nodes, *nodes)
    assert len(refused) == 3
    assert rows(graph, 0) == [0, 1]


@pytest.mark.parametrize(
    ("message", "error", "nodes"),
    [
        ("no such node", IndexError, [row(), row()]),
        ("no such node", IndexError, [node(SUM, -1)]),
        ("runtime data is missing", ValueError, [node(ROWS, data=[0])]),
        ("runtime data is missing", ValueError, [node(GATHERED, data=[0])]),
    ],
)
def test_nodes_that_become_fewer(message, error, nodes):
    """While they are read: what asks for a program cuts them."""

    class Cuts(Mistaken):
        def program(self, number):
            several.cut(0)
            return PROGRAMS[number]

    several = stored(nodes)
    graph = core.Executor(Cuts())
    with pytest.raises(error, match=message):
        graph.extend(several, 0)
    with pytest.raises(IndexError, match="no such node"):
        graph.rows(0)


class TestCuts:
    def test_in_the_middle_of_what_was_computed_at_once(self):
        graph = core.Executor(Mistaken())
        nodes = [row(), node(PLUS, 0), node(PLUS, 0), node(PLUS, 2), node(SUM, 1, 2)]
        extended(graph, nodes, *nodes)
        graph.cut(2)
        with pytest.raises(IndexError, match="no such node"):
            graph.rows(2)
        new = [node(SUM, 1, 1), node(PLUS, 2)]
        extended(graph, [*nodes[:2], *new], *new)
        assert rows(graph, 3) == [32, 64]
        found = np.zeros(2, np.float32)
        graph.backward([(3, ONES)], 0, True, lambda kind: found)
        assert found.tolist() == [3, 3]
        assert np.frombuffer(graph.gradient(0), np.float32).tolist() == [2, 2]

    def test_what_was_cut_is_not_reached(self):
        """No parameter of its own counts as one that was read."""
        graph = core.Executor(Mistaken())
        nodes = [row(), node(PLUS, 0, index=1)]
        extended(graph, nodes[:1], nodes[0])
        extended(graph, nodes, nodes[1])
        graph.cut(1)
        new = [node(ROWS, data=[2], index=1), node(SUM, 0, 1)]
        extended(graph, [nodes[0], *new], *new)
        none = np.zeros(2, np.float32)
        ops, tables = graph.backward([(2, ONES)], 2, False, lambda k: none)
        assert ops == [ROWS]
        assert [table for table, _, _ in tables] == [0]

    def test_rows_of_other_tiers_are_asked_for_again(self):
        tables = Mistaken(rows=np.array([[1, 2]], np.float32))
        graph = core.Executor(tables)
        for answer in (1, 3):
            tables.rows = lambda number, answer=answer: TABLE[answer][None]
            nodes = [elsewhere(), node(PLUS, 0)]
            extended(graph, nodes, nodes[1])
            assert rows(graph, 1) == (TABLE[answer] + [10, 20]).tolist()
            graph.cut(1)

    def test_again_and_again(self):
        """Places are used again: the arrays of cut nodes hold no memory."""
        graph = core.Executor(Mistaken())
        nodes = [row()]
        extended(graph, nodes, *nodes)
        for k in range(300):
            new = [given((k, k)), node(PLUS, 1), node(SUM, 0, 2)]
            extended(graph, [*nodes, *new], *new)
            assert rows(graph, 3) == [k + 11, k + 22]
            graph.cut(1)
        assert rows(graph, 0) == [1, 2]


def test_zeros_that_are_no_nodes():
    """Of every form that reads several."""
    graph = core.Executor(Mistaken())
    nodes = [
        row(),
        node(SUM, -1, 0),
        node(SUM, -1, -1),
        node(JOINED, -1, 0),
        node(JOINED, 0),
        node(PLUS, -1),
    ]
    extended(graph, nodes, *nodes)
    found = [rows(graph, k) for k in range(1, 6)]
    assert found == [[1, 2], [0, 0], [0, 0, 1, 2], [1, 2, 0, 0], [10, 20]]


def test_an_array_to_write_to():
    """The first index is fastest, the batch comes last."""
    graph = core.Executor(Mistaken())
    assert graph.extend(stored([batch()]), 0) == -1
    found = np.empty((2, 3), order="F")
    graph.array(0, found)
    np.testing.assert_array_equal(found, [[1, 3, 5], [2, 4, 6]])
    for shape in (2, 2), (2,), (3, 3):
        with pytest.raises(ValueError, match="an array of another size"):
            graph.array(0, np.empty(shape, order="F"))
    with pytest.raises(ValueError, match="an array of another size"):
        graph.array(0, np.empty((2, 3), np.float32, order="F"))
    with pytest.raises(IndexError, match="no such node"):
        graph.array(1, found)


def test_an_array_of_three_axes():
    numbers = np.arange(48, dtype=np.float32).reshape(2, 2, 3, 4)  # a batch of two
    one = node(0, lanes=2, given=numbers)
    graph = core.Executor(Tables({0: plain(INPUT, 24)}))
    assert graph.extend(stored([one]), 0) == -1
    found = np.empty((2, 3, 4, 2), order="F")
    graph.array(0, found)
    np.testing.assert_array_equal(found, np.moveaxis(numbers, 0, -1))
