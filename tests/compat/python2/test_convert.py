"""Programs in Python 2 do what they did: expected values are those of Python 2.7."""

import os
import subprocess
import sys

import pytest

pytest.importorskip("fissix")


def prints(folder, program):
    """The lines that a program in Python 2 prints."""
    (folder / "program.py").write_text(program)
    return run(folder, "program.py")


def run(folder, name):
    done = subprocess.run(
        [sys.executable, "-m", "dynetjax", "--py2", name],
        cwd=folder,
        env={**os.environ, "PYTHONSAFEPATH": ""},  # modules lie where it starts
        stdin=subprocess.DEVNULL,
        capture_output=True,
        encoding="utf-8",
        timeout=60,
    )
    assert not done.returncode, done.stderr
    return done.stdout.splitlines()


DIVIDES = """# -*- coding: utf-8 -*-
import numpy as np
import dynet as dy
import true
from math import floor, sqrt
import math

class Path(object):
    def __init__(self, at): self.at = at
    def __div__(self, other): return Path(self.at + "/" + other)

print 7 / 2, -7 / 2, 7 / 2.0, true.half(7)
x = dy.inputVector([1, 2, 3, 4])
print (np.array([7, 9]) / 2).tolist(), len(x[0:4 / 2].value())
print (Path("a") / "b").at
n, calls = 9, []
n /= 2
print n

def at(k):
    calls.append(k)
    return k

rows = [Path(9), [7, 8], np.array([[6, 9], [8, 7]])]
rows[at(0)].at /= 2
rows[at(1)][at(1)] /= 3
rows[at(2)][at(0), :] /= 4
print rows[0].at, rows[1], rows[2].tolist(), calls
print floor(7 / 2.0) / 2, math.ceil(3.5) / 8, round(3) / 2, sqrt(4)
"""


def test_division(tmp_path):
    """By file: one of them has the division of the future."""
    text = "'''Halves.'''\nfrom __future__ import division\ndef half(n): return n / 2\n"
    (tmp_path / "true.py").write_text(text)
    assert prints(tmp_path, DIVIDES) == [
        "3 -4 3.5 3.5",
        "[3, 4] 2",
        "a/b",
        "4",
        "4 [7, 2] [[1, 2], [8, 7]] [0, 1, 1, 2, 0]",
        "1.5 0.5 1.5 2.0",
    ]


TABS = (
    "text = '''a\n\tb'''\n"
    "def f(n):\n"
    "\tif n:\n"
    "\t    return 'if'\n"
    "        return repr(text)\n"
    "print f(1), f(0)\n"
)


def test_tabs_are_eight_columns(tmp_path):
    assert prints(tmp_path, TABS) == [r"if 'a\n\tb'"]


STREAMS = """# -*- coding: utf-8 -*-
import codecs, sys
reload(sys)
sys.setdefaultencoding("utf-8")
sys.stdout = codecs.getwriter("utf-8")(sys.stdout)
sys.stderr = codecs.getwriter("utf-8")(sys.stderr)
sys.stdin = codecs.getreader("utf-8")(sys.stdin)
print u"\\xe9", "é", u"é".encode("utf-8"), "é".decode("utf-8"), unicode("é", "utf-8")
sys.stdout.write(u"é".encode("utf-8") + "\\n")
print >>sys.stdout, "%s" % u"é".encode("utf8"), repr(sys.stdin.read())
with codecs.getwriter("utf-8")(open("file", "wb")) as f:
    f.write(u"\\xe9\\n")
print open("file").read() + codecs.getreader("utf-8")(open("file", "rb")).read(),
for line in open("file", "rb"):
    print line.split("\\n")
"""


def test_wrapped_streams(tmp_path):
    assert prints(tmp_path, STREAMS) == [
        *("é é é é é", "é", "é ''", "é", "é", "['é', '']"),
    ]


CLASSES = """
from collections import defaultdict
from itertools import count, izip

class Both(object):
    def __init__(self): self.left = [1, 2]
    def __iter__(self): return self
    def next(self):
        if not self.left: raise StopIteration
        return self.left.pop()
    def __next__(self): return self.next()

class Old:
    def __init__(self): self.left = [3, 4]
    def __iter__(self): return self
    def next(self):
        if not self.left: raise StopIteration
        return self.left.pop()

class Node:
    def __init__(self, next): self.next = next
    def __eq__(self, other): return True
    def __nonzero__(self): return False

class Named:
    @property
    def name(self): return self.key + "!"
    @property
    def key(self): return "k"
    def __init__(self): self.key = "own"

print list(Both()), list(Old()), Both().next(), next(Old()), iter([5]).next()
print Named().name, Node(6).next, len({Node(1): 2}), not Node(1)
ids = defaultdict(count(0).next)
print ids["a"], ids["b"], list(izip([1], [2]))
best = None
if 0.5 > best: print "first"
print sorted([3, 1, 2], cmp=lambda a, b: b - a), sorted([2, 1], lambda a, b: cmp(a, b))
words = ["bb", "a"]
words.sort(lambda a, b: cmp(len(a), len(b)))
print words, map(len, words), filter(None, [0, 1]), zip(words, words)[0], range(2)
"""


def test_classes_and_functions(tmp_path):
    assert prints(tmp_path, CLASSES) == [
        "[2, 1] [4, 3] 2 4 5",
        "own! 6 1 True",
        "0 1 [(1, 2)]",
        "first",
        "[3, 2, 1] [1, 2]",
        "['a', 'bb'] [1, 2] [1] ('a', 'a') [0, 1]",
    ]


LIBRARY = """
import collections, cPickle, csv, gzip, hashlib, itertools, operator, os, random
import string, subprocess, sys, time, urllib2
from string import letters, join
import numpy as np
from ConfigParser import SafeConfigParser
from StringIO import StringIO

print letters[:2], string.join(["a", "b"], "-"), join(["a", "b"]), string.upper("a")
print sys.maxint > 1, time.clock() >= 0, os.errno.ENOENT, operator.div(7, 2)
print isinstance({}, collections.Mapping), np.zeros(2, dtype=np.int).tolist()
print SafeConfigParser().sections()
print hashlib.md5(u"a".encode("utf-8")).hexdigest()[:4]
print subprocess.Popen(["echo", "a"], stdout=subprocess.PIPE).communicate()[0] + "b"
with gzip.open("file.gz", "wb") as f:
    f.write("a b\\n")
print [line.split() for line in gzip.open("file.gz")]
with open("file.csv", "wb") as f:
    csv.writer(f).writerow(["a", "b"])
print list(csv.reader(open("file.csv", "rb")))
print `7`, 0777, 10L, ur"\\d", reduce(operator.add, [1, 2]), 1 <> 2, os.getcwdu() != ""
try:
    raise KeyError, "x"
except KeyError, error:
    print error
exec "y = 5"
out = StringIO()
print >>out, u"a".encode("utf8")
print y, out.getvalue() + "b", cPickle.loads(cPickle.dumps("c"))
"""


def test_the_library(tmp_path):
    assert prints(tmp_path, LIBRARY) == [
        "ab a-b a b A",
        "True True 2 3",
        "True [0, 0]",
        "[]",
        "0cc1",
        "a",
        "b",
        "[['a', 'b']]",
        "[['a', 'b']]",
        r"7 511 10 \d 3 True True",
        "'x'",
        "5 a",
        "b c",
    ]


FILES = {
    "models/__init__.py": "from net import *\nimport deep.leaf, deep.leaf as d\n",
    "models/net.py": "import tools, colorsys\n\ndef size(): return tools.three() / 2\n",
    "models/tools.py": "def three():\n    return 7\n",
    "models/colorsys.py": "",
    "models/deep/__init__.py": "",
    "models/deep/leaf.py": "from __future__ import absolute_import\nimport colorsys\n",
    "dynet.py": "raise ImportError('another dynet')\n",
    "run/train.py": "import sys\nsys.path.append('..')\n",
}
TRAIN = """import models, dynet
print models.size(), models.deep.leaf is models.d, models.d.colorsys.ONE_THIRD > 0
print models.net.colorsys.__name__
"""


@pytest.mark.parametrize("name", ["run/train.py", "train.py"])
def test_modules_and_packages(tmp_path, name):
    """Anywhere on sys.path, and in a package those beside a module come first."""
    for path, text in FILES.items():
        (tmp_path / path).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / path).write_text(text)
    path = tmp_path / name
    start = "" if name == "train.py" else FILES["run/train.py"]
    path.write_text(start + TRAIN)
    assert run(path.parent, path.name) == ["3 True True", "models.colorsys"]


def test_a_program_in_the_folder_of_a_package(tmp_path):
    """It is no module of the package."""
    (tmp_path / "__init__.py").write_text("")
    (tmp_path / "tools.py").write_text("def three():\n    return 7 / 2\n")
    assert prints(tmp_path, "import tools\nprint tools.three()") == ["3"]


def test_packages_are_left_alone(tmp_path):
    """What pip installs is Python 3."""
    folder = tmp_path / "site-packages"
    folder.mkdir()
    (folder / "installed.py").write_text("half = 7 / 2\n")
    start = f"import sys\nsys.path.append({os.fspath(folder)!r})\n"
    assert prints(tmp_path, start + "import installed\nprint installed.half") == ["3.5"]
