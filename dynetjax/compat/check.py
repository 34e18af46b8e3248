"""``python -m dynetjax check program.py``: what will differ, without running it."""

import ast
import difflib
from collections.abc import Callable, Collection, Iterator
from pathlib import Path
from typing import NamedTuple, TypeAlias

from dynetjax.core.other_names import MODULE, known_keyword, other_name

MODULES = "dynet", "_dynet", "dynetjax"
SPAWN = "they compute in tier 0; dynetjax.parallel has processes that share a model"
DIFFERS = {  # names of DyNet, and what to know of them
    "LSTMBuilder": "as in DyNet 2.1 when run by python -m dynetjax; "
    "`import dynetjax` gives one with coupled gates: write VanillaLSTMBuilder there",
    "random_normal": "the numbers of a seed are not DyNet's",
    "random_uniform": "the numbers of a seed are not DyNet's",
    "random_bernoulli": "the numbers of a seed are not DyNet's",
    "random_gumbel": "the numbers of a seed are not DyNet's",
    "noise": "the numbers of a seed are not DyNet's",
    "dropout": "the masks of a seed are not DyNet's",
    "block_dropout": "the masks of a seed are not DyNet's",
    "dropout_dim": "the masks of a seed are not DyNet's",
    "dropout_batch": "the masks of a seed are not DyNet's",
    "set_dropout": "the masks of a seed are not DyNet's",
    "set_dropouts": "the masks of a seed are not DyNet's",
    "to_device": "a graph on several devices is computed node by node, slowly",
}
SETTINGS = {
    "mem": "memory is taken as it is needed: the number means nothing",
    "autobatch": "nodes are computed together in any case: the flag means nothing",
    "shared_parameters": "refused: dynetjax.parallel.train shares parameters",
    "gpu_mask": "choose a device by --dynet-devices, or JAX_PLATFORMS",
}
KeywordsOf: TypeAlias = Callable[[str], Collection[str]]
FORKS = {"fork", "Process", "Pool"}


class Finding(NamedTuple):
    """Something that differs.

    Attributes:
        line: its number, from 1.
        name: of what differs.
        text: how, and what to do.
    """

    line: int
    name: str
    text: str


def findings(
    source: str, known: Collection[str], keywords: KeywordsOf = lambda name: ()
) -> list[Finding]:
    """What differs in a program, by lines.

    Args:
        source: of the program.
        known: public names of the module ``dynet``.
        keywords: what something of that name takes.
    """
    try:
        tree = ast.parse(source)
    except SyntaxError as error:
        text = f"{error.msg}: if it is Python 2, run it by python -m dynetjax --py2"
        return [Finding(error.lineno or 1, "syntax", text)]
    return sorted({*_Visitor(tree, known, keywords).run()})


class _Visitor:
    """Goes over a program."""

    def __init__(self, tree: ast.Module, known: Collection[str], keywords: KeywordsOf):
        self._tree, self._known, self._keywords_of = tree, known, keywords
        self._modules: set[str] = set()  # names that mean DyNet
        self._direct: dict[str, str] = {}  # names that mean something of it

    def run(self) -> Iterator[Finding]:
        """All that differs."""
        for node in ast.walk(self._tree):
            if isinstance(node, ast.Import):
                self._import(node)
            elif isinstance(node, ast.ImportFrom):
                yield from self._import_from(node)
        for node in ast.walk(self._tree):
            if isinstance(node, ast.Attribute):
                yield from self._attribute(node)
            elif isinstance(node, ast.Name) and node.id in self._direct:
                yield from self._of(self._direct[node.id], node.lineno)
            elif isinstance(node, ast.Call):
                yield from self._call(node)
            elif isinstance(node, ast.Constant) and isinstance(node.value, str):
                yield from self._flag(node.value, node.lineno)

    def _import(self, node: ast.Import) -> None:
        for alias in node.names:
            if alias.name in MODULES:
                self._modules.add(alias.asname or alias.name)

    def _import_from(self, node: ast.ImportFrom) -> Iterator[Finding]:
        if node.module not in MODULES:
            return
        for alias in node.names:
            if alias.name == "*":
                self._direct.update({name: name for name in self._known})
                continue
            self._direct[alias.asname or alias.name] = alias.name
            yield from self._unknown(alias.name, node.lineno)

    def _attribute(self, node: ast.Attribute) -> Iterator[Finding]:
        owner = node.value
        if isinstance(owner, ast.Name) and owner.id in self._modules:
            yield from self._unknown(node.attr, node.lineno)
            yield from self._of(node.attr, node.lineno)
        elif node.attr in ("set_dropout", "set_dropouts"):
            yield from self._of(node.attr, node.lineno)

    def _unknown(self, name: str, line: int) -> Iterator[Finding]:
        if name not in self._known and not name.startswith("__"):
            row = other_name(MODULE, name)
            near = difflib.get_close_matches(name, self._known, 1)
            if row is not None:
                hint = f": {row.told}"
            else:
                hint = f"; perhaps {near[0]}" if near else ""
            yield Finding(line, name, f"there is no such name{hint}")

    def _of(self, name: str, line: int) -> Iterator[Finding]:
        if name in DIFFERS:
            yield Finding(line, name, DIFFERS[name])

    def _call(self, node: ast.Call) -> Iterator[Finding]:
        name = ast.unparse(node.func)
        owner, _, last = name.rpartition(".")
        if owner in self._modules or name in self._direct:
            yield from self._keywords(self._direct.get(name, last), node)
        if last in FORKS and name.startswith(("os.", "multiprocessing.", "mp.")):
            yield Finding(node.lineno, name, f"forked processes: {SPAWN}")
        if name == "dynet_config.set":
            for keyword in node.keywords:
                if keyword.arg in SETTINGS:
                    yield Finding(node.lineno, keyword.arg, SETTINGS[keyword.arg])

    def _keywords(self, name: str, node: ast.Call) -> Iterator[Finding]:
        """Keywords of other libraries, of classes and operations."""
        known = self._keywords_of(name)
        for keyword in node.keywords:
            here = keyword.arg not in known and known_keyword(keyword.arg or "", known)
            if here:
                text = f"there is no such keyword: {here}="
                yield Finding(keyword.value.lineno, keyword.arg or "", text)

    def _flag(self, text: str, line: int) -> Iterator[Finding]:
        flag = text.partition("=")[0].strip()
        name = flag.replace("-", "_")
        for setting, told in SETTINGS.items():
            if name.startswith(f"__dynet_{setting}"):
                yield Finding(line, flag, told)


def check(paths: list[str], known: Collection[str], keywords: KeywordsOf) -> int:
    """Print what differs in each of some programs; the exit status.

    It is 0 if every name is known, 1 if not, 2 if a program cannot be read.
    """
    status = 0
    for path in paths:
        try:
            source = Path(path).read_text("utf-8", errors="replace")
        except OSError as error:
            print(f"{path}: cannot be read: {error.strerror}")
            status = 2
            continue
        found = findings(source, known, keywords)
        for finding in found:
            print(f"{path}:{finding.line}: {finding.name}: {finding.text}")
            wrong = "there is no such" in finding.text or finding.name == "syntax"
            status = max(status, int(wrong))
        if not found:
            print(f"{path}: nothing differs")
    return status
