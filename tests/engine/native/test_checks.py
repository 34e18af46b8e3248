"""What is wrong with a program is told when it is made."""

import numpy as np
import pytest
from bench import Tables, node, plain, stored

from dynetjax.core.registry import INPUT
from dynetjax.engine.native import core
from dynetjax.engine.native.lowering.bytecode import OP

SIZE = 4
WEIGHT, OPERAND, DATUM, GRADIENT = range(core.FIRST, core.FIRST + 4)
PLACES = {
    "constant": (core.CONSTANT, 0, 0, 0, 0),
    "temporary": (core.TEMPORARY, 0, 0, SIZE, 0),
    "saved": (core.SAVED, 0, 0, SIZE, 0),
    "value": (core.VALUE, 0, 0, SIZE, 0),
    "cotangent": (core.COTANGENT, 0, 0, SIZE, 0),
    "hoisted": (core.HOISTED, 0, 0, SIZE, 0),
    "weight": (WEIGHT, 0, 0, 0, 0),
    "operand": (OPERAND, 0, 0, core.DYNAMIC, 0),
    "datum": (DATUM, 0, 0, 1, 1),
    "gradient": (GRADIENT, 0, 0, 0, 0),
}


def ints(*numbers):
    return np.array(numbers, np.int32)


def place(name, **other):
    """An operand: its slot, start, offset, stride, and whether it is one word."""
    names = "slot", "start", "inner", "stride", "one"
    given = dict(zip(names, PLACES[name], strict=True))
    return list({**given, **other}.values())


EACH = "unary", "binary", "ternary"
COUNTS = {OP[name]: sum(map(bool, words[1:])) for name, *_, words, _ in core.RULES}


def instruction(op, d="value", a="operand", b="operand", c="operand", n=SIZE, **more):
    """Words of an instruction; the operands that it has not are copies of `d`."""
    given = {"flags": 0, "m": 0, "k": 0, "extra": 0, **more}
    number = OP[op] if isinstance(op, str) else op
    count = COUNTS.get(number, 3)
    where = [place(x) if isinstance(x, str) else x for x in (d, a, b, c)]
    where = (where[: 1 + count] + where[:1] * 3)[:4]
    head = [number, given["flags"], n, given["m"], given["k"], given["extra"]]
    return ints(*head, *[word for words in where for word in words])


def made(*forward, back=(), **other):
    """A program of one weight, operand, datum of SIZE numbers each."""
    given = {
        "form": 0,
        "size": SIZE,
        "weighted": True,
        "sizes": ints(SIZE),
        "types": "i",
        "weights": ints(0),
        "weight_sizes": ints(SIZE),
        "forward": np.concatenate([*forward, ints()]),
        "backward": np.concatenate([*back, ints()]),
        "extra": ints(),
        "constants": np.zeros(SIZE, np.float32),
        "temporary": SIZE,
        "saved": SIZE,
        "hoisted": SIZE,
        "asides": ints(),
        "table": -1,
        "pieces": 0,
        "outer": 1,
        **other,
    }
    return core.Program(**given)


def test_what_is_right_has_a_program():
    """Of every place that there is, read and written."""
    reads = [instruction("COPY", "value", name, n=1) for name in PLACES]
    del reads[list(PLACES).index("cotangent")], reads[-1]
    writes = [instruction("COPY", name) for name in ("temporary", "saved", "value")]
    back = [instruction("COPY", "temporary", name, n=1) for name in PLACES]
    assert made(*reads, *writes, back=back)


def test_arguments_have_names():
    with pytest.raises(TypeError, match="arguments have names"):
        core.Program(0, SIZE)
    with pytest.raises(TypeError, match="an argument that it has not"):
        made(width=3)
    with pytest.raises(TypeError):
        made(size="4")


@pytest.mark.parametrize(
    ("other", "message"),
    [
        ({"form": -1}, "no such form"),
        ({"form": 6}, "no such form"),
        ({"types": "x"}, "runtime data is of no type"),
        ({"types": "ix"}, "runtime data is of no type"),
        ({"weight_sizes": ints(-1)}, "a weight has no size"),
        ({"sizes": ints(0)}, "an operand has no size"),
        ({"size": 0}, "a row has no size"),
        ({"temporary": -1}, "a row has no size"),
        ({"saved": -1}, "a row has no size"),
        ({"hoisted": -1}, "a row has no size"),
        ({"weights": ints()}, "sizes are missing"),
        ({"weight_sizes": ints()}, "sizes are missing"),
        ({"forward": ints(1, 2, 3)}, "a buffer has part of an element"),
        ({"form": 5, "pieces": 0}, "pieces that are no part of a row"),
        ({"form": 5, "pieces": 3}, "pieces that are no part of a row"),
        ({"form": 5, "pieces": 2, "outer": 0}, "pieces that are no part of a row"),
        ({"form": 5, "pieces": 2, "outer": 3}, "pieces that are no part of a row"),
    ],
)
def test_programs(other, message):
    with pytest.raises(ValueError, match=message):
        made(**other)


def test_weights_that_it_is_bound_to():
    """As many as it reads."""
    one = made(types="")
    assert one.bound(ints(5))
    for wrong in ints(), ints(0, 1):
        with pytest.raises(ValueError, match="bound to another number of things"):
            one.bound(wrong)


NOWHERE = "an operand is not where it may be"


@pytest.mark.parametrize(
    "where",
    [
        place("constant", inner=1),
        place("constant", stride=1),
        place("temporary", start=1),
        place("temporary", start=-1),
        place("temporary", stride=-1),
        place("temporary", inner=-1),
        place("temporary", inner=1),
        place("saved", start=1),
        place("saved", stride=SIZE + 1),
        place("hoisted", start=1),
        place("hoisted", start=-1),
        place("hoisted", stride=SIZE + 1),
        place("value", stride=0),
        place("value", start=1),
        place("cotangent"),
        place("weight", stride=1),
        place("weight", inner=1),
        place("operand", stride=SIZE),
        place("operand", inner=1),
        place("datum", stride=0),
        place("datum", one=0),
        place("gradient"),
    ],
    ids=str,
)
def test_places(where):
    with pytest.raises(ValueError, match=NOWHERE):
        made(instruction("COPY", "value", where))
    for name, three in (("ADD", ("operand", where)), ("SELECT", ("operand",) * 2)):
        if name == "SELECT":
            three = *three, where
        with pytest.raises(ValueError, match=NOWHERE):
            made(instruction(name, "value", *three))


@pytest.mark.parametrize("slot", [-1, GRADIENT + 1, 0x70000000])
@pytest.mark.parametrize("position", range(4))
def test_every_operand_has_a_slot(slot, position):
    """Also one that the instruction has no use for: it is looked up."""
    words = instruction("EXP")
    words[6 + 5 * position] = slot
    with pytest.raises(ValueError, match="an operand has no slot"):
        made(words)


@pytest.mark.parametrize("word", [20, 21, 22, 23, 24])
def test_what_stands_for_no_operand(word):
    words = instruction("ADD")
    words[word + 1] += 1
    with pytest.raises(ValueError, match=r"an operand that it has not|has no slot"):
        made(words)


def test_a_product_is_put_aside_once():
    """There is room for one of each lane."""
    aside = instruction("PUT_ASIDE", "gradient", "cotangent", "datum", m=1)
    about = {"asides": ints(4, 1), "types": "f"}
    assert made(back=[aside], **about)
    with pytest.raises(ValueError, match="a product is put aside twice"):
        made(back=[aside, aside], **about)


def test_sizes_of_products_put_aside():
    with pytest.raises(ValueError, match="a product has no size"):
        made(asides=ints(4, 0))


OF_A_RULE = {
    "sizes": ints(SIZE, SIZE, SIZE),
    "types": "",
    "saved": SIZE,
    "hoisted": 0,
    "backward": None,
}
TERM = (core.FIRST, 0, 0, 0, 1)


def state(terms, **other):
    """The array of state of a rule's program that has so many terms."""
    named = {"start": 0, "inner": 0, "stride": core.DYNAMIC, "one": 0, **other}
    return [core.FIRST + terms + 2, *named.values()]


COPIED = instruction("COPY", "value", "temporary")


def of_a_rule(terms, *forward, **other):
    about = {"weights": np.arange(terms), "weight_sizes": np.ones(terms)}
    about = {k: x.astype(np.int32) for k, x in about.items()}
    return made(*forward, **{**OF_A_RULE, **about, **other})


def right(terms):
    return of_a_rule(
        terms,
        instruction("COPY", place("temporary"), list(TERM), n=1),
        instruction("ADD", "temporary", state(terms), [core.TEMPORARY, 0, 0, SIZE, 1]),
        instruction("COPY", "saved", "temporary"),
        instruction("COPY", "value", "temporary"),
    )


@pytest.mark.parametrize(
    ("forward", "other"),
    [
        ((COPIED,), {"hoisted": SIZE}),
        ((COPIED,), {"backward": ints()}),
        ((COPIED,), {"saved": 2 * SIZE}),
        ((COPIED,), {"sizes": ints(SIZE)}),
        ((COPIED,), {"weights": ints(0), "weight_sizes": ints(1)}),
        ((instruction("CUMSUM", "temporary", "temporary", m=1, k=1),), {}),
        ((instruction("COPY", "temporary", "temporary", n=2),) * 2, {}),
        ((instruction("COPY", "value", "temporary", n=1),), {}),
        ((instruction("COPY", "saved", "temporary", n=1),), {}),
        ((instruction("COPY", "temporary", state(2), n=1),), {}),
        ((instruction("COPY", "temporary", state(2, one=1)),), {}),
        ((instruction("COPY", "temporary", state(2, inner=1), n=3),), {}),
    ],
)
def test_what_is_no_program_of_a_rule(forward, other):
    """It goes number by number, after what follows from the terms alone."""
    first, *rest = core.TERMS
    others = [right(terms) for terms in rest]
    assert core.Rule(right(first), *others).states == 1
    with pytest.raises(ValueError, match="the program is not that of a rule"):
        core.Rule(of_a_rule(first, *forward, **other), *others)


def test_a_rule_has_a_few_arrays_of_state():
    count = core.MOST_STATES + 1
    about = {"sizes": np.full(2 + count, SIZE, np.int32), "saved": count * SIZE}
    programs = [of_a_rule(terms, **about) for terms in core.TERMS]
    with pytest.raises(ValueError, match="too many arrays of state"):
        core.Rule(*programs)


@pytest.mark.parametrize("name", ["constant", "weight", "operand", "cotangent"])
def test_results(name):
    with pytest.raises(ValueError, match="may be"):
        made(instruction("COPY", name))
    with pytest.raises(ValueError, match="a result is where none may be"):
        made(back=[instruction("COPY", "value")])


ONE_BY_ONE = {"m": 1, "k": 1, "extras": [1] + [0] * 6}


@pytest.mark.parametrize(
    ("message", "op", "about"),
    [
        ("an opcode or a size is none", -1, {}),
        ("an opcode or a size is none", len(OP), {}),
        ("an opcode or a size is none", "COPY", {"n": -1}),
        ("an opcode or a size is none", "SUM", {"m": -1, "k": 1}),
        ("an opcode or a size is none", "SUM", {"m": 1, "k": -1}),
        ("a size is too large", "MATMUL", {"n": 1 << 30, **ONE_BY_ONE}),
        ("a size is too large", "SUM", {"n": 1 << 16, "m": 1 << 16, "k": 1}),
        ("a size is too large", "SUM", {"n": 1 << 12, "m": 1 << 12, "k": 1 << 12}),
        ("nothing to compute", "COPY", {"n": 0}),
        ("nothing to compute", "SUM", {"m": 0, "k": 1}),
        ("nothing to compute", "CUMSUM", {"m": 1, "k": 0}),
        (NOWHERE, "SUM", {"n": 1, "m": 5, "k": 1}),
        (NOWHERE, "CUMSUM", {"n": 1, "m": 5, "k": 1}),
        ("extra is too short", "MOVE", {}),
        ("too many axes", "MOVE", {"extras": [9]}),
        ("too many axes", "MOVE", {"extras": [-1]}),
        ("extra is too short", "MOVE", {"extras": [1, 4, 1]}),
        ("extra is too short", "MOVE", {"extra": -1, "extras": [0]}),
        ("an axis is none", "MOVE", {"extras": [1, 0, 1, 1]}),
        ("an axis is none", "MOVE", {"extras": [1, 4, -1, 1]}),
        ("a block begins before its operand", "MOVE", {"extras": [1, 4, 1, -1]}),
        (NOWHERE, "MOVE", {"extras": [1, 5, 1, 0]}),
        (NOWHERE, "MOVE", {"extras": [1, 2, 1, 4]}),
        ("extra is too short", "MATMUL", {"m": 1, "k": 1, "extras": [1] * 6}),
        ("an empty product", "MATMUL", {"m": 0, "k": 1, "extras": [1] * 7}),
        ("a distance is negative", "MATMUL", {"m": 1, "k": 1, "extras": [1, -1] * 4}),
        ("no batch", "MATMUL", {"m": 1, "k": 1, "extras": [0] * 7}),
        ("no batch", "MATMUL", {"m": 1, "k": 1, "extras": [1 << 30] + [0] * 6}),
        (NOWHERE, "MATMUL", {"n": 5, "m": 1, "k": 1, "extras": [1] + [0] * 6}),
        (NOWHERE, "MATMUL", {"m": 1, "k": 1, "extras": [1, 0, 2, 0, 0, 0, 0]}),
        (NOWHERE, "MATMUL", {"m": 5, "k": 1, "extras": [1, 0, 0, 0, 0, 1, 0]}),
        ("no such product", "PUT_ASIDE", {"m": 4}),
        ("no such product", "PUT_ASIDE", {"m": 4, "asides": ints(4, 3)}),
        ("no such product", "PUT_ASIDE", {"m": 4, "extra": -1, "asides": ints(4, 4)}),
        ("a product for no gradient", "PUT_ASIDE", {"m": 4, "asides": ints(4, 4)}),
        ("no gradient of a weight", "ADD_TO_WEIGHT", {}),
        (NOWHERE, "ADD_TO_WEIGHT", {"d": "gradient"}),
        ("no gradient of an operand", "ADD_TO_OPERAND", {}),
        ("nothing to compute", "SORT_ORDER", {"m": 0}),
        (NOWHERE, "SORT_ORDER", {"n": 1, "m": 5}),
        ("nothing to compute", "RANDOM_BITS", {"n": 0}),
        (NOWHERE, "RANDOM_BITS", {"a": "datum"}),
    ],
)
def test_instructions(message, op, about):
    about = dict(about)
    beside = {"extra": ints(*about.pop("extras", ()))}
    if "asides" in about:
        beside["asides"] = about.pop("asides")
    with pytest.raises(ValueError, match=f"{message}.*: instruction 0 of forward"):
        made(instruction(op, **about), **beside)


@pytest.mark.parametrize(
    ("message", "op", "about"),
    [
        ("a gradient is set", "MATMUL", {"d": "gradient", "m": 1, "k": 1}),
        ("nothing to compute", "ADD_TO_OPERAND", {"n": 0}),
        ("no gradient of an operand", "ADD_TO_OPERAND", {"m": 1}),
        ("no gradient of an operand", "ADD_TO_OPERAND", {"k": 1}),
        (NOWHERE, "ADD_TO_OPERAND", {"a": place("cotangent", inner=1)}),
        (NOWHERE, "ADD_TO_WEIGHT", {"d": "gradient", "n": 5}),
        ("a product for no gradient", "PUT_ASIDE", {"d": "gradient", "m": 2}),
    ],
)
def test_instructions_of_backward(message, op, about):
    extra = {"extra": ints(1, 0, 0, 0, 0, 0, 0), "asides": ints(4, 2)}
    right = instruction("COPY", "temporary", "cotangent")
    back = [right, instruction(op, **about)]
    with pytest.raises(ValueError, match=f"{message}.*: instruction 1 of backward"):
        made(back=back, **extra)


def test_products_may_be_added_to_a_gradient():
    about = {"m": 1, "k": 1, "flags": core.ACCUMULATE}
    assert made(
        back=[instruction("MATMUL", "gradient", **about)],
        extra=ints(1, 0, 0, 0, 0, 0, 0),
    )


def test_no_derivative():
    about = {"types": "", "backward": None}
    forward = instruction("COPY")
    alone = made(forward, **about)
    none = np.zeros(SIZE, np.float32)
    tables = Tables({0: alone, 1: plain(INPUT, SIZE)}, [none])
    nodes = [node(1, given=none), node(0, 0)]
    graph = core.Executor(tables)
    assert graph.extend(stored(nodes), 0) == -1
    with pytest.raises(RuntimeError, match="a fused op has no derivative"):
        graph.backward([(1, none)], 0, False, None)


def product(d, a, b, number=0):
    """A matrix of 2 x 2 times a vector, as what may be hoisted."""
    about = {"n": 2, "m": 2, "k": 1, "extra": 0, "flags": core.HOIST | number << 8}
    return instruction("MATMUL", d, a, b, **about)


MATRIX = ints(1, 0, 2, 1, 0, 1, 1)
TO_OPERAND = {"n": 2, "flags": core.HOIST}
LOOP = instruction("LOOP", n=1, m=1)


@pytest.mark.parametrize(
    ("forward", "back"),
    [
        ([product("temporary", "weight", "operand")], []),
        ([product("hoisted", "weight", "temporary")], []),
        ([product("hoisted", "constant", "operand")], []),
        ([product("hoisted", "weight", "operand", number=1)], []),
        ([product("hoisted", "weight", "operand", number=-1)], []),
        ([instruction("COPY", "hoisted", flags=core.HOIST)], []),
        ([], [product("hoisted", "weight", "hoisted")]),
        ([], [product("temporary", "weight", "temporary")]),
        ([], [product("temporary", "weight", "hoisted", number=1)]),
        ([], [instruction("ADD_TO_OPERAND", "value", "cotangent", **TO_OPERAND)]),
        (
            [],
            [instruction("LOOP", n=1, m=1), product("temporary", "weight", "hoisted")],
        ),
    ],
)
def test_what_is_hoisted_needs_nothing_else(forward, back):
    right = {
        "forward": [product("hoisted", "weight", "operand")],
        "back": [
            product("temporary", "weight", "hoisted"),
            instruction("ADD_TO_OPERAND", "value", "temporary", **TO_OPERAND),
        ],
    }
    assert made(*right["forward"], back=right["back"], extra=MATRIX)
    error = r"hoisted needs more than its operand|a flag that it has not"
    with pytest.raises(ValueError, match=error):
        made(*forward, back=back, extra=MATRIX)


# What the kernels of each opcode touch, as numpy has it of arrays of these shapes.
N, M, K = 2, 3, 4
FAMILIES = {
    **dict.fromkeys(EACH, [(N * M,)] * 4),
    "reduction": [(N, K), (N, M, K)],
    "scan": [(N, M, K), (N, M, K)],
}
TOUCHED = {
    **{rule[0]: FAMILIES[rule[1]] for rule in core.RULES if rule[1] in FAMILIES},
    "SORT_ORDER": [(N, M), (N, M)],
    "FACTORISE": [(N, M * K + M + M), (N, M, K)],
    "SOLVE_TRIANGLE": [(N, M, K), (N, M, M), (N, M, K)],
    "CHOLESKY": [(N, M, M), (N, M, M)],
}


@pytest.mark.parametrize("name", TOUCHED)
def test_what_an_opcode_touches(name):
    """It has a program where its operands have room, and none with a word less."""
    family = next(rule[1] for rule in core.RULES if rule[0] == name)
    n = N * M if family in EACH else N
    sizes = [int(np.prod(shape)) for shape in TOUCHED[name]]

    def placed(rooms):
        starts = np.cumsum([0, *rooms])
        places = [
            place("temporary", start=int(start), stride=room)
            for start, room in zip(starts, rooms, strict=False)
        ]
        ins = instruction(name, *places, n=n, m=M, k=K)
        return made(ins, temporary=int(starts[-1]))

    count = 1 + COUNTS[OP[name]]
    rooms = sizes[:count]
    assert len(rooms) == count
    assert placed(rooms)
    for short in range(count):
        less = [room - (k == short) for k, room in enumerate(rooms)]
        with pytest.raises(ValueError, match="an operand is not where it may be"):
            placed(less)
