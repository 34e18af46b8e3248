"""DyNet's own module names, answered from here: programs run as they stand.

    import dynetjax.dropin  # before the first `import dynet`
    import dynet as dy

From then on ``dynet``, ``_dynet``, ``dynet_config`` and ``dynet_viz`` are modules of
dynetjax, even if a DyNet is installed. ``python -m dynetjax program.py`` does it for a
whole program. Under these names `LSTMBuilder` is what it is in release 2.1,
`VanillaLSTMBuilder`.

An update whose gradient is not finite raises at its own line, as in DyNet, unless
``init(async_checks=True)`` says otherwise.

Importing ``dynet`` reads dynet_config or the command line, and tells of it on stderr.
Importing ``_dynet`` leaves that to the program, which calls ``init()``.
"""

import builtins
import importlib
import importlib.abc
import importlib.machinery
import inspect
import os
import pickle
import sys
from collections.abc import Callable, Sequence
from functools import partial
from types import ModuleType
from typing import Any

import numpy as np

import dynetjax
from dynetjax.compat import old_api, startup
from dynetjax.compat.hints import no_name
from dynetjax.compat.options import parse
from dynetjax.compat.spawned import begin_spawned_with
from dynetjax.core.expression import be_objects_in_arrays
from dynetjax.inspect import drawing
from dynetjax.trainers.base import check_at_once_by_default

_CONFIG, _GPU = "__DYNET_CONFIG", "__DYNET_GPU"  # in builtins, as in DyNet
_VERSION = "2.1"
_TRAINERS = (
    "SimpleSGDTrainer",
    "CyclicalSGDTrainer",
    "MomentumSGDTrainer",
    "AdagradTrainer",
    "AdadeltaTrainer",
    "RMSPropTrainer",
    "AdamTrainer",
    "AmsgradTrainer",
)
# ``from dynet import *`` gives these, too.
_IMPORTED = {"np": np, "os": os, "pickle": pickle, "sys": sys}


def install() -> None:
    """Let DyNet's names mean the modules below, from the next import on."""
    if not any(isinstance(finder, _Finder) for finder in sys.meta_path):
        sys.meta_path.insert(0, _Finder())
        begin_spawned_with(_begin_spawned)
        old_api.install(getattr(dynetjax, name) for name in _TRAINERS)
        for name, value in (vars(dynetjax) | _RENEWED).items():
            home = getattr(value, "__module__", "")
            if home.startswith("dynetjax.") and not name.startswith("_"):
                # Pickles say where it is found, and programs look for "_dynet." in
                # str(type(x)).
                value.__module__ = "_dynet"


def public_names() -> set[str]:
    """The names that programs may use of ``dynet``."""
    return {name for name in _names() if not name.startswith("_")}


def keywords_of(name: str) -> list[str]:
    """The keywords that something of this name takes."""
    called = _names().get(name)
    return list(inspect.signature(called).parameters) if callable(called) else []


def _begin_spawned(data: dict[str, Any]) -> dict[str, Any]:
    """Nothing is left to do where this module was imported to call it."""
    return data


class _Finder(importlib.abc.MetaPathFinder):
    def find_spec(
        self, fullname: str, path: Any = None, target: Any = None
    ) -> importlib.machinery.ModuleSpec | None:
        if fullname not in _MODULES:
            return None
        return importlib.machinery.ModuleSpec(fullname, _Loader(), origin=__name__)


class _Loader(importlib.abc.Loader):
    def exec_module(self, module: ModuleType) -> None:
        _MODULES[module.__name__](module)
        if module.__name__ != "dynet_config":
            vars(module)["__getattr__"] = partial(_no_attribute, module.__name__)


def _no_attribute(module: str, name: str) -> Any:
    raise no_name(module, name)


def _names() -> dict[str, Any]:
    """The public names of the package as release 2.1 has them."""
    names = {n: v for n, v in vars(dynetjax).items() if not n.startswith("_")}
    names |= _IMPORTED
    names["dynet_config"] = importlib.import_module("dynet_config")
    names |= {
        "LSTMBuilder": dynetjax.VanillaLSTMBuilder,
        "__version__": _VERSION,
        "__gitversion__": "",
        "HAVE_CUDA": False,
    }
    return names | _RENEWED


def _fill_dynet(module: ModuleType) -> None:
    vars(module).update(_names(), __file__=dynetjax.__file__)
    conf = _get()
    if conf is None:
        options = parse(sys.argv)
    else:
        params = DynetParams()
        params.from_config(conf)
        options = params.options
        options.trust = "--dynet-trust" in sys.argv  # which dynet_config has not got
    if options.viz:
        sys.argv[:] = [word for word in sys.argv if word != "--dynet-viz"]
        drawing.compute_nothing()
    else:
        _start(options)


def _fill_extension(module: ModuleType) -> None:
    vars(module).update(_names(), __file__=dynetjax.__file__)


def _fill_viz(module: ModuleType) -> None:
    vars(module).update(_names())
    drawing.compute_nothing()


def _fill_config(module: ModuleType) -> None:
    module.__doc__ = "Settings to be made before DyNet is imported."
    vars(module).update(set=_set, set_gpu=_set_gpu, gpu=_gpu, get=_get)


_MODULES: dict[str, Callable[[ModuleType], None]] = {
    "dynet": _fill_dynet,
    "_dynet": _fill_extension,
    "dynet_config": _fill_config,
    "dynet_viz": _fill_viz,
}
_started = False


def _start(options: Any) -> None:
    """Let settings hold, once."""
    global _started
    if _started:
        print(
            "WARNING: Attempting to initialize dynet twice. Ignoring.", file=sys.stderr
        )
        return
    _started = True
    check_at_once_by_default()
    be_objects_in_arrays()
    startup.apply(options, tell=True)


def init(shared_parameters: bool | None = None) -> None:
    """Read the command line, and let it hold."""
    params = DynetParams()
    params.from_args(shared_parameters)
    _start(params.options)


class DynetParams(startup.DynetParams):
    """DynetParams, whose `init` works once."""

    def init(self) -> None:
        """Let these settings hold, unless others do."""
        _start(self.options)


def init_from_params(params: startup.DynetParams) -> None:
    """The same as ``params.init()``."""
    params.init()


_RENEWED = {
    "DynetParams": DynetParams,
    "Saveable": old_api.Saveable,
    "init": init,
    "init_from_params": init_from_params,
}


def _set(
    mem: Any = "512",
    random_seed: int = 0,
    autobatch: int = 0,
    profiling: int = 0,
    weight_decay: float = 0,
    shared_parameters: Any = 0,
    requested_gpus: int = 0,
    gpu_mask: Sequence[int] | None = None,
) -> None:
    """Choose settings; what is not given goes back to what it is at first.

    The command line counts no more. After DyNet was imported nothing changes.
    """
    conf = {
        "mem": mem,
        "seed": random_seed,
        "autobatch": autobatch,
        "profiling": profiling,
        "weight_decay": weight_decay,
        "shared_params": shared_parameters,
        "requested_gpus": requested_gpus,
        "gpu_mask": list(gpu_mask or ()),
    }
    setattr(builtins, _CONFIG, conf)


def _set_gpu(flag: bool = True) -> None:
    """Ask for a GPU; whatever the flag, as in DyNet."""
    setattr(builtins, _GPU, flag)
    if _get() is None:
        _set(requested_gpus=1)
    else:
        _get()["requested_gpus"] = 1


def _gpu() -> bool | None:
    """The flag of `set_gpu`, or None."""
    return getattr(builtins, _GPU, None)


def _get() -> Any:
    """All settings as a dict, or None if there are none."""
    return getattr(builtins, _CONFIG, None)


install()
