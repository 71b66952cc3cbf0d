# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""Inputs of transformers' models, by rules on the names of `forward`'s parameters and the values of the configuration."""

import inspect

import torch

from zoo.shrink import FIRST_TOKEN

BATCH, TOKENS, TARGETS, FRAMES, SAMPLES, BINS, SPECTRUM = 2, 12, 7, 2, 4000, 80, 64


def found(config, *names, default=None):
    """The first value of these names in the configuration or in those inside it."""
    from transformers import PretrainedConfig

    for name in names:
        value = getattr(config, name, None)
        if value is not None and not isinstance(value, PretrainedConfig):
            return value
    for inner in vars(config).values() if isinstance(config, PretrainedConfig) else ():
        if isinstance(inner, PretrainedConfig) and (value := found(inner, *names)) is not None:
            return value
    return default


def part(config, *names):
    """The configuration of a modality, which is `config` itself where there is only one."""
    return next((inner for name in names if (inner := getattr(config, name, None)) is not None), config)


def token_ids(config, length=TOKENS):
    text = part(config, "text_config", "text_encoder_config")
    size = found(text, "vocab_size", "n_tokens", default=found(config, "vocab_size", default=64))
    size = size if isinstance(size, int) else min(size)
    return torch.randint(min(FIRST_TOKEN, size - 2), size, (BATCH, length))


def padded():
    """A mask of tokens, the last ones of the last row hidden."""
    mask = torch.ones(BATCH, TOKENS, dtype=torch.long)
    mask[-1, TOKENS - 3:] = 0
    return mask


def image_shape(config):
    config = part(config, "vision_config", "image_config")
    size = found(config, "image_size", "img_size", "input_size", default=64)
    height, width = size if isinstance(size, (list, tuple)) else (size, size)
    return found(config, "num_channels", "in_channels", "num_input_channels", default=3), height, width


def images(config):
    channels, height, width = image_shape(config)
    return torch.randn(BATCH, channels if isinstance(channels, int) else 3, height, width)


def videos(config):
    channels, height, width = image_shape(config)
    return torch.randn(BATCH, found(config, "num_frames", "frames_per_clip", default=FRAMES), channels, height, width)


def spectrum(config):
    config = part(config, "audio_config", "encoder_config", "speech_config")
    bins = found(config, "num_mel_bins", "n_mels", "feature_size", "input_feat_per_channel", "input_dim", default=BINS)
    positions = found(config, "max_source_positions")
    return bins, 2 * positions if positions else SPECTRUM


def candidates(config, names):
    """Several values for each input: {name: [tensor, ...]}. What comes first is tried first."""
    bins, frames = spectrum(config)
    channels = found(config, "audio_channels", default=1)
    made = {
        "input_ids": [token_ids(config)],
        "attention_mask": [padded()],
        "token_type_ids": [torch.zeros(BATCH, TOKENS, dtype=torch.long)],
        "pixel_values": [images(config), videos(config), torch.randn(BATCH, 3, 224, 224)],
        "pixel_values_videos": [videos(config)],
        "decoder_input_ids": [token_ids(config, TARGETS)],
        "input_features": [torch.randn(BATCH, bins, frames), torch.randn(BATCH, frames, bins), torch.randn(BATCH, frames, 2 * bins)],
        "input_values": [torch.randn(BATCH, SAMPLES), torch.randn(BATCH, channels, SAMPLES),
                         torch.randn(BATCH, found(config, "max_length", default=frames), bins)],
        "past_values": [torch.randn(BATCH, found(config, "context_length", default=32), found(config, "num_input_channels", default=1))],
        "bbox": [torch.sort(torch.randint(0, 90, (BATCH, TOKENS, 2, 2)), 2).values.flatten(2)],
    }
    if "decoder_input_values" in names:
        made["decoder_input_values"] = [torch.randn(BATCH, TARGETS, bins)]
    return {name: made[name] for name in made if name in names}


# What is given together, most first; the first set that eager takes is used.
SETS = (("input_ids", "attention_mask", "bbox", "pixel_values"), ("input_ids", "attention_mask", "pixel_values"),
        ("input_ids", "attention_mask", "bbox"),
        ("input_ids", "attention_mask", "decoder_input_ids"), ("input_ids", "attention_mask", "input_values"),
        ("input_ids", "attention_mask", "input_features"), ("input_ids", "attention_mask"), ("input_ids",),
        ("pixel_values",), ("pixel_values", "decoder_input_ids"), ("pixel_values_videos",),
        ("input_features", "decoder_input_ids"), ("input_features",), ("input_values", "decoder_input_ids"), ("input_values",),
        ("input_values", "decoder_input_values"), ("past_values",))


def text_with_images(model, given):
    """Text that begins with as many image tokens as an image has features; nothing where the model has no such tokens."""
    token = found(model.config, "image_token_id", "image_token_index")
    if not isinstance(token, int) or not {"input_ids", "pixel_values"} <= given.keys() or not hasattr(model, "get_image_features"):
        return
    for pixels in given["pixel_values"]:
        try:
            with torch.no_grad():
                features = model.get_image_features(pixel_values=pixels)
            features = getattr(features, "pooler_output", features)
            count = sum(f.numel() // f.shape[-1] for f in (features if isinstance(features, (list, tuple)) else [features])) // BATCH
        except Exception:  # it needs more than pixels
            continue
        ids = torch.cat([torch.full((BATCH, count), token), given["input_ids"][0]], 1)
        yield {"input_ids": ids, "attention_mask": torch.ones_like(ids), "pixel_values": pixels}


def sets(model):
    """Inputs to try, one after the other."""
    signature = inspect.signature(model.forward).parameters
    given = candidates(model.config, signature)
    yield from text_with_images(model, given)
    for names in SETS:
        if all(name in given for name in names):
            variants = max(len(given[name]) for name in names)
            for number in range(variants):
                yield {name: given[name][min(number, len(given[name]) - 1)] for name in names}
