# SPDX-License-Identifier: MIT
"""Attacks on arrays, verdicts on points of other programs, and what attacks there are."""

import ctypes as c

import numpy as np

from ._library import (AttackInfo, OptionInfo, Plan, VERDICT, Verdicts, call_interruptible, images, lib, like,
                       norm_name, real, whole)


def _plan(model, n, labels, attack, eps, norm, seed, threads, batch, exhaustive, numbers, threat, targets, eight_bit,
          allowance):
    """(plan, flag that ends the call, labels); the plan's arrays live as long as it."""
    if (eps is None) == (threat is None):
        raise ValueError("give eps, or a threat in its place")
    if threat is not None and norm is not None:
        raise ValueError("a threat stands in place of norm and eps: give one or the other")
    if isinstance(attack, (list, tuple)):
        attack = "+".join(attack)
    flag = c.c_int(0)
    kept = [None if v is None else whole(v, n, what) for v, what in ((numbers, "numbers"), (targets, "targets"))]
    at = [None if v is None else v.ctypes.data for v in kept]
    plan = Plan(c.sizeof(Plan), None if attack is None else attack.encode(),
                None if threat else norm_name(norm), 0 if threat else real(eps, "eps"), seed, threads, batch,
                bool(exhaustive), at[0], c.addressof(flag), None if threat is None else threat.encode(), at[1],
                bool(eight_bit), real(allowance, "allowance"))
    plan.kept = kept
    return plan, flag, whole(labels, n, "labels")


def attack(model, x, labels, attack, eps=None, norm=None, seed=0, threads=0, batch=0, exhaustive=False, numbers=None,
           threat=None, targets=None, eight_bit=False):
    """(x_adv, verdicts): x_adv is of x's kind and shape, x where nothing was found; verdicts is a Verdicts [n]. attack:
    "apgd-ce", "pgd:steps=20", or a list, each on what the one before left (vitrine.attacks() has them all). eps: 8 / 255
    or "8/255"; norm: "linf" (default), "l2", "l1", "l0", or numpy.inf, 2, 1, 0. numbers [n]: of the images, on which random
    draws depend (default 0, 1, ...). threat: "patch:size=8", in place of eps and norm. targets [n]: the class that each
    image is to be taken for. eight_bit: only points of whole grey levels count."""
    pixels = images(x, model.shape)
    n = len(pixels)
    plan, flag, y = _plan(model, n, labels, attack, eps, norm, seed, threads, batch, exhaustive, numbers, threat, targets,
                          eight_bit, 0)
    x_adv, verdicts = np.empty_like(pixels), np.zeros(n, VERDICT)
    model.raising(lambda: call_interruptible("attack", flag, model.handle, c.byref(plan), n, pixels.ctypes.data,
                                             y.ctypes.data, x_adv.ctypes.data, verdicts.ctypes.data))
    return like(x, x_adv.reshape(tuple(np.shape(x)))), verdicts.view(Verdicts)


def judge(model, x, x_adv, labels, eps=None, norm=None, seed=0, threads=0, numbers=None, threat=None, targets=None,
          eight_bit=False, allowance=2.0**-24):
    """What the judge says of points x_adv within eps of x: a Verdicts, as attack's. allowance: what rounding in the
    program that made them may have added to each value (0: nothing)."""
    x, x_adv = images(x, model.shape), images(x_adv, model.shape, "x_adv")
    if x.shape != x_adv.shape:
        raise ValueError("x_adv has %d images, x %d" % (len(x_adv), len(x)))
    plan, flag, y = _plan(model, len(x), labels, None, eps, norm, seed, threads, 0, False, numbers, threat, targets,
                          eight_bit, allowance)
    verdicts = np.zeros(len(x), VERDICT)
    model.raising(lambda: call_interruptible("judge", flag, model.handle, c.byref(plan), len(x), x.ctypes.data,
                                             x_adv.ctypes.data, y.ctypes.data, verdicts.ctypes.data))
    return verdicts.view(Verdicts)


def _options(attack):
    o, found = OptionInfo(c.sizeof(OptionInfo)), {}
    while lib.vitrine_list_option(attack, len(found), c.byref(o)):
        row = {"help": o.help.decode(), "type": o.type.decode(), "default": o.preset.decode()}
        if o.choices:
            row["choices"] = o.choices.decode().split("|")
        if row["type"] in ("integer", "real", "triple"):
            row.update(min=o.min, max=o.max)
        found[o.name.decode()] = row
    return found


def attacks():
    """{name: {summary, reference, norms, gradients, surrogate, options}}; options: {name: {help, type, default, and choices
    or min and max}}. Those that know the norm "patch" also take the options `where` and `places` under that threat."""
    a, found = AttackInfo(c.sizeof(AttackInfo)), {}
    while lib.vitrine_list_attack(len(found), c.byref(a)):
        found[a.name.decode()] = {"summary": a.summary.decode(), "reference": a.reference.decode(),
                                  "norms": a.norms.decode().split(), "gradients": bool(a.gradients),
                                  "surrogate": bool(a.surrogate), "options": _options(a.name)}
    return found


def norms():
    """["linf", "l2", "l1", "l0"]"""
    found = []
    while lib.vitrine_list_norm(len(found)):
        found.append(lib.vitrine_list_norm(len(found)).decode())
    return found
