"""The classes that a ``.meta`` file may name, and by what names.

Builders go by the names they have in DyNet's extension module, ``_dynet``, so that
DyNet reads our files. Nothing is imported for a name, and no code runs to find it.

A program's own modules are ``__main__`` and the imported ones whose files lie beneath
the folder of the main program or the current one. Python's library, what pip installs
and dynetjax are nobody's own, wherever they lie.
"""

import hashlib
import hmac
import importlib
import inspect
import io
import operator
import os
import pickle
import sys
import sysconfig
from collections.abc import Iterable
from multiprocessing.process import current_process
from pathlib import Path
from types import ModuleType
from typing import Any

from dynetjax.core.errors import error_text
from dynetjax.io.meta import CONTAINERS, FACTORIES, PROTOCOL, dumps
from dynetjax.model.collection import ParameterCollection
from dynetjax.model.lookup import LookupParameters
from dynetjax.model.parameters import Parameters

_DYNET = "_dynet"
_DYNETS = (_DYNET, "_gdynet", "dynet", "dynetjax")
_BUILDERS, _OPERATIONS = "dynetjax.builders.", "dynetjax.ops."
# What DyNet's Python release 2.1 calls so; its coupled one is CoupledLSTMBuilder.
_ALIASES = {"LSTMBuilder": "VanillaLSTMBuilder"}
_PLAIN = {(k.__module__, k.__qualname__): k for k in (*CONTAINERS, *FACTORIES)}
_LIBRARIES = [
    *(os.path.realpath(sysconfig.get_path(name)) for name in ("stdlib", "platstdlib")),
    os.path.dirname(os.path.dirname(os.path.realpath(__file__))),  # dynetjax
]
_SIGNED = pickle.SHORT_BINBYTES + bytes([hashlib.sha256().digest_size])
_START = len(pickle.PROTO) + 1  # where the first opcode is that says anything
_INSTALLED = {"site-packages", "dist-packages"}


def name_of(thing: Any, name: str | None = None) -> tuple[str, str]:
    """The module and the qualified name to write for a class or a function.

    Args:
        thing: the class or the function.
        name: its name, if it does not tell it.
    Raises:
        pickle.PicklingError: it is not found under them when the file is loaded; or it
            is the class of parameters or of collections.
    """
    name = name or getattr(thing, "__qualname__", None) or thing.__name__
    if _of_dynet(name) is thing:
        return _DYNET, name
    module = pickle.whichmodule(thing, name)  # type: ignore[attr-defined]
    if _found(module, name) is not thing or _has_parameters(thing):
        raise pickle.PicklingError(
            error_text(
                "save: a class or a function cannot be found by its name",
                got=f"{module}.{name}",
                expected="a builder, or what is at the top level of a module or in a"
                " class, and does not hold parameters",
                fix="move it out of the function that makes it; keep collections and"
                " parameters out of spec",
            )
        )
    return module, name


def _found(module: str, name: str) -> Any:
    """What `pickle` finds under a name; None if it finds nothing."""
    try:
        return operator.attrgetter(name)(importlib.import_module(module))
    except (ImportError, AttributeError, ValueError):
        return None


def _has_parameters(thing: Any) -> bool:
    kinds = ParameterCollection, Parameters, LookupParameters
    return isinstance(thing, type) and issubclass(thing, kinds)


def find_class(module: str, name: str) -> Any:
    """What has these names: a builder, an operation, or a class that can be saved.

    The class is imported already.

    Raises:
        pickle.UnpicklingError: there is none.
    """
    cls = _search(module, name)
    if cls is None:
        raise pickle.UnpicklingError(
            error_text(
                "load: the file names a class that is not known",
                got=f"{module}.{name}",
                expected="a builder, a class with from_spec and param_collection whose"
                " module is imported, or one of the program's own modules",
                fix=f"update dynetjax, if DyNet has {name}"
                if module in _DYNETS
                else f"import {module} before, if it is yours;"
                " dy.load(..., trust=True), if you know who wrote the file",
            )
        )
    return cls


def find_part(module: str, name: str) -> Any:
    """A class that a spec may name or have objects of.

    Builders, operations, classes that can be saved, the program's own ones, and what
    Python counts and collects with.

    Raises:
        pickle.UnpicklingError: there is none.
    """
    if (module, name) in _PLAIN:
        return _PLAIN[module, name]
    cls = _at(module, name)
    # What a module has only imported goes by its own module.
    if cls and _scope(cls).get("__module__") == module and is_own(cls):
        return cls
    return find_class(module, name)


def pickled(values: Iterable[Any]) -> bytes:
    """Pickles that this process, and those that it starts, can tell for their own.

    If they name more than DyNet has, a signature stands in the first one, where every
    unpickler passes over it.

    Raises:
        pickle.PicklingError: see `dumps` and `name_of`.
    """
    modules = set()

    def noted(thing: Any, name: str | None) -> tuple[str, str]:
        found = name_of(thing, name)
        modules.add(found[0])
        return found

    values = list(values)
    try:
        data = b"".join([dumps(value, noted) for value in values])
    except RecursionError:
        return _with_signature(b"".join(map(_deep, values)))
    return _with_signature(data) if modules - {_DYNET} else data


def _deep(value: Any) -> bytes:
    """A pickle by C, which goes deeper, and names our classes as they are here."""
    try:
        return pickle.dumps(value, PROTOCOL)
    except RecursionError as error:
        raise pickle.PicklingError(
            error_text(
                "save: spec is too deep",
                got=error,
                expected=f"what pickle can save: {sys.getrecursionlimit()} calls deep",
                fix="sys.setrecursionlimit, or a flat spec, made deep in from_spec",
            )
        ) from error


def is_signed(data: bytes) -> bool:
    """Whether this process, or one that it was started by, has made them."""
    rest = data[:_START] + data[len(_with_signature(b"")) + _START :]
    return hmac.compare_digest(data, _with_signature(rest))


def _with_signature(data: bytes) -> bytes:
    signature = _SIGNED + _signature(data) + pickle.POP
    return data[:_START] + signature + data[_START:]


def _signature(data: bytes) -> bytes:
    # The key is random, never leaves the process, and is passed on to workers.
    key = b"dynetjax" + bytes(current_process().authkey)
    return hmac.digest(key, data, "sha256")


def unpickle_all(data: bytes) -> list[Any]:
    """The values of trusted pickles, one after the other: whatever they call is called.

    Names are those of `find_class`, where DyNet has them.

    Raises:
        pickle.UnpicklingError: they are damaged, or what they need cannot be imported.
    """
    stream, values = io.BytesIO(data), []
    try:
        while stream.tell() < len(data):
            values.append(_Unpickler(stream).load())
    except Exception as error:  # that of any code
        raise pickle.UnpicklingError(
            error_text(
                "load: the pickle is damaged, or cannot be made again here",
                got=f"{type(error).__name__}: {error}",
                expected="what save has written, and the modules that it needs",
                fix="install or import what is missing, or save the model again",
            )
        ) from error
    return values


class _Unpickler(pickle.Unpickler):
    def find_class(self, module_name: str, global_name: str, /) -> Any:
        if module_name in _DYNETS:
            return find_class(module_name, global_name)
        return super().find_class(module_name, global_name)


def can_be_saved(kind: Any) -> bool:
    """Whether it is a class with what `save` asks for."""
    return _has(kind, "param_collection") and _has(kind, "from_spec")


def is_own(kind: type[Any]) -> bool:
    """Whether a module of the program itself defines a class."""
    module = sys.modules.get(_scope(kind).get("__module__", ""))
    if not isinstance(module, ModuleType):
        return False
    main = sys.modules["__main__"]
    if module is main:
        return True
    file = vars(module).get("__file__")
    if not isinstance(file, str):
        return False
    path = Path(os.path.realpath(file))
    start = os.path.realpath(vars(main).get("__file__") or "main")
    return (
        any(map(path.is_relative_to, (os.path.dirname(start), os.getcwd())))
        and not any(map(path.is_relative_to, _LIBRARIES))
        and _INSTALLED.isdisjoint(path.parts)
    )


def _is_dynets(module: str) -> bool:
    return module.partition(".")[0] in _DYNETS


def _search(module: str, name: str) -> Any:
    if _is_dynets(module):
        return _of_dynet(_ALIASES.get(name, name))
    cls = _at(module, name)
    return cls if can_be_saved(cls) else None


def _of_dynet(name: str) -> Any:
    """The builder or the operation of a name."""
    value = vars(sys.modules["dynetjax"]).get(name)
    if callable(value) and not isinstance(value, type):
        return value if value.__module__.startswith(_OPERATIONS) else None
    return _builder(name)


def _builder(name: str) -> type[Any] | None:
    for module_name, module in list(sys.modules.items()):
        if module_name.startswith(_BUILDERS):
            cls = vars(module).get(name)
            if _has(cls, "param_collection") and cls.__module__ in (
                module_name,
                _DYNET,  # as in programs that import dynet
            ):
                return cls
    return None


def _at(module_name: str, name: str) -> type[Any] | None:
    """The class in a module; only what is a class is looked into."""
    module = sys.modules.get(module_name)
    if not isinstance(module, ModuleType):
        return None
    value = None
    scope = vars(module)
    for part in name.split("."):
        value = scope.get(part)
        if not isinstance(value, type):
            return None
        scope = _scope(value)
    return value


def _scope(kind: type[Any]) -> Any:
    """What a class defines, whatever its metaclass says."""
    return type.__dict__["__dict__"].__get__(kind)


def _has(value: object, name: str) -> bool:
    """Whether it is a class with this attribute."""
    if not isinstance(value, type):
        return False
    return inspect.getattr_static(value, name, None) is not None
