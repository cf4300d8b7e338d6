# SPDX-License-Identifier: MIT
"""Several ranks (docs/cluster.md), measured here and, for more processors than there are here, simulated.

    python3 bench/ranks.py measure build/vitrine WEIGHTS DATA IMAGES [ROUNDS]
        AutoAttack at 8/255 by two threads of one process and by two ranks of one thread, in turn: wall time, ratio of medians
    python3 bench/ranks.py simulate RUN [TIMES [RANKS ...]]
        a finished run's images, each TIMES times, as long as its passes took (ledger.jsonl: forwards, and gradients at 3
        forwards), dealt out as parallel/work_queue does to RANKS processes of one thread that wait for each other after every
        stage. Every range and every stage take 10 ms besides, far more than a message. What is not in it: the
        self-test, which rank 0 does alone, start, and a file system that is slow.
"""
import heapq
import json
import os
import statistics
import subprocess
import sys
import tempfile
import time

COST = 3.0  # forwards that a gradient costs, its own forward counted
MESSAGE = 0.010


def measure(vitrine, weights, data, images, rounds=3):
    common = ["eval", weights, "--data", data, "--images", "0:" + images, "--eps", "8/255", "--attack", "autoattack",
              "--no-selftest"]
    env = dict(os.environ, OMPI_ALLOW_RUN_AS_ROOT="1", OMPI_ALLOW_RUN_AS_ROOT_CONFIRM="1", OMPI_MCA_plm_rsh_agent="")
    threads, ranks = [], []
    with tempfile.TemporaryDirectory() as d:
        for k in range(int(rounds)):
            for into, command, out in ((threads, [vitrine] + common + ["--threads", "2"], "t"),
                                       (ranks, ["mpirun", "-n", "2", vitrine + "-mpi"] + common + ["--threads", "1"], "r")):
                began = time.time()
                subprocess.run(command + ["--out", os.path.join(d, out + str(k))], check=True, env=env,
                               stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
                into.append(time.time() - began)
                print("%s %.2f s" % ("two threads" if into is threads else "two ranks  ", into[-1]), flush=True)
    print("two ranks have %.3f of the speed of two threads" % (statistics.median(threads) / statistics.median(ranks)))


def stages(run, times):
    """Seconds of every image in every stage, in the order of the run, `times` times."""
    with open(os.path.join(run, "run.json")) as f:
        about = json.load(f)
    out = {}
    with open(os.path.join(run, "ledger.jsonl")) as f:
        next(f)
        for line in f:
            r = json.loads(line)
            passes = r.get("forwards", 0) + COST * r.get("gradients", 0) if r["entry"] else 1
            out.setdefault((r["entry"], r["stage"]), []).append((r["image"], passes))
    total = sum(p for images in out.values() for _, p in images)
    each = about["cpu_seconds"] / total
    return [[p * each for _, p in sorted(out[k])] * times for k in sorted(out)]


def ranges(n, takers):
    at = 0
    while at < n:
        size = max(1, (n - at) // (2 * takers))
        yield at, at + size
        at += size


def makespan(seconds, ranks):
    free = [0.0] * ranks
    for at, end in ranges(len(seconds), ranks):
        heapq.heappush(free, heapq.heappop(free) + sum(seconds[at:end]) + (MESSAGE if ranks > 1 else 0))
    return max(free) + (MESSAGE if ranks > 1 else 0)


def simulate(run, times, counts):
    work = stages(run, times)
    one = sum(makespan(s, 1) for s in work)
    print("a simulation: %d images, %d stages, %.0f s on one processor" % (len(work[0]), len(work), one))
    for ranks in counts:
        t = sum(makespan(s, ranks) for s in work)
        print("%5d ranks %10.1f s %8.1f times as fast, efficiency %.2f" % (ranks, t, one / t, one / t / ranks))


if __name__ == "__main__":
    if sys.argv[1:2] == ["measure"] and len(sys.argv) in (6, 7):
        measure(*sys.argv[2:])
    elif sys.argv[1:2] == ["simulate"] and len(sys.argv) >= 3:
        simulate(sys.argv[2], int((sys.argv[3:4] or ["1"])[0]), [int(n) for n in sys.argv[4:]] or [1, 2, 4, 8, 16, 32, 64])
    else:
        sys.exit(__doc__)
