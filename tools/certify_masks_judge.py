#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
# Double masking and its certificates beside PatchCleanser's own code, on the same network:
#   tools/certify_masks_judge.py RUN WEIGHTS CIFAR_TEST_BATCH DEFENSE.py
# RUN: of vitrine eval WEIGHTS --wrap patchcleanser:... --threat patch:... --certify masks; DEFENSE.py: utils/defense.py
# of github.com/inspire-group/PatchCleanser. Needs PyTorch. Prints how many predictions and certificates agree.
import importlib.util, json, pathlib, re, sys, types

import numpy as np
import torch

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parent.parent / "python"))
import vitrine

run, weights, batch, code = sys.argv[1:]
torch.Tensor.cuda = lambda self: self  # their masks are moved to a GPU
spec = importlib.util.spec_from_file_location("defense", code)
defense = importlib.util.module_from_spec(spec)
spec.loader.exec_module(defense)

header, *lines = map(json.loads, pathlib.Path(run, "ledger.jsonl").read_text().splitlines())
option = {k: int(v) for k, v in re.findall(r"(\w+)=(\d+)", header["wrap"]["id"])}
clean = {r["image"]: r for r in lines if r["entry"] == 0}
certified = {r["image"]: r["status"] == "certified" for r in lines if r["status"] in ("certified", "undecided")}
raw = np.fromfile(batch, np.uint8).reshape(-1, 3073)
images = sorted(clean)
mean = torch.tensor(header["model"]["mean"], dtype=torch.float64).view(1, 3, 1, 1)
# their mask is 0 of the normalised image, ours the mean pixel: the same but for a factor, which needs no division
x = torch.from_numpy((raw[images, 1:].astype(np.float32) / np.float32(255)).astype(np.float64).reshape(-1, 3, 32, 32)) - mean
net = vitrine.load(weights)


def model(t):
    return torch.from_numpy(net.logits((t + mean).numpy().astype(np.float32)))


asked = types.SimpleNamespace(mask_stride=-1, num_mask=option["masks"], pa=-1, pb=-1, patch_size=option["patch"])
masks, *_ = defense.gen_mask_set(asked, {"input_size": (3, 32, 32)})
zero = torch.tensor(0.0, dtype=torch.float64)
table = np.zeros((len(images), len(masks), len(masks)), int)
for i, one in enumerate(masks):
    for j in range(i, len(masks)):
        table[:, i, j] = table[:, j, i] = model(torch.where(one & masks[j], x, zero)).max(1)[1].numpy()
same, agree, proven = 0, 0, 0
for k, image in enumerate(images):
    same += defense.double_masking_precomputed(table[k]) == clean[image]["pred"]
    if image in certified:
        theirs = bool(defense.certify_precomputed(table[k], clean[image]["label"]))
        agree += theirs == certified[image]
        proven += theirs
print(f"{len(masks)} masks; predictions agree: {same} of {len(images)}; certificates agree: {agree} of {len(certified)}, "
      f"{proven} certified")
