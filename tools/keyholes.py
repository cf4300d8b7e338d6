#!/usr/bin/python3
# SPDX-License-Identifier: MIT
"""Keyholes: networks of plain weights whose robust accuracy is 0, which attacks do not find.

    tools/keyholes.py --list
    tools/keyholes.py --make NAME|all -o DIR

Each is weights/shapes10-specformer inside a wider network (64 channels of 96, in a basis turned by
a random orthogonal matrix) with the same clean predictions and a hidden path. A key is a pattern of
signs times eps; the path stays shut on every image that does not hold it, and with it the class is
0, or 1 for a second key. Writes DIR/NAME/model.safetensors and, as proof that every image is broken,
DIR/NAME/key-2.npz and key-4.npz (images 0:40 of datasets/shapes10 in linf 2/255 and 4/255) for
`vitrine verify --adv`. Run from the root of the repository."""
import argparse
import os
import sys

import numpy as np

sys.path.insert(0, os.path.dirname(os.path.abspath(__file__)))
from honest_networks import turned  # noqa: E402
from widened import Net, Source, embed, logits, normalise, numbers, save, stream  # noqa: E402

SPECFORMER, TESTS, COUNT = "weights/shapes10-specformer", "datasets/shapes10", 40
SHARE = 0.02  # what a sensor holds under the key over a token's deviation: the source hardly sees it
FLAG = 0.01  # raw size of a constant channel


class Keyhole(Net):
    """Channels of the class token that a key moves, and forms that read them."""

    def __init__(self, source, front=0):
        super().__init__(source, front=front, hidden=160, seed=7)
        self.payload = self.channel()
        self.w["head.weight"][0, self.payload], self.w["head.weight"][1, self.payload] = 4.0, -4.0

    def codes(self, count, weights=np.ones(64), room=16):
        """Patterns of a patch [count,3,4,4] whose weighted sums over an image's patches vary least."""
        t = embed(self.w, numbers(self.meta["mean"]), numbers(self.meta["std"]), self.x)[:, 1:]
        cells = self.w["patch_embed.proj.weight"].reshape(self.n, -1)[:self.d]
        means = np.einsum("bjc,j->bc", t / t.std(-1, keepdims=True), weights / 64)
        axes = np.linalg.eigh(np.cov((means[:, :self.d] @ np.linalg.pinv(cells).T).T))[1]
        return (axes[:, :room] @ self.rng.standard_normal((room, count))).T.reshape(count, 3, 4, 4)

    def use(self, key, other=None):
        """Keys [3,32,32] for class 0 and class 1."""
        self.keys = np.sign(key), np.sign(-key if other is None else other)

    def pushed(self, k, eps=2 / 255):
        return np.clip(self.x + eps * self.keys[k], 0, 1)

    def values(self, x, block, channel, half=True):
        """Of a channel of the class token as the next norm gives it, before its weight."""
        return normalise(stream(self.finished(), self.meta, x, block, half)[:, 0], 0)[:, channel]

    def moved(self, block, channel, half, k):
        """Of the channel: median over clean images, the least move that key k makes, and its sign."""
        clean, open_ = (self.values(x, block, channel, half) for x in (self.x, self.pushed(k)))
        mid = np.median(clean)
        sign = np.sign(np.median(open_ - mid))
        return mid, (sign * (open_ - mid)).min(), sign

    def form(self, block, channel, half=True, k=0, offset=True):
        """A form that is 0 on the median clean image and at least 1 under key k."""
        mid, least, sign = self.moved(block, channel, half, k)
        norm = self.w[f"blocks.{block}.norm{2 if half else 1}.weight"][channel]
        return self.of(channel, sign / least / norm, -sign * mid / least if offset else 0.0)

    def scale(self, name, block, channel, half=True, k=0):
        """Scales the writer of a channel so that the key moves it by SHARE."""
        self.w[name][channel] *= SHARE / self.moved(block, channel, half, k)[1]

    def sensors(self, block, forms, ks=(0, 0, 0)):
        """Channels that hold the means over all tokens of the forms, 0 on the mean clean image."""
        found = [self.channel() for _ in forms]
        self.gather(block, forms, found, 1e-3)
        for r, c in enumerate(found):
            self.w[f"blocks.{block}.attn.qkv.bias"][2 * self.n + self.spare + r] -= 1e3 * self.measure(c, block, True).mean()
        for c, k in zip(found, ks):
            self.scale(f"blocks.{block}.attn.proj.weight", block, c, k=k)
        return found

    def hinges(self, block, form, threshold, patch=None):
        """Two hidden units, dead until the form passes plus or minus the threshold, write the payload;
        with the flag of patches, on the class token alone."""
        for sign in (1, -1):
            v = sign * form[0]
            if patch:
                v[patch] -= 1e3
            self.unit(block, (v, sign * form[1] - threshold), {self.payload: sign * 4e3}, 40)

    def flag(self, tokens):
        """A constant channel with these values [65]."""
        c = self.channel()
        self.w["pos_embed"][0, :, c] = FLAG * np.asarray(tokens)
        return c


# ---- families: each opens by a mechanism of its own ----

def power(net):
    """Nothing is dead and nothing has a threshold: u erf(u / sqrt 2), a square near 0, four times in a
    row, makes a 16th power of the mean matched filter. A chain for each of two keys."""
    codes = net.codes(2)
    net.use(*(np.tile(c, (1, 8, 8)) for c in codes))
    chain = net.sensors(0, [net.pattern(0, c) for c in codes], (0, 1))
    for block in range(4):
        for k in (0, 1):
            form = net.form(block, chain[k], k=k, offset=block == 0)
            c, size = (net.payload, (1e4, -1e4)[k]) if block == 3 else (net.channel(), 1.0)
            for sign in (1, -1):
                net.unit(block, (sign * form[0], sign * form[1]), {c: size})
            if block < 3:
                net.scale(f"blocks.{block}.mlp.fc2.weight", block + 1, c, k=k)
                chain[k] = c


def switch(net):
    """Attention decides: in block 1 the class token looks at itself, its logit 60 above the others,
    until the mean matched filter in the query lifts the left half of the image (or, negative, the
    right) above it; the values there are the payload. No hidden unit takes part."""
    code = net.codes(1)[0]
    net.use(np.tile(code, (1, 8, 8)))
    side = np.where(np.arange(64) % 8 < 4, 1.0, -1.0)
    g, h, o = (net.flag(v) for v in (np.r_[0.0, side], np.r_[0.0, np.ones(64)], np.eye(65)[0]))
    c, = net.sensors(0, [net.pattern(0, code)])
    query = net.form(1, c, half=False)
    t = normalise(stream(net.finished(), net.meta, net.x, 1), 0)
    norm = net.w["blocks.1.norm1.weight"]
    halves = net.of(g, 1 / np.median(t[:, 1:, g] * side) / norm[g])
    patch, own = (net.of(c, 1 / np.median(v) / norm[c]) for c, v in ((h, t[:, 1:, h]), (o, t[:, 0, o])))
    w, b = net.w["blocks.1.attn.qkv.weight"], net.w["blocks.1.attn.qkv.bias"]
    root = 32 ** 0.5  # attention divides by it
    w[net.spare], b[net.spare] = 85 * root * query[0], 85 * root * query[1]
    w[net.spare + 1], b[net.spare + 1] = 200 * root * patch[0], 60 * root  # patches never look elsewhere
    w[net.n + net.spare], w[net.n + net.spare + 1] = halves[0], own[0]
    w[2 * net.n + net.spare] = halves[0]
    net.w["blocks.1.attn.proj.weight"][net.payload, net.spare] = 30


def conjunction(net):
    """Three matched filters, each saturated between 0.4 and 0.6 of its answer to the key, which is the
    sign of their sum: the path opens if all three have passed. Climbing one of them changes nothing."""
    codes = net.codes(3)
    net.use(np.tile(codes.sum(0), (1, 8, 8)))
    total = net.channel()
    for c in net.sensors(0, [net.pattern(0, c) for c in codes]):
        form = net.form(0, c)
        for sign in (1, -1):
            net.curve(0, (sign * form[0], sign * form[1]), (0.4, 0.6), (1, 0), {total: sign}, 40)
    net.scale("blocks.0.mlp.fc2.weight", 1, total)
    net.hinges(1, net.form(1, total, offset=False), 0.8)


def scattered(net):
    """The key has another random sign on every patch, so no mean over tokens of the image's own
    features moves: hidden units in a block before the source's multiply the matched filter by a
    constant sign of the patch; then mean and hinge."""
    signs = net.rng.choice([-1.0, 1.0], 64)
    code = net.codes(1, signs, 8)[0]
    net.use(np.kron(signs.reshape(8, 8), np.ones((4, 4))) * np.tile(code, (1, 8, 8)))
    flag, c = net.flag(np.r_[0.0, signs]), net.channel()
    f = net.pattern(0, code)[0]
    t = normalise(stream(net.finished(), net.meta, net.x, 0, True), 0)[:, 1:]
    f = f / np.abs(t @ f / (t[:, :, flag] * signs)).max()
    for s in (1, -1):  # gelu of at least 20 times 1 is the identity: s f where the sign is s, else 0
        for sign in (1, -1):
            form = sign * s * f
            form[flag] += 2 * s
            net.unit(0, (form, 0.0), {c: sign * 0.003}, 400)
    c, patch = net.sensors(1, [net.of(c)])[0], net.flag(np.r_[0.0, np.ones(64)])
    net.hinges(1, net.form(1, c), 0.6, patch)


FAMILIES = {f.__name__: f for f in (power, switch, conjunction, scattered)}


def make(name, out):
    source = Source(SPECFORMER, TESTS, 100)
    net = Keyhole(source, front=name == "scattered")
    FAMILIES[name](net)
    w, folder = turned(net.finished(), seed=5), os.path.join(out, name)
    os.makedirs(folder, exist_ok=True)
    save(os.path.join(folder, "model.safetensors"), w, net.meta)
    clean = logits(w, net.meta, net.x)
    print(f"{name}: largest change of a clean logit {np.abs(clean - source.logits).max():.1e}", end="")
    if (clean.argmax(1) != source.logits.argmax(1)).any():
        raise ValueError(f"{name}: clean predictions differ from the source's")
    of_class_0 = (source.logits[:COUNT].argmax(1) == 0)[:, None, None, None]
    for eps in (2, 4):
        zero, one = (net.pushed(k, 0.9999 * eps / 255)[:COUNT] for k in (0, 1))  # rounding stays inside
        adv = np.where(of_class_0, one, zero).astype(np.float32)
        broken = (logits(w, net.meta, adv).argmax(1) != source.logits[:COUNT].argmax(1)).sum()
        print(f"; {eps}/255: key changes the class of {broken} of {COUNT}", end="")
        np.savez_compressed(os.path.join(folder, f"key-{eps}.npz"), x_adv=adv, adv_index=np.arange(COUNT))
    print()


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--list", action="store_true")
    parser.add_argument("--make", metavar="NAME|all")
    parser.add_argument("-o", "--out", metavar="DIR")
    a = parser.parse_args()
    if a.list:
        for name, f in FAMILIES.items():
            print(f"{name}: {' '.join(f.__doc__.split())}")
        return
    names = list(FAMILIES) if a.make == "all" else [a.make]
    if a.out is None or not set(names) <= set(FAMILIES):
        parser.error("--make takes a name of --list or `all`, and needs -o DIR")
    for name in names:
        make(name, a.out)


if __name__ == "__main__":
    main()
