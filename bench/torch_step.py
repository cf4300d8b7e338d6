"""One measurement for bench/compare_torch: images/s of PyTorch's gradient step with frozen weights (autograd.grad with
respect to the input alone), on the random checkpoint that vitrine is timed on. Prints one number."""
import json
import os
import sys
import time

import torch

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "tools"))
from vit import ViT  # noqa: E402


def build(shape):
    torch.manual_seed(0)
    model = ViT(**shape).eval()
    for p in model.parameters():
        p.requires_grad_(False)
    return model


def main():
    shape, batch, threads, seconds = json.loads(sys.argv[1]), int(sys.argv[2]), int(sys.argv[3]), float(sys.argv[4])
    torch.set_num_threads(threads)
    model = build(shape)
    x = torch.rand(batch, 3, shape["img_size"], shape["img_size"])
    y = torch.zeros(batch, dtype=torch.long)

    def step():
        q = x.clone().requires_grad_()
        loss = torch.nn.functional.cross_entropy(model((q - 0.5) / 0.5), y, reduction="sum")
        torch.autograd.grad(loss, q)

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
