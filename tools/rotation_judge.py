#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
# The rotation threat by brute force: every image of the grid, built as the authors' code describes it (pad by zeros,
# tf.contrib.image.rotate, tf.contrib.image.transform, crop), asked of the model, and compared with a run:
#   tools/rotation_judge.py VITRINE RUN WEIGHTS CIFAR_TEST_BATCH [IMAGES]
# RUN: of vitrine eval WEIGHTS --threat rotation... --attack grid, without --targets. IMAGES: the first so many that are
# right. Needs numpy; with PyTorch, rotations are compared with its grid_sample too. Exit status 1: something differs.
import json, pathlib, subprocess, sys, tempfile

import numpy as np

vitrine, run, weights, batch = sys.argv[1:5]
header, *lines = map(json.loads, pathlib.Path(run, "ledger.jsonl").read_text().splitlines())
grid = header["threat"]["rotation"]
angles, shifts = (np.linspace(-grid[k], grid[k], grid[n]) if grid[n] > 1 else np.zeros(1)
                  for k, n in (("angle", "angles"), ("shift", "shifts")))
PAD = max(16, int(np.ceil(grid["shift"])) + 1)
right = [r["image"] for r in lines if r["entry"] == 0 and r["status"] == "correct"]
right = right[:int(sys.argv[5])] if len(sys.argv) > 5 else right
after = {r["image"]: r for r in lines if r["entry"] == 1}
raw = np.fromfile(batch, np.uint8).reshape(-1, 3073)
adv = np.fromfile(pathlib.Path(run, "adv.bin"), np.float32)


def transform(x, a):
    """tf.contrib.image.transform: pixel (i, j) of the output is the input at (a0 i + a1 j + a2, a3 i + a4 j + a5)."""
    h, w = x.shape[1:]
    j, i = np.mgrid[:h, :w].astype(np.float64)
    u, v = a[0] * i + a[1] * j + a[2], a[3] * i + a[4] * j + a[5]
    u0, v0 = np.floor(u), np.floor(v)

    def read(q, p):  # the fill value outside is 0
        ok = (p >= 0) & (p < w) & (q >= 0) & (q < h)
        return np.where(ok, x[:, np.clip(q, 0, h - 1).astype(int), np.clip(p, 0, w - 1).astype(int)], 0)

    top = (u0 + 1 - u) * read(v0, u0) + (u - u0) * read(v0, u0 + 1)
    bottom = (u0 + 1 - u) * read(v0 + 1, u0) + (u - u0) * read(v0 + 1, u0 + 1)
    return (v0 + 1 - v) * top + (v - v0) * bottom


def rotate(x, degrees):
    h, w = x.shape[1:]
    c, s = np.cos(degrees * np.pi / 180), np.sin(degrees * np.pi / 180)
    x0, y0 = (w - 1 - (c * (w - 1) - s * (h - 1))) / 2, (h - 1 - (s * (w - 1) + c * (h - 1))) / 2
    return transform(x, (c, -s, x0, s, c, y0))


def all_images(x):
    """[points, C, H, W] in double, and the angle and translations of each."""
    padded = np.pad(x, ((0, 0), (PAD, PAD), (PAD, PAD)))
    turned = [rotate(padded, a) for a in angles]
    at = [(tx, ty, k) for tx in shifts for ty in shifts for k in range(len(angles))]
    moved = [transform(turned[k], (1, 0, -tx, 0, 1, -ty))[:, PAD:-PAD, PAD:-PAD] for tx, ty, k in at]
    return np.stack(moved), [(angles[k], tx, ty) for tx, ty, k in at]


def predictions(x, label, where):
    """The model's classes of x [n,C,H,W], by vitrine probe."""
    tensors = {"x": x.astype("<f4"), "labels": np.full(len(x), label, "<i8")}
    about, at = {}, 0
    for name, t in tensors.items():
        about[name] = {"dtype": {"x": "F32", "labels": "I64"}[name], "shape": t.shape, "data_offsets": [at, at + t.nbytes]}
        at += t.nbytes
    text = json.dumps(about).encode()
    text += b" " * (-len(text) % 8)
    (where / "in.safetensors").write_bytes(len(text).to_bytes(8, "little") + text + b"".join(t.tobytes() for t in tensors.values()))
    subprocess.run([vitrine, "probe", weights, "--input", where / "in.safetensors", "--out", where / "out.safetensors"],
                   check=True, stdout=subprocess.DEVNULL)
    out = (where / "out.safetensors").read_bytes()
    n = int.from_bytes(out[:8], "little")
    low, high = json.loads(out[8:8 + n])["logits"]["data_offsets"]
    return np.frombuffer(out[8 + n + low:8 + n + high], "<f4").reshape(len(x), -1).argmax(1)


agree = fell = queries = points = far = 0
worst = 0.0
with tempfile.TemporaryDirectory() as folder:
    for image in right:
        x = (raw[image, 1:].astype(np.float32) / np.float32(255)).astype(np.float64).reshape(3, 32, 32)
        label, line = int(raw[image, 0]), after[image]
        images, where = all_images(x)
        wrong = predictions(images, label, pathlib.Path(folder)) != label
        agree += (line["status"] == "broken") == bool(wrong.any())
        fell += bool(wrong.any())
        queries += line["status"] == "broken" or line["forwards"] == len(images)
        if line["status"] != "broken":
            continue
        y = adv[line["adv"] // 4:][:images[0].size].reshape(images[0].shape).astype(np.float64)
        gap = np.abs(images - y).max((1, 2, 3))
        best = int(gap.argmin())
        worst, points = max(worst, gap[best]), points + 1
        far += not (gap[best] <= 2.0 ** -24 and wrong[best])  # rounding below 1 is 2^-25, doubles differ by 1e-11
print(f"{len(right)} images, {len(where)} points each: verdicts agree {agree} ({fell} fall), counts of queries {queries}")
print(f"{points} stored points: {points - far} are a misclassified image of the grid, at most {worst:.3g} from it")
try:
    import torch
    t = torch.from_numpy(x[None])
    off = 0.0
    for k in range(0, len(angles), max(1, len(angles) // 5)):
        c, s = np.cos(angles[k] * np.pi / 180), np.sin(angles[k] * np.pi / 180)
        theta = torch.tensor([[[c, -s, 0], [s, c, 0]]], dtype=torch.float64)
        field = torch.nn.functional.affine_grid(theta, t.shape, align_corners=True)
        theirs = torch.nn.functional.grid_sample(t, field, align_corners=True)[0].numpy()
        off = max(off, np.abs(theirs - rotate(np.pad(x, ((0, 0), (PAD, PAD), (PAD, PAD))), angles[k])[:, PAD:-PAD, PAD:-PAD]).max())
    print(f"rotations differ from grid_sample's by at most {off:.3g}")
    far += not off <= 1e-12
except ImportError:
    pass
sys.exit(far > 0 or agree < len(right) or queries < len(right))
