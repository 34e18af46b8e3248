"""Byte code of which words were changed: what the executor takes, it survives.

    python tests/mutants.py --mutants 2000 [--seed 1]

The files are those of the operations that tests/ops lists, and of programs with
recurrences. Of each mutant some words are changed, and the digest is made right again.
The executor refuses it, or runs it forward and back, whatever comes of it. Under a
sanitizer a write out of bounds ends the process, and the mutant that was tried last
has its seed printed. Mutants that might never end are checked, and not run.
"""

import argparse
import importlib
import json
import pathlib
import sys
import tempfile
from types import SimpleNamespace

import numpy as np

FOLDER = pathlib.Path(__file__).parent
sys.path += [str(FOLDER / "ops"), str(FOLDER / "engine" / "native")]

for file in sorted((FOLDER / "ops").glob("test_*.py")):  # which have the cases
    importlib.import_module(file.stem)

import laws  # noqa: E402
from bench import Tables, node, plain, stored  # noqa: E402
from bench import words as as_words  # noqa: E402

import dynetjax as dy  # noqa: E402
from dynetjax.core.registry import INPUT  # noqa: E402
from dynetjax.engine.native import core, kept  # noqa: E402
from dynetjax.engine.native.lowering.bytecode import OP  # noqa: E402
from dynetjax.engine.runtime import RUNTIME  # noqa: E402

ENDLESS = [OP[name] for name in ("LOOP", "WHILE")]
WORDS = 26  # of an instruction
MOST_WORDS = 1 << 20  # of temporaries, that a mutant may ask for


def written(folder):
    """(file, interface) of each program that a process writes there."""
    interfaces = {}
    load = kept.load

    def noting(file, interface):
        interfaces[file] = interface
        return load(file, interface)

    before = kept._folder, RUNTIME.keeps_byte_code
    kept._folder, RUNTIME.keeps_byte_code = lambda: folder, True
    kept.load = noting
    try:
        for case in laws.ALL.values():
            dy.renew_cg()
            y = case.call(case.op, case.inputs(case.arrays()))
            dy.sum_batches(dy.sum_elems(y)).backward(full=True)
    finally:
        kept.load = load
        kept._folder, RUNTIME.keeps_byte_code = before
    return [(f, x) for f, x in sorted(interfaces.items()) if f.exists()]


def mutant(content, rng):
    """(numbers, lengths, words) of a file's content, of which some are others."""
    head, _, rest = content.partition(b"\n")
    numbers, lengths, _ = json.loads(head)
    words = np.frombuffer(rest, np.int32).copy()
    known = [0, 1, -1, 2, 3, 5, 1 << 20, -(1 << 31), (1 << 31) - 1]
    for _ in range(rng.integers(1, 4)):
        what = rng.integers(8)
        if what == 0 and numbers:
            name = sorted(numbers)[rng.integers(len(numbers))]
            numbers[name] = int(rng.choice([*known, numbers[name] + 1]))
        elif what == 1:
            at = rng.integers(len(words))
            words[at] ^= np.int32(1) << rng.integers(31)
        elif what == 2:
            words[rng.integers(len(words))] = words[rng.integers(len(words))]
        elif what == 3:
            at = rng.integers(len(words))
            words[at : at + 1] += rng.integers(-2, 3, 1, np.int32)  # modulo 2^32
        elif what == 4:  # another instruction
            code = words[: lengths["forward"] + lengths["backward"]]
            first = WORDS * rng.integers(max(1, len(code) // WORDS))
            words[first] = rng.integers(len(core.RULES))
        elif what == 5 and lengths["forward"] >= 2 * WORDS:  # the same one again
            code = words[: lengths["forward"]].reshape(-1, WORDS)
            code[rng.integers(len(code))] = code[rng.integers(len(code))]
        else:
            words[rng.integers(len(words))] = rng.choice(known)
    return numbers, lengths, words


def may_be_run(numbers, lengths, words):
    """Whether it is known to end, in memory that there is."""
    code = words[: lengths["forward"] + lengths["backward"]]
    opcodes = code[: len(code) // WORDS * WORDS].reshape(-1, WORDS)[:, 0]
    return not np.isin(opcodes, ENDLESS).any() and all(
        isinstance(x, int) and x <= MOST_WORDS for x in numbers.values()
    )


def run(program, interface, rng, lanes):
    """Compute nodes of it, and go back."""
    sizes, weights = interface["sizes"], interface["weight_sizes"]
    programs = {0: program}
    nodes = []
    for k, size in enumerate(sizes.tolist(), 1):
        programs[k] = plain(INPUT, size)
        array = rng.normal(size=(lanes, size)).astype(np.float32)
        nodes.append(node(k, lanes=lanes, given=array))
    letters = interface["types"]
    values = {"i": rng.integers(3), "f": 0.5, "k": 7}
    data = as_words([values[letter] for letter in letters], letters, lanes)
    nodes.append(node(0, *range(len(nodes)), lanes=lanes, data=data))
    given = [rng.normal(size=max(1, n)).astype(np.float32) for n in weights.tolist()]
    graph = core.Executor(Tables(programs, given))
    assert graph.extend(stored(nodes), 0) == -1
    zeros = [np.zeros_like(x) for x in given]
    seed = np.ones(lanes * interface["size"], np.float32)
    graph.backward([(len(nodes) - 1, seed)], 0, True, zeros.__getitem__)
    return graph.rows(len(nodes) - 1)


def campaign(count, seed):
    """(how many mutants were tried, refused, run)."""
    tried = SimpleNamespace(refused=0, run=0)
    with tempfile.TemporaryDirectory() as name:
        folder = pathlib.Path(name)
        files = written(folder)
        contents = [file.read_bytes() for file, _ in files]
        for number in range(seed, seed + count):
            print(f"\rmutant {number}", end="", file=sys.stderr, flush=True)
            rng = np.random.default_rng(number)
            which = rng.integers(len(files))
            file, interface = files[which]
            numbers, lengths, words = mutant(contents[which], rng)
            kept.write(file, numbers, lengths, words.tobytes())
            program = kept.load(file, interface)
            if program is None:
                tried.refused += 1
                continue
            bound = program.bound(interface["weights"])
            if may_be_run(numbers, lengths, words):
                run(bound, interface, rng, int(rng.integers(1, 4)))
                tried.run += 1
    return len(files), tried


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--mutants", type=int, default=2000)
    parser.add_argument("--seed", type=int, default=1)
    given = parser.parse_args()
    files, tried = campaign(given.mutants, given.seed)
    print(
        f"\n{given.mutants} mutants of {files} files: "
        f"{tried.refused} refused, {tried.run} run"
    )
