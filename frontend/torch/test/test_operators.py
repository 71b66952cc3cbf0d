# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""Every operator of the importer, compared with eager, in one compiled function per case, on each device."""

import math

import pytest
import torch
import torch.nn.functional as F
from conftest import check, saved_ops

FLOATS = [torch.float32, torch.float64, torch.bfloat16, torch.float16]
INTS = [torch.int64, torch.int32, torch.int16, torch.int8, torch.uint8]


def tensor(*shape, dtype=torch.float32, low=-3, high=3):
    if dtype.is_floating_point:
        return (torch.rand(shape) * (high - low) + low).to(dtype)
    if dtype == torch.bool:
        return torch.rand(shape) > 0.5
    low = max(low, 0) if dtype == torch.uint8 else low
    return torch.randint(low, high + 1, shape, dtype=dtype)


UNARY = {
    "exp": torch.exp,
    "expm1": torch.expm1,
    "sin": torch.sin,
    "cos": torch.cos,
    "tan": lambda x: torch.tan(x / 3),
    "tanh": torch.tanh,
    "erf": torch.erf,
    "sigmoid": torch.sigmoid,
    "abs": torch.abs,
    "neg": torch.neg,
    "sign": torch.sign,
    "floor": torch.floor,
    "ceil": torch.ceil,
    "round": torch.round,
    "trunc": torch.trunc,
    "relu": torch.relu,
    "silu": F.silu,
    "gelu": F.gelu,
    "gelu_tanh": lambda x: F.gelu(x, approximate="tanh"),
    "square": torch.square,
    "cube": lambda x: x**3,
    "leaky_relu": lambda x: F.leaky_relu(x, 0.1),
    "elu": F.elu,
    "hardtanh": F.hardtanh,
    "hardswish": F.hardswish,
    "softplus": F.softplus,
    "mish": F.mish,
    "clamp": lambda x: x.clamp(-1, 0.7),
    "clamp_min": lambda x: x.clamp_min(0.3),
    "isnan": torch.isnan,
    "isinf": torch.isinf,
    "scalars": lambda x: 0.1 + x * 1.7 - 2,
    "rsub": lambda x: 1.3 - x,
    "alpha": lambda x: torch.add(x, x, alpha=0.3),
    "softmax": lambda x: x.softmax(-1),
    "log_softmax": lambda x: x.log_softmax(0),
    "reciprocal": lambda x: (x.abs() + 1).reciprocal(),
    "sqrt": lambda x: x.abs().sqrt(),
    "rsqrt": lambda x: (x.abs() + 1).rsqrt(),
    "log": lambda x: (x.abs() + 0.1).log(),
    "log1p": lambda x: x.abs().log1p(),
    "pow_half": lambda x: x.abs() ** 0.5,
    "pow_third": lambda x: x.abs() ** 0.3,
    "pow_minus": lambda x: (x.abs() + 1) ** -2,
    "two_pow": lambda x: 2**x,
}


@pytest.mark.parametrize("dtype", FLOATS, ids=str)
@pytest.mark.parametrize("name", UNARY)
def test_unary(compile_for, name, dtype):
    f = UNARY[name]
    check(compile_for(f), f, tensor(5, 7, dtype=dtype))


BINARY = {
    "add": torch.add,
    "sub": torch.sub,
    "mul": torch.mul,
    "div": torch.div,
    "max": torch.maximum,
    "min": torch.minimum,
    "eq": torch.eq,
    "ne": torch.ne,
    "lt": torch.lt,
    "le": torch.le,
    "gt": torch.gt,
    "ge": torch.ge,
    "remainder": torch.remainder,
    "fmod": torch.fmod,
    "floor_div": lambda x, y: torch.div(x, y, rounding_mode="floor"),
    "trunc_div": lambda x, y: torch.div(x, y, rounding_mode="trunc"),
    "where": lambda x, y: torch.where(x > y, x, 1),
}


@pytest.mark.parametrize(
    "pair",
    [
        (torch.float32, torch.float32),
        (torch.float32, torch.int64),
        (torch.int32, torch.int64),
        (torch.bfloat16, torch.float32),
        (torch.uint8, torch.int16),
        (torch.int64, torch.int64),
    ],
    ids=str,
)
@pytest.mark.parametrize("name", BINARY)
def test_binary(compile_for, name, pair):
    f = BINARY[name]
    x, y = tensor(3, 1, 5, dtype=pair[0]), tensor(4, 5, dtype=pair[1])
    y = torch.where(y == 0, torch.ones_like(y), y)
    check(compile_for(f), f, x, y)


@pytest.mark.parametrize("dtype", [torch.bool, *INTS], ids=str)
def test_bits(compile_for, dtype):
    def f(x, y):
        return x & y, x | y, x ^ y, ~x, torch.logical_and(x, y), torch.logical_not(x), x == y, x != 0

    check(compile_for(f), f, tensor(4, 5, dtype=dtype, high=100), tensor(5, dtype=dtype, high=100))


@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16, torch.int64], ids=str)
def test_shapes(compile_for, dtype):
    def f(x):
        a, b, c = x.split([1, 2, 1], 1)
        return (
            x.view(2, 15, 4)[:, ::2],
            x.transpose(0, 2),
            x.permute(2, 0, 1).contiguous(),
            x[:, 1],
            x[..., -2:],
            b.squeeze(0),
            x.unsqueeze(1).expand(2, 3, 4, 15),
            torch.cat([a, c], 1),
            torch.stack([x, x], 2),
            x.flatten().view(-1, 6),
            x.repeat(2, 1, 3),
            x.flip(0, 2),
            F.pad(x, (1, 2, 0, 3), value=2),
            x.roll(3, 1),
            *x.unbind(0),
            x.chunk(3, 2)[1],
            x[:, None].mT,
            x.reshape(8, 15).tril(),
            x.reshape(8, 15).triu(2),
            torch.atleast_3d(x[0, 0]),
            x.movedim(0, -1),
        )

    check(compile_for(f), f, tensor(2, 4, 15, dtype=dtype))


def test_creation(compile_for):
    def f(x):
        n = x.shape[0]
        return (
            torch.arange(n),
            torch.arange(2, 20, 3),
            torch.arange(0, 1, 0.13),
            torch.full((2, 3), 1.5),
            torch.zeros(3, dtype=torch.int32),
            torch.ones_like(x),
            x.new_full((2,), 7),
            torch.eye(3),
            torch.tensor([1.0, 2.5]),
            torch.linspace(0, 1, 5),
            x.new_zeros(2, 2),
            torch.scalar_tensor(3),
            torch.full_like(x, math.inf),
        )

    check(compile_for(f), f, tensor(5))


@pytest.mark.parametrize("dtype", [*FLOATS, torch.int64, torch.int32], ids=str)
def test_reductions(compile_for, dtype):
    def f(x):
        results = [
            x.sum(),
            x.sum(1),
            x.sum((0, 2), keepdim=True),
            x.amax(1),
            x.amin((0, 1)),
            x.max(),
            x.min(),
            x.argmax(),
            x.argmax(2),
            x.argmin(0, keepdim=True),
            x.cumsum(1),
            *x.max(1),
            x.min(2, keepdim=True)[0],
            (x > 0).any(),
            (x > 0).all(1),
            x.any(2),
        ]
        if x.is_floating_point():
            results += [
                x.mean(),
                x.mean((1, 2)),
                x.var(1),
                x.std((0, 2), correction=0),
                x.norm(dim=1),
                F.normalize(x, dim=-1),
                torch.linalg.vector_norm(x, ord=1),
                x.logsumexp(1),
                x.prod(1),
            ]
        return tuple(results)

    check(compile_for(f), f, tensor(3, 5, 7, dtype=dtype))


@pytest.mark.parametrize("dtype", FLOATS, ids=str)
def test_products(compile_for, dtype):
    def f(x, w, b, y):
        return (
            F.linear(x, w, b),
            F.linear(x, w),
            torch.addmm(b, x[0], w.t()),
            torch.addmm(b, x[0], w.t(), beta=0.5, alpha=2),
            x[0] @ w.t(),
            x @ y,
            torch.bmm(x, y),
            torch.baddbmm(x @ y, x, y),
            torch.einsum("bij,bjk->bik", x, y),
            x[0, 0] @ w[0],
            x[0] @ w[0],
            x[0].mm(y[0]),
        )

    check(
        compile_for(f),
        f,
        tensor(2, 3, 5, dtype=dtype),
        tensor(4, 5, dtype=dtype),
        tensor(4, dtype=dtype),
        tensor(2, 5, 6, dtype=dtype),
    )


def test_integer_product(compile_for):
    f = torch.mm
    check(compile_for(f), f, tensor(3, 4, dtype=torch.int64), tensor(4, 5, dtype=torch.int64))


def test_product_of_int8_adds_in_int32(compile_for):
    x, y = (torch.full(shape, -128, dtype=torch.int8) for shape in ((3, 40), (40, 5)))
    check(compile_for(torch._int_mm), torch._int_mm, x, y)


@pytest.mark.parametrize("rows", [1, 4, 9])  # by few rows, and dequantised
@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16], ids=str)
def test_weights_of_int8(compile_for, dtype, rows):
    def f(x, weight, scales):
        return torch.ops.aten._weight_int8pack_mm(x, weight, scales), F.linear(x, weight.to(dtype) * scales[:, None])

    weight = torch.arange(-128, 128, dtype=torch.int8).repeat(12).view(48, 64)
    check(compile_for(f), f, tensor(rows, 64, dtype=dtype), weight, tensor(48, dtype=dtype))


@pytest.mark.parametrize("dtype", FLOATS, ids=str)
def test_norms(compile_for, dtype):
    def f(x, scale, bias, mean, variance):
        return (
            F.layer_norm(x, (7,), scale, bias, 1e-5),
            F.layer_norm(x, (6, 7)),
            F.group_norm(x, 3, scale[:6], bias[:6]),
            F.rms_norm(x, (7,), scale, 1e-6),
            F.batch_norm(x, mean[:6], variance[:6].abs() + 1, scale[:6], bias[:6]),
            F.instance_norm(x),
        )

    check(compile_for(f), f, tensor(2, 6, 7, dtype=dtype), *[tensor(7, dtype=dtype) for _ in range(4)])


@pytest.mark.parametrize("dtype", FLOATS, ids=str)
def test_attention(compile_for, dtype):
    q, k, v = tensor(2, 4, 5, 8, dtype=dtype), tensor(2, 4, 9, 8, dtype=dtype), tensor(2, 4, 9, 8, dtype=dtype)
    mask = tensor(2, 1, 5, 9, dtype=torch.bool)
    mask[0, 0, 0] = False  # this query sees no key

    def f(q, k, v, mask):
        attend = F.scaled_dot_product_attention
        bias = torch.where(mask, 0.0, -2.0).to(q.dtype)
        return (
            attend(q, k, v),
            attend(q, k, v, mask),
            attend(q, k, v, bias, scale=0.3),
            attend(q, q, q, is_causal=True),
            attend(q, k[:, :2], v[:, :2], enable_gqa=True),
        )

    check(compile_for(f), f, q, k, v, mask)


@pytest.mark.parametrize("form", ["made", "expanded", "padded", "other number", "cudnn's number", "shifted"])
def test_masks_that_were_boolean(form, tmp_path):
    """Keys that a boolean mask hides take no part in attention, so that kernels may pass over them. PyTorch adds 0 and -inf."""
    keys = 9
    q, k, v = tensor(2, 4, 5, 8), tensor(2, 4, keys, 8), tensor(2, 4, keys, 8)
    seen = tensor(2, 1, 5, keys, dtype=torch.bool)
    seen[..., 0] = True

    def f(q, k, v, seen):
        mask = torch.where(seen, 0.0, {"other number": -9.0, "cudnn's number": -65504.0}.get(form, -math.inf))
        if form in ("padded", "shifted"):
            start = int(form == "shifted")
            mask = F.pad(mask, (0, 7))[..., start : keys + start]
        if form != "made":
            mask = mask.expand(2, 4, 5, keys)
        return torch.ops.aten._scaled_dot_product_flash_attention_for_cpu(q, k, v, attn_mask=mask)[0]

    compiled = torch.compile(f, backend="mortise", options={"device": "cpu", "save_graphs": str(tmp_path)})
    check(compiled, f, q, k, v, seen)
    (attention,) = saved_ops(tmp_path, "attention")
    assert ("xi1>" in attention) == (form not in ("other number", "cudnn's number", "shifted"))


@pytest.mark.parametrize("dtype", FLOATS, ids=str)
def test_windows(compile_for, dtype):
    def f(x, w, g, u):
        return (
            F.conv2d(x, w),
            F.conv2d(x, w, stride=2, padding=1, dilation=2),
            F.conv2d(x, g, groups=4),
            F.conv1d(x[:, :, 0], w[:, :, 0]),
            F.conv2d(x, w, w[:, 0, 0, 0], padding=(0, 2)),
            F.conv_transpose2d(x, u, stride=2, padding=1, output_padding=1),
            F.conv_transpose2d(x, u, stride=(1, 3), padding=(3, 0), dilation=2),
            F.conv_transpose2d(x, u[:, :, :1, :1], stride=2, padding=1, output_padding=1),
            F.max_pool2d(x, 3, 2, 1),
            F.max_pool2d(x, 2, ceil_mode=True),
            F.avg_pool2d(x, 2),
            F.avg_pool2d(x, 3, 2, 1),
            F.avg_pool2d(x, 3, 2, 1, count_include_pad=False),
            F.avg_pool2d(x, 2, ceil_mode=True),
            F.adaptive_avg_pool2d(x, 1),
            F.adaptive_avg_pool2d(x[:, :, :8, :8], 4),
            F.interpolate(x, scale_factor=2),
            F.pixel_shuffle(x, 2),
        )

    check(
        compile_for(f),
        f,
        tensor(2, 4, 9, 11, dtype=dtype),
        tensor(6, 4, 3, 3, dtype=dtype),
        tensor(8, 1, 2, 2, dtype=dtype),
        tensor(4, 3, 3, 3, dtype=dtype),
        coverage=0.8 if dtype == torch.float64 else 1.0,
    )  # devices may lack f64 convolutions


@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16, torch.int64, torch.bool], ids=str)
def test_indexing(compile_for, dtype):
    x, i, j = tensor(5, 6, 7, dtype=dtype), torch.tensor([[0, 2], [-1, 4]]), torch.tensor([3, -6])

    def f(x, i, j):
        return (
            x[i],
            x[:, i],
            x[i, j],
            x[:, i, j],
            x[i, :, j],
            x[None, i, 1:, j],
            F.embedding(i.abs(), x[:, :, 0]),
            x.gather(1, i.abs().view(2, 2, 1)),
            x.index_select(1, j.abs() - 1),
            x.index_copy(0, j.abs() - 2, x[:2]),
            x.index_put((i, j), x[0, 0, 0]),
            torch.ops.aten.index_put(x, [None, j], x[:, :2]),
            x.scatter(1, i.abs().view(2, 2, 1), x),
            torch.slice_scatter(x, x[:, :2], 1, 1, 6, 3),
            torch.select_scatter(x, x[0], 0, 2),
            x.take_along_dim(i.abs().view(1, 4, 1), 1),
        )

    check(compile_for(f), f, x, i, j)


def test_accumulating_writes(compile_for):
    x, i = tensor(5, 6), torch.tensor([0, 2, 0, -1])

    def f(x, i):
        return (
            x.index_put((i,), torch.ones(4, 6), accumulate=True),
            x.index_add(0, i.abs(), x[:4]),
            x.scatter_add(0, i.abs().view(4, 1).expand(4, 6), x[:4]),
        )

    check(compile_for(f), f, x, i)


@pytest.mark.parametrize("dtype", FLOATS[:2], ids=str)
def test_special_functions(compile_for, dtype):
    edges = torch.tensor([0.0, -0.0, 1e-8, 19.99, 20.01, -3.0, 80.0], dtype=dtype)
    x = torch.cat([edges, torch.linspace(-40, 40, 101, dtype=dtype)])
    y = torch.cat([torch.tensor([0.0, 1e-12, 0.5, -0.5, 1.0, -1.0, 1 - 2**-20, 1.5]).to(dtype), torch.linspace(-1, 1, 101, dtype=dtype)])

    def growing(x):  # up to e^40, so errors are relative
        return torch.special.i0(x).log(), torch.special.i1(x).abs().log(), torch.special.i1(x).sign()

    def bounded(x, y):
        return torch.special.i0e(x), torch.special.i1e(x), torch.erfinv(y), torch.i0(torch.arange(4)), torch.lgamma(x)

    check(compile_for(growing), growing, x[2:])
    check(compile_for(bounded), bounded, x, y)


@pytest.mark.parametrize("mode", ["bilinear", "bicubic"])
def test_antialiased_resizing(compile_for, mode):
    def resize(x):
        return (
            F.interpolate(x, (5, 4), mode=mode, antialias=True),
            F.interpolate(x, (20, 9), mode=mode, antialias=True, align_corners=True),
            F.interpolate(x, scale_factor=(0.4, 1.7), mode=mode, antialias=True),
        )

    check(compile_for(resize), resize, tensor(2, 3, 13, 11))


@pytest.mark.parametrize("dtype", [torch.bfloat16, torch.float8_e4m3fn], ids=str)
def test_scaled_products_of_f8(compile_for, dtype):
    x, y = tensor(16, 32).to(torch.float8_e4m3fn), tensor(48, 32).to(torch.float8_e4m3fn).t()

    def product(x, y, one, other):
        return torch._scaled_mm(x, y, one, other, out_dtype=dtype).float()

    # the second pair overflows f8
    for one, other in ((torch.tensor(0.3), torch.tensor(0.7)), (torch.tensor(90.0), torch.tensor(7.0))):
        check(compile_for(product), product, x, y, one, other, coverage=None)


@pytest.mark.parametrize("replacement", [False, True])
def test_multinomial(compile_for, replacement):
    weights = torch.tensor([0.5, 0.0, 3.0, 1.5]).repeat(4000, 1)

    def draw(weights):
        return torch.multinomial(weights, 2, replacement)

    drawn = compile_for(draw)(weights)
    assert drawn.dtype == torch.int64 and drawn.shape == (4000, 2) and not bool((drawn == 1).any())
    assert replacement or not bool((drawn[:, 0] == drawn[:, 1]).any())
    for index, chance in ((0, 0.1), (2, 0.6), (3, 0.3)):
        found = float((drawn[:, 0] == index).double().mean())
        assert abs(found - chance) < 5 * (chance * (1 - chance) / 4000) ** 0.5


@pytest.mark.parametrize("dtype", [torch.float32, torch.int64], ids=str)
def test_writes_under_masks(compile_for, dtype):
    x, rows = tensor(4, 3, 5, dtype=dtype), torch.tensor([True, False, True, True])
    mask, inner = x > 0, torch.tensor([[True, False, True, False, True]] * 3)
    values = tensor(int(mask.sum()), dtype=dtype)

    def run(x, mask, values):
        one = torch.ones((), dtype=dtype)
        return (
            x.index_put((mask,), one),
            x.index_put((mask,), values),
            x.index_put((mask,), values, accumulate=True),
            x.index_put((rows,), x[:3] * 2),
            x.index_put((rows,), x[0]),
            torch.ops.aten.index_put(x, [None, inner], x[:, 0, :1].expand(4, 9).clone(), True),
            x.index_put((torch.zeros_like(mask),), values[:0]),
        )

    check(compile_for(run), run, x, mask, values)


def test_strides_over_views(compile_for):
    """as_strided reads the memory behind its operand, which may be part of a larger tensor."""

    def run(x):
        y = x + 1
        part = y[1:, 2:]
        return (
            part.as_strided((2, 3), (3, 2)),
            part.as_strided((2, 3), (3, 2), 1),
            y.t()[2:].as_strided((4,), (1,), 0),
            torch.as_strided_scatter(y.t(), torch.zeros(2, 2), (2, 2), (6, 1), 8),
        )

    check(compile_for(run), run, tensor(4, 6))


def test_casts(compile_for):
    def f(x):
        return [x.to(d) for d in (*FLOATS, torch.int64, torch.int32, torch.int16, torch.int8, torch.bool)] + [
            (x.abs()).to(torch.uint8)
        ]

    check(compile_for(f), f, tensor(4, 5))


def test_numbers_at_the_edge(compile_for):
    x = torch.tensor([math.nan, math.inf, -math.inf, 0.0, -0.0, 1e38, -1e38, 1e-40])

    def f(x):
        return (
            x + 1,
            x.clamp(-1, 1),
            x.relu(),
            x.abs(),
            x.isnan(),
            torch.where(x.isnan(), 0.0, x),
            x.sign(),
            x == x,
            x > 0,
            x.sigmoid(),
            x.tanh(),
        )

    check(compile_for(f), f, x)


@pytest.mark.parametrize("shape", [(), (0,), (1,), (3, 0, 2), (1, 1, 1), (17,), (3, 33)], ids=str)
def test_odd_shapes(compile_for, shape):
    def f(x):
        return x * 2 + 1, x.sum(), x.unsqueeze(0), x.flatten()

    check(compile_for(f), f, tensor(*shape))


@pytest.mark.parametrize("dtype", [torch.float32, torch.int64], ids=str)
def test_order(compile_for, dtype):
    def f(x, i):
        return (
            *x.sort(1, descending=True),
            *x.topk(2, 1),
            *x.kthvalue(2, 0),
            *x.median(1),
            *x.cummax(1),
            x.cumprod(0),
            x.diagonal(1),
            x.scatter_reduce(1, i, x, "amax"),
            x.scatter_reduce(1, i, x, "prod", include_self=False),
            torch.searchsorted(x.sort(1)[0], x),
        )

    x = torch.randperm(30).reshape(5, 6).to(dtype)
    check(compile_for(f), f, x, torch.randint(6, (5, 6)), coverage=None)


def test_pools_with_indices(compile_for):
    def f(x):
        return (
            *F.max_pool2d(x, 3, 2, 1, return_indices=True),
            F.adaptive_avg_pool2d(x, (4, 3)),
            *F.adaptive_max_pool2d(x, (4, 3), return_indices=True),
        )

    check(compile_for(f), f, tensor(2, 3, 9, 11), coverage=None)


def test_random_numbers_follow_the_seed(compile_for):
    def f(x):
        return torch.rand(1000), torch.randn_like(x), F.dropout(x, 0.3, True), torch.randperm(50), torch.randint(3, 9, (1000,))

    compiled, x = compile_for(f), torch.ones(1000)

    def draw(seed):
        torch.manual_seed(seed)
        with torch.no_grad():
            return compiled(x)

    first, again, other = draw(3), draw(3), draw(4)
    for a, b, c in zip(first, again, other):
        assert torch.equal(a, b) and not torch.equal(a, c)
    uniform, normal, dropped, order, integers = first
    assert 0 <= uniform.min() and uniform.max() < 1 and abs(uniform.mean() - 0.5) < 0.05
    assert abs(normal.mean()) < 0.2 and abs(normal.std() - 1) < 0.15
    assert abs((dropped == 0).float().mean() - 0.3) < 0.08 and torch.allclose(dropped.max(), torch.tensor(1 / 0.7))
    assert torch.equal(order.sort().values, torch.arange(50))
    assert set(integers.tolist()) == set(range(3, 9))


def test_tokens_of_sixteen_bits(compile_for):
    """Token ids as data sets store them. PyTorch has few operators for uint16, but can read, move and convert them."""
    table = torch.randn(70000, 4)
    tokens = torch.tensor([[0, 1, 32767], [32768, 65534, 65535]], dtype=torch.int32).to(torch.uint16)

    def model(tokens):
        turned = tokens.t().contiguous()
        return F.embedding(turned.long(), table), turned, tokens.float(), tokens.int().sub(32768).to(torch.uint16)

    check(compile_for(model), model, tokens)


@pytest.mark.parametrize("window", [2, (3, 2), 7])
@pytest.mark.parametrize("stride, padding, dilation, ceil_mode", [(1, 0, 1, False), (2, 1, 1, True), (2, 1, 2, False), (3, 0, 1, True)])
def test_indices_of_max_pools(compile_for, window, stride, padding, dilation, ceil_mode):
    """Of equal elements the first, of NaN the last, and never one of the padding."""
    x = torch.randint(-3, 4, (2, 3, 16, 14)).float()
    x[0, 0, 2, 3] = x[0, 1, 4:6, 4:6] = float("nan")
    x[1, 2] = -float("inf")

    def f(x):
        return F.max_pool2d(x, window, stride, padding, dilation, ceil_mode, return_indices=True)

    check(compile_for(f), f, x)
