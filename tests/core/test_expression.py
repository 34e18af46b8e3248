"""What Python itself does with an expression, and finds through slots of its type.

A compiled class fills these in otherwise than one in Python.
"""

import copy
import inspect
import pickle
import weakref

import numpy as np
import pytest

import dynetjax as dy
from dynetjax.core.nodes import line_of_user

A = np.array([[1.0, 2.0], [3.0, 4.0], [5.0, 6.0]])


def given():
    return dy.inputTensor(A)


def parameter():
    return dy.ParameterCollection().parameters_from_numpy(A)


def constant():
    return parameter().expr(update=False)


def computed():
    return given() * 1.0


@pytest.fixture(params=[given, parameter, constant, computed])
def x(request):
    dy.renew_cg()
    return request.param()


class TestRows:
    """``x[0]``, ``x[1]`` and so on up to an IndexError, as in DyNet."""

    @pytest.mark.parametrize(
        "rows",
        [
            list,
            tuple,
            lambda x: [row for row in x],  # noqa: C416
            lambda x: [row for _, row in zip(range(3), x, strict=True)],
            lambda x: [row for _, row in enumerate(x)],
            lambda x: [*x],
            lambda x: (lambda *rows: rows)(*x),
        ],
    )
    def test_values(self, x, rows):
        assert [row.value() for row in rows(x)] == A.tolist()

    def test_unpacking(self, x):
        a, b, c = x
        first, *rest = x
        assert [row.value() for row in (a, b, c)] == A.tolist()
        assert [row.value() for row in (first, *rest)] == A.tolist()
        with pytest.raises(ValueError, match=r"too many values to unpack"):
            a, b = x

    def test_are_made_one_by_one(self, x):
        before = len(dy.cg())
        rows = iter(x)
        assert len(dy.cg()) == before
        assert next(rows).value() == [1, 2]
        assert next(rows).value() == [3, 4]

    def test_of_rows(self, x):
        assert [[n.value() for n in row] for row in x] == A.tolist()

    def test_membership_is_identity_of_rows(self, x):
        assert x not in x
        assert 1 not in x
        assert x in [1, x]

    def test_have_no_order(self, x):
        for function in max, min, sorted:
            with pytest.raises(TypeError, match="more than one number"):
                function(x)

    def test_not_backwards(self, x):
        with pytest.raises(TypeError, match=r"reversible|no len"):
            reversed(x)

    def test_no_length(self, x):
        with pytest.raises(TypeError, match=r"an Expression has no len\(\)"):
            len(x)

    def test_of_a_table(self):
        dy.renew_cg()
        table = dy.ParameterCollection().lookup_parameters_from_numpy(A)
        assert [row.value() for row in table] == A.tolist()
        assert len(table) == 3
        assert [row.value() for row in reversed(table)] == A[::-1].tolist()


class TestIdentity:
    def test_truth(self, x):
        assert x
        assert bool(x) is True
        assert dy.scalarInput(0.0)

    def test_equality(self, x):
        other = given()
        assert x == x
        assert x != other
        assert (x == 1) is False

    def test_as_keys(self, x):
        other = given()
        assert {x: 1, other: 2}[x] == 1
        assert len({x, other, x}) == 2

    @pytest.mark.parametrize("copied", [copy.copy, copy.deepcopy, pickle.dumps])
    @pytest.mark.parametrize("made", [given, computed])
    def test_no_copies(self, made, copied):
        with pytest.raises(TypeError, match="no copies and no pickles"):
            copied([made()] if copied is copy.deepcopy else made())

    def test_no_attributes_of_users(self):
        """As in DyNet."""
        for made in given(), parameter():
            with pytest.raises(AttributeError, match="name"):
                made.name = "x"
            with pytest.raises(AttributeError, match="tag"):
                made.tag = "x"

    def test_no_weak_references(self):
        """As in DyNet."""
        with pytest.raises(TypeError, match="cannot create weak reference"):
            weakref.ref(given())


class TestOperators:
    def test_numpy_numbers_on_the_left(self, x):
        for two in np.float32(2), np.float64(2), np.int64(2):
            np.testing.assert_allclose((two * x).npvalue(), 2 * A)
            np.testing.assert_allclose((two + x).npvalue(), 2 + A)
            np.testing.assert_allclose((two - x).npvalue(), 2 - A)

    def test_an_array_on_the_left_is_an_input(self, x):
        left = np.arange(2.0 * len(A)).reshape(2, -1)
        np.testing.assert_allclose((left * x).npvalue(), left @ A)

    def test_an_array_of_expressions(self, x):
        assert np.array([x, x], dtype=object).shape == (2,)
        np.testing.assert_allclose(np.array([x, x]), [A, A])

    def test_in_place(self, x):
        """Another expression under the same name."""
        y = x
        y += 1
        y *= 2
        y -= x
        y /= 4
        np.testing.assert_allclose(y.npvalue(), ((A + 1) * 2 - A) / 4)
        np.testing.assert_allclose(x.npvalue(), A)

    def test_power_with_a_modulus(self, x):
        np.testing.assert_allclose(pow(x, 2, 5).npvalue(), A**2)

    @pytest.mark.parametrize(
        "formula",
        [
            abs,
            lambda x: +x,
            lambda x: ~x,
            lambda x: x // 2,
            lambda x: x % 2,
            lambda x: x(),
            lambda x: x.__class__.__setitem__(x, 0, 1),
            lambda x: [1][x],
        ],
    )
    def test_that_are_none(self, x, formula):
        with pytest.raises((TypeError, AttributeError), match=type(x).__name__):
            formula(x)


class TestArguments:
    """Whatever is true or false will do for a flag, by position or by name."""

    @pytest.mark.parametrize("yes", [True, 1, np.bool_(True), "yes", [0]])
    def test_read_again(self, yes):
        dy.renew_cg()
        x = dy.random_normal(20)
        seen = [tuple(x.vec_value())]
        assert tuple(x.vec_value(recalculate=None)) == seen[0]
        for read in x.value, x.npvalue, x.vec_value:
            seen.append(tuple(read(yes)))
            seen.append(tuple(read(recalculate=yes)))
        assert len(set(seen)) == 7
        y = dy.sum_elems(x)
        first = y.scalar_value(0)
        assert y.scalar_value(yes) != first
        y.forward(yes)
        assert y.scalar_value() != first
        assert list(x.tensor_value(yes).as_numpy()) != seen[-1]

    @pytest.mark.parametrize("yes", [True, 1, np.bool_(True)])
    def test_gradients_of_constants(self, yes):
        for words, names in ((yes,), {}), ((), {"full": yes}):
            dy.renew_cg()
            x = given()
            dy.sum_elems(x * 3).backward(*words, **names)
            np.testing.assert_allclose(x.gradient(), np.full((3, 2), 3))

    @pytest.mark.parametrize("yes", [True, 1, np.bool_(True)])
    def test_of_a_graph(self, yes):
        dy.renew_cg(immediate_compute=yes, check_validity=yes)
        with pytest.raises(RuntimeError, match="log: NaN or Inf detected"):
            dy.log(dy.scalarInput(-1))
        dy.cg().renew(0, np.bool_(False))
        assert np.isnan(dy.log(dy.scalarInput(-1)).value())

    def test_that_there_are_not(self, x):
        with pytest.raises(TypeError, match="again"):
            x.value(again=True)


class TestClasses:
    def test_of_users(self):
        """Made of ours, with attributes, methods and weak references."""

        class Tagger(dy.ParameterCollection):
            def __init__(self, size):
                super().__init__()
                self.W = self.add_parameters((size, size), name="W")

        tagger = Tagger(size=2)
        tagger.note = "mine"
        assert (tagger.note, tagger.W.name()) == ("mine", "/W")
        assert weakref.ref(tagger)() is tagger

    def test_of_expressions(self):
        class Marked(dy.Expression):
            mark = "mine"

            def twice(self):
                return self + self

        assert isinstance(Marked(), dy.Expression)
        assert Marked.mark == "mine"
        assert issubclass(dy.Parameters, dy.Expression)

    def test_say_what_they_are(self):
        """For `help`, and for what shows it in an editor."""
        assert inspect.getdoc(dy.Expression).startswith("A node of a graph.")
        assert "as last axis if there is one" in inspect.getdoc(dy.Expression.npvalue)
        assert "was renewed" in inspect.getdoc(dy.cg_version)
        (full,) = inspect.signature(given().backward).parameters.values()
        assert (full.name, full.default) == ("full", False)


def test_the_line_of_a_caller():
    """At whatever depth, the innermost line that is not in the package."""
    names = {"__name__": "theirs", "line_of_user": line_of_user}
    exec(compile("\nfound = line_of_user()", "theirs.py", "exec"), names)
    assert names["found"] == "theirs.py:2 (<module>)"
