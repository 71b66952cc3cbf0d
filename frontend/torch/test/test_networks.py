# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""Small configurations of the six networks give eager's results, with every operator in a program."""

import pytest
import torch
from agreement import assert_same
from conftest import check

transformers = pytest.importorskip("transformers")


def small_bert(**options):
    config = transformers.BertConfig(
        hidden_size=48, num_hidden_layers=2, num_attention_heads=4, intermediate_size=96, vocab_size=500, **options
    )
    return transformers.BertModel(config).eval()


def small_gpt2():
    config = transformers.GPT2Config(n_layer=2, n_embd=48, n_head=4, vocab_size=300)
    return transformers.GPT2LMHeadModel(config).eval()


def small_vit():
    config = transformers.ViTConfig(
        hidden_size=48, num_hidden_layers=2, num_attention_heads=4, intermediate_size=96, image_size=32, patch_size=8
    )
    return transformers.ViTForImageClassification(config).eval()


def small_resnet():
    config = transformers.ResNetConfig(depths=[1, 1, 1, 1], embedding_size=8, hidden_sizes=[16, 16, 32, 32])
    return transformers.ResNetForImageClassification(config).eval()


def small_llama():
    config = transformers.LlamaConfig(
        hidden_size=64,
        intermediate_size=96,
        num_hidden_layers=2,
        num_attention_heads=4,
        num_key_value_heads=2,
        vocab_size=200,
    )
    return transformers.LlamaForCausalLM(config).eval()


@pytest.mark.parametrize("attention", ["sdpa", "eager"])
def test_bert(compile_for, attention):
    model = small_bert(attn_implementation=attention)
    ids, mask = torch.randint(0, 500, (2, 11)), torch.ones(2, 11, dtype=torch.long)
    mask[1, 7:] = 0
    compiled = compile_for(model)

    def run(f):
        return lambda i, m: tuple(f(input_ids=i, attention_mask=m).values())

    check(run(compiled), run(model), ids, mask)


def test_sentence_embedding_of_several_lengths(compile_for):
    model = small_bert()

    def embed(ids, mask):
        hidden = model(input_ids=ids, attention_mask=mask).last_hidden_state
        weights = mask[..., None].to(hidden.dtype)
        return torch.nn.functional.normalize((hidden * weights).sum(1) / weights.sum(1).clamp(min=1e-9), dim=1)

    compiled = compile_for(embed, dynamic=None)
    for batch, length in ((3, 9), (4, 13), (2, 5), (3, 9)):
        ids, mask = torch.randint(0, 500, (batch, length)), torch.ones(batch, length, dtype=torch.long)
        mask[1, length // 2 :] = 0
        check(compiled, embed, ids, mask)


def test_gpt2(compile_for):
    model = small_gpt2()
    compiled, ids = compile_for(model), torch.randint(0, 300, (2, 9))
    check(lambda i: compiled(i, use_cache=False).logits, lambda i: model(i, use_cache=False).logits, ids)


def test_vit(compile_for):
    model = small_vit()
    compiled = compile_for(model)
    check(lambda x: compiled(x).logits, lambda x: model(x).logits, torch.randn(2, 3, 32, 32))


def test_resnet(compile_for):
    model = small_resnet()
    compiled = compile_for(model)
    check(lambda x: compiled(x).logits, lambda x: model(x).logits, torch.randn(2, 3, 64, 64))


def test_llama_with_a_static_cache(compile_for):
    model = small_llama()
    compiled = compile_for(model)
    prompt = torch.randint(0, 200, (1, 7))
    tokens = {}
    caches = [transformers.StaticCache(config=model.config, max_cache_len=16) for _ in range(2)]
    with torch.no_grad():
        for run, cache in zip((model, compiled), caches):
            tokens[run] = [run(prompt, past_key_values=cache, cache_position=torch.arange(7), use_cache=True).logits]
        addresses = [layer.keys.data_ptr() for layer in caches[1].layers]
        for step in range(7, 11):
            for run, cache in zip((model, compiled), caches):
                ids = prompt[:, step - 7 : step - 6]
                tokens[run].append(
                    run(ids, past_key_values=cache, cache_position=torch.tensor([step]), use_cache=True).logits
                )
    assert_same(tokens[compiled], tokens[model])
    assert_same([layer.keys for layer in caches[1].layers], [layer.keys for layer in caches[0].layers])
    assert addresses == [layer.keys.data_ptr() for layer in caches[1].layers]
    import torch_mortise

    report = torch_mortise.last_report()
    assert report["coverage"] == 1.0
    assert any(i["state"] for g in report["graphs"] for i in g["program"]["inputs"])
