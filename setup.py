"""Compiles the executor, and with mypyc the modules that every node passes through.

The executor is needed. The modules stay Python where mypyc does not work, and in an
editable install: what is compiled does not follow its source.
"""

import ast
import json
import os
import re
import sys
from pathlib import Path

from setuptools import Extension, setup

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
FLAGS += os.environ.get("DYNETJAX_CXXFLAGS", "").split()


def modules():
    """The modules that mypyc translates; none where it does not work."""
    if {"editable_wheel", "develop"} & {*sys.argv}:
        return []
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
    except (Exception, SystemExit) as error:
        print(f"mypyc does not work, and graphs are built by Python: {error}")
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


BUILDS = {"bdist_wheel", "build", "build_ext", "editable_wheel", "install"}
is_build = not BUILDS.isdisjoint(sys.argv)  # and not an sdist, say

setup(ext_modules=[executor(), *modules()] if is_build else [])
