#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
# No attack may succeed inside a certified radius: tests/certify_attacks.py build/vitrine [PAIRS]
# Slow, by hand. Certifies radii of random points of the fixtures' networks by each method and norm, then attacks every
# point at 0.999 of its radius: PGD on vitrine's own double gradients (vitrine probe) from random starts, in linf, l2 or
# l1. Exit status 1 if one succeeds.
import json, math, pathlib, random, struct, subprocess, sys, tempfile

vitrine, pairs = sys.argv[1], int(sys.argv[2]) if len(sys.argv) > 2 else 2000
fixtures = pathlib.Path(__file__).parent / "fixtures/onnx"
PLANES = ["certify_" + n for n in ("linear", "relu", "bent", "curved", "attention", "norm", "largest")]
NETS = PLANES + ["conv"]
WAYS = [("linear", "linf"), ("linear", "l2"), ("linear", "l1"), ("lipschitz", "l2")]


def write(path, **tensors):
    head, body = {}, b""
    for name, (kind, shape, values) in tensors.items():
        raw = struct.pack(f"<{len(values)}{'dq'[kind == 'I64']}", *values)
        head[name] = {"dtype": kind, "shape": shape, "data_offsets": [len(body), len(body) + len(raw)]}
        body += raw
    text = json.dumps(head).encode()
    path.write_bytes(struct.pack("<Q", len(text)) + text + body)


def read(path):
    raw = path.read_bytes()
    n = struct.unpack("<Q", raw[:8])[0]
    return {k: struct.unpack(f"<{(v['data_offsets'][1] - v['data_offsets'][0]) // 8}d",
                             raw[8 + n:][slice(*v["data_offsets"])])
            for k, v in json.loads(raw[8:8 + n]).items() if k != "__metadata__"}


def probe(here, net, shape, points, labels):
    x = [v for p in points for v in p]
    write(here / "in.safetensors", x=("F64", [len(points), *shape], x), labels=("I64", [len(points)], labels))
    subprocess.run([vitrine, "probe", fixtures / f"{net}.onnx", "--image-shape", ",".join(map(str, shape)), "--input",
                    here / "in.safetensors", "--loss", "margin", "--precision", "f64", "--out",
                    here / "out.safetensors"], check=True, stdout=subprocess.DEVNULL)
    out = read(here / "out.safetensors")
    return out["logits"], out["dx_margin"]


def wrong(logits, labels):
    k = len(logits) // len(labels)
    rows = [logits[i * k:(i + 1) * k] for i in range(len(labels))]
    return [i for i, (z, y) in enumerate(zip(rows, labels)) if max(z) > z[y]]


def length(norm, d):
    return max(map(abs, d)) if norm == "linf" else math.hypot(*d) if norm == "l2" else sum(map(abs, d))


def inside(norm, x, centre, r):
    """The point brought into box and ball, by one scale of the difference."""
    d = [min(max(v, 0), 1) - c for v, c in zip(x, centre)]
    far = length(norm, d)
    return [c + v * min(1, r / far) for v, c in zip(d, centre)] if far > 0 else list(centre)


def step(norm, g):
    """A direction of length 1 along the gradient; in l1 one number's."""
    if norm == "linf":
        return [(v > 0) - (v < 0) for v in g]
    if norm == "l2":
        return [v / (math.hypot(*g) or 1) for v in g]
    top = max(range(len(g)), key=lambda k: abs(g[k]) * random.uniform(0.5, 1))
    return [((v > 0) - (v < 0)) * (k == top) for k, v in enumerate(g)]


def attack(here, net, shape, norm, points, labels, radii):
    """Numbers of points of another class that were found, over three starts of ten steps."""
    broken, size = 0, len(points[0])
    for start in range(3):
        x = [inside(norm, [v + r * random.uniform(-1, 1) * (start > 0) for v in p], p, r) for p, r in zip(points, radii)]
        for _ in range(10):
            logits, dx = probe(here, net, shape, x, labels)
            for i in wrong(logits, labels):
                broken += 1
                print(f"BROKEN {net} {norm} point {i} at radius {radii[i]}: {x[i][:4]}")
            x = [inside(norm, [v + r / 2 * g for v, g in zip(p, step(norm, dx[i * size:(i + 1) * size]))], q, r)
                 for i, (p, q, r) in enumerate(zip(x, points, radii))]
    return broken


def certify(here, net, method, norm):
    subprocess.run([vitrine, "certify", fixtures / f"{net}.onnx", "--points", here / "points.safetensors", "--out",
                    here / "radii.json", "--method", method, "--norm", norm, "--seconds",
                    "0.2" if net in PLANES else "2"], check=True, stdout=subprocess.DEVNULL)
    return [0.999 * p["radius"] for p in json.loads((here / "radii.json").read_text())["points"]]


random.seed(0)
broken = count = 0
with tempfile.TemporaryDirectory() as folder:
    here = pathlib.Path(folder)
    for net in NETS:
        shape = [1, 1, 2] if net in PLANES else [3, 16, 16]
        size, each = shape[0] * shape[1] * shape[2], -(-pairs // len(NETS) // len(WAYS))
        points = [[random.random() for _ in range(size)] for _ in range(each)]
        logits, _ = probe(here, net, shape, points, [0] * each)
        k = len(logits) // each
        labels = [max(range(k), key=lambda j: logits[i * k + j]) for i in range(each)]
        write(here / "points.safetensors", x=("F64", [each, *shape], [v for p in points for v in p]),
              labels=("I64", [each], labels))
        for method, norm in WAYS:
            radii = certify(here, net, method, norm)
            count += sum(r > 0 for r in radii)
            broken += attack(here, net, shape, norm, points, labels, radii)
            print(f"{net} {method} {norm}: {sum(r > 0 for r in radii)} of {each} points certified", flush=True)
print(f"{count} certified pairs attacked, {broken} broken")
sys.exit(broken > 0)
