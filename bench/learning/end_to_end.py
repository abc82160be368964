#!/usr/bin/env python3
"""Seconds for a whole training on MNIST, `labelshift train` and a plain PyTorch script in turn, and their ratio. On a machine
that does other work too, compare processor time, on one thread.

    /usr/bin/python3 bench/learning/end_to_end.py build/ci/labelshift MNIST_DIR

Both read the files, train the same MLP by Eq. (4) with Adam at batch 64 for the same epochs, shuffled, and evaluate it on the
test set (ours also on the held-out tenth, which it calibrates on and does not train on; PyTorch's side trains on as many).
PyTorch's is the usual script: a Dataset, a DataLoader that shuffles and stacks, one nn.Module, torch.optim.Adam.
"""
import argparse
import gzip
import pathlib
import resource
import statistics
import subprocess
import sys
import tempfile
import time


def pytorch_side(folder, epochs, threads):
    import numpy
    import torch
    from torch import nn
    from torch.nn import functional as F
    from torch.utils.data import DataLoader, Dataset

    torch.set_num_threads(threads)
    torch.set_flush_denormal(True)

    def read(name, header):
        path = pathlib.Path(folder) / name
        raw = path.read_bytes() if path.exists() else gzip.decompress(pathlib.Path(f"{path}.gz").read_bytes())
        return numpy.frombuffer(raw, numpy.uint8, offset=header)

    class Mnist(Dataset):
        def __init__(self, part, count):
            self.images = torch.tensor(read(f"{part}-images-idx3-ubyte", 16).reshape(-1, 28, 28)[:count])
            self.labels = torch.tensor(read(f"{part}-labels-idx1-ubyte", 8)[:count].astype("int64"))

        def __len__(self):
            return len(self.labels)

        def __getitem__(self, i):
            return (self.images[i].float() / 255.0 - 0.1307) / 0.3081, self.labels[i]

    train = DataLoader(Mnist("train", 54_000), batch_size=64, shuffle=True)
    test = DataLoader(Mnist("t10k", 10_000), batch_size=512)
    net = nn.Sequential(nn.Flatten(), nn.Linear(784, 256), nn.ReLU(), nn.Dropout(0.2), nn.Linear(256, 256), nn.ReLU(),
                        nn.Dropout(0.2), nn.Linear(256, 10))
    adam = torch.optim.Adam(net.parameters(), lr=1e-3, weight_decay=1e-6)
    for _ in range(epochs):
        net.train()
        for x, y in train:
            adam.zero_grad()
            log_probs = F.log_softmax(net(x), dim=1)
            loss = F.nll_loss(log_probs, y) + (log_probs.exp() * log_probs).sum(1).mean()  # Eq. (4), zeta = 1
            loss.backward()
            adam.step()
    net.eval()
    with torch.no_grad():
        correct = sum((net(x).argmax(1) == y).sum().item() for x, y in test)
    print(f"PyTorch: test accuracy {correct / 10_000:.4f}", file=sys.stderr)


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("labelshift")
    parser.add_argument("mnist")
    parser.add_argument("--epochs", type=int, default=5)
    parser.add_argument("--repeats", type=int, default=3)
    parser.add_argument("--pytorch", type=int, help="run PyTorch's side with so many threads")
    arguments = parser.parse_args()
    if arguments.pytorch:
        return pytorch_side(arguments.mnist, arguments.epochs, arguments.pytorch)

    def measured(command):  # seconds by the clock, and of processor time
        before, start = resource.getrusage(resource.RUSAGE_CHILDREN), time.perf_counter()
        subprocess.run(command, check=True, stdout=subprocess.DEVNULL)
        clock, after = time.perf_counter() - start, resource.getrusage(resource.RUSAGE_CHILDREN)
        return clock, after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime

    with tempfile.TemporaryDirectory() as folder:
        ours = [arguments.labelshift, "train", "--data", arguments.mnist, "--model", "mlp", "--zeta", "1", "--epochs",
                str(arguments.epochs), "--output", f"{folder}/predictor.safetensors"]
        sides = {"ours": ours}
        for threads in (1, 2):
            sides[f"PyTorch, {threads} thread{'s' if threads > 1 else ''}"] = [
                sys.executable, __file__, arguments.labelshift, arguments.mnist, "--epochs", str(arguments.epochs),
                "--pytorch", str(threads)]
        times = {name: [] for name in sides}
        for _ in range(arguments.repeats):
            for name, command in sides.items():
                times[name].append(measured(command))
    for name in sides:
        for what, which in (("s by the clock", 0), ("s of processor time", 1)):
            middle, own = (statistics.median(one[which] for one in times[side]) for side in (name, "ours"))
            print(f"{name:20} {middle:7.2f} {what:20} {middle / own:5.2f} x ours")


if __name__ == "__main__":
    main()
