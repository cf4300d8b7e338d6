# SPDX-License-Identifier: MIT
"""Runs: evaluations by the command's options, folders that hold one, trainings."""

import ctypes as c
import json
import os

import numpy as np

from ._library import (VERDICT, Error, Handle, Listener, Verdicts, call, call_interruptible, lib, norm_name, pairs)


class Run(Handle):
    """An evaluation: its entries ("clean", then the attacks), verdicts and points."""

    _close = staticmethod(lib.vitrine_run_close)

    def __init__(self, handle):
        self._handle = handle

    @property
    def entries(self):
        return [lib.vitrine_run_entry(self.handle, k).decode() for k in range(lib.vitrine_run_entries(self.handle) + 1)]

    def _number(self, entry):
        if not isinstance(entry, str):
            return int(entry)
        names = self.entries
        if names.count(entry) != 1:
            raise KeyError("%r is %d of the entries %s: name one by its number" % (entry, names.count(entry), names))
        return names.index(entry)

    def verdicts(self, entry):
        """Of every image, ascending; entry: a name or a number, 0: clean."""
        v = np.zeros(lib.vitrine_run_images(self.handle), VERDICT)
        call("run_verdicts", self.handle, self._number(entry), v.ctypes.data)
        return v.view(Verdicts)

    def adversarial(self, entry, image):
        """The stored point [channels, height, width]; Error: none was stored."""
        n, m = lib.vitrine_run_pixels(self.handle), self.results["model"]
        side = round((n / 3)**0.5)
        x = np.empty([m[k]["value"] for k in ("channels", "height", "width")] if "channels" in m else (3, side, side),
                     np.float32)
        call("run_adversarial", self.handle, self._number(entry), image, x.ctypes.data)
        return x

    @property
    def results(self):
        """results.json, as a dict."""
        text = c.c_void_p()
        call("run_json", self.handle, c.byref(text))
        try:
            return json.loads(c.string_at(text.value).decode())
        finally:
            lib.vitrine_free(text)

    def table(self):
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


def _listener(flag, on_verdict, say):
    """A Listener, and what must live as long as it."""
    failures = []

    def guard(f):
        def guarded(*args):
            try:
                f(*args)
            except BaseException as e:  # nothing may pass through C
                failures.append(e)
                flag.value = 1
        return guarded

    one = lambda _, entry, at: on_verdict(entry, np.frombuffer(c.string_at(at, VERDICT.itemsize), VERDICT)[0])
    text = lambda _, t: say(t.decode("utf-8", "replace"))
    l = Listener(c.sizeof(Listener), Listener.ON_VERDICT(guard(one) if on_verdict else 0), Listener.SAY(guard(text) if say else 0),
                 None, c.addressof(flag))
    return l, failures


def _call(name, on_verdict, say, options, *before):
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


def evaluate(weights=None, on_verdict=None, say=None, **options):
    """An evaluation with the options of `vitrine eval` (vitrine_evaluate): evaluate("weights/x", data="folder",
    attack=["pgd", "square"], eps="8/255", images="0:100", out="run"). A flag is true, a list repeats an option, a _ stands
    for a -. on_verdict(entry, verdict) is called for each image as soon as it is decided, say(text) with the progress. Returns a
    Run."""
    if options.get("norm") is not None:
        options["norm"] = norm_name(options["norm"]).decode()
    out = c.c_void_p()
    _call("evaluate", on_verdict, say, dict(options, weights=None if weights is None else os.fspath(weights)), c.byref(out))
    return Run(out.value)


def read_run(folder, frame=None):
    """A run's folder as Run.table() gives it; frame: as a pandas DataFrame (None: where pandas is installed)."""
    out = c.c_void_p()
    call("read", c.byref(out), os.fsencode(folder))
    with Run(out.value) as r:
        columns = r.table()
    if frame is False:
        return columns
    try:
        import pandas
    except ImportError:
        if frame:
            raise
        return columns
    return pandas.DataFrame(columns)


def train(recipe, say=None, **options):
    """A training by a recipe (vitrine_train): train("recipe.yaml", data="folder", out="runs/x", set=["epochs=2"])."""
    _call("train", None, say, dict(options, recipe=os.fspath(recipe)))
