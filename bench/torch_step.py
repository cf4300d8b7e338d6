# SPDX-License-Identifier: MIT
"""One measurement for the comparisons beside it: images/s of PyTorch on the shape that vitrine is timed on.
gradient: frozen weights, autograd.grad with respect to the input alone. train: the step of a plain training loop, forward,
cross entropy, backward, SGD with momentum and weight decay. Prints one number."""
import json
import os
import sys
import time

import torch

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "tools"))
from convit import ConViT  # noqa: E402
from swin import Swin  # noqa: E402
from vit import ViT  # noqa: E402


def network(shape):
    if "window_size" in shape:
        return Swin(**shape)
    return ConViT(**shape) if "local_up_to_layer" in shape else ViT(**shape)


def gradient_step(shape, x, y):
    model = network(shape).eval()
    for p in model.parameters():
        p.requires_grad_(False)

    def step():
        q = x.clone().requires_grad_()
        loss = torch.nn.functional.cross_entropy(model((q - 0.5) / 0.5), y, reduction="sum")
        torch.autograd.grad(loss, q)

    return step


def training_step(shape, x, y):
    model = network(shape).train()
    optimiser = torch.optim.SGD(model.parameters(), lr=0.01, momentum=0.9, weight_decay=1e-4)

    def step():
        loss = torch.nn.functional.cross_entropy(model((x - 0.5) / 0.5), y)
        optimiser.zero_grad()
        loss.backward()
        optimiser.step()

    return step


def main():
    work, shape, batch, threads, seconds = sys.argv[1], json.loads(sys.argv[2]), *map(int, sys.argv[3:5]), float(sys.argv[5])
    torch.set_num_threads(threads)
    torch.manual_seed(0)
    x = torch.rand(batch, 3, shape["img_size"], shape["img_size"])
    y = torch.arange(batch) % shape["num_classes"]
    step = {"gradient": gradient_step, "train": training_step}[work](shape, x, y)
    step()
    rates = []
    for _ in range(5):
        n, began = 0, time.perf_counter()
        while time.perf_counter() - began < seconds:
            step()
            n += batch
        rates.append(n / (time.perf_counter() - began))
    print(sorted(rates)[2])


if __name__ == "__main__":
    main()
