#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
"""A finished run against the reference AutoAttack's verdicts, image by image.

    check_ledger.py RUN_DIR REFERENCE.safetensors [REFERENCE.json]

RUN_DIR holds ledger.jsonl of an `eval --attack autoattack` over the reference's images; REFERENCE has robust_after_STAGE
flags (1: still robust), as tests' reference files have. Prints agreement after each stage (bar: 99 %) and the gradient calls
spent on images that end broken, beside the reference's (which never leaves an image early: 101 for each APGD run it starts).
Exit status 1 below 99 %. Needs Python 3 alone."""
import array
import json
import struct
import sys

STAGES = ["apgd_ce", "apgd_t", "fab_t", "square"]


def load(path):
    raw = open(path, "rb").read()
    n = struct.unpack("<Q", raw[:8])[0]
    head = json.loads(raw[8:8 + n])
    head.pop("__metadata__", None)
    code = {"U8": "B", "I64": "q", "F32": "f"}
    out = {}
    for name, t in head.items():
        a = array.array(code[t["dtype"]])
        a.frombytes(raw[8 + n + t["data_offsets"][0]:8 + n + t["data_offsets"][1]])
        out[name] = a
    return out


def main():
    run, reference = sys.argv[1], load(sys.argv[2])
    lines = [json.loads(s) for s in open(run + "/ledger.jsonl")]
    header, lines = lines[0], lines[1:]
    entry = 1 + [a["name"] for a in header["attacks"]].index("autoattack")
    first = min(r["image"] for r in lines)
    clean = {r["image"]: r["status"] == "correct" for r in lines if r["entry"] == 0}
    robust, broken_at, spent = dict(clean), {}, {}
    worst = 1.0
    for k, stage in enumerate(STAGES):
        for r in lines:
            if r["entry"] == entry and r["stage"] == k:
                spent[r["image"]] = spent.get(r["image"], 0) + r["gradients"]
                if r["status"] == "broken":
                    robust[r["image"]] = False
                    broken_at[r["image"]] = k
        flags = reference.get("robust_after_" + stage)
        if flags is None:
            continue
        same = sum(robust[i] == bool(flags[i - first]) for i in robust)
        off = [i for i in robust if robust[i] != bool(flags[i - first])]
        worst = min(worst, same / len(robust))
        print(f"after {stage}: robust {sum(robust.values())} (reference {sum(flags)}), agreement {100 * same / len(robust):.2f} %"
              + (f", differing images {off}" if off else ""))
    ref_robust = [reference.get("robust_after_" + s) for s in STAGES]
    ours = sum(spent[i] for i in broken_at)
    theirs = 0
    for i in broken_at:  # a lower bound of the reference's calls: one run in the stage where it broke, whole stages before
        for k in range(4):
            if ref_robust[k] is None:
                break
            held = bool(ref_robust[k][i - first])
            theirs += (101, 909 if held else 101, 900 if held else 100, 0)[k]
            if not held:
                break
    print(f"gradient calls on the {len(broken_at)} broken images: {ours}, reference at least {theirs}: {ours / max(theirs, 1):.3f}")
    survivors = [i for i in robust if robust[i]]
    if survivors:
        print(f"gradient calls on each of the {len(survivors)} survivors: {sorted({spent[i] for i in survivors})}")
    sys.exit(0 if worst >= 0.99 else 1)


if __name__ == "__main__":
    main()
