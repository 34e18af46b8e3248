"""Plans that a compiled program makes, against those of NumPy."""

import random
from collections import defaultdict

import numpy as np
import pytest
from hypothesis import HealthCheck, given, settings

import dynetjax as dy
from dynetjax.engine import device, habits, hosted, plan, planner, planning, schedule
from dynetjax.engine.differentiate import Backward
from dynetjax.engine.fused import Pools
from dynetjax.engine.run import Run
from dynetjax.engine.tape import TapeWriter
from dynetjax.engine.tiling import structure_of, tile
from dynetjax.graph import current_graph

from ..backends import assert_same
from . import test_random_graphs as graphs

SIZE, WORDS = 5, 7
RNG = np.random.default_rng(3)


@pytest.fixture(params=["before it runs", "while it runs"])
def found(request, monkeypatch):
    """Whether each graph is planned by the program, when that is found out.

    If that is before it runs, the plan is compared with that of NumPy.
    """
    by_program, fits = plan._as_usual, plan.Plan.fits
    results = []

    def asked(roots, cells, draws):
        quick = by_program(roots, cells, draws)
        if quick is None:
            results.append(False)
        elif request.param == "before it runs":
            if not quick.fits():
                return None
            tiling = tile(current_graph(), 0, structure_of(cells))
            compare(quick, plan._make(tiling, roots, full=False), tiling, draws)
        return quick

    def noted(self):
        new = self.written is not None and not self.steps
        answer = fits(self)
        if new:
            results.append(answer)
        return answer

    monkeypatch.setattr(plan, "_as_usual", asked)
    monkeypatch.setattr(plan.Plan, "fits", noted)
    at_once(monkeypatch)
    return results


def at_once(patch):
    """Have the program plan all but the first graphs."""
    patch.setattr(plan, "_repeats", defaultdict(habits.Repeats))
    patch.setattr(plan, "_scopes", {})
    patch.setattr(schedule, "_settled", {})
    patch.setattr(habits, "NEW", 1)
    patch.setattr(habits, "OFTEN", 0)
    patch.setattr(planner, "USUAL", 1)


def compare(quick, slow, tiling, draws):
    """Whether two plans of a graph are the same, and the tape."""
    assert quick.fusion is slow.fusion
    assert quick.work == slow.work
    assert quick.layout.blocks == slow.layout.blocks
    assert quick.layout.room is slow.layout.room
    for macro, nodes in tiling.nodes.items():
        first = quick.layout.row[nodes] - quick.layout.lane[nodes]
        assert set(first.tolist()) == {slow.layout.base[macro]}
    count = len(tiling)
    equal = np.testing.assert_array_equal
    equal(quick.layout.lane[:count], slow.layout.lane)
    equal(quick.layout.row[:count], slow.layout.row[:count])
    assert quick.layout.row[-1] == slow.layout.row[-1] == 0  # that of NOTHING
    equal(quick.ends, slow.ends)
    tape = slow.template.tape.copy()
    TapeWriter(tiling, slow.layout, {}, draws).fill(slow.template.columns, tape)
    equal(quick.written.tape, tape)


class Net:
    """Trees of words, by operations, and chains by an LSTM."""

    def __init__(self):
        self.pc = dy.ParameterCollection()
        new = self.pc.parameters_from_numpy
        self.arrays = RNG.normal(size=(2, SIZE, SIZE)) * 0.5, RNG.normal(size=SIZE)
        (W, V), b = self.arrays
        self.W, self.V, self.b = new(W), new(V), new(b)
        self.words = RNG.normal(size=(WORDS, SIZE))
        self.table = self.pc.lookup_parameters_from_numpy(self.words)
        self.lstm = dy.VanillaLSTMBuilder(1, SIZE, SIZE, self.pc)

    def node(self, x, y):
        return dy.tanh(dy.affine_transform([self.b, self.W, x, self.V, y]))

    def tree(self, tree):
        if isinstance(tree, int):
            return self.table[tree]
        return self.node(*map(self.tree, tree))

    def loss(self, top):
        return dy.pickneglogsoftmax(top, 2)

    def value(self, tree):
        """Of a tree in a new graph."""
        dy.renew_cg()
        return self.loss(self.tree(tree)).value()

    def vector(self, tree):
        """That of a tree's root, by NumPy."""
        (W, V), b = self.arrays
        if isinstance(tree, int):
            return self.words[tree]
        return np.tanh(b + W @ self.vector(tree[0]) + V @ self.vector(tree[1]))

    def expected(self, tree):
        top = self.vector(tree)
        return np.log(np.exp(top).sum()) - top[2]


def some_tree(rng, size):
    if size == 1:
        return rng.randrange(WORDS)
    left = rng.randrange(1, size)
    return some_tree(rng, left), some_tree(rng, size - left)


def trees(seed, count, most=12):
    rng = random.Random(seed)
    return [some_tree(rng, rng.randrange(8, most)) for _ in range(count)]


def settle_for(found, run):
    """Do the same, as if it was new each time, until the program plans all of it."""
    for _ in range(6):
        del found[:]
        plan._kept.__init__()
        run()
        if found and False not in found:
            break
    assert set(found) == {True}
    del found[:]


def settle(net, found):
    """Compute trees, until new ones show nothing new."""
    settle_for(found, lambda: [net.value(tree) for tree in trees(0, 40)])


def test_trees(found):
    net = Net()
    settle(net, found)
    for tree in trees(1, 9):
        assert net.value(tree) == pytest.approx(net.expected(tree), rel=1e-5)
    assert found == [True] * 9


def test_on_the_host_for_a_device_beside_it(found, far):
    del far
    net = Net()
    settle(net, found)
    for tree in trees(1, 9):
        assert net.value(tree) == pytest.approx(net.expected(tree), rel=1e-5)
    assert found == [True] * 9
    (run,) = current_graph().state.parts
    assert run.plan.written.tape.sharding.device_set == {device.host()}
    assert run._tape is not run.plan.written.tape


def test_what_is_computed_later_reads_its_rows(found, monkeypatch):
    monkeypatch.setattr(hosted, "MOST_NODES", 0)  # on the device
    net = Net()
    settle(net, found)
    (tree,) = trees(1, 1)
    dy.renew_cg()
    top = net.tree(tree)
    assert net.loss(top).value() == pytest.approx(net.expected(tree), rel=1e-5)
    assert found == [True]
    later = dy.tanh(top * 2 + net.table[1]).npvalue()
    expected = np.tanh(2 * net.vector(tree) + net.words[1])
    np.testing.assert_allclose(later, expected, rtol=1e-4, atol=1e-6)


@pytest.mark.parametrize(("count", "most"), [(120, 1), (900, 2)])
def test_many_trees(found, count, most):
    """In one graph, of more nodes than a single sentence has."""
    net = Net()

    def value(seed):
        dy.renew_cg()
        several = trees(seed, count, most=24)
        losses = [net.loss(net.tree(tree)) for tree in several]
        total = dy.esum(losses)
        return total.value(), sum(map(net.expected, several))

    settle_for(found, lambda: [value(seed) for seed in range(6)])
    got, expected = value(7)
    assert len(current_graph().cells) > planner.NODES[most]
    assert got == pytest.approx(expected, rel=1e-5)
    assert found == [True]


@pytest.mark.parametrize("large", [False, True])
def test_a_graph_too_large_to_keep_its_plan_does_not_wait_for_another(
    found, monkeypatch, large
):
    monkeypatch.setattr(habits, "NEW", 1000)
    monkeypatch.setattr(plan, "MOST_KEPT", 8 if large else 4096)
    net = Net()
    for tree in trees(0, 40):
        net.value(tree)
    assert (True in found) == large


def forget_gradients(net):
    for p in net.W, net.V, net.b, net.table:
        p.scale_gradient(0)


def test_gradients(found, monkeypatch):
    """The same as those of graphs planned by NumPy."""
    net = Net()

    def gradients():
        for tree in trees(2, 30):
            dy.renew_cg()
            net.loss(net.tree(tree)).backward()
            yield [p.grad_as_array().copy() for p in (net.W, net.V, net.b, net.table)]
            forget_gradients(net)

    settle(net, found)
    quick = list(gradients())
    assert found[-30:] == [True] * 30
    monkeypatch.setattr(plan, "_as_usual", lambda *about: None)
    assert_same_of_all(quick, gradients())


def assert_same_of_all(several, others):
    for one, other in zip(several, others, strict=True):
        for a, b in zip(one, other, strict=True):
            assert_same(a, b)


@pytest.fixture
def early(monkeypatch):
    """Of every backward, whether it was sent before it was known that a plan fits."""
    sent, init = [], Backward.__init__

    def noted(self, run, *about):
        sent.append(not run.plan.steps)
        init(self, run, *about)

    monkeypatch.setattr(Backward, "__init__", noted)
    monkeypatch.setattr(habits.Habit, "read", lambda _: True)
    at_once(monkeypatch)
    return sent


def read_and_trained(net, make):
    """The gradients of a loss whose value was read before."""
    dy.renew_cg()
    loss = make()
    loss.value()
    loss.backward()
    found = [p.grad_as_array().copy() for p in (net.W, net.V, net.b, net.table)]
    forget_gradients(net)
    return found


def usual_gradients(net, seed, count):
    return [
        read_and_trained(net, lambda t=tree: net.loss(net.tree(t)))
        for tree in trees(seed, count)
    ]


def test_a_backward_is_sent_before_it_is_known_that_a_plan_fits(early, monkeypatch):
    net = Net()
    usual_gradients(net, 0, 40)
    quick = usual_gradients(net, 2, 9)
    assert early[-9:] == [True] * 9
    monkeypatch.setattr(plan, "_as_usual", lambda *about: None)
    assert_same_of_all(quick, usual_gradients(net, 2, 9))
    assert early[-9:] == [False] * 9


def a_reader(net):
    """Two of a node, which has had one so far: no plan that is usual fits."""
    x, y = (net.tree(some_tree(random.Random(5), 5)) for _ in range(2))
    return net.loss(net.node(x, net.node(x, y)))


def test_one_that_was_sent_in_vain_leaves_nothing(early, monkeypatch):
    """Nor are the arrays that it had lent again."""
    net, given_back, wait = Net(), [], Run.when_it_fits

    def noted(self, done):
        wait(self, lambda: given_back.append(self) or done())

    monkeypatch.setattr(Run, "when_it_fits", noted)
    usual_gradients(net, 0, 40)
    del early[:], given_back[:]
    found = [read_and_trained(net, lambda: a_reader(net))]
    assert early == [True, False]
    assert given_back == current_graph().state.parts
    found += usual_gradients(net, 2, 4)
    monkeypatch.setattr(plan, "_as_usual", lambda *about: None)
    others = [read_and_trained(net, lambda: a_reader(net)), *usual_gradients(net, 2, 4)]
    assert_same_of_all(found, others)


def beside(net, tree):
    """A loss, and before it something that it is not made of."""
    net.tree((tree, 1))
    return net.loss(net.tree(tree))


def behind(net, tree):
    loss = net.loss(net.tree(tree))
    net.loss(net.tree((tree, 1)))
    return loss


@pytest.mark.parametrize("make", [beside, behind])
def test_it_waits_where_a_loss_is_not_all_there_is(make, early, monkeypatch):
    net, several = Net(), trees(3, 40)

    def gradients():
        return [read_and_trained(net, lambda t=t: make(net, t)) for t in several]

    quick = gradients()
    assert not any(early)
    monkeypatch.setattr(plan, "_as_usual", lambda *about: None)
    assert_same_of_all(quick, gradients())


def test_runtime_data(found):
    """Words, classes, constants and random keys stand where they belong."""
    net = Net()
    rng = random.Random(4)

    def loss(length):
        dy.renew_cg()
        xs = [net.table[rng.randrange(WORDS)] for _ in range(length)]
        xs = [dy.dropout(x, 0.5) * rng.random() for x in xs]
        hs = net.lstm.initial_state().transduce(xs)
        losses = [dy.pickneglogsoftmax(h, rng.randrange(SIZE)) for h in hs]
        return dy.esum(losses)

    settle_for(found, lambda: [loss(length).value() for length in range(2, 12)])


def test_held_rows(found):
    """Lanes that go on for longest come first; one that reads two rows is a misfit."""
    net, rng = Net(), random.Random(5)

    def value(lengths, other=None):
        dy.renew_cg()
        ends = []
        for k, length in enumerate(lengths):
            topic = h = dy.tanh(net.W * net.table[k])
            for n in range(length):
                if n == other:
                    topic = dy.tanh(net.W * net.table[k + 1])
                h = dy.cmult(dy.tanh(net.V * h), topic)
            ends.append(net.loss(h))
        return dy.esum(ends).value()

    several = [[rng.randrange(3, 7) for _ in range(4)] for _ in range(12)]
    settle_for(found, lambda: [value(lengths) for lengths in several])
    assert any(scope.held for scopes in plan._scopes.values() for scope in scopes)
    value([6, 5, 4, 6], other=2)
    assert False in found
    assert not any(scope.held for scopes in plan._scopes.values() for scope in scopes)


def test_what_is_given(found):
    net = Net()
    for length in [*range(2, 12), *range(2, 12)]:
        dy.renew_cg()
        xs = [dy.inputVector(net.words[k % WORDS]) for k in range(length + 1)]
        top = xs[0]
        for x in xs[1:]:
            top = net.node(top, x)
        got = net.loss(top).value()
        assert got == pytest.approx(net.expected(chain(length)), rel=1e-5)
    assert found[-10:] == [True] * 10


def chain(length):
    tree = 0
    for k in range(length):
        tree = tree, (k + 1) % WORDS
    return tree


# What a graph may show that none before did; each given as a function that makes the
# last node, of a net and two nodes.
NEW = {
    "an edge": lambda net, x, y: net.node(x, dy.tanh(net.W * y)),
    "a reader": lambda net, x, y: net.node(net.node(x, y), net.node(x, y)),
    "twins": lambda net, x, y: net.node(x, x),
    "a batch": lambda net, x, y: dy.sum_batches(net.node(x, net.table.batch([1, 2]))),
    "elements": lambda net, x, y: dy.pick_batch_elem(
        net.node(x, net.table.batch([1, 2])), 1
    ),
}


@pytest.mark.parametrize("name", NEW)
def test_what_is_new_is_not_as_usual(name, found):
    """And is told from what is: planned by NumPy, with the values it should have."""
    net, more = Net(), NEW[name]
    settle(net, found)
    dy.renew_cg()
    x, y = net.tree(((1, 2), 3)), net.tree((4, (5, 6)))
    loss = net.loss(more(net, x, y))
    got = loss.value()
    assert True not in found
    loss.backward()
    gradient = net.W.grad_as_array().copy()
    dy.renew_cg(immediate_compute=True)  # node by node
    x, y = net.tree(((1, 2), 3)), net.tree((4, (5, 6)))
    forget_gradients(net)
    again = net.loss(more(net, x, y))
    assert got == pytest.approx(again.value(), rel=1e-5)
    again.backward()
    np.testing.assert_allclose(net.W.grad_as_array(), gradient, rtol=1e-4, atol=1e-6)


def test_twins_that_part(found):
    """Two leaves that read the same rows, until they do not."""
    net = Net()

    def loss(length, second):
        dy.renew_cg()
        xs = [net.table[k % WORDS] for k in range(length)]
        top = xs[0]
        for x in xs[1:]:
            top = dy.tanh(net.W * dy.cmult(x, second(x)) + top)
        return net.loss(top)

    settle_for(found, lambda: [loss(k, lambda x: x).value() for k in range(8, 14)])
    loss(13, lambda x: net.table[0]).value()
    assert found == [False]


def test_a_step_from_nothing(found):
    net = Net()

    def loss(length, state):
        dy.renew_cg()
        xs = [net.table[k % WORDS] for k in range(length)]
        before = [dy.tanh(net.W * xs[0])] * 2 if state else None
        return net.loss(net.lstm.initial_state(before).transduce(xs)[-1])

    settle_for(found, lambda: [loss(k, True).value() for k in range(8, 14)])
    value = loss(13, False).value()
    assert found == [False]
    dy.renew_cg(immediate_compute=True)
    xs = [net.table[k % WORDS] for k in range(13)]
    again = net.loss(net.lstm.initial_state().transduce(xs)[-1])
    assert value == pytest.approx(again.value(), rel=1e-5)


def test_a_loop_that_is_too_long(found):
    net = Net()
    settle_for(found, lambda: net.value(chain(planning.SPAN - 1)))
    for _ in range(3):
        tree = chain(planning.SPAN + 1)
        assert net.value(tree) == pytest.approx(net.expected(tree), rel=1e-4)
    assert found == [False] * 3


def test_another_size(found):
    """What has outgrown its arrays is planned for larger ones, and what has not is
    planned for those it had."""
    net = Net()
    settle(net, found)
    larger = [some_tree(random.Random(k), 700) for k in range(3)]
    del found[:]
    for tree in larger:
        assert net.value(tree) == pytest.approx(net.expected(tree), rel=1e-4)
    assert found[:1] == [False]
    settle(net, found)
    for tree in trees(6, 4):
        assert net.value(tree) == pytest.approx(net.expected(tree), rel=1e-5)
    assert found == [True] * 4


def test_only_what_graphs_need_is_compiled(found, monkeypatch):
    """Not the program for smaller ones, besides."""
    asked, real = set(), planner.planning

    def noted(caps):
        asked.add(caps.nodes)
        return real(caps)

    monkeypatch.setattr(planner, "planning", noted)
    net, large = Net(), [some_tree(random.Random(k), 300) for k in range(4)]
    settle_for(found, lambda: [net.value(tree) for tree in large])
    assert asked == {planner.NODES[1]}


def test_what_xla_does_badly_is_left(found, monkeypatch):
    monkeypatch.setattr(planner, "planning", lambda caps: None)
    net = Net()
    for tree in trees(0, 40):
        net.value(tree)
    assert found
    assert True not in found


@pytest.mark.parametrize("fused", [False, True])
def test_copies_in_loops_are_told(fused, monkeypatch):
    """With the pass that is switched off, XLA would copy arrays in every trip."""
    if fused:
        monkeypatch.setattr(planning, "_UNFUSED", {})
    run = planning.planning.__wrapped__(planning.Caps(512, 16, 64, 4096))
    assert (run is None) == fused


def test_a_structure_that_comes_again_is_not_planned(monkeypatch):
    """Where that is usual, the program is not asked."""
    asked = []
    monkeypatch.setattr(plan, "_as_usual", lambda *args: asked.append(args))
    monkeypatch.setattr(plan, "_repeats", defaultdict(habits.Repeats))
    net = Net()
    several = trees(7, 3)
    for _ in range(2 * habits.NEW):
        for tree in several:
            net.value(tree)
    assert not asked
    for tree in trees(8, 4 * habits.OFTEN * habits.NEW, most=30):
        net.value(tree)
    assert not asked  # as many were met before


@settings(
    max_examples=12,
    deadline=None,
    derandomize=True,
    suppress_health_check=[HealthCheck.too_slow, HealthCheck.data_too_large],
)
@given(program=graphs.programs())
def test_random_graphs(program):
    with pytest.MonkeyPatch.context() as patch:
        at_once(patch)
        graphs.test_values_and_gradients.hypothesis.inner_test("at the end", program)


def test_an_interrupted_run_lends_nothing(found, monkeypatch):
    """Whether its plan fitted was never known, so its arrays are not used again."""
    net = Net()
    settle(net, found)
    lent = []
    give_back = Pools.give_back

    def noted(self):
        lent.append(self)
        give_back(self)

    def interrupted(self):
        raise KeyboardInterrupt

    monkeypatch.setattr(Pools, "give_back", noted)
    dy.renew_cg()
    del lent[:]
    with monkeypatch.context() as patch:
        patch.setattr(plan.Plan, "fits", interrupted)
        with pytest.raises(KeyboardInterrupt):
            net.value(chain(9))
        dy.renew_cg()
    assert not lent
    assert net.value(chain(9)) == pytest.approx(net.expected(chain(9)), rel=1e-5)
    dy.renew_cg()
    assert lent


def test_a_scope_that_was_widened_meanwhile(found, monkeypatch):
    """By another thread: a plan begun before is not for it any more."""
    net = Net()
    settle(net, found)
    run = planner.Planner.plan

    def meanwhile(self, *about):
        written = run(self, *about)
        self._scope.widen([])
        return written

    with monkeypatch.context() as patch:
        patch.setattr(planner.Planner, "plan", meanwhile)
        assert net.value(chain(9)) == pytest.approx(net.expected(chain(9)), rel=1e-5)
    assert True not in found
