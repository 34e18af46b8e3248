"""Programs that were written for DyNet run as they stand."""

import os
import subprocess
import sys

import pytest

PROGRAM = """
import argparse
import sys

{setup}
import dynet as dy

parser = argparse.ArgumentParser()
parser.add_argument("--dynet-seed")
parser.add_argument("--epochs", type=int)
print(parser.parse_known_args()[0].epochs, sys.argv[1:])

pc = dy.Model()
W = pc.add_parameters((2, 2))
trainer = dy.SimpleSGDTrainer(pc)
dy.renew_cg()
x = dy.vecInput(2)
x.set([1.0, 2.0])
loss = dy.squared_norm(dy.parameter(W) * x)
print(f"{{loss.scalar_value():.6f}}")
loss.backward()
trainer.update()
print(dy.__version__, dy.LSTMBuilder is dy.VanillaLSTMBuilder)
print(type(loss), type(W))
"""


def run(folder, *words, program=None, check=True):
    """Run words after the interpreter in a folder; stdout and stderr."""
    if program is not None:
        (folder / "program.py").write_text(program)
    done = subprocess.run(
        [sys.executable, *words],
        cwd=folder,
        env={**os.environ, "PYTHONSAFEPATH": ""},  # modules lie where it starts
        capture_output=True,
        text=True,
    )
    if check:
        assert not done.returncode, done.stderr
    return done.stdout, done.stderr


@pytest.mark.parametrize("chosen", [True, False])
def test_flags_where_the_program_has_chosen(tmp_path, chosen):
    """DyNet looks at no flag then; a program may have one of the same name."""
    program = f"""
import argparse
import dynet_config
if {chosen}:
    dynet_config.set(random_seed=5)
import dynet as dy
parser = argparse.ArgumentParser()
parser.add_argument("--dynet-autobatch", action="store_true")
print(parser.parse_args().dynet_autobatch, dy.random_normal(1).npvalue())
"""
    words = "-m", "dynetjax", "program.py", "--dynet-autobatch"
    out, err = run(tmp_path, *words, program=program, check=chosen)
    if chosen:
        assert out.startswith("True ")
        assert "random seed: 5" in err
    else:
        assert not out
        assert "--dynet-autobatch: it will not do" in err


def test_modules_tell_their_file(tmp_path):
    program = """
import os, dynet, _dynet
print([os.path.basename(m.__file__) for m in (dynet, _dynet)])
print(os.path.exists(dynet.__file__))
"""
    out, _ = run(tmp_path, "-m", "dynetjax", "program.py", program=program)
    assert out.splitlines() == ["['__init__.py', '__init__.py']", "True"]


def test_a_program(tmp_path):
    """The seed is DyNet's: this loss is what DyNet 2.1.2 prints."""
    program = PROGRAM.format(setup="")
    words = "-m", "dynetjax", "program.py", "--dynet-seed", "5", "--epochs", "3"
    out, err = run(tmp_path, *words, program=program)
    lines = out.splitlines()
    assert lines[0] == "3 ['--dynet-seed', '5', '--epochs', '3']"
    assert lines[-3:] == [
        "1.573473",
        "2.1 True",
        "<class '_dynet.Expression'> <class '_dynet.Parameters'>",
    ]
    assert "[dynet] random seed: 5\n" in err
    assert "[dynet] memory allocation done.\n" in err


@pytest.mark.parametrize(
    "setup",
    [
        "import dynetjax.dropin",
        "import dynetjax.dropin, dynet_config; dynet_config.set(random_seed=5)",
    ],
)
def test_inside_a_program(tmp_path, setup):
    """dynet_config takes the place of the command line."""
    seed = "5" if "set(" not in setup else "9"
    program = PROGRAM.format(setup=setup)
    out, _ = run(tmp_path, "program.py", "--dynet-seed", seed, program=program)
    assert "1.573473" in out.splitlines()


def test_a_module(tmp_path):
    package = tmp_path / "package"
    package.mkdir()
    (package / "__init__.py").write_text("")
    (package / "helper.py").write_text("from dynet import *\nnumber = 7\n")
    (package / "module.py").write_text(
        "import sys\nfrom . import helper\nimport dynet\n"
        "print(__name__, helper.number, sys.argv[1:], helper.tanh is dynet.tanh)\n"
    )
    out, _ = run(tmp_path, "-m", "dynetjax", "-m", "package.module", "a", "b")
    assert out == "__main__ 7 ['a', 'b'] True\n"


def test_what_lies_beside_the_program_can_be_imported(tmp_path):
    (tmp_path / "folder").mkdir()
    (tmp_path / "folder" / "helper.py").write_text("number = 7\n")
    (tmp_path / "folder" / "program.py").write_text(
        "import helper; print(helper.number)"
    )
    assert run(tmp_path, "-m", "dynetjax", "folder/program.py")[0] == "7\n"


def test_extension_module(tmp_path):
    """`_dynet` leaves the start to the program; a second one is ignored."""
    program = """
import _dynet as dy
params = dy.DynetParams()
params.set_random_seed(5)
params.set_mem(100)
params.init()
dy.init_from_params(params)
dy.init()
print(dy.ParameterCollection().add_parameters(1).as_array())
import sys
print("dynet" in sys.modules)
"""
    out, err = run(tmp_path, "-m", "dynetjax", "program.py", program=program)
    assert out.splitlines()[-1] == "False"
    assert err.count("random seed: 5") == 1
    assert "allocating memory: 100MB" in err
    assert err.count("initialize dynet twice") == 2


def test_config_module(tmp_path):
    program = """
import dynet_config
print(dynet_config.get(), dynet_config.gpu())
dynet_config.set(mem=100, random_seed=3, weight_decay=0.5)
dynet_config.set_gpu(False)
print(dynet_config.get())
dynet_config.set(autobatch=1)
print(dynet_config.get()["seed"], dynet_config.get()["requested_gpus"])
try:
    dynet_config.set(seed=3)
except TypeError as error:
    print("TypeError")
"""
    out, _ = run(tmp_path, "-m", "dynetjax", "program.py", program=program)
    assert out.splitlines() == [
        "None None",
        "{'mem': 100, 'seed': 3, 'autobatch': 0, 'profiling': 0, 'weight_decay': 0.5, "
        "'shared_params': 0, 'requested_gpus': 1, 'gpu_mask': []}",
        "0 0",
        "TypeError",
    ]


def test_drawing_without_computing(tmp_path):
    program = """
import sys
import dynet as dy
W = dy.Model().add_parameters((2, 2))
y = dy.tanh(W * dy.inputVector([1, 2]))
print(y.value(), y.npvalue(), sys.argv)
dy.print_graphviz()
"""
    words = "-m", "dynetjax", "program.py", "--dynet-viz", "x"
    out, err = run(tmp_path, *words, program=program)
    assert out.splitlines()[0] == "None None ['program.py', 'x']"
    assert "tanh" in out
    assert "[dynet]" not in err


def test_saved_builders_go_by_dynets_names(tmp_path):
    program = """
import dynet as dy
pc = dy.ParameterCollection()
dy.save("model", [dy.LSTMBuilder(1, 2, 3, pc), dy.CoupledLSTMBuilder(1, 2, 3, pc)])
print([b.whoami() for b in dy.load("model", dy.ParameterCollection())])
print(b"_dynet" in open("model.meta", "rb").read())
"""
    out, _ = run(tmp_path, "-m", "dynetjax", "program.py", program=program)
    assert out.splitlines() == ["['VanillaLSTMBuilder', 'CoupledLSTMBuilder']", "True"]


PICKLING = """
import pickle
import {module} as dy

for name, value in vars(dy).items():
    if name[0] == "_" or not getattr(value, "__module__", "").startswith("_dynet"):
        continue
    pickled = pickle.dumps(value, 0)
    assert pickled.startswith(b"c_dynet\\n"), (name, pickled)
    assert pickle.loads(pickled) is value, name
for name in "AdamTrainer", "tanh", "LSTMBuilder", "Expression", "cg_version":
    assert getattr(dy, name).__module__ == "_dynet", name

m = dy.ParameterCollection()
w = m.add_parameters(3)
trainer = dy.AdamTrainer(m, alpha=0.5)
dy.squared_norm(w).backward()
trainer.update()
w, trainer = pickle.loads(pickle.dumps([w, trainer]))
print(type(trainer) is dy.AdamTrainer, trainer.learning_rate)
"""


@pytest.mark.parametrize("module", ["dynet", "_dynet", "dynetjax"])
def test_pickles_go_by_dynets_names(tmp_path, module):
    """Classes, trainers' too, and functions: DyNet's own are in its module _dynet."""
    program = PICKLING.format(module=module)
    out, _ = run(tmp_path, "-m", "dynetjax", "program.py", program=program)
    assert out == "True 0.5\n"


def test_files_of_the_first_release(tmp_path):
    program = """
import dynet as dy
one, other = dy.Model(), dy.Model()
p, q = one.add_parameters(3), other.add_parameters(3)
one.save_all("model")
other.load_all("model")
print((p.as_array() == q.as_array()).all())
"""
    out, _ = run(tmp_path, "-m", "dynetjax", "program.py", program=program)
    assert out == "True\n"


def test_a_program_in_python_2(tmp_path):
    """And what it imports; a traceback shows lines of the original."""
    (tmp_path / "helper.py").write_text(
        "def halves(n):\n    return [x for x in xrange(n)]\n"
    )
    program = """import dynet as dy
from helper import halves
print "loss", dy.inputVector([1.0]).value()
print len(halves(3)), {1: 2}.has_key(1)
raise ValueError, "here"
"""
    words = "-m", "dynetjax", "--py2", "program.py"
    out, err = run(tmp_path, *words, program=program, check=False)
    assert out.splitlines() == ["loss 1.0", "3 True"]
    assert 'program.py", line 5' in err
    assert 'raise ValueError, "here"' in err


FILES = """# -*- coding: utf-8 -*-
import codecs, cPickle, csv, gzip, json, pickle
from cPickle import load
import dynet as dy
import helper

class Vocabulary:
    def __init__(self):
        self.words = {"a": [1]}

for dump in pickle.dump, cPickle.dump:
    with open("file", "w") as f:
        f.write("first\\n")
        dump(Vocabulary(), f)
        dump(2, f, -1)
        f.write("last\\n")
    with open("file", "r") as f:
        print f.readline().strip()
for mode in "w", "wb":
    pickle.dump(Vocabulary(), file("file", mode), 2)
    print load(open("file")).words, pickle.load(open("file", "rb")).words
with open("file", "w") as f:
    pickle.dump(1, f)
    cPickle.dump(2, f)
with open("file") as f:
    print pickle.load(f), cPickle.load(f)
pickle.dump([3], codecs.open("file", "w", "utf-8"))
print pickle.load(codecs.open("file", "r", "utf-8"))
pickle.dump([4], gzip.open("file", "wb"))
print pickle.load(gzip.open("file", "rb"))
print pickle.loads(pickle.dumps(5))
json.dump({"a": 1}, open("file", "wb"))
print json.load(open("file"))
csv.writer(open("file", "wb")).writerow(["a", "b"])
with open("file", "ab") as f:
    print >>f, "line"
with open("file", "w", 1) as f:
    print >>f, u"\\xe9".encode("utf-8")
    print >>f, "next"
    print open("file", "rb").read() == b"\\xc3\\xa9\\nnext\\n", f.mode
with open("file", "wb") as f:
    f.write(b"a\\r\\n\\xff\\n")
print [len(line) for line in open("file")], [len(line) for line in open("file", "rU")]
open("copy", "w").write(open("file").read())
print open("copy", "rb").read() == open("file", "rb").read()
print len(open("file", encoding="latin1").read())
print helper.words(), u"b".encode("utf-8"), b"c"
"""
HELPER = """import pickle
def words():
    pickle.dump({"b": 2}, open("file", "w"))
    return pickle.load(open("file"))
"""


@pytest.mark.parametrize("words", [["program.py"], ["-m", "program"]], ids=len)
def test_files_of_a_program_in_python_2(tmp_path, words):
    """They take and give bytes and text, as in Python 2."""
    (tmp_path / "helper.py").write_text(HELPER)
    out, _ = run(tmp_path, "-m", "dynetjax", "--py2", *words, program=FILES)
    expected = """first
first
{'a': [1]} {'a': [1]}
{'a': [1]} {'a': [1]}
1 2
[3]
[4]
5
{'a': 1}
True w
[3, 2] [2, 2]
True
4
{'b': 2} b c
"""
    assert out == expected


# pickle.dumps([s.encode("utf-8") for s in ("é", "ab")] + [numpy.array([1.5, -2])]) of
# Python 2: its text is bytes; those of an array are no UTF-8.
WORDS = b"(lp0\nS'\\xc3\\xa9'\np1\naS'ab'\np2\na."
ARRAY = (
    b"cnumpy.core.multiarray\n_reconstruct\n(cnumpy\nndarray\n(I0\ntS'b'\ntR"
    b"(I1\n(I2\ntcnumpy\ndtype\n(S'f8'\nI0\nI1\ntR(I3\nS'<'\nNNNI-1\nI-1\nI0\n"
    b"tbI00\nS'\\x00\\x00\\x00\\x00\\x00\\x00\\xf8\\x3f"
    b"\\x00\\x00\\x00\\x00\\x00\\x00\\x00\\xc0'\ntb."
)


def test_pickles_of_python_2(tmp_path):
    (tmp_path / "words").write_bytes(WORDS)
    (tmp_path / "array").write_bytes(ARRAY)
    program = """
import pickle, warnings
import dynet as dy
warnings.simplefilter("ignore")
words = pickle.load(open("words"))
print [len(w) for w in words], words[1], words[0] == u"\\xe9"
print pickle.load(open("array", "rb")).tolist()
print pickle.loads(open("words").read())[1]
"""
    out, _ = run(tmp_path, "-m", "dynetjax", "--py2", "program.py", program=program)
    assert out.splitlines() == ["[1, 2] ab True", "[1.5, -2.0]", "ab"]


def test_what_is_no_python(tmp_path):
    words = "-m", "dynetjax", "--py2", "program.py"
    _, err = run(tmp_path, *words, program="print (((", check=False)
    assert "--py2: program.py cannot be converted" in err


@pytest.mark.parametrize(
    ("words", "match"),
    [
        ([], "Runs a program that was written for DyNet"),
        (["none.py"], "no such program"),
    ],
)
def test_nothing_to_run(tmp_path, words, match):
    assert match in run(tmp_path, "-m", "dynetjax", *words, check=False)[1]
