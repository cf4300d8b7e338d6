#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
"""Holds the t-SNE of `vitrine analyze features --out DIR` against scikit-learn's of the same features, and prints what
both say.

    check_tsne.py DIR [CHECKPOINT ...] [--methods exact,barnes_hut] [--tolerance 0.02]

DIR holds analysis.json, run.json and features.npy (features_A.npy, ... of several checkpoints: all of them, or those
that are named, "A"). scikit-learn starts from its own principal components, with the perplexity, steps and exaggeration
of the run. Columns: the Kullback-Leibler divergence where scikit-learn ends (kl_divergence_; Barnes and Hut's is an
approximation, so `exact kl` is computed here, of the final positions, by the definition), vitrine's of its own positions
as it says and as computed here, the ratio of vitrine's to the exact one, scikit-learn's seconds and processor seconds
(vitrine's are in run.json, of the whole run). Exit 1 where vitrine's divergence is more than the tolerance above
scikit-learn's exact method; below it is no fault, and shown as a difference like any other. Exit 1 too where what vitrine
says of its positions is not what they have, by 1e-6.

Needs python3-sklearn and python3-numpy (Debian), nothing else does."""
import argparse
import glob
import json
import os
import re
import sys
import time

import numpy as np
from scipy.spatial.distance import pdist, squareform
from sklearn.manifold import TSNE


def joint(x, perplexity):
    """p_ij, by bisection in double: an implementation of its own, with neither vitrine's nor scikit-learn's code."""
    d = squareform(pdist(x, "sqeuclidean"))
    n = len(x)
    p = np.zeros((n, n))
    for i in range(n):
        row = np.delete(d[i], i)
        row = row - row.min()
        low, high, b = 0.0, np.inf, 1 / max(row.mean(), 1e-300)
        for _ in range(200):
            w = np.exp(-b * row)
            h = np.log(w.sum()) + b * (row * w).sum() / w.sum()
            if abs(h - np.log(perplexity)) < 1e-10:
                break
            low, high = (b, high) if h > np.log(perplexity) else (low, b)
            b = 2 * b if np.isinf(high) else (low + high) / 2
        p[i] = np.insert(w / w.sum(), i, 0)
    return (p + p.T) / (2 * n)


def divergence(p, y):
    q = 1 / (1 + squareform(pdist(y, "sqeuclidean")))
    np.fill_diagonal(q, 0)
    q /= q.sum()
    some = p > 0
    return float((p[some] * np.log(p[some] / q[some])).sum())


def options(doc):
    return dict(pair.split("=") for pair in doc["options"].split(","))


def positions(found):
    images = found["images"]
    y = [i["tsne"] for i in images]
    return np.array(y + [i["attacked_tsne"] for i in images if "attacked_tsne" in i])


def check(folder, key, file, doc, methods, tolerance):
    x, o, found, good = np.load(file), options(doc), doc["results"][key], True
    y, perplexity = positions(found), float(o["perplexity"])
    assert x.shape == (found["points"], found["width"]) and y.shape == (len(x), 2), "not the features of this run"
    p = joint(x.astype(np.float64), perplexity)
    said, is_ = found["tsne"]["kl"], divergence(p, y)
    print(f"{key}: {len(x)} points of width {x.shape[1]}, perplexity {perplexity:g}, {o['steps']} steps; "
          f"vitrine's KL {said:.6f}, computed here {is_:.6f}")
    good &= abs(said / is_ - 1) <= 1e-6
    for method in methods:
        t = TSNE(method=method, init="pca", perplexity=perplexity, n_iter=int(o["steps"]), random_state=0,
                 learning_rate=float(o["learning_rate"]) or "auto", early_exaggeration=float(o["exaggeration"]))
        began, used = time.perf_counter(), time.process_time()
        t.fit(x)
        seconds, cpu = time.perf_counter() - began, time.process_time() - used
        exact = divergence(p, t.embedding_.astype(np.float64))
        print(f"   scikit-learn {method:10s} kl {t.kl_divergence_:.6f}, exact kl {exact:.6f}, vitrine / exact kl "
              f"{is_ / exact:.4f} ({100 * (is_ / exact - 1):+.2f} %), {seconds:.1f} s, {cpu:.1f} s of processor")
        if method == "exact":
            good &= is_ <= exact * (1 + tolerance)
    return good


def main():
    a = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    a.add_argument("folder")
    a.add_argument("checkpoints", nargs="*")
    a.add_argument("--methods", default="exact,barnes_hut")
    a.add_argument("--tolerance", type=float, default=0.02)
    a = a.parse_args()
    with open(os.path.join(a.folder, "analysis.json")) as f:
        doc = json.load(f)
    with open(os.path.join(a.folder, "run.json")) as f:
        run = json.load(f)
    print(f"vitrine: {run['seconds']:.1f} s, {run['cpu_seconds']:.1f} s of processor, {run['threads']} threads (the whole run, "
          "attack and all)")
    good = True
    for file in sorted(glob.glob(os.path.join(a.folder, "features*.npy"))):
        key = (re.search(r"features_([A-H])\.npy$", file) or [None, "A"])[1]
        if not a.checkpoints or key in a.checkpoints:
            good &= check(a.folder, key, file, doc, a.methods.split(","), a.tolerance)
    print("good" if good else f"NOT GOOD: vitrine's divergence is more than {100 * a.tolerance:g} % above scikit-learn's, "
          "or not what it says")
    return 0 if good else 1


sys.exit(main())
