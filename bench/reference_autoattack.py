# SPDX-License-Identifier: MIT
"""The reference AutoAttack (github.com/fra31/auto-attack, installed or checked out by the user) on the first images of a
CIFAR-10 test_batch.bin, one thread. Prints a line of JSON: clean, robust, left (indices), cpu_seconds. For bench/compare_autoattack."""
import json
import os
import resource
import struct
import sys

import numpy as np
import torch

for folder in ("tools", "python/examples"):
    sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", folder))


def load_safetensors(path):
    raw = open(path, "rb").read()
    n = struct.unpack("<Q", raw[:8])[0]
    head = json.loads(raw[8:8 + n])
    head.pop("__metadata__", None)
    return {k: torch.from_numpy(np.frombuffer(raw[8 + n + v["data_offsets"][0]:8 + n + v["data_offsets"][1]], np.float32)
                                .reshape(v["shape"]).copy()) for k, v in head.items()}


class Normalised(torch.nn.Module):
    def __init__(self, net, mean, std):
        super().__init__()
        self.net, self.mean, self.std = net, torch.tensor(mean).view(1, 3, 1, 1), torch.tensor(std).view(1, 3, 1, 1)

    def forward(self, x):
        return self.net((x - self.mean) / self.std)


def load_model(weights):
    if weights.endswith(".pt"):
        from resnet import ResNet20
        net = ResNet20().eval()
        net.load_state_dict(torch.load(weights, map_location="cpu"))
        return net
    from vit import ViT
    config = json.load(open(os.path.join(os.path.dirname(weights), "config.json")))
    net = ViT(num_classes=config["num_classes"], **config["model_args"])
    net.load_state_dict(load_safetensors(weights))
    return Normalised(net, config["pretrained_cfg"]["mean"], config["pretrained_cfg"]["std"]).eval()


def main():
    reference, weights, data, images, eps, batch = sys.argv[1:7]
    sys.path.insert(0, reference)
    from autoattack import AutoAttack
    torch.set_num_threads(1)
    model = load_model(weights)
    for p in model.parameters():
        p.requires_grad_(False)
    r = np.fromfile(os.path.join(data, "test_batch.bin"), np.uint8, count=int(images) * 3073).reshape(-1, 3073)
    x = torch.from_numpy(r[:, 1:].reshape(-1, 3, 32, 32).copy()).float() / 255
    y = torch.from_numpy(r[:, 0].astype(np.int64))
    a, _, b = eps.partition("/")
    with torch.no_grad():
        clean = int((model(x).argmax(1) == y).sum())
    before = resource.getrusage(resource.RUSAGE_SELF)
    aa = AutoAttack(model, norm="Linf", eps=float(a) / float(b or 1), version="standard", seed=0, device="cpu", verbose=False)
    adv = aa.run_standard_evaluation(x, y, bs=int(batch))
    after = resource.getrusage(resource.RUSAGE_SELF)
    with torch.no_grad():
        left = [i + j for i in range(0, len(x), 50) for j, same in enumerate(model(adv[i:i + 50]).argmax(1) == y[i:i + 50]) if same]
    print(json.dumps(dict(clean=clean, robust=len(left), left=left, cpu_seconds=after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime)))


if __name__ == "__main__":
    main()
