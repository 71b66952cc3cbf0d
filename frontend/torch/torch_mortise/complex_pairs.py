# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""Complex tensors inside a graph as pairs of real numbers: the language has no complex types, and rotary embeddings that multiply complex
numbers (Llama 4, DeepSeek V2) need none. A complex [...] becomes a real [..., 2], as view_as_real gives it, so that views at the begin and
at the end cost nothing. Complex arguments are read by view_as_real, and complex results made by view_as_complex, both in eager.

A graph is rewritten as a whole or left as it is: one complex operator without a rule here would need a conversion on each side."""

import torch
from torch._guards import detect_fake_mode

aten = torch.ops.aten
REAL = {torch.complex32: torch.float16, torch.complex64: torch.float32, torch.complex128: torch.float64}


class NoRule(Exception):
    pass


def is_complex(node):
    value = node.meta.get("val") if isinstance(node, torch.fx.Node) else None
    return isinstance(value, torch.Tensor) and value.is_complex()


RULES = {}


def rule(*targets):
    def register(function):
        RULES.update(dict.fromkeys(targets, function))
        return function

    return register


class Rewriter:
    def __init__(self, graph, mode):
        self.graph, self.mode, self.pairs, self.at = graph, mode, {}, None

    def emit(self, target, *arguments, **keywords):
        """A new node before the one that is rewritten, of that one's line in the model."""
        def value(argument):
            return argument.meta["val"] if isinstance(argument, torch.fx.Node) else argument

        made = torch.fx.node.map_aggregate((arguments, keywords), value)
        with self.mode:
            result = target(*made[0], **made[1])
        with self.graph.inserting_before(self.at):
            node = self.graph.call_function(target, arguments, keywords)
        node.meta.update({key: value for key, value in self.at.meta.items() if key not in ("val", "tensor_meta")}, val=result)
        return node

    def parts(self, node):
        """The real and the imaginary parts."""
        return [self.emit(aten.select.int, self.pair(node), -1, part) for part in (0, 1)]

    def of_parts(self, real, imaginary):
        return self.emit(aten.cat.default, [self.emit(aten.unsqueeze.default, part, -1) for part in (real, imaginary)], -1)

    def pair(self, node):
        if not is_complex(node):
            raise NoRule
        return self.pairs[node]


def dimension(node, dim, more=0):
    """A dimension of a complex tensor counted from the front, where its pair has the same."""
    return dim if dim >= 0 else dim + node.meta["val"].dim() + more


@rule(aten.view_as_complex.default)
def view_as_complex(r, x):
    return x


@rule(aten.view_as_real.default, aten.alias.default, aten.detach.default, aten.resolve_conj.default, aten.lift_fresh_copy.default)
def same(r, x):
    return r.pair(x)


@rule(aten.complex.default)
def from_parts(r, real, imaginary):
    return r.of_parts(real, imaginary)


@rule(aten.polar.default)
def polar(r, size, angle):
    return r.of_parts(*(r.emit(aten.mul.Tensor, size, r.emit(f, angle)) for f in (aten.cos.default, aten.sin.default)))


@rule(aten.mul.Tensor)
def mul(r, x, y):
    if is_complex(x) and is_complex(y):
        (a, b), (c, d) = r.parts(x), r.parts(y)
        ac, bd, ad, bc = (r.emit(aten.mul.Tensor, *factors) for factors in ((a, c), (b, d), (a, d), (b, c)))
        return r.of_parts(r.emit(aten.sub.Tensor, ac, bd), r.emit(aten.add.Tensor, ad, bc))
    x, y = (x, y) if is_complex(x) else (y, x)
    if isinstance(y, complex):
        raise NoRule
    return r.emit(aten.mul.Tensor, r.pair(x), r.emit(aten.unsqueeze.default, y, -1) if isinstance(y, torch.fx.Node) else y)


@rule(aten.add.Tensor, aten.sub.Tensor)
def add(r, x, y, alpha=1):
    if isinstance(alpha, complex):
        raise NoRule
    keywords = {} if alpha == 1 else {"alpha": alpha}
    return r.emit(r.at.target, r.pair(x), r.pair(y), **keywords)


@rule(aten.neg.default)
def neg(r, x):
    return r.emit(aten.neg.default, r.pair(x))


@rule(aten._conj.default, aten.conj_physical.default, aten._conj_physical.default)
def conjugate(r, x):
    real, imaginary = r.parts(x)
    return r.of_parts(real, r.emit(aten.neg.default, imaginary))


@rule(aten.clone.default)
def clone(r, x, memory_format=torch.preserve_format):
    return r.emit(aten.clone.default, r.pair(x), memory_format=memory_format)


@rule(aten.unsqueeze.default)
def unsqueeze(r, x, dim):
    return r.emit(aten.unsqueeze.default, r.pair(x), dimension(x, dim, 1))


@rule(aten.view.default, aten._unsafe_view.default, aten.expand.default)
def resized(r, x, size):
    return r.emit(r.at.target, r.pair(x), [*size, 2])


@rule(aten.slice.Tensor)
def sliced(r, x, dim=0, *where):
    return r.emit(aten.slice.Tensor, r.pair(x), dimension(x, dim), *where)


@rule(aten.select.int)
def select(r, x, dim, index):
    return r.emit(aten.select.int, r.pair(x), dimension(x, dim), index)


@rule(aten.squeeze.dim)
def squeeze(r, x, dim):
    return r.emit(aten.squeeze.dim, r.pair(x), dimension(x, dim))


@rule(aten.permute.default)
def permute(r, x, dims):
    return r.emit(aten.permute.default, r.pair(x), [*(dimension(x, dim) for dim in dims), len(dims)])


@rule(aten.transpose.int)
def transpose(r, x, one, other):
    return r.emit(aten.transpose.int, r.pair(x), dimension(x, one), dimension(x, other))


@rule(aten.cat.default)
def cat(r, tensors, dim=0):
    return r.emit(aten.cat.default, [r.pair(x) for x in tensors], dimension(tensors[0], dim))


@rule(aten.index.Tensor)
def index(r, x, indices):
    return r.emit(aten.index.Tensor, r.pair(x), indices)


def rewrite(module):
    """Changes the FX graph of `module` in place, or not at all. Returns whether it did."""
    graph = module.graph
    nodes = list(graph.nodes)
    touched = [n for n in nodes if is_complex(n) or n.op == "call_function" and any(is_complex(i) for i in n.all_input_nodes)]
    if all(n.op in ("placeholder", "get_attr") for n in touched) or any(n.op == "call_function" and n.target not in RULES for n in touched):
        return False
    rewriter = Rewriter(graph, detect_fake_mode([n.meta.get("val") for n in nodes]))
    output = nodes[-1]
    try:
        found = replacements(rewriter, nodes, touched, output)
    except (NoRule, RuntimeError, TypeError):  # fake tensors raise the errors that real ones would
        found = None
    if found is None:
        graph.eliminate_dead_code()
        return False
    for old, new in found.items():
        old.replace_all_uses_with(new, delete_user_cb=lambda user, new=new: user is not new)
    graph.eliminate_dead_code()
    graph.lint()
    module.recompile()
    return True


def replacements(r, nodes, touched, output):
    """{node: the real node that takes its place}, or None: for real results of rules, and for complex results of the graph."""
    found = {}
    first = next((n for n in nodes if n.op not in ("placeholder", "get_attr")), output)
    for node in touched:
        value = node.meta["val"]
        r.at = node if node.op == "call_function" else first
        if node.op != "call_function":
            r.pairs[node] = r.emit(aten.view_as_real.default, r.emit(aten.resolve_conj.default, node) if value.is_conj() else node)
            continue
        made = RULES[node.target](r, *node.args, **node.kwargs)
        result = made.meta["val"]
        if not value.is_complex():
            if (result.dtype, result.shape) != (value.dtype, value.shape):
                return None
            found[node] = made
            continue
        if (result.dtype, result.shape) != (REAL[value.dtype], (*value.shape, 2)):
            return None
        r.pairs[node] = made
        if output in node.users:
            r.at = output
            found[node] = whole = r.emit(aten.view_as_complex.default, made)
            if whole.meta["val"].stride() != value.stride():
                return None
    return found
