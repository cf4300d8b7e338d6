#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
"""Reference numbers for the tests, from PyTorch in double: writes tests/fixtures/golden.

    gen_fixtures.py [OUT]            all: the mini models and the attacks on weights/shapes10-vit
    gen_fixtures.py OUT --models     the mini models only

NAME.weights.safetensors: a tiny model, every parameter random. NAME.golden.safetensors: inputs x in [0, 1], labels
(odd rows: the predicted class, so that both signs of the margin occur), targets (ranked second among the wrong
classes), logits, each loss, and dx_LOSS, its gradient with respect to x summed over the batch; grad.TENSOR, the
gradients of the mean cross-entropy; all by a double copy of the float32 weights fed with the stored float32 x.
logits_f32 and dx_ce_f32 are PyTorch's own float32 results. attacks_shapes.safetensors: attacks without random start on
embedded test images, in float32 and in double; points on the pixel grid are stored as U8 levels. One thread; another
BLAS kernel may change last digits, and with them, rarely, a float32 trajectory."""
import argparse
import copy
import hashlib
import json
import os
import platform

import numpy
import torch
from torch import nn
from torch.nn import functional as F

from convit import ConViT
from export_timm import save_safetensors
from train_shapes import load, pixels, read_cifar
from vit import Normalised, ViT

ROOT = os.path.dirname(os.path.dirname(os.path.abspath(__file__)))
HALF = ((0.5, 0.5, 0.5), (0.5, 0.5, 0.5))
IMAGENET = ((0.485, 0.456, 0.406), (0.229, 0.224, 0.225))
CIFAR = ((0.4914, 0.4822, 0.4465), (0.2470, 0.2435, 0.2616))
BASE = {"img_size": 8, "patch_size": 4, "num_classes": 10, "embed_dim": 16, "depth": 2, "num_heads": 2}

# name: arguments beyond BASE, (mean, std), images, seed. A name ending in _dimscale scales attention by dim ** -0.5.
MODELS = {
    "vit_cls": ({}, CIFAR, 3, 1),
    "vit_avg_nobias": ({"global_pool": "avg", "qkv_bias": False}, HALF, 3, 2),
    "deit_dist": ({"distilled": True}, IMAGENET, 2, 3),
    "vit_dimscale": ({"mlp_ratio": 3.0}, HALF, 3, 4),
    "vit_k3": ({"num_classes": 3, "num_heads": 4}, CIFAR, 3, 5),
    "convit": ({"img_size": 12, "depth": 3, "num_heads": 4, "local_up_to_layer": 2}, IMAGENET, 2, 6),
    "convit_bias": ({"img_size": 16, "depth": 2, "qkv_bias": True, "local_up_to_layer": 1}, CIFAR, 2, 7),
}

# name: kind, eps, step size (in 1/255 but for l2), steps
ATTACKS = {
    "fgsm_8": ("fgsm", 8, 0, 1),
    "pgd20_4": ("pgd", 4, 1, 20),
    "pgd20_8": ("pgd", 8, 2, 20),
    "cw20_8": ("cw", 8, 2, 20),
    "l2pgd20_0.5": ("l2", 0.5, 0.1, 20),
}
IMAGES = 8

# ---- losses, one value an image; attacks maximise them ----


def ce(z, y):
    return F.cross_entropy(z, y, reduction="none")


def of(z, index):
    return z.gather(1, index[:, None])[:, 0]


def margin(z, y):
    return z.scatter(1, y[:, None], float("-inf")).max(1)[0] - of(z, y)


def dlr(z, y):
    top = z.sort(1, descending=True)[0]
    return margin(z, y) / (top[:, 0] - top[:, 2] + 1e-12)


def dlr_t(z, y, target):
    """Three classes have no fourth logit: there the denominator is left out."""
    rise = of(z, target) - of(z, y)
    if z.shape[1] < 4:
        return rise
    top = z.sort(1, descending=True)[0]
    return rise / (top[:, 0] - (top[:, 2] + top[:, 3]) / 2 + 1e-12)


def gradient(model, x, loss):
    q = x.clone().requires_grad_()
    z = model(q)
    values = loss(z)
    return z.detach(), values.detach(), torch.autograd.grad(values.sum(), q)[0]


# ---- mini models ----


def randomise(net, g):
    """No parameter keeps a special value (zero bias, unit scale) that could hide a mistake."""
    scales = {id(m.weight) for m in net.modules() if isinstance(m, nn.LayerNorm)}
    with torch.no_grad():
        for name, p in net.named_parameters():
            noise = torch.randn(p.shape, generator=g)
            if id(p) in scales:
                p.copy_(1 + 0.2 * noise)
            elif name.endswith("bias"):
                p.copy_(0.2 * noise)
            elif name in ("cls_token", "dist_token", "pos_embed"):
                p.copy_(0.4 * noise)
            else:
                p.copy_(1.2 * noise / p[0].numel() ** 0.5)


def parameter_gradients(model, x, y):
    names, parameters = zip(*model.net.named_parameters())
    for p in parameters:
        p.requires_grad_(True)
    gradients = torch.autograd.grad(F.cross_entropy(model(x), y), parameters)
    for p in parameters:
        p.requires_grad_(False)
    return dict(zip(names, gradients))


def golden(model, images, size, g):
    double = copy.deepcopy(model).double()
    x = torch.rand(images, 3, size, size, generator=g)
    x64 = x.double()
    z = double(x64)
    y = torch.randint(0, z.shape[1], (images,), generator=g)
    y[1::2] = z.argmax(1)[1::2]
    target = z.scatter(1, y[:, None], float("-inf")).sort(1, descending=True)[1][:, 1]
    out = {"x": x, "labels": y, "targets": target, "logits": z}
    losses = {"ce": lambda z: ce(z, y), "margin": lambda z: margin(z, y), "dlr": lambda z: dlr(z, y),
              "dlr_t": lambda z: dlr_t(z, y, target)}
    for name, loss in losses.items():
        _, out["loss_" + name], out["dx_" + name] = gradient(double, x64, loss)
    for name, value in parameter_gradients(double, x64, y).items():
        out["grad." + name] = value
    out["logits_f32"], _, out["dx_ce_f32"] = gradient(model, x, losses["ce"])
    return out


def make_models(folder):
    table = {}
    for name, (extra, (mean, std), images, seed) in MODELS.items():
        kwargs = {**BASE, **extra}
        scale = kwargs["embed_dim"] ** -0.5 if name.endswith("_dimscale") else None
        convit = "local_up_to_layer" in kwargs
        net = ConViT(**kwargs) if convit else ViT(attn_scale=scale, **kwargs)
        net.requires_grad_(False).eval()
        g = torch.Generator().manual_seed(seed)
        randomise(net, g)
        model = Normalised(net, mean, std)
        family = "ConVit" if convit else "VisionTransformerDistilled" if net.distilled else "VisionTransformer"
        shown = {key: value for key, value in kwargs.items() if key != "distilled"}
        save_safetensors(os.path.join(folder, name + ".weights.safetensors"), net.state_dict(),
                         {"timm_class": family, "kwargs": json.dumps(shown)})
        out = golden(model, images, kwargs["img_size"], g)
        save_safetensors(os.path.join(folder, name + ".golden.safetensors"), out, {"model": name})
        off = {key: float((out[key + "_f32"] - out[key]).abs().max() / out[key].abs().max())
               for key in ("logits", "dx_ce")}
        table[name] = {"timm_class": family, "kwargs": shown, "total_embed_dim": kwargs["embed_dim"], "mean": mean,
                       "std": std, "ln_eps": [1e-6], "attn_scale": [b.attn.scale for b in net.blocks], "seed": seed,
                       "parameters": sum(p.numel() for p in net.parameters()), "f32_vs_f64": off}
        print(name, "margins", [round(float(v), 3) for v in out["loss_margin"]], "f32 off by", off)
    with open(os.path.join(folder, "models.json"), "w") as f:
        json.dump(table, f, indent=1)
        f.write("\n")


# ---- attacks ----


def norms(d):
    return d.flatten(1).norm(dim=1).view(-1, 1, 1, 1)


def attack(model, x0, y, kind, eps, alpha, steps):
    """Returns the last iterate, its logits, and the loss before each step and at the end."""
    loss = (lambda z: margin(z, y).clamp(max=50)) if kind == "cw" else (lambda z: ce(z, y))
    x, history = x0, []
    for _ in range(steps):
        _, values, g = gradient(model, x, loss)
        history.append(values)
        if kind == "fgsm":
            x = (x + eps * g.sign()).clamp(0, 1)
        elif kind == "l2":
            d = x + alpha * g / (norms(g) + 1e-12) - x0
            x = (x0 + d * (eps / (norms(d) + 1e-12)).clamp(max=1)).clamp(0, 1)
        else:
            x = torch.min(torch.max(x + alpha * g.sign(), x0 - eps), x0 + eps).clamp(0, 1)
    z = model(x)
    return x, z, torch.stack(history + [loss(z)])


def make_attacks(folder, weights, test_bin):
    model = load(weights)
    double = copy.deepcopy(model).double()
    levels, labels = (t[:IMAGES] for t in read_cifar(test_bin))
    x, y = pixels(levels), labels
    out, summary = {"labels": y, "clean_pred": model(x).argmax(1), "clean_logits_f64": double(x.double())}, {}
    for name, (kind, eps, alpha, steps) in ATTACKS.items():
        unit = 1 if kind == "l2" else 255
        xa, z, history = attack(model, x, y, kind, eps / unit, alpha / unit, steps)
        xa64, z64, history64 = attack(double, x.double(), y, kind, eps / unit, alpha / unit, steps)
        level = (xa * 255).round()
        grid = float((xa * 255 - level).abs().max()) < 1e-3
        broken, broken64 = z.argmax(1) != y, z64.argmax(1) != y
        out.update({name + ".x_adv": level.to(torch.uint8) if grid else xa,
                    name + ".success": broken.to(torch.uint8), name + ".success_f64": broken64.to(torch.uint8),
                    name + ".pred": z.argmax(1), name + ".margin": margin(z, y), name + ".margin_f64": margin(z64, y),
                    name + ".loss_steps": history, name + ".loss_steps_f64": history64})
        moved = (xa - xa64).abs() > (1e-4 if kind == "l2" else 0.25 / 255)
        over = "" if kind == "l2" else "/255"
        summary[name] = {"kind": kind, "eps": f"{eps:g}{over}", "alpha": f"{alpha:g}{over}", "steps": steps,
                         "stored_as": "U8 level" if grid else "F32", "robust_correct": int((~broken).sum()),
                         "robust_correct_f64": int((~broken64).sum()),
                         "x_adv_elements_differing_f32_f64": int(moved.sum()),
                         "images_with_any_difference": int(moved.flatten(1).any(1).sum()), "elements": xa.numel(),
                         "final_loss_max_abs_diff": float((history[-1] - history64[-1]).abs().max()),
                         "smallest_abs_final_margin": float(margin(z64, y).abs().min())}
        print(name, summary[name])
    save_safetensors(os.path.join(folder, "attacks_shapes.safetensors"), out,
                     {"model": "shapes10-vit", "images": f"0..{IMAGES - 1}"})
    return {"images": [0, IMAGES], "clean_correct": int((out["clean_pred"] == y).sum()), "attacks": summary,
            "made_from": {os.path.relpath(p, ROOT): sha256(p)
                          for p in (os.path.join(weights, "model.safetensors"), test_bin)}}


def sha256(path):
    with open(path, "rb") as f:
        return hashlib.sha256(f.read()).hexdigest()


CONVENTIONS = {
    "input": "x float32 in [0,1], NCHW; (x - mean) / std inside the model, constants in double in the double model",
    "double": "double copy of the float32 weights, fed with double(stored float32 x)",
    "losses": "ce; margin = max_{j!=y} z_j - z_y; dlr = margin / (z_(1) - z_(3) + 1e-12); dlr_t = (z_t - z_y) / "
              "(z_(1) - (z_(3) + z_(4)) / 2 + 1e-12), numerator only with three classes; z_(k): k-th largest of all",
    "gradients": "dx_*: of the sum over the batch; grad.*: of the mean ce",
    "avg": "global_pool avg: mean over patch tokens only, then fc_norm",
    "distilled": "logits = (head(cls) + head_dist(dist)) / 2; pos_embed covers cls, dist, patches",
    "dimscale": "attention scale dim ** -0.5 instead of head_dim ** -0.5",
    "attacks": "no random start, last iterate; pgd: sign step, eps ball, box; cw: pgd on min(margin, 50); l2: "
               "normalised step, ball, box; loss_steps: before each step and at the end; x = level / 255 where U8",
}


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("out", nargs="?", default=os.path.join(ROOT, "tests", "fixtures", "golden"))
    parser.add_argument("--models", action="store_true", help="only the mini models: no attacks, no MANIFEST.json")
    parser.add_argument("--weights", default=os.path.join(ROOT, "weights", "shapes10-vit"))
    parser.add_argument("--test-bin", default=os.path.join(ROOT, "datasets", "shapes10", "test_batch.bin"))
    a = parser.parse_args()
    torch.set_num_threads(1)
    os.makedirs(a.out, exist_ok=True)
    make_models(a.out)
    if a.models:
        return
    attacks = make_attacks(a.out, a.weights, a.test_bin)
    files = [f for f in sorted(os.listdir(a.out)) if f.endswith(".safetensors") or f == "models.json"]
    versions = {"python": platform.python_version(), "torch": torch.__version__, "numpy": numpy.__version__}
    paths = {f: os.path.join(a.out, f) for f in files}
    manifest = {"versions": versions, "conventions": CONVENTIONS, "attacks_shapes": attacks,
                "files": {f: {"bytes": os.path.getsize(p), "sha256": sha256(p)} for f, p in paths.items()}}
    with open(os.path.join(a.out, "MANIFEST.json"), "w") as f:
        json.dump(manifest, f, indent=1)
        f.write("\n")


if __name__ == "__main__":
    main()
