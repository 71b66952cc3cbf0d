# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""Real text and real images that an installation has, and the batches of a training run.

    text    the language reference that CPython carries for `help()` (pydoc_data.topics, 460,000 letters of English), in tokens
            of a byte-level BPE vocabulary learnt from it, as GPT-2's is from its own text
    images  scikit-learn's digits (Optical Recognition of Handwritten Digits, UCI): 1,797 scans of 8 x 8 with 17 grey levels and
            a label, made larger by bilinear interpolation, each moved by a random number of pixels as is usual in training

Batch N is a function of N and the seed alone, so that every side of a comparison sees the same numbers."""

from __future__ import annotations

from collections.abc import Callable

import torch

TOKENS = 2048  # in the vocabulary
SEED = 20261127


def tokens() -> torch.Tensor:
    """All tokens of the text, i64 [count]."""
    from pydoc_data.topics import topics
    from tokenizers import Tokenizer, models, pre_tokenizers, trainers

    text = [topics[name] for name in sorted(topics)]
    tokenizer = Tokenizer(models.BPE())
    tokenizer.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=False)
    trainer = trainers.BpeTrainer(vocab_size=TOKENS, show_progress=False, initial_alphabet=pre_tokenizers.ByteLevel.alphabet())
    tokenizer.train_from_iterator(text, trainer)
    return torch.tensor([number for part in tokenizer.encode_batch(text) for number in part.ids])


def text_batches(batch: int, length: int) -> Callable[[int], tuple[torch.Tensor, torch.Tensor]]:
    """N -> the tokens of passages, and the token after each: i64 [batch, length] both."""
    every = tokens()

    def take(number: int):
        starts = torch.randint(len(every) - length, (batch,), generator=_generator(number))
        passages = torch.stack([every[start : start + length + 1] for start in starts.tolist()])
        return passages[:, :-1].contiguous(), passages[:, 1:].contiguous()

    return take


def image_batches(batch: int, extent: int) -> Callable[[int], tuple[torch.Tensor, torch.Tensor]]:
    """N -> images, f32 [batch, 1, extent, extent], and their digits, i64 [batch]."""
    from sklearn.datasets import load_digits

    digits = load_digits()
    every = torch.tensor(digits.images, dtype=torch.float32)[:, None] / 8 - 1
    every = torch.nn.functional.interpolate(every, (extent, extent), mode="bilinear", align_corners=False)
    labels, most = torch.tensor(digits.target), extent // 8

    def take(number: int):
        generator = _generator(number)
        chosen = torch.randint(len(every), (batch,), generator=generator)
        moves = torch.randint(-most, most + 1, (batch, 2), generator=generator).tolist()
        moved = [torch.roll(every[one], move, (1, 2)) for one, move in zip(chosen.tolist(), moves)]
        return torch.stack(moved), labels[chosen].long()

    return take


def _generator(number: int) -> torch.Generator:
    return torch.Generator().manual_seed(SEED + number)
