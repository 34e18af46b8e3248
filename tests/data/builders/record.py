"""Writes class_factored.model with DyNet 2.1, and prints the losses of its words.

PYTHON record.py
"""

import math
import pathlib

import dynet as dy

HERE = pathlib.Path(__file__).parent
WORDS = {f"w{k}": k for k in range(6)}
LINES = "A w0\nB w1\nA w2\nC w3\nB w4\nA w5\n"

m = dy.ParameterCollection()
first = m.add_parameters((2, 2))
clusters = HERE / "clusters.tmp"
clusters.write_text(LINES)
builder = dy.ClassFactoredSoftmaxBuilder(3, str(clusters), WORDS, m)
last = m.add_parameters(2)
clusters.unlink()
m.save(str(HERE / "class_factored.model"))
dy.renew_cg()
x = dy.inputVector([math.cos(0.9 + 0.5 * j) for j in range(3)])
print([round(builder.neg_log_softmax(x, w).value(), 6) for w in range(6)])
