"""Compiling: quickly at first, and with all that XLA can do once a program is hot.

On a CPU most of a compilation is LLVM's work on XLA's kernels. Without fusion emitters,
and at a lower level, it takes 0.4 of the time, and what comes of it runs a tenth to a
fifth slower. So a program is compiled so at first; when it has run often and for long,
a thread compiles it once more beside the runs, and the better one takes over. The runs
are slower meanwhile, which only a long training makes up for. Programs that go over
very many numbers have fusion emitters from the start: others make no vector code of
what is added to an array in its place, as they cannot tell that it is the same array.

What was compiled in an earlier process is loaded, and not even traced
(`dynetjax.engine.stored`).
"""

import os
import sys
import threading
import time
from collections import deque
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from functools import cache, partial
from pathlib import Path
from typing import Any

import jax

from dynetjax.engine import kernels, stored
from dynetjax.engine.ahead import ahead
from dynetjax.engine.device import platform
from dynetjax.engine.heap import give_back
from dynetjax.engine.stats import beside_the_runs, count, hits, note_loaded
from dynetjax.engine.threads import stand_back

HOT = 300  # runs
OLD = 60.0  # seconds
PATIENCE = 2.0  # seconds until somebody who watches is told
LONG = 0.1  # seconds that compiling takes, at least, and loading does not
NICE = 10  # how far the thread stands behind the others, where threads can
_QUICKLY = {
    "xla_cpu_use_fusion_emitters": False,
    "xla_backend_optimization_level": 1,
    "xla_llvm_disable_expensive_passes": True,
}
_FOR_LARGE = {"xla_cpu_use_fusion_emitters": True}
_UNDIVIDED = {"xla_disable_hlo_passes": "cpu-parallel-task-assigner"}
_IN_ONE_GRAPH = {
    "xla_gpu_enable_command_buffer": "FUSION,CUBLAS,CUBLASLT,CUDNN,CUSTOM_CALL,"
    "DYNAMIC_SLICE_FUSION,CONDITIONAL,WHILE",
    "xla_gpu_graph_min_graph_size": 1,
}
_QUICKLY_ON_GPU = {"xla_gpu_enable_triton_gemm": False}  # nor tried, in many shapes

_waiting: deque[tuple["Compiled", Any]] = deque()
_lock = threading.Lock()
_thread: threading.Thread | None = None
_at_once = False


def compile_well_at_once(on: bool) -> None:
    """Whether programs made from now on are compiled once and for all."""
    global _at_once
    _at_once = on


def compiles_well_at_once() -> bool:
    """Whether they are, so that equal graphs have bitwise equal values."""
    return _at_once


def options_for(small: bool) -> dict[str, Any]:
    """Options for a program; if it is `small`, no kernel is divided among threads.

    On a GPU it is one graph of kernels, loops included: otherwise the host starts each
    kernel, and waits at every trip to hear whether there is another.
    """
    return _options_for(platform(), small)


@cache
def _options_for(backend: str, small: bool) -> dict[str, Any]:
    if backend == "cpu":
        return known_options(_UNDIVIDED) if small else {}
    return known_options(_QUICKLY_ON_GPU | (_IN_ONE_GRAPH if _has_graphs() else {}))


def _has_graphs() -> bool:
    """Whether loops can be in graphs of kernels; else XLA may end the process there."""
    version = jax.local_devices()[0].client.platform_version
    return jax.__version_info__ >= (0, 10) and "rocm" not in version


@cache
def quick_options(backend: str, large: bool = False) -> dict[str, Any]:
    """Options with which XLA compiles quickly; if a program is `large`, less so."""
    options = _QUICKLY | (_FOR_LARGE if large else {})
    return known_options(options) if backend == "cpu" else {}


def known_options(options: dict[str, Any]) -> dict[str, Any]:
    """Those options that XLA knows."""
    with beside_the_runs():
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
    """A compiled function of arrays whose shapes are the same in every call.

    Args:
        run: pure.
        donated: names of its arguments that are donated.
        small: none of its kernels is worth dividing among threads.
        large: some go over so many numbers that better code soon pays.
        about: all that it is traced from besides its arguments, to know it by in
            another process; None if it is not to be kept for one.
        twice: whether to compile it quickly first.

    Attributes:
        traced: it as JAX has it, for arguments of any shapes.
    """

    __slots__ = (
        "_about",
        "_always",
        "_best",
        "_born",
        "_donated",
        "_file",
        "_good",
        "_left",
        "_lock",
        "_options",
        "_preparing",
        "_pure",
        "_ready",
        "traced",
    )

    def __init__(
        self,
        run: Callable,
        donated: str,
        small: bool = False,
        about: Any = None,
        twice: bool = True,
        large: bool = False,
    ):
        once = _at_once or not twice
        quickly = {} if once else quick_options(platform(), large)
        self._pure, self._donated = run, donated
        self._always = options_for(small)
        self._options = quickly | self._always
        self._trace(run)
        self._about = about
        self._file: Path | None = None
        self._preparing: threading.Thread | None = None
        self._ready, self._lock = False, threading.Lock()
        self._born = 0.0  # when it was first run
        self._left = HOT if quickly else 0  # runs until it is hot

    def _trace(self, run: Callable) -> None:
        """Have JAX trace `run` when it is called, and not what was traced before."""
        made = partial(jax.jit, run, donate_argnames=self._donated)
        self._good = made(compiler_options=self._always)
        twice = self._options != self._always
        self.traced = made(compiler_options=self._options) if twice else self._good
        self._best: Any = self.traced

    def __call__(self, *args: Any) -> Any:
        if self._left:
            self._left -= 1
            if not self._left:
                if time.monotonic() - self._born < OLD:
                    self._left = HOT
                else:
                    _improve_soon(self, args)
        if not self._born:
            with _compiling():
                self.wait()
                if not self._ready:
                    self._make_ready(jax.tree.map(shape_of, args))
                found = self._run(args)
            self._preparing = None
            stand_back()
            self._born = time.monotonic()
            return found
        return self._run(args)

    def _run(self, args: tuple[Any, ...]) -> Any:
        try:
            return self._best(*args)
        except TypeError:  # what was loaded is for some shapes and no others
            if self._best is self.traced or self._best is self._good:
                raise
            self._best = self.traced
            return self._best(*args)

    @property
    def is_new(self) -> bool:
        """Whether it was never run."""
        return not self._born

    def wait(self) -> None:
        """Until it is prepared, if it is being prepared."""
        if self._preparing is not None:
            self._preparing.join()

    def compile(
        self, *shapes: Any, meanwhile: Callable[[], None] | None = None
    ) -> None:
        """Compile it for arguments of these shapes, before they are there; or load it.

        What comes of it is kept with the function. It is traced here, and compiled in a
        thread where there is something to do `meanwhile`.
        """
        with _compiling():
            if meanwhile is not None:
                self.prepare(*shapes)
                meanwhile()
            self._make_ready(shapes)

    def _make_ready(self, shapes: Any) -> None:
        with self._lock:
            if self._ready:
                return
            self._start_one_by_one(shapes)
            self._load(shapes)
            if self._best is self.traced:
                try:
                    self._compile(self.traced, shapes, well=not self._left)
                except jax.errors.JaxRuntimeError:
                    self._trace(kernels.without(self._pure))
                    self._compile(self.traced, shapes, well=not self._left)
            self._ready = True

    def _start_one_by_one(self, shapes: Any) -> None:
        """Make no graph of kernels where loops or branches are in others.

        XLA 0.11 ends such loops too early in graphs.
        """
        rest = {k: v for k, v in self._options.items() if k not in _IN_ONE_GRAPH}
        if rest == self._options:
            return
        if kernels.branches_within(self.traced.trace(*shapes).jaxpr.jaxpr):
            self._always = self._options = rest
            self._trace(self._pure)

    def _load(self, shapes: Any) -> None:
        """Take what an earlier process has kept, if it has."""
        file = self._find(shapes)
        if file is not None:
            self._take(file)

    def _take(self, file: Path) -> bool:
        """Take the program in a file; False if there is none."""
        start = time.perf_counter()
        found = ahead.load(file)
        if found is None:
            return False
        self._best = found.program
        if found.well:
            self._left = 0
        note_loaded(time.perf_counter() - start)
        return True

    def _find(self, shapes: Any) -> Path | None:
        """The file of what an earlier process has kept, if there is one."""
        if self._about is not None:
            self._file = stored.find(self._about, shapes, self._options)
        if self._file is not None:
            ahead.note(self._file)
        exists = self._file is not None and self._file.exists()
        return self._file if exists else None

    def _compile(self, function: Any, shapes: Any, well: bool) -> None:
        """Compile it, and keep it for the next process; or take what has its text."""
        lowered, before, file = function.lower(*shapes), hits(), self._file
        options = [self._always] if well else [self._always, self._options]
        several = [] if file is None else stored.alike(file, lowered, options)
        found = next(filter(self._take, several), None)
        if found is None:
            program = lowered.compile()  # which is kept with the function
            self._best = function
            if several and hits() == before:
                found = several[-1]
                stored.keep(found, program, well)
        if file is not None and found is not None:
            stored.share(found, file)

    def prepare(self, *shapes: Any) -> None:
        """Compile it in a thread, for arguments of these shapes, if nobody has yet.

        It is traced and lowered here, and JAX keeps what comes of that: two threads
        that both run Python take longer than one after the other.
        """
        if not self._born and self._preparing is None:
            with suppress(Exception):  # which is raised when it is run
                if self._find(shapes) is None:
                    self.traced.lower(*shapes)
            self._preparing = threading.Thread(
                target=_prepare, args=(self, shapes), name="dynetjax-preparing"
            )
            self._preparing.start()

    def improve(self, shapes: Any) -> None:
        """Compile it well for arguments of these shapes, and use that from now on."""
        self._compile(self._good, shapes, well=True)
        give_back()


def _prepare(function: Compiled, shapes: Any) -> None:
    with suppress(Exception):  # which is raised when it is run
        function._make_ready(shapes)


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


def _improve_soon(compiled: Compiled, args: Any) -> None:
    """Hand a program to the thread, which is started if there is none."""
    global _thread
    with _lock:
        _waiting.append((compiled, jax.tree.map(shape_of, args)))
        if _thread is None:
            _thread = threading.Thread(target=_improve_all, name="dynetjax-compiling")
            _thread.start()


def shape_of(x: Any) -> jax.ShapeDtypeStruct:
    """What a function is compiled for of an argument."""
    found = jax.typeof(x)
    return jax.ShapeDtypeStruct(found.shape, found.dtype, weak_type=found.weak_type)


@beside_the_runs()
def _improve_all() -> None:
    """Compile what waits, until nothing does or the program has come to its end."""
    global _thread
    if sys.platform == "linux":
        os.setpriority(os.PRIO_PROCESS, threading.get_native_id(), NICE)
    while True:
        with _lock:
            if not _waiting or not threading.main_thread().is_alive():
                _thread = None
                return
            compiled, shapes = _waiting.popleft()
        try:
            compiled.improve(shapes)
        except Exception:  # it runs as it did
            continue
        count(improved=1)
