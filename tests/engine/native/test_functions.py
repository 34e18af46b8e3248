"""Functions make nodes again as they made them before, and what expressions are.

What is said of a call is what it makes where nothing is known, with every check: the
same is to come of it whatever was made before.
"""

import contextlib
import copy
import gc
import inspect
import operator
import os
import pickle
import pydoc
import random
import re
import subprocess
import sys
import threading
import weakref

import numpy as np
import pytest

import dynetjax as dy
from dynetjax.core.nodes import signature_of_rows
from dynetjax.engine.ir.fused import fused_op
from dynetjax.engine.ir.structures import KNOWN, told
from dynetjax.engine.parts import store
from dynetjax.graph import ComputationGraph, current_graph, note_lines
from dynetjax.native import core
from dynetjax.ops.declare import CONSTANT, STATIC, below, function, real
from dynetjax.ops.inputs import INPUT_OP
from dynetjax.ops.steps import vanilla

MODEL = dy.ParameterCollection()
RNG = np.random.default_rng(5)
SHAPES = {"W": (3, 3), "b": (3,), "Wx": (12, 3), "Wh": (12, 3), "b4": (12,)}
LEAVES = {
    name: MODEL.parameters_from_numpy(RNG.normal(size=shape))
    for name, shape in SHAPES.items()
}
LEAVES["E"] = MODEL.lookup_parameters_from_numpy(RNG.normal(size=(5, 3)))
ROWS = {  # numbers of inputs, the batch last, by name
    **{name: RNG.uniform(0.1, 2, size=(3, 1)) for name in ("x", "y", "z")},
    **{name: RNG.uniform(0.1, 2, size=(3, 3)) for name in ("xs", "ys", "zs")},
    "fives": RNG.uniform(0.1, 2, size=(3, 5)),
    "short": RNG.uniform(0.1, 2, size=(2, 1)),
    "one": RNG.uniform(0.1, 2, size=(1, 1)),
    "ones": RNG.uniform(0.1, 2, size=(1, 3)),
    "col": RNG.uniform(0.1, 2, size=(3, 1, 1)),
    "M": RNG.uniform(0.1, 2, size=(2, 3, 1)),
    "N": RNG.uniform(0.1, 2, size=(3, 3, 1)),
    "Ms": RNG.uniform(0.1, 2, size=(2, 3, 3)),
    "fiveMs": RNG.uniform(0.1, 2, size=(2, 3, 5)),
    "row": RNG.uniform(0.1, 2, size=(1, 3, 1)),
    "rows": RNG.uniform(0.1, 2, size=(1, 3, 3)),
}
NAMES = {
    **{name: getattr(dy, name) for name in dir(dy) if name[0] != "_"},
    **{"dy": dy, "np": np, "nan": float("nan"), "inf": float("inf")},
    "step": vanilla(1.0).step,
}


def own():
    """Structures that nobody else knows, so that no node was made before."""
    return core.Structures(told, fused_op, 1 << 20)


@pytest.fixture(autouse=True)
def forget(monkeypatch):
    """Knows nothing of what was made before, when the test begins and when called."""

    def forgot():
        monkeypatch.setattr(KNOWN, "structures", own())
        dy.renew_cg()

    forgot()
    yield forgot
    note_lines(False)
    monkeypatch.undo()
    dy.renew_cg()


def of_another_graph():
    """An input of a graph that is none of a thread's."""
    graph = ComputationGraph()
    return graph.add_rows(INPUT_OP, (), (3,), np.ones((1, 3), np.float32), 1)


def world():
    """Operands of a new graph, what is none of it, and functions."""
    stale = dy.inputVector([1, 2, 3])
    dy.renew_cg()
    dy.cg_checkpoint()
    cut = dy.inputVector([1, 2, 3])
    dy.cg_revert()
    inputs = {name: dy.inputTensor(x, batched=True) for name, x in ROWS.items()}
    others = {"stale": stale, "cut": cut, "other": of_another_graph()}
    return {**NAMES, **LEAVES, **inputs, **others, "e": dy.Expression()}


def by_name(there):
    """The names of expressions."""
    return {x: name for name, x in there.items() if isinstance(x, dy.Expression)}


def described(x, names):
    """What an expression is, by names of its operands."""
    if isinstance(x, tuple | list):
        return type(x), [described(y, names) for y in x]
    if not isinstance(x, dy.Expression):
        return x
    if x in names:
        return names[x]
    data = x.data.tolist() if isinstance(x.data, np.ndarray) else x.data
    several = [[described(y, names) for y in ys] for ys in (x.operands, x.parts)]
    about = [x.signature, x.lanes, x.lengths, x.is_part, repr(data), x.kind]
    return type(x), about, several


def outcome(call, there):
    """What comes of a call: the nodes that it makes, or the error."""
    graph = current_graph()
    before = len(graph)
    try:
        found = eval(compile(call, "calls.py", "eval"), there)
    except Exception as error:
        text = re.sub(r"expression \d+/\d+|0x[0-9a-f]+", "...", str(error))
        return type(error), text, len(graph) - before
    return described(found, by_name(there)), len(graph) - before


def entered(call, there):
    """How many functions of Python a call enters."""
    code, names = compile(call, "calls.py", "eval"), []

    def note(frame, event, arg):
        if event == "call":
            names.append(frame.f_code.co_name)

    before = sys.getprofile()
    sys.setprofile(note)
    try:
        eval(code, there)
    finally:
        sys.setprofile(before)
    return len(names) - 1  # without the call itself


# By function, what is made again without Python, and other calls.
CALLS = {
    "tanh": (
        """tanh(x); tanh(xs); tanh(y); tanh(fives); tanh(M); tanh(W); tanh(b)""",
        """tanh(stale); tanh(cut); tanh(other); tanh(3); tanh(None); tanh('x'); tanh()
        tanh(x, y); tanh(x=x); tanh(e); tanh(dy.Expression); tanh([x]); tanh(*[x])
        tanh(np.ones(3)); tanh(x, x=y); tanh(**{'y': x}); tanh(True)""",
    ),
    "add": (
        """x + y; xs + y; x + ys; xs + ys; x + x; xs + xs; x + b; b + x; b + b; W + W
        W + N; N + W; x + 2; x + 2.5; xs + 2; x + inf; x + -0.0
        x + one; one + x; b + 1""",
        """xs + fives; fives + xs; x + short; M + N; x + stale; stale + x; x + other
        other + x; other + b; other + other; cut + x; x + e; e + x; x + None; x + 'a'
        None + x; x + True; x + np.float64(2); x + np.float32(2); x + np.int64(2)
        x + 2**2000; 0 + x; 0.0 + x; sum([x, y]); 2 + x; 2.5 + xs; x + [1]; e + 1
        stale + 1; x + nan; b + 2**2000""",
    ),
    "subtract": (
        """x - y; xs - y; x - ys; x - x; x - b; W - W; -x; -xs; -b; -W""",
        """x - short; x - stale; x - 1; x - 0.5; 1 - x; x - True; True - x; -stale
        x - np.int64(1); 2**2000 - x; x - None; None - x; -e; x / 2; x / 0; xs / 4
        2 / x; x / y; x / True; x ** 2; xs ** 0.5; x ** one; x ** ones; 2 ** x
        x ** y; x ** None; pow(x, one); pow(xs, one); pow(xs, ones)""",
    ),
    "product": (
        """W * x; W * xs; W * y; M * x; Ms * xs; M * xs; Ms * x; W * W; W * b; W * N
        N * W; x * 2; 2 * x; x * 0.5; 0.5 * xs; W * 2; b * 3; x * -1""",
        """W * short; x * x; W * stale; stale * W; W * other; M * fives; Ms * fives
        x * True; x * np.float32(2); x * np.int64(2); x * None; None * x; W * e
        W * cut; x * 2**2000; x * 'a'; 'a' * x; x * []""",
    ),
    "index": (
        """x[2]; x[0]; x[1]; xs[1]; xs[2]; M[1]; Ms[0]; N[2]; fives[2]; one[0]
        other[0]""",
        """x[3]; x[-1]; x[-3]; x[-4]; x[True]; x[np.int64(1)]; x[np.uint8(0)]; x[1.0]
        x['1']; x[None]; x[2**70]; x[-2**70]; x[2**31]; x[2**32]; x[-1-2**31]
        stale[0]; cut[0]; e[0]; b[1]; b[3]; b[True]; W[1]; W[-1]; [*x]; [*M]; M[2]
        [*xs]; x[False]; x[...]; x[()]""",
    ),
    "range": (
        """x[1:3]; x[:2]; x[1:]; x[:]; xs[0:2]; M[0:1]; Ms[1:2]; x[0:3]""",
        """x[0:4]; x[2:1]; x[1:1]; x[-2:]; x[:-1]; x[True:2]; x[np.int64(0):2]
        x[0:2:1]; x[0:3:2]; x[::0]; x[::-1]; M[0:1, 1:2]; xs[0:1, 0:2]; x[1.0:2]
        x[0:2**70]; x[2**70:]; x[-2**70:2]; stale[0:1]; b[0:2]; W[0:2]; x[3:]
        x[:'2']; x[:None:None]; b[0:4]; e[0:1]; x[0:2, 0:1, 0:1]""",
    ),
    "pick": (
        """pick(x, 1); pick(x, 0); pick(x, 2); pick(xs, 2); pick(M, 1); pick(M, 0)
        pick(M, 2, 1); pick(M, 1, 0); pick(Ms, 2, 1); pick(b, 1); pick(W, 1)""",
        """pick(x, 3); pick(x, -1); pick(x, True); pick(x, np.int64(2)); pick(x, 1.0)
        pick(x, 1.9); pick(x, '1'); pick(x, None); pick(x); pick(); pick(x, index=2)
        pick(M, 1, dim=1); pick(M, 2, 0); pick(M, 2); pick(M, 3, 1); pick(M, 1, 2)
        pick(M, 1, -1); pick(M, 1, True); pick(M, 1, np.int64(1)); pick(x, 1, 1)
        pick(x, [1]); pick(stale, 1); pick(cut, 1); pick(e, 1); pick(x, 2**31)
        pick(x, 2**40); pick(x, -2**40); pick(x, 2**70); pick(x, 1, 0, 0)
        pick(M, 1, 2**70); pick(M, 1, 0.0); pick(x, nan); pick(x, inf); pick(b, 3)
        pick_batch(xs, [0, 1, 2]); pick_batch(x, [2, 0]); pick(3, 1); pick(E, 1)
        pick(x, 1, None)""",
    ),
    "pickneglogsoftmax": (
        """pickneglogsoftmax(x, 1); pickneglogsoftmax(x, 0); pickneglogsoftmax(y, 2)
        pickneglogsoftmax(short, 1); hinge(x, 1); hinge(y, 0, 0.5); hinge(x, 2, 0.0)
        hinge(x, 0)""",
        """pickneglogsoftmax(xs, 1); pickneglogsoftmax(M, 1); pickneglogsoftmax(x, 3)
        pickneglogsoftmax(x, -1); pickneglogsoftmax(x, True); pickneglogsoftmax(x)
        pickneglogsoftmax(x, np.int64(1)); pickneglogsoftmax(x, 1.0)
        pickneglogsoftmax(x, [1]); pickneglogsoftmax(x, v=1); pickneglogsoftmax(b, 1)
        pickneglogsoftmax(x, None); pickneglogsoftmax(stale, 1)
        pickneglogsoftmax_batch(xs, [0, 1, 2]); hinge(x, 1, 2); hinge(x, 1, -1.0)
        hinge(x, 1, m=0.5); hinge(x, 1, nan); hinge(x, 1, True); hinge(x, 3, 0.5)
        hinge(x, 1, '1'); hinge(x, m=0.5); hinge(x, 1, inf); hinge(b, 1); hinge(xs, 1)
        hinge(x, 1, np.float64(0.5)); hinge(x, 1, np.float32(0.5)); hinge(x, 1, 0)""",
    ),
    "poisson_loss": (
        """poisson_loss(one, 0); poisson_loss(one, 5); poisson_loss(one, 1)""",
        """poisson_loss(one, 2**31 - 1); poisson_loss(one, 2**31); poisson_loss(one, -1)
        poisson_loss(one, 2**32 - 1); poisson_loss(one, 2**32); poisson_loss(one, 2.5)
        poisson_loss(one, True); poisson_loss(one, None); poisson_loss(ones, 1)
        poisson_loss(x, 1); poisson_loss(one, 2**24 + 1); poisson_loss(one, x=3)""",
    ),
    "affine_transform": (
        """affine_transform([b, W, x]); affine_transform([b, W, xs])
        affine_transform([x, W, y]); affine_transform([b, W, x, W, y])
        affine_transform([b, W, x, W, x]); affine_transform([x, W, x])
        affine_transform([xs, W, y]); affine_transform([b, W, b])
        affine_transform([b, W, N]); affine_transform([N, W, N, N, W])""",
        """affine_transform([b]); affine_transform([x]); affine_transform([])
        affine_transform([b, W]); affine_transform([b, W, short])
        affine_transform((b, W, x)); affine_transform([b, W, None])
        affine_transform([b, W, 3]); affine_transform([b, W, stale])
        affine_transform([b, W, other]); affine_transform([x, W, other])
        affine_transform([xs, W, fives]); affine_transform()
        affine_transform([b, W, x], 1); affine_transform(exprs=[b, W, x])
        affine_transform(x); affine_transform(iter([b, W, x]))
        affine_transform([b, N, xs, W, b, W, xs, N, y])
        affine_transform([b, W, cut]); affine_transform([b, W, e])
        affine_transform([b, W, x] + [W, x] * 4); affine_transform([stale])
        affine_transform([short, W, x]); affine_transform(None)""",
    ),
    "concatenate": (
        """concatenate([x, y]); concatenate([x, xs]); concatenate([xs, ys])
        concatenate([b, x]); concatenate([x, x]); concatenate([x]); concatenate([b, b])
        concatenate([x, short, y]); concatenate([M, M], 0); concatenate([M, Ms], 1)
        concatenate([x, y, z, short, b, one, col]); concatenate([xs, x, ys, b, one])
        concatenate([x, y, z, short, xs, ys, zs, one, b])
        concatenate([fives, y, z, short, b, x, one])""",
        """concatenate([x, y], True); concatenate([x, y], np.int64(0))
        concatenate([x, y], -1); concatenate([x, y], 2.0); concatenate([x, y], None)
        concatenate([]); concatenate([x, None]); concatenate([x, M])
        concatenate([xs, fives]); concatenate([x, stale]); concatenate(x)
        concatenate((x, y)); concatenate([x, y], d=0); concatenate(xs=[x, y])
        concatenate([x] * 9); concatenate([x] * 8 + [y]); concatenate([x, 3])
        concatenate([x, other]); concatenate([other, other]); concatenate([e])
        concatenate([x, y], 0, 0); concatenate(); concatenate([M, M], 2**70)
        concatenate([b, y, z, x, short, col, N[0], N[1], N[2]])
        concatenate([x, y, z, x, short, col, N[0], N[1], N[2]])""",
    ),
    "esum": (
        """esum([x, y]); esum([xs, ys]); esum([x]); esum([x, x]); esum([x] * 20)
        esum([M, M]); esum([fives]); esum([xs, ys, zs, xs]); esum([other, other])
        esum([one, one])""",
        """esum([b, b]); esum([x, xs]); esum([x, b]); esum([x, short]); esum([])
        esum(x); esum([xs, fives]); esum([x, None]); esum([x, stale]); esum([other, x])
        esum([x, other]); esum((x, y)); esum([x, col]); esum([col, x]); esum([x, 3])
        esum([x, cut]); esum(); esum([x], 1); esum(xs=[x, y]); esum([W, N]); esum([W])
        esum([x, e]); esum([e]); average([x, y]); average([xs, ys]); average([x, col])
        average([x] * 3); average([]); average([x, short]); average([b, b]); esum([E])
        sum_batches(xs); mean_batches(xs); esum(None); esum([stale]); average([cut])""",
    ),
    "cmult": (
        """cmult(x, x); cmult(x, y); cmult(xs, x); cmult(x, xs); cmult(xs, xs)
        cmult(x, b); cmult(b, x); cmult(b, b); cmult(W, W); cmult(one, x); cmult(x, one)
        cmult(xs, ys); cmult(fives, x); cmult(N, W); cmult(E, E)""",
        """cmult(x, short); cmult(x); cmult(x, y, z); cmult(xs, fives); cmult(x, stale)
        cmult(stale, x); cmult(x, 3); cmult(3, x); cmult(y=x, x=y); cmult(x, y=y)
        cmult(x, other); cmult(other, other); cmult(b, other); cmult(e, e); cmult(x, e)
        cmult(x, E); cmult(stale, stale); cmult(cut, b); cmult(x, x=x)""",
    ),
    "dropout": (
        """dropout(x, 0.5); dropout(xs, 0.25); dropout(M, 0.5); dropout(y, 0.75)
        noise(x, 0.5); noise(xs, 2); noise(y, 1.5); dropout_batch(xs, 0.5)""",
        """dropout(x, 0.0); dropout(x, 0); dropout(x, -0.0); dropout(x, 1.0)
        dropout(x, 1); dropout(x, -0.5); dropout(x, 1.5); dropout(x, True)
        dropout(x, False); dropout(x, np.float32(0.5)); dropout(x, np.float64(0.5))
        dropout(x, nan); dropout(x, '0.5'); dropout(x, None); dropout(x); dropout()
        dropout(x, p=0.5); dropout(stale, 0.5); dropout(stale, 0.0); dropout(b, 0.5)
        dropout(W, 0.5); dropout(b, 0.0); dropout(x, 5e-324); dropout(x, 1e-30)
        dropout_batch(x, 0.5); dropout_dim(M, 0, 0.5); noise(x, 0); noise(x, 0.0)
        noise(x, -1); noise(x, inf); noise(x, nan); noise(b, 0.5); dropout(x, [0.5])
        noise(x, 2**2000); dropout(e, 0.5); block_dropout(x, 1.0)""",
    ),
    "reshape": (
        """reshape(M, (3, 2)); reshape(M, (6,)); reshape(Ms, (3, 2))
        reshape(Ms, (6,), 3); reshape(M, (2, 3)); reshape(M, (1, 6), 1)
        reshape(W, (9,)); reshape(fiveMs, (6,))
        reshape(b, (3,)); reshape(Ms, (2, 3), 3)""",
        """reshape(M, (3,), 2); reshape(Ms, (9,), 2); reshape(Ms, (18,))
        reshape(fiveMs, (30,)); reshape(M, [3, 2])
        reshape(M, (4, 2)); reshape(M, (3.0, 2)); reshape(M, (True, 6)); reshape(M, ())
        reshape(M, (np.int64(3), 2)); reshape(M, (-3, -2)); reshape(M, (3, 2), True)
        reshape(M, (3, 2), np.int64(1)); reshape(M, (3, 2), 0); reshape(M, (3, 2), -1)
        reshape(M, d=(3, 2)); reshape(M, (1,) * 20); reshape(stale, (3,))
        reshape(Ms, (3, 2), 5); reshape(fiveMs, (18,)); reshape(Ms, (30,)); reshape(M)
        reshape(M, 6); reshape(M, None); reshape(3, (3,)); reshape(M, (2**40,))
        reshape(M, (2**70,)); reshape(M, ((6,),)); reshape(M, ('6',)); reshape(M, (0,))
        reshape(M, (3, 2), 1.0); reshape(M, (3, 2), None); reshape(fiveMs, (6,), 3)
        reshape(x, (3,), batch_size=1); reshape(M, (6,), 1, 1)""",
    ),
    "step": (
        """step(Wx, Wh, b4, x, y, z); step(Wx, Wh, b4, xs, ys, zs)
        step(Wx, Wh, b4, xs, y, z); step(Wx, Wh, b4, x, y, y); step(Wx, Wh, b4, x, x, x)
        step(Wx, Wh, b4, x, ys, z); step(Wh, Wh, b4, x, y, z); step(Wx, Wh, b4, b, y, z)
        step(Wx, Wh, b4, y, z, z); step(Wx, Wh, b4, z, y, x)""",
        """step(Wx, Wh, b4, xs, fives, y); step(Wx, Wh, b4, x, y, stale)
        step(Wx, Wh, b4, x, short, y); step(Wx, Wh, b4, x, y); step(Wx, Wh, b4, x, y, 3)
        step(Wx, Wh, b, x, y, z); step(Wx, Wh, b4, x, y, other); step()
        step(Wx, Wh, b4, x, y, short); step(Wx, Wh, b4, cut, y, z)
        step(Wx, Wh, b4, x, y, z, 1); step(Wx, Wh, b4, x, h=y, c=z)""",
    ),
    "table": (
        """E[0]; E[4]; E[3]; tanh(E)""",
        """E[5]; E[-1]; E[True]; E[np.int64(2)]; E[1.0]; E['1']; E[None]; E[2**70]
        E[0:2]; lookup(E, 1); lookup(E, 1, False); lookup_batch(E, [1, 2]); E.batch([1])
        [*E]; E[...]; E[0][1]; E[-2**70]; E[np.uint8(1)]; E[False]; lookup(E, 5)
        lookup_batch(E, [0, 5]); lookup(W, 1); E[2**31]; E[2**32]; lookup(E)
        E[1].data; E[1, 2]""",
    ),
    "others": (
        """softmax(x); softmax(xs); softmax(M, 1); softmax(M); squared_distance(x, y)
        squared_distance(xs, y); dot_product(x, b); transpose(M); transpose(M, [1, 0])
        transpose(W); sum_elems(x); sum_elems(M); elu(x); elu(x, 0.5); elu(x, 2)
        elu(xs, 0.25); elu(x, 1.0); huber_distance(x, y); huber_distance(x, y, 2)
        pairwise_rank_loss(row, row); pairwise_rank_loss(rows, rows, 0.5)
        pick_range(M, 0, 2, 1); square(x); squared_norm(x); logistic(W)""",
        """softmax(x, 1); softmax(M, 2); softmax(x, True); softmax(M, 1.0)
        softmax(x, -1); transpose(M, (1, 0)); transpose(M, [0, 0]); transpose(M, [0, 1])
        transpose(M, [True, False]); transpose(M, [1.0, 0.0]); transpose(M, dims=[1, 0])
        elu(x, alpha=2.0); elu(x, nan); elu(x, True); elu(x, '1'); elu(x, None)
        huber_distance(x, short); pairwise_rank_loss(row, rows)
        pairwise_rank_loss(rows, row); pairwise_rank_loss(x, y); pick_range(M, 0, 4, 1)
        pick_range(x, 0, 2, True); pick_range(x, 0, np.int64(2)); dot_product(x, short)
        pick_range(x, 0); pick_range(x, 0.0, 2); sum_elems(e); transpose(e)
        transpose(M, [1, 0] + [2] * 20)""",
    ),
}


def split(text):
    """The calls of a text."""
    return [call for line in text.splitlines() for call in line.strip().split("; ")]


USUAL, OTHERS = [
    {name: split(texts[k]) for name, texts in CALLS.items()} for k in range(2)
]


@pytest.mark.parametrize("name", CALLS)
def test_the_same_comes_of_a_call_whatever_was_made_before(name, forget):
    """Nodes or errors; nothing of Python is entered where all is usual and known."""
    usual, calls = USUAL[name], [*USUAL[name], *OTHERS[name]]
    assert len({*calls}) == len(calls)
    first = {}
    for call in calls:
        forget()
        first[call] = outcome(call, world())
    assert all(len(first[call]) == 2 for call in usual)  # which are no errors
    forget()
    there = world()
    for order in calls, calls[::-1], calls[::2] + calls[1::2]:
        for call in order:
            assert (call, outcome(call, there)) == (call, first[call])
    for _ in range(2):
        for call in usual:
            assert (call, entered(call, there)) == (call, 0)
            assert (call, outcome(call, there)) == (call, first[call])
        there = world()
    for call in calls:
        assert (call, outcome(call, there)) == (call, first[call])


@pytest.mark.parametrize(
    ("error", "message", "calls"),
    [
        (IndexError, r"x\[i\]: i is out of range", "x[3]; x[-4]; M[2]; xs[3]; b[3]"),
        (IndexError, r"x\[i\]: i is out of range", "x[2**70]; x[-2**70]; x[2**32]"),
        (AssertionError, "the key is not supported", "x[1.0]; x['1']; x[None]"),
        (ValueError, "lookup: the index is out of range", "E[5]; E[2**31]"),
        (OverflowError, "negative|out of range", "E[-1]; pick(x, -1); E[-2**31]"),
        (TypeError, "not a number|not an int", "E['1']; E[None]; pick(x, '1')"),
        (ValueError, "index is out of range", "pick(x, 3); pick(M, 2); pick(b, 3)"),
        (ValueError, "the expression is stale", "tanh(stale); x + other; E[0] + cut"),
        (TypeError, "an operand is not an Expression", "tanh(3); cmult(x, None)"),
        (dy.DimError, "batch", "xs + fives; cmult(xs, fives); W * xs * 2 + fives"),
        (dy.DimError, "do not fit|differ", "x + short; esum([x, short]); W * short"),
        (AssertionError, "empty or has None", "esum([]); concatenate([x, None])"),
        (TypeError, "not in a list", "esum(x); concatenate((x, y)); esum((x, y))"),
        (ValueError, "rate is out of range", "dropout(x, 1.0); dropout(x, -0.5)"),
        (
            dy.DimError,
            "number of numbers",
            "reshape(M, (4, 2)); reshape(fiveMs, (18,))",
        ),
        (dy.DimError, "batch", "pickneglogsoftmax(xs, 1); poisson_loss(ones, 1)"),
        (dy.DimError, "range is empty", "x[0:4]; x[2:1]; pick_range(M, 0, 4, 1)"),
        (ValueError, "v is out of range", "hinge(x, 3); pickneglogsoftmax(x, 3)"),
    ],
)
def test_what_is_refused(error, message, calls):
    """The first time, and when others like it were made."""
    there = world()
    for _ in range(3):
        for call in split(calls):
            with pytest.raises(error, match=message):
                eval(call, there)
        for several in USUAL.values():
            for call in several:
                eval(call, there)


@pytest.mark.parametrize("seed", range(3))
def test_all_of_them_in_any_order(seed, forget):
    several = [
        call for of in (USUAL, OTHERS) for calls in of.values() for call in calls
    ]
    first = {}
    for call in several:
        forget()
        first[call] = outcome(call, world())
    forget()
    shuffled = random.Random(seed)
    for _ in range(4):
        there = world()
        shuffled.shuffle(several)
        for call in several:
            assert (call, outcome(call, there)) == (call, first[call])


@pytest.mark.parametrize("name", [name for name in CALLS if name != "dropout"])
def test_values_and_gradients(name, forget):
    """Those of nodes that were made again are those of the first."""
    found = []
    for _ in range(3):
        there = world()
        several = [eval(call, there) for call in USUAL[name]]
        several = [x[0] + x[1] if isinstance(x, tuple) else x for x in several]
        numbers = [x.npvalue() for x in several if x.graph is current_graph()]
        terms = [
            dy.sum_batches(dy.sum_elems(dy.square(x)))
            for x in several
            if x.graph is current_graph() and np.isfinite(x.npvalue()).all()
        ]
        dy.esum(terms).backward(full=True)
        numbers += [there[name].gradient() for name in ROWS]
        found.append(numbers)
    for numbers in found[1:]:
        for one, other in zip(found[0], numbers, strict=True):
            np.testing.assert_array_equal(one, other)


def test_keys_of_nodes_that_are_made_again():
    """Each draws its own numbers: its key is its number."""
    x = dy.inputVector([1.0, 2.0, 3.0])
    xs = dy.inputTensor(ROWS["xs"], batched=True)
    several = [dy.dropout(x, 0.5) for _ in range(5)]
    several += [dy.noise(xs, 0.5 + k) for k in range(5)]
    several += [dy.tanh(y) for y in several]
    store(x.graph, several)
    for y in several[:10]:
        data = x.graph.stored.data(x.graph.at(y.index))
        assert data[-1] == y.index
        wanted = np.array([y.data] * y.lanes, np.float32).view(np.int32)
        assert data[:-1] == wanted.tolist()
    drawn = {tuple(y.value()) for y in [dy.noise(x, 1) for _ in range(20)]}
    assert len(drawn) == 20


class TestWatched:
    """Graphs that are told of each node."""

    @pytest.mark.parametrize("name", CALLS)
    def test_lines(self, name, forget):
        """The user's line is noted, of each of a call's nodes."""
        first = {}
        for call in USUAL[name]:
            forget()
            first[call] = outcome(call, world())
        forget()
        note_lines(True)
        there = world()
        graph = current_graph()
        for _ in range(3):
            for call in USUAL[name]:
                count = len(graph)
                assert (call, outcome(call, there)) == (call, first[call])
                lines = {graph.lines[k] for k in range(count, len(graph))}
                assert lines <= {"calls.py:1 (<module>)"}
        assert sorted(graph.lines) == [*range(len(graph))]

    def test_immediate_computation(self, natively):
        """They are computed when they are made, the second time as the first."""
        dy.renew_cg(immediate_compute=True)
        graph = current_graph()
        b, W = LEAVES["b"], LEAVES["W"]
        for k in range(3):
            x = dy.inputVector([k, 1, 2])
            y = dy.tanh(dy.affine_transform([b, W, x]))
            dy.concatenate([b, y])
            z = dy.esum([x, y])
            dy.pick(z, 1)
            LEAVES["E"][k]
            count = graph.executor.count
            assert all(0 <= graph.at(n) < count for n in range(len(graph)))
            assert len(graph) == 7 * (k + 1)

    def test_errors(self):
        """They are the same the second time, and the node is there."""
        dy.renew_cg(immediate_compute=True, check_validity=True)
        graph, found = current_graph(), []
        x = dy.inputVector([-1.0, 2.0])
        for _ in range(3):
            dy.cg_checkpoint()
            with pytest.raises(RuntimeError, match="NaN or Inf detected") as error:
                dy.log(x)
            found.append((str(error.value), len(graph)))
            node = graph.nodes[-1]
            assert (node.operands, node.signature.op.name) == ((x,), "log")
            assert dy.sqrt(dy.inputVector([4.0])).value() == 2
            dy.cg_revert()
        assert found == [found[0]] * 3

    def test_errors_of_lists_and_rows(self):
        dy.renew_cg(immediate_compute=True, check_validity=True)
        table = dy.ParameterCollection().lookup_parameters_from_numpy(
            np.array([[1.0], [np.inf]])
        )
        x, inf = dy.inputVector([1.0]), table[0] * 1e38
        for _ in range(3):
            with pytest.raises(RuntimeError, match="NaN or Inf detected"):
                table[1]
            assert table[0].data == 0
            with pytest.raises(RuntimeError, match="sum: NaN or Inf detected"):
                dy.esum([inf] * 9)
            assert dy.esum([x] * 9).value() == 9
            with pytest.raises(RuntimeError, match="input: NaN or Inf detected"):
                dy.inputVector([np.nan, 1.0])
            y = dy.inputVector([2.0, 3.0])
            assert (y.data.tolist(), y.value()) == ([[2, 3]], [2, 3])
        nodes = [node for node in x.graph.nodes if node.signature.op is INPUT_OP]
        given = [node.data[0, -1] for node in nodes]
        np.testing.assert_array_equal(given, [1, *[1, 3] * 3])


class TestGraphs:
    def test_of_operands(self):
        """Nodes go to the graph of their operands, whichever is this thread's."""
        here, x = dy.inputVector([1.0, 2, 3]), of_another_graph()
        for _ in range(3):
            several = [dy.tanh(x), x + LEAVES["b"], dy.esum([x, x]), x[1], x[0:2]]
            assert all(y.graph is x.graph for y in several)
            assert several == x.graph.nodes[-5:]
            assert len(here.graph) == 1
            assert dy.tanh(here).graph is here.graph
            dy.renew_cg()
            here = dy.inputVector([1.0, 2, 3])

    def test_of_parameters_alone(self):
        """Nodes go to this thread's."""
        graphs = []
        for _ in range(3):
            graphs.append(dy.renew_cg())
            y = dy.cmult(LEAVES["b"], LEAVES["b"])
            assert y.graph is current_graph()
            assert y.graph.leaves == [LEAVES["b"]]
            assert len(y.graph) == 1

    def test_of_other_structures(self, forget):
        """A graph that began before all was forgotten goes on with what it knows."""
        x = dy.inputVector([1.0, 2, 3])
        dy.tanh(x)
        KNOWN.structures = own()
        before = dy.tanh(x)
        for _ in range(2):
            y = of_another_graph()
            for _ in range(2):
                z, v = dy.tanh(y), dy.tanh(x)
                assert (z.graph, v.graph) == (y.graph, x.graph)
                assert z.signature is v.signature is before.signature

    def test_threads(self):
        """They may make the same nodes at once."""
        wrong, several = [], [call for calls in USUAL.values() for call in calls]

        def work(seed):
            try:
                shuffled = random.Random(seed)
                for _ in range(5):
                    calls, there = shuffled.sample(several, 100), world()
                    for call in calls:
                        assert (call, outcome(call, there)) == (call, first[call])
            except BaseException as error:
                wrong.append(error)

        there = world()
        first = {call: outcome(call, there) for call in several}
        KNOWN.structures = own()
        threads = [threading.Thread(target=work, args=(k,)) for k in range(4)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        assert not wrong

    def test_the_first_of_a_thread(self):
        """A thread has no graph, until something is made there of parameters."""
        found = []

        def work():
            for make in (
                lambda: dy.tanh(LEAVES["b"]),
                lambda: LEAVES["E"][1],
                lambda: dy.tanh(LEAVES["b"]),
            ):
                y = make()
                found.append((y.graph is current_graph(), y.index, y.is_live))

        threads = [threading.Thread(target=work) for _ in range(2)]
        for thread in threads:
            thread.start()
            thread.join()
        assert found == [(True, k, True) for k in range(3)] * 2

    def test_a_thread_that_has_ended(self):
        """Its nodes are there, as long as somebody has one."""
        found = []

        def work():
            found.append(dy.tanh(dy.inputVector([1.0, 2])))

        thread = threading.Thread(target=work)
        thread.start()
        thread.join()
        (x,) = found
        for _ in range(2):
            y = dy.tanh(x)
            assert (y.operands, y.graph) == ((x,), x.graph)
            assert y.graph is not current_graph()
        assert y.value() == pytest.approx(np.tanh(np.tanh([1, 2])))


class TestChecked:
    """What functions of the checked kind do, and what of it is remembered."""

    def counted(self, checked, *about, **others):
        """A function that does this, and counts how often Python is asked."""
        calls = []

        def counting(*args, **named):
            calls.append(args)
            return checked(*args, **named)

        return function(*about, **others)(counting), calls

    @pytest.fixture
    def x(self):
        return dy.inputVector([1.0, 2.0, 3.0])

    def test_one_node(self, x):
        f, calls = self.counted(lambda x: dy.tanh(x), 1)
        several = [f(x), f(x), f(f(x)), f(dy.inputVector([3.0, 2, 1]))]
        assert len(calls) == 1
        assert [y.signature.op.name for y in several] == ["tanh"] * 4
        assert [y.index for y in several] == [1, 2, 4, 6]
        f(dy.inputVector([1.0]))
        assert len(calls) == 2

    def test_several_nodes(self, x):
        """Of which some read others, and the last is not returned."""

        def checked(x, y):
            z = x + y
            v = dy.concatenate([y, dy.tanh(z), LEAVES["b"]][:2])
            dy.square(v)
            return v, z

        f, calls = self.counted(checked, 2)
        there = {"f": f, "x": x, "y": dy.inputVector([1.0, 2, 3])}
        first = [outcome(call, there) for call in ("f(x, y)", "f(x, x)")]
        assert len(calls) == 2
        for _ in range(2):
            again = [outcome(call, there) for call in ("f(x, y)", "f(x, x)")]
            assert again == first
            assert outcome("f(y, x)", there)[1] == 4
        assert len(calls) == 2
        assert type(f(x, x)) is tuple

    @pytest.mark.parametrize("count", [1, 2, 9, 30])
    def test_tuples(self, x, count):
        """Of nodes, some of which may be the same."""

        def checked(x):
            y = dy.tanh(x)
            return (y, *[dy.exp(y) for _ in range(count - 1)])

        f, calls = self.counted(checked, 1)
        for k in range(3):
            found = f(x)
            assert type(found) is tuple
            assert [*found] == x.graph.nodes[1 + k * count :]
        assert len(calls) == 1
        g, calls = self.counted(lambda x: (dy.tanh(x),) * count, 1)
        for _ in range(3):
            assert g(x) == (x.graph.nodes[-1],) * count
        assert len(calls) == 1

    @pytest.mark.parametrize("at", [0, 1, 2])
    def test_an_operand_that_is_returned(self, x, at):
        """Nothing is remembered: alone, among others, or after others were made."""

        def checked(x):
            return [lambda: x, lambda: (dy.tanh(x), x), lambda: [dy.tanh(x), x][1]][
                at
            ]()

        f, calls = self.counted(checked, 1)
        for k in range(3):
            y = dy.inputVector([1.0, 2.0, 3.0])
            found = f(y)
            assert (found[1] if at == 1 else found) is y
            assert len(calls) == k + 1

    @pytest.mark.parametrize("name", ["b", "W", "E"])
    def test_a_parameter_that_is_returned(self, name):
        f, calls = self.counted(lambda x: x, 1)
        for _ in range(3):
            assert f(LEAVES[name]) is LEAVES[name]
        assert len(calls) == 3

    @pytest.mark.parametrize(
        "result",
        [None, 3, "x", [], (), (None,), [dy.tanh], dy.Expression, dy.Expression()],
        ids=lambda result: type(result).__name__,
    )
    @pytest.mark.parametrize("makes", [False, True])
    def test_other_results(self, x, makes, result):
        """They are returned each time, and the nodes made by Python."""

        def checked(x):
            if makes:
                dy.tanh(x)
            return result

        f, calls = self.counted(checked, 1)
        for k in range(3):
            assert f(x) is result
            assert len(x.graph) == 1 + makes * (k + 1)
            if result != ():
                assert len(calls) == k + 1

    def test_a_list_of_nodes(self, x):
        f, _ = self.counted(lambda x: [dy.tanh(x)], 1)
        for k in range(3):
            found = f(x)
            assert type(found) is list
            assert found == [x.graph.node(k + 1)]

    def test_errors(self, x):
        """Nothing is remembered, and what was made is there."""
        errors = [KeyError("one"), None, ValueError("two"), None, None]

        def checked(x):
            y, error = dy.tanh(x), errors[len(calls) - 1]
            if error is not None:
                raise error
            return y

        f, calls = self.counted(checked, 1)
        with pytest.raises(KeyError, match="one"):
            f(x)
        assert f(x).signature.op.name == "tanh"
        assert len(calls) == 2
        assert f(x).index == 3  # which was remembered, and cannot raise
        assert len(calls) == 2
        y = dy.inputVector([1.0])  # of another kind
        with pytest.raises(ValueError, match="two"):
            f(y)
        f(y)
        f(y)
        assert len(calls) == 4

    def test_errors_before_anything_is_made(self, x):
        def checked(x):
            raise OSError("none")

        f, calls = self.counted(checked, 1)
        for k in range(3):
            with pytest.raises(OSError, match="none"):
                f(x)
            assert (len(calls), len(x.graph)) == (k + 1, 1)

    @pytest.mark.parametrize("alike", [False, True])
    def test_errors_with_lists(self, x, alike):
        def checked(xs):
            if len(calls) % 2:
                raise OSError("none")
            return (dy.esum if alike else dy.concatenate)(xs)

        f, calls = self.counted(checked, alike=alike)
        with pytest.raises(OSError, match="none"):
            f([x, x])
        assert f([x, x]).operands == (x, x)
        assert f([x, x]).operands == (x, x)
        assert len(calls) == 2

    @pytest.mark.parametrize(
        "reads",
        [
            lambda x, free: dy.cmult(x, free),
            lambda x, free: dy.cmult(x, LEAVES["b"]),
            lambda x, free: dy.cmult(x, dy.inputVector([1.0, 2.0, 3.0])),
            lambda x, free: dy.cmult(x, LEAVES["E"][1]),
            lambda x, free: dy.pick_batch_elem(dy.tanh(x), 0),
            lambda x, free: (x.graph.unlike(), dy.tanh(x))[1],
            lambda x, free: dy.pick_batch(x, [1, 2]),
            lambda x, free: dy.pick_batch(x, [1]),
            lambda x, free: x + x.graph.zeros((3,), 3),
        ],
        ids=["node", "leaf", "input", "row", "part", "unlike", "list", "one", "lanes"],
    )
    def test_what_follows_from_other_things(self, x, reads):
        """Other nodes and parameters, inputs, and lists of data: Python is asked."""
        free = dy.inputVector([3.0, 2.0, 1.0])
        f, calls = self.counted(lambda x: reads(x, free), 1)
        for k in range(3):
            y = f(x)
            assert len(calls) == k + 1
            assert y.is_live

    @pytest.mark.parametrize(
        "of",
        [
            lambda xs: [*xs, xs[0]],
            lambda xs: xs[:1],
            lambda xs: xs[::-1],
            lambda xs: [*xs, LEAVES["b"]],
            lambda xs: [dy.tanh(x) for x in xs],
        ],
        ids=["more", "fewer", "reversed", "leaf", "others"],
    )
    def test_lists_that_are_not_read_as_they_are(self, x, of):
        """Nodes of other operands are made by Python."""
        f, calls = self.counted(lambda xs: dy.esum(of(xs)), alike=True)
        xs = [x, dy.exp(x), dy.square(x)]
        for k in range(4):
            several = f(xs[k:] + xs[:k])
            assert len(several.operands) == len(of(xs))
            assert len(calls) == k + 1

    def test_zeros(self, x):
        """They are made again."""
        f, calls = self.counted(lambda x: x + x.graph.zeros((3,), x.lanes), 1)
        xs = dy.inputTensor(ROWS["xs"], batched=True)
        for _ in range(3):
            for y in x, xs:
                z = f(y)
                assert z.operands[0] == y
                none = z.operands[1]
                assert (none.is_part, none.lanes, none.operands) == (True, y.lanes, ())
                np.testing.assert_array_equal(z.npvalue(), y.npvalue())
        assert len(calls) == 2

    @pytest.mark.parametrize("again", [False, True])
    @pytest.mark.parametrize("made", ["nothing", "an input", "of old", "many"])
    @pytest.mark.parametrize("listed", [None, False, True])
    def test_graphs_that_are_renewed(self, listed, made, again):
        """Within a function: it returns what it does, and nothing is remembered."""

        def checked(x):
            dy.tanh(x if listed is None else x[0])
            dy.renew_cg()
            if again:
                dy.renew_cg()
            if made == "an input":
                return dy.inputVector([1.0, 2.0])
            if made == "many":
                return [dy.tanh(dy.inputVector([1.0, 2.0])) for _ in range(9)][-1]
            return x

        about = (1,) if listed is None else ()
        f, calls = self.counted(checked, *about, alike=bool(listed))
        for k in range(4):
            x = dy.inputVector([1.0, 2.0])
            given = x if listed is None else [x]
            found = f(given)
            assert len(calls) == k + 1
            assert (not x.is_live, x.graph is current_graph()) == (True, False)
            if made in ("an input", "many"):
                assert found == current_graph().nodes[-1]
                assert np.isfinite(found.value()).all()
            else:
                assert found is given
            del x, given, found
            gc.collect()
            y = dy.tanh(dy.inputVector([1.0, 2.0]))
            assert y.value() == pytest.approx(np.tanh([1, 2]))

    @pytest.mark.parametrize("listed", [None, False, True])
    def test_graphs_that_are_renewed_by_functions_of_parameters(self, listed):
        def checked(x):
            dy.renew_cg()
            return dy.tanh(x if listed is None else x[0])

        about = (1,) if listed is None else ()
        f, calls = self.counted(checked, *about, alike=bool(listed))
        b = LEAVES["b"]
        for k in range(4):
            y = f(b if listed is None else [b])
            assert (y.graph, y.index) == (current_graph(), 0)
            assert y.operands == (b,)
            assert len(calls) == k + 1

    def test_graphs_that_are_cut(self, x):
        """Within a function, it does what it did."""

        def checked(x):
            dy.cg_checkpoint()
            dy.square(dy.exp(x))
            dy.cg_revert()
            return dy.tanh(x)

        f, _ = self.counted(checked, 1)
        for k in range(4):
            y = f(x)
            assert (y.index, y.operands, len(x.graph)) == (k + 1, (x,), k + 2)
            assert y.signature.op.name == "tanh"

    def test_graphs_that_are_read(self, x):
        """By what checks: nodes are stored, and those that come later are as before."""

        def checked(x):
            x.value()
            y = dy.exp(x)
            y.value()
            return dy.log(y)

        f, calls = self.counted(checked, 1)
        for _ in range(3):
            assert f(x).value() == pytest.approx([1, 2, 3], rel=1e-5)
        assert len(calls) == 1

    def test_calls_within_calls(self, x):
        """A function may call itself, and others."""

        def checked(x):
            shape = x.dim()[0]
            return f(x[0 : shape[0] - 1]) if shape[0] > 1 else dy.tanh(x)

        f, calls = self.counted(checked, 1)
        for _ in range(3):
            y = f(x)
            assert y.value() == pytest.approx(np.tanh(1))
        assert len(calls) == 3

    def test_lists_that_change(self, x):
        """What is remembered has the operands that it was made of."""

        def checked(xs):
            y = dy.tanh(xs[0])
            xs.append(y)
            return y

        f, calls = self.counted(checked)
        for k in range(3):
            xs = [x]
            assert f(xs) == xs[1]
            assert len(calls) == k + 1
        g, calls = self.counted(lambda xs: (dy.tanh(xs.pop()), xs.append(None))[0])
        for _ in range(3):
            y = dy.inputVector([1.0, 2.0, 3.0])
            assert g([y]).operands == (y,)


class TestArguments:
    def counted(self, checked, *about, **others):
        return TestChecked.counted(self, checked, *about, **others)

    def test_of_nodes_before_the_last(self):
        """A number that two nodes have is that of each call in both."""
        f, _ = self.counted(lambda x, k: (x * k) + k, 1, [(real(), None)])
        x = dy.inputVector([1.0, 2.0])
        for k in 2.0, 3.0, 2.0, 5.0:
            y = f(x, k)
            assert (y.data, y.operands[0].data) == (k, k)
            assert y.value() == [k + k, 2 * k + k]

    def test_that_are_never_as_given(self):
        """Nodes that have other numbers than those are made by Python."""
        f, calls = self.counted(
            lambda x, k: dy.pick(x, (k + 1) % 3), 1, [(below(), None)]
        )
        x = dy.inputVector([1.0, 2.0, 3.0])
        for k in (0, 2, 1) * 2:
            assert f(x, k).data == (k + 1) % 3
        assert len(calls) == 6

    def test_static_ones(self):
        """Each has nodes of its own."""
        seen = []

        def checked(x, *rest):
            seen.append(rest)
            return dy.tanh(x)

        f = function(1, [(STATIC, None)])(checked)
        x = dy.inputVector([1.0, 2.0])
        several = [
            *(0, 1, -1, 2**31, 2**32, 2**33, -(2**31), -(2**63), 2**63 - 1),
            *(True, False, None, 0.0, -0.0, 1.0, 0.5, np.inf, -np.inf),
            *((), [], (0,), [0], (0, 0), ((0,), 0), (0, (0,)), ((0, 0),), ((), ())),
            *((True,), (1.0,), (1,), [(1,)], ([1],), (None,), (0,) * 16, [0] * 15),
        ]
        for _ in range(3):
            for given in several:
                assert f(x, given).operands == (x,)
        assert [repr(rest[0]) for rest in seen] == [repr(given) for given in several]
        f(x)
        f(x)
        assert len(seen) == len(several) + 1

    @pytest.mark.parametrize(
        "given",
        [
            *("x", b"x", 2**63, -(2**63) - 1, 1j, {}, {1}, np.int64(1), np.float64(1)),
            *(np.ones(1), (0,) * 17, ("x",), [2**63], object(), range(2)),
        ],
        ids=lambda given: repr(given)[:20],
    )
    def test_static_ones_that_are_not_remembered(self, given):
        seen = []

        def checked(x, given):
            seen.append(given)
            return dy.tanh(x)

        f = function(1, [(STATIC, None)])(checked)
        x = dy.inputVector([1.0, 2.0])
        for _ in range(2):
            f(x, given)
        assert len(seen) == 2
        assert seen[0] is seen[1] is given

    @pytest.mark.parametrize(
        ("usual", "given", "others"),
        [
            (below(), [0, 1, 4], [5, -1, True, 1.0, 2**70, None, np.int64(1), "1"]),
            (below(CONSTANT, high=4), [0, 3], [4, -1, 2**40, False, 1.0]),
            (below(single=True), [0, 4], [5, True]),
            (real(), [0.5, 1, -0.0, np.inf, -3, np.nan], [True, None, 2**2000, "1"]),
            (real(), [0, 2**70], [np.float64(1), np.float32(1), np.int64(1), [1.0]]),
            (real(0), [0.0, 0, 1, np.inf, -0.0], [-1, -0.1, np.nan, True, -5e-324]),
            (real(0, 1), [0.0, 1.0, 1, 0.5, 5e-324], [1.5, 2, -5e-324, np.nan]),
            (real(0, 1, above=True), [1.0, 1, 5e-324], [0.0, 0, -0.0, 1.1, np.nan]),
            (real(0, 1, below=True), [0.0, -0.0, 0.5, 0], [1.0, 1, np.nan]),
            (real(floats=True), [0.5, np.inf, 1.0], [1, 0, True]),
        ],
    )
    def test_usual_ones(self, usual, given, others):
        """Nodes that have them are made again; all others are for Python."""
        make = dy.pick if usual.letter == "i" else operator.mul
        f, calls = self.counted(make, 1, [(usual, None)])
        x = dy.inputVector([1.0, 2.0, 3.0, 4.0, 5.0])
        for k in [*given, *given]:
            found = f(x, k).data
            np.testing.assert_array_equal(found, np.float32(k))
        assert len(calls) == 1
        for count, k in enumerate([*others, *others], 2):
            with contextlib.suppress(Exception):
                f(x, k)
            assert (k, len(calls)) == (k, count)
        for k in given:
            np.testing.assert_array_equal(f(x, k).data, np.float32(k))
        assert len(calls) == 1 + 2 * len(others)

    def test_defaults(self):
        """They are data where they are floats."""
        seen = []

        def checked(x, k=0.5, m=3):
            seen.append((k, m))
            return x * k

        f = function(1, [(real(), 0.5), (STATIC, 3)])(checked)
        x = dy.inputVector([1.0, 2.0])
        for _ in range(2):
            assert [f(x).data, f(x, 0.25).data, f(x, 2, 3).data] == [0.5, 0.25, 2]
        assert len(seen) == 3
        assert [f(x, k=4).data, f(x, m=3).data, f(x, 8, m=1).data] == [4, 0.5, 8]
        assert len(seen) == 6
        with pytest.raises(TypeError, match="positional argument"):
            f(x, 1, 2, 3)
        with pytest.raises(TypeError, match="missing"):
            f()

    @pytest.mark.parametrize(
        "about",
        [
            (1,),
            (None, 1, [], False, False),
            (len, None, [], False, False),
            (len, 1 << 40, [], False, False),
            (len, 1, None, False, False),
            (len, 1, [3], False, False),
            (len, 1, [(1,) * 9], False, False),
            (len, 1, [("i", 0, False, 0.0, 1.0, False, False, False)], False, False),
            (len, 1, [("f", 0, 0, 0.0, 1.0, 0, 0, 0, "x")], False, False),
        ],
        ids=lambda about: str(len(about)),
    )
    def test_of_functions_that_are_broken(self, about):
        """What is called is seen only when it is."""
        if about[0] is None:
            f = core.Function(*about)
            with pytest.raises(TypeError, match="not callable"):
                f(dy.inputVector([1.0]))
            return
        with pytest.raises((TypeError, ValueError, OverflowError, SystemError)):
            core.Function(*about)


PUBLIC = [
    name
    for name in dir(dy)
    if isinstance(getattr(dy, name), core.Function) and name[0] != "_"
]


def a_function(x):
    """Says what it does."""
    return dy.tanh(x)


class TestFunctions:
    def test_there_are_many(self):
        assert {"tanh", "pick", "concatenate", "esum", "reshape"} <= {*PUBLIC}
        assert len(PUBLIC) > 50

    def test_weak_references(self):
        f = function(1)(lambda x: dy.tanh(x))
        alive = weakref.ref(f)
        assert alive() is f
        del f
        gc.collect()
        assert alive() is None

    @pytest.mark.parametrize("name", PUBLIC)
    def test_pickle_and_copy(self, name):
        f = getattr(dy, name)
        for protocol in range(pickle.HIGHEST_PROTOCOL + 1):
            assert pickle.loads(pickle.dumps(f, protocol)) is f
        assert copy.copy(f) is f
        assert copy.deepcopy([f])[0] is f

    @pytest.mark.parametrize("name", PUBLIC)
    def test_attributes(self, name):
        f = getattr(dy, name)
        assert f.__name__ == f.__qualname__ == name
        assert f.__module__.startswith("dynetjax.ops.")
        assert getattr(sys.modules[f.__module__], name) is f
        assert f.__doc__
        assert inspect.getdoc(f)
        assert callable(f)
        assert callable(f.__wrapped__)
        assert name in repr(f)
        parameters = inspect.signature(f).parameters
        assert parameters
        assert all(p.kind != p.VAR_KEYWORD for p in parameters.values())

    def test_signatures(self):
        shown = {
            "tanh": "(x, /)",
            "cmult": "(x, y)",
            "esum": "(xs: list[dynetjax.core.expression.Expression])",
            "pick": "(e, index: int | numpy.integer[Any] = 0, dim: int = 0)",
            "concatenate": "(xs, d: int = 0)",
        }
        for name, text in shown.items():
            found = str(inspect.signature(getattr(dy, name)))
            assert found.split(" ->")[0].replace("typing.", "") == text

    def test_help(self):
        text = pydoc.render_doc(dy.pick, renderer=pydoc.plaintext)
        assert "pick(e, index: " in text
        assert "What stands at one index of a dimension" in text

    def test_of_the_users(self):
        f = function(1)(a_function)
        assert (f.__name__, f.__doc__) == ("a_function", "Says what it does.")
        assert (f.__module__, f.__qualname__) == (__name__, "a_function")
        assert f.__wrapped__ is a_function
        assert inspect.signature(f) == inspect.signature(a_function)
        assert repr(f) == "<function a_function>"
        f.other = 3
        assert f.other == 3
        del f.other
        assert not hasattr(f, "other")
        with pytest.raises(AttributeError):
            f.__wrapped__ = len
        x = dy.inputVector([1.0, 2.0])
        assert f(x).value() == f(x).value() == dy.tanh(x).value()

    def test_bare_ones(self):
        """That were given no name."""
        f = core.Function(a_function, 1, [], False, False)
        with pytest.raises(AttributeError, match="__qualname__"):
            repr(f)
        with pytest.raises(AttributeError, match="__qualname__"):
            pickle.dumps(f)
        x = dy.inputVector([1.0, 2.0])
        assert f(x).operands == f(x).operands == (x,)

    def test_as_methods(self):
        class Of:
            f = function(1)(lambda self: self)
            g = function(1)(lambda x: dy.tanh(x))

        of, x = Of(), dy.inputVector([1.0])
        assert of.f() is of
        assert Of.g(x).operands == Of.g(x).operands == (x,)

    def test_ways_to_call(self):
        x, y = dy.inputVector([1.0, 2.0]), dy.inputVector([3.0, 4.0])
        for _ in range(3):
            several = [
                dy.cmult(*(x, y)),
                dy.cmult(*[x], **{"y": y}),
                dy.cmult.__call__(x, y),
                next(map(dy.cmult, [x], [y])),
                dy.cmult.__wrapped__(x, y),
            ]
            assert all(z.operands == (x, y) for z in several)

    def test_functions_are_freed(self):
        """With what they hold, though that holds them."""

        class Held:
            pass

        def made():
            held = Held()
            held.f = function(1)(lambda x: (dy.tanh(x), held))
            held.f(dy.inputVector([1.0]))
            return weakref.ref(held)

        alive = made()
        gc.collect()
        assert alive() is None

    def test_numbers_are_not_used_again(self):
        """A function has nothing of one that was freed."""
        x = dy.inputVector([1.0, 2.0])
        for make in (dy.tanh, dy.exp, dy.square) * 2:
            f = function(1)(lambda x, make=make: make(x))
            assert f(x).signature is f(x).signature is make(x).signature
            del f
            gc.collect()


class TestReferences:
    """Nothing is kept that is not needed, and nothing is given up too often."""

    @pytest.mark.parametrize("name", CALLS)
    def test_counts(self, name, forget):
        there, calls = world(), [*USUAL[name], *OTHERS[name]]
        held = [there[k] for k in (*ROWS, *LEAVES, "stale", "cut", "other", "e")]
        held += [x.graph for x in held[: len(ROWS)]][:1]
        held += [dy.tanh, None, held[0].signature, there["step"]]
        several = [compile(call, "calls.py", "eval") for call in calls]

        def counts():
            gc.collect()
            return [sys.getrefcount(x) for x in held if x is not None]

        def run():
            for code in several:
                try:
                    eval(code, there)
                except Exception:
                    pass

        for _ in range(2):
            run()
        before = counts()
        for _ in range(50):
            run()
        after = counts()
        assert [b - a for a, b in zip(before, after, strict=True) if b - a > 20] == []
        assert [b - a for a, b in zip(before, after, strict=True) if b - a < -20] == []

    def test_arguments(self):
        """Numbers and lists are not kept."""
        x, big = dy.inputVector([1.0, 2.0]), [1.0 * 10**k for k in range(3)]
        shape = (2, 1)
        for _ in range(2):
            (x * big[2], dy.reshape(x, shape), dy.esum([x, x]))
        before = [sys.getrefcount(k) for k in (big[2], shape, x)]
        for _ in range(100):
            (x * big[2], dy.reshape(x, shape), dy.esum([x, x]))
        assert [sys.getrefcount(k) for k in (big[2], shape, x)] == before

    def test_more_calls_than_are_remembered(self):
        """All are forgotten then, and known again."""
        seen = []

        def checked(x, k):
            seen.append(k)
            return dy.pick_range(x, k % 7, 10) if k % 2 else dy.tanh(x)

        f = function(1, [(STATIC, None)])(checked)
        x = dy.inputVector(np.arange(10.0))
        for k in range(1 << 15):
            f(x, k)
        f(x, 0)
        f(x, (1 << 15) - 1)
        count = len(seen)
        assert count <= 1 + (1 << 15)
        for k in range(1 << 15, (1 << 15) + 1000):
            f(x, k)
        for k in range(1 << 15, (1 << 15) + 1000):
            y = f(x, k)
            assert (y.operands, y.lanes) == ((x,), 1)
            assert y.dim() == (((10 - k % 7) if k % 2 else 10,), 1)
        assert len(seen) <= count + 1003
        assert dy.tanh(x).signature is f(x, 0).signature

    def test_memory_of_what_is_known(self):
        """Calls that are like others take none."""
        x = dy.inputVector([1.0, 2.0])
        first = len(KNOWN.structures)
        for k in range(1000):
            dy.pick(x * float(k), k % 2)
        store(x.graph, [])
        assert len(KNOWN.structures) - first < 10


# What the collector frees makes nodes, or renews the graph, while somebody reads.
FINALISERS = """
import gc
import sys

import dynetjax as dy
import numpy as np
from dynetjax.engine.ir.fused import FUSED_OPS
from dynetjax.graph import ComputationGraph
from dynetjax.ops.declare import STATIC, function
from dynetjax.ops.inputs import INPUT_OP

act, what = sys.argv[1:]
one = function(1, [(STATIC, None)])(lambda x, k: dy.tanh(x))
several = function(1)(lambda x: tuple([f(x) for f in [dy.tanh, dy.exp] * 13]))
numbers, ran = iter(range(1 << 30)), []
taken = []  # memory of lists, so that none is at hand


class Final:
    def __init__(self):
        self.me = self

    def __del__(self):
        if act == "renews":
            dy.renew_cg()
        y = dy.inputVector([3.0, 4.0])
        for _ in range(3000):
            one(y, next(numbers))
            dy.pick_batch(x if x.is_live else y, [0] * 30)
            dy.esum([y] * 30)
        other = ComputationGraph()
        for _ in range(300):  # whose fused ops are new
            array = np.ones((1, next(numbers) + 3), np.float32)
            dy.tanh(other.add_rows(INPUT_OP, (), array.shape[1:], array, 1))
        other.store(())
        ran.append(act)


gc.disable()
for k in range(5):
    dy.renew_cg()
    x = dy.inputVector([1.0, 2.0])
    total = dy.esum([x] * 30)
    picked = dy.pick_batch(x, [k % 2 for k in range(30)])
    several(x)
    h = dy.tanh(dy.inputTensor(np.ones((k + 2, 7))))
    gc.collect()
    count, found = len(ran), None
    taken.append([[] for _ in range(300)])
    Final()
    gc.set_threshold(1, 1, 1)
    gc.enable()
    try:
        if what == "call":
            found = several(x)
        elif what == "operands":
            found = total.operands
        elif what == "store":
            h.graph.store(())
        else:
            found = picked.data
    except (ValueError, RuntimeError):
        pass
    for _ in (1, 2):  # Python 3.12 and newer collect between two turns
        pass
    gc.disable()
    assert len(ran) == count + 1, "the collector did not come"
    if act == "makes" and what == "call":
        names = [y.signature.op.name for y in found]
        assert names == ["tanh", "exp"] * 13
        assert all(y.operands == (x,) for y in found)
    elif act == "makes" and what == "operands":
        assert found == (x,) * 30
    elif act == "makes" and what == "store":
        fused = FUSED_OPS[h.graph.stored.fused(h.graph.at(h.index))]
        assert [step.signature for step in fused.steps] == [h.signature]
    elif act == "makes":
        assert found == [k % 2 for k in range(30)]
"""


@pytest.mark.parametrize("act", ["makes", "renews"])
@pytest.mark.parametrize("what", ["call", "operands", "data", "store"])
def test_finalisers(act, what):
    """They may come wherever Python allocates something."""
    command = [sys.executable, "-c", FINALISERS, act, what]
    environment = os.environ | {"MALLOC_PERTURB_": "165"}  # what is freed is not read
    done = subprocess.run(command, env=environment, capture_output=True, text=True)
    assert done.returncode == 0, done.stdout + done.stderr


class TestExpressions:
    @pytest.fixture
    def x(self):
        return dy.inputVector([1.0, 2.0, 3.0])

    def test_equality(self, x):
        """Expressions of one node are equal, and have one hash."""
        y, z = dy.tanh(x), dy.tanh(x)
        (again,) = y.operands
        assert again is not x
        assert again == x
        assert operator.ne(again, x) is False
        assert hash(again) == hash(x)
        assert y.graph.node(1) == y
        assert y != z
        assert operator.eq(y, z) is False
        assert len({x, again, y, z, y.graph.node(2)}) == 3
        assert {x: "x"}[again] == "x"
        assert [x, y].index(again) == 0

    def test_of_other_graphs(self, x):
        other = of_another_graph()
        assert (x.index, other.index) == (0, 0)
        assert x != other
        assert len({x, other}) == 2

    def test_of_parts(self, x):
        y = dy.concatenate([LEAVES["b"], x])
        part, _ = y.parts
        assert part.is_part
        assert part == y.parts[0]
        assert hash(part) == hash(y.parts[0])
        assert part not in (x, y, LEAVES["b"])
        assert part.index == y.index

    def test_leaves(self, x):
        b, W = LEAVES["b"], LEAVES["W"]
        y = dy.cmult(b, x)
        assert y.operands[0] is b
        assert b == b
        assert b != W
        assert b not in (x, y, W)
        assert len({b, W, y.operands[0]}) == 2
        assert (b.graph, b.is_live, b.index, b.is_part) == (None, True, -1, False)
        assert (b.lanes, b.operands, b.parts, b.lengths) == (0, (), (), ())
        assert b.data is None

    def test_other_things(self, x):
        for other in 3, None, "x", dy.Expression, object(), x.graph, dy.Expression():
            assert x != other
            assert other != x
            assert operator.eq(x, other) is False
        for compare in operator.lt, operator.le, operator.gt, operator.ge:
            for other in x, 3:
                with pytest.raises(TypeError, match="more than one number"):
                    compare(x, other)
            with pytest.raises(TypeError, match="not supported"):
                compare(x, "3")
        assert x.__eq__(3) is NotImplemented
        assert x in [None, 3, x]

    NAMES = "index", "is_part", "lanes", "signature", "operands", "parts", "lengths"

    def check_stale(self, *several):
        for x in several:
            assert not x.is_live
            for name in (*self.NAMES, "data"):
                with pytest.raises(RuntimeError, match="the expression is stale"):
                    getattr(x, name)
            with pytest.raises(RuntimeError, match="stale"):
                x.value()
            with pytest.raises(RuntimeError, match="stale"):
                x.dim()
            with pytest.raises(ValueError, match="stale"):
                dy.tanh(x)
            with pytest.raises(ValueError, match="stale"):
                dy.esum([x])
            assert repr(x) == "expression (stale)"
            assert isinstance(x.graph, ComputationGraph)

    def test_stale_ones(self, x):
        """After the graph was renewed; what is made then is something else."""
        for _ in range(3):
            y, graph = dy.tanh(x), x.graph
            again, hashes = y.operands[0], (hash(x), hash(y))
            dy.renew_cg()
            self.check_stale(x, y, again)
            assert (x == again, x != y) == (True, True)
            assert (hash(x), hash(y)) == hashes
            assert x.graph is graph
            later = dy.inputVector([1.0, 2.0, 3.0])
            z = dy.tanh(later)
            assert (later.index, z.index) == (0, 1)
            self.check_stale(x, y, again)
            assert later not in (x, y, again)
            assert z not in (x, y, again)
            x = later

    def test_stale_ones_whose_graph_is_gone(self):
        """They keep it, and nothing else of it."""
        x = dy.inputVector([1.0, 2.0])
        graph = weakref.ref(x.graph)
        dy.renew_cg()
        gc.collect()
        assert graph() is x.graph
        assert len(graph()) == 0
        del x
        assert graph() is None

    @pytest.mark.parametrize("read", [False, True])
    def test_of_what_was_cut(self, x, read):
        """They stay stale when others have their numbers."""
        gone = []
        for k in range(4):
            dy.cg_checkpoint()
            y = [dy.tanh, dy.exp][k % 2](x)
            z = dy.concatenate([LEAVES["b"], y])
            if read:
                z.value()
            several = y, z, z.parts[0], z.parts[1]
            assert all(v.is_live for v in several)
            assert not any(v in gone for v in several)
            assert not any(v.is_live for v in gone)
            dy.cg_revert()
            self.check_stale(y, z)
            gone += several
        dy.tanh(x)
        self.check_stale(*gone)
        assert x.is_live

    def test_of_what_was_cut_by_several_marks(self, x):
        several = []
        for k in range(4):
            dy.cg_checkpoint()
            several.append(dy.tanh(x))
            assert several[k].index == k + 1
        for k in range(4):
            dy.cg_revert()
            lives = [y.is_live for y in several]
            assert lives == [True] * (3 - k) + [False] * (k + 1)
        again = dy.tanh(x)
        assert again not in several
        self.check_stale(*several)

    def test_calls_after_a_cut(self, x):
        """Nodes that are made again have the operands of now."""
        for k in range(4):
            dy.cg_checkpoint()
            y = dy.tanh(dy.inputVector([float(k), 1, 2]))
            assert y.value() == pytest.approx(np.tanh([k, 1, 2]))
            assert y.operands[0] == x.graph.node(1)
            dy.cg_revert()

    def test_no_collector_looks_at_them(self, x):
        several = [x, dy.tanh(x), x[0], x[0:2], LEAVES["E"][1], x.graph.node(0)]
        several += [*dy.tanh(x).operands, dy.esum([x, x]), dy.Expression()]
        assert not any(gc.is_tracked(y) for y in several)

    def test_they_are_used_again(self):
        """Many of them at once, and in any order."""
        shuffled, several = random.Random(3), []
        for k in range(5):
            x = dy.inputVector([float(k), 2.0])
            several += [dy.tanh(x) for _ in range(20000)]
            shuffled.shuffle(several)
            del several[5000:]
            assert len({y.index for y in several if y.is_live}) == sum(
                y.is_live for y in several
            )
            assert all(y.operands == (x,) for y in several if y.graph is x.graph)
            dy.renew_cg()
        assert not any(y.is_live for y in several)

    def test_attributes_are_not_set(self, x):
        for name in (*self.NAMES, "data", "graph", "is_live"):
            with pytest.raises(AttributeError):
                setattr(x, name, getattr(x, name))
        with pytest.raises(AttributeError):
            x.something = 3
        with pytest.raises(TypeError, match="no copies and no pickles"):
            pickle.dumps(x)
        with pytest.raises(TypeError, match="no copies and no pickles"):
            copy.copy(x)

    def test_types(self, x):
        assert type(x) is dy.Expression
        assert isinstance(LEAVES["b"], dy.Expression)
        assert isinstance(LEAVES["E"], dy.Expression)
        assert dy.Expression.__name__ == "Expression"
        assert dy.Expression.__module__ == "dynetjax.core.expression"

    def test_one_of_no_node(self):
        e = dy.Expression()
        assert (e.graph, e.index, e.lanes, e.operands) == (None, -1, 0, ())
        assert e == e
        assert e != dy.Expression()
        with pytest.raises(AttributeError):
            e.signature  # noqa: B018
        assert "xpression" in repr(e)
        for _ in range(2):
            with pytest.raises(TypeError, match="not an Expression"):
                dy.tanh(e)


class TestSubclasses:
    class Mine(dy.Expression):
        """One of the user's."""

        def __init__(self, about=None):
            self.about = about

        def doubled(self):
            return self + self

    class Slim(dy.Expression):
        __slots__ = ("about",)

    def test_instances(self):
        mine = self.Mine([1])
        assert isinstance(mine, dy.Expression)
        assert mine.about == [1]
        assert (mine.graph, mine.index, mine.operands) == (None, -1, ())
        assert mine == mine
        assert mine != self.Mine([1])
        assert len({mine, self.Mine([1])}) == 2
        slim = self.Slim()
        slim.about = 3
        assert slim.about == 3

    @pytest.mark.parametrize("kind", [Mine, Slim])
    def test_they_are_no_nodes(self, kind):
        """Neither the first time nor the second."""
        x, found = dy.inputVector([1.0, 2.0]), []
        for make in (
            lambda: dy.tanh(kind()),
            lambda: x + kind(),
            lambda: kind() + x,
            lambda: kind() + 1,
            lambda: dy.esum([x, kind()]),
            lambda: dy.concatenate([kind()]),
            lambda: kind() * x,
            lambda: dy.pick(kind(), 1),
            lambda: -kind(),
        ):
            errors = []
            for _ in range(3):
                dy.tanh(x)
                with pytest.raises(TypeError, match="not an Expression") as error:
                    make()
                errors.append(re.sub("0x[0-9a-f]+", "", str(error.value)))
            assert errors == [errors[0]] * 3
            found.append(errors[0])
        assert len(x.graph) == 1 + 3 * len(found)

    def test_they_are_freed(self):
        """In a circle, too: of them the collector knows."""
        gc.collect()
        mine = self.Mine()
        mine.about = mine
        alive, slim = weakref.ref(mine), self.Slim()
        kinds = [sys.getrefcount(kind) for kind in (self.Mine, self.Slim)]
        assert gc.is_tracked(mine)
        del mine, slim
        gc.collect()
        assert alive() is None
        for _ in range(100):
            self.Mine(self.Mine()), self.Slim()
        gc.collect()
        assert [sys.getrefcount(kind) for kind in (self.Mine, self.Slim)] == [
            kind - 1 for kind in kinds
        ]

    def test_of_parameters(self):
        """They are operands as those are that they are made from."""

        class Named(type(LEAVES["b"])):
            def named(self):
                return "named"

        b = Named(LEAVES["b"].storage)
        x = dy.inputVector([1.0, 2.0, 3.0])
        for _ in range(3):
            y = dy.cmult(b, x)
            assert y.operands[0] is b
            assert y.signature is dy.cmult(LEAVES["b"], x).signature
            assert b.named() == "named"
            assert y.value() == dy.cmult(LEAVES["b"], x).value()


class TestRagged:
    """Lists of several lengths, whose axes became ragged."""

    LENGTHS = 3, 5, 4, 3, 9, 5, 20

    def lists(self, length):
        x = dy.inputVector([1.0, 2.0, 3.0])
        return dy.concatenate_cols([dy.tanh(x * (k + 1.0)) for k in range(length)])

    def calls(self, M):
        """What is made of a list: of one length, or of another."""
        x = dy.inputVector([1.0, 0.5, 0.25])
        scores = dy.transpose(M) * x
        weights = dy.softmax(scores)
        return [
            *(M, scores, weights, M * weights, dy.pick(scores, 2), scores[1]),
            *(dy.pickneglogsoftmax(scores, 1), dy.sum_elems(M), M[1], scores[0:2]),
            *(scores * 2, scores + scores, dy.cmult(weights, scores), dy.tanh(M)),
            *(dy.noise(scores, 0.5), dy.reshape(scores, (len(scores.value()),))),
        ]

    def told(self, several):
        return [described(y, {}) for y in several]

    def test_the_same_as_if_nothing_is_known(self, forget):
        for length in self.LENGTHS * 2:  # so that axes are told to be ragged
            dy.renew_cg()
            self.calls(self.lists(length))
        first = {}
        for length in self.LENGTHS:
            forget()
            first[length] = self.told(self.calls(self.lists(length)))
        forget()
        for k in range(3):
            for length in self.LENGTHS:
                assert self.told(self.calls(self.lists(length))) == first[length]
            if k:
                dy.renew_cg()

    def test_indices(self, forget):
        """They end where the list does, and not its room."""
        for length in self.LENGTHS * 2:
            dy.renew_cg()
            scores = dy.transpose(self.lists(length)) * dy.inputVector([1.0, 2, 3])
            for _ in range(2):
                for k in range(length):
                    assert scores[k].data in (k, (k, length))
                    assert dy.pick(scores, k).dim() == ((1,), 1)
                for k in length, length + 1, 64:
                    with pytest.raises(IndexError, match="out of range"):
                        scores[k]
                    with pytest.raises(ValueError, match="out of range"):
                        dy.pick(scores, k)
                    with pytest.raises(ValueError, match="out of range"):
                        dy.pickneglogsoftmax(scores, k)
                assert scores[-1].value() == scores.value()[-1]
                assert len([*scores]) == length


def test_forgetting():
    """What was made is made by Python again, and is the same."""
    calls = []

    @function(1)
    def f(x):
        calls.append(x)
        return dy.tanh(x)

    x = dy.inputVector([1.0, 2.0])
    signature = f(x).signature
    f(x)
    assert len(calls) == 1
    KNOWN.forget()
    f(x)  # whose graph goes on with what it knows
    assert len(calls) == 1
    dy.renew_cg()
    x = dy.inputVector([1.0, 2.0])
    assert f(x).signature is f(x).signature is signature
    assert len(calls) == 2


def test_the_structure_of_an_input_alone():
    """An expression of a bare graph is an operand as any other."""
    nodes = core.Nodes()
    nodes._begin(KNOWN.structures, None, False)
    signature = signature_of_rows(INPUT_OP, (3,))
    x = nodes.append(signature, (), 1, np.ones((1, 3), np.float32))
    with pytest.raises(AttributeError):
        dy.tanh(x)
    dy.tanh(dy.inputVector([1.0, 2.0, 3.0]))
    for k in range(3):
        y = dy.tanh(x)
        assert (y.graph, y.operands, y.index) == (nodes, (x,), k + 1)
