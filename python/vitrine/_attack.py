# SPDX-License-Identifier: MIT
"""Attacks on arrays, and verdicts on points that somebody else made."""

import ctypes as c

import numpy as np

from ._library import VERDICT, Plan, call_interruptible, images, whole

CORRECT, WRONG, ROBUST, BROKEN, INVALID, NOT_FINITE = range(6)  # vitrine_outcome


def attack(model, x, labels, attack, eps, norm="linf", seed=0, threads=0, batch=0, exhaustive=False, numbers=None):
    """(x_adv, verdicts): x_adv is x where nothing was found; verdicts is a structured array [n] with the
    fields of vitrine_verdict. attack: "apgd-ce", "pgd:steps=20", "autoattack"; numbers [n]: of the images, on which random
    draws depend (default 0, 1, ...)."""
    x = images(x, model.shape)
    y = whole(labels, len(x), "labels")
    order = None if numbers is None else whole(numbers, len(x), "numbers")
    x_adv, verdicts = np.empty_like(x), np.zeros(len(x), VERDICT)
    flag = c.c_int(0)
    plan = Plan(c.sizeof(Plan), attack.encode(), norm.encode(), eps, seed, threads, batch, bool(exhaustive),
                None if order is None else order.ctypes.data, c.addressof(flag))
    model.raising(lambda: call_interruptible("attack", flag, model.handle, c.byref(plan), len(x), x.ctypes.data,
                                             y.ctypes.data, x_adv.ctypes.data, verdicts.ctypes.data))
    return x_adv, verdicts


def judge(model, x, x_adv, labels, eps, norm="linf"):
    """What the judge says of points x_adv within eps of x: verdicts, as attack's."""
    x, x_adv = images(x, model.shape), images(x_adv, model.shape, "x_adv")
    if x.shape != x_adv.shape:
        raise ValueError("x_adv has %d images, x %d" % (len(x_adv), len(x)))
    y = whole(labels, len(x), "labels")
    verdicts = np.zeros(len(x), VERDICT)
    model.raising(lambda: model.ask("judge", model.handle, norm.encode(), eps, len(x), x.ctypes.data, x_adv.ctypes.data,
                               y.ctypes.data, verdicts.ctypes.data))
    return verdicts
