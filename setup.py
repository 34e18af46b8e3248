"""Compiles the C++ of the package."""

import os
import sys
from pathlib import Path

from setuptools import Extension, setup

CPP = Path("dynetjax/engine/native/cpp")
FLAGS = ["-std=c++17", "-O3", "-fno-math-errno", "-fno-trapping-math"]
FLAGS += ["-fno-strict-aliasing", "-fvisibility=hidden"]
FLAGS += os.environ.get("DYNETJAX_CXXFLAGS", "").split()

core = Extension(
    "dynetjax.engine.native.core",
    sorted(map(str, CPP.glob("*.cpp"))),
    depends=sorted(map(str, [*CPP.glob("*.h"), *CPP.glob("*.inc")])),
    extra_compile_args=FLAGS,
    extra_link_args=os.environ.get("DYNETJAX_LDFLAGS", "").split(),
    language="c++",
)

BUILDS = {"bdist_wheel", "build", "build_ext", "editable_wheel", "install"}
is_build = not BUILDS.isdisjoint(sys.argv)  # and not an sdist, say

setup(ext_modules=[core] if is_build else [])
