"""Write a trained draft as an F16 GGUF file of the architecture "eagle3".

usage: export_draft.py MODEL.gguf CHECKPOINT OUT [LAYER LAYER LAYER]

The layers are those whose inputs llama.cpp takes from the model; others than
the draft was trained with are for showing that it needs the right ones.
"""
import sys

import numpy as np
import torch

from draft import LAYERS
from gguf_file import read_gguf, write_gguf
from model import Config


def main():
    model, checkpoint, path = sys.argv[1:4]
    layers = [int(x) for x in sys.argv[4:7]] or list(LAYERS)
    c, state = Config(), torch.load(checkpoint)
    kv = c.n_head_kv * c.head_dim
    q, k, v = state["qkv.weight"].split((c.n_embd, kv, kv))
    gate, up = state["ffn.gate_up.weight"].chunk(2)
    tensors = {
        "fc.weight": state["fc.weight"],
        "blk.0.attn_norm.weight": state["token_norm.weight"],
        "blk.0.attn_norm_2.weight": state["state_norm.weight"],
        "blk.0.attn_q.weight": q,
        "blk.0.attn_k.weight": k,
        "blk.0.attn_v.weight": v,
        "blk.0.attn_output.weight": state["out.weight"],
        "blk.0.ffn_norm.weight": state["ffn_norm.weight"],
        "blk.0.ffn_gate.weight": gate,
        "blk.0.ffn_up.weight": up,
        "blk.0.ffn_down.weight": state["ffn.down.weight"],
        "output_norm.weight": state["norm.weight"],
    }
    metadata = [
        ("general.architecture", "str", "eagle3"),
        ("general.name", "str", "kjv-6m-eagle3"),
        ("general.description", "str", "EAGLE-3 draft for kjv-6m"),
        ("general.license", "str", "public-domain"),
        ("general.file_type", "u32", 1),
        ("eagle3.context_length", "u32", c.context),
        ("eagle3.embedding_length", "u32", c.n_embd),
        ("eagle3.block_count", "u32", 1),
        ("eagle3.feed_forward_length", "u32", c.n_ff),
        ("eagle3.attention.head_count", "u32", c.n_head),
        ("eagle3.attention.head_count_kv", "u32", c.n_head_kv),
        ("eagle3.attention.layer_norm_rms_epsilon", "f32", c.eps),
        ("eagle3.rope.dimension_count", "u32", c.head_dim),
        ("eagle3.rope.freq_base", "f32", c.rope_base),
        ("eagle3.vocab_size", "u32", c.vocab),
        ("eagle3.target_layers", "i32", layers),
        ("eagle3.target_hidden_size", "u32", c.n_embd),
    ]
    tokenizer = [entry for entry in read_gguf(model)[0]
                 if entry[0].startswith("tokenizer.")]
    write_gguf(path, metadata + tokenizer, {
        name: t.numpy().astype(np.float16 if t.dim() == 2 else np.float32)
        for name, t in tensors.items()})


if __name__ == "__main__":
    main()
