# SPDX-License-Identifier: MIT
"""A model of RobustBench by its name, behind vitrine --oracle (needs robustbench; weights come from its hub).

    vitrine eval --oracle 'python3 python/examples/robustbench_model.py Wong2020Fast' --data cifar-10-batches-bin --images 0:1000 \
        --eps 8/255 --attack autoattack
"""

import os
import sys

import torch
from robustbench.utils import load_model

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), ".."))
import vitrine_oracle

name = sys.argv[1]
device = "cuda" if torch.cuda.is_available() else "cpu"
net = load_model(model_name=name, dataset="cifar10", threat_model=sys.argv[2] if len(sys.argv) > 2 else "Linf")
vitrine_oracle.serve_torch(net, classes=10, shape=(3, 32, 32), device=device, name=name)
