# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""Small configurations of transformers' models, by rules on the names and values of their fields.

A configuration is made anew from its class, with the fields that a rule changes, so that what it derives from them is derived again. There
are three rules, for relations between fields that no rule knows (`heads * head_dim == hidden_size` and the like) hold under one of them:

    by_name        widths, heads and sizes by what their names say
    in_proportion  everything that is a width divided by one number, heads by the same; sizes of single heads stay
    fewer_layers   layers, vocabulary and images only
"""

import dataclasses
import re

LAYERS, WIDTH, HEADS, VOCABULARY, IMAGE, PATCH, POSITIONS, WINDOW = 2, 64, 4, 160, 64, 16, 96, 8
FIRST_TOKEN = 32  # ordinary tokens are from here on, special ones below

IS_LAYERS = re.compile(r"(^|_)(num_|n_)?(hidden_|encoder_|decoder_)?(layers?|depth|blocks)$|^num_.*_layers$|_layers$|num_residual_units")
IS_HEADS = re.compile(r"(^|_)(n_)?heads?$")
IS_WIDTH = re.compile(r"(^|_)(hidden|embed|embedding|emb|projection|proj|output|model|latent|feature|query|channels?)_?(size|dim|dims)$"
                      r"|^d_model$|^n_embd$|^dim$|^dims$|^d_embed$|^d_inner$|hidden_channels$|^codevector_dim$|^decoder_hidden$")
IS_INNER = re.compile(r"intermediate_(size|dim)$|ffn_(dim|hidden_size)$|^d_ff$|^n_inner$|^mlp_dim$|^dim_feedforward$|^ffn_size$")
IS_HEAD_WIDTH = re.compile(r"head_(dim|size)$|^d_kv$|^d_head$")
IS_RANK = re.compile(r"_rank$")
IS_EXPERTS = re.compile(r"experts$")
IS_CHOSEN_EXPERTS = re.compile(r"experts_per_tok(en)?$|^moe_topk$|^moe_k$|^top_k_experts$")
IS_POSITIONS = re.compile(r"(position_embeddings|positions|context_length)$")
IS_TOKEN = re.compile(r"(^|_)token_(id|index)$|^(boi|eoi|boa|eoa)_token|_token_id_|(_start|_end)_token")
IS_DROPOUT = re.compile(r"drop")
CHOSEN = {"n_groups": 2, "n_group": 2, "topk_group": 1, "first_k_dense_replace": 1, "window_size": 2, "num_queries": 8,
          "rotary_dim": WIDTH // HEADS // 2, "mamba_d_ssm": 2 * WIDTH, "prediction_length": 8, "conv_kernel_size": 3,
          "attention_window": 4, "n_mels": 16, "codebook_size": 64, "num_codevectors_per_group": 16, "index_topk": 4,
          "num_denoising": 0, "num_conv_pos_embeddings": 16, "num_conv_pos_embedding_groups": 4, "mamba_d_state": 16,
          "ssm_state_size": 16, "state_size": 16, "num_nextn_predict_layers": 0}
WIDTHS = ("hidden_size", "d_model", "n_embd", "embed_dim", "dim")
# What a class leaves open, and needs.
OPEN = {"head_dim": WIDTH // HEADS, "vocab_size": VOCABULARY, "num_key_value_heads": HEADS // 2, "prediction_length": 8,
        "num_experts_per_tok": 2, "kv_channels": WIDTH // HEADS}
WIDTHS = ("hidden_size", "d_model", "n_embd", "embed_dim", "dim")


def value_of_dropout(value):
    """Without dropout: the masks that compiled programs draw are not eager's."""
    if isinstance(value, (list, tuple)):
        return type(value)(value_of_dropout(v) for v in value)
    return 0.0 if isinstance(value, float) or (isinstance(value, int) and not isinstance(value, bool) and value == 0) else value


def common(name, value, default):
    """What all rules change: layers, vocabulary, tokens, images, positions, dropout."""
    if IS_DROPOUT.search(name):
        return value_of_dropout(value)
    if isinstance(value, bool) or not isinstance(value, int):
        if name == "depths" and isinstance(value, (list, tuple)):
            return type(value)(min(v, LAYERS) for v in value)
        if name == "image_size" and isinstance(value, (list, tuple)):
            return type(value)(min(v, IMAGE) for v in value)
        return value
    if IS_TOKEN.search(name):
        return value
    if name == "vocab_size" or name.endswith("_vocab_size") and value > VOCABULARY:
        return min(value, VOCABULARY)
    if IS_LAYERS.search(name):
        return min(value, LAYERS)
    if IS_POSITIONS.search(name):
        return min(value, POSITIONS)
    if name in ("image_size", "img_size"):
        return min(value, IMAGE)
    if name == "sliding_window":
        return min(value, WINDOW)
    return value


def by_name(name, value, default):
    changed = common(name, value, default)
    if changed is not value and changed != value or isinstance(value, bool):
        return changed
    if value is None:
        return OPEN.get(name)
    if isinstance(value, dict) and "mrope_section" in value:
        return value | {"mrope_section": shares(value["mrope_section"], WIDTH // HEADS // 2)}
    if isinstance(value, (list, tuple)) and value and all(isinstance(v, int) and not isinstance(v, bool) for v in value):
        if name in CHOSEN:
            return type(value)(min(v, CHOSEN[name]) for v in value)
        if IS_HEADS.search(name):
            return type(value)(max(v // value[0], 1) for v in value)
        if (IS_WIDTH.search(name) or name in ("hidden_sizes", "embed_dims", "conv_dim")) and min(value) >= 32:
            by = max(min(value) // 16, 1)
            return type(value)(-(-v // by) // 16 * 16 or 16 for v in value)
        return value
    if not isinstance(value, int):
        return value
    if name in CHOSEN:
        return min(value, CHOSEN[name])
    if IS_TOKEN.search(name):
        return value
    if IS_CHOSEN_EXPERTS.search(name):
        return min(value, 2)
    if name == "mamba_d_head" or name == "head_dim" and hasattr(default, "expand"):  # heads of Mamba divide the widened features
        return getattr(default, "mamba_expand", getattr(default, "expand", 2)) * WIDTH // HEADS
    if IS_HEADS.search(name):
        if "key_value" in name or "kv" in name:
            return min(value, HEADS if value == getattr(default, name.replace("key_value_", "attention_"), 0) else HEADS // 2)
        return min(value, HEADS)
    if IS_HEAD_WIDTH.search(name):
        return min(value, WIDTH // HEADS // 2 if "rope" in name else WIDTH // HEADS)
    if IS_RANK.search(name):
        return min(value, WIDTH // 2)
    if IS_EXPERTS.search(name):
        return min(value, 1 if "shared" in name else HEADS)
    if IS_INNER.search(name):
        return min(value, 3 * WIDTH // 2)
    if IS_WIDTH.search(name):
        return min(value, WIDTH)
    if name == "patch_size":
        return min(value, PATCH) if IMAGE % value else value
    return value


def shares(values, total):
    """Whole numbers in the proportion of `values` whose sum is `total`."""
    ends = [round(total * sum(values[: n + 1]) / sum(values)) for n in range(len(values))]
    return type(values)(end - begin for begin, end in zip([0, *ends], ends))


def in_proportion(name, value, default):
    changed = common(name, value, default)
    if changed is not value and changed != value or isinstance(value, bool):
        return changed
    width = next((w for w in (getattr(default, n, None) for n in WIDTHS) if isinstance(w, int)), 0)
    by = max(width // (2 * WIDTH), 1)
    if isinstance(value, int) and IS_CHOSEN_EXPERTS.search(name):
        return min(value, 2)
    if not isinstance(value, int) or IS_TOKEN.search(name) or IS_HEAD_WIDTH.search(name):
        return value
    if IS_EXPERTS.search(name):
        return min(value, HEADS)
    if IS_HEADS.search(name) and value:
        return max(value // by, 1)
    if IS_WIDTH.search(name) or IS_INNER.search(name) or IS_RANK.search(name):
        return max(value // by, 1) if value else value
    return value


def fewer_layers(name, value, default):
    return common(name, value, default)


RULES = (by_name, in_proportion, fewer_layers)


def fields(config):
    """The values that the class takes, by name."""
    names = {field.name for field in dataclasses.fields(config)} if dataclasses.is_dataclass(config) else set(vars(config))
    values = {}
    for name in sorted(names):
        try:
            if not name.startswith("_"):
                values[name] = getattr(config, name)
        except AttributeError:  # one that each layer has by itself
            pass
    return values


def tokens(values):
    """Special tokens as small numbers, one for each token."""
    own, vocabulary = {}, values.get("vocab_size")
    numbers = {name: value for name, value in values.items()
               if IS_TOKEN.search(name) and isinstance(value, int) and not isinstance(value, bool) and value >= 0}
    if not any(number >= FIRST_TOKEN for number in numbers.values()) and not isinstance(vocabulary, int):
        return {}
    taken = {number for number in numbers.values() if number < FIRST_TOKEN}
    free = (number for number in range(3, FIRST_TOKEN) if number not in taken)
    known = {}
    for name, number in numbers.items():
        if number >= FIRST_TOKEN:
            own[name] = known[number] = known[number] if number in known else next(free)
    for name, value in values.items():
        if IS_TOKEN.search(name) and isinstance(value, (list, tuple)) and value and max(value) >= FIRST_TOKEN:
            own[name] = [known.get(value[0], 2)]
    return own


def kinds_of_layers(values):
    """({field: list for fewer layers}, their number): one layer of each kind that the lists with an entry for each layer tell apart."""
    count = next((values[name] for name in ("num_hidden_layers", "n_layer", "num_layers") if isinstance(values.get(name), int)), 0)
    lists = {name: value for name, value in values.items() if isinstance(value, (list, tuple)) and len(value) == count > LAYERS}
    if not lists:
        return {}, LAYERS
    seen = {}
    for place, kind in enumerate(zip(*lists.values())):
        seen.setdefault(str(kind), place)
    places = sorted(seen.values())[:4]
    places += [p for p in range(count) if p not in places][:max(LAYERS - len(places), 0)]
    return {name: type(value)(value[p] for p in sorted(places)) for name, value in lists.items()}, len(places)


def small(config, rule):
    """A small configuration of the class of `config`, which has that class's own values."""
    from transformers import PretrainedConfig

    values = fields(config)
    of_layers, layers = kinds_of_layers(values)
    changed = {}
    for name, value in values.items():
        if isinstance(value, PretrainedConfig):
            changed[name] = small(value, rule)
        elif name in of_layers:
            changed[name] = of_layers[name]
        elif name in ("num_hidden_layers", "n_layer", "num_layers") and isinstance(value, int):
            changed[name] = min(value, layers)
        else:
            new = rule(name, value, config)
            if new is not value and new != value:
                changed[name] = new
    return type(config)(**(changed | tokens(values)))
