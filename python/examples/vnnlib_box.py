#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
"""VNN-LIB specifications of images of CIFAR-10: can a pixel change of at most EPS (8-bit steps, of 255) give another class?

    vnnlib_box.py cifar-10-batches-bin EPS OUT NETWORK INDEX...

writes OUT/INDEX.vnnlib, in pixels from 0 to 1, and OUT/instances.csv for `vitrine falsify --instances` (NETWORK, 60 seconds
each). Networks that take normalised pixels need X = (pixel - mean) / std here."""
import os
import sys

data, eps, out, network = sys.argv[1:5]
os.makedirs(out, exist_ok=True)
with open(os.path.join(data, "test_batch.bin"), "rb") as f:
    images = f.read()
with open(os.path.join(out, "instances.csv"), "w") as instances:
    for index in map(int, sys.argv[5:]):
        label, *pixels = images[3073 * index:3073 * (index + 1)]
        lines = [f"; image {index} of class {label}"]
        lines += [f"(declare-const X_{i} Real)" for i in range(3072)] + [f"(declare-const Y_{k} Real)" for k in range(10)]
        for i, p in enumerate(pixels):
            lo, hi = max(p - float(eps), 0) / 255, min(p + float(eps), 255) / 255
            lines += [f"(assert (>= X_{i} {lo}))", f"(assert (<= X_{i} {hi}))"]
        others = " ".join(f"(and (>= Y_{k} Y_{label}))" for k in range(10) if k != label)
        with open(os.path.join(out, f"{index}.vnnlib"), "w") as f:
            f.write("\n".join(lines + [f"(assert (or {others}))", ""]))
        instances.write(f"{network},{index}.vnnlib,60\n")
