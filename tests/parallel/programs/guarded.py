"""Saves by the first process alone, then by all, who load it right after."""

import sys
import time

import dynet as dy
import numpy as np

from dynetjax import parallel

out, first = sys.argv[1], parallel.rank() == 0
m = dy.ParameterCollection()
w = m.parameters_from_numpy(np.array([1.0, 2.0]))
trainer = dy.SimpleSGDTrainer(m)
for k in range(3):
    dy.renew_cg()
    dy.squared_norm(w).backward()
    trainer.update()
    if first:
        m.save(out + ".best")
        time.sleep(0.1)
    m.save(out + f".{k}")
    again = dy.ParameterCollection()
    again.add_parameters(2)
    again.populate(out + f".{k}")
    same = (again.parameters_list()[0].as_array() == w.as_array()).all()
    with open(f"{out}.rank{parallel.rank()}", "a") as file:
        file.write(f"{same}\n")
