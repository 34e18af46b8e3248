"""Random functions, and what they are given: by byte code, in NumPy, and by JAX."""

from dataclasses import dataclass, field, replace
from functools import cached_property, partial
from math import prod
from typing import NamedTuple
from unittest import mock

import choices
import jax
import jax.numpy as jnp
import numpy as np
import on_functions  # noqa: F401
import on_matrices
import on_numbers  # noqa: F401
import on_places  # noqa: F401
import on_shapes  # noqa: F401
from bench import Tables, node, plain, stored, words
from choices import OPERATIONS, Choices, Number
from in_numpy import Exact, Rounded
from jax.interpreters import partial_eval as pe

from dynetjax.core.registry import INPUT, Op
from dynetjax.engine.ir.draws import Draws, keys_of
from dynetjax.engine.native import core, program

STYLES = {"plain": (-2, 2), "halves": (-2, 2), "positive": (0.3, 3), "wide": (-20, 20)}
ODD = np.array([0, -0.0, np.inf, -np.inf, np.nan, 1, 2], np.float32)
INT, FLOAT = (-3, 8), (-2, 2)


class Input(NamedTuple):
    """`role`: weight, leaf, or one row for all lanes."""

    shape: tuple
    role: str
    style: str


class Step(NamedTuple):
    name: str
    reads: tuple
    seed: int


@dataclass
class Function:
    """A random function; it is drawn when it is first called.

    Values are numbered: inputs, data, then what each step makes.

    Attributes:
        again: the number of the input that is what another run of it has made; None if
            none is.
        runs: how often it is run, then.
        outputs: values of which the result consists.
        cuts: by step, the number of the input that is taken for what it makes.
        bounds: of each value.
    """

    seed: int
    inputs: list[Input]
    types: str
    again: int | None = None
    runs: int = 1
    steps: list[Step] | None = None
    outputs: list[int] = field(default_factory=list)
    cuts: dict[int, int] = field(default_factory=dict)
    bounds: list = field(default_factory=list)
    kinds: list = field(default_factory=list)

    def values(self, *given):
        """All values of the function, as `Number`s."""
        values = []
        first = len(self.inputs)
        own = self.inputs[: first - len(self.cuts)]
        for x, about in zip(given[: len(own)], own, strict=True):
            values.append(Number(x, *STYLES.get(about.style, (-30, 30))))
        for x, letter in zip(given[first:], self.types, strict=True):
            if letter == "k":
                s = Choices([self.seed, 3])
                values.append(on_matrices.drawn(s, x, s.shape()))
            else:
                values.append(Number(x, *(INT if letter == "i" else FLOAT)))
        if self.steps is None:
            self._draw(values)
            return values
        for number, step in enumerate(self.steps):
            if number in self.cuts:
                at = len(values)
                x = given[self.cuts[number]]
                kind = {"i": jnp.int32, "u": jnp.uint32, "b": bool}
                x = x if self.kinds[at] == "f" else x.astype(kind[self.kinds[at]])
                values.append(Number(x, *self.bounds[at]))
            else:
                values.append(self._made(step, values))
        return values

    def _made(self, step, values):
        chosen, r = OPERATIONS[step.name], Choices(step.seed)
        given = [values[k] for k in step.reads]
        operands = choices.operands_of(r, chosen, given)
        return choices.small(r, chosen.run(r, *operands))

    def _draw(self, values):
        """Draw the steps, and have them make values."""
        r = Choices([self.seed, 1])
        names, weights = choices.names_by_weight()
        first, steps = len(values), []
        for number in range(r.number(1, r.one(4, 8, 8, 14))):
            name = names[r.rng.choice(len(names), p=weights)]
            reads = []
            for kind in OPERATIONS[name].kinds:
                fits = [k for k, v in enumerate(values) if kind in (v.kind, "a")]
                fits = fits if fits and r.chance(0.85) else [*range(len(values))]
                reads.append(max(r.one(*fits), r.one(*fits)))
            step = Step(name, tuple(reads), self.seed * 100 + number)
            values.append(self._made(step, values))
            steps.append(step)
        read = {k for step in steps for k in step.reads}
        unread = [k for k in range(first, len(values)) if k not in read]
        self.steps, self.outputs = steps, unread[-7:]
        self.bounds = [(v.low, v.high) for v in values]
        self.kinds = [v.kind for v in values]

    def __call__(self, *given):
        values = self.values(*given)
        r = Choices([self.seed, 2])
        results = []
        for k in self.outputs:
            v = values[k]
            floats = v.x if v.kind == "f" else v.x.astype(choices.wide())
            results.append(replace(v, x=floats))
        if self.again is not None:
            shape = self.inputs[self.again].shape
            results = [
                choices.fitted(r, choices.within(r, v, -2, 2), shape) for v in results
            ]
        if len(results) == 1:
            return results[0].x
        if self.again is not None or r.chance(0.3):
            several = [choices.fitted(r, v, results[0].shape).x for v in results]
            return sum(several[1:], several[0])
        return jnp.concatenate([v.x.reshape(-1) for v in results])


@dataclass
class Trial:
    """A function, and what it is given on several lanes.

    Attributes:
        arrays: of each input; those of leaves begin with an axis of lanes.
        data: of each letter, the numbers of the lanes.
        seed: of what gradients are drawn from.
    """

    function: Function
    lanes: int
    arrays: list
    data: list
    seed: int

    @cached_property
    def weights(self):
        """How many inputs are weights; these come first."""
        return sum(x.role == "weight" for x in self.function.inputs)

    @cached_property
    def structure(self):
        function = self.function
        op = Op("function", function, runtime=function.types, internal=True)
        named = [("weight", k) for k in range(self.weights)]
        count = len(function.inputs) - self.weights
        named += [("leaf", k) for k in range(count)]
        shapes = [x.shape for x in function.inputs]
        weights = tuple([(s, False) for s in shapes[: self.weights]])
        leaves = tuple(shapes[self.weights :])
        steps = ((op, (), tuple(named)),)
        return program.Structure((), steps, weights, leaves, function.types)

    @cached_property
    def jaxprs(self):
        """Forward and back."""
        return program._traced(self.structure)

    @cached_property
    def needed(self):
        """The same without what no result needs, and which residuals are left."""
        forth, back = self.jaxprs
        every = [True] * len(back.out_avals)
        used = [*[False] * (len(back.in_avals) - 1), True]
        back_jaxpr, reads = pe.dce_jaxpr(back.jaxpr, every, instantiate=used)
        outs = [True, *reads[:-1]]
        forth_jaxpr, _ = pe.dce_jaxpr(forth.jaxpr, outs, instantiate=True)
        return (forth_jaxpr, forth.consts), (back_jaxpr, back.consts)

    @cached_property
    def shape(self):
        return tuple(self.jaxprs[0].out_avals[0].shape)

    @cached_property
    def cotangent(self):
        rng = np.random.default_rng([self.seed, 4])
        return rng.normal(size=(self.lanes, *self.shape)).astype(np.float32)

    @cached_property
    def found(self):
        """(value, gradients) by byte code.

        Raises:
            NotCoveredError: there is none.
        """
        structure = replace(self.structure, shape=self.shape)
        with mock.patch.object(program, "_traced", return_value=self.jaxprs):
            code = program._compiled(structure)
        made = core.Program(**program._interface(structure), **code)
        programs, nodes = {0: made}, []
        weights, operands = self.arrays[: self.weights], self.arrays[self.weights :]
        for k, x in enumerate(operands, 1):
            programs[k] = plain(INPUT, prod(x.shape[1:]))
            nodes.append(node(k, lanes=len(x), given=np.ascontiguousarray(x)))
        data = words(self.data, self.function.types, self.lanes)
        reads = [*range(len(operands))]
        for _ in range(self.function.runs):
            nodes.append(node(0, *reads, data=data, lanes=self.lanes))
            root = len(nodes) - 1
            if self.function.again is not None:
                reads[self.function.again - self.weights] = root
        graph = core.Executor(Tables(programs, weights))
        assert graph.extend(stored(nodes), 0) == -1
        value = np.frombuffer(graph.rows(root), np.float32)
        found = {}

        def zeros(kind):
            found[kind] = np.zeros(weights[kind].shape, np.float32)
            return found[kind]

        graph.backward([(root, self.cotangent)], 0, True, zeros)
        gradients = [found.get(k, np.zeros(w.shape)) for k, w in enumerate(weights)]
        for k, x in enumerate(operands):
            rows = graph.gradient(k)
            none = np.zeros(x.size, np.float32)
            array = none if rows is None else np.frombuffer(rows, np.float32)
            gradients.append(array.reshape(x.shape))
        return [value.reshape(self.lanes, *self.shape), *gradients]

    def given(self, lane):
        """What the function is given on a lane."""
        found = []
        for number, x in enumerate(self.arrays):
            row = x if number < self.weights else x[lane if len(x) > 1 else 0]
            found.append(np.asarray(row, np.float64))
        for letter, x in zip(self.function.types, self.data, strict=True):
            if letter == "k":
                draws = Draws(lambda: 7, [])
                keys = keys_of(draws, np.array([x]), np.array([self.lanes]))
                found.append(np.asarray(keys[lane], np.uint32))
            else:
                dtype = np.int32 if letter == "i" else np.float32
                found.append(Exact.array(np.asarray(x[lane], dtype)))
        return found

    @cached_property
    def exact(self):
        """(value, gradients) in float64."""
        return self.accounted(self.evaluator)

    @cached_property
    def evaluator(self):
        return Exact()

    def accounted(self, evaluator):
        """(value, gradients) as an evaluator of jaxprs computes them."""
        forth, back = self.needed

        def run(*given):
            value, *residuals = evaluator.run(*forth, given)
            return value, lambda seed: evaluator.run(*back, [*residuals, seed])

        with np.errstate(all="ignore"):
            several = [self.on_lane(run, lane) for lane in range(self.lanes)]
            return self.put_together(several, evaluator)

    def on_lane(self, run, lane):
        """(value, slopes) of all runs, of which each is ``(value, pull back)``."""
        given, again = self.given(lane), self.function.again
        pulls = []
        for _ in range(self.function.runs):
            value, pull = run(*given)
            pulls.append(pull)
            if again is not None:
                given[again] = value
        seed = self.cotangent[lane].astype(np.float64)
        total = [np.zeros(x.shape) for x in given[: len(self.arrays)]]
        for pull in reversed(pulls):
            slopes = [np.asarray(x, np.float64) for x in pull(seed)]
            total = [a + b for a, b in zip(total, slopes, strict=True)]
            if again is not None:
                seed = total[again] = slopes[again]
        return [np.asarray(value, np.float64), *total]

    def put_together(self, several, evaluator):
        """What lanes come to; what they share gets the sum of their gradients."""
        value, *slopes = zip(*several, strict=True)
        found = [np.stack(value)]
        for number, rows in enumerate(slopes):
            shared = number < self.weights or len(self.arrays[number]) == 1
            total = np.stack(rows)
            if shared:
                total = evaluator.total(total.sum(0), total, (0,))
            found.append(np.reshape(total, self.arrays[number].shape))
        return found

    def by_jax(self):
        """(value, gradients) by JAX in float64."""
        count = len(self.arrays)

        @jax.jit
        def value(*given):
            return self.function(*given)

        @jax.jit
        def slopes(given, seed):
            function = partial(jax.vjp, lambda *xs: self.function(*xs, *given[count:]))
            return function(*given[:count])[1](seed)

        def run(*given):
            return value(*given), partial(slopes, tuple(given))

        with jax.enable_x64(True):
            several = [self.on_lane(run, lane) for lane in range(self.lanes)]
        return self.put_together(several, Exact())

    def due(self, times, seed):
        """What each number may be off; the second time numbers are rounded alone."""
        exact = self.exact
        off = [np.zeros(x.shape) for x in exact]
        for number in range(times):
            rng = np.random.default_rng([self.seed, seed, number])
            rounded = Rounded(rng, times=float(number != 1))
            for k, x in enumerate(self.accounted(rounded)):
                odd = ~np.isfinite(exact[k])
                same = odd & ((x == exact[k]) | (np.isnan(x) & np.isnan(exact[k])))
                with np.errstate(invalid="ignore"):
                    apart = np.where(same, 0, abs(x - exact[k]))
                apart = np.where(np.isnan(apart), np.inf, apart)
                off[k] = np.maximum(off[k], apart)
        return off


def drawn(seed):
    """The trial of a seed."""
    r = Choices([seed, 0])
    roles = [r.one("weight", "leaf", "leaf", "one row") for _ in range(r.number(1, 4))]
    roles.sort(reverse=True, key="weight".__eq__)
    inputs = [
        Input(choices.shapes_of_input(r), role, r.one(*STYLES, "plain", "plain"))
        for role in roles
    ]
    types = "".join([r.one(*"iiffk") for _ in range(r.one(0, 0, 1, 1, 2))])
    lanes = r.one(1, 2, 2, 3, 4) if r.chance(0.97) else r.one(17, 33)
    arrays = []
    for about in inputs:
        count = {"weight": (), "leaf": (lanes,), "one row": (1,)}[about.role]
        x = r.rng.uniform(*STYLES[about.style], (*count, *about.shape))
        x = np.round(x * 2) / 2 if about.style == "halves" else x
        if r.chance(0.02):
            x = np.where(r.rng.random(x.shape) < 0.2, r.rng.choice(ODD, x.shape), x)
        arrays.append(x.astype(np.float32))
    data = []
    for letter in types:
        if letter == "k":
            data.append(0)
        elif letter == "i":
            data.append(r.rng.integers(INT[0], INT[1] + 1, lanes).tolist())
        else:
            data.append(np.float32(r.rng.uniform(*FLOAT, lanes)).tolist())
    function = Function(seed, inputs, types)
    leaves = [k for k, x in enumerate(inputs) if x.role == "leaf"]
    if leaves and r.chance(0.15):
        function.again, function.runs = r.one(*leaves), r.number(1, 5)
    return Trial(function, lanes, arrays, data, seed)
