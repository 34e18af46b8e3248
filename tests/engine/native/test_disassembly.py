"""What `explain(bytecode=True)` shows is what the interpreter runs."""

import jax
import numpy as np
import pytest

import dynetjax as dy
from dynetjax.engine.ir.fused import FUSED_OPS
from dynetjax.engine.native.disassembly import listing
from dynetjax.graph import current_graph


@pytest.fixture
def m():
    dy.renew_cg()
    return dy.ParameterCollection()


def shown(node):
    """The listing of the fused op of the last node."""
    node.value()
    graph = current_graph()
    return listing(FUSED_OPS[graph.stored.fused(graph.at(node.index))])


def test_a_step(m):
    W, b = m.add_parameters((2, 3)), m.add_parameters((2,))
    x = dy.inputVector([1, 2, 3])
    assert shown(dy.cmult(dy.rectify(W * x), b)) == [
        "forward:",
        "   0 t[0: 2x1] = MATMUL W0[0: 2x3], x0[0: 3x1]  n=2 m=3 k=1",
        "   1 s[2:4] = MAX t[0:2], 0",
        "   2 s[0:2] = GT t[0:2], 0",
        "   3 y[0:2] = MUL s[2:4], W1[0:2]",
        "back:",
        "   0 t[0:2] = MUL s[2:4], dy[0:2]",
        "   1 t[2:4] = MUL dy[0:2], W1[0:2]",
        "   2 t[2:4] = SELECT s[0:2], t[2:4], 0",
        "   3 t[4: 1x3] = MATMUL t[2: 1x2], W0[0: 2x3]  n=1 m=2 k=3",
        "   4 dW0[0:] += PUT_ASIDE t[2:4], x0[0:3]  n=2 m=3 k=0",
        "   5 dW1[0:2] += ADD_TO_WEIGHT t[0:2]  n=2 m=0 k=0",
        "   6 dx0[0:3] += ADD_TO_OPERAND t[4:7]  n=3 m=0 k=0",
    ]


def test_all_that_is_run_is_listed(m):
    """A line for each instruction, of every family."""
    x = m.add_parameters((4, 4), init=np.eye(4) * 3)
    row = dy.inputTensor(np.ones((4, 4)))
    key = dy.jax_op(lambda a: jax.numpy.cumsum(jax.numpy.sort(a)))
    lines = shown(key(dy.cmult(row, x)[0]))
    told = "\n".join(lines)
    for name in ("CUMSUM", "SORT_ORDER", "GATHER"):
        assert name in told
    assert "REVERSED" in told  # of the pull-back
    assert "INTS" not in told


def test_ints(m):
    """Constants that are ints, and sums that are no gradients, show as such."""
    x = dy.inputTensor(np.ones(4))
    at = dy.jax_op(lambda a: jax.numpy.roll(a, -3) * jax.numpy.nan)
    told = "\n".join(shown(dy.pick(at(x), 2)))
    assert "LT_I i0[0], 0" in told
    assert "= ADD_I i0[0], 4" in told
    assert ", nan" in told


def test_without_byte_code(m):
    def singular_values(a):
        return jax.numpy.linalg.svd(a, compute_uv=False)

    svd = dy.jax_op(singular_values)
    assert shown(svd(dy.inputTensor(np.eye(3)))) == ["no byte code"]


def test_rows_of_a_table(m):
    E = m.add_lookup_parameters((3, 2))
    assert shown(E[1]) == ["lookup: no instructions"]


def test_explain(m):
    x = dy.tanh(dy.inputVector([1, 2]) + m.add_parameters(2))
    x.value()
    assert "y[0:2] = TANH" in dy.explain(bytecode=True).text
    assert "TANH" not in dy.explain().text
