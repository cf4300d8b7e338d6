# SPDX-License-Identifier: MIT
"""ConViT in PyTorch with the parameter names and semantics of timm's ConVit, for the scripts beside it; embed_dim is the
whole width, not that of a head."""
import torch
from torch import nn

from vit import Block, PatchEmbed


class GPSA(nn.Module):
    """Gated positional self-attention (d'Ascoli et al. 2021)."""

    def __init__(self, dim, heads, side, qkv_bias):
        super().__init__()
        self.num_heads, self.scale = heads, (dim // heads) ** -0.5
        self.qk = nn.Linear(dim, 2 * dim, bias=qkv_bias)
        self.v = nn.Linear(dim, dim, bias=qkv_bias)
        self.proj = nn.Linear(dim, dim)
        self.pos_proj = nn.Linear(3, heads)
        self.gating_param = nn.Parameter(torch.ones(heads))
        token = torch.arange(side * side)
        dx = (token[None] % side) - (token[:, None] % side)  # column of the key less that of the query
        dy = (token[None] // side) - (token[:, None] // side)
        self.relative = torch.stack([dx, dy, dx ** 2 + dy ** 2], -1)  # [N, N, 3]

    def forward(self, x):
        b, n, d = x.shape
        q, k = self.qk(x).reshape(b, n, 2, self.num_heads, d // self.num_heads).permute(2, 0, 3, 1, 4)
        v = self.v(x).reshape(b, n, self.num_heads, d // self.num_heads).transpose(1, 2)
        content = (q * self.scale @ k.transpose(-2, -1)).softmax(-1)
        position = self.pos_proj(self.relative.to(x.dtype)).permute(2, 0, 1).softmax(-1)
        gate = self.gating_param.sigmoid().view(-1, 1, 1)
        a = (1 - gate) * content + gate * position
        a = a / a.sum(-1, keepdim=True)
        return self.proj((a @ v).transpose(1, 2).reshape(b, n, d))


class ConViT(nn.Module):
    """The class token, which has no position, joins before block `local_up_to_layer`."""

    def __init__(self, img_size=32, patch_size=4, num_classes=10, embed_dim=64, depth=4, num_heads=4, mlp_ratio=4.0,
                 qkv_bias=False, local_up_to_layer=3):
        super().__init__()
        side = img_size // patch_size
        self.local, self.distilled = local_up_to_layer, False
        self.cls_token = nn.Parameter(torch.zeros(1, 1, embed_dim))
        self.pos_embed = nn.Parameter(torch.zeros(1, side * side, embed_dim))
        self.patch_embed = PatchEmbed(patch_size, embed_dim)
        blocks = [Block(embed_dim, num_heads, mlp_ratio, qkv_bias, None) for _ in range(depth)]
        for block in blocks[:local_up_to_layer]:
            block.attn = GPSA(embed_dim, num_heads, side, qkv_bias)
        self.blocks = nn.Sequential(*blocks)
        self.norm = nn.LayerNorm(embed_dim, eps=1e-6)
        self.head = nn.Linear(embed_dim, num_classes)

    def forward(self, x):
        x = self.patch_embed(x) + self.pos_embed
        for i, block in enumerate(self.blocks):
            if i == self.local:
                x = torch.cat([self.cls_token.expand(len(x), -1, -1), x], 1)
            x = block(x)
        return self.head(self.norm(x)[:, 0])
