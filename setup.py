"""Compiles the executor, and with mypyc the modules that every node passes through.

Without a C compiler there is no executor, and these modules stay Python; without mypyc
the modules alone do. DYNETJAX_NATIVE=0 leaves it so in any case, 1 fails where they
cannot be compiled. An editable install compiles only if it is 1, for what is compiled
does not follow its source.
"""

import ast
import json
import os
import re
import sys
from contextlib import suppress
from pathlib import Path

from setuptools import Extension, setup
from setuptools.command.build_ext import build_ext

MODULES = [
    "dynetjax/core/registry.py",
    "dynetjax/core/rules.py",
    "dynetjax/core/expression.py",
    "dynetjax/core/nodes.py",
    "dynetjax/graph.py",
    "dynetjax/core/building.py",
    "dynetjax/ops/arguments.py",
    "dynetjax/ops/operands.py",
    "dynetjax/ops/steps.py",
    "dynetjax/ops/operators.py",
    "dynetjax/engine/state.py",
    "dynetjax/engine/native/part.py",
    "dynetjax/engine/parts.py",
    "dynetjax/engine/engine.py",
]
NATIVE = Path("dynetjax/engine/native/cpp")
FLAGS = ["-std=c++17", "-O3", "-fno-math-errno", "-fno-trapping-math"]
FLAGS += ["-fno-strict-aliasing", "-fvisibility=hidden"]
if os.name == "nt":
    FLAGS = ["/std:c++17", "/O2", "/EHsc"]
FLAGS += os.environ.get("DYNETJAX_CXXFLAGS", "").split()
BUILDS = {"bdist_wheel", "build", "build_ext", "install"}  # and not an sdist, say
ASKED = os.environ.get("DYNETJAX_NATIVE", "")


def extensions():
    """What setuptools is to compile."""
    builds = BUILDS | {"editable_wheel"} if ASKED == "1" else BUILDS
    if ASKED == "0" or builds.isdisjoint(sys.argv):
        return []
    return [executor(), *modules()]


def modules():
    """The modules that mypyc translates; none where there is no mypyc."""
    try:
        from mypyc.build import mypycify

        alone = ["--no-site-packages", "--ignore-missing-imports"]
        alone += ["--follow-imports=skip"]
        found = mypycify(
            [*alone, "dynetjax/native.py", *MODULES],
            only_compile_paths=MODULES,
            group_name="dynetjax.native",
        )
        document(found)
    except (Exception, SystemExit):
        if ASKED == "1":
            raise
        return []
    return found


def executor():
    """The C++ that runs byte code."""
    return Extension(
        "dynetjax.engine.native.core",
        sorted(map(str, NATIVE.glob("*.cpp"))),
        depends=sorted(map(str, [*NATIVE.glob("*.h"), *NATIVE.glob("*.inc")])),
        extra_compile_args=FLAGS,
        extra_link_args=os.environ.get("DYNETJAX_LDFLAGS", "").split(),
        language="c++",
    )


def document(found):
    """Put docstrings into the C that mypyc wrote, for `help`: it leaves them out."""
    documented = dict(docstrings())

    def with_docstring(entry):
        text = json.dumps(documented.get(entry["name"], ""), ensure_ascii=False)
        return entry[0] + text[1:-1]

    signature = r'PyDoc_STR\("[^"]*'  # where Python takes it from, before the text
    function = rf"\bCPyPy_(?P<name>\w+),\s+METH_[A-Z_ |]+, {signature}"
    kind = rf"\bCPyType_(?P<name>\w+)_template_ = {{[^}}]*\.tp_doc = {signature}"
    for path in {Path(source) for extension in found for source in extension.sources}:
        code = path.read_text(encoding="utf-8")
        for pattern in function, kind:
            code = re.sub(pattern, with_docstring, code)
        path.write_text(code, encoding="utf-8")


def docstrings():
    """(mypyc's name, text) of each class and function that has a docstring."""
    for module in MODULES:
        path = Path(module)
        for node in ast.parse(path.read_text(encoding="utf-8")).body:
            for part in [node, *(node.body if isinstance(node, ast.ClassDef) else ())]:
                if isinstance(part, ast.ClassDef | ast.FunctionDef):
                    owner = [] if part is node else [node.name]
                    name = "___".join([path.stem, *owner, part.name])
                    yield name, ast.get_docstring(part) or ""


class ExecutorAndModules(build_ext):
    """Compiles the executor, and every module or none: each needs what all share."""

    def build_extensions(self):
        first, rest = self.extensions[:1], self.extensions[1:]
        built = [*self.compiled(first), *self.compiled(rest)]
        self.extensions = self.distribution.ext_modules = built

    def compiled(self, extensions):
        """All of them, or none where one cannot be compiled."""
        self.extensions = extensions
        try:
            super().build_extensions()
        except Exception as error:
            if ASKED == "1":
                raise
            self.warn(f"not compiled: {[e.name for e in extensions]}: {error}")
            for extension in extensions:
                with suppress(OSError):
                    os.remove(self.get_ext_fullpath(extension.name))
            return []
        return extensions


setup(ext_modules=extensions(), cmdclass={"build_ext": ExecutorAndModules})
