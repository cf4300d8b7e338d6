# SPDX-License-Identifier: MIT
"""Runs: evaluations by the command's options, folders that hold one, trainings."""

from __future__ import annotations

import ctypes as c
import importlib
import json
import os
from typing import Any, Callable, Optional

import numpy as np
import numpy.typing as npt

from ._library import (VERDICT, Error, Floats, Handle, Listener, Verdicts, call, call_interruptible, lib, norm_name, pairs)

Say = Optional[Callable[[str], Any]]
OnVerdict = Optional[Callable[[int, Any], Any]]


class Run(Handle):
    """An evaluation: its entries ("clean", then the attacks), verdicts and points."""

    _close = staticmethod(lib.vitrine_run_close)

    def __init__(self, handle: Optional[int]) -> None:
        self._handle = handle

    @property
    def entries(self) -> list[str]:
        """Names: "clean", then the attacks' in their order."""
        return [lib.vitrine_run_entry(self.handle, k).decode() for k in range(lib.vitrine_run_entries(self.handle) + 1)]

    def _number(self, entry: str | int) -> int:
        if not isinstance(entry, str):
            return int(entry)
        names = self.entries
        if names.count(entry) != 1:
            raise KeyError("%r is %d of the entries %s: name one by its number" % (entry, names.count(entry), names))
        return names.index(entry)

    def verdicts(self, entry: str | int) -> Verdicts:
        """Of every image, ascending: a Verdicts [n]; entry: a name or a number, 0: clean. KeyError: it is not one of the
        entries, or several."""
        v = np.zeros(lib.vitrine_run_images(self.handle), VERDICT)
        call("run_verdicts", self.handle, self._number(entry), v.ctypes.data)
        return v.view(Verdicts)

    def adversarial(self, entry: str | int, image: int) -> Floats:
        """The stored point, float32 [channels, height, width] in [0, 1]; Error: none was stored."""
        n, m = lib.vitrine_run_pixels(self.handle), self.results["model"]
        side = round((n / 3)**0.5)
        x = np.empty([m[k]["value"] for k in ("channels", "height", "width")] if "channels" in m else (3, side, side),
                     np.float32)
        call("run_adversarial", self.handle, self._number(entry), image, x.ctypes.data)
        return x

    @property
    def results(self) -> dict[str, Any]:
        """results.json, as a dict."""
        text = c.c_void_p()
        call("run_json", self.handle, c.byref(text))
        try:
            found: dict[str, Any] = json.loads(c.string_at(text.value or 0).decode())
            return found
        finally:
            lib.vitrine_free(text)

    def table(self) -> dict[str, npt.NDArray[Any]]:
        """A dict of arrays, a value an image: image, label, clean, and for each attack NAME.outcome, NAME.pred, NAME.margin,
        NAME.linf, NAME.l2. Attacks of the same name are told apart by their numbers, NAME-2."""
        first = self.verdicts(0)
        out = {"image": first["image"], "label": first["label"], "clean": first["pred"]}
        names = self.entries
        for k in range(1, len(names)):
            name = names[k] if names.count(names[k]) == 1 else "%s-%d" % (names[k], k)
            v = self.verdicts(k)
            out.update({"%s.%s" % (name, f): v[f].copy() for f in ("outcome", "pred", "margin", "linf", "l2")})
        return out


def _listener(flag: c.c_int, on_verdict: OnVerdict, say: Say) -> tuple[Listener, list[BaseException]]:
    """A Listener, and what its calls raised."""
    failures: list[BaseException] = []

    def guard(f: Callable[..., Any]) -> Callable[..., None]:
        def guarded(*args: Any) -> None:
            try:
                f(*args)
            except BaseException as e:  # nothing may pass through C
                failures.append(e)
                flag.value = 1
        return guarded

    def one(_: Any, entry: int, at: int) -> None:
        if on_verdict:
            on_verdict(entry, np.frombuffer(c.string_at(at, VERDICT.itemsize), VERDICT)[0])

    def text(_: Any, t: bytes) -> None:
        if say:
            say(t.decode("utf-8", "replace"))

    l = Listener(c.sizeof(Listener), Listener.ON_VERDICT(guard(one)) if on_verdict else Listener.ON_VERDICT(0),
                 Listener.SAY(guard(text)) if say else Listener.SAY(0), None, c.addressof(flag))
    return l, failures


def _call(name: str, on_verdict: OnVerdict, say: Say, options: dict[str, Any], *before: Any) -> None:
    flag = c.c_int(0)
    l, failures = _listener(flag, on_verdict, say)
    try:
        call_interruptible(name, flag, *before, pairs(options), c.byref(l))
    except Error:
        if failures:
            raise failures[0]
        raise
    if failures:
        raise failures[0]


def evaluate(weights: str | os.PathLike[str] | None = None, on_verdict: OnVerdict = None, say: Say = None,
             **options: Any) -> Run:
    """An evaluation with the options of `vitrine eval` (vitrine_evaluate): evaluate("weights/x", data="folder",
    attack=["pgd", "square"], eps="8/255", images="0:100", out="run"). A flag is true, a list repeats an option, a _ stands
    for a -. on_verdict(entry, verdict) is called for each image as soon as it is decided, say(text) with the progress; what
    they raise ends the run and is raised here. Returns a Run. Error: the library's sentence."""
    if options.get("norm") is not None:
        options["norm"] = norm_name(options["norm"]).decode()
    out = c.c_void_p()
    _call("evaluate", on_verdict, say, dict(options, weights=None if weights is None else os.fspath(weights)), c.byref(out))
    return Run(out.value)


def read_run(folder: str | os.PathLike[str], frame: Optional[bool] = None) -> Any:
    """A run's folder as Run.table() gives it; frame: as a pandas DataFrame (None: where pandas is installed; True:
    ImportError without it). Error: the folder holds no run."""
    out = c.c_void_p()
    call("read", c.byref(out), os.fsencode(folder))
    with Run(out.value) as r:
        columns = r.table()
    if frame is False:
        return columns
    try:
        pandas = importlib.import_module("pandas")
    except ImportError:
        if frame:
            raise
        return columns
    return pandas.DataFrame(columns)


def train(recipe: str | os.PathLike[str], say: Say = None, **options: Any) -> None:
    """A training by a recipe (vitrine_train): train("recipe.yaml", data="folder", out="runs/x", set=["epochs=2"]). say(text)
    is called with the progress. Error: the library's sentence."""
    _call("train", None, say, dict(options, recipe=os.fspath(recipe)))
