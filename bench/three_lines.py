import torch  # SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
model, x = torch.nn.Sequential(torch.nn.Linear(64, 64), torch.nn.GELU(), torch.nn.LayerNorm(64)).requires_grad_(False), torch.randn(32, 64)
print(found := torch.compile(model, backend="mortise")(x))
