# SPDX-License-Identifier: MIT
"""A golden checkpoint in PyTorch behind vitrine --oracle: vit_child.py MODEL.safetensors HEADS. The network is
tools/vit.py, of timm's names; mean and std are CIFAR-10's."""
import os
import sys

ROOT = os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "..")
sys.path[:0] = [os.path.join(ROOT, "python"), os.path.join(ROOT, "tools")]
import vitrine_oracle  # before torch, which may print

import json
import struct

import numpy as np
import torch
from vit import ViT

torch.set_num_threads(1)


def read(path):
    with open(path, "rb") as f:
        n = struct.unpack("<Q", f.read(8))[0]
        head, body = json.loads(f.read(n)), f.read()
    head.pop("__metadata__", None)
    return {
        k: torch.tensor(np.frombuffer(body[slice(*v["data_offsets"])], np.float32).reshape(v["shape"]))
        for k, v in head.items()
    }


class Normalised(torch.nn.Module):
    def __init__(self, net):
        super().__init__()
        self.net = net
        self.register_buffer("mean", torch.tensor([0.4914, 0.4822, 0.4465]).view(1, 3, 1, 1))
        self.register_buffer("std", torch.tensor([0.2470, 0.2435, 0.2616]).view(1, 3, 1, 1))

    def forward(self, x):
        return self.net((x - self.mean) / self.std)


state = read(sys.argv[1])
depth = 1 + max(int(k.split(".")[1]) for k in state if k.startswith("blocks."))
dim, patch = state["pos_embed"].shape[2], state["patch_embed.proj.weight"].shape[2]
hidden = state["blocks.0.mlp.fc1.weight"].shape[0]
side = patch * round((state["pos_embed"].shape[1] - 1) ** 0.5)
classes = state["head.weight"].shape[0]
net = ViT(side, int(patch), classes, int(dim), depth, int(sys.argv[2]), hidden / dim)
net.load_state_dict(state)
vitrine_oracle.serve_torch(Normalised(net), classes=classes, shape=(3, side, side), batch=64, name="vit in torch")
