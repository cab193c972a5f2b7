"""Train the model for a fixed time, with one process for each core.

The learning rate follows the share of the time budget that has passed, so a
busy machine shortens the training but never cuts off the decay.

usage: train.py TRAIN_TEXT HELDOUT_TEXT TOKENIZER CHECKPOINT MINUTES
"""
import math
import os
import sys
import tempfile
import time

import numpy as np
import sentencepiece as spm
import torch
import torch.distributed as dist
import torch.multiprocessing as mp
import torch.nn.functional as F

from model import Config, Llama
from perplexity import perplexity

PROCESSES = 2
BATCH_TOKENS = 2048     # of all processes together
PEAK_LR, FINAL_LR, WARMUP = 1.5e-3, 1.5e-5, 0.02
SAVE_SECONDS = 240
BOS = 1


def sentence_starts(ids, sp):
    """Positions in ids that follow the end of a sentence."""
    ends = [i for i in range(sp.vocab_size())
            if sp.id_to_piece(i)[-1] in ".?!"]
    return np.concatenate(([0], np.flatnonzero(np.isin(ids[:-1], ends)) + 1))


def windows(ids, starts, rng):
    """Yield batches [n, length + 1] for ever; one pass covers the text once.

    A window is BOS and then text from the start of a sentence. Three of four
    batches have windows of 256 tokens, the fourth 512, the full context.
    """
    while True:
        grid = np.arange(rng.integers(256), len(ids) - 600, 256)
        at = starts[np.searchsorted(starts, grid, "right") - 1]
        rng.shuffle(at)
        while len(at) >= 8:
            length = 512 if rng.random() < 0.25 else 256
            n = BATCH_TOKENS // length
            rows = [np.concatenate(([BOS], ids[a:a + length])) for a in at[:n]]
            yield torch.from_numpy(np.stack(rows))
            at = at[BATCH_TOKENS // 256:]


def learning_rate(share):
    """Linear warm-up, then cosine decay, over share = 0 .. 1 of the time."""
    if share < WARMUP:
        return PEAK_LR * (0.05 + 0.95 * share / WARMUP)
    x = (share - WARMUP) / (1 - WARMUP)
    return FINAL_LR + (PEAK_LR - FINAL_LR) * 0.5 * (1 + math.cos(math.pi * x))


def save(model, path):
    """Write a checkpoint so that a reader never sees half a file."""
    torch.save(model.state_dict(), path + ".tmp")
    os.replace(path + ".tmp", path)


def average(tensors, processes):
    """Replace each tensor by its mean over the processes, in one exchange."""
    flat = torch.cat([t.flatten() for t in tensors])
    dist.all_reduce(flat)
    flat /= processes
    for t, mean in zip(tensors, flat.split([t.numel() for t in tensors])):
        t.copy_(mean.view_as(t))


def worker(rank, processes, address, args):
    """One of the processes; each takes its share of every batch."""
    train_path, heldout_path, tokenizer, checkpoint, minutes = args
    budget = 60 * float(minutes)
    dist.init_process_group("gloo", init_method=address, rank=rank,
                            world_size=processes)
    torch.set_num_threads(1)
    torch.manual_seed(1)            # the same first weights everywhere
    sp = spm.SentencePieceProcessor(model_file=tokenizer)
    ids = np.array(sp.encode(open(train_path).read()), dtype=np.int64)
    heldout = sp.encode(open(heldout_path).read())
    batches = windows(ids, sentence_starts(ids, sp), np.random.default_rng(1))

    model = Llama(Config(), dropout=0.1)
    params = list(model.parameters())
    opt = torch.optim.AdamW(
        [{"params": [p for p in params if p.dim() == 2], "weight_decay": 0.1},
         {"params": [p for p in params if p.dim() == 1], "weight_decay": 0.0}],
        betas=(0.9, 0.98), foreach=True)
    torch.manual_seed(2 + rank)     # but not the same dropout
    log = print if rank == 0 else lambda *_, **__: None
    log(f"{sum(p.numel() for p in params)} parameters, {len(ids)} tokens to "
        f"train, {len(heldout)} held out", flush=True)

    begin = saved = time.time()
    step, seen, mean, share = 0, 0, None, 0.0
    while share < 1:
        batch = next(batches)
        step, seen = step + 1, seen + batch[:, 1:].numel()
        mine = batch[rank::processes]
        logits = model(mine[:, :-1])
        loss = F.cross_entropy(logits.flatten(0, 1), mine[:, 1:].flatten())
        opt.zero_grad(set_to_none=True)
        loss.backward()
        elapsed = time.time() - begin
        now = torch.tensor([loss.item(), elapsed / budget])
        average([p.grad for p in params] + [now], processes)
        loss, share = now.tolist()
        torch.nn.utils.clip_grad_norm_(params, 1.0)
        for group in opt.param_groups:
            group["lr"] = learning_rate(min(share, 1))
        opt.step()
        mean = loss if mean is None else 0.97 * mean + 0.03 * loss
        if step % 50 == 0:
            log(f"step {step} time {elapsed:.0f} passes {seen / len(ids):.2f}"
                f" loss {mean:.3f} lr {group['lr']:.2e}"
                f" tokens/s {seen / elapsed:.0f}", flush=True)
        if rank == 0 and time.time() - saved > SAVE_SECONDS:
            saved = time.time()
            save(model, checkpoint)
            log(f"saved, perplexity of the first 48 held-out windows "
                f"{perplexity(model, heldout[:48 * 256]):.2f}", flush=True)
    if rank == 0:
        save(model, checkpoint)
        log(f"end: {step} steps, {seen} tokens, {seen / len(ids):.2f} passes, "
            f"held-out perplexity {perplexity(model, heldout):.4f}", flush=True)


def main():
    with tempfile.TemporaryDirectory() as meeting:
        mp.spawn(worker, nprocs=PROCESSES, args=(
            PROCESSES, f"file://{meeting}/point", sys.argv[1:6]))


if __name__ == "__main__":
    main()
