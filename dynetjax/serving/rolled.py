"""Like nodes of a graph are computed together, and recurrences as loops.

A program of JAX that computes one node after the other takes XLA a time to compile that
grows with the graph: seconds for a sentence of forty words. So nodes that differ in
nothing but numbers and operands are a *class*. A class is computed as one where none of
its nodes follows from another. Where some do, as in a recurrent network, all classes on
the way from one to the next are computed in a loop, with a node of each class in each
step.
"""

from collections import defaultdict
from collections.abc import Hashable
from typing import NamedTuple

from dynetjax.engine.plan.components import strongly_connected
from dynetjax.serving.built import Built

LEAST_STEPS = 4  # of a loop
LEAST_USE = 0.5  # of the places in its steps, that have nodes


class Loop(NamedTuple):
    """Classes that follow from each other.

    Attributes:
        classes: in the order in which a step computes them.
        steps: of each class, the node in each step; -1 where there is none.
    """

    classes: list[int]
    steps: list[list[int]]

    @property
    def is_worth_it(self) -> bool:
        """Whether it has many steps, and most of them have most nodes."""
        count = len(self.steps[0])
        nodes = sum(node >= 0 for column in self.steps for node in column)
        return count >= LEAST_STEPS and nodes >= LEAST_USE * count * len(self.classes)


class Order(NamedTuple):
    """How a graph is computed.

    Attributes:
        classes: the nodes of each, in order of creation.
        parts: numbers of classes, and loops; operands come first.
    """

    classes: list[list[int]]
    parts: list[int | Loop]


def order(built: Built) -> Order:
    """Which nodes are computed together, and when."""
    of_node = _classes(built)
    classes: list[list[int]] = [[] for _ in range(max(of_node) + 1)]
    for node, number in enumerate(of_node):
        classes[number].append(node)
    edges: dict[int, set[int]] = {k: set() for k in range(len(classes))}  # to operands
    for node, operands in enumerate(built.operands):
        edges[of_node[node]].update(of_node[x] for x in operands)
    parts: list[int | Loop] = []
    for together in strongly_connected([*edges], edges)[::-1]:
        (first, *others) = together
        if others or first in edges[first]:
            parts.append(_loop(sorted(together), of_node, classes, built.operands))
        else:
            parts.append(first)
    return Order(classes, parts)


def _classes(built: Built) -> list[int]:
    """The class of each node.

    Nodes of one class follow from the same parameters, too: a layer of a network is not
    in the classes of another, which it follows from. And they are operands of like
    nodes: what is made of the states of a network is not in the classes of these.
    """
    readers: list[set[Hashable]] = [set() for _ in built.nodes]
    for k, node in enumerate(built.nodes):
        for x in built.operands[k]:
            readers[x].add((node.op, node.static, built.shapes[k]))
    numbers: dict[Hashable, int] = {}
    sources: list[frozenset[object]] = []
    found = []
    for k, node in enumerate(built.nodes):
        operands = built.operands[k]
        own = [] if node.source is None else [node.source]
        sources.append(frozenset(own).union(*[sources[x] for x in operands]))
        kinds = [
            (built.shapes[x], built.nodes[x].lanes) if built.nodes[x].lanes else x
            for x in operands
        ]
        key = (
            *(node.op, node.static, node.lanes, node.source, node.constant),
            *(built.shapes[k], tuple(kinds), sources[k], frozenset(readers[k])),
            tuple([x.numbers.shape for x in built.columns[k]]),
        )
        found.append(numbers.setdefault(key, len(numbers)))
    return found


def _loop(
    together: list[int],
    of_node: list[int],
    classes: list[list[int]],
    operands: list[list[int]],
) -> Loop:
    """Steps for all nodes of some classes: each as early as can be."""
    rank = {number: k for k, number in enumerate(together)}
    taken: dict[int, set[int]] = defaultdict(set)
    step_of: dict[int, int] = {}
    for node in sorted([node for number in together for node in classes[number]]):
        own = of_node[node]
        step = 0
        for x in operands[node]:
            if x in step_of:
                step = max(step, step_of[x] + (rank[of_node[x]] >= rank[own]))
        while step in taken[own]:
            step += 1
        taken[own].add(step)
        step_of[node] = step
    count = 1 + max(step_of.values())
    steps = [[-1] * count for _ in together]
    for node, step in step_of.items():
        steps[rank[of_node[node]]][step] = node
    return Loop(together, steps)
