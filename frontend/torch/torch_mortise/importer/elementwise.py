# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""Elementwise operators, with PyTorch's type promotion made explicit."""

import math

import torch
from torch._inductor import inductor_prims

from .. import dtypes
from ..dtypes import F32, I1, Unsupported, is_float, is_narrow_float
from .core import SCALAR, Value, broadcast_shapes, handles

aten = torch.ops.aten


def compute_dtype(dtype, *operands):
    """The dtype of the arithmetic: f32 for a narrow float if a scalar operand is not exact in it, as in PyTorch."""
    if is_narrow_float(dtype) and any(isinstance(o, SCALAR) and not dtypes.is_exact(o, dtype) for o in operands):
        return F32
    return dtype


def binary(e, name, lhs, rhs, dtype):
    at = compute_dtype(dtype, lhs, rhs)
    return e.convert(e.op(name, *e.pair(lhs, rhs, at)), dtype)


def scaled(e, value, alpha, dtype):
    if alpha == 1:
        return value
    if isinstance(value, Value):
        return binary(e, "mul", value, alpha, dtype)
    return value * alpha


def unary_float(name, *overloads):
    @handles(*overloads)
    def handler(e, x):
        return e.op(name, e.convert(x, e.dtype))


def binary_plain(name, *overloads):
    @handles(*overloads)
    def handler(e, lhs, rhs):
        return binary(e, name, lhs, rhs, e.dtype)


for _name in (
    *("exp", "expm1", "exp2", "log", "log1p", "log2", "log10", "sqrt", "rsqrt", "erf", "erfc"),
    *("sin", "cos", "tan", "asin", "acos", "atan", "sinh", "cosh", "tanh", "asinh", "acosh", "atanh"),
):
    unary_float(_name, getattr(aten, _name).default)
unary_float("logistic", aten.sigmoid.default)
binary_plain("mul", aten.mul.Tensor, aten.mul.Scalar)
binary_plain("max", aten.maximum.default)
binary_plain("min", aten.minimum.default)
binary_plain("atan2", aten.atan2.default)
binary_plain("and", aten.bitwise_and.Tensor, aten.bitwise_and.Scalar)
binary_plain("or", aten.bitwise_or.Tensor, aten.bitwise_or.Scalar)
binary_plain("xor", aten.bitwise_xor.Tensor, aten.bitwise_xor.Scalar)
binary_plain("rem", aten.fmod.Tensor, aten.fmod.Scalar)
binary_plain(
    "shift_left",
    *(aten.bitwise_left_shift.Tensor, aten.bitwise_left_shift.Tensor_Scalar, aten.bitwise_left_shift.Scalar_Tensor),
    *(aten.__lshift__.Tensor, aten.__lshift__.Scalar),
)
binary_plain(
    "shift_right",
    *(aten.bitwise_right_shift.Tensor, aten.bitwise_right_shift.Tensor_Scalar, aten.bitwise_right_shift.Scalar_Tensor),
    *(aten.__rshift__.Tensor, aten.__rshift__.Scalar),
)


@handles(aten.add.Tensor, aten.add.Scalar)
def add(e, lhs, rhs, alpha=1):
    dtype = e.dtype
    return binary(e, "add", lhs, scaled(e, rhs, alpha, dtype), dtype)


@handles(aten.sub.Tensor, aten.sub.Scalar)
def sub(e, lhs, rhs, alpha=1):
    dtype = e.dtype
    return binary(e, "sub", lhs, scaled(e, rhs, alpha, dtype), dtype)


@handles(aten.rsub.Tensor, aten.rsub.Scalar)
def rsub(e, lhs, rhs, alpha=1):
    dtype = e.dtype
    return binary(e, "sub", rhs, scaled(e, lhs, alpha, dtype), dtype)


@handles(inductor_prims.fma)
def multiply_add(e, a, b, c):
    """What Dynamo makes of `addcmul_` and `addcdiv_`. On the CPU PyTorch rounds the product, too."""
    return binary(e, "add", binary(e, "mul", a, b, e.dtype), c, e.dtype)


@handles(aten.div.Tensor, aten.div.Scalar, aten.true_divide.Tensor, aten.true_divide.Scalar)
def div(e, lhs, rhs):
    return binary(e, "div", lhs, rhs, e.dtype)


def floor_divide_float(e, x, y):
    """PyTorch's div_floor: (x - fmod(x, y)) / y, minus one where the signs differ, then rounded to an integer."""
    zero, one = e.constant(0.0, x.dtype, x.shape), e.constant(1.0, x.dtype, x.shape)
    remainder = e.op("rem", x, y)
    quotient = e.op("div", e.op("sub", x, remainder), y)
    adjust = e.op(
        "and", e.compare(remainder, zero, "ne"), e.op("xor", e.compare(y, zero, "lt"), e.compare(remainder, zero, "lt"))
    )
    quotient = e.select(adjust, e.op("sub", quotient, one), quotient)
    floor = e.op("floor", quotient)
    half = e.constant(0.5, x.dtype, x.shape)
    floor = e.select(e.compare(e.op("sub", quotient, floor), half, "gt"), e.op("add", floor, one), floor)
    exact = e.op("div", x, y)
    signed_zero = e.op("mul", exact, zero)
    result = e.select(e.compare(quotient, zero, "ne"), floor, signed_zero)
    return e.select(e.compare(y, zero, "eq"), exact, result)


def floor_divide_int(e, x, y):
    zero = e.constant(0, x.dtype, x.shape)
    quotient, remainder = e.op("div", x, y), e.op("rem", x, y)
    adjust = e.op(
        "and", e.compare(remainder, zero, "ne"), e.op("xor", e.compare(y, zero, "lt"), e.compare(remainder, zero, "lt"))
    )
    return e.select(adjust, e.op("sub", quotient, e.constant(1, x.dtype, x.shape)), quotient)


def through_f32(dtype):
    return F32 if is_narrow_float(dtype) else dtype


@handles(aten.div.Tensor_mode, aten.div.Scalar_mode)
def div_mode(e, lhs, rhs, rounding_mode=None):
    if rounding_mode is None:
        return div(e, lhs, rhs)
    dtype = e.dtype
    x, y = e.pair(lhs, rhs, through_f32(dtype))
    if rounding_mode == "trunc":
        quotient = e.op("div", x, y)
        return e.convert(truncate(e, quotient) if is_float(dtype) else quotient, dtype)
    return e.convert((floor_divide_float if is_float(dtype) else floor_divide_int)(e, x, y), dtype)


@handles(aten.floor_divide.default)
def floor_divide(e, lhs, rhs):
    return div_mode(e, lhs, rhs, "floor")


@handles(aten.remainder.Tensor, aten.remainder.Scalar, aten.remainder.Scalar_Tensor)
def remainder(e, lhs, rhs):
    dtype = e.dtype
    x, y = e.pair(lhs, rhs, through_f32(dtype))
    zero = e.constant(0, x.dtype, x.shape)
    result = e.op("rem", x, y)
    adjust = e.op(
        "and", e.compare(result, zero, "ne"), e.op("xor", e.compare(y, zero, "lt"), e.compare(result, zero, "lt"))
    )
    return e.convert(e.select(adjust, e.op("add", result, y), result), dtype)


# ---- powers ------------------------------------------------------------------------------------


@handles(aten.pow.Tensor_Scalar)
def pow_scalar(e, x, exponent):
    dtype = e.dtype
    x = e.convert(x, dtype)
    if exponent == 2:
        return e.op("mul", x, x)
    wide = e.convert(x, through_f32(dtype))
    if exponent == 3:
        return e.convert(e.op("mul", e.op("mul", wide, wide), wide), dtype)
    if exponent == 1:
        return x
    if is_float(dtype):
        if exponent == 0.5:
            return e.op("sqrt", x)
        if exponent == -0.5:
            return e.op("rsqrt", x)
        if exponent in (-1, -2):
            square = e.op("mul", wide, wide) if exponent == -2 else wide
            return e.convert(e.op("div", e.constant(1.0, wide.dtype, wide.shape), square), dtype)
    return binary(e, "pow", x, exponent, dtype)


@handles(aten.pow.Tensor_Tensor, aten.pow.Scalar)
def pow_tensor(e, lhs, rhs):
    return binary(e, "pow", lhs, rhs, e.dtype)


@handles(aten.square.default)
def square(e, x):
    return pow_scalar(e, x, 2)


@handles(aten.reciprocal.default)
def reciprocal(e, x):
    return binary(e, "div", 1.0, x, e.dtype)


# ---- comparisons and logic ------------------------------------------------------------------------


def promoted(e, lhs, rhs):
    """The dtype to which both operands are promoted."""

    def stand_in(node_argument, value):
        return node_argument.meta["val"] if isinstance(node_argument, torch.fx.Node) else value

    return dtypes.number(torch.result_type(stand_in(e.node.args[0], lhs), stand_in(e.node.args[1], rhs)))


def comparison(direction, *overloads):
    @handles(*overloads)
    def handler(e, lhs, rhs):
        dtype = promoted(e, lhs, rhs)
        return e.compare(*e.pair(lhs, rhs, dtype), direction)


for _name in ("eq", "ne", "lt", "le", "gt", "ge"):
    comparison(_name, getattr(aten, _name).Tensor, getattr(aten, _name).Scalar)


def logical(name, *overloads):
    @handles(*overloads)
    def handler(e, lhs, rhs):
        lhs, rhs = e.convert(lhs, I1), e.convert(rhs, I1)
        return e.op(name, *e.pair(lhs, rhs, I1))


logical("and", aten.logical_and.default)
logical("or", aten.logical_or.default)
logical("xor", aten.logical_xor.default)


@handles(aten.logical_not.default)
def logical_not(e, x):
    return e.op("not", e.convert(x, I1))


@handles(aten.bitwise_not.default)
def bitwise_not(e, x):
    return e.op("not", x)


@handles(aten.isnan.default)
def isnan(e, x):
    return e.compare(x, x, "ne")


@handles(aten.isinf.default)
def isinf(e, x):
    if not is_float(x.dtype):
        return e.constant(False, I1, x.shape)
    return e.compare(e.op("abs", x), e.constant(math.inf, x.dtype, x.shape), "eq")


@handles(aten.where.self, aten.where.ScalarSelf, aten.where.ScalarOther, aten.where.Scalar)
def where(e, predicate, on_true, on_false):
    dtype = e.dtype
    shape = broadcast_shapes(*[v.shape for v in (predicate, on_true, on_false) if isinstance(v, Value)])
    operands = e.node.args[1:]
    result = e.select(e.tensor(predicate, I1, shape), e.tensor(on_true, dtype, shape), e.tensor(on_false, dtype, shape))
    hidden = scalar_of(operands[1])
    if scalar_of(operands[0]) == 0 and hidden is not None and hidden < 0:
        e.boolean_masks[result.id] = predicate, hidden
    return result


def scalar_of(argument):
    """The number that every element of a node's argument has, or None."""
    if isinstance(argument, SCALAR):
        return argument
    if isinstance(argument, torch.fx.Node) and argument.op == "call_function":
        if argument.target is aten.scalar_tensor.default and isinstance(argument.args[0], SCALAR):
            return argument.args[0]
        if argument.target is aten.full.default and isinstance(argument.args[1], SCALAR):
            return argument.args[1]
    return None


@handles(aten.masked_fill.Scalar, aten.masked_fill.Tensor)
def masked_fill(e, x, mask, value):
    shape = broadcast_shapes(x.shape, mask.shape)
    return e.select(e.tensor(mask, I1, shape), e.tensor(value, x.dtype, shape), e.tensor(x, x.dtype, shape))


# ---- the rest ----------------------------------------------------------------------------------


@handles(aten.abs.default)
def absolute(e, x):
    return x if x.dtype == I1 or dtypes.is_unsigned(x.dtype) else e.op("abs", x)


@handles(aten.neg.default)
def neg(e, x):
    return e.op("neg", x)


@handles(aten.sign.default)
def sign(e, x):
    if not is_float(x.dtype):
        return x if x.dtype == I1 else e.op("sign", x)
    return e.select(isnan(e, x), e.constant(0.0, x.dtype, x.shape), e.op("sign", x))  # PyTorch gives 0 for NaN


def truncate(e, x):
    if not is_float(x.dtype):
        return x
    return e.select(e.compare(x, e.constant(0.0, x.dtype, x.shape), "lt"), e.op("ceil", x), e.op("floor", x))


handles(aten.trunc.default)(truncate)


def rounding(name):
    @handles(getattr(aten, name).default)
    def handler(e, x):
        return e.op(name, x) if is_float(x.dtype) else x


for _name in ("floor", "ceil", "round"):
    rounding(_name)


@handles(aten.relu.default)
def relu(e, x):
    return e.op("relu", x)


@handles(aten.silu.default)
def silu(e, x):
    return e.op("silu", x)


@handles(aten.gelu.default)
def gelu(e, x, approximate="none"):
    return e.op("gelu", x, approximate=approximate)


@handles(aten.leaky_relu.default)
def leaky_relu(e, x, slope=0.01):
    scaled_x = binary(e, "mul", x, slope, x.dtype)
    return e.select(e.compare(x, e.constant(0, x.dtype, x.shape), "gt"), x, scaled_x)


@handles(aten.elu.default)
def elu(e, x, alpha=1.0, scale=1.0, input_scale=1.0):
    dtype = x.dtype
    x = e.convert(x, through_f32(dtype))
    zero = e.constant(0.0, x.dtype, x.shape)
    negative = binary(
        e, "mul", e.op("expm1", binary(e, "mul", x, float(input_scale), x.dtype)), float(alpha * scale), x.dtype
    )
    return e.convert(e.select(e.compare(x, zero, "gt"), binary(e, "mul", x, float(scale), x.dtype), negative), dtype)


@handles(aten.clamp.default, aten.clamp.Tensor)
def clamp(e, x, minimum=None, maximum=None):
    dtype = e.dtype
    result = e.convert(x, dtype)
    if minimum is not None:
        result = e.op("max", *e.pair(result, minimum, dtype))
    if maximum is not None:
        result = e.op("min", *e.pair(result, maximum, dtype))
    return result


@handles(aten.hardtanh.default)
def hardtanh(e, x, minimum=-1, maximum=1):
    return clamp(e, x, minimum, maximum)


@handles(aten.clamp_min.default, aten.clamp_min.Tensor)
def clamp_min(e, x, minimum):
    return clamp(e, x, minimum)


@handles(aten.clamp_max.default, aten.clamp_max.Tensor)
def clamp_max(e, x, maximum):
    return clamp(e, x, None, maximum)


@handles(aten._to_copy.default)
def to_copy(e, x, dtype=None, layout=None, device=None, pin_memory=None, non_blocking=False, memory_format=None):
    if pin_memory:
        raise Unsupported("pinned memory")
    return x if dtype is None else e.convert(x, dtypes.number(dtype))


@handles(torch.ops.prims.convert_element_type.default)
def convert_element_type(e, x, dtype):
    return e.convert(x, dtypes.number(dtype))


# ---- signs, NaN and decimals -----------------------------------------------------------------------


@handles(aten.signbit.default)
def signbit(e, x):
    if is_float(x.dtype):  # the sign of zeros and NaN counts too
        x = e.op("copysign", e.constant(1.0, x.dtype, x.shape), x)
    return e.compare(x, e.constant(0, x.dtype, x.shape), "lt")


binary_plain("copysign", aten.copysign.Tensor, aten.copysign.Scalar)


def nan_aside(name, overload):
    @handles(overload)
    def handler(e, lhs, rhs):
        dtype = e.dtype
        lhs, rhs = e.pair(lhs, rhs, dtype)
        result = e.op(name, lhs, rhs)
        if not is_float(dtype):
            return result
        result = e.select(isnan(e, lhs), rhs, result)
        return e.select(isnan(e, rhs), lhs, result)


nan_aside("max", aten.fmax.default)
nan_aside("min", aten.fmin.default)


@handles(aten.round.decimals)
def round_decimals(e, x, decimals):
    if not is_float(x.dtype):
        return x
    dtype = x.dtype
    x = e.convert(x, through_f32(dtype))
    factor = e.constant(10.0 ** abs(decimals), x.dtype, x.shape)
    to, back = ("div", "mul") if decimals < 0 else ("mul", "div")
    return e.convert(e.op(back, e.op("round", e.op(to, x, factor)), factor), dtype)


@handles(aten.angle.default)
def angle(e, x):
    dtype = e.dtype
    x = e.convert(x, dtype)
    zero = e.constant(0.0, dtype, x.shape)
    result = e.select(e.compare(x, zero, "lt"), e.constant(math.pi, dtype, x.shape), zero)
    return e.select(isnan(e, x), x, result)


@handles(aten.hypot.default)
def hypot(e, lhs, rhs):
    """Scaled by the larger operand, so that squares neither overflow nor underflow."""
    dtype = e.dtype
    lhs, rhs = (e.op("abs", v) for v in e.pair(lhs, rhs, through_f32(dtype)))
    large, small = e.op("max", lhs, rhs), e.op("min", lhs, rhs)
    one, infinity = e.constant(1.0, large.dtype, large.shape), e.constant(math.inf, large.dtype, large.shape)
    ratio = e.op("div", small, large)
    result = e.op("mul", large, e.op("sqrt", e.op("add", one, e.op("mul", ratio, ratio))))
    result = e.select(e.compare(large, e.constant(0.0, large.dtype, large.shape), "eq"), large, result)
    infinite = e.op("or", e.compare(lhs, infinity, "eq"), e.compare(rhs, infinity, "eq"))
    return e.convert(e.select(infinite, infinity, result), dtype)


def euclid(e, x, y):
    """gcd, by as many steps as the dtype's worst pair (consecutive Fibonacci numbers) takes."""
    signed = not dtypes.is_unsigned(x.dtype)
    x, y = (e.op("abs", v) if signed else v for v in (x, y))
    zero = e.constant(0, x.dtype, x.shape)
    for _ in range({64: 92, 32: 46, 16: 23, 8: 13}[dtypes.bits(x.dtype)]):
        done = e.compare(y, zero, "eq")
        x, y = e.select(done, x, y), e.select(done, zero, e.op("rem", x, y))
    return e.op("abs", x) if signed else x


@handles(aten.gcd.default)
def gcd(e, x, y):
    return euclid(e, *e.pair(x, y, e.dtype))


@handles(aten.lcm.default)
def lcm(e, x, y):
    x, y = e.pair(x, y, e.dtype)
    common = euclid(e, x, y)
    zero, one = e.constant(0, x.dtype, x.shape), e.constant(1, x.dtype, x.shape)
    none = e.compare(common, zero, "eq")
    result = e.op("mul", e.op("div", x, e.select(none, one, common)), y)
    result = result if dtypes.is_unsigned(x.dtype) else e.op("abs", result)
    return e.select(none, zero, result)
