"""One measurement for bench/compare_msvp: seconds of the exact way, LAPACK's full SVD (numpy) of every head of W_Q, W_K and
W_V of a checkpoint, from which the largest singular triple is taken. Prints one number, the median of many.

    svd_step.py CHECKPOINT HEADS SECONDS"""
import json
import struct
import sys
import time

import numpy as np


def heads_of(path, heads):
    """Every head of W_Q, W_K, W_V of every block: [dim / heads, dim]."""
    raw = open(path, "rb").read()
    n = struct.unpack("<Q", raw[:8])[0]
    out = []
    for name, t in json.loads(raw[8:8 + n]).items():
        if name.endswith("attn.qkv.weight"):
            first, end = t["data_offsets"]
            w = np.frombuffer(raw[8 + n + first:8 + n + end], np.float32).reshape(t["shape"])
            out += list(w.reshape(3 * heads, -1, w.shape[1]))
    return out


def main():
    path, heads, seconds = sys.argv[1], int(sys.argv[2]), float(sys.argv[3])
    matrices = heads_of(path, heads)
    times, began = [], time.perf_counter()
    while time.perf_counter() - began < seconds or len(times) < 3:
        start = time.perf_counter()
        for w in matrices:
            u, s, vt = np.linalg.svd(w, full_matrices=False)
            triple = s[0], u[:, 0], vt[0]  # noqa: F841
        times.append(time.perf_counter() - start)
    print(sorted(times)[len(times) // 2])


if __name__ == "__main__":
    main()
