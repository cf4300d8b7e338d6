#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
"""Reference numbers for train/adapt from PyTorch in double: writes tests/fixtures/golden/adapt.safetensors.

    gen_adapt_fixture.py [OUT]

posS [S*S, D]: a random position grid, float32. posS.bilinearT, posS.bicubicT [T*T, D]: torch.nn.functional.interpolate
of its double copy to T x T, align_corners=False, no antialias (Mo et al.; timm 0.5.4). kernel16 [O, 3, 16, 16]: random,
float32. kernel16.to8, .to4 [O, 3, p, p]: the kernel that answers every p x p patch as kernel16 answers the patch enlarged
16/p times by nearest neighbours, read off basis patches through conv2d."""
import os
import sys

import torch
from torch.nn import functional as F

from export_timm import save_safetensors

ROOT = os.path.dirname(os.path.dirname(os.path.abspath(__file__)))
DIM = 4


def resized(grid, side, mode):
    old = int(len(grid) ** 0.5)
    planes = grid.double().reshape(1, old, old, DIM).permute(0, 3, 1, 2)
    planes = F.interpolate(planes, size=(side, side), mode=mode, align_corners=False)
    return planes.permute(0, 2, 3, 1).reshape(side * side, DIM)


def shrunk(kernel, patch):
    basis = torch.eye(3 * patch * patch, dtype=torch.float64).reshape(-1, 3, patch, patch)
    large = F.interpolate(basis, scale_factor=16 // patch, mode="nearest")
    answers = F.conv2d(large, kernel.double())  # [3 p p, O, 1, 1]
    return answers.reshape(-1, len(kernel)).T.reshape(-1, 3, patch, patch)


def main():
    out = sys.argv[1] if len(sys.argv) > 1 else os.path.join(ROOT, "tests", "fixtures", "golden")
    torch.set_num_threads(1)
    torch.manual_seed(1)
    tensors = {"kernel16": torch.randn(DIM, 3, 16, 16)}
    for patch in (8, 4):
        tensors[f"kernel16.to{patch}"] = shrunk(tensors["kernel16"], patch)
    for old, new in ((14, 8), (4, 7)):
        tensors[f"pos{old}"] = torch.randn(old * old, DIM)
        for mode in ("bilinear", "bicubic"):
            tensors[f"pos{old}.{mode}{new}"] = resized(tensors[f"pos{old}"], new, mode)
    save_safetensors(os.path.join(out, "adapt.safetensors"), tensors, {"torch": torch.__version__})


if __name__ == "__main__":
    main()
