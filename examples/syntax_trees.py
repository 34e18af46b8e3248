"""Trees for `ast_treelstm.py`: from Python's own source, or from the Stanford treebank.

A tree is a pair of its label, which may be None, and a word or a pair of trees.
"""

import ast
import pathlib
import re
import sys
import sysconfig

PACKAGES = [
    "asyncio",
    "email",
    "http",
    "importlib",
    "json",
    "logging",
    "multiprocessing",
    "unittest",
    "urllib",
    "xml",
]
SENTIMENTS = ["awful", "bad", "neutral", "good", "great"]
WIDTH, GAP = 25, 2  # of one picture of three, in 80 columns
ASCII = str.maketrans("┬│└─…", "+|`-~")


def words(tree):
    """Its words, from left to right."""
    _, inside = tree
    return (
        [inside] if isinstance(inside, str) else [w for t in inside for w in words(t)]
    )


def from_ast(node):
    """The binary tree of a syntax tree: its type, names and children, left to right."""
    tree: tuple = None, type(node).__name__
    for value in vars(node).values():
        for item in value if isinstance(value, list) else [value]:
            if isinstance(item, ast.AST) and not isinstance(item, ast.expr_context):
                tree = None, (tree, from_ast(item))
            elif isinstance(item, str) and item:
                tree = None, (tree, (None, item[:20]))
    return tree


def standard_library():
    """(train, dev) lists of trees of functions, split by file, labelled by package."""
    root = pathlib.Path(sysconfig.get_paths()["stdlib"])
    parts: tuple[list, list] = [], []
    for label, package in enumerate(PACKAGES):
        for k, file in enumerate(sorted((root / package).rglob("*.py"))):
            for node in ast.walk(ast.parse(file.read_text(encoding="utf-8"))):
                if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef):
                    parts[k % 5 == 2].append((label, from_ast(node)[1]))
    return [[t for t in trees if 8 <= len(words(t)) <= 80] for trees in parts]


def from_sexpr(tokens):
    """A tree of the Stanford Sentiment Treebank, ``3 (2 It) (4 works))``."""
    label, parts = int(next(tokens)), []
    while (token := next(tokens)) != ")":
        parts.append(from_sexpr(tokens) if token == "(" else token)
    return label, parts[0] if len(parts) == 1 else parts


def stanford(folder):
    """(train, dev) lists of sentiment trees."""
    texts = [(folder / f"{part}.txt").read_text("utf-8") for part in ("train", "dev")]
    found = [[re.findall(r"[()]|[^ ()]+", s) for s in t.splitlines()] for t in texts]
    return [[from_sexpr(iter(tokens[1:])) for tokens in part] for part in found]


def draw(tree):
    """Lines of text: a word in each, behind a column for each branch above it."""
    _, inside = tree
    if isinstance(inside, str):
        return [f"─ {' '.join(inside.split())}"]
    (first, *rest), (second, *others) = map(draw, inside)
    left = ["┬" + first, *["│" + line for line in rest]]
    return [*left, "└" + second, *[" " + line for line in others]]


def side_by_side(pictures):
    """Lists of lines, as columns of one text; in ASCII where stdout has no more."""
    rows = range(max(map(len, pictures), default=0))
    cells = [
        [picture[k] if k < len(picture) else "" for picture in pictures] for k in rows
    ]
    cut = [
        [c if len(c) <= WIDTH else c[: WIDTH - 1] + "…" for c in row] for row in cells
    ]
    lines = ["".join(c.ljust(WIDTH + GAP) for c in row).rstrip() for row in cut]
    text = "\n".join(lines)
    try:
        text.encode(sys.stdout.encoding or "ascii")
    except UnicodeEncodeError:
        return text.translate(ASCII)
    return text
