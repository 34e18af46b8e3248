"""Binary Tree-LSTM written operation by operation, against DyNet's API.

A sentiment at every node (Tai et al. 2015), one tree a graph or ``--batch`` of them.
"""

import corpora
import harness

dy = harness.dynet()
SIZE = 128


class TreeLSTM:
    """A Tree-LSTM with scores for every node."""

    def __init__(self, model, data, args):
        del args
        add = model.add_parameters
        self.words, self.unknown = data.words, data.words[corpora.UNKNOWN]
        self.table = model.add_lookup_parameters((len(self.words), SIZE))
        self.leaf = [add((SIZE, SIZE)) for _ in "iou"]
        self.inner = [add((SIZE, 2 * SIZE)) for _ in "iou"]
        self.forget = [add((SIZE, SIZE)) for _ in "lr"]
        self.bias = [add(SIZE) for _ in "iouf"]
        self.out = add((corpora.SENTIMENTS, SIZE))

    def encode(self, tree, seen):
        """Output and cell of `tree`; appends (output, label) of each node."""
        b_i, b_o, b_u, b_f = self.bias
        if tree.word is not None:
            W_i, W_o, W_u = self.leaf
            x = self.table[self.words.get(tree.word, self.unknown)]
            i = dy.logistic(dy.affine_transform([b_i, W_i, x]))
            o = dy.logistic(dy.affine_transform([b_o, W_o, x]))
            u = dy.tanh(dy.affine_transform([b_u, W_u, x]))
            c = dy.cmult(i, u)
        else:
            U_i, U_o, U_u = self.inner
            U_l, U_r = self.forget
            h_l, c_l = self.encode(tree.children[0], seen)
            h_r, c_r = self.encode(tree.children[1], seen)
            x = dy.concatenate([h_l, h_r])
            i = dy.logistic(dy.affine_transform([b_i, U_i, x]))
            o = dy.logistic(dy.affine_transform([b_o, U_o, x]))
            u = dy.tanh(dy.affine_transform([b_u, U_u, x]))
            f_l = dy.logistic(dy.affine_transform([b_f, U_l, h_l]))
            f_r = dy.logistic(dy.affine_transform([b_f, U_r, h_r]))
            c = dy.cmult(i, u) + dy.cmult(f_l, c_l) + dy.cmult(f_r, c_r)
        h = dy.cmult(o, dy.tanh(c))
        seen.append((h, tree.label))
        return h, c

    def loss(self, trees):
        """Negative log likelihood of all sentiments of all trees."""
        seen = []
        for tree in trees:
            self.encode(tree, seen)
        return dy.esum([dy.pickneglogsoftmax(self.out * h, y) for h, y in seen])

    def predict(self, trees, clock):
        """The likeliest sentiment of each root."""
        scores = [self.out * self.encode(tree, [])[0] for tree in trees]
        clock.mark("build")
        best = [int(score.npvalue().argmax()) for score in scores]
        clock.mark("value")
        return best


def run(task, network, description):
    """Measure a network over trees."""
    args = harness.arguments(description, harness.DYNETS, batch=1)
    data = corpora.read_trees(args)
    runner = harness.DynetRunner(dy, network, data, args)
    units = corpora.tree_units(data, args.batch)
    harness.measure(task, args.backend, args, runner, units)


if __name__ == "__main__":
    run("treelstm", TreeLSTM, __doc__)
