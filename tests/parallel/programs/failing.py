"""Goes wrong in the way that it is told, in one of two processes."""

import os
import signal
import sys
import time

import dynet as dy

from dynetjax import parallel

how = sys.argv[1]
other = parallel.rank() == 1
m = dy.ParameterCollection()
trainer = dy.SimpleSGDTrainer(m)
if other and how == "order":
    m.add_parameters(3, name="extra")
w = m.add_parameters(2, name="w")
if other and how == "pids":
    time.sleep(60)
print(os.getpid(), flush=True)
for k in range(6 if how == "value" else 1000):
    if k == 3 and other:
        if how == "raise":
            raise ValueError("as it was told")
        if how == "exit":
            sys.exit("enough")
        if how == "kill":
            os.kill(os.getpid(), signal.SIGKILL)
        if how == "stop":
            os.kill(os.getpid(), signal.SIGSTOP)
        if how == "end":
            break
        if how == "value":
            w.set_value([9, 9])
    dy.renew_cg()
    loss = dy.squared_norm(w)
    loss.value()
    loss.backward()
    trainer.update()
