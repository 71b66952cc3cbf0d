# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""How far rounding may move a result: the only place for Python's error bounds. docs/conformance/error-bounds.md derives them.

An op rounds its result once, to the dtype's unit roundoff u. A sum of k terms also rounds in its accumulator, whose unit roundoff is w: by
Higham and Mary (2019, theorem 2.4) it is the exact sum of the terms times 1 + t, each |t| at most CONFIDENCE * sqrt(k) * w, with
probability at least 1 - 2 k exp(-CONFIDENCE^2 / 2); the worst case would be k * w. Roundings of terms that are alike go one way, which
`drift` measures on the terms. How such errors grow through the other ops is measured:
`Noise` makes them at random (Vignes' CESTAC method), `RUNS` times. The bound is `CONFIDENCE` times the root mean square of the results'
shifts, plus two units in the last place for the comparison itself."""

import math

import torch
from torch.utils._python_dispatch import TorchDispatchMode
from torch.utils._pytree import tree_leaves, tree_map

CONFIDENCE, RUNS, MORE_RUNS = 8.0, 6, 60
PRECISION = {torch.float64: 53, torch.float32: 24, torch.float16: 11, torch.bfloat16: 8,
             torch.float8_e4m3fn: 4, torch.float8_e5m2: 3}
_LOWEST = {torch.float64: -1022, torch.float32: -126, torch.float16: -14, torch.bfloat16: -126,
           torch.float8_e4m3fn: -6, torch.float8_e5m2: -14}


def unit_roundoff(dtype):
    return 2.0 ** -PRECISION[dtype]


def ulp(values, dtype):
    """The distance between neighbouring numbers of `dtype` at the magnitude of the f64 `values`."""
    _, exponent = torch.frexp(values.abs())
    exponent = torch.where(values == 0, torch.full_like(exponent, _LOWEST[dtype]), exponent - 1)
    exponent = exponent.clamp(min=_LOWEST[dtype])
    return torch.ldexp(torch.ones_like(values), exponent - (PRECISION[dtype] - 1))


def error_of(found, expected):
    """|found - expected| where both are finite; 0 for equal infinities and for two NaNs, inf for everything else."""
    difference = (found - expected).abs()
    difference = torch.where((found == expected) | (found.isnan() & expected.isnan()), 0.0, difference)
    return torch.where(difference.isnan(), math.inf, difference)


# Ops whose results are values of their operands, or are exact.
EXACT = set(
    """abs alias amax amin arange argmax argmin as_strided broadcast_in_dim cat ceil clamp clamp_max clamp_min clone collapse_view
    constant_pad_nd convert_element_type copy cummax cummin detach diagonal diagonal_scatter embedding expand fill flip floor fmax fmin
    full full_like gather index index_copy index_select iota kthvalue lift_fresh_copy masked_fill masked_scatter max max_pool2d_with_indices
    max_pool3d_with_indices maximum median min minimum neg new_full new_zeros new_ones ones ones_like permute put reflection_pad1d
    reflection_pad2d reflection_pad3d relu repeat replication_pad1d replication_pad2d replication_pad3d reshape roll round
    scalar_tensor select select_scatter sign slice slice_scatter sort split split_dim split_with_sizes squeeze stack t take topk
    transpose transpose_copy tril triu trunc unbind unfold unsqueeze upsample_nearest1d upsample_nearest2d upsample_nearest3d view
    view_of where zeros zeros_like _reshape_alias _to_copy _unsafe_index _unsafe_view""".split()
)


def name_of(op):
    return op._schema.name.split("::")[1] if isinstance(op, torch._ops.OpOverload) else None


def accumulates(op):
    """Whether results are sums, which is so for all ops except those of single elements. PyTorch tags those among its ATen ops; its prims
    have no tags, and only the reductions among them are sums."""
    name = name_of(op)
    if op.namespace == "prims":
        return name in REDUCTIONS
    return (torch.Tag.pointwise not in op.tags or name in INSIDE) and name not in EXACT


def _window(weight, transposed, groups):
    """The number of terms in one result of a convolution: the elements of the weight for each output channel."""
    return weight.numel() // max(weight.shape[1] * groups if transposed else weight.shape[0], 1)


def _convolution_backward(a):
    """Of the gradients of the input, the weight and the bias."""
    gradient, x, weight, transposed, groups = *a[:3], a[7], a[9]
    of_gradient, of_input = (t.numel() // max(t.shape[1], 1) for t in (gradient, x))
    return _window(weight, not transposed, groups), of_input if transposed else of_gradient, of_gradient


# The number of terms in one result, by the op's name, from the operands' sizes. `a` are the positional arguments.
LENGTHS = {
    **dict.fromkeys(("mm", "bmm", "mv", "dot", "vdot"), lambda a: a[0].shape[-1]),
    **dict.fromkeys(("addmm", "addmv", "addbmm", "baddbmm", "_addmm_activation"), lambda a: a[1].shape[-1]),
    "addr": lambda a: 2,
    "_int_mm": lambda a: a[0].shape[-1],
    "_weight_int8pack_mm": lambda a: a[0].shape[-1],
    "_scaled_mm": lambda a: a[0].shape[-1],
    "_grouped_mm": lambda a: a[0].shape[-1],
    "convolution": lambda a: _window(a[1], a[6], a[8]),
    "convolution_backward": lambda a: max(_convolution_backward(a)),
    **dict.fromkeys(("_cdist_forward", "_euclidean_dist", "_pdist_forward"), lambda a: a[0].shape[-1]),
    "_softmax": lambda a: a[0].shape[a[1]] if a[0].dim() else 1,
    "_log_softmax": lambda a: a[0].shape[a[1]] if a[0].dim() else 1,
    **dict.fromkeys(("cumsum", "cumprod", "logcumsumexp"), lambda a: a[0].shape[a[1]] if a[0].dim() else 1),
    "gelu": lambda a: 1,
    "native_layer_norm": lambda a: math.prod(a[1]),
    "_fused_rms_norm": lambda a: math.prod(a[1]),
    "native_layer_norm_backward": lambda a: max(math.prod(a[2]), a[1].numel() // max(math.prod(a[2]), 1)),
    "native_group_norm": lambda a: a[0].numel() // max(a[0].shape[0] * a[6], 1),
    **dict.fromkeys(("native_batch_norm", "_native_batch_norm_legit", "_native_batch_norm_legit_functional", "_batch_norm_with_update",
                     "_native_batch_norm_legit_no_training", "cudnn_batch_norm"), lambda a: a[0].numel() // max(a[0].shape[1], 1)),
    # scores are sums over the head's size, their products with the values are sums over the keys
    **dict.fromkeys(("_scaled_dot_product_flash_attention_for_cpu", "_scaled_dot_product_attention_math"),
                    lambda a: max(a[0].shape[-1], a[1].shape[-2])),
}
REDUCTIONS = {"sum", "mean", "prod", "var", "var_mean", "std", "std_mean", "norm", "linalg_vector_norm", "logsumexp", "nansum",
              "_adaptive_avg_pool2d", "_adaptive_avg_pool3d", "dist"}
POOLS = {"avg_pool1d", "avg_pool2d", "avg_pool3d"}


# Sums of products of operands: the same call on magnitudes gives the sum of |terms|.
SUMS = {"mm", "bmm", "_grouped_mm", "_weight_int8pack_mm", "mv", "dot", "vdot", "addmm", "addmv", "addbmm", "baddbmm", "addr",
        "convolution", "sum", "mean", "cumsum", *POOLS, "_adaptive_avg_pool2d", "_adaptive_avg_pool3d"}


def grouped_mm(x, y, ends=None, bias=None, out_dtype=None):
    """_grouped_mm, of which PyTorch has no kernel in f64: products of groups of rows, of columns, or of terms, that end at `ends`."""
    if ends is None:
        return x @ y
    ends = ends.tolist()
    groups = list(enumerate(zip([0, *ends], ends)))
    if x.dim() == y.dim() == 2:
        return torch.stack([x[:, begin:end] @ y[begin:end] for _, (begin, end) in groups])
    if x.dim() == 2:
        parts, shape, dim = [x[begin:end] @ y[g] for g, (begin, end) in groups], (x.shape[0] - ends[-1], y.shape[-1]), 0
    else:
        parts, shape, dim = [x[g] @ y[:, begin:end] for g, (begin, end) in groups], (x.shape[1], y.shape[1] - ends[-1]), 1
    return torch.cat([*parts, x.new_zeros(shape)], dim)


def weight_int8pack_mm(x, weight, scales):
    return x @ weight.to(x.dtype).t() * scales


IN_F64 = {"_grouped_mm": grouped_mm, "_weight_int8pack_mm": weight_int8pack_mm}


# Among them those whose terms are the operands' elements, so that it is known how they are rounded.
OF_ELEMENTS = {"sum", "mean", "cumsum", *POOLS, "_adaptive_avg_pool2d", "_adaptive_avg_pool3d"}
DIVIDED = OF_ELEMENTS - {"sum", "cumsum"}  # by the number of terms
LONGEST_WITHOUT_DRIFT = 256


# The magnitude that the sums inside an op's result are relative to: gelu is x / 2 (1 + erf), whose parenthesis is computed as a sum, and a
# logarithm turns a relative error of its sum into an absolute one.
INSIDE = {"gelu": lambda a, value: a[0].abs(), "_log_softmax": lambda a, value: 1 + value.abs(),
          "logsumexp": lambda a, value: 1 + value.abs()}
# The language has no op for these, and the importer computes them as several: norms with the batch's own statistics from the mean, the
# deviation and the rest; sums of products of three factors from products of two; adaptive pools axis by axis; bags of embeddings from
# scaled rows. Each rounds to the dtype, which moves the result like a rounding of an operand.
EXPANDED = {"native_batch_norm", "_native_batch_norm_legit", "_native_batch_norm_legit_functional", "_batch_norm_with_update",
            "_trilinear", "_adaptive_avg_pool2d", "_adaptive_avg_pool3d", "_embedding_bag", "_embedding_bag_forward_only"}
CENTRED = {"native_layer_norm", "native_group_norm"}
ARITHMETIC = {"add", "sub", "rsub", "mul", "div"}  # everybody rounds these correctly, so that a single whole number is exact
WITH_ADDEND = {"addmm", "addmv", "addbmm", "baddbmm", "addr"}


def magnitudes(arguments):
    return tree_map(lambda a: a.abs() if isinstance(a, torch.Tensor) else abs(a) if isinstance(a, float) else a, arguments)


def length(op, arguments, results):
    """The contraction length: how many terms an accumulating op sums for one element of its result, from the operands of this call. If the
    op's name does not tell, it is the element count of the largest operand, which no sum of distinct terms exceeds."""
    name = name_of(op)
    tensors = [t for t in tree_leaves(arguments) if isinstance(t, torch.Tensor)]
    if name in LENGTHS:
        return max(int(LENGTHS[name](arguments)), 1)
    if name in POOLS:
        return max(math.prod(arguments[1]), 1)
    largest = max((t.numel() for t in tensors), default=1)
    if name in REDUCTIONS:
        made = min((r.numel() for r in results if isinstance(r, torch.Tensor)), default=1)
        return max(-(-largest // max(made, 1)), 1)
    return max(largest, 1)


def residue(terms, step):
    """What becomes of terms that are added to a partial sum whose unit in the last place is `step`, a power of two."""
    return ((terms / step).round() * step - terms).nan_to_num(0, 0, 0)


def drift(sizes, terms, wide, residues):
    """What roundings of alike terms add up to, because they all go one way: for each sum the largest sum of its residues, over the steps
    of the partial sums it may have. `sizes`: sums of `terms` magnitudes; `residues(step)`: the sums of the terms' residues."""
    most = torch.zeros_like(sizes)
    if terms <= LONGEST_WITHOUT_DRIFT or not sizes.numel():
        return most
    exists = (sizes > 0) & sizes.isfinite()
    highest = torch.frexp(sizes)[1] + math.frexp(wide)[1] - 1
    # Below these steps the bound of independent roundings covers residues that all go one way.
    steps = 1 + math.floor(math.log2(2 / 3 * terms**0.5))
    for exponent in sorted({int(e) - down for e in highest[exists].unique() for down in range(steps)}):
        at = exists & (exponent <= highest) & (exponent > highest - steps)
        most = torch.where(at, torch.maximum(most, residues(2.0**exponent).abs()), most)
    return most


def in_f64(value):
    """A floating tensor or dtype as f64's, other values as they are."""
    if isinstance(value, torch.dtype):
        return torch.float64 if value.is_floating_point else value
    return value.double() if isinstance(value, torch.Tensor) and value.is_floating_point() else value


class Noise:
    """Calls ops in f64 and moves their results as rounding to their own dtype would. `unit` is the unit roundoff of results, or None for
    that of the dtype that eager gives; `accumulator` is that of sums, or None for f32's (f64's for f64). With `share` 0 there is no noise,
    so that each op is exact up to one rounding, whatever eager's kernel for a narrow dtype does inside."""

    def __init__(self, seed=0, unit=None, accumulator=None, share=1.0):
        self.generator = torch.Generator().manual_seed(seed)
        self.unit, self.accumulator, self.share = unit, accumulator, share

    def moved(self, value, shift):
        moved = value + self.share * shift * torch.randn(value.shape, generator=self.generator, dtype=torch.float64)
        return torch.where(value.isfinite(), moved, value)  # an infinity would become NaN

    def one_way(self, value, drift):
        """Roundings that all go up, or all down, may be reached. Twice as much as the bound needs, for there may be several such sums,
        whose noise adds up by squares."""
        if not drift.any():
            return value
        sign = torch.randint(0, 2, value.shape, generator=self.generator) * 2 - 1
        return torch.where(value.isfinite(), value + self.share * 2 / CONFIDENCE * drift * sign, value)

    def operand(self, value, unit):
        if isinstance(value, (tuple, list)):
            return type(value)([self.operand(v, unit) for v in value])
        return self.moved(value, unit * value) if isinstance(value, torch.Tensor) and value.is_floating_point() else value

    def result(self, value, dtype):
        """An f64 result, rounded. A whole number in f64 is taken as exact, because a narrower dtype gives it too."""
        if dtype == torch.float64 and self.unit is not None:
            return torch.where(value == value.round(), value, self.moved(value, self.unit * value))
        value = value.double()  # a conversion gives its own dtype, and PyTorch computes nothing in f8
        return self.moved(value, unit_roundoff(dtype) * value).to(dtype)

    def call(self, op, arguments, keywords):
        own = op(*arguments, **keywords)  # gives the dtypes, and the results of ops that only move values
        floats = [t for t in tree_leaves((arguments, keywords)) if isinstance(t, torch.Tensor) and t.is_floating_point()]
        made = [t for t in tree_leaves(own) if isinstance(t, torch.Tensor) and t.is_floating_point()]
        if name_of(op) is None or name_of(op) in EXACT or not floats or not made or made[0].is_meta:
            return own
        value = own  # if everything is f64 already
        if name_of(op) in ARITHMETIC and own.dim() == 0 and bool(own == own.round()) and own.abs() < 0.5 / unit_roundoff(own.dtype):
            return own  # what sizes are made of
        if any(t.dtype != torch.float64 for t in floats):
            value = None
            arguments, keywords = tree_map(in_f64, (arguments, keywords))
        if keywords.get("alpha", 1) != 1 and name_of(op) in ("add", "sub"):  # alpha * y is rounded by itself
            x, y = arguments
            y = self.result((y if isinstance(y, torch.Tensor) else x.new_tensor(y)) * keywords["alpha"], own.dtype).double()
            arguments, keywords, value = (x, y), {}, None
        if name_of(op) in WITH_ADDEND:
            return self.result(self.added(op, arguments, keywords, own.dtype, floats), own.dtype)
        value = self.summed(op, arguments, keywords, self.accumulated(op, arguments, own, floats), value)
        if name_of(op) in OF_ELEMENTS:
            value = self.one_way(value, self.drifted(op, arguments, keywords, own, self.wide(floats)))
        return tree_map(lambda w, o: self.result(w, o.dtype) if isinstance(o, torch.Tensor) and o.is_floating_point() else o, value, own)

    def wide(self, floats):
        """The unit roundoff of the accumulator."""
        return self.accumulator or unit_roundoff(torch.float64 if any(t.dtype == torch.float64 for t in floats) else torch.float32)

    def drifted(self, op, arguments, keywords, own, wide):
        terms = length(op, arguments, tree_leaves(own))
        if terms <= LONGEST_WITHOUT_DRIFT:
            return torch.zeros(())
        sizes = op(*magnitudes(arguments), **magnitudes(keywords)) * (terms if name_of(op) in DIVIDED else 1)

        def residues(step):
            return op(*tree_map(lambda a: residue(a, step) if isinstance(a, torch.Tensor) else a, arguments), **keywords)

        return drift(sizes, terms, wide, residues)

    def accumulated(self, op, arguments, own, floats):
        """How far each term may move, relative to its size; None if the op adds nothing."""
        if not accumulates(op):
            return None
        share = self.wide(floats) * length(op, arguments, tree_leaves(own)) ** 0.5
        if name_of(op) in EXPANDED:
            share = max(share, self.unit or max(unit_roundoff(t.dtype) for t in floats))
        return share

    def summed(self, op, arguments, keywords, share, value=None):
        """The op with its sums moved: by the sum of the terms' sizes if the op is nothing but a sum, else by moving its operands. `value`:
        its result without noise, if known."""
        if share is None:
            return op(*arguments, **keywords) if value is None else value
        if name_of(op) == "convolution_backward":  # three sums, of different lengths
            found = op(*arguments) if value is None else value
            lengths = [max(one, 1) for one in _convolution_backward(arguments)]
            shares = [share * (one / max(lengths)) ** 0.5 for one in lengths]
            return tuple(v if v is None else self.moved(v, each * s.nan_to_num(0, 0, 0))
                         for v, each, s in zip(found, shares, op(*magnitudes(arguments)), strict=True))
        if name_of(op) in SUMS or name_of(op) in INSIDE:
            compute, inside = IN_F64.get(name_of(op), op), INSIDE.get(name_of(op))
            value = compute(*arguments, **keywords) if value is None else value
            sizes = inside(arguments, value) if inside else compute(*magnitudes(arguments), **magnitudes(keywords))
            return self.moved(value, share * sizes.nan_to_num(0, 0, 0))
        value = op(*(self.operand(a, share) for a in arguments), **keywords)
        return self.off_centre(name_of(op), arguments, value, share) if name_of(op) in CENTRED else value

    def off_centre(self, name, arguments, value, share):
        """The results of a norm whose mean is a sum that is rounded. All elements of a row are then off by the same amount, which no
        shift of operands does: their mean is taken away from them."""
        x, result, deviation = arguments[0], value[0], value[2]
        if not x.numel():
            return value
        if name == "native_layer_norm":
            weight, rows = arguments[2], x.reshape(*deviation.shape[: x.dim() - len(arguments[1])], -1)
        else:
            weight, rows = arguments[1], x.reshape(*deviation.shape, -1)
            weight = weight if weight is None else weight.reshape(-1, *[1] * (x.dim() - 2))
        size = rows.abs().mean(-1, keepdim=True) * deviation.reshape(*rows.shape[:-1], 1)
        terms = rows.shape[-1]
        together = drift(rows.abs().sum(-1, keepdim=True), terms, share / terms**0.5,
                         lambda step: residue(rows, step).sum(-1, keepdim=True))
        shift = self.moved(torch.zeros_like(size), share * size)
        shift = self.one_way(shift, together / terms * deviation.reshape(size.shape)).expand(rows.shape).reshape(x.shape)
        return result + (shift if weight is None else shift * weight), *value[1:]

    def added(self, op, arguments, keywords, dtype, floats):
        """beta * x + alpha * product, where the language rounds the product, the scaling by each factor, and the sum, one after the
        other."""
        x, *factors = arguments
        beta, alpha = keywords.get("beta", 1), keywords.get("alpha", 1)
        product = self.summed(op, (x.new_zeros(()).expand(x.shape), *factors), {"beta": 1, "alpha": 1},
                              self.accumulated(op, arguments, (), floats))
        product = self.result(product, dtype).double()
        terms = [t if scale == 1 else self.result(scale * t, dtype).double() for scale, t in ((alpha, product), (beta, x))]
        return terms[0] + terms[1] if beta != 0 else terms[0]


class NoisyCalls(TorchDispatchMode):
    """Passes every ATen call inside through `noise`. `table`: the decompositions that a compiler runs instead of an op."""

    def __init__(self, noise, table=None):
        super().__init__()
        self.noise, self.table = noise, table or {}

    def __torch_dispatch__(self, op, types, arguments=(), keywords=None):
        keywords = keywords or {}
        if op in self.table:
            with self:
                value = self.table[op](*arguments, **keywords)
            if value is not NotImplemented:
                return value
        returns = op._schema.returns  # a norm may update its statistics, and returns results of its own
        if op._schema.is_mutable and (torch.Tag.nondeterministic_seeded in op.tags or any(r.alias_info for r in returns) or not returns):
            return op(*arguments, **keywords)
        return self.noise.call(op, arguments, keywords)


def root_mean_square(shifts):
    """The root mean square of a list of tensors. Uses hypot, because the squares of small numbers would be 0."""
    total = torch.zeros_like(shifts[0])
    for shift in shifts:
        total = total.hypot(shift)
    return total / len(shifts) ** 0.5
