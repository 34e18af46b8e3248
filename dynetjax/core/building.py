"""How nodes are made whose rule is known: what is run for every node of a program.

Each function here makes one that adds a node, for one operation. It only appends: as a
rule is known for these operands, nothing needs to be checked. Whatever is not as usual,
a missing rule or an operand of another batch, is left to `slowly`. This module is plain
enough to be compiled by mypyc, which makes it three times as fast.
"""

from collections.abc import Callable, Sequence
from typing import Any, Final

from dynetjax.core.expression import Expression, Nodes, args_of
from dynetjax.core.nodes import NOTHING, Decided, circumstances, repeated
from dynetjax.core.registry import FAN_IN, Op
from dynetjax.core.rules import CHANGED, Rule, is_summing

Slowly = Callable[..., Expression]

MOST_TERMS: Final = 512  # of a sum that goes on, which every longer one copies

_current_graph: Callable[[], Any]


def use_current_graph(current_graph: Callable[[], Any]) -> None:
    """Let this say to which graph nodes of parameters alone are added."""
    global _current_graph
    _current_graph = current_graph


def unary(op: Op, slowly: Slowly) -> Callable[[Expression], Expression]:
    """The function of an operation of one operand; rules are known by its spec."""
    rules: dict[Any, Rule] = op.quick

    def build(x: Any) -> Expression:
        if not isinstance(x, Expression):
            return slowly(x)
        rule = rules.get(x.spec)
        if rule is None:
            rule = over_sums(rules, (x,))
        if rule is None:
            known = append_decided(op, (x,), (), ())
            return slowly(x) if known is None else known
        try:
            graph: Nodes = x.graph
            nodes: list[Expression] = graph.open
            node = Expression()
            node.graph, node.index = graph, len(nodes)
            spec = rule.spec
            node.rule, node.spec = rule, spec
            node.lanes, node.first, node.others = x.lanes, x, None
            if spec.stored:
                stored_nodes = graph.stored_nodes
                node.inner, node.args = x.args, args_of(len(stored_nodes))
                stored_nodes.append(node)
            else:
                node.args = x.args
            nodes.append(node)
        except (AttributeError, TypeError):
            return slowly(x)
        if rule.fuses:
            x.spec = None
        return node

    return build


def binary(op: Op, slowly: Slowly) -> Callable[[Expression, Expression], Expression]:
    """The same for two operands; rules are known by the specs of both."""
    rules: dict[Any, Rule] = op.quick

    def build(x: Any, y: Any) -> Expression:
        if not (isinstance(x, Expression) and isinstance(y, Expression)):
            return slowly(x, y)
        rule = rules.get((x.spec, y.spec))
        if rule is None:
            known = _append_batches(op, x, y)
            return slowly(x, y) if known is None else known
        try:
            lanes, other = x.lanes, y.lanes
            owner = x.graph
            if owner is not y.graph or lanes != other or x is y:
                if (lanes and other and lanes != other) or (x is y and rule.fuses):
                    known = _append_batches(op, x, y)
                    return slowly(x, y) if known is None else known
                if owner is None:
                    owner = y.graph
                elif y.graph is not None and y.graph is not owner:
                    return slowly(x, y)
                lanes = lanes or other
            graph: Nodes = owner
            nodes: list[Expression] = graph.open
            node = Expression()
            node.graph, node.index = graph, len(nodes)
            spec = rule.spec
            node.rule, node.spec = rule, spec
            node.lanes, node.first, node.others = lanes, x, y
            if spec.stored:
                stored_nodes = graph.stored_nodes
                node.inner, node.args = x.args + y.args, args_of(len(stored_nodes))
                stored_nodes.append(node)
            else:
                node.args = x.args + y.args
            nodes.append(node)
        except (AttributeError, TypeError):
            return slowly(x, y)
        for k in rule.fuses:
            if k:
                y.spec = None
            else:
                x.spec = None
        if rule.sums:
            node.data = None
            if len(node.args) > MOST_TERMS:
                owner.shorten(node)
        return node

    return build


def over_sums(
    known: dict[Any, Any],
    operands: Sequence[Expression],
    before: tuple[Any, ...] = (),
    behind: tuple[Any, ...] = (),
) -> Any:
    """What is known by operands among which are sums, once these have rows.

    Keys are `before`, the specs, and what is `behind`. None where there is no sum, or
    the result is one that goes on.
    """
    there_are = False
    for x in operands:
        spec = x.spec
        if spec is not None and spec.sums:
            there_are = True
    if not there_are:
        return None
    specs: list[Any] = []
    for x in operands:
        spec = x.spec
        specs.append(x.rule.outer() if spec is not None and spec.sums else spec)
    only_spec = len(specs) == 1 and not (before or behind)
    found = known.get(specs[0] if only_spec else (*before, *specs, *behind))
    if found is None or (isinstance(found, Rule) and is_summing(found.signature)):
        return None
    for x in operands:
        spec = x.spec
        if spec is not None and spec.sums:
            graph: Any = x.graph
            if graph.open is None:
                return None
            graph.store(x)
    return found


def enter(
    graph: Nodes,
    rule: Rule,
    lanes: int,
    first: Expression | None,
    others: Any,
    args: tuple[Any, ...],
) -> Expression:
    """Add a node; `unary` and `binary`, which make most of them, say this themselves.

    Raises:
        AttributeError, TypeError: `graph` is none, or takes no nodes as they come.
    """
    nodes: list[Expression] = graph.open
    node = Expression()
    node.graph, node.index = graph, len(nodes)
    spec = rule.spec
    node.rule, node.spec, node.data = rule, spec, None
    node.lanes, node.first, node.others = lanes, first, others
    if spec.stored:
        stored_nodes = graph.stored_nodes
        node.inner, node.args = args, args_of(len(stored_nodes))
        stored_nodes.append(node)
    else:
        node.args = args
    nodes.append(node)
    return node


def _append_batches(op: Op, x: Expression, y: Expression) -> Expression | None:
    """Add a node over sums, or by a rule for these batch sizes; None if unknown."""
    first, second = x.lanes, y.lanes
    rule: Rule | None = op.quick.get((x.spec, y.spec, first, second))
    if rule is None:
        rule = over_sums(op.quick, (x, y), (), (first, second))
        if rule is None and (first == second or not first or not second):
            rule = over_sums(op.quick, (x, y))
    if rule is None:
        return append_decided(op, (x, y), (), ())
    return append_all(rule, (x, y), None, ())


def append(rule: Rule, x: Expression, data: Any, own: tuple[Any, ...]) -> Expression:
    """Add a node with rows over `x`; `own` is the data that its rule mentions.

    Raises:
        AttributeError, TypeError: the graph of `x` takes no more nodes as they come.
    """
    graph = x.graph
    if graph is None:  # a parameter belongs to all
        graph = _current_graph()
    node = enter(graph, rule, x.lanes or 1, x, None, x.args + own)
    node.data = data
    if rule.fuses:
        x.spec = None
    return node


def append_known(
    op: Op, x: Any, key: tuple[Any, ...], data: Any = None, own: tuple[Any, ...] = ()
) -> Expression | None:
    """`append` by a rule that `op` knows by `key`; None if it does not."""
    if not isinstance(x, Expression):
        return None
    try:
        rule: Rule | None = op.quick.get((x.spec, x.lanes, *key))
        if rule is None:
            rule = over_sums(op.quick, (x,), (), (x.lanes, *key))
        return None if rule is None else append(rule, x, data, own)
    except (AttributeError, TypeError):
        return None


def add_known(
    graph: Any,
    op: Op,
    x: Expression,
    static: tuple[Any, ...],
    data: Any,
    own: tuple[Any, ...],
    batch: int = 1,
) -> Expression:
    """Add a node of `op` with checked arguments, and know its rule next time.

    `batch` is that of its `data`, and `own` what its rule mentions of this.
    """
    node = append_known(op, x, static, data, own)
    if node is not None:
        return node
    added: Expression = graph.add_quick(op.quick, op, (x,), static, data, batch, static)
    return added


def append_all(
    rule: Rule, operands: tuple[Expression, ...], data: Any, own: tuple[Any, ...]
) -> Expression | None:
    """`append` over operands whose batch sizes go together; None if it cannot."""
    batch = max([x.lanes for x in operands])
    node = _append_over(rule, operands, own, batch)
    if node is not None:
        node.data = data
    return node


def append_list(
    known: dict[Any, Any], xs: list[Expression], args: tuple[Any, ...]
) -> Expression | None:
    """Add a node over a list; None where something is not as usual.

    Rules are known by `args`, the arguments of the operation, and the specs of `xs`,
    with their batch sizes where these matter.
    """
    if len(xs) == 2:
        return _append_pair(known, xs, args)
    return _append_several(known, xs, args)


def _append_several(
    known: dict[Any, Any], xs: list[Expression], args: tuple[Any, ...]
) -> Expression | None:
    batch = 0
    try:
        specs = [x.spec for x in xs]
        rule: Rule | None = known.get((args, *specs))
        if rule is None:
            rule = over_sums(known, xs, (args,))
        if rule is None:
            lanes = tuple([x.lanes for x in xs])
            batch = max(lanes)
            rule = known.get((args, *specs, *lanes))
            if rule is None:
                rule = over_sums(known, xs, (args,), lanes)
        if rule is None:
            of = xs[0].rule.signature.op
            joining: Joining | None = known.get((specs[0], of, args))
            return None if joining is None else _append_joined(joining, xs)
    except (AttributeError, TypeError, ValueError):
        return None
    return _append_over(rule, tuple(xs), (), batch)


class Joining:
    """How rows of one spec are put side by side along a ragged axis.

    Attributes:
        room: says what there is for so many, which is `size` as long as all this holds.
        piece: the rule of FAN_IN rows.
        rule: that of the node, which is made of pieces.
    """

    piece: Rule
    room: Callable[[int], int]
    rule: Rule
    size: int

    def __init__(self, room: Callable[[int], int], size: int, piece: Rule, rule: Rule):
        self.room, self.size, self.piece, self.rule = room, size, piece, rule


def _append_joined(joining: Joining, xs: list[Expression]) -> Expression | None:
    """Add a node with a ragged axis over a list; None if that is not all alike.

    Raises:
        AttributeError, TypeError: the graph takes no more nodes as they come.
    """
    first = xs[0]
    spec, lanes, graph = first.spec, first.lanes, first.graph
    for x in xs:
        if x.spec is not spec or x.lanes != lanes or x.graph is not graph:
            return None
    nodes: list[Expression] = graph.open
    if joining.room(len(xs)) != joining.size:
        return None
    args: tuple[Any, ...] = ()
    for start in range(0, joining.size, FAN_IN):
        joined = tuple(xs[start : start + FAN_IN])
        if joined:
            rows: tuple[Any, ...] = ()
            for x in joined:
                rows += x.args
            piece = stored_part(graph, len(nodes), joining.piece, lanes, rows)
            piece.others, piece.data = joined, None
            graph.stored_nodes.append(piece)
            args += piece.args
        else:
            args += (NOTHING,)
    node = enter(graph, joining.rule, lanes, None, tuple(xs), args)
    node.lengths = (len(xs),)
    return node


def _append_over(
    rule: Rule, operands: tuple[Expression, ...], own: tuple[Any, ...], batch: int = 0
) -> Expression | None:
    """Add a node over operands that its rule is for; None if they are not as usual.

    `own` is the data that its rule mentions. Without a `batch`, all have the same.
    """
    try:
        graph: Any = None
        lanes = batch
        args: tuple[Any, ...] = ()
        for x in operands:
            owner = x.graph
            if owner is not graph and owner is not None:
                if graph is not None:
                    return None
                graph = owner
            if x.lanes:
                if not batch and x.lanes != lanes:
                    if lanes:
                        return None
                    lanes = x.lanes
                args += x.args
        fuses = rule.fuses
        if len(fuses) > 1 and repeated(rule, operands):
            return None
        if not lanes:  # of parameters alone: a weight, which the graph has a list of
            if rule.kind.is_weight:
                return None
            lanes = 1
        node = enter(graph, rule, lanes, None, operands, args + own)
    except (AttributeError, TypeError):
        return None
    for k in fuses:
        operands[k].spec = None
    return node


def _append_pair(
    known: dict[Any, Any], xs: list[Expression], args: tuple[Any, ...]
) -> Expression | None:
    """The same over two operands, both of which have rows."""
    try:
        x, y = xs
        rule = known.get((args, x.spec, y.spec))
        if rule is None:
            return _append_several(known, xs, args)
        lanes = x.lanes
        if not lanes or y.lanes != lanes or y.graph is not x.graph or rule.fuses:
            return _append_several(known, xs, args)
        return enter(x.graph, rule, lanes, x, y, x.args + y.args)
    except (AttributeError, TypeError):
        return None


def append_decided(
    op: Op,
    operands: tuple[Expression, ...],
    static: tuple[Any, ...],
    own: tuple[Any, ...],
) -> Expression | None:
    """Add a node over ragged operands as it was decided; None if it was not.

    `own` is the runtime data that the operation is given.
    """
    if not op.decided or "k" in op.runtime:
        return None
    try:
        batch = max([x.lanes for x in operands])
        decided: Decided = op.decided[circumstances(operands, static, batch)]
    except (KeyError, AttributeError, TypeError):
        return None
    data = own + decided.more
    node = _append_over(decided.rule, operands, data)
    if node is not None:
        node.data, node.lengths = data, decided.lengths
    return node


class Recipe:
    """How a sum of products is made whose vectors are rows.

    Matrices and the bias may be weights, or rows.

    By the specs of its operands: its rule; that of each product, and whether the rule
    of the sum takes it to be stored. It holds as long as no more than `changes` rules
    of the process have changed.
    """

    changes: int
    products: list[tuple[Rule, bool]]
    rule: Rule

    def __init__(self, rule: Rule, products: list[tuple[Rule, bool]], changes: int):
        self.rule, self.products, self.changes = rule, products, changes
        self.takes_bias = 0 in rule.fuses  # which is a part of the sum then


def append_product(
    recipes: dict[Any, Recipe], exprs: list[Expression]
) -> Expression | None:
    """Add ``b + W x`` by a known recipe; None where something is not as usual."""
    try:
        b, W, x = exprs
        recipe = recipes.get((b.spec, W.spec, x.spec))
        if recipe is None or W.lanes or recipe.takes_bias:
            return append_products(recipes, exprs)
        graph: Nodes = x.graph
        nodes: list[Expression] = graph.open
        if recipe.changes != len(CHANGED):
            return None
        if b.lanes and (b.lanes != x.lanes or b.graph is not graph):
            return None
        product, stored = recipe.products[0]
        args = x.args
        if stored:
            part = stored_part(graph, len(nodes), product, x.lanes, args)
            graph.stored_nodes.append(part)
            args = part.args
        if b.lanes:
            args = b.args + args
        return enter(graph, recipe.rule, x.lanes, None, (b, W, x), args)
    except (AttributeError, TypeError, ValueError):
        return None


def append_products(
    recipes: dict[Any, Recipe], exprs: list[Expression]
) -> Expression | None:
    """The same for ``b + W1 x1 + W2 x2 + ...``, where W may have rows, too."""
    try:
        recipe = recipes.get(tuple([x.spec for x in exprs]))
        if recipe is None:
            recipe = over_sums(recipes, exprs)
        if recipe is None or recipe.changes != len(CHANGED):
            return None
        owner, lanes = exprs[2].graph, exprs[2].lanes
        graph: Nodes = owner
        nodes: list[Expression] = graph.open
        for x in exprs:
            if x.lanes and x.lanes != lanes:
                return None
            if x.graph is not None and x.graph is not owner:
                return None
        bias, k = exprs[0], 1
        args: tuple[Any, ...] = bias.args if bias.lanes else ()
        for product, stored in recipe.products:
            W, x = exprs[k], exprs[k + 1]
            read = W.args + x.args if W.lanes else x.args
            if stored:
                part = stored_part(graph, len(nodes), product, lanes, read)
                graph.stored_nodes.append(part)
                read = part.args
            args += read
            k += 2
        node = enter(graph, recipe.rule, lanes, None, tuple(exprs), args)
    except (AttributeError, TypeError, IndexError):
        return None
    if recipe.takes_bias:
        bias.spec = None
    return node


def stored_part(
    graph: Nodes, number: int, product: Rule, lanes: int, read: tuple[Any, ...]
) -> Expression:
    """A product with rows of what is `read`, which is to be the next stored node."""
    part = Expression()
    part.graph, part.index = graph, number
    part.rule, part.spec = product, product.outer()
    part.lanes, part.first, part.others = lanes, None, ()
    part.inner, part.args = read, args_of(len(graph.stored_nodes))
    return part
