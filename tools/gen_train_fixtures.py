#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
"""Reference numbers for the training tests, from PyTorch: writes tests/fixtures/golden/train_*.safetensors.

    gen_train_fixtures.py [OUT]

train_muon: Muon's formula on matrices. ROWSxCOLS.w0 and .g [STEPS, ROWS, COLS]; .nesterov (steps of Adam's size) and .plain (the
  original size) [2, ROWS, COLS]: the weights after step 1 and STEPS, lr 0.02, weight decay 0.1.
train_optim: torch.optim fed with stored gradients. w0 [N] and g [STEPS, N]; NAME.f64 and NAME.f32 [2, N]: the weights
after the first and the last step in that precision (float32 runs start from the rounded w0 and read the rounded g).
train_model: a tiny model, every parameter random (w.TENSOR), one batch x in [0, 1] and soft targets [STEPS, B, K].
train_steps: what STEPS of cross entropy on that batch make of the weights. sgd.f64, adamw.f64, sgd.f32 .TENSOR: after
the last step; sgd.first.TENSOR: after the first one, of the double run, rounded to float32.
train_loss: TRADES and MART on the batch x and x_adv with labels: NAME.loss, in double, and NAME.grad.TENSOR, rounded to
float32.
train_penalty: MSVP after one power iteration from u [depth, 3, heads, dim] (of which a part takes what it needs), and
the orthogonality terms: NAME.value, in double, and NAME.grad.TENSOR of the tensors that are not zero, rounded.

One thread; another BLAS kernel may change last digits."""
import argparse
import copy
import os

import torch
from torch.nn import functional as F

from export_timm import save_safetensors
from gen_fixtures import CIFAR, ROOT, randomise
from vit import Normalised, ViT

SHAPE = {"img_size": 8, "patch_size": 4, "num_classes": 5, "embed_dim": 16, "depth": 2, "num_heads": 2,
         "mlp_ratio": 2.0}
BATCH, STEPS, CLIP, BETA = 8, 10, 1.0, 6.0
LAMBDA = (0.05, 0.03, 0.01)
OPTIMISERS = {
    "sgd": lambda p: torch.optim.SGD(p, lr=0.1, momentum=0.9, weight_decay=1e-4),
    "nesterov": lambda p: torch.optim.SGD(p, lr=0.1, momentum=0.9, weight_decay=1e-4, nesterov=True),
    "adamw": lambda p: torch.optim.AdamW(p, lr=1e-3, weight_decay=0.05),
}


# ---- optimisers alone ----


def make_optim(folder, g):
    n = 40
    w0 = torch.randn(n, generator=g).double()
    w0[0] = 0
    size = 10.0 ** (4 * torch.rand(n, generator=g) - 3)  # gradients from 1e-3 to 10
    grads = torch.randn(STEPS, n, generator=g, dtype=torch.float64) * size
    out = {"w0": w0, "g": grads}
    for name, make in OPTIMISERS.items():
        for kind, dtype in (("f64", torch.float64), ("f32", torch.float32)):
            w = w0.to(dtype, copy=True).requires_grad_()
            optimiser, kept = make([w]), []
            for step in range(STEPS):
                w.grad = grads[step].to(dtype)
                optimiser.step()
                if step in (0, STEPS - 1):
                    kept.append(w.detach().clone())
            out[name + "." + kind] = torch.stack(kept)
    save_safetensors(os.path.join(folder, "train_optim.safetensors"), out)


# ---- Muon ----


def newton_schulz(u, steps=5):
    """Jordan's iteration on a matrix, in the matrix's own precision (his multiplies in bfloat16)."""
    x = u if u.shape[0] <= u.shape[1] else u.T
    x = x / (x.norm() + 1e-7)
    for _ in range(steps):
        a = x @ x.T
        x = 3.4445 * x + (-4.7750 * a + 2.0315 * (a @ a)) @ x
    return x if u.shape[0] <= u.shape[1] else x.T


def make_muon(folder):
    g = torch.Generator().manual_seed(1)
    out = {}
    for rows, cols in ((6, 10), (10, 6), (7, 7)):
        w0 = torch.randn(rows, cols, generator=g, dtype=torch.float64)
        grads = torch.randn(STEPS, rows, cols, generator=g, dtype=torch.float64)
        key = f"{rows}x{cols}"
        out[key + ".w0"], out[key + ".g"] = w0, grads
        for name, nesterov, adam in (("nesterov", True, True), ("plain", False, False)):
            w, m, kept = w0.clone(), torch.zeros_like(w0), []
            for step in range(STEPS):
                m = 0.95 * m + 0.05 * grads[step]
                u = 0.05 * grads[step] + 0.95 * m if nesterov else m
                size = 0.2 * max(rows, cols) ** 0.5 if adam else max(1, rows / cols) ** 0.5
                w = (1 - 0.02 * 0.1) * w - 0.02 * size * newton_schulz(u)
                if step in (0, STEPS - 1):
                    kept.append(w)
            out[f"{key}.{name}"] = torch.stack(kept)
    save_safetensors(os.path.join(folder, "train_muon.safetensors"), out)


# ---- training a whole model ----


def soft_ce(z, target):
    return -(target * z.log_softmax(1)).sum(1).mean()


def train(model, x, targets, name):
    """Yields the model after each step."""
    optimiser, norms = OPTIMISERS[name](model.net.parameters()), []
    for target in targets:
        optimiser.zero_grad()
        soft_ce(model(x), target).backward()
        norms.append(float(torch.nn.utils.clip_grad_norm_(model.net.parameters(), CLIP)))
        optimiser.step()
        yield model
    print(name, "gradient norms", [round(v, 3) for v in norms])
    assert min(norms) < CLIP < max(norms) or name != "sgd"  # some steps clip, some do not


def make_steps(folder, model, x, targets):
    out = {}
    for name, dtypes in (("sgd", (torch.float64, torch.float32)), ("adamw", (torch.float64,))):
        for dtype in dtypes:
            net = copy.deepcopy(model).to(dtype)
            for step, now in enumerate(train(net, x.to(dtype), targets.to(dtype), name)):
                state = {key: value.detach().clone() for key, value in now.net.named_parameters()}
                if step == 0 and name == "sgd" and dtype == torch.float64:
                    out.update({f"{name}.first.{key}": value.float() for key, value in state.items()})
            kind = "f64" if dtype == torch.float64 else "f32"
            out.update({f"{name}.{kind}.{key}": value for key, value in state.items()})
    for key in model.net.state_dict():  # what rounding alone does, for the tolerance of the float test
        a, b = out["sgd.f32." + key].double(), out["sgd.f64." + key]
        assert float((a - b).abs().max() / b.abs().max()) < 5e-6, key
    save_safetensors(os.path.join(folder, "train_steps.safetensors"), out)


# ---- objectives ----


def trades(z, z_adv, y):
    kl = F.kl_div(z_adv.log_softmax(1), z.softmax(1), reduction="sum")
    return F.cross_entropy(z, y) + BETA / len(y) * kl


def mart(z, z_adv, y):
    p, n = z_adv.softmax(1), z.softmax(1)
    rival = p.detach().scatter(1, y[:, None], -1.0).argmax(1)
    boosted = F.cross_entropy(z_adv, y) - torch.log(1.0001 - p.gather(1, rival[:, None])[:, 0] + 1e-12).mean()
    kl = (n * (n.log() - torch.log(p + 1e-12))).sum(1)
    return boosted + BETA / len(y) * (kl * (1.0000001 - n.gather(1, y[:, None])[:, 0])).sum()


def make_loss(folder, model, x, g):
    net = copy.deepcopy(model).double()
    x_adv = (x + 16 / 255 * torch.randn(x.shape, generator=g).sign()).clamp(0, 1)
    y = torch.randint(0, SHAPE["num_classes"], (BATCH,), generator=g)
    y[::2] = net(x.double()).argmax(1)[::2]  # half of them right
    out = {"x_adv": x_adv, "labels": y}
    for name, loss in (("trades", trades), ("mart", mart)):
        net.zero_grad()
        value = loss(net(x.double()), net(x_adv.double()), y)
        value.backward()
        out[name + ".loss"] = value.reshape(1)
        out.update({f"{name}.grad.{key}": p.grad.float() for key, p in net.net.named_parameters()})
    save_safetensors(os.path.join(folder, "train_loss.safetensors"), out)


# ---- penalties ----


def msvp(net, u0, split):
    """Penalty with u and v held constant after one power iteration from u0 [depth, 3, heads, dim]."""
    heads, total = SHAPE["num_heads"], 0
    for block, u_block in zip(net.blocks, u0):
        for w, u_branch, weight in zip(block.attn.qkv.weight.chunk(3), u_block, LAMBDA):
            parts = {"rows": w.chunk(heads, 0), "columns": w.chunk(heads, 1), "whole": [w]}[split]
            for part, u in zip(parts, u_branch):
                with torch.no_grad():
                    v = part.t() @ u[:len(part)]
                    v = v / (v.norm() + 1e-12)
                    u = part @ v
                    u = u / (u.norm() + 1e-12)
                total = total + weight * (u @ part @ v) ** 2
    return total


def gap(p):
    """||P^T P - I||_F^2"""
    return ((p.t() @ p - torch.eye(p.shape[1], dtype=p.dtype)) ** 2).sum()


def ortho(net, form):
    total = 0
    for block in net.blocks:
        four = list(block.attn.qkv.weight.chunk(3)) + [block.attn.proj.weight]
        total = total + {"stack": lambda: gap(torch.cat(four, 0)), "wide": lambda: gap(torch.cat(four, 1)),
                         "each": lambda: sum(gap(w) for w in four),
                         "lf": lambda: gap(block.mlp.fc1.weight) + gap(block.mlp.fc2.weight)}[form]()
    return total


def make_penalty(folder, model, g):
    net = copy.deepcopy(model.net).double()
    u = torch.randn(SHAPE["depth"], 3, SHAPE["num_heads"], SHAPE["embed_dim"], generator=g)
    out = {"u": u, "lambda": torch.tensor(LAMBDA, dtype=torch.float64)}
    cases = {"msvp." + split: (msvp, u.double(), split) for split in ("rows", "columns", "whole")}
    cases.update({"ortho." + form: (ortho, form) for form in ("stack", "wide", "each", "lf")})
    for name, (penalty, *args) in cases.items():
        net.zero_grad(set_to_none=True)
        value = penalty(net, *args)
        value.backward()
        out[name + ".value"] = value.detach().reshape(1)
        out.update({f"{name}.grad.{key}": p.grad.float() for key, p in net.named_parameters() if p.grad is not None})
    save_safetensors(os.path.join(folder, "train_penalty.safetensors"), out)


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("out", nargs="?", default=os.path.join(ROOT, "tests", "fixtures", "golden"))
    a = parser.parse_args()
    torch.set_num_threads(1)
    g = torch.Generator().manual_seed(7)
    make_optim(a.out, g)
    make_muon(a.out)
    net = ViT(**SHAPE)
    randomise(net, g)
    model = Normalised(net, *CIFAR)
    x = torch.rand(BATCH, 3, SHAPE["img_size"], SHAPE["img_size"], generator=g)
    labels = torch.randn(BATCH, SHAPE["num_classes"], generator=g)  # near these at every step, so that it learns
    targets = (labels + 0.2 * torch.randn(STEPS, BATCH, SHAPE["num_classes"], generator=g)).softmax(2)
    weights = {"w." + key: value.detach() for key, value in net.named_parameters()}
    save_safetensors(os.path.join(a.out, "train_model.safetensors"), {**weights, "x": x, "targets": targets})
    make_steps(a.out, model, x, targets)
    make_loss(a.out, model, x, g)
    make_penalty(a.out, model, g)


if __name__ == "__main__":
    main()
