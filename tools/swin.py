# SPDX-License-Identifier: MIT
"""Swin in PyTorch with the parameter names and semantics of timm's SwinTransformer (>= 0.9), for the scripts beside it.
`forms` holds words of src/models/forms.c: norm=center, post_norm=1, factor=alpha, no_shift=1 (LipsFormer's form)."""
import torch
from torch import nn
from torch.nn import functional as F


class CenterNorm(nn.Module):
    """LipsFormer: gamma D/(D-1) (x - mean) + beta."""

    def __init__(self, dim):
        super().__init__()
        self.weight, self.bias, self.dim = nn.Parameter(torch.ones(dim)), nn.Parameter(torch.zeros(dim)), dim

    def forward(self, x):
        return self.weight * (self.dim / (self.dim - 1)) * (x - x.mean(-1, keepdim=True)) + self.bias


def norm_of(forms, dim):
    return CenterNorm(dim) if "norm=center" in forms else nn.LayerNorm(dim, eps=1e-5)


class Attention(nn.Module):
    """x [windows of all images, w * w, dim], mask [windows of one image, w * w, w * w] or None"""

    def __init__(self, dim, heads, window, bias):
        super().__init__()
        self.heads, t = heads, torch.arange(window * window)
        self.relative_position_bias_table = nn.Parameter(torch.zeros((2 * window - 1) ** 2, heads))
        self.qkv, self.proj = nn.Linear(dim, 3 * dim, bias=bias), nn.Linear(dim, dim)
        y, x = t // window, t % window
        self.row = (y[:, None] - y[None] + window - 1) * (2 * window - 1) + x[:, None] - x[None] + window - 1

    def forward(self, x, mask):
        n, t, d = x.shape
        q, k, v = self.qkv(x).reshape(n, t, 3, self.heads, d // self.heads).permute(2, 0, 3, 1, 4)
        scores = q * (d // self.heads) ** -0.5 @ k.transpose(-2, -1)
        scores = scores + self.relative_position_bias_table[self.row].permute(2, 0, 1)
        if mask is not None:
            scores = scores.view(-1, len(mask), self.heads, t, t) + mask.to(x.dtype)[:, None]
        return self.proj((scores.view(n, self.heads, t, t).softmax(-1) @ v).transpose(1, 2).reshape(n, t, d))


def cut(x, w):
    """[B, H, W, C] -> [B * windows, w * w, C]"""
    b, h, _, c = x.shape
    return x.view(b, h // w, w, h // w, w, c).transpose(2, 3).reshape(-1, w * w, c)


def join(x, b, side, w):
    return x.view(b, side // w, side // w, w, w, -1).transpose(2, 3).reshape(b, side, side, -1)


class Mlp(nn.Module):
    def __init__(self, dim, hidden):
        super().__init__()
        self.fc1, self.fc2 = nn.Linear(dim, hidden), nn.Linear(hidden, dim)

    def forward(self, x):
        return self.fc2(F.gelu(self.fc1(x)))


class Block(nn.Module):
    def __init__(self, dim, heads, hidden, side, window, odd, bias, forms):
        super().__init__()
        self.window, self.post = min(window, side), "post_norm=1" in forms
        self.shift = window // 2 if odd and side > window and "no_shift=1" not in forms else 0
        self.norm1, self.norm2 = norm_of(forms, dim), norm_of(forms, dim)
        self.attn, self.mlp = Attention(dim, heads, self.window, bias), Mlp(dim, hidden)
        self.pad = -side % self.window
        self.mask = self.mask_of(side + self.pad) if self.shift else None
        self.alpha1 = self.alpha2 = None
        if "factor=alpha" in forms:
            self.alpha1, self.alpha2 = nn.Parameter(torch.ones(dim)), nn.Parameter(torch.ones(dim))

    def mask_of(self, side):
        axis = torch.zeros(side)
        axis[side - self.window:side - self.shift], axis[side - self.shift:] = 1, 2
        labels = cut((axis[:, None] * 3 + axis[None])[None, :, :, None], self.window)[:, :, 0]
        return (labels[:, :, None] != labels[:, None, :]) * -100.0

    def attend(self, x):
        side, w, s, p = x.shape[1], self.window, self.shift, self.pad
        x = torch.roll(x, (-s, -s), (1, 2)) if s else x
        x = F.pad(x, (0, 0, 0, p, 0, p)) if p else x
        x = join(self.attn(cut(x, w), self.mask), len(x), side + p, w)[:, :side, :side]
        return torch.roll(x, (s, s), (1, 2)) if s else x

    def forward(self, x):
        a, m = self.alpha1, self.alpha2
        if self.post:
            x = self.norm1(x + (self.attend(x) if a is None else a * self.attend(x)))
            return self.norm2(x + (self.mlp(x) if m is None else m * self.mlp(x)))
        y = self.attend(self.norm1(x))
        x = x + (y if a is None else a * y)
        y = self.mlp(self.norm2(x))
        return x + (y if m is None else m * y)


class Merging(nn.Module):
    def __init__(self, dim, forms):
        super().__init__()
        self.norm, self.reduction = norm_of(forms, 4 * dim), nn.Linear(4 * dim, 2 * dim, bias=False)

    def forward(self, x):
        x = torch.cat([x[:, 0::2, 0::2], x[:, 1::2, 0::2], x[:, 0::2, 1::2], x[:, 1::2, 1::2]], -1)
        return self.reduction(self.norm(x))


class Stage(nn.Module):
    def __init__(self, first, dim, heads, hidden, depth, side, window, bias, forms):
        super().__init__()
        self.downsample = nn.Identity() if first else Merging(dim // 2, forms)
        self.blocks = nn.Sequential(*[Block(dim, heads, hidden, side, window, i % 2, bias, forms) for i in range(depth)])

    def forward(self, x):
        return self.blocks(self.downsample(x))


class Swin(nn.Module):
    def __init__(self, img_size=224, patch_size=4, num_classes=1000, embed_dim=96, depths=(2, 2, 6, 2),
                 num_heads=(3, 6, 12, 24), window_size=7, mlp_ratio=4.0, qkv_bias=True, forms=""):
        super().__init__()
        last, side = embed_dim << (len(depths) - 1), img_size // patch_size
        self.patch_embed, self.head = nn.Module(), nn.Module()
        self.patch_embed.proj = nn.Conv2d(3, embed_dim, patch_size, patch_size)
        self.patch_embed.norm = norm_of(forms, embed_dim)
        self.layers = nn.Sequential(*[
            Stage(not i, embed_dim << i, num_heads[i], int(mlp_ratio * (embed_dim << i)), depths[i], side >> i,
                  window_size, qkv_bias, forms) for i in range(len(depths))])
        self.norm, self.head.fc = norm_of(forms, last), nn.Linear(last, num_classes)

    def forward(self, x):
        x = self.patch_embed.norm(self.patch_embed.proj(x).permute(0, 2, 3, 1))
        return self.head.fc(self.norm(self.layers(x)).mean((1, 2)))
