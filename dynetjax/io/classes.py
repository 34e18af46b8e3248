"""The classes that a ``.meta`` file may name, and by what names.

Builders go by the names they have in DyNet's extension module, ``_dynet``, so that
DyNet reads our files. Nothing is imported for a name, and no code runs to find it.
"""

import inspect
import pickle
import sys
from types import ModuleType

from dynetjax.errors import explain

_DYNET = "_dynet"
_DYNETS = (_DYNET, "_gdynet", "dynet", "dynetjax")
_BUILDERS = "dynetjax.builders."
# What DyNet's Python release 2.1 calls so; its coupled one is CoupledLSTMBuilder.
_ALIASES = {"LSTMBuilder": "VanillaLSTMBuilder"}


def name_of(kind: type) -> tuple[str, str]:
    """The module and the qualified name to write for a class.

    Raises:
        pickle.PicklingError: it is not found under them when the file is loaded.
    """
    if _builder(kind.__name__) is kind:
        module, name = _DYNET, kind.__name__
    else:
        module, name = kind.__module__, kind.__qualname__
    if _search(module, name) is not kind:
        raise pickle.PicklingError(
            explain(
                "save: a class cannot be found by its name",
                got=f"{kind.__module__}.{kind.__qualname__}",
                expected="a class at the top level of a module, or in another class,"
                " with from_spec and param_collection",
                fix="move it out of the function that makes it",
            )
        )
    return module, name


def find_class(module: str, name: str) -> type:
    """The class of these names: a builder, or one that can be saved and is imported.

    Raises:
        pickle.UnpicklingError: there is none.
    """
    found = _search(module, name)
    if found is None:
        raise pickle.UnpicklingError(
            explain(
                "load: the file names a class that is not known",
                got=f"{module}.{name}",
                expected="a builder, or a class with from_spec and param_collection"
                " whose module is imported",
                fix=f"update dynetjax, if DyNet has {name}"
                if module in _DYNETS
                else f"import {module} before, if you know it and trust the file",
            )
        )
    return found


def _search(module: str, name: str) -> type | None:
    if module.partition(".")[0] in _DYNETS:
        return _builder(_ALIASES.get(name, name))
    return _users(sys.modules.get(module), name)


def _builder(name: str) -> type | None:
    for module_name, module in list(sys.modules.items()):
        if module_name.startswith(_BUILDERS):
            found = vars(module).get(name)
            if _has(found, "param_collection") and found.__module__ in (
                module_name,
                _DYNET,  # as in programs that import dynet
            ):
                return found
    return None


def _users(module: ModuleType | None, name: str) -> type | None:
    """The class in a module; only what is a class is looked into."""
    if not isinstance(module, ModuleType):
        return None
    found = None
    scope = vars(module)
    for part in name.split("."):
        found = scope.get(part)
        if not isinstance(found, type):
            return None
        scope = type.__dict__["__dict__"].__get__(found)
    return (
        found if _has(found, "param_collection") and _has(found, "from_spec") else None
    )


def _has(found: object, name: str) -> bool:
    """Whether it is a class with this attribute."""
    if not isinstance(found, type):
        return False
    return inspect.getattr_static(found, name, None) is not None
