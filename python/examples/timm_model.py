# SPDX-License-Identifier: MIT
"""A timm model by its name, with its own mean and std, behind vitrine --oracle (needs timm; weights come from its hub).

    vitrine eval --oracle 'python3 python/examples/timm_model.py resnet18.a1_in1k' --data imagenette2 --preprocess short:256,bicubic,crop:224 \
        --eps 1/255 --attack apgd-ce
"""

import os
import sys

import timm
import torch

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), ".."))
import vitrine_oracle

name = sys.argv[1]
net = timm.create_model(name, pretrained=True)
data = timm.data.resolve_data_config({}, model=net)


class Normalised(torch.nn.Module):
    def __init__(self, net, mean, std):
        super().__init__()
        self.net = net
        self.register_buffer("mean", torch.tensor(mean).view(1, 3, 1, 1))
        self.register_buffer("std", torch.tensor(std).view(1, 3, 1, 1))

    def forward(self, x):
        return self.net((x - self.mean) / self.std)


device = "cuda" if torch.cuda.is_available() else "cpu"
vitrine_oracle.serve_torch(
    Normalised(net, data["mean"], data["std"]),
    classes=net.num_classes,
    shape=tuple(data["input_size"]),
    device=device,
    name=name,
)
