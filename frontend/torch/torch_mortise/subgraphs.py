# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""Functions under `torch.compiler.nested_compile_region`, which PyTorch traces once and calls as subgraphs: each call becomes the nodes of
its subgraph, so that programs may span calls. repeats.py then imports equal calls once."""

import operator

import torch
import torch.fx


def described(value):
    """What decides whether a subgraph that was traced with one value serves another."""
    def expression(number):
        return number.node.expr if isinstance(number, (torch.SymInt, torch.SymFloat, torch.SymBool)) else number

    if not isinstance(value, torch.Tensor):
        return expression(value)
    return value.dtype, value.device, value.layout, *[[expression(n) for n in numbers] for numbers in (value.shape, value.stride())]


def inline(module):
    """Changes the FX graph of `module` in place. A call with other shapes or strides than its subgraph was traced with stays as it is."""
    calls = module.graph.find_nodes(op="call_function", target=torch.ops.higher_order.invoke_subgraph)
    if any([inline_call(module, call) for call in calls]):
        module.graph.lint()
        module.recompile()


def inline_call(module, call):
    """Whether it was done."""
    source, _, *operands = call.args
    subgraph = getattr(module, source.target)
    inline(subgraph)
    graph = subgraph.graph
    placeholders = graph.find_nodes(op="placeholder")
    values = [o.meta.get("val") if isinstance(o, torch.fx.Node) else o for o in operands]
    if [described(p.meta.get("val")) for p in placeholders] != [described(v) for v in values]:
        return False
    made = dict(zip(placeholders, operands, strict=True))
    with module.graph.inserting_before(call):
        for node in graph.nodes:
            if node.op not in ("placeholder", "output"):
                made[node] = module.graph.node_copy(node, made.__getitem__)
            if node.op == "get_attr":
                made[node].target = attribute(module, getattr(subgraph, node.target), node.target)
    results = graph.output_node().args[0]
    for user in list(call.users):
        if user.target is operator.getitem:
            user.replace_all_uses_with(made[results[user.args[1]]])
            module.graph.erase_node(user)
    module.graph.erase_node(call)
    if not source.users:
        module.graph.erase_node(source)
    return True


def attribute(module, value, name):
    """The name under which `module` has `value`."""
    number = 0
    while getattr(module, found := f"{name}_{number}" if number else name, value) is not value:
        number += 1
    setattr(module, found, value)
    return found
