# SPDX-License-Identifier: MIT
"""Attacks on arrays, verdicts on points of other programs, and what attacks there are."""

from __future__ import annotations

import ctypes as c
from typing import Any, Optional, Sequence

import numpy as np
import numpy.typing as npt

from ._library import (A, AttackInfo, Eps, Norm, OptionInfo, Plan, VERDICT, Verdicts, call_interruptible, images, lib,
                       like, norm_name, real, whole)
from ._model import Model


def _plan(n: int, labels: Any, attack: str | Sequence[str] | None, eps: Eps, norm: Norm, seed: int, threads: int,
          batch: int, exhaustive: bool, numbers: Any, threat: Optional[str], targets: Any, eight_bit: bool,
          allowance: float | str) -> tuple[Plan, c.c_int, npt.NDArray[np.int32]]:
    """(plan, flag that ends the call, labels); the plan's arrays live as long as it."""
    if (eps is None) == (threat is None):
        raise ValueError("give eps, or a threat in its place")
    if threat is not None and norm is not None:
        raise ValueError("a threat stands in place of norm and eps: give one or the other")
    if attack is not None and not isinstance(attack, str):
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


def attack(model: Model, x: A, labels: Any, attack: str | Sequence[str], eps: Eps = None, norm: Norm = None,
           seed: int = 0, threads: int = 0, batch: int = 0, exhaustive: bool = False, numbers: Any = None,
           threat: Optional[str] = None, targets: Any = None, eight_bit: bool = False) -> tuple[A, Verdicts]:
    """(x_adv, verdicts): x_adv is of x's kind and shape, x where nothing was found; verdicts is a Verdicts [n].

    x: float32 [n, *model.shape] in [0, 1], an array of numpy, torch or another library that speaks DLPack, on the
    processor. labels, numbers, targets: n whole numbers. attack: "apgd-ce", "pgd:steps=20", or a list, each on what the
    one before left (vitrine.attacks() has them all). eps: 8 / 255 or "8/255", in the unit of the pixels (l0: how many
    pixels); norm: "linf" (default), "l2", "l1", "l0", or numpy.inf, 2, 1, 0. threat: "patch:size=8" or "rotation", in
    place of eps and norm. seed, numbers: of the images, on which random draws depend (default 0, 1, ...). targets: the
    class that each image is to be taken for. threads: 0: as many as there are processors; batch: images attacked
    together, 0: chosen; results depend on neither. exhaustive: a broken image is attacked to the end. eight_bit: only
    points of whole grey levels count.

    TypeError, ValueError: an array is of another type, device or shape. Error: the library's sentence on the rest."""
    pixels = images(x, model.shape)
    n = len(pixels)
    plan, flag, y = _plan(n, labels, attack, eps, norm, seed, threads, batch, exhaustive, numbers, threat, targets,
                          eight_bit, 0)
    x_adv, verdicts = np.empty_like(pixels), np.zeros(n, VERDICT)
    model.raising(lambda: call_interruptible("attack", flag, model.handle, c.byref(plan), n, pixels.ctypes.data,
                                             y.ctypes.data, x_adv.ctypes.data, verdicts.ctypes.data))
    given: Any = x
    return like(x, x_adv.reshape(np.shape(given))), verdicts.view(Verdicts)


def judge(model: Model, x: Any, x_adv: Any, labels: Any, eps: Eps = None, norm: Norm = None, seed: int = 0,
          threads: int = 0, numbers: Any = None, threat: Optional[str] = None, targets: Any = None,
          eight_bit: bool = False, allowance: float | str = 2.0**-24) -> Verdicts:
    """What the judge says of points x_adv, float32 [n, *model.shape], within eps of x: a Verdicts [n], as attack's, whose
    arguments these are. allowance: what rounding in the program that made them may have added to each value (0:
    nothing)."""
    clean, points = images(x, model.shape), images(x_adv, model.shape, "x_adv")
    if clean.shape != points.shape:
        raise ValueError("x_adv has %d images, x %d" % (len(points), len(clean)))
    n = len(clean)
    plan, flag, y = _plan(n, labels, None, eps, norm, seed, threads, 0, False, numbers, threat, targets, eight_bit, allowance)
    verdicts = np.zeros(n, VERDICT)
    model.raising(lambda: call_interruptible("judge", flag, model.handle, c.byref(plan), n, clean.ctypes.data,
                                             points.ctypes.data, y.ctypes.data, verdicts.ctypes.data))
    return verdicts.view(Verdicts)


def _options(attack: bytes) -> dict[str, dict[str, Any]]:
    o = OptionInfo(c.sizeof(OptionInfo))
    found: dict[str, dict[str, Any]] = {}
    while lib.vitrine_list_option(attack, len(found), c.byref(o)):
        row: dict[str, Any] = {"help": o.help.decode(), "type": o.type.decode(), "default": o.preset.decode()}
        if o.choices:
            row["choices"] = o.choices.decode().split("|")
        if row["type"] in ("integer", "real", "triple"):
            row.update(min=o.min, max=o.max)
        found[o.name.decode()] = row
    return found


def attacks() -> dict[str, dict[str, Any]]:
    """{name: {summary, reference, norms, gradients, surrogate, options}}; options: {name: {help, type, default, and choices
    or min and max}}. Those that know the norm "patch" also take the options `where` and `places` under that threat."""
    a = AttackInfo(c.sizeof(AttackInfo))
    found: dict[str, dict[str, Any]] = {}
    while lib.vitrine_list_attack(len(found), c.byref(a)):
        found[a.name.decode()] = {"summary": a.summary.decode(), "reference": a.reference.decode(),
                                  "norms": a.norms.decode().split(), "gradients": bool(a.gradients),
                                  "surrogate": bool(a.surrogate), "options": _options(a.name)}
    return found


def norms() -> list[str]:
    """["linf", "l2", "l1", "l0"]"""
    found: list[str] = []
    while lib.vitrine_list_norm(len(found)):
        found.append(lib.vitrine_list_norm(len(found)).decode())
    return found
