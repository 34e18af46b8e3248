"""Letting settings hold when a program starts, and telling of them as DyNet does."""

import logging
import os
import sys
import warnings
from collections.abc import Callable, Iterable
from typing import Any, NoReturn

from dynetjax.compat.options import (
    AUTO,
    Options,
    decay,
    memory,
    parse,
    strategy,
    whole,
    wrong,
)
from dynetjax.config import init
from dynetjax.core.devices import HOST, devices_beside
from dynetjax.core.errors import error_text
from dynetjax.core.expression import use_engine
from dynetjax.core.group import PROCESS
from dynetjax.core.lazy import RUNS, jax
from dynetjax.core.precision import EXACT
from dynetjax.core.reprs import attributes, call_text
from dynetjax.engine import policy
from dynetjax.engine.runtime import RUNTIME
from dynetjax.io.pair import trust_by_default
from dynetjax.model.collection import decay_by_default
from dynetjax.model.random import new_seed, reset_random_seed

_log = logging.getLogger("dynetjax")


def apply(options: Options, *, tell: bool = False) -> None:
    """Let these settings hold.

    Args:
        options: the settings.
        tell: write what DyNet writes to stderr when it starts.
    Raises:
        RuntimeError: a device was named that is not there, or memory was to be shared
            among processes.
    """
    if options.shared_parameters:
        raise _no_sharing()
    _choose_device(options)
    if options.precision != EXACT:
        init(precision=options.precision)
    if options.seed or tell:
        seed = options.seed or PROCESS.seed or new_seed()
        reset_random_seed(seed)
        _tell(tell, f"random seed: {seed}")
    if options.autobatch:
        _tell(tell, "using autobatching")
        _log.debug("--dynet-autobatch: nodes are computed together in any case")
    if options.profiling:
        _tell(tell, f"using profiling level {options.profiling}")
        init(profiling=options.profiling)
    if options.trust:
        trust_by_default()
    decay_by_default(options.weight_decay)
    _log.debug("--dynet-mem %s: memory is taken as it is needed", options.mem)
    _tell(tell, f"allocating memory: {options.mem}MB")
    _tell(tell, "memory allocation done.")


def _tell(tell: bool, message: str) -> None:
    if tell and PROCESS.rank == 0:
        print(f"[dynet] {message}", file=sys.stderr)


def _choose_device(options: Options) -> None:
    """Compute where it was asked for, or on the CPU with a warning.

    Where nothing was, what pays goes to the device that JAX finds.
    """
    if options.devices == (AUTO,):
        return
    named = [name for name in options.devices if name != HOST]
    if not (named or options.requested_gpus or options.devices):
        return
    gpus = {name: d for name, d in devices_beside().items() if d.platform == "gpu"}
    missing = [name for name in named if name not in gpus]
    if missing:
        raise RuntimeError(
            error_text(
                "--dynet-devices: there is no such device",
                got=", ".join(missing),
                expected=", ".join([HOST, *gpus]),
                fix="ask for one of these",
            )
        )
    RUNTIME.device_named = bool(named or (options.requested_gpus and gpus))
    if named:
        jax.config.update("jax_default_device", gpus[named[0]])
    elif options.devices:
        jax.config.update("jax_default_device", jax.devices("cpu")[0])
    elif not gpus:
        warnings.warn(
            error_text(
                "a GPU was asked for, and there is none",
                got=f"JAX sees {', '.join(str(d) for d in jax.devices())}",
                expected="pip install dynetjax[cuda], and a GPU with its driver",
                fix="nothing, if the CPU will do: it is used",
            ),
            RuntimeWarning,
            stacklevel=2,
        )


def _no_sharing() -> RuntimeError:
    return RuntimeError(
        error_text(
            "--dynet-shared-parameters: memory cannot be shared with forked processes",
            got="shared_parameters",
            expected="processes of dynetjax.parallel, which share parameters",
            fix="dynetjax.parallel.train(learner, data, trainer=trainer), or "
            "python -m dynetjax --processes N program.py",
        )
    )


class ForkedEngine:
    """What a forked process has for an engine where XLA computes.

    JAX does not survive a fork.
    """

    def values(self, *_: Any) -> NoReturn:
        """Raises RuntimeError."""
        RUNS.require()
        raise AssertionError("a process that was forked may not compute")

    backward: Callable[..., NoReturn] = values
    gradient: Callable[..., NoReturn] = values
    executor: Callable[..., NoReturn] = values
    new_state: Callable[..., NoReturn] = values


def _after_fork(computed: Any) -> None:
    if computed():
        RUNS.refuse()
        if policy.native():
            RUNTIME.tier = "native"
        else:
            use_engine(ForkedEngine())


def refuse_after_fork(computed: Any) -> None:
    """Have forked processes raise where XLA is to compute, instead of waiting for ever.

    Tier 0 computes in them as ever.

    Args:
        computed: whether anything was computed before the fork.
    """
    if hasattr(os, "register_at_fork"):
        os.register_at_fork(after_in_child=lambda: _after_fork(computed))


class DynetParams:
    """Settings that a program makes by itself, before `init`.

    It matters only in programs that call ``DynetParams().init()``; importing the
    package has read the command line already.

    Examples:
        >>> params = dy.DynetParams()
        >>> params.set_weight_decay(0.25)
        >>> params.init()
        >>> print(dy.ParameterCollection().get_weight_decay())
        0.25
        >>> dy.DynetParams().init()
        >>> print(dy.ParameterCollection().get_weight_decay())
        0.0
    """

    def __init__(self) -> None:
        self.options: Options = Options()

    def __repr__(self) -> str:
        return call_text(self, attributes(self.options))

    def from_args(
        self,
        shared_parameters: bool | None = None,
        words: Iterable[str] | None = None,
    ) -> None:
        """Take the settings of the command line.

        Args:
            shared_parameters: overrides what is there, unless None.
            words: the command line; that of the process if None.
        """
        self.options = parse(list(sys.argv if words is None else words))
        if shared_parameters is not None:
            self.options.shared_parameters = bool(shared_parameters)

    def from_config(self, conf: dict[str, Any]) -> None:
        """Take what ``dynet_config.get()`` returns.

        Raises:
            KeyError: a setting is missing.
            OverflowError: the seed is negative.
            ValueError: another value will not do.
        """
        self.set_mem(conf["mem"])
        self.set_random_seed(conf["seed"])
        self.set_autobatch(conf["autobatch"])
        self.set_profiling(conf["profiling"])
        self.set_weight_decay(conf["weight_decay"])
        self.set_shared_parameters(conf["shared_params"])
        self.set_requested_gpus(conf["requested_gpus"])
        self.set_gpu_mask(conf["gpu_mask"])

    def set_mem(self, mem: int | str) -> None:
        """How many MB to take; means nothing here."""
        self.options.mem = memory("set_mem", mem)

    def set_random_seed(self, random_seed: int) -> None:
        """The seed of random numbers; 0 for another one in every run.

        Raises:
            OverflowError: it is negative, or above 2**32 - 1.
        """
        number = whole()("set_random_seed", random_seed)
        if not 0 <= number < 2**32:
            raise OverflowError(
                error_text(
                    "set_random_seed: the seed is out of range",
                    got=number,
                    expected=f"0 to {2**32 - 1}",
                    fix="take it modulo 2**32",
                )
            )
        self.options.seed = number

    def set_autobatch(self, autobatch: Any) -> None:
        """DyNet's strategy of batching; means nothing here."""
        self.options.autobatch = strategy("set_autobatch", autobatch)

    def set_profiling(self, profiling: int) -> None:
        """See `dynetjax.init`."""
        self.options.profiling = whole(0, 2)("set_profiling", profiling)

    def set_weight_decay(self, weight_decay: float) -> None:
        """That of new collections."""
        self.options.weight_decay = decay("set_weight_decay", weight_decay)

    def set_shared_parameters(self, shared_parameters: bool) -> None:
        """Whether forked processes share parameters: they cannot."""
        self.options.shared_parameters = bool(shared_parameters)

    def set_requested_gpus(self, requested_gpus: int) -> None:
        """How many GPUs to use; one is enough for JAX."""
        self.options.requested_gpus = whole(0)("set_requested_gpus", requested_gpus)

    def set_gpu_mask(self, gpu_mask: Iterable[int] | None) -> None:
        """Which GPUs to use, a 0 or 1 for each.

        Raises:
            ValueError: there is another number.
        """
        mask = list(gpu_mask or ())
        if not {*mask} <= {0, 1}:
            raise wrong("set_gpu_mask", mask, "a list of 0 and 1", "[1]")
        self.options.devices = tuple(f"GPU:{k}" for k, on in enumerate(mask) if on)

    def set_cpu_mode(self) -> None:
        """Use no GPU."""
        self.options.requested_gpus, self.options.devices = 0, ("CPU",)

    def init(self) -> None:
        """Let these settings hold."""
        apply(self.options)
