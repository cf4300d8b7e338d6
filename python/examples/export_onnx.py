# SPDX-License-Identifier: MIT
"""Exports a classifier of a model zoo to ONNX, for `vitrine eval MODEL.onnx`. SIDE: of its images; logits come out.

    python3 export_onnx.py torchvision resnet18            resnet18.onnx 224   # weights by ResNet18_Weights.DEFAULT
    python3 export_onnx.py timm        convnext_tiny       convnext.onnx 224
    python3 export_onnx.py huggingface google/vit-base-patch16-224 vit.onnx 224
    python3 export_onnx.py robustbench Carmon2019Unlabeled carmon.onnx   32    # CIFAR-10, Linf
    python3 export_onnx.py torch       model.pt            model.onnx    32    # torch.save(model, ...) of your own

RobustBench's models normalise pixels themselves; for the others pass their mean and std to vitrine
(--mean 0.485,0.456,0.406 --std 0.229,0.224,0.225 of torchvision)."""
import sys
import torch


def load(zoo, name):
    if zoo == "torchvision":
        import torchvision
        return torchvision.models.get_model(name, weights="DEFAULT")
    if zoo == "timm":
        import timm
        return timm.create_model(name, pretrained=True, exportable=True)
    if zoo == "huggingface":
        from transformers import AutoModelForImageClassification
        return Logits(AutoModelForImageClassification.from_pretrained(name))
    if zoo == "robustbench":
        from robustbench.utils import load_model
        return load_model(name, dataset="cifar10", threat_model="Linf")
    return torch.load(name, map_location="cpu")


class Logits(torch.nn.Module):
    def __init__(self, model):
        super().__init__()
        self.model = model

    def forward(self, x):
        return self.model(x).logits


def export(model, path, side):
    torch.onnx.export(model.eval().cpu(), torch.zeros(1, 3, side, side), path, opset_version=17, input_names=["pixels"],
                      output_names=["logits"], dynamic_axes={"pixels": {0: "N"}, "logits": {0: "N"}})


if __name__ == "__main__":
    zoo, name, path, side = sys.argv[1:]
    export(load(zoo, name), path, int(side))
