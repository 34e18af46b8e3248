"""``python -m dynetjax doctor``: what is installed, whether it works, and how fast."""

import os
import platform
import sys
import time
from collections.abc import Iterator
from importlib.metadata import PackageNotFoundError, version
from importlib.util import find_spec
from pathlib import Path
from typing import NamedTuple

import numpy as np

from dynetjax.builders.vanilla_lstm import VanillaLSTMBuilder
from dynetjax.core.lazy import jax
from dynetjax.engine import policy
from dynetjax.engine.cache_folder import cache_folder, is_made, is_wanted
from dynetjax.engine.device import platform as device_platform
from dynetjax.graph import renew_cg
from dynetjax.model.collection import ParameterCollection
from dynetjax.native import core
from dynetjax.ops.losses import pickneglogsoftmax
from dynetjax.ops.rows import esum
from dynetjax.trainers.adam import AdamTrainer

PACKAGES = "dynetjax", "jax", "jaxlib", "numpy", "optax"
SECONDS = 3.0
WORDS, SIZE, TAGS, LENGTH = 200, 64, 8, 20
EXPECTED = 500  # sentences a second, on a busy core of 2020, in tier 0
USUAL = 3000  # where nothing else runs
MOST = 1 << 30  # bytes of a cache
STEP = 1e-2  # of a parameter, for a slope


class Finding(NamedTuple):
    """A line of the report.

    Attributes:
        title: what was looked at.
        text: what there is.
        advice: what to do about it; empty if nothing.
    """

    title: str
    text: str
    advice: str = ""


def doctor(seconds: float = SECONDS) -> int:
    """Print the report; how many findings ask for something.

    Args:
        seconds: that the test of speed takes.
    """
    count = 0
    for look in (_versions, _tier, _devices, _cache, lambda: _works(seconds)):
        for finding in look():
            print(f"{finding.title:14} {finding.text}")
            if finding.advice:
                count += 1
                print(f"{'':14} -> {finding.advice}")
    print("no problems" if not count else f"{count} problem{'s' if count > 1 else ''}")
    return count


def _versions() -> Iterator[Finding]:
    python = f"Python {platform.python_version()}, {platform.platform()}"
    yield Finding("system", f"{python}, {os.cpu_count()} cores")
    yield Finding("package", str(Path(__file__).parents[1]))
    for name in PACKAGES:
        try:
            yield Finding(name, version(name))
        except PackageNotFoundError:
            yield Finding(name, "not installed", f"pip install {name}")
    if find_spec("dynet") and "dynetjax.dropin" not in sys.modules:
        text = "DyNet itself is installed"
        yield Finding("dynet", text, "python -m dynetjax runs programs without it")


def _tier() -> Iterator[Finding]:
    yield Finding("tier 0", f"{core.LEVEL} instructions of the processor")


def _devices() -> Iterator[Finding]:
    names = ", ".join(str(device) for device in jax.devices())
    yield Finding("devices", f"{names}; computes on {device_platform()}")
    if device_platform() == "cpu" and find_spec("jax_plugins"):
        advice = "see JAX's notes on installation: driver, plug-in and jaxlib must fit"
        yield Finding("", "a plug-in for an accelerator found none", advice)


def _cache() -> Iterator[Finding]:
    if not is_wanted():
        advice = "unset DYNETJAX_CACHE_DIR: each process traces its operations again"
        yield Finding("cache", "none, as asked", advice)
        return
    folder = cache_folder()
    if not is_made(folder):
        advice = "chmod go-w, or another folder in DYNETJAX_CACHE_DIR"
        yield Finding("cache", f"{folder} cannot be used", advice)
        return
    files = [file.stat().st_size for file in folder.iterdir() if file.is_file()]
    advice = f"remove {folder}" if sum(files) > MOST else ""
    text = f"{folder}: {len(files)} files, {sum(files) / 1e6:.0f} MB"
    yield Finding("cache", text, advice)


class _Tagger:
    """A network to try: an LSTM, and scores for every word."""

    def __init__(self) -> None:
        self.model = ParameterCollection()
        self.trainer = AdamTrainer(self.model)
        self.words = self.model.add_lookup_parameters((WORDS, SIZE))
        self.lstm = VanillaLSTMBuilder(1, SIZE, SIZE, self.model)
        self.out = self.model.add_parameters((TAGS, SIZE))

    def loss(self, sentence: list[int]):
        """Of the tags, which follow from the words."""
        renew_cg()
        xs = [self.words[word] for word in sentence]
        pairs = zip(self.lstm.initial_state().transduce(xs), sentence, strict=True)
        return esum([pickneglogsoftmax(self.out * h, w % TAGS) for h, w in pairs])

    def learn(self, sentence: list[int]) -> float:
        """One update; the loss before it."""
        loss = self.loss(sentence)
        value: float = loss.scalar_value()
        loss.backward()
        self.trainer.update()
        return value


def _works(seconds: float) -> Iterator[Finding]:
    tagger, rng = _Tagger(), np.random.default_rng(0)
    sentences = rng.integers(0, WORDS, (50, LENGTH)).tolist()
    begun = time.perf_counter()
    first = tagger.learn(sentences[0])
    yield Finding("first update", f"{time.perf_counter() - begun:.2f} s")
    yield _slope(sentences[0])
    begun, count = time.perf_counter(), 0
    while time.perf_counter() - begun < seconds:
        tagger.learn(sentences[count % len(sentences)])
        count += 1
    speed = count / (time.perf_counter() - begun)
    advice = ""
    if policy.native() and speed < EXPECTED:
        advice = "other programs may be running, or DYNETJAX_THREADS be too many"
    text = f"{speed:,.0f} sentences/s (of {LENGTH} words; usually {USUAL:,} and more)"
    yield Finding("speed", text, advice)
    last = tagger.learn(sentences[0])
    if not last < first:
        advice = "report this with the lines above"
        text = f"the loss went from {first:.3f} to {last:.3f}"
        yield Finding("training", text, advice)


def _slope(sentence: list[int]) -> Finding:
    """Compare a gradient with the slope of the loss."""
    tagger = _Tagger()
    tagger.loss(sentence).backward()
    gradient, values = tagger.out.grad_as_array(), tagger.out.as_array()
    direction = gradient / np.linalg.norm(gradient)

    def moved(by: float) -> float:
        tagger.out.set_value(values + by * direction)
        return float(tagger.loss(sentence).scalar_value())

    slope = (moved(STEP) - moved(-STEP)) / (2 * STEP)
    tagger.out.set_value(values)
    expected = float(np.sum(gradient * direction))
    if abs(slope - expected) < 1e-2 * max(1.0, abs(expected)):
        return Finding("gradients", "ok (against finite differences)")
    text = f"{expected:.4f}; finite differences give {slope:.4f}"
    return Finding("gradients", text, "report this with the lines above")
