"""The Tree-LSTM of `ast_treelstm.py` under DyNet itself, for its speed.

A Python that has DyNet runs this file; there DyNet is what the example imports.
"""

import json
import os
import subprocess
import sys
import time

WARM = 50  # trees before the clock starts


def speed_of_dynet(python, trees, **network):
    """Trees a second under DyNet on one thread, trained by a Python that has it.

    Args:
        python: that Python's path.
        trees: to train on.
        network: arguments of `TreeLSTM`.
    Raises:
        RuntimeError: it has no DyNet, or fails.
    """
    result = subprocess.run(
        [os.path.expanduser(python), __file__],
        input=json.dumps({"trees": trees, "network": network}),
        capture_output=True,
        text=True,
        check=False,
        env=os.environ | {"PYTHONSAFEPATH": "", "OMP_NUM_THREADS": "1"},
    )
    if result.returncode:
        raise RuntimeError((result.stderr.strip() or "no DyNet").splitlines()[-1])
    return float(result.stdout.split()[-1])


def main():
    """Read trees from stdin, train, and print trees a second."""
    import dynet

    sys.modules["dynetjax"] = dynet
    from ast_treelstm import TreeLSTM, train_on

    task = json.load(sys.stdin)
    model = dynet.ParameterCollection()
    network, trainer = TreeLSTM(model, **task["network"]), dynet.AdamTrainer(model)
    trees, start = task["trees"], 0.0
    for k, tree in enumerate(trees):
        if k == min(WARM, len(trees) // 2):
            first, start = k, time.perf_counter()
        train_on(tree, network, trainer)
    print((len(trees) - first) / (time.perf_counter() - start))


if __name__ == "__main__":
    main()
