"""Writes the TorchScript files of net_test.cpp beside this script: python3 make_torchscript.py"""
import pathlib

import torch
from torch import nn

HERE = pathlib.Path(__file__).parent


class Small(nn.Module):
    """Images of 1 x 8 x 8, three classes; a batch norm and a dropout, as a user's net may have."""

    def __init__(self):
        super().__init__()
        self.conv = nn.Conv2d(1, 4, 3)
        self.norm = nn.BatchNorm2d(4)
        self.drop = nn.Dropout(0.3)
        self.fc = nn.Linear(4 * 36, 3)

    def forward(self, x):
        return self.fc(self.drop(torch.tanh(self.norm(self.conv(x)))).flatten(1))


torch.manual_seed(1)
torch.jit.script(Small()).save(str(HERE / "small.pt"))
torch.jit.freeze(torch.jit.script(nn.Linear(4, 3)).eval()).save(str(HERE / "frozen.pt"))
