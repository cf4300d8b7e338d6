#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
"""What scikit-learn says of 60 points in ten dimensions (three clusters of ten, and a moved copy of each point behind
them): principal components, t-SNE (exact, from the principal components) slow and early, where all starts nearby agree,
and to its end, where eight starts nearby do not (so few points have many minima), two rows of its joint similarities, and
the weights of a logistic regression that tells points from copies. Run from the root of the repository; writes
tests/fixtures/features.json. Needs python3-sklearn (Debian); nothing else does."""
import json

import numpy as np
from scipy.spatial.distance import pdist, squareform
from sklearn.decomposition import PCA
from sklearn.linear_model import LogisticRegression
from sklearn.manifold import TSNE
from sklearn.manifold._t_sne import _joint_probabilities, _kl_divergence

N, D, PERPLEXITY, LAMBDA, ROWS = 30, 10, 20.0, 1e-2, (0, 37)
RATE, STEPS, STARTS = 0.5, 300, 8

r = np.random.default_rng(5)
clean = np.repeat(r.normal(size=(3, D)) * 2, N // 3, axis=0) + r.normal(size=(N, D))
x = np.concatenate([clean, clean + 0.4 + 0.5 * r.normal(size=(N, D))]).round(6)  # as it is written
n = len(x)

pca = PCA(svd_solver="full").fit(x)
start = pca.transform(x)[:, :2]
start *= 1e-4 / start[:, 0].std()


def tsne(moved, **options):
    near = start * (1 + moved * r.normal(size=start.shape))
    return TSNE(method="exact", init=near.astype(np.float32), perplexity=PERPLEXITY, **options).fit(x)


early = tsne(0, learning_rate=RATE, n_iter=STEPS)
ends = [float(tsne(1e-6, learning_rate="auto").kl_divergence_) for _ in range(STARTS)]
similar = _joint_probabilities(squareform(pdist(x, "sqeuclidean")), PERPLEXITY, 0)
joint = squareform(similar)
y = early.embedding_.astype(float)
kl, gradient = _kl_divergence(y.ravel(), similar, 1, n, 2)  # kl_divergence_ is that of a step before
z = (x - x.mean(0)) / x.std(0)
copies = np.arange(n) >= N
# C sums losses where vitrine's lambda stands beside their mean
fit = LogisticRegression(C=1 / (n * LAMBDA), solver="newton-cholesky", tol=1e-13, max_iter=1000).fit(z, copies)

with open("tests/fixtures/features.json", "w") as f:
    json.dump({
        "x": x.tolist(),
        "perplexity": PERPLEXITY,
        "variances": pca.explained_variance_.tolist(),
        "rate": RATE,
        "steps": STEPS,
        "kl": float(kl),
        "gradient": gradient.reshape(n, 2).tolist(),
        "y": y.tolist(),
        "ends": ends,
        "rows": list(ROWS),
        "joint": [joint[k].tolist() for k in ROWS],
        "lambda": LAMBDA,
        "weights": fit.coef_[0].tolist() + fit.intercept_.tolist(),
    }, f)
    f.write("\n")
