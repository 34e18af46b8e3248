"""JAX and optax, imported when something of them is first used.

They take most of the time in which a process starts, and tier 0 computes without them.
So no other module imports them: a name here stands for a module, and looks up in it
what it is asked for. What is needed while a module is imported waits: a decorator for
the first call (`at_first_call`), what JAX is to be told for JAX (`with_jax`).
"""

import functools
import gc
import importlib
import sys
import threading
from collections.abc import Callable
from typing import TYPE_CHECKING, Any, Final, TypeVar, cast

import numpy as np

from dynetjax.core.errors import error_text
from dynetjax.core.uninterrupted import Uninterrupted

Made = TypeVar("Made")

_lock = threading.RLock()
_waiting: list[Callable[[], object]] = []


def is_jax_imported() -> bool:
    """Whether it is, by whomever."""
    return "jax" in sys.modules


def with_jax(set_up: Callable[[], object]) -> None:
    """Call `set_up` before this package first uses JAX; at once if JAX is imported."""
    with _lock:
        _waiting.append(set_up)
    if is_jax_imported():
        _set_up()


def _set_up() -> None:
    with _lock:
        while _waiting:
            _waiting.pop(0)()


@functools.cache
def _imported(name: str) -> Any:
    random = np.random.get_state()  # which JAX draws from while it is imported
    collecting = gc.isenabled()
    with Uninterrupted():  # half of JAX cannot be imported once more
        gc.disable()  # which would come by hundreds of times, and free next to nothing
        try:
            module = importlib.import_module(name)
            _set_up()
        finally:
            np.random.set_state(random)
            if collecting:
                gc.enable()
    return module


class Runs:
    """Whether this process may have JAX compute: one that was forked would hang.

    Tracing is no computing.
    """

    def __init__(self) -> None:
        self._are_safe = True

    def refuse(self) -> None:
        """From now on it may not."""
        self._are_safe = False

    def require(self) -> None:
        """See to it that it may.

        Raises:
            RuntimeError: the process was forked after a graph was computed.
        """
        if not self._are_safe:
            raise RuntimeError(
                error_text(
                    "computing by XLA in a forked process",
                    got="os.fork() after the first graph was computed",
                    expected="operations that have byte code, or a process of its own",
                    fix="multiprocessing.get_context('spawn'), or dynetjax.parallel",
                )
            )


RUNS: Final = Runs()


class Module:
    """Stands for a module: what is asked of it, or set in it, is the module's."""

    __slots__ = ("_name",)

    def __init__(self, name: str):
        object.__setattr__(self, "_name", name)

    def __getattr__(self, name: str) -> Any:
        return getattr(_imported(self._name), name)

    def __setattr__(self, name: str, value: Any) -> None:
        setattr(_imported(self._name), name, value)


if TYPE_CHECKING:
    import jax as jax
    import jax.extend.core as jax_core
    import jax.numpy as jnp
    import optax as optax
    from jax import lax as lax
else:
    jax = Module("jax")
    jax_core = Module("jax.extend.core")
    jnp = Module("jax.numpy")
    lax = Module("jax.lax")
    optax = Module("optax")


class _AtFirstCall:
    """A function that is transformed when it is first called."""

    def __init__(self, fn: Callable[..., Any], transform: Callable[..., Any]):
        functools.update_wrapper(self, fn)
        self._fn, self._transform = fn, transform
        self._rules: list[tuple[str, tuple[Any, ...]]] = []

    @functools.cached_property
    def _made(self) -> Any:
        made = self._transform(self._fn)
        for define, rules in self._rules:
            getattr(made, define)(*rules)
        return made

    def __call__(self, *args: Any, **named: Any) -> Any:
        return self._made(*args, **named)

    def defjvp(self, *rules: Callable[..., Any]) -> None:
        """Keep rules for `jax.custom_jvp.defjvp`, to pass on at the first call."""
        self._rules.append(("defjvp", rules))

    def defvjp(self, *rules: Callable[..., Any]) -> None:
        """Keep rules for `jax.custom_vjp.defvjp`, to pass on at the first call."""
        self._rules.append(("defvjp", rules))


def at_first_call(
    transform: Callable[[Callable[..., Any]], Made],
) -> Callable[[Callable[..., Any]], Made]:
    """Have JAX transform a function when it is first called.

        @at_first_call(lambda f: jax.jit(f, static_argnums=1))

    What `jax.custom_jvp` and `jax.custom_vjp` make takes its derivatives as usual.
    """
    return lambda fn: cast(Made, _AtFirstCall(fn, transform))
