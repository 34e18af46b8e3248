"""XOR with one hidden layer: python examples/xor.py [--updates N] [--quick]"""

import argparse
import random

from progress import tqdm

import dynetjax as dy

TRUTH = [((a, b), a ^ b) for a in (0, 1) for b in (0, 1)]

parser = argparse.ArgumentParser(description=__doc__)
parser.add_argument("--updates", type=int, default=2000)
parser.add_argument("--quick", action="store_true", help="400 updates only")
args = parser.parse_args()
dy.reset_random_seed(1)
random.seed(1)

model = dy.ParameterCollection()
W, b = model.add_parameters((8, 2)), model.add_parameters(8)
v, c = model.add_parameters((1, 8)), model.add_parameters(1)
trainer = dy.SimpleSGDTrainer(model, 0.5)


def network(bits):
    """The probability that exactly one of the bits is set."""
    return dy.logistic(v * dy.tanh(W * dy.inputVector(bits) + b) + c)


for _ in tqdm(range(400 if args.quick else args.updates), unit="update"):
    bits, answer = random.choice(TRUTH)
    dy.renew_cg()
    loss = dy.binary_log_loss(network(bits), dy.scalarInput(answer))
    loss.backward()
    trainer.update()

dy.renew_cg()
right = 0
for bits, answer in TRUTH:
    found = network(bits).value()
    right += round(found) == answer
    print(*bits, f"-> {found:.3f}")
print(f"right: {right / len(TRUTH):.1%} (most frequent answer: 50.0%)")
stats = dy.stats()
print(f"XLA compilations: {stats.compilations} ({stats.loads} read from its cache)")
