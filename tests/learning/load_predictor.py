"""Loads predictors as a Python user would, without labelshift: load_predictor.py (KIND FILE INPUTS LOGITS)...

KIND is mlp or resnet18; INPUTS are examples as rows of a .npy file, LOGITS what labelshift says of them. The reader is
the safetensors format written out; the nets have the names of PyTorch's tutorials and of torchvision's ResNet-18.
"""
import json
import struct
import sys

import numpy as np
import torch
from torch import nn


def read_safetensors(path):
    with open(path, "rb") as file:
        (length,) = struct.unpack("<Q", file.read(8))
        header = json.loads(file.read(length))
        data = file.read()
    metadata = header.pop("__metadata__")
    tensors = {}
    for name, entry in header.items():
        assert entry["dtype"] == "F32"
        begin, end = entry["data_offsets"]
        tensors[name] = torch.from_numpy(np.frombuffer(data[begin:end], "<f4").reshape(entry["shape"]).copy())
    assert metadata["format"] == "pt"
    return tensors, json.loads(metadata["labelshift-predictor"])


class Mlp(nn.Module):
    def __init__(self, inputs, hidden, classes):
        super().__init__()
        self.fc1 = nn.Linear(inputs, hidden)
        self.fc2 = nn.Linear(hidden, hidden)
        self.fc3 = nn.Linear(hidden, classes)

    def forward(self, x):
        return self.fc3(self.fc2(self.fc1(x.flatten(1)).relu()).relu())


class BasicBlock(nn.Module):
    def __init__(self, inputs, outputs, stride):
        super().__init__()
        self.conv1 = nn.Conv2d(inputs, outputs, 3, stride, 1, bias=False)
        self.bn1 = nn.BatchNorm2d(outputs)
        self.conv2 = nn.Conv2d(outputs, outputs, 3, 1, 1, bias=False)
        self.bn2 = nn.BatchNorm2d(outputs)
        self.downsample = None
        if stride != 1:
            self.downsample = nn.Sequential(nn.Conv2d(inputs, outputs, 1, stride, bias=False), nn.BatchNorm2d(outputs))

    def forward(self, x):
        out = self.bn2(self.conv2(self.bn1(self.conv1(x)).relu()))
        return (out + (x if self.downsample is None else self.downsample(x))).relu()


class ResNet18(nn.Module):
    """torchvision.models.resnet18, but for the stem of small images."""

    def __init__(self, channels, width, classes):
        super().__init__()
        self.conv1 = nn.Conv2d(channels, width, 3, 1, 1, bias=False)
        self.bn1 = nn.BatchNorm2d(width)
        self.layer1 = nn.Sequential(BasicBlock(width, width, 1), BasicBlock(width, width, 1))
        self.layer2 = nn.Sequential(BasicBlock(width, 2 * width, 2), BasicBlock(2 * width, 2 * width, 1))
        self.layer3 = nn.Sequential(BasicBlock(2 * width, 4 * width, 2), BasicBlock(4 * width, 4 * width, 1))
        self.layer4 = nn.Sequential(BasicBlock(4 * width, 8 * width, 2), BasicBlock(8 * width, 8 * width, 1))
        self.fc = nn.Linear(8 * width, classes)

    def forward(self, x):
        x = self.layer4(self.layer3(self.layer2(self.layer1(self.bn1(self.conv1(x)).relu()))))
        return self.fc(x.mean((2, 3)))


def check(kind, path, inputs, expected):
    weights, description = read_safetensors(path)
    net = description["net"]
    channels, height, width = net["shape"]
    classes = len(description["class_names"])
    if kind == "mlp":
        model = Mlp(channels * height * width, int(net["settings"]["hidden"]), classes)
    else:
        model = ResNet18(channels, int(net["settings"]["width"]), classes)
    model.load_state_dict(weights, strict=True)
    model.eval()
    x = np.load(inputs).reshape(-1, channels, height, width).astype(np.float32)
    part = (1, 1, 1, -1) if channels == height == 1 else (1, -1, 1, 1)
    x = (x - np.reshape(net["mean"], part)) * np.reshape(net["scale"], part)
    with torch.no_grad():
        logits = model(torch.from_numpy(x.astype(np.float32))).numpy()
    np.testing.assert_allclose(logits, np.load(expected), rtol=1e-3, atol=1e-4)


arguments = sys.argv[1:]
if not arguments or len(arguments) % 4 or not {"mlp", "resnet18"}.issuperset(arguments[::4]):
    print("usage: load_predictor.py (KIND FILE INPUTS LOGITS)..., KIND being mlp or resnet18", file=sys.stderr)
    sys.exit(2)
while arguments:
    check(*arguments[:4])
    arguments = arguments[4:]
