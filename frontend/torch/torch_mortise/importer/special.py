# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""Special functions and products without an op of their own, written in PyTorch's language as decompositions."""

import math

import torch
from torch.utils._python_dispatch import _disable_current_modes

from .core import decomposes

aten = torch.ops.aten


def computed(x):
    """`x` in the dtype in which PyTorch computes, and the dtype of the result."""
    result = x.dtype if x.is_floating_point() else torch.get_default_dtype()
    wide = torch.promote_types(result, torch.float32)
    return x.to(wide), result


# ---- modified Bessel functions of the first kind ---------------------------------------------------------

# Below NEAR, TERMS terms of the power series, which are all positive: 100^k / k!^2 at k = 36 is 2e-19 of the sum at NEAR. Above it,
# Hankel's expansion, whose terms decrease until k = 2 x: at NEAR, the term k = 34 is below 1e-16.
NEAR, TERMS, FAR_TERMS = 20.0, 36, 34


def bessel(x, order, scaled):
    """I_order(x), multiplied by exp(-|x|) if `scaled`."""
    x, dtype = computed(x)
    size = x.abs()
    near, far = size.clamp(max=NEAR), size.clamp(min=NEAR)
    square, series = near * near * 0.25, torch.ones_like(x)
    for k in range(TERMS, 0, -1):
        series = series * square * (1.0 / (k * (k + order))) + 1.0
    if order:
        series = series * (near * 0.5)
    inverse, tail = far.reciprocal(), torch.ones_like(x)
    for k in range(FAR_TERMS, 0, -1):
        tail = tail * inverse * (((2 * k - 1) ** 2 - 4 * order**2) / (8 * k)) + 1.0
    tail = tail * (far * (2 * math.pi)).rsqrt()
    if scaled:
        series = series * torch.exp(-near)
    else:  # exp(far) alone overflows before the result does
        half = torch.exp(far * 0.5)
        tail = tail * half * half
    result = torch.where(size <= NEAR, series, tail)
    return (torch.where(x < 0, -result, result) if order else result).to(dtype)


@decomposes(aten.i0.default)
def i0(x):
    return bessel(x, 0, False)


@decomposes(aten.special_i0e.default)
def i0e(x):
    return bessel(x, 0, True)


@decomposes(aten.special_i1.default)
def i1(x):
    return bessel(x, 1, False)


@decomposes(aten.special_i1e.default)
def i1e(x):
    return bessel(x, 1, True)


# ---- the inverse of erf ----------------------------------------------------------------------------------


@decomposes(aten.erfinv.default)
def erfinv(y):
    """A first estimate within 1 % (y sqrt(pi)/2 near 0, elsewhere Winitzki's formula), then three steps of Halley's iteration, each of
    which reduces an error e to about e^3. Beyond 1/2 it solves erfc(x) = 1 - |y|, because 1 - |y| is exact there."""
    y, dtype = computed(y)
    size = y.abs()
    left = 1.0 - size  # exact from 1/2 on
    a = 0.147
    log = torch.log(left.clamp(min=torch.finfo(y.dtype).tiny)) + torch.log1p(size)
    middle = 2 / (math.pi * a) + log * 0.5
    far = torch.sqrt(torch.sqrt(middle * middle - log / a) - middle)
    x = torch.where(size < 0.1, size * (math.sqrt(math.pi) / 2), far)
    for _ in range(3):
        missing = torch.where(size < 0.5, torch.erf(x) - size, left - torch.erfc(x))
        step = missing / (torch.exp(-(x * x)) * (2 / math.sqrt(math.pi)))
        x = x - step / (1.0 + x * step)
    x = torch.where(size < 1, x, torch.where(size == 1, math.inf, math.nan))
    return torch.where(y < 0, -x, torch.where(y == 0, y, x)).to(dtype)


# ---- the logarithm of the gamma function ------------------------------------------------------------------


def zeta_less_one(k):
    """zeta(k) - 1, by the Euler-Maclaurin formula from 64 on; the omitted terms are below 1e-17."""
    n = 64.0
    rest = n ** (1 - k) / (k - 1) + n**-k / 2 + k * n ** (-k - 1) / 12 - k * (k + 1) * (k + 2) * n ** (-k - 3) / 720
    rest += k * (k + 1) * (k + 2) * (k + 3) * (k + 4) * n ** (-k - 5) / 30240
    return math.fsum([*(i ** -float(k) for i in range(2, 64)), rest])


EULER = 0.57721566490153286
# lgamma(2 + z) = (1 - EULER) z + sum of (-1)^k (zeta(k) - 1) / k z^k, whose terms decrease like 4^-k for |z| <= 1/2.
AROUND_TWO = [0.0, 1.0 - EULER, *((-1) ** k * zeta_less_one(k) / k for k in range(2, 28))]
# Stirling's series: B_2k / (2k (2k - 1)) for x^-(2k-1); at 8.5 the omitted terms are below 1e-17.
STIRLING = [1 / 12, -1 / 360, 1 / 1260, -1 / 1680, 1 / 1188, -691 / 360360, 1 / 156, -3617 / 122400, 43867 / 244188]


def polynomial(x, coefficients):
    result = torch.full_like(x, coefficients[-1])
    for c in reversed(coefficients[:-1]):
        result = result * x + c
    return result


def lgamma_of_positive(x):
    """Avoids differences of large numbers: a series around the zeros 1 and 2, and up to 8.5 a product times gamma near 2."""
    product, y = torch.ones_like(x), x.clamp(max=8.5)
    for _ in range(6):
        above = y > 2.5
        y = torch.where(above, y - 1.0, y)
        product = torch.where(above, product * y, product)
    low, lowest = y < 1.5, y < 0.5
    z = torch.where(lowest, y, torch.where(low, y - 1.0, y - 2.0))
    near = polynomial(z, AROUND_TWO)
    near = torch.where(low, near - torch.log1p(z), near)
    near = torch.where(lowest, near - torch.log(y), near) + torch.log(product)
    far = x.clamp(min=8.5)
    inverse = far.reciprocal()
    tail = polynomial(inverse * inverse, STIRLING) * inverse + 0.5 * math.log(2 * math.pi)
    log = torch.log(far)
    return torch.where(x > 8.5, far * (log - 1.0) - 0.5 * log + tail, near)


@decomposes(aten.lgamma.default)
def lgamma(x):
    x, dtype = computed(x)
    size = x.abs()
    positive = lgamma_of_positive(size)
    # gamma(x) gamma(-x) = -pi / (x sin(pi x)); the nearest integer is subtracted first, which is exact
    sine = torch.sin((size - torch.round(size)).abs() * math.pi)
    reflected = math.log(math.pi) - torch.log(size * sine) - positive
    result = torch.where(x > 0, positive, reflected)
    return torch.where(torch.isinf(size) | ((x <= 0) & (torch.round(x) == x)), math.inf, result).to(dtype)


# ---- products of f8 numbers ------------------------------------------------------------------------------


@decomposes(aten._scaled_mm.default)
def scaled_mm(x, y, scale_x, scale_y, bias=None, scale_result=None, out_dtype=None, use_fast_accum=False):
    """(x * scale_x) @ (y * scale_y), with one scale or one for each row of x and column of y; accumulates in f32."""
    dtype = out_dtype or x.dtype
    ones = scale_x.numel() == 1 and scale_y.numel() == 1
    lines = scale_x.shape == (x.shape[0], 1) and scale_y.shape == (1, y.shape[1])
    if scale_result is not None or not (ones or lines):
        return NotImplemented
    if ones:
        scale_x, scale_y = scale_x.reshape(()), scale_y.reshape(())
    result = torch.mm(x.float(), y.float()) * scale_x * scale_y
    if bias is not None:
        result = result + bias.float()
    if dtype == torch.float8_e4m3fn:  # it has no infinity, so eager saturates
        largest = torch.finfo(dtype).max
        result = result.clamp(-largest, largest)
    return result.to(dtype)


# ---- resizing with antialiasing --------------------------------------------------------------------------


def triangle(x):
    return max(1.0 - abs(x), 0.0)


def cubic(x, a=-0.5):
    x = abs(x)
    if x < 1:
        return ((a + 2) * x - (a + 3)) * x * x + 1
    return (((x - 5) * x + 8) * x - 4) * a if x < 2 else 0.0


def resize_weights(extent, wanted, align_corners, factor, reach, filter):
    """[wanted, extent]: the weight of each input for each output along one axis. Downscaling widens the filter."""
    if align_corners:
        scale = (extent - 1) / (wanted - 1) if wanted > 1 else 0.0
    else:
        scale = 1.0 / factor if factor else extent / wanted
    stretch = max(scale, 1.0)
    rows = []
    for i in range(wanted):
        center = scale * (i + 0.5)
        first = max(int(center - reach * stretch + 0.5), 0)
        last = min(int(center + reach * stretch + 0.5), extent)
        row = [filter((j - center + 0.5) / stretch) if first <= j < last else 0.0 for j in range(extent)]
        total = sum(row)
        rows.append([w / total if total else w for w in row])
    return rows


def resized(x, size, align_corners, factors, reach, filter):
    """Resizes by one product along each axis; the weights are constants."""
    if not x.is_floating_point() or not all(type(n) is int for n in (*size, *x.shape)):
        return NotImplemented  # eager resizes 8-bit images in integers
    wide, dtype = computed(x)
    with _disable_current_modes():  # real numbers instead of a recorded torch.tensor
        made = [
            torch.tensor(resize_weights(x.shape[axis], size[axis + 2], align_corners, factors[axis + 2], reach, filter), dtype=wide.dtype)
            for axis in (-2, -1)
        ]
    down, across = (aten.lift_fresh_copy(weights) for weights in made)
    return torch.matmul(down, torch.matmul(wide, across.t())).to(dtype)


@decomposes(aten._upsample_bilinear2d_aa.default)
def bilinear_aa(x, output_size, align_corners, scales_h=None, scales_w=None):
    return resized(x, output_size, align_corners, (scales_h, scales_w), 1.0, triangle)


@decomposes(aten._upsample_bicubic2d_aa.default)
def bicubic_aa(x, output_size, align_corners, scales_h=None, scales_w=None):
    return resized(x, output_size, align_corners, (scales_h, scales_w), 2.0, cubic)
