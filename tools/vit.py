# SPDX-License-Identifier: MIT
"""A Vision Transformer in PyTorch with the parameter names and semantics of timm's VisionTransformer, for the scripts
beside it. Only the forms those scripts need: class token or mean pooling, with or without qkv bias, distilled."""
import torch
from torch import nn


class Attention(nn.Module):
    def __init__(self, dim, heads, qkv_bias=True, scale=None):
        super().__init__()
        self.num_heads = heads
        self.scale = (dim // heads) ** -0.5 if scale is None else scale
        self.qkv = nn.Linear(dim, 3 * dim, bias=qkv_bias)
        self.proj = nn.Linear(dim, dim)

    def forward(self, x):
        b, n, d = x.shape
        q, k, v = self.qkv(x).reshape(b, n, 3, self.num_heads, d // self.num_heads).permute(2, 0, 3, 1, 4)
        a = (q * self.scale @ k.transpose(-2, -1)).softmax(-1)
        return self.proj((a @ v).transpose(1, 2).reshape(b, n, d))


class Mlp(nn.Module):
    def __init__(self, dim, hidden):
        super().__init__()
        self.fc1 = nn.Linear(dim, hidden)
        self.act = nn.GELU()
        self.fc2 = nn.Linear(hidden, dim)

    def forward(self, x):
        return self.fc2(self.act(self.fc1(x)))


class Block(nn.Module):
    def __init__(self, dim, heads, mlp_ratio, qkv_bias, scale):
        super().__init__()
        self.norm1 = nn.LayerNorm(dim, eps=1e-6)
        self.attn = Attention(dim, heads, qkv_bias, scale)
        self.norm2 = nn.LayerNorm(dim, eps=1e-6)
        self.mlp = Mlp(dim, int(dim * mlp_ratio))

    def forward(self, x):
        x = x + self.attn(self.norm1(x))
        return x + self.mlp(self.norm2(x))


class PatchEmbed(nn.Module):
    def __init__(self, patch, dim):
        super().__init__()
        self.proj = nn.Conv2d(3, dim, patch, patch)

    def forward(self, x):
        return self.proj(x).flatten(2).transpose(1, 2)


class ViT(nn.Module):
    """global_pool 'token': the class token after `norm`; 'avg': the mean of the patch tokens, then `fc_norm`.
    distilled: a second token with its own head; the logits are the average of the two heads."""

    def __init__(self, img_size=32, patch_size=4, num_classes=10, embed_dim=64, depth=4, num_heads=4, mlp_ratio=4.0,
                 qkv_bias=True, global_pool="token", distilled=False, attn_scale=None):
        super().__init__()
        self.global_pool, self.distilled, self.prefix = global_pool, distilled, 2 if distilled else 1
        tokens = (img_size // patch_size) ** 2 + self.prefix
        self.cls_token = nn.Parameter(torch.zeros(1, 1, embed_dim))
        if distilled:
            self.dist_token = nn.Parameter(torch.zeros(1, 1, embed_dim))
        self.pos_embed = nn.Parameter(torch.zeros(1, tokens, embed_dim))
        self.patch_embed = PatchEmbed(patch_size, embed_dim)
        blocks = [Block(embed_dim, num_heads, mlp_ratio, qkv_bias, attn_scale) for _ in range(depth)]
        self.blocks = nn.Sequential(*blocks)
        if global_pool == "avg":
            self.fc_norm = nn.LayerNorm(embed_dim, eps=1e-6)
        else:
            self.norm = nn.LayerNorm(embed_dim, eps=1e-6)
        self.head = nn.Linear(embed_dim, num_classes)
        if distilled:
            self.head_dist = nn.Linear(embed_dim, num_classes)
        self.reset()

    def reset(self):
        for module in self.modules():
            if isinstance(module, nn.Linear):
                nn.init.xavier_normal_(module.weight)
                if module.bias is not None:
                    nn.init.zeros_(module.bias)
        with torch.no_grad():  # filters without mean: else the colour of a patch drowns its content for many epochs
            filters = self.patch_embed.proj.weight
            filters.copy_(4 * (filters - filters.mean((2, 3), keepdim=True)))
        for name, parameter in self.named_parameters():
            if name in ("cls_token", "dist_token"):
                nn.init.normal_(parameter, std=0.2)
        side, dim = round((self.pos_embed.shape[1] - self.prefix) ** 0.5), self.pos_embed.shape[2]
        angle = torch.arange(side)[:, None] * 3.0 ** -torch.arange(dim // 4)  # sines and cosines of row and column
        line = torch.cat([angle.sin(), angle.cos()], 1)
        grid = torch.cat([line[:, None].expand(-1, side, -1), line[None].expand(side, -1, -1)], 2)
        with torch.no_grad():
            self.pos_embed[0, self.prefix:] = 0.5 * grid.flatten(0, 1)

    def forward(self, x):
        x = self.patch_embed(x)
        first = [self.cls_token, self.dist_token] if self.distilled else [self.cls_token]
        x = torch.cat([t.expand(len(x), -1, -1) for t in first] + [x], 1) + self.pos_embed
        x = self.blocks(x)
        if self.global_pool == "avg":
            return self.head(self.fc_norm(x[:, self.prefix:].mean(1)))
        x = self.norm(x)
        if self.distilled:
            return (self.head(x[:, 0]) + self.head_dist(x[:, 1])) / 2
        return self.head(x[:, 0])


class Normalised(nn.Module):
    """Logits of images in [0, 1]: (x - mean) / std, then `net`. The constants stay in double and are rounded to the
    type of the images."""

    def __init__(self, net, mean, std):
        super().__init__()
        self.net = net
        self.mean = torch.tensor(mean, dtype=torch.float64).view(1, 3, 1, 1)
        self.std = torch.tensor(std, dtype=torch.float64).view(1, 3, 1, 1)

    def forward(self, x):
        return self.net((x - self.mean.to(x.dtype)) / self.std.to(x.dtype))
