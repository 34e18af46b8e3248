"""What a converted program means by operators, classes and imports."""

import ast
import os
from itertools import count
from typing import Any

from dynetjax.compat.python2.library import CHANGED, MADE
from dynetjax.compat.python2.names import CLASS_NAMES, NAMES

_HOME = "dynetjax.compat.python2"
_HELPERS = "__python2__"  # what the module `names` is called in a program
_COMPARED = {ast.Lt: "lt", ast.LtE: "le", ast.Gt: "gt", ast.GtE: "ge"}


def meaning_of_python_2(text: str, path: str, beside: str | None) -> ast.Module:
    """A program whose operators, classes and imports do what they did.

    Args:
        text: of the program, in the syntax of Python 3.
        path: of its file.
        beside: the folder of the package that it is in, whose modules come first; None
            if it is in none.
    """
    tree = ast.parse(text, path)
    start, futures = _beginning(tree)
    if "absolute_import" in futures:
        beside = None
    tree = _Python2("division" not in futures, beside).visit(tree)
    helpers = [ast.alias("names", _HELPERS)]
    names = [ast.alias(name) for name in NAMES]
    tree.body[start:start] = [
        ast.ImportFrom(_HOME, helpers, 0, lineno=1, col_offset=0),
        ast.ImportFrom(f"{_HOME}.names", names, 0, lineno=1, col_offset=0),
    ]
    return ast.fix_missing_locations(tree)


def _beginning(tree: ast.Module) -> tuple[int, set[str]]:
    """After how many statements others may come, and what the __future__ brings."""
    futures: set[str] = set()
    start = int(ast.get_docstring(tree, clean=False) is not None)
    for node in tree.body[start:]:
        if not isinstance(node, ast.ImportFrom) or node.module != "__future__":
            break
        start += 1
        futures.update(alias.name for alias in node.names)
    return start, futures


class _Python2(ast.NodeTransformer):
    """Puts calls of helpers in the place of what has another meaning in Python 3."""

    def __init__(self, divides_whole: bool, beside: str | None):
        self._divides_whole, self._beside = divides_whole, beside
        self._numbers = count()

    def visit(self, node: ast.AST) -> Any:
        changed = super().visit(node)
        if isinstance(changed, ast.AST) and changed is not node:
            ast.copy_location(changed, node)
        return changed

    def visit_BinOp(self, node: ast.BinOp) -> ast.AST:
        self.generic_visit(node)
        parts = node.left, node.right
        if not (self._divides_whole and isinstance(node.op, ast.Div)):
            return node
        if any(isinstance(p, ast.Constant) and type(p.value) is float for p in parts):
            return node
        return _call("divide", *parts)

    def visit_AugAssign(self, node: ast.AugAssign) -> ast.AST:
        self.generic_visit(node)
        if not (self._divides_whole and isinstance(node.op, ast.Div)):
            return node
        before, after = self._twice(node.target)
        return ast.Assign([after], _call("divide_in_place", before, node.value))

    def _twice(self, target: Any) -> tuple[Any, Any]:
        """A target to be read, and to be set then: its parts are computed once."""
        if isinstance(target, ast.Name):
            return ast.Name(target.id, ast.Load()), target
        owner, again = self._kept(target.value)
        if isinstance(target, ast.Attribute):
            return (
                ast.Attribute(owner, target.attr, ast.Load()),
                ast.Attribute(again, target.attr, ast.Store()),
            )
        index, index_again = self._kept(_as_value(target.slice))
        return (
            ast.Subscript(owner, index, ast.Load()),
            ast.Subscript(again, index_again, ast.Store()),
        )

    def _kept(self, value: ast.expr) -> tuple[ast.expr, ast.expr]:
        """An expression that keeps its value, and the value again."""
        name = f"_python2_{next(self._numbers)}"
        keeping = ast.NamedExpr(ast.Name(name, ast.Store()), value)
        return keeping, ast.Name(name, ast.Load())

    def visit_Compare(self, node: ast.Compare) -> ast.AST:
        self.generic_visit(node)
        name = _COMPARED.get(type(node.ops[0]))
        if name is None or len(node.ops) > 1:
            return node
        return _call(name, node.left, node.comparators[0])

    def visit_ClassDef(self, node: ast.ClassDef) -> ast.AST:
        self.generic_visit(node)
        defined = {n.name for n in node.body if isinstance(n, ast.FunctionDef)}
        if not defined.isdisjoint(CLASS_NAMES):
            node.decorator_list.append(_helper("of_python_2"))
        if not node.bases:
            node.decorator_list.append(_helper("old_style"))
        return node

    def visit_Attribute(self, node: ast.Attribute) -> ast.AST:
        self.generic_visit(node)
        if node.attr == "next" and isinstance(node.ctx, ast.Load):
            return _call("next_of", node.value)
        return node

    def visit_Call(self, node: ast.Call) -> ast.AST:
        self.generic_visit(node)
        called, keywords = node.func, {k.arg for k in node.keywords}
        if isinstance(called, ast.Attribute):
            if called.attr in ("encode", "decode"):
                return _again(node, called.attr, called.value)
            if called.attr == "sort" and (node.args or "cmp" in keywords):
                return _again(node, "sort", called.value)
        elif isinstance(called, ast.Name) and called.id == "str" and len(node.args) > 1:
            return _again(node, "decode")
        return node

    def visit_Import(self, node: ast.Import) -> Any:
        return [self._one_import(alias, node) for alias in node.names]

    def _one_import(self, alias: ast.alias, node: ast.Import) -> ast.AST:
        first, _, rest = alias.name.partition(".")
        made: ast.stmt = ast.Import([alias])
        if self._is_beside(first):
            # "import a.b" imports b, and means a.
            home, _, last = alias.name.rpartition(".")
            name = ast.alias(last, alias.asname)
            made = ast.ImportFrom(home or None, [name], 1)
            if rest and not alias.asname:
                made = ast.Assign(
                    [ast.Name(first, ast.Store())],
                    _call(
                        "package_of",
                        ast.Name("__package__", ast.Load()),
                        ast.Constant(alias.name),
                    ),
                )
        elif alias.name in MADE:
            made = ast.Import([ast.alias(CHANGED + alias.name, alias.asname or first)])
        return ast.copy_location(made, node)

    def visit_ImportFrom(self, node: ast.ImportFrom) -> ast.AST:
        name = node.module or ""
        if not node.level and self._is_beside(name.partition(".")[0]):
            node.level = 1
        elif not node.level and name in MADE:
            node.module = CHANGED + name
        return node

    def _is_beside(self, name: str) -> bool:
        if self._beside is None or not name:
            return False
        start = os.path.join(self._beside, name)
        return os.path.isfile(start + ".py") or os.path.isfile(
            os.path.join(start, "__init__.py")
        )


def _helper(name: str) -> ast.expr:
    return ast.Attribute(ast.Name(_HELPERS, ast.Load()), name, ast.Load())


def _call(name: str, *arguments: ast.expr) -> ast.expr:
    return ast.Call(_helper(name), list(arguments), [])


def _again(node: ast.Call, name: str, *before: ast.expr) -> ast.expr:
    """The call of a helper with the arguments of a call."""
    return ast.Call(_helper(name), [*before, *node.args], node.keywords)


def _as_value(index: ast.expr) -> ast.expr:
    """An index outside brackets."""
    if isinstance(index, ast.Tuple):
        return ast.Tuple([_as_value(part) for part in index.elts], ast.Load())
    if isinstance(index, ast.Slice):
        ends = index.lower, index.upper, index.step
        return _call("slice", *(end or ast.Constant(None) for end in ends))
    return index
