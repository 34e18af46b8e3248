"""The programs of dynetjax, as it would have them compiled for a device.

What is planned does not depend on values. So the host is taken for a device, training
goes on with zeros in place of results, and what was called is compiled elsewhere.
"""

import jax
import numpy as np
import pretending
import targets

from dynetjax.engine.xla import compiling, component_loop, loop_back
from dynetjax.engine.xla.compiling import Compiled, key_of, shape_of


def pretend(target):
    """Take the host for a device of this kind, wherever dynetjax asks what it is."""
    pretending.pretend(host_sees_device=False, platform=targets.NAMES[target])
    compiling.options_for = lambda backend: {}  # those that the device needs come later


class Call:
    """A program that was called, with arguments of some shapes.

    Attributes:
        trips: of each call, those of its loops by the number of the component.
    """

    def __init__(self, function, shapes):
        self.function, self.shapes = function, shapes
        self.trips = []

    @property
    def name(self):
        """Of what it is for: forward, backward, update."""
        return self.function._run.__qualname__.split(".")[0].lower()

    def lowered(self, target):
        """It is lowered for a device, with the options that dynetjax has for that."""
        self.function._options = targets.options(target)
        return self.function.lowered(targets.there(target, self.shapes))


class Capture:
    """Gathers the calls of programs, from now on, and has none of them computed.

    The loops of components get the scope ``trips_K`` by the number of the component.

    Attributes:
        calls: by function and shapes.
    """

    def __init__(self):
        self.calls = {}
        self._results = {}  # the shapes of results, likewise
        self._programs = {}  # of a function with loops: what tells where trips stand
        self._traced = None

        def called(function, *args):
            return self._called(function, args)

        Compiled.__call__ = called
        Compiled.compile = Compiled.prepare = lambda function, *shapes: None
        self._name_loops()

    def _name_loops(self):
        kind = component_loop.Loop
        begin = kind.__init__

        def init(loop, program, number, *rest):
            begin(loop, program, number, *rest)
            loop.scope = f"trips_{number}"
            if self._traced is not None:
                self._programs[self._traced] = program

        def forward(loop, *args):
            with jax.named_scope(loop.scope):
                return run_forward(loop, *args)

        def back(way):
            with jax.named_scope(way.loop.scope):
                return run_back(way)

        kind.__init__ = init
        run_forward, kind.forward = kind.forward, forward
        run_back, loop_back.LoopBack.run = loop_back.LoopBack.run, back

    def _called(self, function, args):
        shapes = jax.tree.map(shape_of, args)
        key = function, key_of(shapes)
        if key not in self._results:
            self._traced = function
            self._results[key] = jax.eval_shape(function._run, *shapes)
            self._traced = None
        call = self.calls.setdefault(key, Call(function, shapes))
        call.trips.append(self._trips(function, args))
        return jax.tree.map(_zeros, self._results[key])

    def _trips(self, function, args):
        """Of each component's loop, by its number."""
        program = self._programs.get(function)
        if program is None:
            return {}
        (numbers,) = [
            np.asarray(x)
            for x in jax.tree.leaves(args)
            if x.dtype == np.int32 and x.shape == (program.size,)
        ]
        return {k: int(numbers[at]) for k, at in enumerate(program.starts[:-1])}

    def of_last(self, step, units):
        """The calls of the last of some steps."""
        for unit in units:
            self.calls.clear()
            step(unit)
        return [*self.calls.values()]


def _zeros(shape):
    return jax.device_put(np.zeros(shape.shape, shape.dtype))
