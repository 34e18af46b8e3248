"""What is trained: networks in dynetjax and by hand, their sizes, and their data."""

import argparse
import dataclasses
import sys
import types

import corpora

SETTLING = 6  # units before the one that counts
WORDS = 2000  # of the translator


@dataclasses.dataclass(frozen=True)
class Task:
    """A training step.

    Attributes:
        network: a name in `networks`, or a module and a name in it.
        hand: a name in `by_hand`; None if nobody wrote it by hand.
        units: a key of `UNITS`.
        size: sentences, pairs or trees in a step.
        sizes: names of the networks' modules that are set, with their numbers.
        only: the program that counts; all of a step do if "".
        precision: of products; exact if None.
        several: whether eight devices share the step.
    """

    network: str
    hand: str | None
    units: str
    size: int
    sizes: dict = dataclasses.field(default_factory=dict)
    only: str = ""
    precision: str | None = None
    several: bool = False


def _language_model(hidden, hand="LanguageModel", **others):
    return Task("LanguageModel", hand, "text", 64, {"HIDDEN": hidden}, **others)


TASKS = {
    "lm64-256": _language_model(256),
    "lm64-1024": _language_model(1024),
    "trees256-128": Task("treelstm.TreeLSTM", None, "trees", 256, {"SIZE": 128}),
    "seq2seq64": Task("PaddedTranslator", "Translator", "pairs", 64),
    "seq2seq64-apart": Task("Translator", "Translator", "pairs", 64),
    "tagger64": Task("PaddedTagger", "Tagger", "tagged", 64),
    "tagger50-apart": Task("TaggerOfMany", "Tagger", "tagged", 50),
    "stack-parser32": Task("TaughtParser", None, "trees", 32),
    "tied-attention32": Task("TiedAttention", None, "pairs", 32),
    "crf32": Task("CRFTagger", None, "tagged", 32),
    "update": Task("Rows", None, "text", 64, only="update"),
    "lm64-256-bfloat16": _language_model(256, None, precision="bfloat16"),
    "lm64-256-on8": _language_model(256, None, several=True),
}


def _tagged(data, size):
    groups = [data.sentences[k : k + size] for k in range(0, len(data.sentences), size)]
    return [corpora.Unit(group, len(group), sum(map(len, group))) for group in groups]


def _pairs(data, size):
    return corpora.pair_units(data, WORDS, size)


UNITS = {  # how data is read, and made into units of work
    "text": (corpora.read_text, corpora.minibatch_units),
    "pairs": (corpora.read_text, _pairs),
    "tagged": (corpora.read_tagged, _tagged),
    "trees": (corpora.read_trees, corpora.tree_units),
}


class Prepared:
    """A task with its data.

    Attributes:
        units: those of a few steps; the last has a middling number of words.
    """

    def __init__(self, task, folder):
        self.task = task
        self.args = argparse.Namespace(
            data=folder, limit=None, seed=1, sparse=True, minibatch=task.size
        )
        read, units_of = UNITS[task.units]
        self.data = read(self.args)
        units = units_of(self.data, task.size)
        units = [unit for unit in units if unit.sentences == task.size]
        middle = sorted(units, key=lambda unit: unit.items)[len(units) // 2]
        some = units[:: max(len(units) // SETTLING, 1)][:SETTLING]
        self.units = [*some, middle, middle]

    def _network(self, place, name):
        """A class, by its name in one of our modules or with a module's."""
        module, _, name = name.rpartition(".")
        __import__(module or place)
        found = getattr(sys.modules[module or place], name)
        for key, size in self.task.sizes.items():
            setattr(sys.modules[found.__module__], key, size)
        return found

    def ours(self):
        """A function that trains a unit with dynetjax."""
        import harness

        import dynetjax as dy

        dy.init(tier="xla", precision=self.task.precision)
        network = self._network("networks", self.task.network)
        runner = harness.DynetRunner(dy, network, self.data, self.args)
        clock = types.SimpleNamespace(mark=lambda phase: None)
        return lambda unit: runner.train(unit.content, True, clock)

    def by_hand(self):
        """A step by hand, and the shapes of its arguments for the last unit.

        The first two of them are donated.
        """
        import jax
        import jax_runner
        import numpy as np

        network = self._network("by_hand", self.task.hand)(self.data, self.args)
        runner = jax_runner.JaxRunner(network, self.args)
        update = jax_runner.JaxRunner._update.__wrapped__
        arrays = network.arrays(self.units[-1].content)
        given = runner.table, runner.state, arrays, np.float32(1)
        shapes = jax.tree.map(
            lambda x: jax.ShapeDtypeStruct(np.shape(x), x.dtype), given
        )
        return lambda *args: update(runner, *args), shapes
