# SPDX-License-Identifier: MIT
"""A ResNet-20 for CIFAR-10 (He et al. 2016, section 4.2), trained here for a few minutes, for vitrine --oracle or as an ONNX file.

    python3 python/examples/resnet.py train cifar-10-batches-bin resnet20.pt 6        # epochs
    python3 python/examples/resnet.py export resnet20.pt resnet20.onnx                # then vitrine eval resnet20.onnx, or
    vitrine eval --oracle 'python3 python/examples/resnet.py resnet20.pt' --data cifar-10-batches-bin --images 0:200 \
        --eps 2/255 --attack autoattack
"""

import os
import sys

import numpy as np
import torch
from torch import nn
from torch.nn import functional as F

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), ".."))
import export_onnx
import vitrine_oracle


class Block(nn.Module):
    def __init__(self, before, width, stride):
        super().__init__()
        self.conv1 = nn.Conv2d(before, width, 3, stride, 1, bias=False)
        self.conv2 = nn.Conv2d(width, width, 3, 1, 1, bias=False)
        self.bn1, self.bn2 = nn.BatchNorm2d(width), nn.BatchNorm2d(width)
        self.pad, self.stride = width - before, stride

    def forward(self, x):
        y = self.bn2(self.conv2(F.relu(self.bn1(self.conv1(x)))))
        return F.relu(y + F.pad(x[:, :, :: self.stride, :: self.stride], (0, 0, 0, 0, 0, self.pad)))


class ResNet20(nn.Module):
    def __init__(self):
        super().__init__()
        self.register_buffer("mean", torch.tensor([0.4914, 0.4822, 0.4465]).view(1, 3, 1, 1))
        self.register_buffer("std", torch.tensor([0.2471, 0.2435, 0.2616]).view(1, 3, 1, 1))
        self.conv, self.bn = nn.Conv2d(3, 16, 3, 1, 1, bias=False), nn.BatchNorm2d(16)
        widths = [(16, 16, 1), (16, 32, 2), (32, 64, 2)]
        self.blocks = nn.Sequential(*[Block(a if i == 0 else b, b, s if i == 0 else 1) for a, b, s in widths for i in range(3)])
        self.head = nn.Linear(64, 10)

    def forward(self, x):
        x = F.relu(self.bn(self.conv((x - self.mean) / self.std)))
        return self.head(self.blocks(x).mean((2, 3)))


def train(data, out, epochs):
    torch.manual_seed(0)
    raw = np.concatenate([np.fromfile("%s/data_batch_%d.bin" % (data, i), np.uint8).reshape(-1, 3073) for i in range(1, 6)])
    x, y = torch.tensor(raw[:, 1:].reshape(-1, 3, 32, 32)), torch.tensor(raw[:, 0].astype(np.int64))
    net, steps = ResNet20(), epochs * (len(x) // 128)
    o = torch.optim.SGD(net.parameters(), 0.1, momentum=0.9, weight_decay=5e-4, nesterov=True)
    s = torch.optim.lr_scheduler.OneCycleLR(o, 0.2, total_steps=steps)
    for step in range(steps):
        i = torch.randint(len(x), (128,))
        b = F.pad(x[i].float() / 255, (4, 4, 4, 4))
        a, c = np.random.RandomState(step).randint(0, 9, 2)
        b = b[:, :, a : a + 32, c : c + 32]
        loss = F.cross_entropy(net(b.flip(3) if step % 2 else b), y[i])
        o.zero_grad()
        loss.backward()
        o.step()
        s.step()
        if step % 100 == 0:
            print("step %d of %d, loss %.3f" % (step, steps, loss.item()))
    torch.save(net.state_dict(), out)


if __name__ == "__main__":
    if sys.argv[1] == "train":
        train(sys.argv[2], sys.argv[3], int(sys.argv[4]))
    else:
        net = ResNet20()
        net.load_state_dict(torch.load(sys.argv[-2 if sys.argv[1] == "export" else -1], map_location="cpu"))
    if sys.argv[1] == "export":
        export_onnx.export(net, sys.argv[3], 32)
    elif sys.argv[1] != "train":
        vitrine_oracle.serve_torch(net, classes=10, shape=(3, 32, 32), name="resnet20")
