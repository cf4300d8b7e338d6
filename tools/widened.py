# SPDX-License-Identifier: MIT
"""A small honest Vision Transformer inside a wider and deeper one, exactly: what masked_networks.py builds on. Reads and
writes safetensors, has a forward pass in numpy (double, or float32 where tensors are) and class Net."""
import functools
import json
import math
import os
import struct

import numpy as np

HEAD = 32  # width of a head; the sources have heads of 32, and so have the wider networks
C = 4000.0  # the constant that makes LayerNorm a fixed scale in the blocks behind the source's


# ---- files ----

def load(path):
    """Tensors in double and metadata of a safetensors file or of a folder that holds model.safetensors."""
    if os.path.isdir(path):
        path = os.path.join(path, "model.safetensors")
    with open(path, "rb") as f:
        data = f.read()
    end = 8 + struct.unpack("<Q", data[:8])[0]
    header = json.loads(data[8:end])
    meta = {"ln_eps": "1e-6"} | header.pop("__metadata__", {})
    config = os.path.join(os.path.dirname(path), "config.json")
    if "mean" not in meta and os.path.exists(config):
        with open(config) as f:
            meta.update({k: ",".join(map(str, v)) for k, v in json.load(f)["pretrained_cfg"].items()
                         if k in ("mean", "std")})
    tensors = {}
    for name, t in header.items():
        a, b = t["data_offsets"]
        tensors[name] = np.frombuffer(data[end + a:end + b], "<f4").reshape(t["shape"]).astype(np.float64)
    return tensors, meta


def save(path, tensors, meta, dtype="F32"):
    """dtype: F32, F16 or BF16 (rounded to nearest)."""
    sealed = ("tensors_sha256", "file_sha256")  # of the file that the metadata come from
    header, blobs, at = {"__metadata__": {k: v for k, v in meta.items() if k not in sealed}}, [], 0
    for name in sorted(tensors):
        values = tensors[name].astype("<f2" if dtype == "F16" else "<f4")
        if dtype == "BF16":
            values = ((values.view("<u4").astype(np.uint64) + 0x8000) >> 16).astype("<u2")
        blob = values.tobytes()
        header[name] = {"dtype": dtype, "shape": list(tensors[name].shape), "data_offsets": [at, at + len(blob)]}
        blobs.append(blob)
        at += len(blob)
    text = json.dumps(header, separators=(",", ":")).encode()
    text += b" " * (-len(text) % 8)
    with open(path, "wb") as f:
        f.write(struct.pack("<Q", len(text)) + text + b"".join(blobs))


def images(folder, n):
    """The first n test pictures [n,3,32,32] in [0,1] of a folder in CIFAR-10's binary form."""
    rows = np.fromfile(os.path.join(folder, "test_batch.bin"), np.uint8).reshape(-1, 3073)[:n]
    return rows[:, 1:].reshape(-1, 3, 32, 32) / 255.0


# ---- a plain forward pass, to calibrate and to compare ----

def erf(x):
    """Abramowitz and Stegun 7.1.26; to 1.5e-7."""
    t = 1 / (1 + 0.3275911 * np.abs(x))
    poly = ((((1.061405429 * t - 1.453152027) * t + 1.421413741) * t - 0.284496736) * t + 0.254829592) * t
    return np.sign(x) * (1 - poly * np.exp(-x * x))


def gelu(x):
    return 0.5 * x * (1 + erf(x / math.sqrt(2)))


def normalise(x, eps):
    return (x - x.mean(-1, keepdims=True)) / np.sqrt(x.var(-1, keepdims=True) + eps)


def softmax(x):
    e = np.exp(x - x.max(-1, keepdims=True))
    return e / e.sum(-1, keepdims=True)


def embed(w, mean, std, x):
    n, side = w["patch_embed.proj.weight"].shape[0], 32 // w["patch_embed.proj.weight"].shape[-1]
    b, p = len(x), 32 // side
    x = (x - mean[:, None, None]) / std[:, None, None]
    x = x.reshape(b, 3, side, p, side, p).transpose(0, 2, 4, 1, 3, 5).reshape(b, side * side, -1)
    t = x @ w["patch_embed.proj.weight"].reshape(n, -1).T + w["patch_embed.proj.bias"]
    return np.concatenate([np.broadcast_to(w["cls_token"], (b, 1, n)), t], 1) + w["pos_embed"]


def attend(w, i, t, eps):
    b, n, d = t.shape
    x = normalise(t, eps) * w[f"blocks.{i}.norm1.weight"] + w[f"blocks.{i}.norm1.bias"]
    qkv = x @ w[f"blocks.{i}.attn.qkv.weight"].T + w[f"blocks.{i}.attn.qkv.bias"]
    q, k, v = qkv.reshape(b, n, 3, d // HEAD, HEAD).transpose(2, 0, 3, 1, 4)
    p = softmax(q @ k.transpose(0, 1, 3, 2) * HEAD ** -0.5)
    return t + (p @ v).transpose(0, 2, 1, 3).reshape(b, n, d) @ w[f"blocks.{i}.attn.proj.weight"].T \
        + w[f"blocks.{i}.attn.proj.bias"]


def mlp(w, i, t, eps):
    x = normalise(t, eps) * w[f"blocks.{i}.norm2.weight"] + w[f"blocks.{i}.norm2.bias"]
    h = gelu(x @ w[f"blocks.{i}.mlp.fc1.weight"].T + w[f"blocks.{i}.mlp.fc1.bias"])
    return t + h @ w[f"blocks.{i}.mlp.fc2.weight"].T + w[f"blocks.{i}.mlp.fc2.bias"]


def depth(w):
    return sum(name.endswith(".norm1.weight") for name in w)


def stream(w, meta, x, blocks, half=False):
    """Tokens [n,T,W] after so many blocks; half: and after the attention of the next."""
    eps, mean, std = float(meta["ln_eps"]), numbers(meta["mean"]), numbers(meta["std"])
    t = embed(w, mean, std, x)
    for i in range(blocks):
        t = mlp(w, i, attend(w, i, t, eps), eps)
    return attend(w, blocks, t, eps) if half else t


def logits(w, meta, x):
    t = stream(w, meta, x, depth(w))[:, 0]
    return (normalise(t, float(meta["ln_eps"])) * w["norm.weight"] + w["norm.bias"]) @ w["head.weight"].T \
        + w["head.bias"]


def numbers(text):
    return np.array([float(v) for v in text.split(",")], np.float32)


def margin(u, top):
    rows = np.arange(len(u))
    rest = u.copy()
    rest[rows, top] = -np.inf
    return u[rows, top] - rest.max(1)


# ---- a source inside a wider network ----

class Source:
    """An honest checkpoint, and the pictures to calibrate and compare by."""

    def __init__(self, path, data, n=300):
        self.w, self.meta = load(path)
        self.x = images(data, n)

    @functools.cached_property
    def logits(self):
        return logits(self.w, self.meta, self.x)

    @functools.cached_property
    def safer(self):
        """For each class a pattern of pixels, one for all patches, along which its own pictures become safer: the mean
        gradient of the margin by central differences, over two pictures a class."""
        w = {k: v.astype(np.float32) for k, v in self.w.items()}
        top, patch = self.logits.argmax(1), w["patch_embed.proj.weight"].shape[-1]
        some = np.concatenate([np.flatnonzero(top == k)[:2] for k in range(self.logits.shape[1])])
        x, top, side = self.x[some].astype(np.float32), top[some], 32 // patch
        out = np.ones((self.logits.shape[1], 3 * patch * patch))  # a class that no picture has
        for cell in range(out.shape[1]):
            e = np.zeros(out.shape[1], np.float32)
            e[cell] = 2 / 255
            step = np.tile(e.reshape(3, patch, patch), (1, side, side))
            change = margin(logits(w, self.meta, x + step), top) - margin(logits(w, self.meta, x - step), top)
            for k in set(top):
                out[k, cell] = change[top == k].mean()
        return (out / np.abs(out).mean(1, keepdims=True)).reshape(-1, 3, patch, patch)


class Net:
    """The source, computed exactly by the first d channels of a wider and deeper network, and hands to add to it.

    LayerNorm runs over all W channels. It does to the source's what it did before because (1) the source's stream is
    centred: every writer's mean over the d channels is taken off, which LayerNorm does not notice; (2) the new channels
    sum to zero: the last one balances the others; (3) they are small while the source computes: then the variance
    over W is that over d times d/W, and gamma and epsilon make up for it. `front` blocks are put before the source's,
    where the class token is the same for every image; `back` blocks behind them, where a constant C in two channels
    makes LayerNorm a fixed scale. Each block has one more head than the source, `spare`."""

    def __init__(self, source, front=0, back=0, hidden=0, seed=0):
        w, meta = source.w, source.meta
        self.source, self.meta, self.x, self.rng = w, dict(meta), source.x, np.random.default_rng(seed)
        self.d, self.front, self.back, self.inner = w["pos_embed"].shape[-1], front, back, depth(w)
        self.n = self.d + HEAD
        self.hidden = max(hidden, w["blocks.0.mlp.fc1.weight"].shape[0])
        self.balance = self.n - 1
        self.free = self.d  # next new channel
        self.used = [0] * (front + self.inner + back)  # hidden units of each block
        self.spare = self.d  # first row of the spare head
        self.w = {}
        self.safer = source.safer if back else None
        self._embedding()
        for i in range(len(self.used)):
            self._empty(i)
        for i in range(self.inner):
            self._copy(i)
        self._head()
        self.meta.update(num_heads=str(self.n // HEAD), attn_scale=repr(HEAD ** -0.5), architecture="vit", attn="dot",
                         ln_eps=repr(float(meta["ln_eps"]) * self.d / self.n), format="pt")
        self.meta.pop("recipe", None)

    def _put(self, name, value, *at):
        """The source's tensor in the corner of one of zeros."""
        self.w[name][tuple(slice(a, a + n) for a, n in zip(at or [0] * value.ndim, value.shape))] = value

    def _embedding(self):
        s, n = self.source, self.n
        self.w["patch_embed.proj.weight"] = np.zeros((n,) + s["patch_embed.proj.weight"].shape[1:])
        self.w["patch_embed.proj.bias"] = np.zeros(n)
        self.w["cls_token"] = np.zeros((1, 1, n))
        self.w["pos_embed"] = np.zeros((1, s["pos_embed"].shape[1], n))
        for name, axis in [("patch_embed.proj.weight", 0), ("patch_embed.proj.bias", 0), ("cls_token", 2),
                           ("pos_embed", 2)]:
            self._put(name, s[name] - s[name].mean(axis, keepdims=True))

    def _empty(self, i):
        n, h, p = self.n, self.hidden, f"blocks.{i}."
        for name, shape in [("norm1.weight", n), ("norm1.bias", n), ("norm2.weight", n), ("norm2.bias", n),
                            ("attn.qkv.weight", (3 * n, n)), ("attn.qkv.bias", 3 * n), ("attn.proj.weight", (n, n)),
                            ("attn.proj.bias", n), ("mlp.fc1.weight", (h, n)), ("mlp.fc1.bias", h),
                            ("mlp.fc2.weight", (n, h)), ("mlp.fc2.bias", n)]:
            self.w[p + name] = np.zeros(shape)
        self.w[p + "norm1.weight"] += 1
        self.w[p + "norm2.weight"] += 1

    def _copy(self, i):
        s, d, a, b = self.source, self.d, f"blocks.{i}.", f"blocks.{self.front + i}."
        for name in ("norm1.", "norm2."):
            self._put(b + name + "weight", s[a + name + "weight"] * math.sqrt(d / self.n))
            self._put(b + name + "bias", s[a + name + "bias"])
        for j in range(3):
            self._put(b + "attn.qkv.weight", s[a + "attn.qkv.weight"][j * d:(j + 1) * d], j * self.n, 0)
            self._put(b + "attn.qkv.bias", s[a + "attn.qkv.bias"][j * d:(j + 1) * d], j * self.n)
        self._put(b + "mlp.fc1.weight", s[a + "mlp.fc1.weight"])
        self._put(b + "mlp.fc1.bias", s[a + "mlp.fc1.bias"])
        for name in ("attn.proj.", "mlp.fc2."):
            for kind in ("weight", "bias"):
                v = s[a + name + kind]
                self._put(b + name + kind, v - v.mean(0, keepdims=True))
        self.used[self.front + i] = s[a + "mlp.fc1.weight"].shape[0]

    def _head(self):
        s, k = self.source, self.source["head.weight"].shape[0]
        self.classes = k
        self.w["norm.weight"], self.w["norm.bias"] = np.ones(self.n), np.zeros(self.n)
        self.w["head.weight"], self.w["head.bias"] = np.zeros((k, self.n)), np.zeros(k)
        if self.back:
            return
        self._final("norm.")
        self._put("head.weight", s["head.weight"])
        self.w["head.bias"] += s["head.bias"]

    def _final(self, name):
        """A norm of the new network does what the source's last one does; new channels come out over their deviation
        as it would be in the source."""
        self.w[name + "weight"][:] = math.sqrt(self.d / self.n)
        self._put(name + "weight", self.source["norm.weight"] * math.sqrt(self.d / self.n))
        self._put(name + "bias", self.source["norm.bias"])

    # -- channels and forms: a form is a vector over the normed channels of a block, and a number --

    def channel(self):
        self.free += 1
        if self.free > self.balance:
            raise ValueError("no channel left")
        return self.free - 1

    def channels(self):
        return [self.channel() for _ in range(self.classes)]

    def first_back(self):
        return self.front + self.inner

    def open_back(self, own=False):
        """In the first block behind: its second norm is the source's last one, and the constant is written: into channels of its
        own, or into two of the source's, which nobody reads any more."""
        i = self.first_back()
        self._final(f"blocks.{i}.norm2.")
        self.w[f"blocks.{i}.mlp.fc2.bias"][[self.channel(), self.channel()] if own else [0, 1]] = C, -C
        for j in range(i + 1, len(self.used)):
            for name in ("norm1.", "norm2."):
                self.w[f"blocks.{j}.{name}weight"][:] = C * math.sqrt(2 / self.n)
        self.w["norm.weight"][:] = C * math.sqrt(2 / self.n)
        return i

    def logit(self, k):
        v = np.zeros(self.n)
        v[:self.d] = self.source["head.weight"][k]
        return v, self.source["head.bias"][k]

    def of(self, channel, factor=1.0, plus=0.0):
        v = np.zeros(self.n)
        v[channel] = factor
        return v, plus

    # -- writers --

    def unit(self, i, form, writes, sharp=1.0):
        """One hidden unit: relu(form), rounded over about 1/sharp; writes {channel: factor}."""
        h = self.used[i]
        if h >= self.hidden:
            raise ValueError(f"block {i} has no hidden unit left")
        self.used[i] += 1
        self.w[f"blocks.{i}.mlp.fc1.weight"][h] = form[0] * sharp
        self.w[f"blocks.{i}.mlp.fc1.bias"][h] = form[1] * sharp
        for c, factor in writes.items():
            self.w[f"blocks.{i}.mlp.fc2.weight"][c, h] = factor / sharp

    def linear(self, i, form, writes):
        """The form itself: gelu(v) - gelu(-v) = v."""
        self.unit(i, form, writes)
        self.unit(i, (-form[0], -form[1]), {c: -f for c, f in writes.items()})

    def curve(self, i, form, knots, slopes, writes, sharp):
        """A piecewise linear function of the form: 0 up to the first knot, then with these slopes from knot to knot."""
        before = 0.0
        for t, slope in zip(knots, slopes):
            self.unit(i, (form[0], form[1] - t), {c: f * (slope - before) for c, f in writes.items()}, sharp)
            before = slope

    def gather(self, i, forms, channels, factor=1.0):
        """The spare head of block i writes the mean over all tokens of each form into a channel of every token."""
        v, o = f"blocks.{i}.attn.qkv.", f"blocks.{i}.attn.proj.weight"
        for r, (form, c) in enumerate(zip(forms, channels)):
            self.w[v + "weight"][2 * self.n + self.spare + r] = form[0]
            self.w[v + "bias"][2 * self.n + self.spare + r] = form[1]
            self.w[o][c, self.spare + r] = factor

    def pattern(self, i, signs):
        """A form that, on a patch token of block 0, is the sum of its pixels with these signs over the token's deviation."""
        e = self.w["patch_embed.proj.weight"].reshape(self.n, -1)[:self.d]
        v = np.zeros(self.n)
        gamma = self.w[f"blocks.{i}.norm1.weight"][:self.d]
        v[:self.d] = np.linalg.lstsq(e.T, signs.reshape(-1), rcond=None)[0] / gamma
        return v, 0.0

    def quiet(self, count, share=0.5):
        """Patterns of a patch, of mean square 1, that pictures hardly excite: drawn from the directions in which the sums
        over a picture vary least."""
        t = embed(self.w, numbers(self.meta["mean"]), numbers(self.meta["std"]), self.x)[:, 1:]
        cells = self.w["patch_embed.proj.weight"].reshape(self.n, -1)[:self.d]
        sums = (t / t.std(-1, keepdims=True)).mean(1)[:, :self.d] @ np.linalg.pinv(cells).T
        axes = np.linalg.eigh(np.cov(sums.T))[1]
        some = axes[:, :int(len(axes) * share)]
        out = some @ self.rng.standard_normal((some.shape[1], count))
        return (out / np.sqrt((out ** 2).mean(0))).T.reshape((count,) + self.w["patch_embed.proj.weight"].shape[1:])

    def measure(self, channel, blocks, half=False):
        """Values of a channel of the class token over the images."""
        return stream(self.finished(), self.meta, self.x, blocks, half)[:, 0, channel]

    def finished(self):
        """The tensors, the last channel balanced."""
        out, d, b = {k: v.copy() for k, v in self.w.items()}, self.d, self.balance
        for name, v in out.items():
            if name.endswith(("attn.proj.weight", "attn.proj.bias", "mlp.fc2.weight", "mlp.fc2.bias")) or \
                    name.startswith("patch_embed"):
                v[b] = -v[d:b].sum(0)
            elif name in ("cls_token", "pos_embed"):
                v[..., b] = -v[..., d:b].sum(-1)
        return out
