# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""What all tests share: the programs that one test compiled are not in the reports of the next."""

import pytest
import torch
import torch_mortise


@pytest.fixture(autouse=True)
def fresh():
    torch._dynamo.reset()
    torch_mortise.reset()
    yield
