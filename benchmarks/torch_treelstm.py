"""Binary Tree-LSTM in eager PyTorch, operation by operation."""

import corpora
import harness
import torch
import torch_runner
from torch import nn
from torch.nn import functional

SIZE = 128


class TreeLSTM(nn.Module):
    """A Tree-LSTM with scores for every node."""

    def __init__(self, data, args):
        super().__init__()
        self.words, self.unknown = data.words, data.words[corpora.UNKNOWN]
        self.table = nn.Embedding(len(self.words), SIZE, sparse=args.sparse)
        self.leaf = nn.ModuleList(nn.Linear(SIZE, SIZE, bias=False) for _ in "iou")
        self.inner = nn.ModuleList(nn.Linear(2 * SIZE, SIZE, bias=False) for _ in "iou")
        self.forget = nn.ModuleList(nn.Linear(SIZE, SIZE, bias=False) for _ in "lr")
        self.bias = nn.ParameterList(torch.zeros(SIZE) for _ in "iouf")
        self.out = nn.Linear(SIZE, corpora.SENTIMENTS, bias=False)

    def encode(self, tree, seen):
        """Output and cell of `tree`; appends (output, label) of each node."""
        b_i, b_o, b_u, b_f = self.bias
        if tree.word is not None:
            W_i, W_o, W_u = self.leaf
            number = self.words.get(tree.word, self.unknown)
            x = self.table(torch.tensor([number]))
            i, o = torch.sigmoid(W_i(x) + b_i), torch.sigmoid(W_o(x) + b_o)
            c = i * torch.tanh(W_u(x) + b_u)
        else:
            U_i, U_o, U_u = self.inner
            U_l, U_r = self.forget
            h_l, c_l = self.encode(tree.children[0], seen)
            h_r, c_r = self.encode(tree.children[1], seen)
            x = torch.cat([h_l, h_r], dim=1)
            i, o = torch.sigmoid(U_i(x) + b_i), torch.sigmoid(U_o(x) + b_o)
            f_l, f_r = torch.sigmoid(U_l(h_l) + b_f), torch.sigmoid(U_r(h_r) + b_f)
            c = i * torch.tanh(U_u(x) + b_u) + f_l * c_l + f_r * c_r
        h = o * torch.tanh(c)
        seen.append((h, tree.label))
        return h, c

    def loss(self, trees):
        """Negative log likelihood of all sentiments of all trees."""
        seen = []
        for tree in trees:
            self.encode(tree, seen)
        scores = self.out(torch.cat([h for h, _ in seen]))
        gold = torch.tensor([label for _, label in seen])
        return functional.cross_entropy(scores, gold, reduction="sum")

    def predict(self, trees):
        """The likeliest sentiment of each root."""
        return [int(self.out(self.encode(tree, [])[0]).argmax()) for tree in trees]


def main():
    """Measure the Tree-LSTM."""
    args = harness.arguments(__doc__, batch=1)
    data = corpora.read_trees(args)
    units = corpora.tree_units(data, args.batch)
    torch_runner.run("treelstm", TreeLSTM, args, data, units)


if __name__ == "__main__":
    main()
