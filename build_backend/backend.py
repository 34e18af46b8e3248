"""Builds the package by setuptools, with a C++ compiler from PyPI where there is none.

The compiler is that of Zig, which pip brings for the time of the build.
"""

import contextlib
import os
import shlex
import shutil
import sys
import sysconfig
from collections.abc import Iterator

from setuptools import build_meta
from setuptools.build_meta import *  # noqa: F403  (hooks that stay as they are)

Settings = dict[str, str | list[str] | None] | None
BROUGHT = "ziglang>=0.13"
NAMES = "c++", "g++", "clang++"  # of compilers, as a system has them


def has_compiler() -> bool:
    """Whether setuptools finds a C++ compiler, or the user names one."""
    usual = sysconfig.get_config_var("CXX") or NAMES[0]
    return shutil.which(shlex.split(os.environ.get("CXX") or usual)[0]) is not None


def get_requires_for_build_wheel(config_settings: Settings = None) -> list[str]:
    needed = build_meta.get_requires_for_build_wheel(config_settings)
    return [*needed, *_brought()]


def get_requires_for_build_editable(config_settings: Settings = None) -> list[str]:
    needed = build_meta.get_requires_for_build_editable(config_settings)
    return [*needed, *_brought()]


def build_wheel(
    wheel_directory: str,
    config_settings: Settings = None,
    metadata_directory: str | None = None,
) -> str:
    with _compiler():
        return build_meta.build_wheel(
            wheel_directory, config_settings, metadata_directory
        )


def build_editable(
    wheel_directory: str,
    config_settings: Settings = None,
    metadata_directory: str | None = None,
) -> str:
    with _compiler():
        return build_meta.build_editable(
            wheel_directory, config_settings, metadata_directory
        )


def _other_compiler() -> str | None:
    """A compiler of the system that has another name than setuptools looks for."""
    return next((name for name in NAMES if shutil.which(name)), None)


def _brought() -> list[str]:
    return [] if has_compiler() or _other_compiler() else [BROUGHT]


@contextlib.contextmanager
def _compiler() -> Iterator[None]:
    """A context in which setuptools has a compiler."""
    chosen = {}
    if not has_compiler():
        other = _other_compiler()
        brought = f"{shlex.quote(sys.executable)} -m ziglang "
        names = (other, other) if other else (brought + "cc", brought + "c++")
        chosen = dict(zip(("CC", "CXX"), names, strict=True))
    before = {name: os.environ.get(name) for name in chosen}
    os.environ.update(chosen)
    try:
        yield
    finally:
        for name, value in before.items():
            if value is None:
                del os.environ[name]
            else:
                os.environ[name] = value
