"""Rules: what becomes of a node, given what its operands are.

A node that one other node uses is computed inside that node, so it needs no rows of
its own: it is *inlined*. Whether it will be is not known when it is made, but nodes
made in the same way by the same program share their fate. So a `Rule`, shared by all
nodes of one signature over operands of the same specs, remembers it: a rule starts out
inlined, and once one of its nodes was used twice, read, or needed in rows, it is
*stored* for good. After the first graphs of a program, all its rules are settled.

An `OperandSpec` is what a consumer sees of an operand: of an inlined one, how it was
computed; of a stored one, that it has rows of a shape (and what computed them, if that
had weights: it tells one gate from another, and one LSTM from the next); of a weight,
which it is.
"""

import threading
from typing import Any, Final

from dynetjax.core.registry import MAP, OWNERS, Kind, Op, Signature
from dynetjax.core.tables import forgets

MAX_LEVELS = 8  # of inlined nodes
MAX_STEPS = 32
ADDITIONS = 3  # nested in one another, before they count as a long sum
MOST_RULES, OF_EACH = 1 << 14, 128  # that are known; more for each living parameter

_lock = threading.RLock()


class OperandSpec:
    """What a consumer sees of an operand; see the module.

    Attributes:
        kind: its kind.
        rule: of an inlined node, else None.
        sums: a sum that goes on: whatever is added to it becomes part of it.
        provenance: of a stored node, what computed it, if that matters.
        inlined: the node has no rows, for it is to be part of another.
        stored: the node has rows; a weight is neither.
    """

    __slots__ = ("inlined", "kind", "provenance", "rule", "stored", "sums")
    kind: Kind
    provenance: Signature | None
    rule: "Rule | None"
    sums: bool

    def __init__(
        self,
        kind: Kind,
        rule: "Rule | None" = None,
        sums: bool = False,
        provenance: Signature | None = None,
    ):
        self.kind, self.rule, self.sums, self.provenance = kind, rule, sums, provenance
        self.inlined: bool = rule is not None or sums
        self.stored: bool = not (self.inlined or kind.is_weight)


class Rule:
    """What nodes of one signature over operands of certain specs have in common.

    Attributes:
        signature: of the nodes.
        operands: specs.
        kind: of the result.
        spec: what consumers see, and so whether the nodes are stored. Another thread
            may replace it: whoever makes a node reads it once.
        must_store: positions of operands that must be stored before; no node follows
            this rule then.
        fuses: positions of operands that become part of the node.
        sums: the node is a sum that goes on.
        steps, levels, path: operations inlined, itself included; how deep; and the
            ids of their signatures.
        additions: how many additions are nested in one another.
        fused, whole: number of the fused op made of it, -1 before there is one; and
            the engine's notes on it.
    """

    __slots__ = (
        "_outer",
        "additions",
        "fused",
        "fuses",
        "kind",
        "levels",
        "must_store",
        "operands",
        "path",
        "signature",
        "spec",
        "steps",
        "sums",
        "whole",
    )
    operands: tuple[OperandSpec, ...]
    signature: Signature

    def __init__(
        self,
        signature: Signature,
        operands: tuple[OperandSpec, ...],
        sums: bool = False,
    ):
        self.signature, self.operands = signature, operands
        self.steps: int
        self.levels: int
        self.path: frozenset[int]
        self.kind: Kind = signature.kind
        self.sums: bool = sums or _goes_on(signature, operands)
        inner = [v.rule for v in operands if v.rule is not None]
        self.steps = 1 + sum(rule.steps for rule in inner)
        self.levels = 1 + max((rule.levels for rule in inner), default=0)
        self.path = frozenset([signature.id]).union(*[rule.path for rule in inner])
        self.additions: int = _additions(signature, inner)
        self.must_store: tuple[int, ...] = self._find_must_store()
        self.fuses: tuple[int, ...] = tuple(
            k for k, v in enumerate(operands) if v.inlined
        )
        self.fused: int = -1
        self.whole: Any = None
        CHANGED.made += 1
        self._outer: OperandSpec | None = None
        self.spec: OperandSpec
        if self.kind.is_weight:
            self.spec = weight_spec(self.kind)
        elif self.sums:
            self.spec = sum_spec(self.kind)
        else:
            stored = signature.op.form != MAP
            self.spec = self.outer() if stored else OperandSpec(self.kind, self)

    def _find_must_store(self) -> tuple[int, ...]:
        op, broadcast = self.signature.op, self.signature.broadcast
        inlined = [k for k, v in enumerate(self.operands) if v.inlined]
        if not inlined:
            return ()
        if self.sums:
            return tuple(k for k in inlined if not self.operands[k].sums)
        if op.form != MAP or op.contraction:
            return tuple(inlined)
        return tuple(
            k
            for k in inlined
            if broadcast >> k & 1 or self._too_much(self.operands[k].rule)
        )

    def _too_much(self, inner: "Rule | None") -> bool:
        """Whether an operand cannot become part of this: it recurs, or is large."""
        if inner is None:  # a sum
            return True
        nested = self.additions and inner.signature is self.signature
        recurs = self.signature.id in inner.path and not nested
        large = inner.levels >= MAX_LEVELS or self.steps > MAX_STEPS
        return recurs or (large and inner.steps > 1)

    def outer(self) -> OperandSpec:
        """The spec of a node that is stored."""
        if self._outer is None:
            self._outer = stored_spec(self.kind, self._provenance())
        return self._outer

    def _provenance(self) -> Signature | None:
        """What tells its rows from others of their kind, if anything does."""
        op = self.signature.op
        weighted = any(k.is_weight for k in self.signature.operands)
        if op.form == MAP and (op.contraction or weighted):
            return self.signature
        if op.tells:
            first = self.operands[0]
            return first.provenance if first.rule is None else first.rule._provenance()
        return None

    def store(self) -> None:
        """Give the nodes rows from now on."""
        if self.spec.rule is not None:
            with _lock:
                self.spec = self.outer()
                CHANGED.append(self)


class Changes:
    """What no new graph follows as it did before; its length is how often that was.

    Attributes:
        made: rules made since all was forgotten.
        rules: those that have changed since somebody took note.
    """

    __slots__ = ("_count", "made", "rules")

    def __init__(self) -> None:
        self._count = 0
        self.made: int = 0
        self.rules: list[Rule] = []

    def __len__(self) -> int:
        return self._count

    def append(self, rule: Rule) -> None:
        """A rule has changed."""
        self.extend([rule])

    def extend(self, rules: list[Rule]) -> None:
        """Several rules have."""
        with _lock:
            self.rules += rules
            self._count += len(rules)

    def take(self) -> list[Rule]:
        """Those that have changed since this was last asked."""
        with _lock:
            fresh, self.rules = self.rules, []
            return fresh


CHANGED: Final = Changes()
# Additions of such a term were once part of a long chain.
_long_sums: set[tuple[int, OperandSpec]] = set()


def are_many() -> bool:
    """Whether there are more rules than the programs of the process may need."""
    made = CHANGED.made
    return made > MOST_RULES and made > MOST_RULES + OF_EACH * len(OWNERS)


@forgets
def forget_rules() -> None:
    """Forget what has changed, for nothing follows it any more."""
    CHANGED.made = 0
    CHANGED.take()
    with _lock:
        _long_sums.clear()


def stored_spec(kind: Kind, provenance: Signature | None = None) -> OperandSpec:
    """The spec of rows of `kind`, computed by `provenance` if that matters."""
    specs: dict[Any, OperandSpec] = (
        kind.specs if provenance is None else provenance.specs
    )
    key: Any = "stored" if provenance is None else kind
    with _lock:
        return specs.setdefault(key, OperandSpec(kind, provenance=provenance))


def weight_spec(kind: Kind) -> OperandSpec:
    """The spec of a weight."""
    specs: dict[Any, OperandSpec] = kind.specs
    with _lock:
        return specs.setdefault("weight", OperandSpec(kind))


def sum_spec(kind: Kind) -> OperandSpec:
    """The spec of a sum of `kind` that goes on."""
    specs: dict[Any, OperandSpec] = kind.specs
    with _lock:
        return specs.setdefault("sum", OperandSpec(kind, sums=True))


def rule_for(op: Op, signature: Signature, operands: tuple[OperandSpec, ...]) -> Rule:
    """The rule for these operands, made when it is new."""
    key = (signature.static, signature.broadcast, *operands)
    with _lock:
        known = op.rules.get(key)
        if known is None and op.contraction:
            plain = _told_by_weights(operands)
            if plain != operands:
                known = op.rules[key] = rule_for(op, signature, plain)
        if known is None:
            known = Rule(signature, operands)
            if known.additions > ADDITIONS:
                _note_long_sum(signature, operands[1])
                known = Rule(signature, operands)
            if op.mixtures is not None:
                known = _in_mixture(op.mixtures, op, known)
            op.rules[key] = known
        return known


def _told_by_weights(operands: tuple[OperandSpec, ...]) -> tuple[OperandSpec, ...]:
    """Of a product with weights, which tell what it is, whoever computed the rest."""
    if not any(v.kind.is_weight for v in operands):
        return operands
    return tuple([v if v.provenance is None else stored_spec(v.kind) for v in operands])


class Mixture:
    """Rules of one operation over lists in which the same things take turns.

    A parser whose features are words, states, or something computed has another list
    for each way to choose them. Once there are more than `MOST_RULES` (twice as many
    where products are part of the node), such lists are *even*: all that is no
    weight is rows, whatever computed them, and there is one rule.

    Attributes:
        names: the specs that tell what the operands are.
        rules: the rules met so far; none where lists are even.
        even: the rules that took their place, by what is broadcast, and weights.
    """

    MOST_RULES = 4

    def __init__(self) -> None:
        self.names: set[OperandSpec] = set()
        self.rules: list[Rule] = []
        self.even: dict[tuple[Any, ...], Rule] | None = None

    def join(self, other: "Mixture") -> None:
        """Take in all that another has met."""
        self.names |= other.names
        self.rules += other.rules
        if other.even is not None:
            self.even = self.even or other.even

    def take(self, rule: Rule, names: set[OperandSpec]) -> Rule:
        """The rule that holds instead of a new one."""
        self.names |= names
        if self.even is None:
            self.rules.append(rule)
            if len(self.rules) <= self.MOST_RULES * (1 + _has_product(rule)):
                return rule
            self.even = {}
        if any(v.inlined for v in rule.operands):
            return rule  # of the last node that is made so
        key = rule.signature.broadcast, *_weights(rule)
        if key not in self.even:
            specs = [
                v if v.kind.is_weight else OperandSpec(v.kind) for v in rule.operands
            ]
            self.even[key] = Rule(rule.signature, tuple(specs))
        return self.even[key]


def _has_product(rule: Rule) -> bool:
    inner = [v.rule for v in rule.operands if v.rule is not None]
    return any(r.signature.op.contraction for r in inner)


def _weights(rule: Rule) -> tuple[OperandSpec | None, ...]:
    return tuple([v if v.kind.is_weight else None for v in rule.operands])


def is_even(op: Op, static: tuple[Any, ...], operands: tuple[OperandSpec, ...]) -> bool:
    """Whether the operands are to be rows, whatever computed them."""
    known = (op.mixtures or {}).get(_place(static, operands), ())
    even = [m for m in known if m.even is not None]
    if not even:
        return False
    names = _names(operands)
    return any(not m.names.isdisjoint(names) for m in even)


def _place(
    static: tuple[Any, ...], operands: tuple[OperandSpec, ...]
) -> tuple[Any, ...]:
    """What all lists have in common in which the same things may take turns."""
    return (static, *[v.kind.shape for v in operands])


def _in_mixture(mixtures: dict[tuple[Any, ...], list[Any]], op: Op, rule: Rule) -> Rule:
    """The rule that holds, with regard to all that have been in such lists."""
    names = _names(rule.operands)
    if not names:
        return rule
    key = _place(rule.signature.static, rule.operands)
    known = mixtures.setdefault(key, [])
    alike = [m for m in known if not m.names.isdisjoint(names)]
    whole = alike[0] if alike else Mixture()
    for other in alike[1:]:
        whole.join(other)
    mixtures[key] = [whole, *[m for m in known if m not in alike]]
    chosen = whole.take(rule, names)
    if whole.even is not None and whole.rules:
        _void(op, whole.rules)
        whole.rules = []
    return chosen


def _names(operands: tuple[OperandSpec, ...]) -> set[OperandSpec]:
    """What tells of each operand which it is; rows of many origins have no name."""
    names = set()
    for spec in operands:
        if spec.kind.is_weight or spec.inlined or spec.provenance is not None:
            names.add(spec)
        if spec.rule is not None and spec.rule.outer().provenance is not None:
            names.add(spec.rule.outer())
    return names


def _void(op: Op, rules: list[Rule]) -> None:
    """Nothing follows these rules any more."""
    CHANGED.extend(rules)
    for table in op.rules, op.quick:
        for key in [key for key, rule in list(table.items()) if rule in rules]:
            del table[key]


def _note_long_sum(signature: Signature, term: OperandSpec) -> None:
    """Additions of such terms are sums from now on: rules made before are void."""
    _long_sums.add((signature.id, term))
    if term.rule is not None:
        _long_sums.add((signature.id, term.rule.outer()))
    op = signature.op
    CHANGED.extend([r for r in list(op.rules.values()) if r.signature is signature])
    for known in [op.rules, op.quick]:
        known.clear()


def _goes_on(signature: Signature, operands: tuple[OperandSpec, ...]) -> bool:
    if not is_summing(signature):
        return False
    term = signature.id, operands[1]
    return any(v.sums for v in operands) or term in _long_sums


def is_summing(signature: Signature) -> bool:
    """An addition of two rows of one shape."""
    return (
        signature.op.name == "add"
        and not signature.broadcast
        and all(
            not k.is_weight and k.shape == signature.shape for k in signature.operands
        )
    )


def _additions(signature: Signature, inner: list[Rule]) -> int:
    if not is_summing(signature):
        return 0
    nested = [r.additions for r in inner if r.signature is signature]
    return 1 + max(nested, default=0)
