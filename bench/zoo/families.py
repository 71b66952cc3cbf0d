# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""The architecture families that the libraries have, and a small model of each with inputs.

A family is a folder of transformers' models with a configuration that one of its automatic classes maps to a model, and a module of timm's
models. Nothing is listed by hand: what cannot be built or run by the rules is `Skipped`, with the reason."""

from __future__ import annotations

import os
import warnings
from dataclasses import dataclass, field

os.environ.setdefault("HF_HUB_OFFLINE", "1")

import torch
from torch import nn

LARGEST = 60e6  # parameters
IMAGE = 64
SPREAD = 0.02  # of weights that were one number
BATCH, IMAGES = 2, 4  # with fewer images the statistics of batch norms are too few numbers for gradients to be well determined


class Skipped(Exception):
    """Why a family has no row."""


@dataclass
class Model:
    module: nn.Module
    inputs: dict  # keywords of forward
    what: str  # the class or variant, and by which rule it is small
    labels: dict = field(default_factory=dict)  # more keywords, with which forward gives a loss
    variant: str = ""  # of timm, so that another process need not look for it


def names() -> list[str]:
    """LIBRARY/FAMILY of all families."""
    return [f"transformers/{name}" for name in folders()] + [f"timm/{name}" for name in timm_modules()]


def build(name: str, seed: int = 0, variant: str = "") -> Model:
    """The family's small model with weights and inputs from `seed`. Raises Skipped. `variant`: one of timm's models. Weights that a
    library sets to one number differ somewhat: a router of zeros chooses among equals, and a scale of 1 or a bias of 0 hides faults."""
    warnings.simplefilter("ignore")
    library, _, family = name.partition("/")
    with torch.random.fork_rng():
        torch.manual_seed(seed)
        try:
            model = of_timm(family, seed, variant) if library == "timm" else of_transformers(family, seed)
            spread(model.module)
            return model
        except Exception as error:  # a library's own fault, before any model is made
            raise error if isinstance(error, Skipped) else Skipped(brief(error)) from error


def spread(module: nn.Module) -> None:
    with torch.no_grad():
        for weight in module.parameters():
            if weight.is_floating_point() and weight.numel() > 1 and bool((weight == weight.flatten()[0]).all()):
                weight += SPREAD * torch.randn_like(weight)


def brief(error: Exception) -> str:
    return f"{type(error).__name__}: {' '.join(str(error).split())[:160]}"


# ---- transformers ---------------------------------------------------------------------------------------------

# The automatic classes, best first, and how their losses name the targets. The last one has every family.
HEADS = {"MODEL_FOR_SPEECH_SEQ_2_SEQ_MAPPING": "decoder_input_ids", "MODEL_FOR_SEQ_TO_SEQ_CAUSAL_LM_MAPPING": "decoder_input_ids",
         "MODEL_FOR_MASKED_LM_MAPPING": "input_ids", "MODEL_FOR_CAUSAL_LM_MAPPING": "input_ids",
         "MODEL_FOR_IMAGE_CLASSIFICATION_MAPPING": "classes", "MODEL_MAPPING": ""}


def quiet_transformers():
    import transformers

    transformers.logging.set_verbosity_error()
    transformers.logging.disable_progress_bar()
    return transformers


def folders() -> dict[str, list[str]]:
    """{folder: the types of its configurations}, the type that is named as the folder first."""
    from transformers.models.auto import configuration_auto, modeling_auto

    found: dict[str, list[str]] = {}
    for kind in modeling_auto.MODEL_MAPPING_NAMES:
        found.setdefault(configuration_auto.model_type_to_module_name(kind), []).append(kind)
    return {folder: sorted(kinds, key=lambda kind: (kind.replace("-", "_") != folder, len(kind))) for folder, kinds in found.items()}


def classes_of(kind: str):
    """(class of a model, what its labels are) for a type of configuration. Heads of models that have several parts use one part alone."""
    from transformers.models.auto import configuration_auto, modeling_auto

    config = configuration_auto.CONFIG_MAPPING[kind]
    for head, labels in HEADS.items():
        found = getattr(modeling_auto, head).get(config, None)
        if found is not None and (len(config.sub_configs) < 2 or head == "MODEL_MAPPING"):
            yield found[0] if isinstance(found, (tuple, list)) else found, labels


def of_transformers(family: str, seed: int) -> Model:
    quiet_transformers()
    reasons = []
    for kind in folders()[family]:
        try:
            return of_kind(kind, seed, reasons)
        except Skipped:
            continue
    raise Skipped("; ".join(dict.fromkeys(reasons))[:400])


def of_kind(kind: str, seed: int, reasons: list[str]) -> Model:
    from transformers.models.auto import configuration_auto

    from zoo import inputs, shrink

    for made, labels in classes_of(kind):
        for rule in shrink.RULES:
            try:
                config = shrink.small(configuration_auto.CONFIG_MAPPING[kind](), rule)
                with torch.device("meta"):
                    size = sum(p.numel() for p in made(config).parameters())
                if size > LARGEST:
                    raise Skipped(f"{size / 1e6:.0f} million parameters")
                torch.manual_seed(seed)
                module = made(shrink.small(configuration_auto.CONFIG_MAPPING[kind](), rule)).eval()
                for cached in (True, False):  # some caches want layers of attention, of which a small model may have none
                    module.config.use_cache = cached and getattr(config, "use_cache", False)
                    for given in inputs.sets(module):
                        if (why := refusal(module, given)) is None:
                            what = f"{made.__name__} {rule.__name__}, {size} parameters"
                            return Model(module, given, what, targets(module, given, labels))
                        reasons.append(why)
            except Exception as error:  # whatever a configuration does not like
                reasons.append(brief(error))
    raise Skipped


def refusal(module: nn.Module, given: dict) -> str | None:
    try:
        with torch.no_grad():
            module(**given)
    except Exception as error:
        return brief(error)
    return None


def targets(module: nn.Module, given: dict, labels: str) -> dict:
    """The keywords with which the model gives a loss; none if it gives none."""
    made = {"labels": torch.arange(BATCH) % 2} if labels == "classes" else {"labels": given[labels].clone()} if labels in given else {}
    if made:
        try:
            with torch.no_grad():
                loss = module(**given, **made).loss
            if isinstance(loss, torch.Tensor) and loss.dim() == 0 and loss.isfinite():
                return made
        except Exception:  # its labels look otherwise
            pass
    return {}


# ---- timm -----------------------------------------------------------------------------------------------------


def timm_modules() -> list[str]:
    from zoo import torchvision_absent

    torchvision_absent.install()
    import timm

    return timm.list_modules()


# Fewer layers and smaller images where the variant takes them.
TIMM_OPTIONS = ({"depth": 2, "img_size": IMAGE}, {"img_size": IMAGE}, {"depth": 2}, {})


def timm_model(variant: str, options: dict) -> nn.Module:
    import timm

    return timm.create_model(variant, num_classes=10, **options)


def smallest(family: str) -> tuple[str, dict, int]:
    """The variant with the fewest parameters, the options that make it small, and how many it has. timm's test variants are preferred."""
    import timm

    found = []
    variants = timm.list_models(module=family)
    for variant in [v for v in variants if v.startswith("test_")] or variants:
        for options in TIMM_OPTIONS:
            try:
                with torch.device("meta"):
                    size = sum(p.numel() for p in timm_model(variant, options).parameters())
            except Exception:  # no such option, or nothing that can be built without data
                continue
            found.append((size, variant, options))
            break
    if not found:
        raise Skipped("no variant can be built")
    size, variant, options = min(found, key=lambda one: one[:2])
    if size > LARGEST:
        raise Skipped(f"{variant}, the smallest, has {size / 1e6:.0f} million parameters")
    return variant, options, size


def of_timm(family: str, seed: int, variant: str) -> Model:
    timm_modules()
    variant, _, _ = (variant, {}, 0) if variant else smallest(family)
    reasons = []
    for options in TIMM_OPTIONS:
        torch.manual_seed(seed)
        try:
            module = timm_model(variant, options).eval()
        except Exception as error:
            reasons.append(brief(error))
            continue
        own = module.default_cfg["input_size"]
        squares = [(side, side) for side in (IMAGE, 3 * IMAGE // 2, 2 * IMAGE)]  # the second: patches of 16 in groups of 3
        for size in dict.fromkeys((*squares, own[1:])):
            given = {"x": torch.randn(IMAGES, own[0], *size)}
            if (why := refusal(module, given)) is None:
                count = sum(p.numel() for p in module.parameters())
                return Model(module, given, f"{variant} {options}, {size[0]} pixels, {count} parameters", variant=variant)
            reasons.append(why)
    raise Skipped("; ".join(dict.fromkeys(reasons))[:400])
