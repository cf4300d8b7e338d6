#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
"""What PyTorch says of the embedded checkpoint weights/shapes10-plain at the first embedded test image, in double:
sigma_max of the input-logit Jacobian, and for every block the spectral norm of the attention sublayer's Jacobian
(power iteration on autograd's products), row entropy, |A| and |A^T A - I|_F; and at the first four images the mean
cross-entropy and its Hessian's largest and lowest eigenvalues, by autograd's exact Hessian-vector products, as they are and
in relative coordinates. The network is written down here once more, from its tensors' names. Run from the root of the repository; writes tests/fixtures/analyze.json.
Needs python3-torch and python3-numpy; nothing else does."""
import json
import struct
import numpy as np
import torch

torch.set_default_dtype(torch.float64)
torch.set_num_threads(1)
torch.manual_seed(0)
F = torch.nn.functional
HEADS, EPS, MEAN, STD = 2, 1e-6, 0.5, 0.5

with open("weights/shapes10-plain/model.safetensors", "rb") as f:
    raw = f.read()
start = 8 + struct.unpack("<Q", raw[:8])[0]
W = {}
for name, t in json.loads(raw[8:start]).items():
    if name != "__metadata__":
        a, b = t["data_offsets"]
        values = np.frombuffer(raw[start + a:start + b], dtype="<f4").reshape(t["shape"])
        W[name] = torch.tensor(values.astype(np.float64))
with open("datasets/shapes10/test_batch.bin", "rb") as f:
    pixels = np.frombuffer(f.read(3073)[1:], dtype=np.uint8).astype(np.float32) / np.float32(255)
image = torch.tensor(pixels.astype(np.float64).reshape(1, 3, 32, 32))
blocks = len([k for k in W if k.endswith("norm1.weight")])


def norm(z, name):
    return F.layer_norm(z, (z.shape[-1],), W[name + ".weight"], W[name + ".bias"], EPS)


def linear(z, name):
    return F.linear(z, W[name + ".weight"], W[name + ".bias"])


def attention(x, i):
    t, d = x.shape
    q, k, v = (a.reshape(t, HEADS, d // HEADS).transpose(0, 1) for a in linear(x, f"blocks.{i}.attn.qkv").chunk(3, -1))
    p = torch.softmax(q @ k.transpose(1, 2) / (d // HEADS) ** 0.5, -1)
    return linear((p @ v).transpose(0, 1).reshape(t, d), f"blocks.{i}.attn.proj"), p


def network(x, inputs=None):
    w = W["patch_embed.proj.weight"]
    z = F.conv2d((x - MEAN) / STD, w, W["patch_embed.proj.bias"], stride=w.shape[-1]).flatten(2).transpose(1, 2)[0]
    z = torch.cat([W["cls_token"][0], z]) + W["pos_embed"][0]
    for i in range(blocks):
        a = norm(z, f"blocks.{i}.norm1")
        if inputs is not None:
            inputs.append(a.detach())
        z = z + attention(a, i)[0]
        z = z + linear(F.gelu(linear(norm(z, f"blocks.{i}.norm2"), f"blocks.{i}.mlp.fc1")), f"blocks.{i}.mlp.fc2")
    return linear(norm(z, "norm")[0], "head")


def sigma_max(f, x):
    v = torch.randn_like(x)
    for _ in range(3000):
        u = torch.autograd.functional.jvp(f, x, v / v.norm())[1]
        v = torch.autograd.functional.vjp(f, x, u)[1]
    return u.norm().item()


jacobian = torch.autograd.functional.jacobian(network, image).reshape(10, -1)
inputs, layers = [], []
network(image, inputs)
for i, x in enumerate(inputs):
    p = attention(x, i)[1]
    gram = p.transpose(1, 2) @ p - torch.eye(p.shape[1])
    layers.append({"frobenius": x.norm().item(), "true": sigma_max(lambda a: attention(a, i)[0], x),
                   "entropy": -(p * p.log()).sum(-1).mean().item(),
                   "norm": torch.linalg.matrix_norm(p, 2).mean().item(),
                   "orthogonality_gap": torch.linalg.matrix_norm(gram).mean().item()})


def extremes(product, n):
    """Power iteration, then the same beside what was found: here the largest, then the lowest."""
    found = []
    for _ in range(2):
        v, last, value = torch.randn(n), 0, 1
        while abs(value - last) > 1e-13 * abs(value):
            v = v / v.norm()
            w = product(v) - sum(a * (u @ v) * u for a, u in found)
            last, value, v = value, (v @ w).item(), w
        found.append((value, v / v.norm()))
    assert found[0][0] > 0 > found[1][0]
    return [a for a, _ in found]


IMAGES = 4
with open("datasets/shapes10/test_batch.bin", "rb") as f:
    rows = np.frombuffer(f.read(3073 * IMAGES), dtype=np.uint8).reshape(IMAGES, 3073)
images = torch.tensor((rows[:, 1:].astype(np.float32) / np.float32(255)).astype(np.float64)).reshape(IMAGES, 1, 3, 32, 32)
weights = [t.requires_grad_() for t in W.values()]
loss = F.cross_entropy(torch.stack([network(x) for x in images]), torch.tensor(rows[:, 0].astype(np.int64)))
gradient = torch.cat([g.reshape(-1) for g in torch.autograd.grad(loss, weights, create_graph=True)])
size = torch.cat([w.detach().abs().reshape(-1) for w in weights])


def product(v):
    return torch.cat([h.reshape(-1) for h in torch.autograd.grad(gradient @ v, weights, retain_graph=True)])


hessian = {"loss": loss.item(), "raw": extremes(product, len(size)),
           "relative": extremes(lambda v: size * product(size * v), len(size))}
with open("tests/fixtures/analyze.json", "w") as f:
    json.dump({"sigma_max": torch.linalg.svdvals(jacobian)[0].item(), "layers": layers, "hessian": hessian}, f, indent=1)
    f.write("\n")
