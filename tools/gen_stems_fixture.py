#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
"""Tiny leaderboard Vision Transformers under their authors' tensor names, and what PyTorch computes of them.

    gen_stems_fixture.py [OUT]

OUT/stems/NAME.safetensors (NAME.pth for one): a state dict as the authors' programs save it. OUT/golden/stems.safetensors,
for each NAME: NAME.x [B,3,S,S] in [0,1], NAME.cot, and in double NAME.logits, NAME.dx and NAME.grad.TENSOR, of
sum(cot * logits), under timm's names. OUT is tests/fixtures.

Neither timm nor transformers nor DINOv2's code was run: the modules are theirs written again from their sources, with
their names.
  cvst_*    ViT + ConvStem, nmndeep/revisiting-at, utils_architecture.py (ConvBlock, ImageNormalizer) on timm's ViT:
            s normalises inside (normalize.*, model.*), in the module that attacks its inputs in training (base_model.),
            in DistributedDataParallel (module.); m as timm's deit3_medium: no class position, LayerScale
  dinov2_*  dinov2_vit*14_lc, facebookresearch/dinov2, dinov2/hub/classifiers.py: one layer; four layers with registers;
            *_small: at another resolution than that of the positions, with the offset of 0.1 that the models without
            registers have, and antialiased as those with registers are
  hf_*      transformers, Dinov2ForImageClassification (5.x names) and Dinov2WithRegistersForImageClassification (4.x);
            hf_small: at another resolution, as transformers resizes positions since 4.46
  clip      timm's vit_*_clip_quickgelu: norm_pre, no bias in the patch embedding, x sigmoid(1.702 x)
Made with PyTorch 1.13 (Debian 12); another BLAS may change last digits."""
import os
import sys

import torch
from torch import nn
from torch.nn import functional as F

from export_timm import save_safetensors

ROOT = os.path.dirname(os.path.dirname(os.path.abspath(__file__)))
B, CLASSES = 2, 5
IMAGENET = (0.485, 0.456, 0.406), (0.229, 0.224, 0.225)


class QuickGELU(nn.Module):
    def forward(self, x):
        return x * torch.sigmoid(1.702 * x)


class ChannelNorm(nn.Module):
    """LayerNorm over the channels of [B, C, H, W], by the authors' formula."""

    def __init__(self, n):
        super().__init__()
        self.weight, self.bias = nn.Parameter(torch.ones(n)), nn.Parameter(torch.zeros(n))

    def forward(self, x):
        centred = x - x.mean(1, keepdim=True)
        x = centred / (centred.pow(2).mean(1, keepdim=True) + 1e-6).sqrt()
        return self.weight[:, None, None] * x + self.bias[:, None, None]


class ConvBlock(nn.Module):
    def __init__(self, planes, dim):
        super().__init__()
        widths, layers = [3] + [planes << k for k in range(4)], []
        for k in range(4):
            layers += [nn.Conv2d(widths[k], widths[k + 1], 3, 2, 1), ChannelNorm(widths[k + 1]), nn.GELU()]
        self.stem = nn.Sequential(*layers, nn.Conv2d(widths[4], dim, 1))

    def forward(self, x):
        return self.stem(x)


class Scale(nn.Module):
    def __init__(self, dim, name):
        super().__init__()
        self.name = name
        setattr(self, name, nn.Parameter(torch.ones(dim)))

    def forward(self, x):
        return x * getattr(self, self.name)


class Attention(nn.Module):
    def __init__(self, dim, heads):
        super().__init__()
        self.heads = heads
        self.qkv, self.proj = nn.Linear(dim, 3 * dim), nn.Linear(dim, dim)

    def forward(self, x):
        b, n, d = x.shape
        q, k, v = self.qkv(x).reshape(b, n, 3, self.heads, d // self.heads).permute(2, 0, 3, 1, 4)
        a = (q * (d // self.heads) ** -0.5 @ k.transpose(-2, -1)).softmax(-1)
        return self.proj((a @ v).transpose(1, 2).reshape(b, n, d))


class Mlp(nn.Module):
    def __init__(self, dim, hidden, act):
        super().__init__()
        self.fc1, self.act, self.fc2 = nn.Linear(dim, hidden), act(), nn.Linear(hidden, dim)

    def forward(self, x):
        return self.fc2(self.act(self.fc1(x)))


class Block(nn.Module):
    def __init__(self, f):
        super().__init__()
        d = f["dim"]
        self.norm1, self.norm2 = nn.LayerNorm(d, eps=f["eps"]), nn.LayerNorm(d, eps=f["eps"])
        self.attn, self.mlp = Attention(d, f["heads"]), Mlp(d, 3 * d // 2, f["act"])
        self.ls1, self.ls2 = (Scale(d, "gamma") if f["scale"] else nn.Identity() for _ in range(2))

    def forward(self, x):
        x = x + self.ls1(self.attn(self.norm1(x)))
        return x + self.ls2(self.mlp(self.norm2(x)))


class PatchEmbed(nn.Module):
    def __init__(self, f):
        super().__init__()
        self.proj = ConvBlock(f["planes"], f["dim"]) if f["planes"] else \
            nn.Conv2d(3, f["dim"], f["patch"], f["patch"], bias=not f["norm_pre"])

    def forward(self, x):
        return self.proj(x).flatten(2).transpose(1, 2)


class Net(nn.Module):
    """timm's names. Of what is read, `norm` of the class tokens of the last `layers` blocks and the patches' mean; layers 0:
    the class token alone."""

    def __init__(self, f):
        super().__init__()
        self.f, d, grid = f, f["dim"], f["grid"]
        self.cls_token = nn.Parameter(torch.zeros(1, 1, d))
        if f["registers"]:
            self.reg_token = nn.Parameter(torch.zeros(1, f["registers"], d))
        self.pos_embed = nn.Parameter(torch.zeros(1, grid * grid + f["class_pos"], d))
        self.patch_embed = PatchEmbed(f)
        if f["norm_pre"]:
            self.norm_pre = nn.LayerNorm(d, eps=f["eps"])
        self.blocks = nn.ModuleList(Block(f) for _ in range(f["depth"]))
        self.norm, self.head = nn.LayerNorm(d, eps=f["eps"]), nn.Linear(max(1, 1 + f["layers"]) * d, CLASSES)

    def positions(self, side):
        f, grid = self.f, self.f["grid"]
        if side == grid:
            return self.pos_embed
        p = self.pos_embed[:, 1:].reshape(1, grid, grid, -1).permute(0, 3, 1, 2)
        if f["resize"] == "offset":  # interpolate_offset of DinoVisionTransformer
            s = float(side + 0.1) / grid
            p = F.interpolate(p, mode="bicubic", antialias=False, scale_factor=(s, s))
        else:
            p = F.interpolate(p, size=(side, side), mode="bicubic", align_corners=False,
                              antialias=f["resize"] == "antialias")
        return torch.cat([self.pos_embed[:, :1], p.permute(0, 2, 3, 1).reshape(1, side * side, -1)], 1)

    def forward(self, x):
        f, b = self.f, len(x)
        x = self.patch_embed(x)
        cls, pos = self.cls_token.expand(b, -1, -1), self.positions(round(x.shape[1] ** 0.5))
        x = torch.cat([cls, x], 1) + pos if f["class_pos"] else torch.cat([cls, x + pos], 1)
        if f["registers"]:
            x = torch.cat([x[:, :1], self.reg_token.expand(b, -1, -1), x[:, 1:]], 1)
        if f["norm_pre"]:
            x = self.norm_pre(x)
        outputs = []
        for block in self.blocks:
            x = block(x)
            outputs.append(self.norm(x))
        if not f["layers"]:
            return self.head(outputs[-1][:, 0])
        read = [y[:, 0] for y in outputs[-f["layers"]:]]
        return self.head(torch.cat(read + [outputs[-1][:, 1 + f["registers"]:].mean(1)], 1))


DEFAULT = {"image": 32, "patch": 16, "grid": 0, "dim": 12, "heads": 2, "depth": 2, "planes": 0, "eps": 1e-6, "scale": False,
           "registers": 0, "class_pos": 1, "layers": 0, "norm_pre": False, "act": nn.GELU, "pixels": IMAGENET,
           "resize": None, "names": None}
NONE = (0, 0, 0), (1, 1, 1)


def cvst_s(d):
    """DistributedDataParallel(WrappedModel(Sequential(normalize, model)))"""
    d = {"module.base_model.model." + k: v for k, v in d.items()}
    for key, value in zip(("mean", "std"), IMAGENET):
        d["module.base_model.normalize." + key] = torch.tensor(value).view(1, 3, 1, 1)
    return d


def dinov2(d):
    out = {"backbone.mask_token": torch.zeros(1, d["cls_token"].shape[2])}
    for k, v in d.items():
        out["linear_" + k if k.startswith("head.") else "backbone." + k.replace("reg_token", "register_tokens")] = v
    return out


def hf(d, prefix, five):
    new = {"cls_token": "embeddings.cls_token", "reg_token": "embeddings.register_tokens",
           "pos_embed": "embeddings.position_embeddings"}
    out = {prefix + "embeddings.mask_token": torch.zeros(1, d["cls_token"].shape[2])}
    for k, v in d.items():
        part = k.split(".")
        if k.startswith("head."):
            out["classifier." + part[1]] = v
        elif k.startswith("norm."):
            out[prefix + "layernorm." + part[1]] = v
        elif k.startswith("patch_embed."):
            out[prefix + "embeddings.patch_embeddings.projection." + part[2]] = v
        elif part[0] != "blocks":
            out[prefix + new[k]] = v
        else:
            layer, rest = f"{prefix}encoder.layer.{part[1]}.", ".".join(part[2:])
            if rest.startswith("attn.qkv."):
                names = ("q_proj", "k_proj", "v_proj") if five else ("attention.query", "attention.key", "attention.value")
                for name, x in zip(names, v.chunk(3)):
                    out[f"{layer}attention.{name}.{part[4]}"] = x
                continue
            rest = rest.replace("attn.proj.", "attention.o_proj." if five else "attention.output.dense.")
            out[layer + rest.replace("ls1.gamma", "layer_scale1.lambda1").replace("ls2.gamma", "layer_scale2.lambda1")] = v
    return out


LC = dict(patch=4, image=12, scale=True, names=dinov2)
MODELS = {
    "cvst_s": dict(planes=3, names=cvst_s),
    "cvst_m": dict(planes=4, scale=True, class_pos=0, pixels=NONE),
    "dinov2_lc": dict(LC, layers=1),
    "dinov2_reg_lc4": dict(LC, layers=4, depth=5, registers=3),
    "dinov2_small": dict(LC, layers=1, grid=5, resize="offset"),
    "dinov2_reg_small": dict(LC, layers=4, depth=4, registers=2, grid=5, resize="antialias"),
    "hf": dict(LC, layers=1, names=lambda d: hf(d, "dinov2.", True)),
    "hf_reg": dict(LC, layers=1, registers=4, names=lambda d: hf(d, "dinov2_with_registers.", False)),
    "hf_small": dict(LC, layers=1, grid=2, resize="size", names=lambda d: hf(d, "dinov2.", False)),
    "clip": dict(patch=4, image=8, act=QuickGELU, norm_pre=True, eps=1e-5),
}


def randomise(net, g):
    """No tensor keeps a special value that could hide a mistake."""
    with torch.no_grad():
        for module in net.modules():
            for name, p in module.named_parameters(recurse=False):
                noise = torch.randn(p.shape, generator=g)
                one = name == "gamma" or (name == "weight" and isinstance(module, (nn.LayerNorm, ChannelNorm)))
                p.copy_(1 + 0.2 * noise if one else 0.4 * noise if p.dim() == 1 or p.dim() == 3
                        else 1.2 * noise / p[0].numel() ** 0.5)


def main():
    out = sys.argv[1] if len(sys.argv) > 1 else os.path.join(ROOT, "tests", "fixtures")
    torch.set_num_threads(1)
    golden = {}
    for seed, (name, given) in enumerate(MODELS.items()):
        f = dict(DEFAULT, **given)
        f["grid"] = f["grid"] or f["image"] // f["patch"]
        g = torch.Generator().manual_seed(300 + seed)
        net = Net(f)
        randomise(net, g)
        state = {k: v.clone() for k, v in net.state_dict().items()}
        state = f["names"](state) if f["names"] else state
        if name == "cvst_m":
            torch.save(state, os.path.join(out, "stems", name + ".pth"))
        else:
            save_safetensors(os.path.join(out, "stems", name + ".safetensors"), state)
        x = torch.rand(B, 3, f["image"], f["image"], generator=g)
        cot = torch.randn(B, CLASSES, generator=g, dtype=torch.float64)
        net, x64 = net.double(), x.double().requires_grad_()
        # a normalisation inside holds float32 numbers; outside they are what is written
        mean, std = (torch.tensor(v, dtype=torch.float32 if f["names"] is cvst_s else torch.float64).double().view(1, 3, 1, 1)
                     for v in f["pixels"])
        z = net((x64 - mean) / std)
        (z * cot).sum().backward()
        golden.update({name + ".x": x, name + ".cot": cot, name + ".logits": z, name + ".dx": x64.grad})
        golden.update({f"{name}.grad.{k}": p.grad for k, p in net.named_parameters()})
    save_safetensors(os.path.join(out, "golden", "stems.safetensors"), golden, {"torch": torch.__version__})


if __name__ == "__main__":
    main()
