#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
"""Judge an export of vitrine again, in PyTorch: shapes and types, the box, every distance in double, and the class of
every point by a forward of the model (tools/vit.py, so for plain Vision Transformers).

    check_export.py EXPORT --weights model.safetensors --data CIFAR_FOLDER --eps 8/255 [--norm linf]

EXPORT is what `vitrine export` wrote: .npz, .safetensors or a folder of .npy. The data are CIFAR-10's binary files. The
model's heads, mean and std come from the checkpoint's metadata, from config.json beside it, or from --heads, --mean, --std. Exit status 1 when
anything is not as the export says. Needs numpy and torch (Debian: python3-torch)."""
import argparse
import json
import os
import struct
import sys

import numpy as np
import torch

sys.path.insert(0, os.path.dirname(os.path.abspath(__file__)))
from vit import Normalised, ViT  # noqa: E402

TYPES = {"F64": "<f8", "F32": "<f4", "F16": "<f2", "I64": "<i8", "I32": "<i4", "U8": "|u1"}


def read_safetensors(path):
    with open(path, "rb") as f:
        header = json.loads(f.read(struct.unpack("<Q", f.read(8))[0]))
        data = f.read()
    meta = header.pop("__metadata__", {})
    return {name: np.frombuffer(data, TYPES[t["dtype"]], offset=t["data_offsets"][0],
                                count=int(np.prod(t["shape"]))).reshape(t["shape"]) for name, t in header.items()}, meta


def read_export(path):
    if os.path.isdir(path):
        return {f[:-4]: np.load(os.path.join(path, f)) for f in os.listdir(path) if f.endswith(".npy")}
    return dict(np.load(path)) if path.endswith(".npz") else read_safetensors(path)[0]


def cifar(folder, indices):
    """Pixels as torchvision's ToTensor gives them, and labels."""
    raw = np.fromfile(os.path.join(folder, "test_batch.bin"), np.uint8).reshape(-1, 3073)[indices]
    return raw[:, 1:].reshape(-1, 3, 32, 32).astype(np.float32) / np.float32(255), raw[:, 0].astype(np.int64)


def numbers(text):
    return [float(part) for part in text.split(",")]


def build(path, a):
    state, meta = read_safetensors(path)
    beside = os.path.join(os.path.dirname(path), "config.json")
    config = json.load(open(beside)) if os.path.exists(beside) else {}
    heads = a.heads or int(meta.get("num_heads") or config.get("model_args", {}).get("num_heads", 0))
    mean, std = (given or (numbers(meta[key]) if key in meta else config.get("pretrained_cfg", {}).get(key))
                 for key, given in (("mean", a.mean), ("std", a.std)))
    if not (heads and mean and std):
        sys.exit(f"{path}: neither metadata nor config.json tell heads, mean and std: give --heads, --mean, --std")
    _, tokens, dim = state["pos_embed"].shape
    patch = state["patch_embed.proj.weight"].shape[2]
    prefix = 2 if "dist_token" in state else 1
    net = ViT(img_size=round((tokens - prefix) ** 0.5) * patch, patch_size=patch, num_classes=len(state["head.weight"]),
              embed_dim=dim, num_heads=heads, depth=1 + max(int(n.split(".")[1]) for n in state if n.startswith("blocks.")),
              mlp_ratio=len(state["blocks.0.mlp.fc1.weight"]) / dim, qkv_bias="blocks.0.attn.qkv.bias" in state,
              global_pool="avg" if "fc_norm.weight" in state else "token", distilled=prefix == 2)
    net.load_state_dict({n: torch.from_numpy(t.copy()) for n, t in state.items()})
    for module in net.modules():
        if isinstance(module, torch.nn.LayerNorm):
            module.eps = float(meta.get("ln_eps", module.eps))
    return Normalised(net, mean, std).eval()


def classes(net, x):
    with torch.no_grad():
        return np.concatenate([net(torch.from_numpy(x[i:i + 64].copy())).argmax(1).numpy() for i in range(0, len(x), 64)])


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("export")
    parser.add_argument("--weights", required=True)
    parser.add_argument("--data", required=True)
    parser.add_argument("--eps", required=True)
    parser.add_argument("--norm", default="linf", choices=["linf", "l2", "l1"])
    parser.add_argument("--heads", type=int)
    parser.add_argument("--mean", type=numbers)
    parser.add_argument("--std", type=numbers)
    a = parser.parse_args()
    top, _, bottom = a.eps.partition("/")
    eps, bad = float(top) / float(bottom or 1), []

    def check(good, what):
        if not good:
            bad.append(what)

    e = read_export(a.export)
    x, n = e["x_adv"], len(e["x_adv"])
    check(x.dtype == np.float32 and x.ndim == 4 and x.shape[1] == 3, f"x_adv is {x.dtype} {x.shape}")
    for name in ("labels", "indices", "preds"):
        check(e[name].dtype == np.int64 and e[name].shape == (n,), f"{name} is {e[name].dtype} {e[name].shape}")
    check(np.isfinite(x).all() and x.min() >= 0 and x.max() <= 1, f"values run from {x.min()} to {x.max()}")
    check((np.diff(e["indices"]) > 0).all(), "the images are not in ascending order")
    clean, labels = cifar(a.data, e["indices"])
    check((labels == e["labels"]).all(), "labels are not those of the data")
    d = (x.astype(np.float64) - clean.astype(np.float64)).reshape(n, -1)
    far = np.abs(d).max(1) if a.norm == "linf" else np.sqrt((d ** 2).sum(1)) if a.norm == "l2" else np.abs(d).sum(1)
    check((far <= eps).all(), f"{(far > eps).sum()} points lie outside of the ball, the farthest at {far.max():.9g}")
    broken = e["status"] == 1
    check((far[~broken] == 0).all(), "an unbroken image is not the clean one")
    net = build(a.weights, a)
    before, after = classes(net, clean), classes(net, x)
    check((after == e["preds"]).all(), f"{(after != e['preds']).sum()} points have another class in PyTorch: images "
                                       f"{e['indices'][after != e['preds']].tolist()}")
    check((broken == ((before == labels) & (after != labels))).all(), "status is not what PyTorch sees")
    print(f"{n} images, {(before == labels).sum()} right without perturbation, {(after == labels).sum()} with it; "
          f"largest distance {far.max():.9g} of {eps:.9g}")
    for what in bad:
        print(f"{a.export}: {what}")
    sys.exit(1 if bad else 0)


if __name__ == "__main__":
    main()
