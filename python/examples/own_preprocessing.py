# SPDX-License-Identifier: MIT
"""A model that prepares its input itself (here: smoothed, then enlarged, then seen in grey), as plain functions on numpy
arrays: the gradient goes back through all of it, so that attacks see the model that is deployed. Needs numpy alone.

    vitrine eval --oracle 'python3 python/examples/own_preprocessing.py' --data datasets/shapes10 --images 0:50 \
        --eps 4/255 --attack pgd
"""

import os
import sys

import numpy as np

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), ".."))
import vitrine_oracle

SIDE, CLASSES, HIDDEN = 32, 10, 64
GREY = np.array([0.299, 0.587, 0.114], np.float32)
draw = np.random.RandomState(7)
W1 = (draw.randn(HIDDEN, 4 * SIDE * SIDE) / np.sqrt(4 * SIDE * SIDE)).astype(np.float32)  # any weights will do here
W2 = (draw.randn(CLASSES, HIDDEN) / np.sqrt(HIDDEN)).astype(np.float32)


def smooth(x):  # [rows, h, w]: the mean of each pixel and its four neighbours, round the edges; it is its own transpose
    return (x + np.roll(x, 1, 1) + np.roll(x, -1, 1) + np.roll(x, 1, 2) + np.roll(x, -1, 2)) / 5


def prepare(x):
    grey = smooth(np.einsum("nchw,c->nhw", x, GREY))
    return grey.repeat(2, 1).repeat(2, 2).reshape(len(x), -1)


def prepare_backward(dy):
    d = dy.reshape(len(dy), SIDE, 2, SIDE, 2).sum((2, 4))
    return np.einsum("nhw,c->nchw", smooth(d), GREY)


kept = {}


def logits(x, keep):
    y = prepare(x) - 0.5
    h = np.tanh(8 * y @ W1.astype(x.dtype).T)
    if keep:
        kept["h"] = h
    return 4 * h @ W2.astype(x.dtype).T


def vjp(dz):
    dh = 4 * dz @ W2
    return prepare_backward(8 * (dh * (1 - kept["h"] ** 2)) @ W1)


vitrine_oracle.serve(logits, vjp, classes=CLASSES, shape=(3, SIDE, SIDE), name="own-preprocessing",
                     logits64=lambda x: logits(x.astype(np.float64), False), library="numpy " + np.__version__)
