"""Compiles the modules that every node passes through with mypyc, where that works.

Without a C compiler, they stay Python. DYNETJAX_NATIVE=0 leaves them so in any case, 1
fails where they cannot be compiled. An editable install compiles only if it is 1, for
what is compiled does not follow its source.
"""

import os
import sys
from contextlib import suppress

from setuptools import setup
from setuptools.command.build_ext import build_ext

MODULES = [
    "dynetjax/ops/registry.py",
    "dynetjax/ops/rules.py",
    "dynetjax/expression.py",
    "dynetjax/nodes.py",
    "dynetjax/graph.py",
    "dynetjax/ops/building.py",
    "dynetjax/ops/steps.py",
    "dynetjax/ops/operators.py",
    "dynetjax/engine/tiling.py",
]
BUILDS = {"bdist_wheel", "build", "build_ext", "install"}  # and not an sdist, say
ASKED = os.environ.get("DYNETJAX_NATIVE", "")


def extensions():
    """What setuptools is to compile."""
    builds = BUILDS | {"editable_wheel"} if ASKED == "1" else BUILDS
    if ASKED == "0" or builds.isdisjoint(sys.argv):
        return []
    try:
        from mypyc.build import mypycify

        alone = ["--no-site-packages", "--ignore-missing-imports"]
        alone += ["--follow-imports=skip"]
        return mypycify(
            [*alone, "dynetjax/native.py", *MODULES],
            only_compile_paths=MODULES,
            group_name="dynetjax.native",
        )
    except (Exception, SystemExit):
        if ASKED == "1":
            raise
        return []


class AllOrNothing(build_ext):
    """Compiles every module or none: each needs what all of them share."""

    def run(self):
        try:
            super().run()
        except Exception as error:
            if ASKED == "1":
                raise
            self.warn(f"nothing is compiled: {error}")
            for extension in self.extensions:
                with suppress(OSError):
                    os.remove(self.get_ext_fullpath(extension.name))
            self.extensions = self.distribution.ext_modules = []


setup(ext_modules=extensions(), cmdclass={"build_ext": AllOrNothing})
