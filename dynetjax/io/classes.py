"""The classes that a ``.meta`` file may name, and by what names.

Builders go by the names they have in DyNet's extension module, ``_dynet``, so that
DyNet reads our files. Nothing is imported for a name, and no code runs to find it.

A program's own modules are ``__main__`` and the imported ones whose files lie beneath
the folder of the main program or the current one. Python's library, what pip installs
and dynetjax are nobody's own, wherever they lie.
"""

import inspect
import io
import os
import pickle
import sys
import sysconfig
from pathlib import Path
from types import ModuleType
from typing import Any

from dynetjax.core.errors import error_text
from dynetjax.io.meta import CONTAINERS, FACTORIES

_DYNET = "_dynet"
_DYNETS = (_DYNET, "_gdynet", "dynet", "dynetjax")
_BUILDERS = "dynetjax.builders."
# What DyNet's Python release 2.1 calls so; its coupled one is CoupledLSTMBuilder.
_ALIASES = {"LSTMBuilder": "VanillaLSTMBuilder"}
_PLAIN = {(k.__module__, k.__qualname__): k for k in (*CONTAINERS, *FACTORIES)}
_LIBRARIES = [
    *(os.path.realpath(sysconfig.get_path(name)) for name in ("stdlib", "platstdlib")),
    os.path.dirname(os.path.dirname(os.path.realpath(__file__))),  # dynetjax
]
_INSTALLED = {"site-packages", "dist-packages"}


def name_of(kind: type[Any]) -> tuple[str, str]:
    """The module and the qualified name to write for a class.

    Raises:
        pickle.PicklingError: it is not found under them when the file is loaded.
    """
    if _builder(kind.__name__) is kind:
        module, name = _DYNET, kind.__name__
    else:
        module, name = kind.__module__, kind.__qualname__
    if (_builder(name) if _is_dynets(module) else _at(module, name)) is not kind:
        raise pickle.PicklingError(
            error_text(
                "save: a class cannot be found by its name",
                got=f"{kind.__module__}.{kind.__qualname__}",
                expected="a builder, or a class at the top level of a module or in"
                " another class",
                fix="move it out of the function that makes it; keep collections and"
                " parameters out of spec",
            )
        )
    return module, name


def find_class(module: str, name: str) -> type[Any]:
    """The class of these names: a builder, or one that can be saved and is imported.

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
                else f"import {module} before, if it is yours; trusted=True, if the"
                " file is",
            )
        )
    return cls


def find_part(module: str, name: str) -> type[Any]:
    """A class that a spec may name or have objects of.

    Builders, classes that can be saved, the program's own ones, and what Python counts
    and collects with.

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


def unpickle_all(data: bytes) -> list[Any]:
    """The values of trusted pickles, one after the other: whatever they call is called.

    Names are those of `find_class`, where DyNet has them.
    """
    stream, values = io.BytesIO(data), []
    while stream.tell() < len(data):
        values.append(_Unpickler(stream).load())
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


def _search(module: str, name: str) -> type[Any] | None:
    if _is_dynets(module):
        return _builder(_ALIASES.get(name, name))
    cls = _at(module, name)
    return cls if can_be_saved(cls) else None


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
