#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
"""Reference numbers for what training hangs into a model, from PyTorch in double: writes
tests/fixtures/golden/hooks.safetensors.

    gen_hooks_fixture.py [OUT]

w.TENSOR, gate [patches], x, target [images, K]: a tiny ViT, its patch gate (one factor is zero), images and soft
labels; float16 or float32, so that float32 holds them exactly. All else is double, of sum_i CE_i with soft labels, for
the class token ("token.", three images) and for mean pooling with the same weights ("avg.", the first image alone):
POOL.ard.PATTERN, dx when the gradient through block i's attention branch is multiplied by digit i (Mo et al. 2022,
section 4.1: their code has a backward hook on that branch).
POOL.ortho.value = sum of ||A^T A - I||_F^2 over images, blocks and heads; POOL.ortho.dx, .grad.TENSOR: gradients of CE
plus FACTOR times that sum (to keep the file small not those of the MLPs).
POOL.gate.logits, .dx, .grad.TENSOR: with every patch of the normalised image multiplied by its factor; gradients of the
gate and of what stands before the blocks."""
import os
import sys

import torch
from torch.nn import functional as F

from export_timm import save_safetensors
from gen_fixtures import CIFAR, randomise
from vit import Normalised, ViT

ROOT = os.path.dirname(os.path.dirname(os.path.abspath(__file__)))
SHAPE = {"img_size": 8, "patch_size": 4, "num_classes": 5, "embed_dim": 16, "depth": 3, "num_heads": 2,
         "mlp_ratio": 1.5}
IMAGES, FACTOR, PATTERNS = 3, 0.01, ("101", "000", "011")


def soft_ce(z, target):
    return -(target * F.log_softmax(z, 1)).sum()


def dropped(model, pattern, loss, x):
    """dx of the loss with gradients of attention branches multiplied by the digits."""
    hooks = [b.attn.register_full_backward_hook(lambda _, back, __, digit=int(digit): tuple(digit * g for g in back))
             for b, digit in zip(model.net.blocks, pattern)]
    dx = torch.autograd.grad(loss(model(x)), x)[0]
    for hook in hooks:
        hook.remove()
    return dx


def attention_penalty(model, x):
    """Logits, and the sum of ||A^T A - I||_F^2, A recomputed from what the qkv layers gave out."""
    seen, total = [], 0
    hooks = [b.attn.qkv.register_forward_hook(lambda _, __, out: seen.append(out)) for b in model.net.blocks]
    z = model(x)
    for hook in hooks:
        hook.remove()
    for block, qkv in zip(model.net.blocks, seen):
        b, n, d = qkv.shape
        heads = block.attn.num_heads
        q, k, _ = qkv.reshape(b, n, 3, heads, d // 3 // heads).permute(2, 0, 3, 1, 4)
        a = (block.attn.scale * q @ k.transpose(-2, -1)).softmax(-1)
        gram = a.transpose(-2, -1) @ a - torch.eye(n, dtype=a.dtype)
        total = total + (gram ** 2).sum()
    return z, total


def gated(model, gate, x):
    side, patch = SHAPE["img_size"] // SHAPE["patch_size"], SHAPE["patch_size"]
    plane = gate.view(1, 1, side, side).repeat_interleave(patch, 2).repeat_interleave(patch, 3)
    hook = model.net.patch_embed.register_forward_pre_hook(lambda _, args: (args[0] * plane,))
    z = model(x)
    hook.remove()
    return z


def measure(model, gate, x, target):
    """Everything of one pool."""
    x, gate = x.double().requires_grad_(), gate.double().requires_grad_()
    out = {"ard." + p: dropped(model, p, lambda z: soft_ce(z, target), x) for p in PATTERNS}
    names, parameters = zip(*model.net.named_parameters())

    z, value = attention_penalty(model, x)
    out["ortho.value"] = value.detach().reshape(1)
    dx, *grads = torch.autograd.grad(soft_ce(z, target) + FACTOR * value, (x, *parameters))
    out["ortho.dx"] = dx
    out.update({"ortho.grad." + n: g for n, g in zip(names, grads) if ".mlp." not in n and ".norm2." not in n})

    z = gated(model, gate, x)
    out["gate.logits"] = z.detach()
    dx, dgate, *grads = torch.autograd.grad(soft_ce(z, target), (x, gate, *parameters))
    out.update({"gate.dx": dx, "gate.grad.patch_gate": dgate})
    out.update({"gate.grad." + n: g for n, g in zip(names, grads) if "blocks." not in n and "norm" not in n})
    return out


def main():
    out = sys.argv[1] if len(sys.argv) > 1 else os.path.join(ROOT, "tests", "fixtures", "golden")
    torch.set_num_threads(1)
    g = torch.Generator().manual_seed(7)
    net = ViT(**SHAPE)
    randomise(net, g)
    weights = {name: tensor.detach().half() for name, tensor in net.state_dict().items()}
    gate = (0.3 + torch.rand((SHAPE["img_size"] // SHAPE["patch_size"]) ** 2, generator=g)).half()
    gate[2] = 0
    x = torch.rand(IMAGES, 3, SHAPE["img_size"], SHAPE["img_size"], generator=g).half()
    target = (2 * torch.randn(IMAGES, SHAPE["num_classes"], generator=g)).softmax(1)
    tensors = {"gate": gate, "x": x, "target": target, **{"w." + name: w for name, w in weights.items()}}
    for pool, images in (("token", IMAGES), ("avg", 1)):
        net = ViT(global_pool=pool, **SHAPE)
        same = {name.replace("norm.", "fc_norm.") if pool == "avg" and name.startswith("norm.") else name: w.double()
                for name, w in weights.items()}
        net.load_state_dict(same)
        model = Normalised(net.double().eval(), *CIFAR)
        found = measure(model, gate, x[:images], target[:images].double())
        if pool == "avg":  # parameter gradients of one pool are enough
            found = {name: t for name, t in found.items() if ".grad." not in name}
        tensors.update({f"{pool}.{name}": t for name, t in found.items()})
    save_safetensors(os.path.join(out, "hooks.safetensors"), tensors, {"torch": torch.__version__})


if __name__ == "__main__":
    main()
