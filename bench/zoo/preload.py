# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""Imported once, before processes.py forks: what every backend needs, so that no one's cold time counts these imports."""

import os

os.environ.setdefault("HF_HUB_OFFLINE", "1")

import torch._dynamo  # noqa: F401
import torch._functorch.aot_autograd  # noqa: F401
import transformers.modeling_utils  # noqa: F401

from zoo import families, judge  # noqa: F401

families.timm_modules()
