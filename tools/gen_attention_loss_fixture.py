#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
"""Reference numbers of attention's own losses (src/models/net/attention_loss.h), from PyTorch's autograd in double, on the
tiny ViT and the first image of tests/fixtures/golden/hooks.safetensors: writes attention_loss.safetensors beside it.

    gen_attention_loss_fixture.py [OUT]

For each CASE: CASE.value [1] and CASE.dx [3,8,8], its gradient with respect to the image in [0,1]. LOG: Fu et al. 2022
(post-softmax, mean over heads inside the logarithm). SCORE: Lovisotto et al. 2022 (pre-softmax scores, log-sum-exp over
blocks and heads). mean.1 [4]: mean attention of block 1 to every patch."""
import json
import os
import struct
import sys

import numpy as np
import torch

from export_timm import save_safetensors
from gen_fixtures import CIFAR
from gen_hooks_fixture import ROOT, SHAPE
from vit import Normalised, ViT

TYPES = {"F16": np.float16, "F32": np.float32, "F64": np.float64}
# name: kind, patch, first and last block, class token's query alone, normalised
CASES = {"log.one": ("log", 2, 1, 1, False, False), "log.all": ("log", 0, 0, 2, False, False),
         "kq.raw": ("score", 3, 0, 2, False, False), "kq.normal": ("score", 3, 0, 2, False, True),
         "class.raw": ("score", 1, 0, 2, True, False), "class.normal": ("score", 1, 1, 2, True, True)}


def load(path):
    with open(path, "rb") as f:
        head = json.loads(f.read(struct.unpack("<Q", f.read(8))[0]))
        body = f.read()
    head.pop("__metadata__", None)
    return {name: torch.tensor(np.frombuffer(body[slice(*t["data_offsets"])], TYPES[t["dtype"]]).reshape(t["shape"])
                               .astype(np.float64)) for name, t in head.items()}


def queries_and_keys(model, x):
    """Of every block [heads, tokens, width], from what the qkv layers gave out."""
    seen = []
    hooks = [b.attn.qkv.register_forward_hook(lambda _, __, out: seen.append(out)) for b in model.net.blocks]
    model(x)
    for hook in hooks:
        hook.remove()
    heads = SHAPE["num_heads"]
    parts = [s[0].reshape(s.shape[1], 3, heads, -1).permute(1, 2, 0, 3) for s in seen]
    return [(p[0], p[1]) for p in parts]


def loss(model, x, kind, patch, first, last, class_query, normalised):
    values, scale = [], model.net.blocks[0].attn.scale
    for q, k in queries_and_keys(model, x)[first:last + 1]:
        if kind == "log":
            a = (scale * q @ k.transpose(1, 2)).softmax(-1)
            values.append(a[:, :, 1 + patch].mean(0).log().mean())
            continue
        if normalised:
            q, k = (t / t.norm(dim=-1).mean(1)[:, None, None] for t in (q, k))
        b = scale * (q @ k.transpose(1, 2))[:, :, 1 + patch]
        values.append(torch.logsumexp(b[:, 0] if class_query else b.mean(1), 0))
    values = torch.stack(values)
    return values.sum() if kind == "log" else torch.logsumexp(values, 0)


def main():
    golden = os.path.join(ROOT, "tests", "fixtures", "golden")
    out = sys.argv[1] if len(sys.argv) > 1 else golden
    torch.set_num_threads(1)
    given = load(os.path.join(golden, "hooks.safetensors"))
    net = ViT(**SHAPE)
    net.load_state_dict({name[2:]: w for name, w in given.items() if name.startswith("w.")})
    model = Normalised(net.double().eval(), *CIFAR)
    tensors = {}
    for name, case in CASES.items():
        x = given["x"][:1].clone().requires_grad_()
        value = loss(model, x, *case)
        tensors[name + ".value"] = value.detach().reshape(1)
        tensors[name + ".dx"] = torch.autograd.grad(value, x)[0][0]
    q, k = queries_and_keys(model, given["x"][:1])[1]
    a = (model.net.blocks[0].attn.scale * q @ k.transpose(1, 2)).softmax(-1)
    tensors["mean.1"] = a.mean((0, 1))[1:].detach()
    save_safetensors(os.path.join(out, "attention_loss.safetensors"), tensors, {"torch": torch.__version__})


if __name__ == "__main__":
    main()
