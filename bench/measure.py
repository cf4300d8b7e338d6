# SPDX-License-Identifier: MIT
"""What the comparisons beside it share: PyTorch's settings, one measurement of PyTorch, of vitrine's training step, rounds
that alternate. Debian's python3 runs what needs torch or numpy; nothing here is run in CI."""
import glob
import json
import os
import re
import statistics
import subprocess

HERE = os.path.dirname(os.path.abspath(__file__))
ROOT = os.path.dirname(HERE)
VITRINE = os.path.join(ROOT, "build", "vitrine")
PYTHON = "/usr/bin/python3"
# name: preset of vitrine, batch, arguments of tools/vit.py, of tools/convit.py where local_up_to_layer is
# among them, of tools/swin.py where window_size is
MODELS = {
    "DeiT-Ti/224": (["deit_tiny_patch16_224"], 16,
                    dict(img_size=224, patch_size=16, num_classes=1000, embed_dim=192, depth=12, num_heads=3, mlp_ratio=4)),
    "ConViT-Ti/224": (["convit_tiny"], 16,
                      dict(img_size=224, patch_size=16, num_classes=1000, embed_dim=192, depth=12, num_heads=4, mlp_ratio=4,
                           local_up_to_layer=10)),
    "Swin-Ti/224": (["swin_tiny_patch4_window7_224"], 16, dict(img_size=224, num_classes=1000, window_size=7)),
    "ViT 32x32 (192, 9, patch 4)": (["vit_cifar_dim192_depth9"], 64,
                                    dict(img_size=32, patch_size=4, num_classes=10, embed_dim=192, depth=9, num_heads=3,
                                         mlp_ratio=4)),
}
SMALL = "ViT 32x32 (192, 9, patch 4)"


# ---- PyTorch ----

def openmp_blas():
    """Folder of the OpenMP build of OpenBLAS, or None."""
    where = os.path.join(ROOT, "build", "openblas-openmp")
    if not glob.glob(where + "/**/openblas-openmp", recursive=True):
        os.makedirs(where, exist_ok=True)
        got = subprocess.run(["apt-get", "download", "libopenblas0-openmp"], cwd=where, capture_output=True)
        for deb in glob.glob(where + "/*.deb"):
            subprocess.run(["dpkg", "-x", deb, where], check=True)
        if got.returncode:
            return None
    return next(iter(glob.glob(where + "/**/openblas-openmp", recursive=True)), None)


def plain_env():
    return {k: v for k, v in os.environ.items() if k != "OPENBLAS_CORETYPE"}


def better_kernel():
    """The kernel that vitrine would choose, for a BLAS that does not know this CPU."""
    return {"OPENBLAS_CORETYPE": "SkylakeX"} if "avx512f" in open("/proc/cpuinfo").read() else {}


def settings(threads):
    omp = openmp_blas()
    yield "as installed", plain_env()
    for name, extra in (("", {}), (", kernel chosen", better_kernel())):
        yield "one BLAS thread" + name, {**plain_env(), "OPENBLAS_NUM_THREADS": "1", **extra}
        if omp:
            yield "OpenMP OpenBLAS" + name, {**plain_env(), "LD_LIBRARY_PATH": omp, "OPENBLAS_NUM_THREADS": str(threads),
                                             "OMP_NUM_THREADS": str(threads), "ATEN_CPU_CAPABILITY": "avx512", **extra}


def child(script, *args, env):
    """What a script beside this one prints: a number."""
    r = subprocess.run([PYTHON, os.path.join(HERE, script), *map(str, args)], env=env, capture_output=True, text=True)
    if r.returncode:
        raise SystemExit(f"{script} failed: " + r.stderr[-400:])
    return float(r.stdout)


def torch_rate(work, shape, batch, threads, env, seconds):
    """Images/s of PyTorch; work: gradient (with respect to the input, frozen weights) or train (a whole step)."""
    return child("torch_step.py", work, json.dumps(shape), batch, threads, seconds, env=env)


def best_torch(work, shape, batch, threads, seconds):
    """PyTorch at every setting: (its best one, its environment, {setting: images/s})."""
    every = dict(settings(threads))
    tried = {label: torch_rate(work, shape, batch, threads, env, seconds) for label, env in every.items()}
    best = max(tried, key=tried.get)
    return best, every[best], tried


# ---- vitrine ----

def vitrine(exe, *args, codes=(0,)):
    r = subprocess.run([exe, *map(str, args)], env=plain_env(), capture_output=True, text=True)
    if r.returncode not in codes:
        raise SystemExit(f"vitrine {args[0]} failed: " + r.stderr[-400:])
    return r.stdout


def bench_row(text, row):
    """(images/s, % of the sgemm ceiling) of a row of `vitrine bench`."""
    m = re.search(row + r"\s+([\d.]+)\s+[\d.]+\s+[\d.]+\s+([\d.]+)", text)
    return float(m[1]), float(m[2])


def draw(exe, folder, images):
    program = os.path.join(os.path.dirname(exe), "tools", "draw")
    subprocess.run([program, "--out", folder, "--train", str(images), "--test", "10", "--seed", "0"], check=True,
                   stdout=subprocess.DEVNULL)
    return folder


def train_seconds(exe, preset, data, out, threads, steps, sets, of=statistics.median):
    """Median (or what `of` takes) of the seconds of the step lines of log.jsonl, the first one (of cold caches) left out.
    `steps` is below the run's number, so the run stops with exit status 1. out must not exist."""
    common = dict(epochs=1000, batch=64, micro_batch=16, optimiser="sgd", lr=0.01, clip=0)
    more = {"model.preset": preset, "probe.images": 0, "augment.mix_prob": 0}
    keys = [word for k, v in {**common, **more, **sets}.items() for word in ("--set", f"{k}={v}")]
    vitrine(exe, "train", os.devnull, *keys, "--data", data, "--out", out, "--threads", threads, "--max-steps", steps + 1,
            codes=(1,))
    lines = [json.loads(line) for line in open(os.path.join(out, "log.jsonl"))]
    return of([line["seconds"] for line in lines if line.get("step", 0) > 1])


# ---- rounds ----

def rounds(n, measures):
    """{name: function of the round} measured in turn, n times, every second time backwards: {name: [results]}. A machine
    that slows down slows all of it."""
    got = {name: [] for name in measures}
    for i in range(n):
        for name in list(measures)[::1 if i % 2 == 0 else -1]:
            got[name].append(measures[name](i))
    return got


def median_ratio(a, b):
    return statistics.median(x / y for x, y in zip(a, b))
