#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
"""Reference numbers for the evaluators that papers ran, from PyTorch in double: writes
tests/fixtures/golden/published.safetensors.

    gen_published_fixture.py [OUT]

A transcription of what the released code of Mo et al. 2022 and SpecFormer does, in its own units (normalised tensors, a
whole batch at once, limits per channel), of TRADES' loop, and of SpecFormer's FGSM on normalised tensors with the eps
and the box of pixels. The net is the tiny ViT of hooks.safetensors with its head times GAIN (a power of two: exact), so
that some images are right by more than 10. All in double; the images are chosen so that every kind of fate occurs and
no gradient is near zero, where float would step the other way.

x, labels; start [RESTARTS, images, ...]: where a restart begins, in pixels. NAME.path [RESTARTS, STEPS + 1, ...]: the
point before each step and after the last, in pixels. NAME.scored: the point that is scored; NAME.pred: the answer there.
NAME: ce, cw (STEPS steps, two restarts); ce1, cw1 (the first restart alone) and fgsm without path; trades, from `wild`,
a start that leaves the box. clean.margin."""
import os
import sys

import torch
from torch.nn import functional as F

from check_export import read_safetensors
from export_timm import save_safetensors
from gen_fixtures import CIFAR
from gen_hooks_fixture import ROOT, SHAPE
from vit import ViT

GAIN, STEPS, RESTARTS = 32, 5, 2
EPS, ALPHA, TRADES_EPS, TRADES_ALPHA, FGSM_EPS = 2 / 255, 0.75 / 255, 0.008, 0.003, 8 / 255
CANDIDATES, FLAT = 3000, 1e-4  # FLAT: a gradient entry below this share of its image's mean
MEAN, STD = (torch.tensor(v, dtype=torch.float64).view(1, 3, 1, 1) for v in CIFAR)


def margin(z, y):
    rank = z.sort(1)[0]
    label = z.gather(1, y[:, None])[:, 0]
    best_other = torch.where(z.argmax(1) == y, rank[:, -2], rank[:, -1])
    return best_other - label


def cw(z, y):
    return torch.maximum(margin(z, y), torch.tensor(-10.0, dtype=z.dtype))


def ce(z, y):
    return F.cross_entropy(z, y, reduction="none")


def between(v, low, high):
    return torch.max(torch.min(v, high), low)


class Net:
    """The network on normalised tensors, and how flat its gradients were."""

    def __init__(self, net):
        self.net, self.flat = net, None

    def logits(self, v):
        with torch.no_grad():
            return self.net(v)

    def gradient(self, v, loss):
        v = v.detach().requires_grad_()
        z = self.net(v)
        g = torch.autograd.grad(loss(z).mean(), v)[0]
        size = g.abs().flatten(1)
        share = size.min(1)[0] / size.mean(1).clamp(min=1e-300)
        live = size.sum(1) > 0
        self.flat = torch.where(live, torch.minimum(self.flat, share), self.flat)
        return z.detach(), g


def released(net, x, y, starts, loss):
    """Per restart the path in pixels; the point that is scored, in pixels."""
    v, eps, alpha = (x - MEAN) / STD, EPS / STD, ALPHA / STD
    low, high = (0 - MEAN) / STD - v, (1 - MEAN) / STD - v
    best, kept, paths = torch.zeros(len(x), dtype=x.dtype), torch.zeros_like(v), []
    for start in starts:
        d = between((start - x) / STD, low, high)
        path = [x + d * STD]
        stopped = False
        for _ in range(STEPS):
            if not stopped:
                z, g = net.gradient(v + d, lambda z: loss(z, y))
                right = (z.argmax(1) == y).view(-1, 1, 1, 1)
                stopped = not right.any()
                stepped = between(between(d + alpha * g.sign(), -eps, eps), low, high)
                d = torch.where(right, stepped, d)
            path.append(x + d * STD)
        last = loss(net.logits(v + d), y)
        better = (last >= best).view(-1, 1, 1, 1)
        kept, best = torch.where(better, d, kept), torch.maximum(best, last)
        paths.append(torch.stack(path))
    return torch.stack(paths), x + kept * STD, net.logits(v + kept).argmax(1)


def trades(net, x, y, start):
    x_adv, path = start, [start]
    for _ in range(STEPS):
        g = net.gradient((x_adv - MEAN) / STD, lambda z: ce(z, y))[1]
        x_adv = (x + (x_adv + TRADES_ALPHA * g.sign() - x).clamp(-TRADES_EPS, TRADES_EPS)).clamp(0, 1)
        path.append(x_adv)
    return torch.stack(path)[None], x_adv, net.logits((x_adv - MEAN) / STD).argmax(1)


def fgsm(net, x, y):
    v = (x - MEAN) / STD
    g = net.gradient(v, lambda z: ce(z, y))[1]
    moved = between(v + FGSM_EPS * g.sign(), v - FGSM_EPS, v + FGSM_EPS).clamp(0, 1)
    return moved * STD + MEAN, net.logits(moved).argmax(1)


def run(net, x, y, starts, wild):
    net.flat = torch.ones(len(x), dtype=x.dtype)
    out = {}
    for name, loss, n in (("ce", ce, RESTARTS), ("cw", cw, RESTARTS), ("ce1", ce, 1), ("cw1", cw, 1)):
        out[name + ".path"], out[name + ".scored"], out[name + ".pred"] = released(net, x, y, starts[:n], loss)
    out["trades.path"], out["trades.scored"], out["trades.pred"] = trades(net, x, y, wild)
    out["fgsm.scored"], out["fgsm.pred"] = fgsm(net, x, y)
    out["clean.margin"] = margin(net.logits((x - MEAN) / STD), y)
    return out


def fates(o, y):
    """What happens to an image, by name: a mask each."""
    clean, path = o["clean.margin"], o["cw1.path"][0]
    moved = [(path[k + 1] != path[k]).flatten(1).any(1) for k in range(STEPS)]
    broken = o["cw1.pred"] != y
    scored_clean = (o["cw1.scored"] - path[-1]).flatten(1).abs().amax(1) > 1e-9
    return {
        "clamped at -10, never moves": (clean < -10.5) & ~moved[0],
        "right at the end, scored on the clean image": (clean < 0) & moved[-1] & ~broken & scored_clean,
        "broken by the start": (clean < 0) & ~moved[0] & broken,
        "broken on the way, then frozen": (clean < 0) & moved[0] & ~moved[-1] & broken,
        "broken by PGD, not by CW": (clean < 0) & (o["ce1.pred"] != y) & ~broken,
        "wrong, made right by the start, broken again": (clean > 0) & moved[0] & broken,
        "wrong from the first": (clean > 0) & ~moved[0] & broken,
        "another restart is scored": (o["cw.scored"] - o["cw1.scored"]).flatten(1).abs().amax(1) > 1e-9,
        "broken by the normalised FGSM": (clean < 0) & (o["fgsm.pred"] != y),
    }


def main():
    folder = sys.argv[1] if len(sys.argv) > 1 else os.path.join(ROOT, "tests", "fixtures", "golden")
    torch.set_num_threads(1)
    hooks, _ = read_safetensors(os.path.join(ROOT, "tests", "fixtures", "golden", "hooks.safetensors"))
    weights = {name[2:]: torch.tensor(w).double() for name, w in hooks.items() if name.startswith("w.")}
    weights["head.weight"] *= GAIN
    weights["head.bias"] *= GAIN
    vit = ViT(**SHAPE).double().eval()
    vit.load_state_dict(weights)
    net = Net(vit.requires_grad_(False))
    g = torch.Generator().manual_seed(11)
    shape = (CANDIDATES, 3, SHAPE["img_size"], SHAPE["img_size"])
    x = (torch.rand(shape, generator=g) * 1.2 - 0.1).clamp(0, 1)  # some pixels on the border
    x64 = x.double()
    z = net.logits((x64 - MEAN) / STD)
    y = z.argmax(1)
    y[::3] = z.sort(1)[1][::3, -2]
    noise = torch.rand((RESTARTS, *shape), generator=g).double() * 2 - 1
    starts = (x64 + EPS * noise).clamp(0, 1).float()
    wild = (x64 + TRADES_EPS * noise[0]).float()
    found = run(net, x64, y, starts.double(), wild.double())
    sharp, chosen = net.flat > FLAT, []
    for name, mask in fates(found, y).items():
        rows = (mask & sharp).nonzero()[:, 0].tolist()
        print(f"{name}: {len(rows)}, of them {rows[:1]}")
        assert rows, name
        chosen += [r for r in rows if r not in chosen][:1]
    pick = torch.tensor(sorted(chosen))
    out = {"x": x[pick], "labels": y[pick].float(), "start": starts[:, pick], "wild": wild[pick],
           "gain": torch.tensor([float(GAIN)])}
    again = run(net, x64[pick], y[pick], starts[:, pick].double(), wild[pick].double())
    paths = ("ce1.path", "cw1.path")  # the first restart of ce and cw
    out.update({name: t.float() for name, t in again.items() if name not in paths})
    save_safetensors(os.path.join(folder, "published.safetensors"), out, {"torch": torch.__version__})
    for name, mask in fates(again, y[pick]).items():
        print(f"{int(mask.sum())} {name}")


if __name__ == "__main__":
    main()
