#!/usr/bin/python3
# SPDX-License-Identifier: MIT
r"""Networks whose gradients mislead, made of weights alone, to test the tester (vitrine selftest).

    tools/masked_networks.py --list
    tools/masked_networks.py --make NAME -o DIR     # or all: DIR/NAME/model.safetensors
    vitrine eval DIR/NAME --data datasets/shapes10 --images 0:40 --eps 2/255 --attack apgd-ce
    vitrine eval DIR/NAME --data datasets/shapes10 --images 0:40 --eps 2/255 --surrogate weights/SOURCE \
        --attack transfer:restarts=5            # the truth: the source's own gradients

Each is an honest Vision Transformer computed exactly inside a wider and deeper one (class Net says how LayerNorm is made
to agree), and blocks that change its logits u but (nearly) never their order. So it is no more robust than its source,
whose adversarial images break it too; only the gradients at a picture do not lead there. In words:

plateau    Hinges turn the logits into steps: a class that is behind the winner by more than a trifle has one fixed score,
           however far behind. Steps have no slope. A leak keeps gradients alive: a fixed pattern of pixels for each class,
           added to its score. It is exact and small, and following it makes the picture safer.
staircase  Many small steps instead of a large one, half a logit or less; the same leak.
shatter    Each logit gets a fast triangle wave of a pattern of pixels which pictures hardly excite, a few tenths of a logit
           high. The sign of the gradient is the wave's, and changes within a fraction of a grey level.
routing    The class shows only in which of ten patches the class token looks at in a last attention; scores are the
           logits times a factor, keys and values positions. Softmax is nearly one-hot, its slope tiny; the leak.
underflow  (by routing) Scores times 40: the slope of softmax vanishes in float32, and for most pictures in the gradient
           that is left a drift of LayerNorm's variance is all that speaks.
rounding   Nothing wrong in exact arithmetic: logits and gradients are the source's. In float32 the backward pass of
           attentions over equal values, whose scores are shifted by a large number, is noise far above the gradient.
mirror     Beyond a narrow crest around the boundary the score rises again with the distance: smooth, alive, exact to first
           order everywhere, no leak needed, and pointing away from the boundary wherever pictures lie.
moat       Scores are honest up to a small distance from the winner's and constant beyond: nothing sudden on any way from one
           class to another, an attack that gets near the boundary succeeds; none gets near. The leak.
saw        Scores zigzag about the honest trend, the wrong way for most of each period: valleys hold an attack.

Needs Debian's python3-numpy. On one machine a network has the same bytes each time. The pictures serve to calibrate
scales and for the leak's patterns."""
import argparse
import math
import os
import sys

os.environ["OPENBLAS_NUM_THREADS"] = "1"  # the last digits of products depend on it; before numpy is loaded
import numpy as np

from widened import HEAD, Net, Source, depth, logits, save, stream


# ---- mechanisms ----

def swing(net, channels, patterns, eps):
    """How far each channel of the class token moves behind the first attention when every pixel follows its pattern by
    eps."""
    w, x, side = net.finished(), net.x[:16], 32 // patterns[0].shape[-1]
    base = stream(w, net.meta, x, 0, True)[:, 0]
    moved = [stream(w, net.meta, x + eps * np.tile(p, (1, side, side)), 0, True)[:, 0] for p in patterns]
    return [np.median(np.abs(m[:, c] - base[:, c])) for m, c in zip(moved, channels)]


def leak(net, moved):
    """For each class a fixed pattern of pixels, collected by the spare head of the first block, that the head reads:
    gradients stay alive and exact. An attack that follows them makes the picture safer for the source. Over a ball of
    4/255 the pattern moves the class's logit by so much."""
    out = net.channels()
    net.gather(0, [net.pattern(0, -s) for s in net.safer], out, 1e-4)
    net.w["head.weight"][range(net.classes), out] = moved / np.array(swing(net, out, net.safer, 4 / 255))


def gaps(net, i, sharp):
    """In block i, for each class k, the channel r_k = sum_j relu(u_j - u_k): 0 for the winner, at least the margin for
    all others."""
    out = net.channels()
    for k in range(net.classes):
        for j in range(net.classes):
            if j != k:
                (a, b), (p, q) = net.logit(j), net.logit(k)
                net.unit(i, (a - p, b - q), {out[k]: 1.0}, sharp)
    return out


def of_gaps(net, knots, slopes, sharp, gap_sharp, moved):
    """Logits z_k = -g(r_k), g piecewise linear from 0."""
    i = net.open_back()
    r, z = gaps(net, i, gap_sharp), net.channels()
    for k in range(net.classes):
        net.curve(i + 1, net.of(r[k]), knots, slopes, {z[k]: -1.0}, sharp)
        net.w["head.weight"][k, z[k]] = 1.0
    if moved:
        leak(net, moved)
    return net


def plateau(source, height=8.0, start=0.05, width=0.05, moved=0.5, seed=0):
    """z_k falls from 0 to -height where r_k goes from start to start + width; flat elsewhere."""
    net = Net(source, back=2, hidden=128, seed=seed)
    return of_gaps(net, [start, start + width], [height / width, 0.0], 20 / width, 200.0, moved)


def staircase(source, step=0.5, steps=16, rise=0.1, moved=0.4, seed=0):
    """z_k falls by `step` at every multiple of `step` of r_k, within a share `rise` of it."""
    net = Net(source, back=2, hidden=20 * steps, seed=seed)
    knots, slopes = [], []
    for n in range(steps):
        at = step * n + 0.05
        knots += [at, at + rise * step]
        slopes += [1 / rise, 0.0]
    return of_gaps(net, knots, slopes, 20 / (rise * step), 100.0, moved)


def mirror(source, crest=1.0, height=6.0, down=((8.0, -0.5),), sharp=8.0, moved=0.2, seed=0):
    """z_k falls by `height` up to r_k = crest, then rises again, ever slower: what is far behind the winner looks nearer
    the farther it is. The gradient at a picture is smooth, exact, alive, and points the wrong way."""
    net = Net(source, back=2, hidden=128, seed=seed)
    knots, slopes, at = [0.05], [height / crest], crest + 0.05
    for length, slope in down:
        knots.append(at)
        slopes.append(slope)
        at += length
    return of_gaps(net, knots + [at], slopes + [0.0], sharp, 100.0, moved)


def shatter(source, amplitude=0.4, folds=(8, 8, 4), reach=1.3, sharp=10.0, seed=0):
    """Each logit gets a triangle wave of its own pattern of pixels, made by folding the pattern's sum in several blocks
    before the source's: small against the margin, far steeper than the source."""
    net = Net(source, front=len(folds), seed=seed)
    cls = (net.w["cls_token"] + net.w["pos_embed"][:, :1])[0, 0]
    sigma = math.sqrt(cls.var() + float(net.meta["ln_eps"]))
    size = 0.02 * sigma
    now = net.channels()
    net.gather(0, [net.pattern(0, p) for p in net.quiet(net.classes)], now, 1.0)
    spread = np.ptp(net.measure(now, 0, True), 0)
    for r, c in enumerate(now):
        net.w["blocks.0.attn.proj.weight"][c, net.spare + r] = size / spread[r]
    v = net.measure(now, 0, True)
    mid, half = (v.max(0) + v.min(0)) / 2, size * reach / 2
    for i, n in enumerate(folds):
        net.w[f"blocks.{i}.norm2.weight"][:] = sigma
        out, piece = (now if i else net.channels()), 2 * half / n
        for k in range(net.classes):
            knots = mid[k] - half + piece * np.arange(n + 1)
            slopes = np.append(np.resize([1.0, -1.0], n), 0.0) * size / piece
            net.curve(i, net.of(now[k]), knots, slopes, {out[k]: 1.0}, sharp / piece)
            if i:
                net.linear(i, net.of(now[k]), {now[k]: -1.0})
            net.w[f"blocks.{i}.mlp.fc2.bias"][out[k]] = -size / 2
        now, mid, half = out, np.zeros(net.classes), size / 2
    net.w["head.weight"][range(net.classes), now] = 2 * amplitude / size * np.median(last_deviation(net))
    return net


def last_deviation(net):
    """The class token's deviation over the source's channels before the final norm."""
    return stream(net.finished(), net.meta, net.x, depth(net.w))[:, 0, :net.d].std(-1)


def routing(source, sharp=4.0, height=8.0, moved=0.5, seed=0):
    """The class passes only through which of ten patches the class token looks at: scores are the logits times `sharp`,
    keys and values are positions."""
    net = Net(source, back=2, seed=seed)
    i = net.open_back()
    u, place = net.channels(), net.channels()
    for k in range(net.classes):
        net.linear(i, net.logit(k), {u[k]: 1.0})
        net.w["pos_embed"][0, 1 + k, place[k]] = 3e-3
    qkv, o = net.w[f"blocks.{i + 1}.attn.qkv.weight"], net.w[f"blocks.{i + 1}.attn.proj.weight"]
    bias = net.w[f"blocks.{i + 1}.attn.qkv.bias"]
    leak(net, moved)
    for k in range(net.classes):
        qkv[net.spare + k, u[k]] = sharp * math.sqrt(HEAD)
        qkv[net.n + net.spare + k, place[k]] = 1 / 3e-3
        qkv[2 * net.n + net.spare + k, place[k]] = 1 / 3e-3
        o[place[k], net.spare + k] = height
        net.w["head.weight"][k, place[k]] = 1.0
    return net


def moat(source, cap=1.5, slope=1.0, sharp=5.0, moved=0.3, seed=0):
    """z_k falls with r_k up to `cap` and stays there: near a boundary all is honest, where pictures lie nothing moves. No
    step is sudden."""
    net = Net(source, back=2, hidden=128, seed=seed)
    return of_gaps(net, [0.05, 0.05 + cap], [slope, 0.0], sharp, 100.0, moved)


def saw(source, period=1.2, share=0.25, up=5.0, down=-1.2, teeth=7, sharp=20.0, moved=0.1, seed=0):
    """z_k zigzags: over a share of a period of r_k it falls, over the rest it rises, not quite as far. The trend is right,
    the gradient at most pictures is wrong, and on the way every valley holds an attack."""
    net = Net(source, back=2, hidden=20 * teeth + 10, seed=seed)
    knots, slopes = [], []
    for n in range(teeth):
        knots += [0.05 + n * period, 0.05 + (n + share) * period]
        slopes += [up, down]
    return of_gaps(net, knots + [0.05 + teeth * period], slopes + [0.0], sharp, 100.0, moved)


def rounding(source, common=1e3, shift=1e7, heads=5, seed=0):
    """The logits are the source's. Beside them attentions whose values are all the same number hand on that number,
    whatever they look at; their scores are all shifted by up to `shift` times a pattern, which softmax does not notice.
    In the backward pass both cancel only as far as float32 goes: what is left of `common` times `shift` drowns the
    gradient. In double it is right. The last block stays out of it: of one query's attention alone the shift need not
    even be formed (vitrine does not)."""
    net = Net(source, back=2 + heads, seed=seed)
    i = net.open_back(True)
    u, phi, same = net.channels(), net.channel(), net.channel()
    for k in range(net.classes):
        net.linear(i, net.logit(k), {u[k]: 1.0})
        net.w["head.weight"][k, u[k]] = 1.0
    pattern = net.quiet(1, 0.2)[0]
    net.gather(0, [net.pattern(0, pattern)], [phi], 1e-4)
    gain, mean = shift / swing(net, [phi], [pattern], 4 / 255)[0], net.measure(phi, 1).mean()
    for j in range(i + 1, i + 1 + heads):
        p, k = f"blocks.{j}.attn.", net.n + net.spare
        net.w[p + "qkv.weight"][net.spare, phi] = gain
        net.w[p + "qkv.bias"][net.spare] = -gain * mean
        net.w[p + "qkv.bias"][k] = math.sqrt(HEAD)
        net.w[p + "qkv.bias"][net.spare + 1:net.spare + 9] = 1.0
        net.w[p + "qkv.weight"][k + 1:k + 9, 2:net.d] = net.rng.standard_normal((8, net.d - 2)) / 20
        net.w[p + "qkv.bias"][2 * net.n + net.spare] = 10.0
        net.w[p + "proj.weight"][same, net.spare] = 1.0
    rho = net.rng.permutation(np.linspace(-1.0, 1.0, net.classes)) * common / 10
    net.w["head.weight"][:, same] = rho
    net.w["head.bias"] -= 10 * heads * rho
    return net


# ---- the list ----

PLAIN, VIT, ROBUST = "shapes10-plain", "shapes10-vit", "shapes10-specformer"
GENTLE = {"crest": 2.0, "height": 4.0, "down": ((6.0, -0.3),), "sharp": 4.0}
NETWORKS = {  # name: mechanism, source, knobs
    "plateau": (plateau, PLAIN, {}),
    "plateau-vit": (plateau, VIT, {"height": 5.0, "seed": 1}),
    "plateau-wide": (plateau, PLAIN, {"start": 0.2, "width": 0.5, "height": 6.0, "seed": 2}),
    "plateau-lure": (plateau, PLAIN, {"moved": 3.0, "height": 10.0, "seed": 3}),
    "staircase": (staircase, PLAIN, {}),
    "staircase-fine": (staircase, PLAIN, {"step": 0.25, "steps": 32, "rise": 0.05, "seed": 1}),
    "staircase-vit": (staircase, VIT, {"seed": 2}),
    "shatter": (shatter, PLAIN, {}),
    "shatter-vit": (shatter, VIT, {"amplitude": 0.25, "seed": 1}),
    "shatter-large": (shatter, PLAIN, {"amplitude": 0.6, "seed": 2}),
    "routing": (routing, PLAIN, {}),
    "routing-soft": (routing, PLAIN, {"sharp": 1.5, "seed": 1}),
    "routing-vit": (routing, VIT, {"seed": 2}),
    "underflow": (routing, PLAIN, {"sharp": 40.0, "moved": 0.001}),
    "underflow-plain": (routing, PLAIN, {"sharp": 40.0, "moved": 0.0, "seed": 1}),
    "rounding": (rounding, PLAIN, {}),
    "mirror": (mirror, PLAIN, {}),
    "mirror-vit": (mirror, VIT, {"crest": 0.6, "height": 4.0, "down": ((5.0, -0.5),), "seed": 1}),
    "moat": (moat, PLAIN, {}),
    "moat-wide": (moat, PLAIN, {"cap": 2.5, "seed": 1}),
    "saw": (saw, PLAIN, {}),
    # the four that should be hardest to notice: nothing sudden, nothing dead, hardly a pattern
    "quiet-mirror": (mirror, PLAIN, {**GENTLE, "seed": 4}),
    "quiet-moat": (moat, PLAIN, {"cap": 2.0, "slope": 2.0, "sharp": 2.0, "moved": 1.5, "seed": 5}),
    "quiet-mirror-vit": (mirror, VIT, {"crest": 1.2, "height": 3.0, "down": ((5.0, -0.25),), "sharp": 4.0, "seed": 6}),
    "quiet-moat-vit": (moat, VIT, {"cap": 1.0, "slope": 3.0, "sharp": 4.0, "moved": 1.0, "seed": 7}),
}


def make(name, folder, source):
    """Writes folder/name/model.safetensors; prints on how many pictures it agrees with its source."""
    mechanism, origin, knobs = NETWORKS[name]
    net = mechanism(source, **knobs)
    tensors = net.finished()
    same = (source.logits.argmax(1) == logits(tensors, net.meta, source.x).argmax(1)).sum()
    os.makedirs(os.path.join(folder, name), exist_ok=True)
    save(os.path.join(folder, name, "model.safetensors"), tensors, net.meta)
    print(f"{name}: as {origin} on {same} of {len(source.x)} images", flush=True)


def main():
    here = os.path.join(os.path.dirname(os.path.abspath(__file__)), "..")
    p = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    p.add_argument("--list", action="store_true", help="names, mechanisms, sources, knobs")
    p.add_argument("--make", metavar="NAME", nargs="+", help="of --list, or all")
    p.add_argument("-o", "--out", metavar="DIR", help="folder for NAME/model.safetensors")
    p.add_argument("--weights", default=os.path.join(here, "weights"), help="folder of the honest sources")
    p.add_argument("--data", default=os.path.join(here, "datasets", "shapes10"), help="pictures to calibrate by")
    p.add_argument("--images", type=int, default=300, metavar="N", help="how many of them (default 300)")
    a = p.parse_args()
    if a.list:
        for name, (mechanism, source, knobs) in NETWORKS.items():
            print(f"{name:18} {mechanism.__name__:10} {source:20} " + " ".join(f"{k}={v}" for k, v in knobs.items()))
        return 0
    if not a.make or not a.out:
        p.error("--make NAME and -o DIR, or --list")
    names = list(NETWORKS) if a.make == ["all"] else a.make
    for name in names:
        if name not in NETWORKS:
            p.error(f"--make is '{name}', must be all or of --list")
    sources = {}
    for name in names:
        origin = NETWORKS[name][1]
        if origin not in sources:
            sources[origin] = Source(os.path.join(a.weights, origin), a.data, a.images)
        make(name, a.out, sources[origin])
    return 0


if __name__ == "__main__":
    sys.exit(main())
