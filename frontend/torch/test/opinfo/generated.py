# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""python -m opinfo.generated FOLDER --packages DIR [--seed N] [--count 100] [--nodes 10]: models that NNSmith generates (J. Liu et al.,
"NNSmith: Generating diverse and valid test cases for deep learning compilers", ASPLOS 2023), as the files that opinfo.export writes.

`pip install --target DIR nnsmith==0.1.0` installs it; DIR comes last on the path, so that its dependencies replace none of ours. Model I
has the seed N + I."""

import argparse
import random
import sys
import warnings
from pathlib import Path
from types import SimpleNamespace

import torch

from . import samples
from .export import empty_record, export, show

# What both languages have, by NNSmith's names; complex numbers are not ours.
DTYPES = ["float16", "float32", "float64", "int8", "int16", "int32", "int64", "uint8", "bool"]


class Net(torch.nn.Module):
    """One of NNSmith's models, without what its own forward() looks up in the numbers."""

    def __init__(self, net):
        super().__init__()
        self.net = net

    def forward(self, inputs):
        values = dict(inputs)
        for function, operands, results, _ in self.net.instructions:
            made = function(*(values[name] for name in operands))
            values.update(zip(results, made if isinstance(made, (list, tuple)) else [made], strict=True))
        return [values[name] for name in self.net.output_map]


class Generator:
    def __init__(self, packages, nodes):
        sys.path.append(packages)
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")  # that there is no graphviz
            from nnsmith.abstract.extension import activate_ext
            from nnsmith.graph_gen import model_gen
            from nnsmith.materialize import Model
            from nnsmith.narrow_spec import auto_opset
        self.model, self.generate, self.nodes = Model.init("torch", backend_target="cpu"), model_gen, nodes
        self.model.add_seed_setter()
        self.ops = auto_opset(self.model, None)
        activate_ext(opset=self.ops, factory=None)

    def sample(self, seed):
        """A function and its operands, in the form of an entry of OpInfo and one of its samples."""
        made = self.generate(opset=self.ops, method="symbolic-cinit", seed=seed, max_nodes=self.nodes, dtype_choices=DTYPES)
        model = self.model.from_gir(made.make_concrete())
        net = Net(model.torch_model).eval()
        inputs = net.net.get_random_inps()

        def function(inputs, weights):
            return torch.func.functional_call(net, weights, (inputs,))

        weights = {name: weight.detach() for name, weight in [*net.named_parameters(), *net.named_buffers()]}
        return SimpleNamespace(name="nnsmith", op=function), SimpleNamespace(input=inputs, args=(weights,), kwargs={})


def main():
    parser = argparse.ArgumentParser(prog="opinfo.generated")
    parser.add_argument("folder")
    parser.add_argument("--packages", required=True, help="the folder in which NNSmith is installed")
    parser.add_argument("--seed", type=int, default=random.getrandbits(31), help="of the first model; otherwise a new one, which is named")
    parser.add_argument("--count", type=int, default=100)
    parser.add_argument("--nodes", type=int, default=10, help="of a model at most, about")
    arguments = parser.parse_args()
    Path(arguments.folder).mkdir(parents=True, exist_ok=True)
    generator = Generator(arguments.packages, arguments.nodes)
    record = empty_record()
    for seed in range(arguments.seed, arguments.seed + arguments.count):
        try:
            op, sample = generator.sample(seed)
        except Exception as error:  # its solver gives up on some
            record["excluded"][f"NNSmith raises {type(error).__name__}"] += 1
            continue
        export(record, op, sample, f"nnsmith-{seed}", arguments.folder, samples.Memory(), strict=False)
    return show(record, seed=arguments.seed)


if __name__ == "__main__":
    sys.exit(main())
