"""Train the SentencePiece BPE tokenizer on the training text.

The settings are the ones llama.cpp's "llama" (SPM) tokenizer can reproduce:
text is not normalised, spaces are kept, and whatever has no piece (here: the
newline) falls back to byte tokens.

usage: tokenizer.py TRAIN_TEXT MODEL_PREFIX
"""
import re
import sys

import sentencepiece as spm

VOCAB_SIZE = 2048


def main():
    text = open(sys.argv[1]).read()
    # The trainer takes short lines, so give it one sentence at a time.
    sentences = re.split(r"(?<=[.?!]) |\n+", text.strip())
    spm.SentencePieceTrainer.train(
        sentence_iterator=iter(sentences), model_prefix=sys.argv[2],
        model_type="bpe", vocab_size=VOCAB_SIZE, byte_fallback=True,
        character_coverage=1.0, split_digits=True,
        normalization_rule_name="identity", remove_extra_whitespaces=False,
        unk_id=0, bos_id=1, eos_id=2, pad_id=-1, num_threads=2,
        minloglevel=1)
    sp = spm.SentencePieceProcessor(model_file=sys.argv[2] + ".model")
    ids = sp.encode(text)
    assert sp.decode(ids) == text
    print(f"{len(ids)} tokens, {len(text) / len(ids):.2f} characters each")


if __name__ == "__main__":
    main()
