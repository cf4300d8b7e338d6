#!/usr/bin/python3
# SPDX-License-Identifier: MIT
"""Honest networks of unusual make, none of which the self-test may accuse.

    tools/honest_networks.py --list
    tools/honest_networks.py --make NAME|derived|all -o DIR [--vitrine build/vitrine]

Writes DIR/NAME/model.safetensors, and DIR/NAME/data.npz if the classes are not those of
datasets/shapes10. Some networks are derived from weights/shapes10-plain by numpy alone; the others
are trained by vitrine on images that it draws, each in 10 to 45 s of one core. Run from the root of
the repository. tools/selftest_cases.sh runs the self-test on all of them."""
import argparse
import os
import re
import shutil
import subprocess
import sys
import tempfile

import numpy as np

sys.path.insert(0, os.path.dirname(os.path.abspath(__file__)))
from widened import Net, Source, depth, load, logits, normalise, save, stream  # noqa: E402

PLAIN, TESTS = "weights/shapes10-plain", "datasets/shapes10"
READERS = ("attn.qkv", "mlp.fc1")  # linear layers that read the stream through a norm
WRITERS = ("attn.proj", "mlp.fc2")


# ---- derived: numpy alone. Each returns tensors and metadata ----

def plain():
    w, meta = load(PLAIN)
    return w, {k: v for k, v in meta.items() if k not in ("recipe", "tensors_sha256")}


def folded(w):
    """The same function with every norm's weight 1 and bias 0: the next linear layer takes them."""
    w = dict(w)
    pairs = [(f"blocks.{i}.{n}", f"blocks.{i}.{r}") for i in range(depth(w))
             for n, r in zip(("norm1", "norm2"), READERS)]
    for norm, reader in pairs + [("norm", "head")]:
        gamma, beta = w[f"{norm}.weight"], w[f"{norm}.bias"]
        w[f"{reader}.bias"] = w[f"{reader}.bias"] + w[f"{reader}.weight"] @ beta
        w[f"{reader}.weight"] = w[f"{reader}.weight"] * gamma
        w[f"{norm}.weight"], w[f"{norm}.bias"] = np.ones_like(gamma), np.zeros_like(beta)
    return w


def turned(w, seed=0):
    """The stream turned by a random orthogonal matrix that keeps the vector of ones: LayerNorm turns
    with it, so the function stays exactly; no channel is a feature any more."""
    w = folded(w)
    n = len(w["norm.weight"])
    rng = np.random.default_rng(seed)
    basis = np.linalg.qr(np.column_stack([np.ones(n), rng.standard_normal((n, n - 1))]))[0]
    inner = np.linalg.qr(rng.standard_normal((n - 1, n - 1)))[0]
    q = np.full((n, n), 1 / n) + basis[:, 1:] @ inner @ basis[:, 1:].T
    for name, v in w.items():
        part = name.rsplit(".", 1)[0]
        if part.endswith(READERS) or part == "head":
            w[name] = v @ q.T if name.endswith("weight") else v
        elif part.endswith(WRITERS) or part == "patch_embed.proj":
            w[name] = np.tensordot(q, v, 1)
        elif name in ("cls_token", "pos_embed"):
            w[name] = v @ q.T
    return w


def empty(weight=1.0, turn=False):
    """32 channels that hold nothing; `weight`: of the norms there."""
    net = Net(Source(PLAIN, TESTS, 1))
    w = net.finished()
    for name in w:
        if "norm" in name and name.endswith("weight"):
            w[name][net.d:] = weight
    return turned(w) if turn else w, net.meta


def idle():
    """Eight filters along which images hardly vary, their means kept at a hundredth of the stream in
    channels that no layer reads; turned."""
    net = Net(Source(PLAIN, TESTS, 50))
    channels = [net.channel() for _ in range(8)]
    net.gather(0, [net.pattern(0, code) for code in net.quiet(8)], channels, 1e-3)
    for c in channels:
        net.w["blocks.0.attn.proj.weight"][c] *= 0.01 / np.abs(net.measure(c, 0, True)).max()
    return turned(net.finished()), net.meta


def dead_units():
    """64 hidden units more a block, of ordinary weights, whose biases keep them shut on every image."""
    source, rng = Source(PLAIN, TESTS, 50), np.random.default_rng(0)
    w, meta = plain()
    for i in range(depth(w)):
        x = normalise(stream(source.w, source.meta, source.x, i, True), float(meta["ln_eps"]))
        rows = rng.standard_normal((64, x.shape[-1])) / 8
        reach = (x * w[f"blocks.{i}.norm2.weight"] + w[f"blocks.{i}.norm2.bias"]) @ rows.T
        p, write = f"blocks.{i}.mlp.", rng.standard_normal((x.shape[-1], 64)) / 8
        w[p + "fc1.weight"] = np.concatenate([w[p + "fc1.weight"], rows])
        w[p + "fc1.bias"] = np.concatenate([w[p + "fc1.bias"], -6 - reach.max((0, 1))])
        w[p + "fc2.weight"] = np.concatenate([w[p + "fc2.weight"], write], 1)
    return w, meta


def duplicated():
    """Every channel and hidden unit twice: means and variances stay, readers take half of each."""
    w, meta = plain()
    for name, v in w.items():
        part = name.rsplit(".", 1)[0]
        if v.ndim == 2 and (part.endswith(READERS + ("mlp.fc2",)) or part == "head"):
            v = np.concatenate([v, v], 1) / 2
        if part.endswith(WRITERS + ("norm1", "norm2", "mlp.fc1")) or part in ("norm", "patch_embed.proj"):
            v = np.concatenate([v, v], 0)
        w[name] = np.concatenate([v, v], -1) if name in ("cls_token", "pos_embed") else v
    return w, meta


def rotated():
    w, meta = plain()
    return turned(w), meta


def low_rank(rank=16):
    """Of 64 singular values of every matrix of the blocks 32 (attention) or 16 (MLP) are left."""
    w, meta = plain()
    for name, v in w.items():
        if name.startswith("blocks") and v.ndim == 2:
            u, s, t = np.linalg.svd(v, full_matrices=False)
            keep = rank if "fc" in name else 2 * rank
            w[name] = (u[:, :keep] * s[:keep]) @ t[:keep]
    return w, meta


def never():
    """Class 3 is never given: a row of zeros and a bias far below."""
    w, meta = plain()
    w["head.weight"][3], w["head.bias"][3] = 0, -1e4
    return w, meta


def always():
    """Class 3 is always given: constant logits, whose gradient is 0 everywhere."""
    w, meta = plain()
    w["head.weight"][:] = 0
    w["head.bias"][3] = 1
    return w, meta


def favoured():
    """Class 3 is always given by a bias far above; the other logits still move."""
    w, meta = plain()
    w["head.bias"][3] += 1e3
    return w, meta


def spare_classes():
    """100 outputs, the last 90 of which no image is given: rows of real classes, weakened."""
    w, meta = plain()
    rows = np.arange(100) % 10
    factor = np.where(np.arange(100) < 10, 1.0, 0.5)
    w["head.weight"] = w["head.weight"][rows] * factor[:, None]
    w["head.bias"] = w["head.bias"][rows] * factor - np.where(factor < 1, 5.0, 0.0)
    return w, meta


DERIVED = {"empty": empty, "empty-weight-0": lambda: empty(0.0),
           "empty-turned": lambda: empty(turn=True), "idle": idle, "dead-units": dead_units,
           "duplicated": duplicated, "rotated": rotated, "low-rank": low_rank, "float16": plain,
           "bfloat16": plain, "class-never": never, "class-always": always,
           "class-favoured": favoured, "spare-classes": spare_classes}


# ---- trained by vitrine: each takes a trainer and returns the path of a checkpoint ----

class Trainer:
    """Works below the folder tmp, on images of another seed than datasets/shapes10."""

    def __init__(self, vitrine, tmp):
        self.vitrine, self.tmp = vitrine, tmp

    def path(self, name):
        return os.path.join(self.tmp, name)

    @staticmethod
    def call(*words):
        subprocess.run(words, check=True, stdout=subprocess.DEVNULL)

    def run(self, *words):
        self.call(self.vitrine, *words)

    def images(self, count):
        """Bytes [N,3,32,32] and labels of drawn training images."""
        folder = self.path(f"drawn-{count}")
        if not os.path.isdir(folder):
            self.call(os.path.join(os.path.dirname(self.vitrine), "tools", "draw"), "--out", folder, "--train", str(count), "--test", "10", "--seed", "1")
        return self.read(os.path.join(folder, "data_batch_1.bin"))

    @staticmethod
    def read(path):
        rows = np.fromfile(path, np.uint8).reshape(-1, 3073)
        return rows[:, 1:].reshape(-1, 3, 32, 32), rows[:, 0].astype(np.int64)

    def train(self, x, y, *settings, init=PLAIN, form=None):
        """Trains by recipes/shapes10_plain.yaml, from the checkpoint init if it is not None."""
        data, recipe, out = self.path("train.npz"), self.path("recipe.yaml"), self.path("run")
        np.savez(data, x=x, y=y)
        with open("recipes/shapes10_plain.yaml", encoding="utf-8") as f:
            text = f.read()
        if init:  # init has the model's shape, and may have no norms
            text = "".join(part for part in re.split(r"(?m)^(?=\w)", text) if not part.startswith("model:"))
            text = text.replace('  "*norm*": 0\n', "")
        with open(recipe, "w", encoding="utf-8") as f:
            f.write(text)
        shutil.rmtree(out, ignore_errors=True)
        self.run("train", recipe, "--data", data, "--out", out, "--quiet", *(["--init", init] if init else []),
                 *(["--form", form] if form else []),
                 *[word for s in ("probe.images=0",) + settings for word in ("--set", s)])
        return os.path.join(out, "model.safetensors")


def relu(t):
    return t.train(*t.images(8000), "epochs=1", "lr=3e-4", form="act=relu")


def norm_free(t):
    """No norm anywhere: each is replaced by its mean scale over images, taken into the next linear
    layer; then trained further."""
    source = Source(PLAIN, TESTS, 100)
    w, meta = folded(source.w), plain()[1]
    for i in range(depth(w) + 1):
        for norm, half in (("norm1", False), ("norm2", True)) if i < depth(w) else (("norm", False),):
            reader = f"blocks.{i}.{READERS[half]}" if i < depth(w) else "head"
            spread = stream(source.w, source.meta, source.x, i, half).std(-1)
            scale = (spread[:, 0] if reader == "head" else spread).mean()
            v = w[reader + ".weight"]
            w[reader + ".weight"] = (v - v.mean(1, keepdims=True)) / scale
    w = {name: v for name, v in w.items() if "norm" not in name}
    save(t.path("norm-free.safetensors"), w, meta | {"norm": "none", "final_norm": "none"})
    return t.train(*t.images(8000), "epochs=3", "lr=3e-4", init=t.path("norm-free.safetensors"))


def over_trained(t):
    """200 images seen 100 times, never changed, without weight decay: the loss ends near 0."""
    return t.train(*t.images(200), "epochs=100", "augment.crop=0", "augment.flip=0", "weight_decay=0")


def distilled(t):
    """A smaller network that has seen only the answers of shapes10-specformer."""
    w, meta = load("weights/shapes10-specformer")
    w = {k: v.astype(np.float32) for k, v in w.items()}
    x, _ = t.images(8000)
    y = np.concatenate([logits(w, meta, (x[i:i + 100] / 255).astype(np.float32)).argmax(1)
                        for i in range(0, len(x), 100)])
    return t.train(x, y, "epochs=20", "model.patch=8", "model.dim=48", "model.depth=2", init=None)


def two(x, y):
    """Solid shapes against stripes and boards."""
    return (y >= 6).astype(np.int64)


def hundred(x, y):
    """Shape times tenth of mean brightness."""
    return y * 10 + np.searchsorted(np.arange(88, 169, 10), x.mean((1, 2, 3)))


def relabelled(label, classes, *settings):
    def train(t):
        x, y = t.images(8000)
        return t.train(x, label(x, y), f"model.classes={classes}", "init.head=fresh", *settings)
    return train


def pruned(t):
    """Nine of ten weights of every matrix of the blocks are 0: the smallest, in steps, with training
    in between."""
    w, meta = plain()
    path = t.path("pruned.safetensors")
    for share in (0, 0.6, 0.75, 0.83, 0.88, 0.9, 0.9):
        if share:
            rate = 1e-4 if share == 0.9 else 1e-3
            w, meta = load(t.train(*t.images(8000), "epochs=1", f"lr={rate}", init=path))
        for name, v in w.items():
            if name.startswith("blocks") and v.ndim == 2:
                v[np.abs(v) < np.quantile(np.abs(v), share)] = 0
        save(path, w, {k: v for k, v in meta.items() if k not in ("recipe", "tensors_sha256")})
    return path


LABELS = {"two-classes": two, "hundred-classes": hundred, "spare-classes": lambda x, y: y}
TRAINED = {"norm-free": norm_free, "relu": relu, "over-trained": over_trained, "distilled": distilled,
           "two-classes": relabelled(two, 2, "epochs=1"), "hundred-classes": relabelled(hundred, 100, "epochs=4"),
           "pruned": pruned}


def make(name, out, trainer):
    folder = os.path.join(out, name)
    os.makedirs(folder, exist_ok=True)
    path = os.path.join(folder, "model.safetensors")
    if name in DERIVED:
        w, meta = DERIVED[name]()
        save(path, w, meta, {"float16": "F16", "bfloat16": "BF16"}.get(name, "F32"))
    else:
        shutil.copy(TRAINED[name](trainer), path)
    if name in LABELS:
        x, y = trainer.read(os.path.join(TESTS, "test_batch.bin"))
        np.savez(os.path.join(folder, "data.npz"), x=x, y=LABELS[name](x, y))


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--list", action="store_true")
    parser.add_argument("--make", metavar="NAME|all|derived")
    parser.add_argument("-o", "--out", metavar="DIR")
    parser.add_argument("--vitrine", default=os.environ.get("VITRINE", "build/vitrine"))
    a = parser.parse_args()
    if a.list:
        print("\n".join(list(DERIVED) + list(TRAINED)))
        return
    names = {"all": list(DERIVED) + list(TRAINED), "derived": list(DERIVED)}.get(a.make, [a.make])
    if a.out is None or not set(names) <= {*DERIVED, *TRAINED}:
        parser.error("--make takes a name of --list, `derived` or `all`, and needs -o DIR")
    with tempfile.TemporaryDirectory() as tmp:
        for name in names:
            make(name, a.out, Trainer(a.vitrine, tmp))
            print(name, flush=True)


if __name__ == "__main__":
    main()
