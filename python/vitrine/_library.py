# SPDX-License-Identifier: MIT
"""The C library: where it is, its functions with their types, and failures as exceptions."""

from __future__ import annotations

import ctypes as c
import os
import signal
import sys
import threading
from typing import Any, Callable, Mapping, Optional, Protocol, Sequence, Tuple, TypeVar, Union

import numpy as np
import numpy.typing as npt

Shape = Tuple[int, int, int]  # channels, height, width
Floats = npt.NDArray[np.float32]
Eps = Union[float, str, None]  # 8 / 255 or "8/255"
Norm = Union[str, float, None]  # "l2" or 2
T = TypeVar("T")


class Array(Protocol):
    """An array in the processor's memory: numpy's, or that of another library that speaks DLPack (torch, jax, ...)."""

    @property
    def shape(self) -> Any: ...

    def __dlpack__(self) -> Any: ...


A = TypeVar("A", bound=Array)  # results are of the kind that was given

_HERE = os.path.dirname(os.path.abspath(__file__))
_NAME = "libvitrine.so.0"


def _candidates() -> list[str]:
    told = os.environ.get("VITRINE_LIBRARY")
    if told:
        return [told]
    up: Callable[[int], str] = lambda k: os.path.join(_HERE, *[os.pardir] * k)
    near = [os.path.join(_HERE, "lib", "libvitrine-best.so")]  # a wheel (tools/wheel.py)
    near += [os.path.join(up(2), "build", "release", _NAME)]  # a build tree: python/vitrine
    near += [os.path.join(up(4), "lib", _NAME)]  # an installation: share/vitrine/python/vitrine
    return [p for p in near if os.path.exists(p)] + [_NAME]


def _load() -> c.CDLL:
    path = _candidates()[0]
    try:
        return c.CDLL(path)
    except OSError as e:
        raise ImportError("vitrine's library cannot be loaded (VITRINE_LIBRARY names another): %s" % e) from None


class Err(c.Structure):
    _fields_ = [("code", c.c_int), ("text", c.c_char * 2000)]


class Classifier(c.Structure):
    LOGITS = c.CFUNCTYPE(c.c_int, c.c_void_p, c.c_int, c.POINTER(c.c_float), c.POINTER(c.c_float))
    VJP = c.CFUNCTYPE(c.c_int, c.c_void_p, c.c_int, c.POINTER(c.c_float), c.POINTER(c.c_float), c.POINTER(c.c_float))
    _fields_ = [("size", c.c_size_t), ("name", c.c_char_p), ("classes", c.c_int), ("channels", c.c_int),
                ("height", c.c_int), ("width", c.c_int), ("batch", c.c_int), ("parallel", c.c_int), ("random", c.c_int),
                ("self", c.c_void_p), ("logits", LOGITS), ("vjp", VJP)]


class Plan(c.Structure):
    _fields_ = [("size", c.c_size_t), ("attack", c.c_char_p), ("norm", c.c_char_p), ("eps", c.c_double),
                ("seed", c.c_uint64), ("threads", c.c_int), ("batch", c.c_int), ("exhaustive", c.c_int),
                ("images", c.c_void_p), ("interrupt", c.c_void_p), ("threat", c.c_char_p), ("targets", c.c_void_p),
                ("eight_bit", c.c_int), ("allowance", c.c_double)]


class AttackInfo(c.Structure):
    _fields_ = [("size", c.c_size_t), ("name", c.c_char_p), ("summary", c.c_char_p), ("reference", c.c_char_p),
                ("norms", c.c_char * 40), ("gradients", c.c_int), ("surrogate", c.c_int)]


class OptionInfo(c.Structure):
    _fields_ = [("size", c.c_size_t), ("name", c.c_char_p), ("help", c.c_char_p), ("type", c.c_char_p),
                ("choices", c.c_char_p), ("preset", c.c_char * 200), ("min", c.c_double), ("max", c.c_double)]


# vitrine_verdict
VERDICT = np.dtype([(k, np.int32) for k in ("image", "label", "clean", "outcome", "pred", "pred64", "borderline", "stage")] +
                   [(k, np.float64) for k in ("margin", "margin64", "linf", "l2", "l1", "l0")] +
                   [(k, np.int64) for k in ("forwards", "gradients")])
OUTCOMES = ("correct", "wrong", "robust", "broken", "invalid", "not finite", "certified", "undecided")  # vitrine_outcome
CORRECT, WRONG, ROBUST, BROKEN, INVALID, NOT_FINITE, CERTIFIED, UNDECIDED = range(len(OUTCOMES))


class Verdicts(np.ndarray[Any, np.dtype[np.void]]):
    """[n] records, one an image, with the fields of vitrine_verdict (include/vitrine.h): v["outcome"], v["margin"], ...
    linf, l2, l1 and l0 are distances in the unit of the pixels, [0, 1]."""

    __module__ = "vitrine"

    def __getitem__(self, key: Any) -> Any:
        got = self.view(np.ndarray)[key]
        return got.view(Verdicts) if isinstance(got, np.ndarray) and got.dtype == VERDICT else got

    @property
    def success(self) -> npt.NDArray[np.bool_]:
        """bool [n]: was the image broken?"""
        return np.asarray(self["outcome"] == BROKEN)

    @property
    def outcomes(self) -> npt.NDArray[np.str_]:
        """The outcomes' names [n]: "broken"; "open" where a run has not come to the image yet."""
        return np.asarray(np.array(OUTCOMES + ("open",))[self["outcome"]])


class Handle:
    """What a handle of the C library is: closed by close(), at the end of a `with`, or with its last reference."""

    _handle: Optional[int] = None  # of a half-made object too
    _close: Callable[[int], None]

    def close(self) -> None:
        """Frees what the library holds; later calls raise ValueError. Closing twice is allowed."""
        handle, self._handle = self._handle, None
        if handle:
            self._close(handle)

    __del__ = close

    def __enter__(self: T) -> T:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def __reduce_ex__(self, protocol: Any) -> Any:
        raise TypeError("a vitrine.%s cannot be copied or pickled, since it is a handle of the C library: open it again"
                        % type(self).__name__)

    @property
    def handle(self) -> int:
        if not self._handle:
            raise ValueError("the %s is closed" % type(self).__name__.lower())
        return self._handle


class Listener(c.Structure):
    ON_VERDICT = c.CFUNCTYPE(None, c.c_void_p, c.c_int, c.c_void_p)
    SAY = c.CFUNCTYPE(None, c.c_void_p, c.c_char_p)
    _fields_ = [("size", c.c_size_t), ("on_verdict", ON_VERDICT), ("say", SAY), ("ctx", c.c_void_p), ("interrupt", c.c_void_p)]


lib = _load()
_E, _P, _S, _N, _I = c.POINTER(Err), c.c_void_p, c.c_char_p, c.c_size_t, c.c_int
for _name, _result, _args in [
    ("version", _S, []), ("status_name", _S, [_I]), ("environment", _S, [_I]),
    ("open", _I, [_P, _S, _P, _E]), ("connect", _I, [_P, _S, c.c_double, _E]), ("own", _I, [_P, c.POINTER(Classifier), _E]),
    ("close", None, [_P]), ("classes", _I, [_P]), ("side", _I, [_P]), ("channels", _I, [_P]),
    ("height", _I, [_P]), ("width", _I, [_P]), ("pixels", _N, [_P]), ("sha256", _S, [_P]),
    ("assumed", _S, [_P]), ("logits", _I, [_P, _N, _P, _P, _I, _E]), ("vjp", _I, [_P, _N, _P, _P, _P, _I, _E]),
    ("attack", _I, [_P, c.POINTER(Plan), _N, _P, _P, _P, _P, _E]),
    ("judge", _I, [_P, c.POINTER(Plan), _N, _P, _P, _P, _P, _E]),
    ("list_attack", _I, [_I, c.POINTER(AttackInfo)]), ("list_option", _I, [_S, _I, c.POINTER(OptionInfo)]),
    ("list_norm", _S, [_I]),
    ("evaluate", _I, [_P, _P, c.POINTER(Listener), _E]), ("read", _I, [_P, _S, _E]), ("run_close", None, [_P]),
    ("run_entries", _I, [_P]), ("run_entry", _S, [_P, _I]), ("run_images", _N, [_P]), ("run_pixels", _N, [_P]),
    ("run_verdicts", _I, [_P, _I, _P, _E]), ("run_adversarial", _I, [_P, _I, c.c_int32, _P, _E]),
    ("run_json", _I, [_P, c.POINTER(_P), _E]), ("free", None, [_P]), ("train", _I, [_P, c.POINTER(Listener), _E]),
]:
    _f = getattr(lib, "vitrine_" + _name)
    _f.restype, _f.argtypes = _result, _args


class Error(Exception):
    """What the library refused or could not do, in one sentence. status: its number (vitrine_status); name: what that is
    called ("wrong usage")."""

    __module__ = "vitrine"

    def __init__(self, status: int, text: str) -> None:
        super().__init__(text)
        self.status = status
        self.name: str = lib.vitrine_status_name(status).decode()


def call(name: str, *args: Any) -> None:
    """vitrine_NAME(*args, &err), or Error."""
    e = Err()
    if getattr(lib, "vitrine_" + name)(*args, c.byref(e)):
        raise Error(e.code, e.text.decode("utf-8", "replace"))


def call_held(name: str, *args: Any) -> None:
    """The same while signals that somebody handles wait: interrupted on the same stack, kernels of oneDNN lose numbers
    (vitrine.h). Python would act on them behind the call anyway."""
    faults = {signal.SIGSEGV, signal.SIGBUS, signal.SIGFPE, signal.SIGILL, signal.SIGABRT}
    handled = {s for s in signal.valid_signals() - faults if signal.getsignal(s) not in (signal.SIG_DFL, signal.SIG_IGN)}
    before = signal.pthread_sigmask(signal.SIG_BLOCK, ())
    try:
        signal.pthread_sigmask(signal.SIG_BLOCK, handled)  # which may raise what came before it
        call(name, *args)
    finally:
        signal.pthread_sigmask(signal.SIG_SETMASK, before)


def call_interruptible(name: str, flag: c.c_int, *args: Any) -> None:
    """vitrine_NAME(*args, &err), or Error, in a thread of its own, so that Ctrl-C sets the flag (c_int) and ends it."""
    failed: list[Error] = []

    def run() -> None:
        try:
            call(name, *args)
        except Error as e:
            failed.append(e)

    t = threading.Thread(target=run)
    t.start()
    try:
        while t.is_alive():
            t.join(0.2)
    except BaseException:
        flag.value = 1
        t.join()
        raise
    if failed:
        raise failed[0]


def array(x: Any, what: str) -> npt.NDArray[Any]:
    """A numpy array of whatever is one, without a copy where that can be: sequences, and arrays of other libraries by
    DLPack. TypeError: it lies on another device, or its numbers are of a type that numpy lacks."""
    if isinstance(x, np.ndarray) or not hasattr(x, "__dlpack__"):
        return np.asarray(x)
    if int(x.__dlpack_device__()[0]) not in (1, 3):  # kDLCPU, kDLCUDAHost (pinned)
        raise TypeError("%s is on the device %s: give %s.cpu()" % (what, x.device, what))
    try:
        return np.asarray(np.from_dlpack(x.detach() if hasattr(x, "detach") else x))
    except (BufferError, RuntimeError) as e:
        raise TypeError("%s is %s, which numpy cannot view: %s" % (what, getattr(x, "dtype", type(x)), e)) from None


def like(given: T, result: npt.NDArray[Any]) -> T:
    """The result as an array of the library that `given` is of, by the array API standard; torch, which lacks its
    namespace, by name."""
    home: Any = np
    if hasattr(given, "__array_namespace__"):
        home = given.__array_namespace__()
    elif hasattr(given, "__dlpack__"):
        modules = [sys.modules.get(k.__module__.partition(".")[0]) for k in type(given).__mro__]
        home = next((m for m in modules if hasattr(m, "asarray")), np)
    made: T = home.asarray(result)
    return made


def images(x: Any, shape: Shape, what: str = "x") -> Floats:
    """float32 [n, *shape], contiguous, or [n, height, width] of one channel; floats of another width are refused, since
    rounding moves points."""
    x = array(x, what)
    if x.ndim == 3 and x.shape[1:] == shape[1:] and shape[0] == 1:
        x = x[:, None]
    if x.dtype != np.float32:
        raise TypeError("%s is %s, must be float32 (bytes: x.astype('float32') / numpy.float32(255))" % (what, x.dtype))
    if x.ndim != 4 or x.shape[1:] != shape or not len(x):
        raise ValueError("%s is %s, must be [n, %d, %d, %d]" % ((what, list(x.shape)) + shape))
    return np.ascontiguousarray(x)


def whole(values: Any, n: int, what: str) -> npt.NDArray[np.int32]:
    """int32 [n]."""
    v = array(values, what)
    if v.shape != (n,) or not (np.issubdtype(v.dtype, np.integer)):
        raise ValueError("%s is %s %s, must be %d whole numbers" % (what, v.dtype, list(v.shape), n))
    if n and (v.min() < -2**31 or v.max() >= 2**31):
        raise ValueError("%s: beyond 32 bits" % what)
    return np.ascontiguousarray(v, np.int32)


def norm_name(norm: Norm) -> bytes:
    """A norm as the library takes it; None: linf."""
    known: dict[Any, str] = {"inf": "linf", float("inf"): "linf", 2: "l2", 1: "l1", 0: "l0"}
    if norm is None:
        return b"linf"
    if not isinstance(norm, str) and (isinstance(norm, bool) or norm not in known):
        raise ValueError("norm is %r, must be 'linf', 'l2', 'l1', 'l0', or numpy.inf, 2, 1, 0" % (norm,))
    return str(known.get(norm, norm)).encode()


def real(value: Any, what: str) -> float:
    """A number, or a text such as "8/255"."""
    try:
        above, _, below = value.partition("/") if isinstance(value, str) else (value, "", "")
        return float(above) / float(below or 1)
    except (TypeError, ValueError, ZeroDivisionError):
        raise ValueError("%s is %r, must be a number, or a fraction as '8/255'" % (what, value)) from None


def pairs(options: Mapping[str, Any]) -> Any:
    """Keywords as a NULL-terminated array of "name=value": true is a flag, a list is repeated, None and false are left
    out."""
    texts = []
    for k, value in options.items():
        for v in value if isinstance(value, (list, tuple)) else [value]:
            if v is None or v is False:
                continue
            texts.append(k.replace("_", "-") if v is True else "%s=%s" % (k.replace("_", "-"), v))
    return (c.c_char_p * (len(texts) + 1))(*[os.fsencode(t) for t in texts])


def version() -> str:
    """Of the library: "0.1.0"."""
    return str(lib.vitrine_version().decode())


def environment() -> dict[str, str]:
    """Settings {name: value} of the environment with which a new process would be faster here, or give the command's bytes."""
    found: dict[str, str] = {}
    while True:
        text = lib.vitrine_environment(len(found))
        if not text:
            return found
        k, v = text.decode().split("=", 1)
        found[k] = v
