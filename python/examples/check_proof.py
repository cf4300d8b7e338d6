#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
"""Checks a file of `vitrine export --proof` with numpy alone: hashes, ball, box, labels, counts; with --weights (the
.safetensors of a plain ViT, class token and pre-norm, or its folder) its hash, and all logits by a forward of its own in
double; with --data CIFAR-10's test_batch.bin (or its folder) the images; with --onnx FILE the logits of any other network (needs onnxruntime)."""
import argparse, hashlib, json, math, os, sys
import numpy as np

def check(good, text):
    print(("ok      " if good else "FAILED  ") + text)
    if not good: sys.exit(1)

def within(path, name): return os.path.join(path, name) if path and os.path.isdir(path) else path

def safetensors(raw):
    end = 8 + int.from_bytes(raw[:8], "little")
    return {k: np.frombuffer(raw[end + v["data_offsets"][0]:end + v["data_offsets"][1]], "<f4").reshape(v["shape"])
            .astype(float) for k, v in json.loads(raw[8:end]).items() if v.get("dtype") == "F32"}
KNOTS = np.linspace(-9, 9, 1 << 20)  # between them GELU is linear to 1e-10, beyond them 0 or x
GELU = np.array([x * (1 + math.erf(x / math.sqrt(2))) / 2 for x in KNOTS])

def vit(w, m, x):
    def linear(t, name): return t @ w[name + ".weight"].reshape(-1, t.shape[-1]).T + w.get(name + ".bias", 0)
    def norm(t, name):
        t = t - t.mean(-1, keepdims=True)
        return t / np.sqrt((t * t).mean(-1, keepdims=True) + m["ln_eps"]) * w[name + ".weight"] + w[name + ".bias"]
    n, c, s, p, h, d = *x.shape[:3], m["patch"], m["heads"], m["dim"]
    x = (x.astype(float) - np.reshape(m["mean"], (c, 1, 1))) / np.reshape(m["std"], (c, 1, 1))
    t = x.reshape(n, c, s // p, p, s // p, p).transpose(0, 2, 4, 1, 3, 5).reshape(n, (s // p) ** 2, -1)
    t = np.concatenate([np.repeat(w["cls_token"], n, 0), linear(t, "patch_embed.proj")], 1) + w["pos_embed"]
    for b in (f"blocks.{i}." for i in range(m["depth"])):
        q, k, v = linear(norm(t, b + "norm1"), b + "attn.qkv").reshape(n, -1, 3, h, d // h).transpose(2, 0, 3, 1, 4)
        a = np.exp((a := q @ k.swapaxes(2, 3) * m["attn_scale"]) - a.max(-1, keepdims=True))
        a = (a / a.sum(-1, keepdims=True) @ v).transpose(0, 2, 1, 3).reshape(n, -1, d)
        t = t + linear(a, b + "attn.proj")
        u = linear(norm(t, b + "norm2"), b + "mlp.fc1")
        t = t + linear(np.where(u > 9, u, np.interp(u, KNOTS, GELU)), b + "mlp.fc2")
    return linear(norm(t, "norm")[:, 0], "head")

p = argparse.ArgumentParser(description=__doc__)
for name in ("proof", "--weights", "--data", "--onnx"): p.add_argument(name)
a, z = p.parse_args(), dict(np.load(p.parse_args().proof))
m, x, y, label, broken = json.loads(bytes(z["manifest"])), z["images"], z["x_adv"], z["labels"], z["status"] == 1
for name, sha in m["arrays"].items(): check(hashlib.sha256(z[name].tobytes()).hexdigest() == sha, "hash of " + name)
d = np.abs(y.astype(float) - x).reshape(len(x), -1)
far = {"linf": d.max(1), "l2": np.sqrt((d * d).sum(1)), "l1": d.sum(1), "l0": (d > 0).sum(1)}[m["norm"]]
check((far <= m["eps_value"] * (1 + 1e-12 * (m["norm"] in ("l1", "l2")))).all(), f"{m['norm']} within {m['eps']}")
check(min(x.min(), y.min()) >= 0 and max(x.max(), y.max()) <= 1 and not far[~broken].any(), "box; the others are clean")
right = z["logits"].argmax(1) == label
check(not right[broken].any() and (z["logits"].argmax(1) == z["preds"]).all(), "labels of the logits")
count = {"images": len(x), "right": right.sum() + broken.sum(), "broken": broken.sum(), "robust": right.sum()}
check(count == m["counts"], "counts: " + ", ".join(f"{v} {k}" for k, v in count.items()))
if a.data:
    rows = np.fromfile(within(a.data, "test_batch.bin"), np.uint8).reshape(-1, 3073)[z["indices"]]
    check((rows[:, 1:].reshape(x.shape) / np.float32(255) == x).all() and (rows[:, 0] == label).all(), "images, labels")
if a.weights:
    raw = open(within(a.weights, "model.safetensors"), "rb").read()
    check(hashlib.sha256(raw).hexdigest() == m["weights"]["sha256"], "hash of the weights")
if a.onnx:
    run = __import__("onnxruntime").InferenceSession(a.onnx)
    net = lambda v: np.concatenate([run.run(None, {run.get_inputs()[0].name: k[None]})[0] for k in v])
elif a.weights:
    w = safetensors(raw)
    net = lambda v: vit(w, m["model"], v)
else: sys.exit("logits were not computed again: give --weights or --onnx")
logits = lambda v: np.concatenate([net(v[i:i + 50]) for i in range(0, len(v), 50)] or [z["logits"][:0]])
off = np.abs(logits(y) - z["logits"]).max() / (1 + np.abs(z["logits"]).max())
check(off <= (1e-3 if a.onnx else 1e-6), f"logits, computed again: {off:.1e} apart")
check((logits(x[broken]).argmax(1) == label[broken]).all(), "clean images of the broken ones are right")
