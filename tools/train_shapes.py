#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
"""Train the small Vision Transformer in weights/shapes10-vit on drawn images, part of each batch adversarially.

    build/tools/draw --out DATA --train 40000 --test 2000 --seed 1
    train_shapes.py DATA OUT                  trains, then writes OUT/model.safetensors and OUT/config.json
    train_shapes.py TEST OUT --evaluate       measures OUT on TEST/test_batch.bin: clean, FGSM, PGD-20, margin-PGD-20

DATA and TEST are folders in the CIFAR-10 binary format. One thread is the default. On some CPUs OpenBLAS falls back
to slow kernels: where AVX-512 is there, OPENBLAS_CORETYPE=SkylakeX and ATEN_CPU_CAPABILITY=avx512 in the environment
make this up to three times faster."""
import argparse
import json
import math
import os
import time

import numpy
import torch
from torch.nn import functional as F

from export_timm import save_config, save_safetensors
from vit import Normalised, ViT

ARGS = {"img_size": 32, "patch_size": 4, "embed_dim": 64, "depth": 4, "num_heads": 2, "mlp_ratio": 2.0}
MEAN = STD = (0.5, 0.5, 0.5)


def read_cifar(path):
    records = torch.from_numpy(numpy.fromfile(path, numpy.uint8).reshape(-1, 3073))
    return records[:, 1:].reshape(-1, 3, 32, 32), records[:, 0].long()


def pixels(levels):
    return levels.float() / 255


def cross_entropy(z, y):
    return F.cross_entropy(z, y, reduction="sum")


def margin(z, y):
    """Sum of max_{j != y} z_j - z_y."""
    others = z.scatter(1, y[:, None], -math.inf)
    return (others.max(1)[0] - z.gather(1, y[:, None])[:, 0]).sum()


def pgd(model, x0, y, eps, alpha, steps, start=None, loss=cross_entropy):
    """Signed gradient steps in the eps ball around x0, in pixel space; returns the last iterate."""
    x = x0 if start is None else start
    for _ in range(steps):
        q = x.clone().requires_grad_()
        g = torch.autograd.grad(loss(model(q), y), q)[0]
        x = torch.min(torch.max(x + alpha * g.sign(), x0 - eps), x0 + eps).clamp(0, 1)
    return x


def right(model, x, y):
    with torch.no_grad():
        return int((model(x).argmax(1) == y).sum())


def measure(model, levels, labels, attack=None, batch=100):
    model.eval()
    total = 0
    for i in range(0, len(labels), batch):
        x, y = pixels(levels[i:i + batch]), labels[i:i + batch]
        total += right(model, attack(x, y) if attack else x, y)
    return total / len(labels)


def train(a):
    torch.manual_seed(a.seed)
    levels, labels = read_cifar(os.path.join(a.data, "data_batch_1.bin"))
    held, held_labels = (t[:a.held] for t in read_cifar(os.path.join(a.data, "test_batch.bin")))
    net = ViT(num_classes=10, **ARGS)
    model = Normalised(net, MEAN, STD)
    decayed = [p for p in net.parameters() if p.ndim == 2 or p.ndim == 4]
    others = [p for p in net.parameters() if p.ndim == 1 or p.ndim == 3]
    optimiser = torch.optim.AdamW([{"params": decayed, "weight_decay": a.decay},
                                   {"params": others, "weight_decay": 0.0}])
    per_epoch = len(labels) // a.batch
    total, step, started = per_epoch * a.epochs, 0, time.time()
    for epoch in range(a.epochs):
        order, seen = torch.randperm(len(labels)), 0.0
        model.train()
        for k in range(per_epoch):
            pick = order[k * a.batch:(k + 1) * a.batch]
            x, y = pixels(levels[pick]), labels[pick]
            x = x.flip(3) if torch.rand(()) < 0.5 else x
            x = x.flip(2) if torch.rand(()) < 0.5 else x
            progress = step / total
            # The radius grows after a clean start: attacked from the first step, the model learns nothing.
            eps = a.eps / 255 * min(1.0, max(0.0, (progress - a.ramp[0]) / (a.ramp[1] - a.ramp[0])))
            n = int(a.part * a.batch)
            if eps > 0 and n:
                x0 = x[:n]
                start = (x0 + eps * (2 * torch.rand_like(x0) - 1)).clamp(0, 1)
                x = torch.cat([pgd(model, x0, y[:n], eps, a.stride * eps, a.steps, start), x[n:]])
            for group in optimiser.param_groups:
                group["lr"] = a.lr * min(1.0, (step + 1) / a.warmup) * (0.5 + 0.5 * math.cos(math.pi * progress))
            loss = F.cross_entropy(model(x), y)
            optimiser.zero_grad()
            loss.backward()
            torch.nn.utils.clip_grad_norm_(net.parameters(), 1.0)
            optimiser.step()
            seen += loss.item()
            step += 1
        clean = measure(model, held, held_labels)
        robust = measure(model, held[:100], held_labels[:100],
                         lambda x, y: pgd(model, x, y, a.eps / 255, a.eps / 1020, 10))
        print(f"epoch {epoch + 1} loss {seen / per_epoch:.4f} clean {clean:.4f} pgd10 {robust:.4f} "
              f"at {a.eps:g}/255, {time.time() - started:.0f} s", flush=True)
        save(a.out, net)


def save(out, net):
    os.makedirs(out, exist_ok=True)
    save_safetensors(os.path.join(out, "model.safetensors"), net.state_dict(), {"format": "pt"})
    save_config(os.path.join(out, "config.json"), "vit_tiny_patch16_224", ARGS, MEAN, STD, 10, [3, 32, 32])


def load_safetensors(path):
    types = {"F32": numpy.float32, "F16": numpy.float16}
    with open(path, "rb") as f:
        raw = f.read()
    n = int.from_bytes(raw[:8], "little")
    state = {}
    for name, entry in json.loads(raw[8:8 + n]).items():
        if name != "__metadata__":
            b, e = (8 + n + offset for offset in entry["data_offsets"])
            data = numpy.frombuffer(raw[b:e], types[entry["dtype"]])
            state[name] = torch.from_numpy(data.reshape(entry["shape"]).copy())
    return state


def load(folder):
    """The trained model, frozen, taking images in [0, 1]."""
    with open(os.path.join(folder, "config.json")) as f:
        config = json.load(f)
    net = ViT(num_classes=config["num_classes"], **config["model_args"])
    net.load_state_dict(load_safetensors(os.path.join(folder, "model.safetensors")))
    net.requires_grad_(False)
    return Normalised(net, config["pretrained_cfg"]["mean"], config["pretrained_cfg"]["std"]).eval()


def evaluate(a):
    model = load(a.out)
    levels, labels = (t[:a.held] for t in read_cifar(os.path.join(a.data, "test_batch.bin")))
    print(f"{len(labels)} images, clean {100 * measure(model, levels, labels):.2f} %")
    for level in a.levels:
        eps = level / 255
        row = [measure(model, levels, labels, lambda x, y: pgd(model, x, y, eps, alpha, steps, loss=loss))
               for alpha, steps, loss in ((eps, 1, cross_entropy), (eps / 4, 20, cross_entropy), (eps / 4, 20, margin))]
        print(f"eps {level:g}/255: " + ", ".join(
            f"{name} {100 * r:.2f} %" for name, r in zip(("FGSM", "PGD-20", "margin-PGD-20"), row)), flush=True)


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("data", help="folder with data_batch_1.bin and test_batch.bin")
    parser.add_argument("out", help="folder for model.safetensors and config.json")
    parser.add_argument("--evaluate", action="store_true", help="measure instead of train")
    parser.add_argument("--levels", type=float, nargs="+", default=[4, 6, 8, 12, 16], help="eps * 255 to measure at")
    parser.add_argument("--epochs", type=int, default=12)
    parser.add_argument("--batch", type=int, default=64)
    parser.add_argument("--lr", type=float, default=1e-3)
    parser.add_argument("--decay", type=float, default=0.05, help="weight decay of matrices")
    parser.add_argument("--warmup", type=int, default=300, help="steps until the full learning rate")
    parser.add_argument("--eps", type=float, default=5.0, help="radius of the attack in training, in 1/255")
    parser.add_argument("--ramp", type=float, nargs=2, default=[0.2, 0.5],
                        help="parts of the training where the radius starts to grow and where it is full")
    parser.add_argument("--part", type=float, default=0.5, help="part of each batch that is attacked")
    parser.add_argument("--steps", type=int, default=2)
    parser.add_argument("--stride", type=float, default=0.6, help="step size of the attack in radii")
    parser.add_argument("--held", type=int, default=1000, help="test images to use")
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--threads", type=int, default=1)
    a = parser.parse_args()
    torch.set_num_threads(a.threads)
    if a.evaluate:
        evaluate(a)
    else:
        train(a)


if __name__ == "__main__":
    main()
