# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""Small models of every architecture family in transformers and timm, made by rules, and what torch.compile makes of them (figure
`model-zoo`)."""
