# SPDX-License-Identifier: MIT
"""Models: a checkpoint, one in another process, functions of one's own."""

from __future__ import annotations

import ctypes as c
import os
from typing import Any, Callable, Optional

import numpy as np
import numpy.typing as npt

from ._library import A, Classifier, Floats, Handle, Shape, T, array, call, call_held, images, lib, like, pairs


class Model(Handle):
    """A classifier of images float32 [channels, height, width] in [0, 1]; mean and std are its own business. May be used
    by several threads at once."""

    _close = staticmethod(lib.vitrine_close)

    def __init__(self, handle: Optional[int], keeps: Optional[_Own] = None) -> None:
        self._handle, self._keeps = handle, keeps

    @property
    def classes(self) -> int:
        """How many classes it tells apart."""
        return int(lib.vitrine_classes(self.handle))

    @property
    def side(self) -> int:
        """Pixels of its images [3, side, side]; 0: they are of another shape."""
        return int(lib.vitrine_side(self.handle))

    @property
    def shape(self) -> Shape:
        """(channels, height, width) of an image."""
        h = self.handle
        return int(lib.vitrine_channels(h)), int(lib.vitrine_height(h)), int(lib.vitrine_width(h))

    @property
    def sha256(self) -> str:
        """Of the file, 64 hexadecimal digits; empty for a model without one."""
        return str(lib.vitrine_sha256(self.handle).decode())

    @property
    def assumed(self) -> str:
        """What was assumed because the file does not tell it, which part of the file was read, and what was not."""
        return str(lib.vitrine_assumed(self.handle).decode())

    def __repr__(self) -> str:
        return "<vitrine.Model: closed>" if not self._handle else "<vitrine.Model: %d classes, %d x %d x %d>" % (
            (self.classes,) + self.shape)

    def logits(self, x: A, threads: int = 0) -> A:
        """float32 [n, classes], of x's kind. x: float32 [n, *shape] in [0, 1], of one channel also [n, height, width].
        threads: 0: as many as there are processors. TypeError, ValueError: x is of another type, device or shape."""
        pixels = images(x, self.shape)
        z = np.empty((len(pixels), self.classes), np.float32)
        self.raising(lambda: self.ask("logits", self.handle, len(pixels), pixels.ctypes.data, z.ctypes.data, threads))
        return like(x, z)

    def vjp(self, x: A, cotangent: Any, threads: int = 0) -> A:
        """The gradient, float32 of x's kind and shape, of sum(logits(x) * cotangent) at x, in logits per unit of pixels.
        cotangent: [n, classes], of any kind. Error: the model gives no gradients."""
        pixels = images(x, self.shape)
        dz = np.ascontiguousarray(array(cotangent, "cotangent"), np.float32)
        if dz.shape != (len(pixels), self.classes):
            raise ValueError("cotangent is %s, must be %s" % (list(dz.shape), [len(pixels), self.classes]))
        dx = np.empty_like(pixels)
        self.raising(lambda: self.ask("vjp", self.handle, len(pixels), pixels.ctypes.data, dz.ctypes.data, dx.ctypes.data,
                                      threads))
        given: Any = x
        return like(x, dx.reshape(np.shape(given)))

    def ask(self, *args: Any) -> None:
        (call_held if self._keeps is None else call)(*args)

    def raising(self, f: Callable[[], T]) -> T:
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


def load(path: str | os.PathLike[str], **options: Any) -> Model:
    """The model of a checkpoint (.safetensors, .pth, .onnx, or a folder that holds one): load("model.pth", heads=3,
    mean="0.5,0.5,0.5"). options: what tensors cannot tell, by the names of the command's (vitrine_open). Error: the file
    cannot be read, or something would have to be guessed; the sentence names the options that tell."""
    out = c.c_void_p()
    call("open", c.byref(out), os.fsencode(path), pairs(options))
    return Model(out.value)


def connect(where: str | os.PathLike[str], timeout: float = 600.0) -> Model:
    """A model in another process: a command line, "unix:PATH" or "tcp:PORT" (docs/oracle.md). timeout: seconds for one
    answer, 0.1 to 1e6. Error: it cannot be started or reached, or does not speak the protocol."""
    out = c.c_void_p()
    call("connect", c.byref(out), os.fsencode(where), timeout)
    return Model(out.value)


class _Own:
    """What C calls, and what must live as long as the model."""

    def __init__(self, logits: Callable[[Floats], Any], vjp: Optional[Callable[[Floats, Floats], Any]], classes: int,
                 shape: Shape) -> None:
        self.failure: Optional[BaseException] = None
        self.shapes = shape, (classes,)
        self.functions = Classifier.LOGITS(self._logits(logits)), Classifier.VJP(self._vjp(vjp)) if vjp else Classifier.VJP(0)

    def _view(self, pointer: Any, n: int, shape: tuple[int, ...]) -> Floats:
        view: Floats = np.ctypeslib.as_array(pointer, (n,) + shape)
        return view

    def _guard(self, f: Callable[[], None]) -> int:
        try:
            f()
            return 0
        except BaseException as e:  # nothing may pass through C
            self.failure = e
            return 1

    def _fill(self, pointer: Any, n: int, shape: tuple[int, ...], given: Any, what: str) -> None:
        got = array(given, what)
        if got.shape != (n,) + shape:
            raise ValueError("%s returned %s, must be %s" % (what, list(got.shape), [n] + list(shape)))
        self._view(pointer, n, shape)[...] = got

    def _logits(self, f: Callable[[Floats], Any]) -> Callable[..., int]:
        image, scores = self.shapes
        return lambda _, n, x, z: self._guard(
            lambda: self._fill(z, n, scores, f(self._view(x, n, image).copy()), "logits"))

    def _vjp(self, f: Callable[[Floats, Floats], Any]) -> Callable[..., int]:
        image, scores = self.shapes
        return lambda _, n, x, dz, dx: self._guard(
            lambda: self._fill(dx, n, image, f(self._view(x, n, image).copy(), self._view(dz, n, scores).copy()), "vjp"))


def own(logits: Callable[[Floats], Any], vjp: Optional[Callable[[Floats, Floats], Any]], classes: int,
        side: Optional[int] = None, batch: int = 64, random: bool = False, name: str = "a Python function",
        shape: Optional[Shape] = None) -> Model:
    """A model of one's own: logits(x) -> [n, classes], vjp(x, dz) -> the gradient, as x, of
    sum(logits(x) * dz); vjp None: it has no gradients. Both are called by one thread at a time, with at most `batch`
    images float32 [n, *shape], numpy's; they may answer with arrays of any kind. What they raise is raised by whatever
    called them. random: logits draw when they are asked; name: for sentences.
    shape: (channels, height, width) of an image; side, in its place: they are [3, side, side]."""
    if shape is not None and side is None:
        channels, height, width = shape
    elif shape is None and side is not None:
        channels, height, width = 3, side, side
    else:
        raise ValueError("give shape, or side in its place")
    shape = channels, height, width
    keeps = _Own(logits, vjp, classes, shape)
    described = Classifier(c.sizeof(Classifier), name.encode(), classes, *shape, batch, 0, bool(random), None,
                           *keeps.functions)
    out = c.c_void_p()
    call("own", c.byref(out), c.byref(described))
    return Model(out.value, keeps)
