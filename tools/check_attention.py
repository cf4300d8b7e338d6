#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
"""Holds the attention maps of `vitrine analyze attention --out DIR` against PyTorch's of the same checkpoint and images.

    check_attention.py DIR MODEL.safetensors CIFAR.bin

For a ViT of timm's names with a class token and CIFAR's binary format, clean images: softmax(q k^T / sqrt(d)) of every head,
their means, and the rollout of Abnar and Zuidema 2020, in double. Exit 1 where any share of attention differs by more
than 1e-12, some thousand times what rounding makes of numbers below 1 in a dozen blocks.

Needs python3-torch and python3-numpy (Debian), nothing else does."""
import json
import pathlib
import re
import struct
import sys

import numpy as np
import torch

from vit import ViT


def tensors(path):
    data = pathlib.Path(path).read_bytes()
    n = struct.unpack("<Q", data[:8])[0]
    head, body = json.loads(data[8 : 8 + n]), data[8 + n :]
    meta = head.pop("__metadata__", {})
    return {k: torch.from_numpy(np.frombuffer(body[slice(*t["data_offsets"])], "<f4").copy().reshape(t["shape"]))
            for k, t in head.items()}, meta


def main():
    folder, weights, images = sys.argv[1:]
    state, meta = tensors(weights)
    dim, patch = state["cls_token"].shape[-1], state["patch_embed.proj.weight"].shape[-1]
    depth = 1 + max(int(k.split(".")[1]) for k in state if k.startswith("blocks."))
    net = ViT(patch_size=patch, embed_dim=dim, depth=depth, num_heads=int(meta["num_heads"]),
              mlp_ratio=state["blocks.0.mlp.fc1.weight"].shape[0] / dim)
    net.load_state_dict(state)
    net = net.double().eval()
    seen = []

    def watch(attn, inputs):
        b, n, d = inputs[0].shape
        q, k, _ = attn.qkv(inputs[0]).reshape(b, n, 3, attn.num_heads, d // attn.num_heads).permute(2, 0, 3, 1, 4)
        seen.append((q * attn.scale @ k.transpose(-2, -1)).softmax(-1))

    for block in net.blocks:
        block.attn.register_forward_pre_hook(watch)
    doc = json.loads(pathlib.Path(folder, "analysis.json").read_text())["results"]["A"]["maps"]
    maps = np.load(pathlib.Path(folder, "maps.npy"))
    numbers = [i["image"] for i in doc["images"]]
    records = np.frombuffer(pathlib.Path(images).read_bytes(), np.uint8).reshape(-1, 3073)[numbers, 1:]
    mean, std = (torch.tensor([float(v) for v in meta[k].split(",")], dtype=torch.float64).view(3, 1, 1)
                 for k in ("mean", "std"))
    x = torch.from_numpy(records.reshape(-1, 3, 32, 32).copy()).float().div(255).double()
    with torch.no_grad():
        said = net((x - mean) / std).argmax(1).tolist()
    assert said == [i["predicted"] for i in doc["images"]], said
    rollout = torch.eye(seen[0].shape[-1], dtype=torch.float64)
    for p in seen:
        rollout = (0.5 * p.mean(1) + 0.5 * torch.eye(p.shape[-1], dtype=torch.float64)) @ rollout
    passes, worst = len(maps) // (len(numbers) * len(doc["maps"])), 0
    maps = maps.reshape(len(numbers), passes, len(doc["maps"]), -1)
    for c, name in enumerate(doc["maps"]):
        block, head = re.search(r"block (\d+)", name), re.search(r"head (\d+)", name)
        p = seen[int(block[1])] if block else rollout.unsqueeze(1)
        p = p[:, int(head[1])] if head else p.mean(1)
        worst = max(worst, np.abs(maps[:, 0, c] - p[:, 0, 1:].numpy()).max())
    print(f"{len(numbers)} images, {len(doc['maps'])} maps each: largest difference {worst:.2e}")
    sys.exit(0 if worst <= 1e-12 else 1)


if __name__ == "__main__":
    main()
