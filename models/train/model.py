"""The Llama architecture in PyTorch, small enough to read in one sitting."""
from dataclasses import dataclass

import torch
import torch.nn as nn
import torch.nn.functional as F


@dataclass
class Config:
    vocab: int = 2048
    context: int = 512
    n_embd: int = 256
    n_layer: int = 7
    n_head: int = 4
    n_head_kv: int = 2
    n_ff: int = 768
    eps: float = 1e-5
    rope_base: float = 10000.0

    @property
    def head_dim(self):
        return self.n_embd // self.n_head


class RMSNorm(nn.Module):
    """Scale a vector to root mean square 1, then by a learned weight."""

    def __init__(self, c):
        super().__init__()
        self.weight, self.eps = nn.Parameter(torch.ones(c.n_embd)), c.eps

    def forward(self, x):
        scale = torch.rsqrt(x.square().mean(-1, keepdim=True) + self.eps)
        return x * scale * self.weight


def rope_table(c):
    """cos and sin of (position * frequency), each [context, head_dim / 2]."""
    freq = c.rope_base ** (-torch.arange(0, c.head_dim, 2) / c.head_dim)
    angle = torch.outer(torch.arange(c.context), freq)
    return angle.cos(), angle.sin()


def rope(x, cos, sin):
    """Rotate the neighbouring pairs (x0,x1), (x2,x3), ... of every head.

    This is the layout llama.cpp expects of the llama architecture.
    x: [batch, head, time, head_dim]
    """
    x0, x1 = x[..., 0::2], x[..., 1::2]
    return torch.stack((x0 * cos - x1 * sin, x0 * sin + x1 * cos), -1).flatten(-2)


class Attention(nn.Module):
    """Causal attention where n_head / n_head_kv query heads share a KV head."""

    def __init__(self, c):
        super().__init__()
        self.c, kv = c, c.n_head_kv * c.head_dim
        self.sizes = (c.n_embd, kv, kv)
        self.qkv = nn.Linear(c.n_embd, sum(self.sizes), bias=False)
        self.out = nn.Linear(c.n_embd, c.n_embd, bias=False)

    def forward(self, x, cos, sin, mask):
        c, (b, t, _) = self.c, x.shape
        q, k, v = (part.view(b, t, -1, c.head_dim).transpose(1, 2)
                   for part in self.qkv(x).split(self.sizes, -1))
        q, k = rope(q * c.head_dim ** -0.5, cos, sin), rope(k, cos, sin)
        # Query head h uses KV head h // group: stack each group along time.
        q = q.reshape(b, c.n_head_kv, -1, c.head_dim)
        score = (q @ k.transpose(-1, -2)).view(b, c.n_head, t, t) + mask
        p = score.softmax(-1).view(b, c.n_head_kv, -1, t)
        y = (p @ v).view(b, c.n_head, t, c.head_dim)
        return self.out(y.transpose(1, 2).reshape(b, t, -1))


class FeedForward(nn.Module):
    """SwiGLU: down(silu(gate(x)) * up(x))."""

    def __init__(self, c):
        super().__init__()
        self.gate_up = nn.Linear(c.n_embd, 2 * c.n_ff, bias=False)
        self.down = nn.Linear(c.n_ff, c.n_embd, bias=False)

    def forward(self, x):
        gate, up = self.gate_up(x).chunk(2, -1)
        return self.down(F.silu(gate) * up)


class Block(nn.Module):
    def __init__(self, c, dropout):
        super().__init__()
        self.attn_norm, self.attn = RMSNorm(c), Attention(c)
        self.ffn_norm, self.ffn = RMSNorm(c), FeedForward(c)
        self.drop = nn.Dropout(dropout)

    def forward(self, x, *rope_and_mask):
        x = x + self.drop(self.attn(self.attn_norm(x), *rope_and_mask))
        return x + self.drop(self.ffn(self.ffn_norm(x)))


class Llama(nn.Module):
    """Token ids [batch, time] -> logits [batch, time, vocab]."""

    def __init__(self, c, dropout=0.0):
        super().__init__()
        self.config = c
        self.embd = nn.Embedding(c.vocab, c.n_embd)
        self.blocks = nn.ModuleList(Block(c, dropout) for _ in range(c.n_layer))
        self.norm = RMSNorm(c)
        self.drop = nn.Dropout(dropout)
        cos, sin = rope_table(c)
        self.register_buffer("cos", cos, persistent=False)
        self.register_buffer("sin", sin, persistent=False)
        for name, p in self.named_parameters():
            if p.dim() == 2:
                deep = name.endswith(("out.weight", "down.weight"))
                std = 0.02 * ((2 * c.n_layer) ** -0.5 if deep else 1)
                nn.init.normal_(p, std=std)

    def forward(self, ids):
        t = ids.shape[1]
        mask = torch.full((t, t), float("-inf")).triu(1)
        x = self.drop(self.embd(ids))
        for block in self.blocks:
            x = block(x, self.cos[:t], self.sin[:t], mask)
        return self.norm(x) @ self.embd.weight.t()     # tied embeddings
