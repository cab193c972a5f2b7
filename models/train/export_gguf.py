"""Write the trained model and its tokenizer as an F16 GGUF file.

usage: export_gguf.py CHECKPOINT TOKENIZER OUT
"""
import sys

import numpy as np
import sentencepiece as spm
import torch

from gguf_file import write_gguf
from model import Config

NORMAL, UNKNOWN, CONTROL, UNUSED, BYTE = 1, 2, 3, 5, 6  # token types


def model_metadata(c):
    return [
        ("general.architecture", "str", "llama"),
        ("general.name", "str", "kjv-6m"),
        ("general.description", "str",
         "Small language model trained on the King James Bible"),
        ("general.license", "str", "public-domain"),
        ("general.languages", "str", ["en"]),
        ("general.file_type", "u32", 1),
        ("llama.context_length", "u32", c.context),
        ("llama.embedding_length", "u32", c.n_embd),
        ("llama.block_count", "u32", c.n_layer),
        ("llama.feed_forward_length", "u32", c.n_ff),
        ("llama.attention.head_count", "u32", c.n_head),
        ("llama.attention.head_count_kv", "u32", c.n_head_kv),
        ("llama.attention.layer_norm_rms_epsilon", "f32", c.eps),
        ("llama.rope.dimension_count", "u32", c.head_dim),
        ("llama.rope.freq_base", "f32", c.rope_base),
        ("llama.vocab_size", "u32", c.vocab),
    ]


def token_type(sp, i):
    if sp.is_unknown(i):
        return UNKNOWN
    if sp.is_control(i):
        return CONTROL
    if sp.is_byte(i):
        return BYTE
    return UNUSED if sp.is_unused(i) else NORMAL


def tokenizer_metadata(sp):
    tokens = range(sp.vocab_size())
    return [
        ("tokenizer.ggml.model", "str", "llama"),
        ("tokenizer.ggml.pre", "str", "default"),
        ("tokenizer.ggml.tokens", "str", [sp.id_to_piece(i) for i in tokens]),
        ("tokenizer.ggml.scores", "f32", [sp.get_score(i) for i in tokens]),
        ("tokenizer.ggml.token_type", "i32",
         [token_type(sp, i) for i in tokens]),
        ("tokenizer.ggml.bos_token_id", "u32", sp.bos_id()),
        ("tokenizer.ggml.eos_token_id", "u32", sp.eos_id()),
        ("tokenizer.ggml.unknown_token_id", "u32", sp.unk_id()),
        ("tokenizer.ggml.add_bos_token", "bool", True),
        ("tokenizer.ggml.add_eos_token", "bool", False),
        ("tokenizer.ggml.add_space_prefix", "bool", True),
    ]


def named_tensors(state, c):
    """Rename the weights as llama.cpp does and split the fused matrices."""
    kv = c.n_head_kv * c.head_dim
    out = {"token_embd.weight": state["embd.weight"]}
    for i in range(c.n_layer):
        src, dst = f"blocks.{i}.", f"blk.{i}."
        out[dst + "attn_norm.weight"] = state[src + "attn_norm.weight"]
        qkv = state[src + "attn.qkv.weight"].split((c.n_embd, kv, kv))
        for letter, part in zip("qkv", qkv):
            out[f"{dst}attn_{letter}.weight"] = part
        out[dst + "attn_output.weight"] = state[src + "attn.out.weight"]
        out[dst + "ffn_norm.weight"] = state[src + "ffn_norm.weight"]
        gate, up = state[src + "ffn.gate_up.weight"].chunk(2)
        out[dst + "ffn_gate.weight"], out[dst + "ffn_up.weight"] = gate, up
        out[dst + "ffn_down.weight"] = state[src + "ffn.down.weight"]
    out["output_norm.weight"] = state["norm.weight"]
    return {name: t.numpy().astype(np.float16 if t.dim() == 2 else np.float32)
            for name, t in out.items()}


def main():
    checkpoint, tokenizer, path = sys.argv[1:4]
    c = Config()
    sp = spm.SentencePieceProcessor(model_file=tokenizer)
    write_gguf(path, model_metadata(c) + tokenizer_metadata(sp),
               named_tensors(torch.load(checkpoint), c))


if __name__ == "__main__":
    main()
