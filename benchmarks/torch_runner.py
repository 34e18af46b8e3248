"""What the PyTorch versions share: one thread, eager code, Adam."""

import harness
import torch


class TorchRunner:
    """Trains a module that has `loss` and `predict`."""

    def __init__(self, network, args):
        self.network = network
        embeddings = [m for m in network.modules() if isinstance(m, torch.nn.Embedding)]
        tables = {id(m.weight) for m in embeddings if m.sparse}
        parameters = list(network.parameters())
        dense = [p for p in parameters if id(p) not in tables]
        self.optimizers = [torch.optim.Adam(dense)]
        if args.sparse:
            sparse = [p for p in parameters if id(p) in tables]
            self.optimizers.append(torch.optim.SparseAdam(sparse))

    def train(self, content, read, clock):
        """One update; returns the loss if `read`."""
        loss = self.network.loss(content)
        clock.mark("build")
        value = None
        if read:
            value = loss.item()
            clock.mark("value")
        for optimizer in self.optimizers:
            optimizer.zero_grad()
        loss.backward()
        clock.mark("backward")
        for optimizer in self.optimizers:
            optimizer.step()
        clock.mark("update")
        return value

    @torch.no_grad()
    def infer(self, content, clock):
        """Predictions only."""
        self.network.predict(content)
        clock.mark("build")

    def finish(self):
        """Nothing was left running."""

    def stats(self):
        """PyTorch's eager mode compiles nothing."""
        return {}


def run(task, network, args, data, units):
    """Measure the module that `network` makes from (data, args)."""
    torch.set_num_threads(1)
    torch.manual_seed(args.seed)
    runner = TorchRunner(network(data, args), args)
    harness.measure(task, "torch", args, runner, units)
