# SPDX-License-Identifier: MIT
"""What a package's builds cost beside one tuned for this machine: images a second of `vitrine bench`, in rounds that
alternate; the ratio of each round, its median and its interval over rounds (sign test: the 2nd smallest and largest of 8).

    for l in x86-64-v2 x86-64-v3 x86-64-v4; do make LEVEL=$l BUILD=build/$l; done; make
    python3 bench/levels.py [--rounds 8] [--weights weights/cifar10-at] [LEVEL ...]
"""
import argparse
import os
import re
import statistics
import subprocess

ROOT = os.path.dirname(os.path.dirname(os.path.abspath(__file__)))


def rates(program, weights):
    env = {k: v for k, v in os.environ.items() if k not in ("OPENBLAS_CORETYPE", "VITRINE_RESTARTED")}
    text = subprocess.run([program, "bench", weights, "--ms", "300"], env=env, cwd=ROOT, check=True, capture_output=True,
                          text=True).stdout
    found = {k: float(v) for k, v in re.findall(r"^(forward|gradient step) +([0-9.]+)", text, re.M)}
    if len(found) != 2:
        raise SystemExit("vitrine bench printed something else:\n" + text)
    return found


def main():
    p = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    p.add_argument("levels", nargs="*", default=["x86-64-v2", "x86-64-v3", "x86-64-v4"])
    p.add_argument("--rounds", type=int, default=8)
    p.add_argument("--weights", default="weights/cifar10-at")
    a = p.parse_args()
    programs = {"native": os.path.join(ROOT, "build", "vitrine")}
    programs.update({l: os.path.join(ROOT, "build", l, "vitrine") for l in a.levels})
    for l in a.levels:
        if subprocess.run([programs[l], "--version"], capture_output=True).returncode:
            raise SystemExit("%s: not there, or not for this processor: make LEVEL=%s BUILD=build/%s" % (programs[l], l, l))
    got = {n: [] for n in programs}
    for r in range(a.rounds):
        for n in sorted(programs, reverse=r % 2 == 1):
            got[n].append(rates(programs[n], a.weights))
    for what in ("forward", "gradient step"):
        print("%s, native: %.0f images/s" % (what, statistics.median(g[what] for g in got["native"])))
        for l in a.levels:
            ratio = sorted(x[what] / y[what] for x, y in zip(got[l], got["native"]))
            edge = 1 if len(ratio) >= 8 else 0
            print("  %s / native: %.3f [%.3f, %.3f]" % (l, statistics.median(ratio), ratio[edge], ratio[-1 - edge]))


if __name__ == "__main__":
    main()
