#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
# Certified radii of networks whose radius is known: tools/certify_judges.py build/vitrine JUDGES RESULTS.json [OPTION ...]
# JUDGES: a folder with exact/*/ and veristress/*/ (model.onnx, points.safetensors). Options go to vitrine certify.
# RESULTS.json is what check_cert.py reads, which stands beside those judges.
import json, pathlib, struct, subprocess, sys, tempfile

vitrine, judges, results, *options = sys.argv[1:]
found = []
for folder in sorted(pathlib.Path(judges).glob("*/*/")):
    points = folder / "points.safetensors"
    kind = folder.parent.name
    with tempfile.TemporaryDirectory() as here:
        if kind == "veristress":  # its points have no labels: take x0 and the label of meta.json
            with open(points, "rb") as f:
                head = json.loads(f.read(struct.unpack("<Q", f.read(8))[0]))
                body = f.read()
            x = head["x0"]
            raw = body[slice(*x["data_offsets"])]
            meta = json.loads((folder / "meta.json").read_text())
            label, shape = struct.pack("<q", meta["label"]), meta["input_shape"]
            head = json.dumps({"x": {"dtype": x["dtype"], "shape": shape, "data_offsets": [0, len(raw)]},
                               "labels": {"dtype": "I64", "shape": [1],
                                          "data_offsets": [len(raw), len(raw) + 8]}}).encode()
            points = pathlib.Path(here, "points.safetensors")
            points.write_bytes(struct.pack("<Q", len(head)) + head + raw + label)
        for box in [False] if kind == "veristress" else [False, True]:
            out = pathlib.Path(here, "out.json")
            run = subprocess.run([vitrine, "certify", folder / "model.onnx", "--points", points, "--out", out,
                                  *([] if box else ["--unboxed"]), *options], capture_output=True, text=True)
            if run.returncode:
                print(folder.name, run.stderr.strip())
                continue
            got = json.loads(out.read_text())["points"]
            for p in got:
                row = {"name": folder.name, "norm": "linf", "box": box, "radius": p["radius"]}
                found.append(row if kind == "veristress" else {**row, "index": p["index"]})
            print(f"{folder.name:24s} {'box' if box else 'R^n':4s} {sum(p['seconds'] for p in got):8.2f} s")
pathlib.Path(results).write_text(json.dumps(found))
