"""Writes the TorchScript files of reference_test.cpp beside this script: python3 make_nets.py

A TorchScript net starts from the weights in its file, so a plain computation knows where every node starts."""
import pathlib

import torch
from torch import nn

HERE = pathlib.Path(__file__).parent


class Normed(nn.Module):
    """Two columns, three classes, a batch norm ahead of logistic regression."""

    def __init__(self):
        super().__init__()
        self.norm = nn.BatchNorm1d(2)
        self.fc = nn.Linear(2, 3)

    def forward(self, x):
        return self.fc(self.norm(x))


class Plain(nn.Module):
    """Logistic regression of two columns and three classes."""

    def __init__(self):
        super().__init__()
        self.fc = nn.Linear(2, 3)

    def forward(self, x):
        return self.fc(x)


torch.manual_seed(2)
torch.jit.script(Normed()).save(str(HERE / "normed.pt"))
torch.jit.script(Plain()).save(str(HERE / "plain.pt"))
