# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""Branches and loops over data (`torch.cond`, `while_loop`, `scan`, `map`): eager chooses and repeats, and what it calls are programs."""

import torch
import torch._higher_order_ops  # registers the operators
import torch.fx

from .importer.core import EAGER

higher_order = torch.ops.higher_order
# Not associative_scan, which calls its function with slices of other sizes than it was traced with.
CALLERS = (higher_order.cond, higher_order.while_loop, higher_order.scan, higher_order.map_impl)
EAGER.update(dict.fromkeys(CALLERS, "eager chooses or repeats, and what it calls are graphs of their own"))


class Body(torch.nn.Module):
    """A function that an operator of CALLERS calls, as a compiled graph. `output`: what the function's FX graph returns."""

    def __init__(self, entry, output):
        super().__init__()
        self.entry, self.output = entry, type(output)

    def forward(self, *arguments):
        results = self.entry(*arguments)
        if issubclass(self.output, tuple):
            return tuple(results)
        return results if issubclass(self.output, list) else results[0]


def bodies(graph, compile):
    """{name of an attribute: Body} for what the CALLERS in an FX graph call. `compile(module, name)` returns the entry of a graph."""
    found = {}
    for node in graph.nodes:
        if node.target not in CALLERS:
            continue
        for source in node.all_input_nodes:
            module = getattr(graph.owning_module, source.target) if source.op == "get_attr" else None
            if source.target in found or not isinstance(module, torch.fx.GraphModule):
                continue
            if all("val" in placeholder.meta for placeholder in module.graph.find_nodes(op="placeholder")):
                found[source.target] = Body(compile(module, source.target), module.graph.output_node().args[0])
    return found
