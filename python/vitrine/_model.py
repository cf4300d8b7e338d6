# SPDX-License-Identifier: MIT
"""Models: a checkpoint, one in another process, functions of one's own."""

import ctypes as c
import os
import threading

import numpy as np

from ._library import Classifier, Handle, array, call, call_held, images, lib, like, pairs


class Model(Handle):
    """May be used by several threads at once."""

    _close = staticmethod(lib.vitrine_close)

    def __init__(self, handle, keeps=None):
        self._handle, self._keeps = handle, keeps
        self._failed = threading.local()

    @property
    def classes(self):
        return lib.vitrine_classes(self.handle)

    @property
    def side(self):
        """Pixels of its images [3, side, side]; 0: they are of another shape."""
        return lib.vitrine_side(self.handle)

    @property
    def shape(self):
        """(channels, height, width) of an image."""
        return tuple(f(self.handle) for f in (lib.vitrine_channels, lib.vitrine_height, lib.vitrine_width))

    @property
    def sha256(self):
        return lib.vitrine_sha256(self.handle).decode()

    @property
    def assumed(self):
        """What was assumed because the file does not tell it, which part of the file was read, and what was not."""
        return lib.vitrine_assumed(self.handle).decode()

    def __repr__(self):
        return "<vitrine.Model: closed>" if not self._handle else "<vitrine.Model: %d classes, %d x %d x %d>" % (
            (self.classes,) + self.shape)

    def logits(self, x, threads=0):
        """[n, classes] of x [n, *shape]; a tensor of a tensor."""
        given, x = x, images(x, self.shape)
        z = np.empty((len(x), self.classes), np.float32)
        self.raising(lambda: self.ask("logits", self.handle, len(x), x.ctypes.data, z.ctypes.data, threads))
        return like(given, z)

    def vjp(self, x, cotangent, threads=0):
        """The gradient, of x's kind and shape, of sum(logits(x) * cotangent) at x; cotangent [n, classes]."""
        given, x = x, images(x, self.shape)
        dz = np.ascontiguousarray(array(cotangent, "cotangent"), np.float32)
        if dz.shape != (len(x), self.classes):
            raise ValueError("cotangent is %s, must be %s" % (list(dz.shape), [len(x), self.classes]))
        dx = np.empty_like(x)
        self.raising(lambda: self.ask("vjp", self.handle, len(x), x.ctypes.data, dz.ctypes.data, dx.ctypes.data, threads))
        return like(given, dx.reshape(tuple(np.shape(given))))

    def ask(self, *args):
        (call_held if self._keeps is None else call)(*args)

    def raising(self, f):
        """f(), and what a function of the caller's raised in it, rather than that it failed."""
        if self._keeps is None:
            return f()
        self._keeps.failure = None
        try:
            return f()
        except Exception:
            if self._keeps.failure is not None:
                raise self._keeps.failure
            raise


def load(path, **options):
    """A checkpoint (vitrine_open): load("model.pth", heads=3, mean="0.5,0.5,0.5")."""
    out = c.c_void_p()
    call("open", c.byref(out), os.fsencode(path), pairs(options))
    return Model(out.value)


def connect(where, timeout=600.0):
    """A model in another process: a command line, "unix:PATH" or "tcp:PORT" (docs/oracle.md)."""
    out = c.c_void_p()
    call("connect", c.byref(out), os.fsencode(where), timeout)
    return Model(out.value)


class _Own:
    """What C calls, and what must live as long as the model."""

    def __init__(self, logits, vjp, classes, shape):
        self.failure = None
        self.shapes = shape, (classes,)
        self.functions = Classifier.LOGITS(self._logits(logits)), Classifier.VJP(self._vjp(vjp) if vjp else 0)

    def _view(self, pointer, n, shape):
        return np.ctypeslib.as_array(pointer, (n,) + shape)

    def _guard(self, f):
        try:
            f()
            return 0
        except BaseException as e:  # nothing may pass through C
            self.failure = e
            return 1

    def _fill(self, pointer, n, shape, got, what):
        got = array(got, what)
        if got.shape != (n,) + shape:
            raise ValueError("%s returned %s, must be %s" % (what, list(got.shape), [n] + list(shape)))
        self._view(pointer, n, shape)[...] = got

    def _logits(self, f):
        image, scores = self.shapes
        return lambda _, n, x, z: self._guard(
            lambda: self._fill(z, n, scores, f(self._view(x, n, image).copy()), "logits"))

    def _vjp(self, f):
        image, scores = self.shapes
        return lambda _, n, x, dz, dx: self._guard(
            lambda: self._fill(dx, n, image, f(self._view(x, n, image).copy(), self._view(dz, n, scores).copy()), "vjp"))


def own(logits, vjp, classes, side=None, batch=64, random=False, name="a Python function", shape=None):
    """A model of one's own: logits(x) -> [n, classes], vjp(x, dz) -> the gradient, as x, of
    sum(logits(x) * dz); vjp None: it has no gradients. Both are called by one thread at a time, with at most `batch`
    images; what they raise is raised by whatever called them. random: logits draw when they are asked.
    shape: (channels, height, width) of an image; side, in its place: they are [3, side, side]."""
    if (shape is None) == (side is None):
        raise ValueError("give shape, or side in its place")
    shape = (3, side, side) if shape is None else tuple(shape)
    keeps = _Own(logits, vjp, classes, shape)
    described = Classifier(c.sizeof(Classifier), name.encode(), classes, *shape, batch, 0, bool(random), None,
                           *keeps.functions)
    out = c.c_void_p()
    call("own", c.byref(out), c.byref(described))
    return Model(out.value, keeps)
