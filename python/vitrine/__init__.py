# SPDX-License-Identifier: MIT
"""libvitrine from Python: attacks on image classifiers, verdicts, evaluations, training. Pure Python over the C library
(ctypes), with numpy; docs/python.md is the tour, include/vitrine.h says what every function promises.

    model = vitrine.load("weights/shapes10-vit")
    x_adv, verdicts = vitrine.attack(model, x, labels, "apgd-ce", 8 / 255)

Images are float32 [n, channels, height, width] in [0, 1], arrays of numpy, torch or another library that speaks DLPack, on
the processor; whatever fails raises vitrine.Error with the library's sentence. The library is $VITRINE_LIBRARY, else
libvitrine.so.0 in or beside this package (a wheel, a build tree, an installation), else the system's.
"""

from ._library import (BROKEN, CORRECT, INVALID, NOT_FINITE, OUTCOMES, ROBUST, WRONG, Error, Verdicts, environment,
                       version)
from ._model import Model, connect, load, own
from ._run import Run, evaluate, read_run, train
from ._attack import attack, attacks, judge, norms

__version__ = version()
__all__ = ["BROKEN", "CORRECT", "Error", "INVALID", "Model", "NOT_FINITE", "OUTCOMES", "ROBUST", "Run", "Verdicts", "WRONG",
           "attack", "attacks", "connect", "environment", "evaluate", "judge", "load", "norms", "own", "read_run", "train",
           "version"]
