#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
"""Reference numbers for nn/interpolate from PyTorch in double: writes tests/fixtures/golden/interpolate.safetensors.

    gen_interpolate_fixture.py [OUT]

x.HxW [2, H, W]: inputs, dy.HxW [2, H, W]: cotangents. KIND.hxw.HxW.y, .dx: torch.nn.functional.interpolate of x.hxw to
H x W (align_corners=False; KIND bilinear, bicubic, nearest, and bilinear_aa, bicubic_aa with antialias=True), and the
gradient of <y, dy> by x. Made with PyTorch 1.13 (Debian 12)."""
import os
import sys

import torch
from torch.nn import functional as F

from export_timm import save_safetensors

ROOT = os.path.dirname(os.path.dirname(os.path.abspath(__file__)))
KINDS = ("nearest", "bilinear", "bicubic", "bilinear_aa", "bicubic_aa")
# up by 7 as 32 -> 224, up by no whole factor, down, one side alone, one pixel, the same
SIZES = [((4, 4), (28, 28)), ((5, 7), (13, 9)), ((13, 9), (5, 7)), ((12, 10), (3, 10)), ((6, 6), (6, 17)),
         ((1, 3), (4, 1)), ((9, 8), (1, 1)), ((5, 5), (5, 5)), ((3, 11), (17, 4))]


def main():
    out = sys.argv[1] if len(sys.argv) > 1 else os.path.join(ROOT, "tests", "fixtures", "golden")
    torch.set_num_threads(1)
    torch.manual_seed(3)
    tensors = {}
    for small, large in SIZES:
        sides = {"x": small, "dy": large}
        for name, (h, w) in sides.items():
            tensors.setdefault(f"{name}.{h}x{w}", torch.randn(2, h, w, dtype=torch.float64))
        for kind in KINDS:
            x = tensors["x.%dx%d" % small].clone().requires_grad_(True)
            more = {} if kind == "nearest" else {"align_corners": False, "antialias": kind.endswith("_aa")}
            y = F.interpolate(x[None], size=large, mode=kind.replace("_aa", ""), **more)[0]
            y.backward(tensors["dy.%dx%d" % large])
            name = "%s.%dx%d.%dx%d" % (kind, *small, *large)
            tensors[name + ".y"], tensors[name + ".dx"] = y.detach(), x.grad
    save_safetensors(os.path.join(out, "interpolate.safetensors"), tensors, {"torch": torch.__version__})


if __name__ == "__main__":
    main()
