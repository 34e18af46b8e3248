"""The computation graph: nodes as they are made, and those of them that have rows.

Nothing here computes. Nodes are checked as they are added, so a mistake's traceback
ends at the user's own line; values come from an `Engine` that the facade hands in.
"""

import threading
from collections.abc import Callable
from contextlib import suppress
from typing import Any

from dynetjax.core.building import (
    MOST_TERMS,
    append_decided,
    enter,
    use_current_graph,
)
from dynetjax.core.collector import wait_for
from dynetjax.core.dims import Shape
from dynetjax.core.errors import error_text
from dynetjax.core.expression import Expression, Nodes, args_of, engine, stale
from dynetjax.core.nodes import (
    NOTHING,
    ROWS,
    Decided,
    batch_mismatch,
    checked_rule,
    circumstances,
    follows_from_batches,
    follows_from_specs,
    given_data,
    is_for,
    line_of_user,
    own_data,
    repeated,
    rule_of_rows,
    rule_with_rows,
    zeros_rule,
)
from dynetjax.core.registry import (
    FAN_IN,
    MAP,
    Op,
    intern,
)
from dynetjax.core.rules import CHANGED, OperandSpec, Rule, are_many, is_even
from dynetjax.core.tables import forget_all

MOST_DECIDED = 1 << 15  # of an operation
MOST_GIVEN = 1 << 20  # bytes that may be kept for longer than a graph
_noting_lines = False


class ComputationGraph(Nodes):
    """Nodes in order of creation; operands always come before results.

    Attributes:
        version: how many times this thread's graph was renewed before.
        live: it was not renewed yet.
        nodes: what was built.
        open: `nodes`, where more may simply be appended; None if the graph is not
            live, or computes every node at once.
        stored_nodes: those with rows; what they read always comes before them. An
            expression's `args` count in this list.
        weights: the nodes that have no rows, for they are made of parameters alone.
        tables: of which it reads rows, and which live as long.
        sessions: what builders note of this graph, by builder.
        changes: how many rules of the process had changed when this was built.
        held: indices of nodes that have rows whenever the graph is entered anew.
        late: indices of nodes that got rows when they were a part of others already;
            what these read of them does not come by their rows.
        marks: how many nodes there were at each checkpoint.
        reseeded: how many there were each time that random numbers began again.
        lines: where the user made each node, by number; None if that is not noted.
        devices: names of those on which certain nodes are to lie, by number.
        state: the engine's notes on what it has computed.
        given: bytes that the user gave it.
        is_known_large: that it has become very large was said.
        entering: the number of the node that is entered anew, whose parts have it too.
    """

    # `Nodes` declares what it has: compiled, an attribute that is declared twice is
    # visited twice by the garbage collector, which then takes it for reachable.
    check_validity: bool
    immediate: bool

    def __init__(
        self, version: int = 0, immediate: bool = False, check_validity: bool = False
    ):
        self.version = version
        self.immediate, self.check_validity = immediate, check_validity
        self.live = True
        self.nodes = []
        self.lines: dict[int, str] | None = {} if _noting_lines else None
        self.open = None if immediate or _noting_lines else self.nodes
        self.stored_nodes = []
        self.changes: int = len(CHANGED)
        self.held: set[int] = set()
        self.late: set[int] = set()
        self.entering: int | None = None
        self.given = 0
        self.is_known_large = False
        self.weights: list[Expression] = []
        self.tables: set[Expression] = set()
        self.sessions: dict[Any, Any] = {}
        self.marks: list[int] = []
        self.reseeded: list[int] = []
        self.devices: dict[int, str] = {}
        self.state: Any = None

    def __len__(self) -> int:
        return len(self.nodes)

    def renew(
        self, immediate_compute: object = False, check_validity: object = False
    ) -> "ComputationGraph":
        """The graph that takes this one's place, where it is the thread's."""
        return renew_cg(immediate_compute, check_validity)

    def close(self) -> tuple[list[Expression], list[Expression]]:
        """Give up every node. Expressions made before are stale from now on."""
        self.live, self.open = False, None
        self.invalidate()
        given_up = self.nodes, self.stored_nodes
        if self.nodes:  # a loss that the user still has would keep all others
            self.nodes[-1].first, self.nodes[-1].others = None, ()
        self.nodes, self.stored_nodes, self.weights = [], [], []
        self.sessions, self.marks, self.tables = {}, [], set()
        return given_up

    def add(
        self,
        op: Op,
        operands: tuple[Expression, ...],
        static: tuple[Any, ...] = (),
        data: Any = None,
        batch: int = 1,
        key: tuple[Any, ...] | None = None,
    ) -> Expression:
        """Append a node of `op`.

        `batch` is that of the runtime data; operands of one batch element are
        broadcast to the largest batch. From a `key`, if there is one, `static` follows.

        Raises:
            DimError: the operands do not fit the operation or one another.
        """
        ragged = False
        for x in operands:
            size = x.lanes
            if size > 1 and size != batch:
                if batch != 1:
                    raise batch_mismatch(op, operands, batch)
                batch = size
            if x.rule.kind.ragged:
                ragged = True
        if ragged or op.with_care:
            return self._add_with_care(op, operands, static, data, batch, key)
        rule = self._rule(op, operands, static, batch)
        return self._append(rule, operands, data, batch)

    def _add_with_care(
        self,
        op: Op,
        operands: tuple[Expression, ...],
        static: tuple[Any, ...],
        data: Any,
        batch: int,
        given: tuple[Any, ...] | None,
    ) -> Expression:
        """Append a node that may have parts, or ragged axes."""
        known = op.decided.get(circumstances(operands, static, batch))
        if known is not None:
            rule: Rule = known.rule
            if len(rule.fuses) < 2 or not repeated(rule, operands):
                node = self._node(rule, operands, batch)
                node.data = (*given_data(op, data), *known.more)
                node.lengths = known.lengths
                self._enter(node)
                return node
        node = self._node(_undecided, operands, batch)
        parts = self._decide(node, op, static, data, batch)
        key = circumstances(operands, static, batch)
        if key and parts is operands and node.rule.signature.op.origin is op:
            if len(op.decided) >= MOST_DECIDED:
                op.decided.clear()
            more = node.data[len(given_data(op, data)) :]
            decided = op.decided[key] = Decided(node.rule, more, node.lengths)
            if given is not None and not op.given:
                with suppress(TypeError):  # there may be a list in it
                    op.decided[circumstances(operands, given, batch)] = decided
        self._enter(node, parts)
        return node

    def _decide(
        self, node: Expression, op: Op, static: tuple[Any, ...], data: Any, batch: int
    ) -> tuple[Expression, ...]:
        """Give `node` its rule, data and lengths; what it is made of."""
        parts: tuple[Expression, ...] = node.operands
        lengths: tuple[int, ...] = ()
        if op.compose is not None:
            parts = op.compose(self, parts)
        if op.mixtures is not None:
            if op.is_listed and not all(x.lanes for x in parts):
                parts = self.with_rows(parts)
            if op.mixtures and is_even(op, static, self._specs(parts)):
                for x in parts:
                    self.store(x)
        call = None
        if op.lengthens is not None and op.lengthens(parts, *static):
            call = _side_by_side(self, op, parts, static)
        elif op.padded is None and any(x.rule.kind.ragged for x in parts):
            call = _on_ragged(self, op, parts, static, data)
        if call is not None:
            op, parts, static, data, lengths = call
        batch = max([batch, *[x.lanes for x in parts]])
        node.rule = rule = self._rule(op, parts, static, batch)
        node.lanes = 0 if rule.kind.is_weight else batch
        node.data, node.lengths = data, lengths
        return parts

    def add_quick(
        self,
        table: dict[Any, Rule],
        op: Op,
        operands: tuple[Expression, ...],
        static: tuple[Any, ...] = (),
        data: Any = None,
        batch: int = 1,
        key: tuple[Any, ...] | None = None,
    ) -> Expression:
        """`add`; `table` is to know the rule next time.

        It does so by the specs of the operands; where there is a `key`, or the rule
        follows only with them, by batch sizes and the key, too.
        """
        if op.decided and batch == 1:
            known = append_decided(op, operands, static, given_data(op, data))
            if known is not None:
                return known
        node = self.add(op, operands, static, data, batch, key)
        rule = node.rule
        rows = any(not spec.kind.is_weight for spec in rule.operands)
        if key is not None and len(operands) == 1:  # of a weight it may have some, too
            rows = not rule.kind.is_weight
        if batch != 1 and batch == max([x.lanes for x in operands]):
            batch = 1  # which is what it would be without runtime data
        if rows and batch == 1 and follows_from_batches(rule, op, operands):
            if len(table) >= MOST_DECIDED:
                table.clear()
            seen = zip(operands, rule.operands, strict=True)
            specs: Any = tuple([x.spec or spec for x, spec in seen])
            if key is not None or not follows_from_specs(rule, op, operands):
                with suppress(TypeError):  # there may be a list in the key
                    table[(*specs, *[x.lanes for x in operands], *(key or ()))] = rule
            else:
                table[specs[0] if len(specs) == 1 else specs] = rule
        return node

    def _rule(
        self,
        op: Op,
        operands: tuple[Expression, ...],
        static: tuple[Any, ...],
        batch: int,
    ) -> Rule:
        """The rule for operands that are stored as far as it asks for that."""
        broadcast = 0
        if batch != 1:
            for bit, x in enumerate(operands):
                if x.lanes == 1:
                    broadcast |= 1 << bit
        while True:
            specs = self._specs(operands)
            rule = op.rules.get((static, broadcast, *specs))
            if rule is None or op.batch_matters:
                rule = checked_rule(op, operands, static, broadcast)
            must_store = rule.must_store or (
                len(rule.fuses) > 1 and repeated(rule, operands)
            )
            if not must_store:
                return rule
            for k in must_store:
                self.store(operands[k])

    def _specs(self, operands: tuple[Expression, ...]) -> tuple[OperandSpec, ...]:
        """Of operands; those that are part of another node are stored now."""
        for x in operands:
            if x.spec is None:
                self.store(x)
        specs: Any = tuple([x.spec for x in operands])
        return specs

    def part(
        self, op: Op, operands: tuple[Expression, ...], static: tuple[Any, ...] = ()
    ) -> Expression:
        """A node that is a part of another, and not one of the user's."""
        batch = max([1, *[x.lanes for x in operands]])
        rule = _part_rule(op, operands, static, batch)
        node = self._node(rule or _undecided, operands, batch)
        if rule is None:
            operands = self._decide(node, op, static, None, batch)
        else:
            node.data, node.lengths = None, ()
        self._settle(node, operands)
        return node

    def with_rows(self, operands: tuple[Expression, ...]) -> tuple[Expression, ...]:
        """The operands; of parameters parts with rows, as what takes their turn has.

        A matrix stays as it is: where it takes turns, there would be a copy each time.
        """
        return tuple(
            [x if x.lanes or x.rule.kind.is_wide else self._row(x) for x in operands]
        )

    def rows(self, operands: tuple[Expression, ...]) -> tuple[Expression, ...]:
        """The operands stored; of parameters, parts that have rows."""
        for x in operands:
            if x.lanes:
                self.store(x)
        return tuple([x if x.lanes else self._row(x) for x in operands])

    def _row(self, parameter: Expression) -> Expression:
        row = self.part(ROWS, (parameter,))
        self.store(row)
        return row

    def part_of_rows(self, rule: Rule, operands: tuple[Expression, ...]) -> Expression:
        """A part whose rows are not those of its stored operands one by one."""
        node = self._node(rule, operands, max([x.lanes for x in operands]))
        node.data = None
        self._settle(node, operands)
        return node

    def _node(
        self, rule: Rule, operands: tuple[Expression, ...], batch: int
    ) -> Expression:
        """A node that is not entered yet; its number is the next."""
        lanes = 0 if rule.kind.is_weight else batch
        return self._made(rule, rule.spec, lanes, (), operands)

    def _made(
        self,
        rule: Rule,
        spec: OperandSpec,
        lanes: int,
        args: tuple[Any, ...],
        operands: tuple[Any, ...],
    ) -> Expression:
        node = Expression()
        number = self.entering
        node.graph, node.index = self, len(self.nodes) if number is None else number
        node.rule, node.spec, node.lanes = rule, spec, lanes
        node.args, node.first, node.others = args, None, operands
        return node

    def add_new(
        self, op: Op, static: tuple[Any, ...], data: Any, batch: int
    ) -> Expression:
        """`add` of an operation without operands."""
        rule: Rule | None = op.quick.get(static)
        if rule is None or self.open is None:
            node = self.add(op, (), static, data, batch)
            op.quick[static] = node.rule
            return node
        own: tuple[Any, ...] = ()
        if op.runtime != "k":
            own = data if isinstance(data, tuple) else (data,)
        if op.runtime.endswith("k"):
            own += (len(self.nodes),)
        node = enter(self, rule, batch, None, (), own)
        node.data = data
        return node

    def add_rows(
        self,
        op: Op,
        operands: tuple[Expression, ...],
        shape: Shape,
        data: Any,
        batch: int,
    ) -> Expression:
        """Append a node whose rows are not those of its operands one by one.

        That is what the user gave, what a table holds, or what REDUCE and GATHER
        name. The operands, if any, have `shape` too.
        """
        known, args = op.rules.get(shape), _rows_of(operands)
        if known is not None and args is not None and self.open is not None:
            node = enter(self, known, batch, None, operands, args)
            node.data = data
            return node
        rule, parts = rule_of_rows(op, shape), self._exact(operands)
        return self._append(rule, operands, data, batch, parts)

    def _exact(self, operands: tuple[Expression, ...]) -> tuple[Expression, ...]:
        """The operands stored; for ragged ones, parts that have true dims."""
        exact = tuple([_with_true_dims(self, x) for x in operands])
        for x in exact:
            self.store(x)
        return exact

    def add_source(self, table: Expression, rule: Rule, data: Any) -> Expression:
        """Append a node that reads rows of a table."""
        self.tables.add(table)
        source = Expression()
        source.graph, source.rule, source.spec = self, rule, rule.spec
        source.lanes = len(data) if isinstance(data, list) else 1
        source.first, source.others, source.inner = None, (), ()
        source.data = data
        source.index = len(self.nodes)
        nodes, stored_nodes = self.open, self.stored_nodes
        if nodes is None:
            self._enter(source)
            return source
        source.args = args_of(len(stored_nodes))
        stored_nodes.append(source)
        nodes.append(source)
        return source

    def zeros(self, shape: Shape, lanes: int) -> Expression:
        """An operand of zeros, which is no node and costs nothing."""
        rule = zeros_rule(shape)
        return self._made(rule, rule.spec, lanes, (NOTHING,), ())

    def add_sum_of_like(self, op: Op, terms: list[Expression]) -> Expression | None:
        """`add_sum` of stored terms of one kind; None if that is not what they are."""
        spec, batch = terms[0].spec, terms[0].lanes
        if not (spec and batch and self.open) or spec.inlined or spec.kind.ragged:
            return None
        rule = op.rules.get(spec.kind.shape)
        if rule is None or not rule.sums:
            return None
        rows: list[int] = []
        for x in terms:
            if x.spec is not spec or x.lanes != batch or x.graph is not self:
                return None
            rows += x.args
        node = self._node(rule, tuple(terms), batch)
        node.data = None
        node.args = self._summed(node, tuple(rows), MOST_TERMS)
        self.nodes.append(node)
        return node

    def add_sum(self, op: Op, terms: tuple[Expression, ...]) -> Expression:
        """Append the sum of terms of one shape, to which more may be added."""
        for x in terms:
            if x.spec is None:
                self.store(x)
        rule = rule_of_rows(op, terms[0].full_dim.shape, sums=True)
        batch, parts = max([x.lanes for x in terms]), terms
        if any(x.rule.kind.ragged for x in terms):
            parts = self._exact(terms)
        return self._append(rule, terms, None, batch, parts)

    def _append(
        self,
        rule: Rule,
        operands: tuple[Expression, ...],
        data: Any,
        batch: int,
        parts: tuple[Expression, ...] | None = None,
    ) -> Expression:
        """Append a node; `parts` are what it is made of, if not its operands."""
        node = self._node(rule, operands, batch)
        node.data = data
        self._enter(node, parts)
        return node

    def _enter(
        self, node: Expression, operands: tuple[Expression, ...] | None = None
    ) -> None:
        if not self.live:
            raise ValueError(stale("operand"))
        self._settle(node, node.operands if operands is None else operands)
        self.nodes.append(node)
        if not node.lanes:
            self.weights.append(node)
        if self.lines is not None:
            self.lines[node.index] = line_of_user()
        if self.immediate:
            self._compute_now(node)

    def _settle(self, node: Expression, operands: tuple[Expression, ...]) -> None:
        """Give `node` its args, and a number if its rule has it stored."""
        rule = node.rule
        args: tuple[Any, ...] = ()
        if rule.sums:
            args = self._terms(node, operands)
        else:
            for x in operands:
                args += x.args
            for k in rule.fuses:
                operands[k].spec = None
        op = rule.signature.op
        if op.runtime and op.form == MAP:
            args += own_data(node, op.runtime)
        node.spec = spec = rule.spec
        if spec.stored:
            node.inner, node.args = args, args_of(len(self.stored_nodes))
            self.stored_nodes.append(node)
        else:
            node.args = args

    def _terms(
        self, node: Expression, operands: tuple[Expression, ...]
    ) -> tuple[Any, ...]:
        """The rows that a sum adds up so far, with those of sums among its operands."""
        rows: list[int] = []
        for x in operands:
            if not (x.spec and x.spec.sums):
                self.store(x)
            rows += x.args
        for x in operands:
            if x.spec is not None and x.spec.sums:
                x.spec = None
        return self._summed(node, tuple(rows), MOST_TERMS)

    def store(self, node: Expression) -> None:
        """See to it that a node has rows; nodes made like it will have them, too."""
        spec = node.spec
        if spec is not None and not spec.inlined:
            return
        rule = node.rule
        if spec is None and self._is_users(node):
            self.late.add(node.index)
        if rule.sums:
            node.inner = self._summed(node, node.args, FAN_IN)
        else:
            rule.store()
            node.inner = node.args
        node.spec = rule.outer()
        node.args = args_of(len(self.stored_nodes))
        self.stored_nodes.append(node)

    def _is_users(self, node: Expression) -> bool:
        """Whether it is no part, which has the number of the node it is made for."""
        nodes = self.nodes
        return node.index < len(nodes) and nodes[node.index] is node

    def shorten(self, node: Expression) -> None:
        """Make the terms of a sum that goes on fewer."""
        node.args = self._summed(node, node.args, MOST_TERMS)

    def _summed(
        self, node: Expression, rows: tuple[Any, ...], most: int
    ) -> tuple[Any, ...]:
        """At most so many rows with the sum of `rows`; partial sums are stored.

        A stored node whose `rule.sums` stands for a sum of its `inner`.
        """
        while len(rows) > most:
            rows = tuple(
                [
                    self._partial_sum(node, rows[k : k + FAN_IN])
                    for k in range(0, len(rows), FAN_IN)
                ]
            )
        return rows

    def _partial_sum(self, node: Expression, rows: tuple[Any, ...]) -> int:
        if len(rows) == 1:
            return rows[0]
        batch = max([self.stored_nodes[k].lanes for k in rows])
        part = self._made(node.rule, node.rule.outer(), batch, (), ())
        part.index = node.index
        part.inner, part.data = rows, None
        self.stored_nodes.append(part)
        return len(self.stored_nodes) - 1

    def rebuild(self) -> None:
        """Enter every node anew, after rules have changed; nothing may be computed."""
        while True:
            self.changes = len(CHANGED)
            self.stored_nodes.clear()
            self.late.clear()
            try:
                for node in self.nodes:
                    self.entering = node.index
                    self._enter_again(node)
            finally:
                self.entering = None
            self.weights = [node for node in self.nodes if not node.lanes]
            if self.changes == len(CHANGED):
                return

    def _enter_again(self, node: Expression) -> None:
        rule, operands = node.rule, node.operands
        signature = rule.signature
        op, static, data = signature.op, signature.static, None
        if op.given:
            data = node.data
        if op.origin is not None:
            op = op.origin
            static = static[: len(op.static)]
            if isinstance(data, tuple):
                data = data[: len(op.given)]
        if rule.operands:
            operands = self._decide(node, op, static, data, max(1, node.lanes))
        elif any(x.rule.kind.ragged for x in operands):
            operands = self._exact(operands)
        else:
            for x in operands:
                if x.spec is None or not rule.sums:
                    self.store(x)
        held = node.index in self.held
        if held and not node.lanes:
            node.rule, node.lanes = rule_with_rows(node.rule), 1
        self._settle(node, operands)
        if held:
            self.store(node)

    def _compute_now(self, node: Expression) -> None:
        (rows,) = engine().values(self, [node])
        op = node.rule.signature.op
        if self.check_validity and op.is_bad(rows):
            raise RuntimeError(
                error_text(
                    f"{op.name}: NaN or Inf detected",
                    got=rows,
                    expected="finite numbers, as check_validity asks",
                    fix="look at the operands on this line",
                )
            )

    def invalidate(self) -> None:
        """Forget every value; the next read computes them, with new random draws."""
        state, self.state = self.state, None
        if state is not None:
            state.forget()

    def user_number(self, node: Expression) -> int:
        """How many of the user's nodes come before `node`, parameters included."""
        before = self.nodes[: node.index]
        made = sum(not x.rule.signature.op.internal for x in before)
        parameters = {
            id(x.rule)
            for reader in [*before, node]
            for x in reader.operands
            if x.graph is None
        }
        return made + len(parameters)


def _part_rule(
    op: Op, operands: tuple[Expression, ...], static: tuple[Any, ...], batch: int
) -> Rule | None:
    """The rule for operands of one batch size that it takes as they are, if known."""
    for x in operands:
        if x.lanes != batch or x.rule.kind.ragged:
            return None
    rule: Rule | None = op.rules.get((static, 0, *[x.spec for x in operands]))
    if rule is None or rule.must_store or rule.signature.op is not op:
        return None
    if len(rule.fuses) > 1 and repeated(rule, operands):
        return None
    return rule if is_for(rule, operands) else None


def _rows_of(operands: tuple[Expression, ...]) -> tuple[Any, ...] | None:
    """The numbers of stored nodes with true dims; None where one is none."""
    rows: list[Any] = []
    for x in operands:
        if x.spec is None or not x.spec.stored or x.rule.kind.ragged:
            return None
        rows += x.args
    return tuple(rows)


def note_lines(on: object) -> None:
    """Note the user's line of every node, in graphs renewed from now on."""
    global _noting_lines
    _noting_lines = bool(on)


def use_lengths(
    on_ragged: Callable[..., Any],
    side_by_side: Callable[..., Any],
    exact: Callable[..., Any],
) -> None:
    """Let these say how to compute with axes that are ragged, or become so."""
    global _on_ragged, _side_by_side, _with_true_dims
    _on_ragged, _side_by_side, _with_true_dims = on_ragged, side_by_side, exact


_on_ragged: Callable[..., Any]
_side_by_side: Callable[..., Any]
_with_true_dims: Callable[..., Any]
_undecided = Rule(intern(Op("undecided"), ((), 0), (1,)), ())


# Its graph, and `given_up`, nodes of the last one. No class of ours: compiled, its
# attributes would be those of all threads.
_thread: Any = threading.local()


def current_graph() -> ComputationGraph:
    """The graph that operations of this thread add to."""
    graph: ComputationGraph | None = getattr(_thread, "graph", None)
    if graph is None:
        graph = _thread.graph = ComputationGraph()
    return graph


use_current_graph(current_graph)


def renew_cg(
    immediate_compute: object = False,
    check_validity: object = False,
    autobatching: object = None,
) -> ComputationGraph:
    """Start a new graph.

    Args:
        immediate_compute: compute every node when it is made.
        check_validity: with `immediate_compute`, raise RuntimeError on NaN or Inf.
        autobatching: accepted as DyNet's; nodes always run together here.
    """
    del autobatching
    old = current_graph()
    wait_for(len(old.nodes))
    _thread.given_up = old.close()
    if old.given > MOST_GIVEN:
        free_last_graph()
    graph = ComputationGraph(
        old.version + 1, bool(immediate_compute), bool(check_validity)
    )
    _thread.graph = graph
    if are_many():
        forget_all()
    return graph


def free_last_graph() -> None:
    """Free what is left of it: this can wait until there is nothing else to do."""
    _thread.given_up = None


def cg_version() -> int:
    """How many times this thread's graph was renewed.

    Examples:
        >>> before = dy.cg_version()
        >>> for sentence in "a b c", "d e":
        ...     graph = dy.renew_cg()
        >>> print(dy.cg_version() - before)
        2
    """
    return current_graph().version
