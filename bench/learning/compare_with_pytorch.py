#!/usr/bin/env python3
"""Samples a second of a training step, ours and PyTorch's in turn, and the ratio of medians.

    /usr/bin/python3 bench/learning/compare_with_pytorch.py build/ci/bench/training_step

Same net, batch and optimiser. PyTorch's side is the plain idiom on tensors that are ready in memory; ours also gathers and
normalises bytes. A net of ours trains on one thread, and two nets on two, which is what two threads are for here; PyTorch
trains one net on both. On one thread the ratio is of samples a second of processor time, which other work on
the machine disturbs little; on two it is by the clock, so it needs a machine that does nothing else.
"""
import argparse
import statistics
import subprocess
import sys
import time

BATCH = 64


def pytorch_side(name, threads, seconds):
    import torch
    from torch import nn
    from torch.nn import functional as F

    torch.set_num_threads(threads)

    class LeNet(nn.Module):
        def __init__(self):
            super().__init__()
            self.conv1, self.conv2 = nn.Conv2d(1, 6, 5), nn.Conv2d(6, 16, 5)
            self.fc1, self.fc2, self.fc3 = nn.Linear(256, 120), nn.Linear(120, 84), nn.Linear(84, 10)

        def forward(self, x):
            x = F.avg_pool2d(torch.tanh(self.conv1(x)), 2)
            x = F.avg_pool2d(torch.tanh(self.conv2(x)), 2)
            return self.fc3(torch.tanh(self.fc2(torch.tanh(self.fc1(x.flatten(1))))))

    class Block(nn.Module):
        def __init__(self, c_in, c_out, stride):
            super().__init__()
            self.conv1, self.bn1 = nn.Conv2d(c_in, c_out, 3, stride, 1, bias=False), nn.BatchNorm2d(c_out)
            self.conv2, self.bn2 = nn.Conv2d(c_out, c_out, 3, 1, 1, bias=False), nn.BatchNorm2d(c_out)
            self.downsample = None
            if stride != 1 or c_in != c_out:
                self.downsample = nn.Sequential(nn.Conv2d(c_in, c_out, 1, stride, bias=False), nn.BatchNorm2d(c_out))
            self.relu = nn.ReLU(inplace=True)

        def forward(self, x):
            y = self.bn2(self.conv2(self.relu(self.bn1(self.conv1(x)))))
            y += x if self.downsample is None else self.downsample(x)
            return self.relu(y)

    def resnet18():
        blocks, c = [], 64
        for width, stride in ((64, 1), (128, 2), (256, 2), (512, 2)):
            blocks += [Block(c, width, stride), Block(width, width, 1)]
            c = width
        return nn.Sequential(nn.Conv2d(3, 64, 3, 1, 1, bias=False), nn.BatchNorm2d(64), nn.ReLU(inplace=True), *blocks,
                             nn.AdaptiveAvgPool2d(1), nn.Flatten(), nn.Linear(512, 10))

    def mlp():
        return nn.Sequential(nn.Flatten(), nn.Linear(784, 256), nn.ReLU(), nn.Dropout(0.2), nn.Linear(256, 256),
                             nn.ReLU(), nn.Dropout(0.2), nn.Linear(256, 10))

    net = {"mlp": mlp, "lenet": LeNet, "resnet18": resnet18}[name]()
    shape = (3, 32, 32) if name == "resnet18" else (1, 28, 28)
    x, y = torch.randn(BATCH, *shape), torch.randint(10, (BATCH,))
    adam = torch.optim.Adam(net.parameters(), lr=1e-3, weight_decay=1e-6)

    def step():
        adam.zero_grad()
        log_probs = F.log_softmax(net(x), dim=1)
        loss = F.nll_loss(log_probs, y) + (log_probs.exp() * log_probs).sum(1).mean()  # Eq. (4), zeta = 1
        loss.backward()
        adam.step()

    for _ in range(3):
        step()
    start, processor, steps = time.perf_counter(), time.process_time(), 0
    while time.perf_counter() - start < seconds:
        step()
        steps += 1
    print(steps * BATCH / (time.perf_counter() - start), steps * BATCH / (time.process_time() - processor))


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("training_step", help="the program of this name in the build folder")
    parser.add_argument("--repeats", type=int, default=7)
    parser.add_argument("--nets", nargs="+", default=["mlp", "lenet", "resnet18"])
    parser.add_argument("--threads", nargs="+", type=int, default=[1, 2])
    arguments = parser.parse_args()
    print(f"{'net':10} {'threads':>7} {'ours':>10} {'PyTorch':>10} {'ratio':>6}   samples/s")
    for net in arguments.nets:
        seconds = "8" if net == "resnet18" else "1"
        for threads in arguments.threads:
            sides = ([arguments.training_step, net, str(BATCH), seconds, str(threads)],
                     [sys.executable, __file__, "--pytorch", net, str(threads), seconds])
            rates = []
            for _ in range(arguments.repeats):
                both = [subprocess.run(side, check=True, capture_output=True, text=True).stdout.split() for side in sides]
                rates.append([float(rate[1 if threads == 1 else 0]) for rate in both])
            ours, theirs = (statistics.median(column) for column in zip(*rates))
            ratio = statistics.median(a / b for a, b in rates)  # of neighbours in time
            print(f"{net:10} {threads:7} {ours:10.0f} {theirs:10.0f} {ratio:6.2f}", flush=True)


if __name__ == "__main__":
    if sys.argv[1:2] == ["--pytorch"]:
        pytorch_side(sys.argv[2], int(sys.argv[3]), float(sys.argv[4]))
    else:
        main()
