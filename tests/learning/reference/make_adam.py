"""Prints what optimiser_test.cpp compares with: parameters after 100 steps of torch.optim.Adam."""
import math

import torch

w = torch.nn.Parameter(torch.linspace(-1, 1, 8))
adam = torch.optim.Adam([w], lr=1e-2, weight_decay=1e-3)
for t in range(100):
    w.grad = torch.tensor([math.sin(0.7 * i + 0.1 * t) * 10.0 ** (i - 4) for i in range(8)])
    adam.step()
print(", ".join(f"{x:.8g}F" for x in w.tolist()))
