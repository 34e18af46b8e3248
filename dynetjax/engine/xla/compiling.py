"""Compiling: a function for one set of shapes, when it is first called or before.

What an earlier process has compiled, JAX reads (`compilation_cache`).
"""

import sys
import threading
import time
from collections.abc import Callable, Iterator
from concurrent.futures import Future, ThreadPoolExecutor
from concurrent.futures import wait as wait_for
from contextlib import contextmanager
from functools import cache
from typing import Any, TypeAlias

from dynetjax.core.lazy import RUNS, jax
from dynetjax.engine.device import host_sees_device, platform
from dynetjax.engine.stats import falling_back, note_launch, note_sent, uncounted
from dynetjax.engine.xla import internals
from dynetjax.engine.xla.heap import give_back
from dynetjax.engine.xla.live import live
from dynetjax.engine.xla.sharding import everywhere, place_of, placed, places

PATIENCE = 2.0  # seconds until somebody who watches is told
WORKERS = 2  # threads that compile beside other work
LONG = 0.1  # seconds that compiling takes, at least, and loading does not
SHAPES = 4  # sets of shapes, for each of which a function has a program
Key: TypeAlias = tuple[Any, ...]


@cache
def options_for(backend: str) -> dict[str, Any]:
    """Options for a program.

    On a GPU it is one graph of kernels, loops included: otherwise the host starts each
    kernel, and waits at every trip to hear whether there is another.
    """
    if backend == "cpu":
        return {}
    options = internals.OPTIONS
    rocm = "rocm" in jax.local_devices()[0].client.platform_version
    # There, XLA may end the process when a loop in a graph runs.
    return known_options(options["gpu"] | ({} if rocm else options["one graph"]))


def known_options(options: dict[str, Any]) -> dict[str, Any]:
    """The given options, without those that XLA does not know."""
    with uncounted():
        if _knows(options):
            return options
        return {name: value for name, value in options.items() if _knows({name: value})}


def _knows(options: dict[str, Any]) -> bool:
    """Whether XLA takes these options, whose names are not for ever."""
    try:
        jax.jit(lambda: 0, compiler_options=options).lower().compile()
    except jax.errors.JaxRuntimeError:
        return False
    return True


class Compiled:
    """A compiled function of arrays; what is compiled is for one set of shapes.

    It has programs for the latest few sets of shapes that it was called with. It is
    new; then perhaps a thread prepares it; then it is ready, or that failed.

    Args:
        run: pure.
        donated: the name of its argument that is donated, if one is.
        like: of arguments on several devices gives those that lie where the results
            are to lie, or None for what is to be on all devices.

    Attributes:
        used: when it was last, for `LivePrograms`.
    """

    __slots__ = (
        "__weakref__",
        "_donated",
        "_like",
        "_lock",
        "_lowered",
        "_options",
        "_preparing",
        "_program",
        "_programs",
        "_run",
        "used",
    )

    def __init__(
        self,
        run: Callable,
        donated: str | None = None,
        like: Callable[..., Any] = lambda *args: None,
    ):
        self._run, self._donated, self._like = run, donated, like
        self._options = options_for(platform())
        self._programs: dict[Key, Any] = {}
        self._program: Any = None  # the one that ran last
        self._lowered: tuple[Key, jax.stages.Lowered] | None = None
        self._preparing: Future[None] | None = None
        self._lock = threading.Lock()
        self.used: int = 0

    def __call__(self, *args: Any) -> Any:
        RUNS.require()
        self.used = live.use()
        note_launch()
        if not host_sees_device():
            note_sent(sum(map(_is_on_host, jax.tree.leaves(args))))
        program = self._program
        if program is None:
            with _compiling():
                program = self._program_for(args)
        try:
            return program(*args)
        except (TypeError, ValueError):  # perhaps it is for other shapes, or devices
            known, program = program, self._program_for(args)
            if program is known:
                raise
            return program(*args)

    @property
    def is_new(self) -> bool:
        """Whether nothing is compiled."""
        return not self._programs

    @property
    def is_ready(self) -> bool:
        """Whether there is nothing to wait for: it is prepared, or that failed."""
        preparing = self._preparing
        return not self.is_new or (preparing is not None and preparing.done())

    def drop(self) -> None:
        """Let go of what was compiled; it is made again where it is needed."""
        self._program = self._preparing = None
        self._programs = {}

    def wait(self) -> None:
        """Until it is prepared, if it is being prepared."""
        if self._preparing is not None:
            wait_for([self._preparing])

    def compile(self, *shapes: Any) -> None:
        """Compile it for arguments of these shapes, before they are there."""
        RUNS.require()
        with _compiling():
            self._make(shapes)

    def _program_for(self, args: tuple[Any, ...]) -> Any:
        """What runs such arguments, from now on if on one device.

        What is for several would run arguments on one, too, and there would be several.
        """
        self.wait()
        shapes = jax.tree.map(shape_of, args)
        program = self._make(shapes)
        self._program = program if everywhere(shapes) is None else None
        live.look()
        return program

    def _make(self, shapes: Any) -> Any:
        """The program for arguments of these shapes: known or compiled."""
        key = key_of(shapes)
        with self._lock:
            program = self._programs.get(key)
            if program is None:
                program = self._lowered_for(key, shapes).compile()
                while len(self._programs) >= SHAPES:
                    del self._programs[next(iter(self._programs))]
                self._programs[key] = program
        live.add(self)
        return program

    def _lowered_for(self, key: Key, shapes: Any) -> "jax.stages.Lowered":
        """What was lowered beforehand, if it is for these shapes; or it is now."""
        known, self._lowered = self._lowered, None
        if known is not None and known[0] == key:
            return known[1]
        return self.lowered(shapes)

    def lowered(self, shapes: Any) -> "jax.stages.Lowered":
        """This function lowered for arguments of the given shapes.

        XLA 0.11 ends a loop within a loop or branch too early in a graph of kernels; so
        such a program is none.
        """
        options, graph = self._options, internals.OPTIONS["one graph"]
        apart = {k: v for k, v in options.items() if k not in graph}
        lowered = self._lower_with(options, shapes)
        if apart != options and internals.has_loops_in_loops(lowered):
            return self._lower_with(apart, shapes)
        return lowered

    def _lower_with(self, options: dict[str, Any], shapes: Any) -> "jax.stages.Lowered":
        results, place = None, everywhere(shapes)
        if place is not None:
            results = places(self._like(*shapes), place)
            shapes = placed(shapes, place)
        made = jax.jit(
            self._run,
            donate_argnames=self._donated,
            compiler_options=options,
            out_shardings=results,
        )
        return made.lower(*shapes)

    def prepare(self, *shapes: Any) -> None:
        """Compile it in a thread, for arguments of these shapes, if nobody has yet.

        It is traced and lowered here: two threads that both run Python take longer
        than one after the other.
        """
        RUNS.require()
        if not self.is_new or self._preparing is not None:
            return
        self._preparing = Future()
        self._preparing.set_result(None)  # unless it gets further
        with falling_back("prepare"):  # it is raised when it is run
            self._lowered = key_of(shapes), self.lowered(shapes)
            self._preparing = _workers().submit(_prepare, self, shapes)


@cache
def _workers() -> ThreadPoolExecutor:
    """The threads; a process that ends waits until they are through."""
    return ThreadPoolExecutor(WORKERS, "dynetjax-compiling")


def _prepare(function: Compiled, shapes: Any) -> None:
    with falling_back("prepare"):  # it is raised when it is run
        function._make(shapes)


@contextmanager
def _compiling() -> Iterator[None]:
    """Give back what the compiler took; for what was loaded, that is not worth it."""
    start = time.monotonic()
    with _telling():
        yield
    if time.monotonic() - start > LONG:
        give_back()


@contextmanager
def _telling() -> Iterator[None]:
    """Tell whoever watches the screen what a long wait is for."""
    if not _is_watched():
        yield
        return
    timer = threading.Timer(PATIENCE, _tell)
    timer.daemon = True
    timer.start()
    try:
        yield
    finally:
        timer.cancel()


def _is_watched() -> bool:
    """Whether standard error is a terminal, or a notebook's."""
    return "ipykernel" in sys.modules or getattr(sys.stderr, "isatty", bool)()


def _tell() -> None:
    print(
        "dynetjax: compiling; graphs like this one will not need it again"
        " (dynetjax.stats() tells why)",
        file=sys.stderr,
        flush=True,
    )


def _is_on_host(x: Any) -> bool:
    """Whether an argument is sent to the device when a program is called with it."""
    return not isinstance(x, jax.Array)


def key_of(shapes: Any) -> Key:
    """What tells arguments of some shapes from others."""
    place = everywhere(shapes)
    leaves, tree = jax.tree.flatten(shapes if place is None else placed(shapes, place))
    return tree, *[(x.shape, x.dtype, x.weak_type, place_of(x)) for x in leaves]


def shape_of(x: Any) -> "jax.ShapeDtypeStruct":
    """What a function is compiled for of an argument."""
    aval = jax.typeof(x)
    return jax.ShapeDtypeStruct(
        aval.shape, aval.dtype, weak_type=aval.weak_type, sharding=place_of(x)
    )
