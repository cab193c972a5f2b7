"""Held-out perplexity, counted the way llama-perplexity counts it.

The text is one row of tokens with BOS in front, cut into windows; the first
token of each window is replaced by BOS, and only the predictions made in the
second half of a window count, since those have enough text before them.

usage: perplexity.py HELDOUT_TEXT TOKENIZER CHECKPOINT
"""
import math
import sys

import sentencepiece as spm
import torch
import torch.nn.functional as F

from model import Config, Llama

BOS = 1


@torch.no_grad()
def perplexity(model, ids, window=256):
    """exp(mean negative log likelihood) of the token ids (without BOS)."""
    training = model.training
    model.eval()
    ids = torch.tensor([BOS] + ids)
    rows = ids[:len(ids) // window * window].view(-1, window).clone()
    rows[:, 0] = BOS
    total, half = 0.0, window // 2
    for batch in rows.split(8):
        logits = model(batch)[:, half:-1]
        total += F.cross_entropy(logits.flatten(0, 1),
                                 batch[:, half + 1:].flatten(),
                                 reduction="sum").item()
    model.train(training)
    return math.exp(total / (len(rows) * (window - half - 1)))


def main():
    text, tokenizer, checkpoint = sys.argv[1:4]
    model = Llama(Config())
    model.load_state_dict(torch.load(checkpoint))
    sp = spm.SentencePieceProcessor(model_file=tokenizer)
    print(f"{perplexity(model, sp.encode(open(text).read())):.4f}")


if __name__ == "__main__":
    main()
