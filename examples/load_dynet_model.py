"""A model that DyNet has trained and saved: listed, loaded and used.

The text below is a file of DyNet 2.1.2, written by its `ParameterCollection.save`: a
network that reads a string of bits and tells whether the number of ones is odd. It is
loaded twice: block by block under its names, by `load_param` and `load_lookup_param`,
and by order into parameters that the program has made, by `populate`. With ``--data
FILE`` the blocks of another model are listed and loaded.

    python examples/load_dynet_model.py [--data FILE] [--strings N] [--quick]
"""

import argparse
import pathlib
import random
import tempfile
from typing import Any

from progress import tqdm

import dynetjax as dy

MODEL = (
    "#Parameter# /read {4,2} 129 ZERO_GRAD\n"
    "+4.21111345e-01 +3.36551714e+00 -5.11363029e-01 +1.05653882e+00 "
    "+1.57092083e+00 +3.29475105e-02 -1.24073398e+00 -2.55017781e+00 \n"
    "#Parameter# /keep {4,4} 257 ZERO_GRAD\n"
    "-2.62107754e+00 +2.95415378e+00 -3.40028977e+00 +2.84464478e+00 "
    "+2.12351251e+00 -2.78475881e+00 +1.59871951e-01 -2.97170854e+00 "
    "+6.05917759e-02 -2.35189915e+00 -3.80190134e-01 -1.17178655e+00 "
    "+3.64218330e+00 +1.93059170e+00 +3.57691360e+00 +4.03919548e-01 \n"
    "#Parameter# /bias {4} 65 ZERO_GRAD\n"
    "-1.07466197e+00 +5.86721718e-01 +1.16858222e-01 +1.80824113e+00 \n"
    "#Parameter# /answer {1,4} 65 ZERO_GRAD\n"
    "-7.24121237e+00 +5.64570045e+00 +2.70932245e+00 -6.82179689e+00 \n"
    "#LookupParameter# /bits {2,2} 65 ZERO_GRAD\n"
    "+2.97607350e+00 +1.17949891e+00 +3.67128879e-01 -2.83587313e+00 \n"
)
SCORES = {"1011": 7.695430278778076, "110": -9.355084419250488}  # DyNet's own


def blocks(path):
    """The name of every block of a file, and whether it is a table."""
    with open(path, encoding="ascii") as file:
        heads = [line.split() for line in file if line.startswith("#")]
    return {head[1]: head[0] == "#LookupParameter#" for head in heads}


def load_by_name(path):
    """A collection with all blocks of a file, and a dict of them by name."""
    model = dy.ParameterCollection()
    found: dict[str, Any] = {}
    for name, is_table in blocks(path).items():
        load = model.load_lookup_param if is_table else model.load_param
        found[name] = load(str(path), name)
    return model, found


def show(found):
    """Print names, dims and norms."""
    for name, part in found.items():
        shape = part.as_array().shape
        print(f"{type(part).__name__:>17} {name:8} {shape!s:7}", end=" ")
        print(f"of norm {(part.as_array() ** 2).sum() ** 0.5:.4f}")


class Parity:
    """A recurrent network over bits: above zero for an odd number of ones."""

    def __init__(self, bits, read, keep, bias, answer):
        self.bits, self.read, self.keep = bits, read, keep
        self.bias, self.answer = bias, answer

    def score(self, string):
        """A number for a string of 0 and 1."""
        h = dy.zeros(self.bias.shape()[0])
        for bit in string:
            x = self.bits[int(bit)]
            h = dy.tanh(dy.affine_transform([self.bias, self.read, x, self.keep, h]))
        return self.answer * h


def by_name(path):
    """The network of blocks that are found by their names."""
    _, found = load_by_name(path)
    show(found)
    names = ("/bits", "/read", "/keep", "/bias", "/answer")
    return Parity(*(found[name] for name in names))


def by_order(path, size=4):
    """The network of a collection that `populate` fills: order counts, not names."""
    model = dy.ParameterCollection()
    bits = model.add_lookup_parameters((2, 2))
    shapes = [(size, 2), (size, size), (size,), (1, size)]
    network = Parity(bits, *(model.add_parameters(shape) for shape in shapes))
    model.populate(str(path))
    return network


def right(network, strings, title):
    """The share of strings for which the score has the right sign."""
    count = 0
    for string in tqdm(strings, desc=title, unit="string", mininterval=0.5):
        dy.renew_cg()
        odd = network.score(string).value() > 0
        count += odd == (string.count("1") % 2 == 1)
    return count / len(strings)


def use(count):
    """Load the model above in both ways, and try it on random strings."""
    with tempfile.TemporaryDirectory() as folder:
        path = pathlib.Path(folder, "parity.model")
        path.write_text(MODEL, encoding="ascii")
        networks = {"by name": by_name(path), "by order": by_order(path)}
    for string, score in SCORES.items():
        dy.renew_cg()
        mine = networks["by name"].score(string).value()
        print(f"score of {string}: {mine:.5f} (in DyNet {score:.5f})")
    strings = [
        "".join(random.choices("01", k=random.randint(1, 20))) for _ in range(count)
    ]
    odd = sum(string.count("1") % 2 for string in strings) / count
    for name, network in networks.items():
        share = right(network, strings, name)
        print(
            f"loaded {name}: {share:.1%} right (most frequent: {max(odd, 1 - odd):.1%})"
        )


def main():
    """Load and use the model above, or list another one."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").split("\n")[0])
    parser.add_argument("--data", type=pathlib.Path, metavar="FILE", help="a model")
    parser.add_argument("--strings", type=int, default=1000, help="how many to try")
    parser.add_argument("--quick", action="store_true", help="a few seconds only")
    args = parser.parse_args()
    dy.reset_random_seed(1)
    random.seed(1)
    if args.data:
        show(load_by_name(args.data)[1])
    else:
        use(50 if args.quick else args.strings)
    stats = dy.stats()
    print(f"XLA compilations: {stats.compilations} ({stats.loads} read from its cache)")


if __name__ == "__main__":
    main()
