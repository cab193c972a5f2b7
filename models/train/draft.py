"""An EAGLE-3 draft for the model in PyTorch, and its training.

A draft predicts several tokens from what the model computed for the last
one: the residual stream at three depths (the inputs of LAYERS), which a matrix
fuses to one vector g. At position P it gets g of P and the embedding of the
token at P+1, and predicts the token at P+2. From its second token on there is
no g from the model; its own last hidden state takes the place. Training does
the same for STEPS tokens (training-time test), so that the draft learns to go
on from its own states.

The draft has one decoder layer and no vocabulary: it shares the embedding and
the output matrix of the model. Names and order are llama.cpp's "eagle3".

usage: draft.py MODEL.gguf TRAIN_TEXT TOKENIZER CHECKPOINT MINUTES
"""
import sys
import time

import numpy as np
import sentencepiece as spm
import torch
import torch.nn as nn
import torch.nn.functional as F

from gguf_file import read_gguf
from model import Config, FeedForward, Llama, RMSNorm, rope, rope_table
from train import learning_rate, save, sentence_starts, windows

LAYERS = (2, 3, 4)      # 2, n/2, n-3 of 7 layers, as EAGLE-3 drafts have them
STEPS = 3               # tokens that are drafted in a row
STEP_WEIGHT = 0.8       # of a step's loss relative to the step before
SHARPEN = 0.6           # temperature of the model's distribution as target


def load_target(path):
    """The model from its GGUF file, in F32, without gradients."""
    _, tensors = read_gguf(path)
    c = Config()
    model = Llama(c)
    state = {"embd.weight": tensors["token_embd.weight"],
             "norm.weight": tensors["output_norm.weight"]}
    for i in range(c.n_layer):
        src, dst = f"blk.{i}.", f"blocks.{i}."
        state[dst + "attn_norm.weight"] = tensors[src + "attn_norm.weight"]
        state[dst + "attn.qkv.weight"] = np.concatenate(
            [tensors[f"{src}attn_{x}.weight"] for x in "qkv"])
        state[dst + "attn.out.weight"] = tensors[src + "attn_output.weight"]
        state[dst + "ffn_norm.weight"] = tensors[src + "ffn_norm.weight"]
        state[dst + "ffn.gate_up.weight"] = np.concatenate(
            [tensors[f"{src}ffn_{x}.weight"] for x in ("gate", "up")])
        state[dst + "ffn.down.weight"] = tensors[src + "ffn_down.weight"]
    model.load_state_dict({name: torch.from_numpy(a.astype(np.float32))
                           for name, a in state.items()})
    return model.eval().requires_grad_(False)


@torch.no_grad()
def target_states(model, ids):
    """Inputs of LAYERS side by side [batch, time, 3 n_embd], and logits."""
    t = ids.shape[1]
    mask = torch.full((t, t), float("-inf")).triu(1)
    x, states = model.embd(ids), []
    for i, block in enumerate(model.blocks):
        if i in LAYERS:
            states.append(x)
        x = block(x, model.cos[:t], model.sin[:t], mask)
    return torch.cat(states, -1), model.norm(x) @ model.embd.weight.t()


def later(x, steps):
    """Move a sequence [batch, (head,) time, width] to later positions."""
    return F.pad(x, (0, 0, steps, 0))[..., :x.shape[-2], :] if steps else x


class Draft(nn.Module):
    """Fused states and next tokens -> hidden states of every step."""

    def __init__(self, c):
        super().__init__()
        self.c, kv = c, c.n_head_kv * c.head_dim
        self.fc = nn.Linear(len(LAYERS) * c.n_embd, c.n_embd, bias=False)
        self.token_norm, self.state_norm = RMSNorm(c), RMSNorm(c)
        self.sizes = (c.n_embd, kv, kv)
        self.qkv = nn.Linear(2 * c.n_embd, sum(self.sizes), bias=False)
        self.out = nn.Linear(c.n_embd, c.n_embd, bias=False)
        self.ffn_norm, self.ffn = RMSNorm(c), FeedForward(c)
        self.norm = RMSNorm(c)
        cos, sin = rope_table(c)
        self.register_buffer("cos", cos, persistent=False)
        self.register_buffer("sin", sin, persistent=False)
        nn.init.normal_(self.fc.weight, std=0.02)

    @torch.no_grad()
    def begin_as_block_of(self, target):
        """Start as the model's last block on the deepest of LAYERS."""
        c, last = self.c, target.blocks[-1]
        self.fc.weight[:, -c.n_embd:] += torch.eye(c.n_embd)
        self.qkv.weight[:, c.n_embd:] = last.attn.qkv.weight
        nn.init.normal_(self.qkv.weight[:, :c.n_embd], std=0.02)
        self.state_norm.load_state_dict(last.attn_norm.state_dict())
        for name in ("ffn_norm", "ffn"):
            getattr(self, name).load_state_dict(
                getattr(last, name).state_dict())
        self.out.load_state_dict(last.attn.out.state_dict())
        self.norm.load_state_dict(target.norm.state_dict())

    def queries_keys_values(self, tokens, g):
        c, (b, t, _) = self.c, g.shape
        both = torch.cat((self.token_norm(tokens), self.state_norm(g)), -1)
        q, k, v = (part.view(b, t, -1, c.head_dim).transpose(1, 2)
                   for part in self.qkv(both).split(self.sizes, -1))
        cos, sin = self.cos[:t], self.sin[:t]
        group = c.n_head // c.n_head_kv
        return (rope(q * c.head_dim ** -0.5, cos, sin),
                rope(k, cos, sin).repeat_interleave(group, 1),
                v.repeat_interleave(group, 1))

    def forward(self, states, tokens):
        """states [b, t, 3 n_embd]; tokens [b, t, n_embd], those at P+1."""
        b, t, _ = states.shape
        g, keys, values, hidden = self.fc(states), [], [], []
        for step in range(STEPS):
            q, k, v = self.queries_keys_values(tokens, g)
            keys.append(k)
            values.append(v)
            # Up to the place where the draft began, what came from the model;
            # after it, one position of each step.
            mask = torch.full((t, t), float("-inf")).triu(1 - step)
            if step:
                mask[:step] = 0        # no such place; not in the loss either
            score = [q @ keys[0].transpose(-1, -2) + mask]
            for r in range(1, step + 1):
                score.append((q * later(keys[r], step - r)).sum(-1, True))
            p = torch.cat(score, -1).softmax(-1)
            y = p[..., :t] @ values[0]
            for r in range(1, step + 1):
                y = y + p[..., t + r - 1:t + r] * later(values[r], step - r)
            x = g + self.out(y.transpose(1, 2).reshape(b, t, -1))
            x = x + self.ffn(self.ffn_norm(x))
            hidden.append(x)
            g = later(x, 1)
        return hidden


def step_losses(target, draft, ids):
    """Cross entropy to the model, and how often the best token agrees."""
    states, logits = target_states(target, ids[:, :-1])
    tokens = target.embd(ids[:, 1:-1])
    goal = logits[:, 1:]
    losses, agree = [], []
    for step, x in enumerate(draft(states[:, :-1], tokens)):
        guess = (draft.norm(x) @ target.embd.weight.t())[:, step:]
        wanted = goal[:, step:]
        losses.append(-(F.softmax(wanted / SHARPEN, -1)
                        * F.log_softmax(guess, -1)).sum(-1).mean())
        agree.append((guess.argmax(-1) == wanted.argmax(-1)).float().mean())
    return losses, agree


def main():
    path, text, tokenizer, checkpoint, minutes = sys.argv[1:6]
    torch.manual_seed(1)
    sp = spm.SentencePieceProcessor(model_file=tokenizer)
    ids = np.array(sp.encode(open(text).read()), dtype=np.int64)
    batches = windows(ids, sentence_starts(ids, sp), np.random.default_rng(1))
    target, draft = load_target(path), Draft(Config())
    draft.begin_as_block_of(target)
    params = list(draft.parameters())
    opt = torch.optim.AdamW(
        [{"params": [p for p in params if p.dim() == 2], "weight_decay": 0.1},
         {"params": [p for p in params if p.dim() == 1], "weight_decay": 0.0}],
        betas=(0.9, 0.98), foreach=True)
    print(f"{sum(p.numel() for p in params)} parameters", flush=True)
    begin, step, mean, seen = time.time(), 0, None, 0
    parts = (part for batch in batches for part in batch.chunk(2))
    while (share := (time.time() - begin) / (60 * float(minutes))) < 1:
        batch = next(parts)
        losses, agree = step_losses(target, draft, batch)
        loss = sum(STEP_WEIGHT ** i * x for i, x in enumerate(losses))
        opt.zero_grad(set_to_none=True)
        loss.backward()
        torch.nn.utils.clip_grad_norm_(params, 1.0)
        for group in opt.param_groups:
            group["lr"] = learning_rate(share)
        opt.step()
        now = np.array([x.item() for x in losses + agree])
        mean = now if mean is None else 0.97 * mean + 0.03 * now
        step, seen = step + 1, seen + batch[:, 1:].numel()
        if step % 20 == 0:
            print(f"step {step} time {time.time() - begin:.0f} passes "
                  f"{seen / len(ids):.2f} loss "
                  + " ".join(f"{x:.3f}" for x in mean[:STEPS]) + " agree "
                  + " ".join(f"{x:.3f}" for x in mean[STEPS:]), flush=True)
        if step % 100 == 0:
            save(draft, checkpoint)
    save(draft, checkpoint)


if __name__ == "__main__":
    main()
