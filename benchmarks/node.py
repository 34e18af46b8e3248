"""What a node costs: microseconds to build it, and to plan it, operation by operation.

    python benchmarks/node.py [--backend dynetjax|dynet] [--nodes 1000] [--repeats 9]

Planning is all that the engine does on the host before it runs: plan and write.
"""

import argparse
import json
import statistics
import time

import harness

dy = harness.dynet()
SIZE = 64


def operations(model):
    """Name -> what to prepare in a new graph: a function that adds one node."""
    table = model.add_lookup_parameters((100, SIZE))
    matrix, bias = model.add_parameters((SIZE, SIZE)), model.add_parameters(SIZE)

    def unary(op):
        def prepare():
            x = dy.tanh(table[1])
            return lambda: op(x)

        return prepare

    def binary(op):
        def prepare():
            x, y = dy.tanh(table[1]), dy.tanh(table[2])
            return lambda: op(x, y)

        return prepare

    return {
        "lookup": lambda: lambda: table[3],
        "tanh": unary(dy.tanh),
        "logistic": unary(dy.logistic),
        "add": binary(lambda x, y: x + y),
        "add number": unary(lambda x: x + 1.0),
        "cmult": binary(dy.cmult),
        "matrix times vector": unary(lambda x: matrix * x),
        "affine_transform": unary(lambda x: dy.affine_transform([bias, matrix, x])),
        "concatenate": binary(lambda x, y: dy.concatenate([x, y])),
        "pick_range": unary(lambda x: dy.pick_range(x, 0, 32)),
        "pick": unary(lambda x: dy.pick(x, 3)),
        "pickneglogsoftmax": unary(lambda x: dy.pickneglogsoftmax(x, 3)),
        "softmax": unary(dy.softmax),
        "dot_product": binary(dy.dot_product),
    }


def planned():
    """Seconds spent planning so far; None where the backend does not tell."""
    stats = getattr(dy, "stats", None)
    if stats is None:
        return None
    seconds = stats().seconds
    return seconds.get("plan", 0) + seconds.get("write", 0)


def measure(prepare, nodes, repeats):
    """Microseconds a node to build, and to plan: medians, the first run left out."""
    built, plans = [], []
    for _ in range(repeats + 1):
        dy.renew_cg()
        add = prepare()
        start = time.perf_counter()
        for _ in range(nodes):
            last = add()
        built.append(time.perf_counter() - start)
        before = planned()
        last.npvalue()
        after = planned()
        plans.append(None if before is None or after is None else after - before)

    def each(seconds):
        return round(statistics.median(seconds[1:]) * 1e6 / nodes, 3)

    return each(built), None if plans[0] is None else each(plans)


def main():
    """Print a table and one line of JSON."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").split("\n")[0])
    parser.add_argument("--backend", choices=harness.DYNETS, default=harness.DYNETS[0])
    parser.add_argument("--nodes", type=int, default=1000)
    parser.add_argument("--repeats", type=int, default=9)
    args = parser.parse_args()
    model = dy.ParameterCollection()
    found = {
        name: measure(prepare, args.nodes, args.repeats)
        for name, prepare in operations(model).items()
    }
    print(f"{'us a node':24}{'build':>8}{'plan':>8}")
    for name, (build, plan) in found.items():
        print(f"{name:24}{build:8.2f}{'-' if plan is None else f'{plan:.2f}':>8}")
    middle = statistics.median(build for build, _ in found.values())
    print(f"{'median':24}{middle:8.2f}")
    line = {"task": "node", "backend": args.backend, "us": found, "median": middle}
    print(json.dumps(line), flush=True)


if __name__ == "__main__":
    main()
