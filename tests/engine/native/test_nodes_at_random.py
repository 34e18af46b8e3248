"""Which nodes have rows, in graphs at random: whatever is stored has the right numbers.

They are computed here, in float64, from what the stored nodes tell of themselves. Most
nodes are made as others were before.
"""

import numpy as np
import pytest

import dynetjax as dy
from dynetjax.core.registry import INPUT, REDUCE
from dynetjax.engine.ir.fused import FUSED_OPS, fused_op
from dynetjax.engine.ir.structures import KNOWN, told
from dynetjax.engine.parts import store
from dynetjax.graph import current_graph
from dynetjax.native import core

SHAPE = 2, 2  # of a matrix: what is made of parameters alone has no rows
LARGE = 1e3  # numbers are to be below
FUNCTIONS = {
    "lift": lambda x: x,
    "tanh": np.tanh,
    "square": np.square,
    "negate": np.negative,
    "scale": np.multiply,
    "add": np.add,
    "subtract": np.subtract,
    "cmult": np.multiply,
    "matmul": np.matmul,
    "affine_transform": np.add,
}
OF_ONE = {"tanh": dy.tanh, "square": dy.square, "negate": lambda x: -x}
OF_TWO = {"add": lambda x, y: x + y, "subtract": lambda x, y: x - y, "cmult": dy.cmult}
READS = "lanes", "index", "reads", "data"


def affine(*xs):
    return dy.affine_transform([*xs])


class Made:
    """A node of the user's, as it was made.

    Attributes:
        x: the expression.
        told: what that tells of itself.
        of: nodes that it reads, parameters and zeros.
        compute: its numbers ``[batch, 2, 2]``, of theirs.
        value: these numbers.
    """

    def __init__(self, x, of, compute):
        self.x, self.of, self.compute = x, of, compute
        self.told = told_of(x) if x is not None else None
        self.update()

    def update(self):
        self.value = self.compute(*[y.value for y in self.of])


def told_of(x):
    """The attributes of an expression, but for data."""
    about = [x.signature, x.operands, x.parts, x.lanes, x.lengths]
    return [*about, x.index, x.is_part, x.graph, x.is_live]


class World:
    """A graph that grows and shrinks.

    Attributes:
        nodes: each `Made` node of the user's.
        weight: a parameter.
        weights: numbers of what is made of it alone, by kind.
        cut: expressions of nodes that were cut.
    """

    def __init__(self, seed):
        dy.renew_cg()
        self.graph = current_graph()
        self.rng = np.random.default_rng(seed)
        self.nodes, self.marks, self.cut = [], [], []
        parameter, value = (
            dy.ParameterCollection().add_parameters(SHAPE),
            self.numbers(1),
        )
        self.weight = Made(parameter, (), lambda: value)
        self.weights = {parameter.kind.id: self.weight}
        self.add_input()

    def numbers(self, lanes):
        return self.rng.normal(size=(lanes, *SHAPE)).astype(np.float32).astype(float)

    def chance(self, one_of):
        return self.rng.integers(one_of) == 0

    def add_input(self):
        lanes = int(self.rng.choice([1, 1, 3]))
        value = self.numbers(lanes)
        x = dy.inputTensor(np.moveaxis(value, 0, -1), batched=True)
        self.nodes.append(Made(x, (), lambda: value))

    def node(self):
        """Rather one of the last."""
        count = min(len(self.nodes), int(self.rng.choice([2, 4, 1000])))
        return self.nodes[-int(self.rng.integers(1, count + 1))]

    def operand(self):
        """A node; a parameter or zeros now and then."""
        if self.chance(12):
            return self.weight
        if self.chance(12):
            lanes = 1 if self.chance(2) else 3
            none = np.zeros((lanes, *SHAPE))
            return Made(self.graph.zeros(SHAPE, lanes), (), lambda: none)
        return self.node()

    def add(self):
        """Some node; of parameters alone now and then, which is read like one."""
        what, x = int(self.rng.integers(12)), self.node()
        if what == 0:
            self.add_input()
        elif what == 10:
            self.enter(OF_TWO["add"], FUNCTIONS["add"], self.weight, self.weight)
        elif what == 11:  # whose product is a part, and none of the user's nodes
            W, y = (x, self.operand()) if self.chance(2) else (self.operand(), x)
            self.enter(affine, lambda b, W, y: b + W @ y, self.operand(), W, y)
        elif what < 4:
            name = str(self.rng.choice([*OF_ONE]))
            self.enter(OF_ONE[name], FUNCTIONS[name], x)
        elif what == 4:
            factor = float(self.rng.choice([0.5, -2, 3]))
            self.enter(lambda x: x * factor, lambda x: x * factor, x)
        elif what == 5:
            terms = [self.operand() for _ in range(int(self.rng.integers(1, 12)))]
            self.enter(lambda *xs: dy.esum([*xs]), lambda *xs: sum(xs), x, *terms)
        else:
            name, y = str(self.rng.choice([*OF_TWO])), self.operand()
            if self.chance(2):
                x, y = y, x
            self.enter(OF_TWO[name], FUNCTIONS[name], x, y)

    def enter(self, make, compute, *of):
        lanes = {len(x.value) for x in of} - {1}
        if len(lanes) > 1 or np.abs(compute(*[x.value for x in of])).max() >= LARGE:
            return
        made = Made(make(*[x.x for x in of]), of, compute)
        self.nodes.append(made)
        for x in made.x.parts:
            if x.is_part and not x.lanes:
                weights = [self.weights[y.kind.id] for y in x.operands]
                product = Made(x, weights, FUNCTIONS[x.signature.op.name])
                self.weights[x.kind.id] = product
        if not made.x.lanes:
            self.weights[made.x.kind.id] = made

    def set(self):
        """Let an input, or a factor, have other numbers."""
        made = self.node()
        name = made.x.signature.op.name
        if name == "inputTensor":
            value = self.numbers(made.x.lanes)
            self.graph.set_data(made.x.index, value.astype(np.float32))
            made.compute = lambda: value
        elif name == "scale":
            factors = self.rng.choice([0.25, -1, 2], size=made.x.lanes)
            self.graph.set_data(made.x.index, [float(k) for k in factors])
            made.compute = lambda x: x * factors[:, None, None]
        for node in self.nodes:
            node.update()

    def change(self):
        """Do something; the nodes that somebody reads after that."""
        what = int(self.rng.integers(13))
        if what == 0:
            dy.cg_checkpoint()
            self.marks.append(len(self.nodes))
        elif what == 1 and self.marks:
            dy.cg_revert()
            count = self.marks.pop()
            self.cut += [made.x for made in self.nodes[count:]]
            del self.nodes[count:]
        elif what == 2:
            self.graph.start_anew()
        elif what == 3:
            self.graph.hold(int(self.rng.integers(len(self.graph))))
        elif what == 4:
            self.set()
        else:
            for _ in range(int(self.rng.integers(1, 8))):
                self.add()
        count = int(self.rng.choice([0, 0, 1, 2]))
        return [self.nodes[k].x for k in self.rng.integers(len(self.nodes), size=count)]

    def facts(self):
        """Where nodes are stored, and what is there."""
        graph, several = self.graph, self.graph.stored
        return [graph.at(k) for k in range(len(graph))], [
            [getattr(several, name)(k) for name in READS] for k in range(len(several))
        ]

    def check(self):
        """What is stored has the numbers of the user's nodes."""
        several, known = self.graph.stored, []
        for k in range(len(several)):
            known.append(self.computed(several, k, known))
            assert len(known[-1]) in (1, several.lanes(k))
        for made in self.nodes:
            at = self.graph.at(made.x.index)
            if at >= 0:
                assert several.lanes(at) == max(1, made.x.lanes)
                about = {"rtol": 1e-6, "atol": 1e-6 * max(1, np.abs(made.value).max())}
                found = np.broadcast_to(known[at], made.value.shape)  # if it is zeros
                np.testing.assert_allclose(found, made.value, **about)

    def check_expressions(self):
        """They tell what they told when they were made; what was cut is stale."""
        there = set(self.graph.nodes)
        assert len(there) == len(self.graph)
        for made in self.nodes:
            assert told_of(made.x) == made.told
            assert made.x == self.graph.node(made.x.index)
            assert made.x in there
        for x in self.cut:
            assert not x.is_live
            assert x not in there

    def computed(self, several, k, known):
        """The numbers of a stored node, of those before it."""
        fused, reads = FUSED_OPS[several.fused(k)], several.reads(k)
        assert all(-1 <= r < k for r in reads)
        rows = [known[r] if r >= 0 else np.zeros((1, *SHAPE)) for r in reads]
        if fused.form == REDUCE:
            return sum(rows)
        if fused.form == INPUT:
            return np.asarray(several.given(k), float).reshape(-1, *SHAPE)
        assert len(rows) == len(fused.leaves)
        data = np.array(several.data(k), np.int32).view(np.float32)
        data = data.reshape(len(fused.data), several.lanes(k), 1, 1)
        steps = []
        sources = {"step": steps.__getitem__, "leaf": rows.__getitem__}
        sources["weight"] = lambda kind: self.weights[kind].value
        for n, step in enumerate(fused.steps):
            operands = [sources[role](number) for role, number in step.operands]
            operands += [data[at] for (of, _), at in fused.fields.items() if of == n]
            steps.append(FUNCTIONS[step.signature.op.name](*operands))
        return steps[-1]


@pytest.mark.parametrize("seed", range(60))
def test_all_that_is_stored(seed, monkeypatch):
    """Whatever is read, held and cut; to store once more changes nothing."""
    # nobody else knows them
    structures = core.Structures(told, fused_op, 1 << 20)
    monkeypatch.setattr(KNOWN, "structures", structures)
    world = World(seed)
    for _ in range(25):
        read = world.change()
        store(world.graph, read)
        world.check()
        assert all(world.graph.at(x.index) >= 0 for x in read if x.lanes)
        before = world.facts()
        for again in read, []:
            store(world.graph, again)
            assert world.facts() == before
        world.check_expressions()
    monkeypatch.undo()
    dy.renew_cg()
