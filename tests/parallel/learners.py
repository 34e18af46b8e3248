"""What workers import: learners, and functions of data."""

import os
import signal

import dynetjax as dy


class Tagger:
    """The loss of a sentence's tags."""

    def __init__(self, m):
        self.words = m.add_lookup_parameters((30, 8))
        self.lstm = dy.VanillaLSTMBuilder(1, 8, 6, m)
        self.W = m.add_parameters((4, 6))

    def __call__(self, sentence):
        states = self.lstm.initial_state().transduce([self.words[w] for w in sentence])
        pairs = zip(states, sentence, strict=True)
        return dy.esum([dy.pickneglogsoftmax(self.W * h, w % 4) for h, w in pairs])


class Total:
    """The number of a loss."""

    def __init__(self, tagger):
        self.tagger = tagger

    def __call__(self, sentence):
        dy.renew_cg()
        return self.tagger(sentence).value()


class Learner:
    """As DyNet's C++ has it."""

    def __init__(self, tagger, file):
        self.tagger, self.file = tagger, file

    def LearnFromDatum(self, datum, learn):
        dy.renew_cg()
        loss = self.tagger(datum)
        if learn:
            loss.backward()
        return loss.value()

    def SaveModel(self):
        with open(self.file, "a") as file:
            file.write("saved\n")


class Failing:
    """A learner that does what the datum says."""

    def __init__(self, w):
        self.w = w

    def __call__(self, datum):
        if datum == "raise":
            raise ValueError("as it was told")
        if datum == "exit":
            raise SystemExit
        if datum == "kill":
            os.kill(os.getpid(), signal.SIGKILL)
        return dy.squared_norm(self.w)


def squared(x):
    return x * x


def ends(x):
    os._exit(x)


def raises(x):
    raise KeyError(x)


def alone(x):
    """A function without a model."""
    return dy.squared_norm(dy.inputVector([x]))


class Waiting:
    """Fails after the others have learned a while."""

    def __init__(self, tagger):
        self.tagger = tagger

    def __call__(self, datum):
        if datum == "raise":
            raise ValueError("as it was told")
        return self.tagger(datum)
