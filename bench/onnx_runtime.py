# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""ONNX Runtime under the judge (outside.py): each case becomes a model of one ONNX operator, or a few of the same meaning, for its CPU
provider. Cases that ONNX leaves undefined are refused: indices out of range, integers that a type does not hold, division by 0."""

from __future__ import annotations

import math
from dataclasses import dataclass

import ml_dtypes
import numpy as np
import onnxruntime
import outside
from onnx import TensorProto, helper
from onnxruntime.capi import onnxruntime_pybind11_state as pybind
from outside import Refused

OPSET, IR_VERSION = 26, 10  # the newest that ONNX Runtime 1.31 reads
# By element type: ONNX's, and the one of NumPy that holds the bits. i4 is packed, and NumPy's arrays of it are not.
TYPES = {"f64": (TensorProto.DOUBLE, np.float64), "f32": (TensorProto.FLOAT, np.float32), "f16": (TensorProto.FLOAT16, np.float16),
         "bf16": (TensorProto.BFLOAT16, np.uint16), "f8E4M3FN": (TensorProto.FLOAT8E4M3FN, np.uint8),
         "f8E5M2": (TensorProto.FLOAT8E5M2, np.uint8), "i64": (TensorProto.INT64, np.int64), "i32": (TensorProto.INT32, np.int32),
         "i16": (TensorProto.INT16, np.int16), "i8": (TensorProto.INT8, np.int8), "ui8": (TensorProto.UINT8, np.uint8),
         "ui16": (TensorProto.UINT16, np.uint16), "i1": (TensorProto.BOOL, np.bool_)}
ERRORS = tuple(made for made in vars(pybind).values() if isinstance(made, type) and issubclass(made, Exception))  # no common base
NARROW = {"f16": np.float16, "bf16": ml_dtypes.bfloat16, "f8E4M3FN": ml_dtypes.float8_e4m3fn, "f8E5M2": ml_dtypes.float8_e5m2}


@dataclass
class Tensor:
    """A value of the model. An input has its elements, too."""

    name: str
    dtype: str
    dims: list[int]
    data: np.ndarray | None = None

    @property
    def rank(self) -> int:
        return len(self.dims)

    def is_float(self) -> bool:
        return self.dtype.startswith(("f", "bf"))


class Model:
    """The nodes of a model, as they are written down."""

    def __init__(self, attributes: dict, result: dict):
        self.attributes, self.result = attributes, result
        self.nodes, self.constants = [], []

    def __getitem__(self, name: str):
        return self.attributes[name]

    def node(self, op: str, *operands, **attributes) -> str:
        """Operands are values, names of values, or None. Returns the name of the first result."""
        name = f"v{len(self.nodes)}"
        while operands and operands[-1] is None:  # an empty name at the end, which ONNX allows, crashes LayerNormalization
            operands = operands[:-1]
        names = ["" if value is None else value if isinstance(value, str) else value.name for value in operands]
        self.nodes.append(helper.make_node(op, names, [name], **attributes))
        return name

    def constant(self, numbers, dtype: str = "i64") -> str:
        name = f"c{len(self.constants)}"
        number, storage = TYPES[dtype]
        array = np.asarray(numbers, storage)
        self.constants.append(helper.make_tensor(name, number, array.shape, array.flatten()))
        return name

    def cast(self, value, dtype: str) -> str:
        return self.node("Cast", value, to=TYPES[dtype][0], saturate=0) if "f8" in dtype else self.node("Cast", value, to=TYPES[dtype][0])

    def reshaped(self, value, dims) -> str:
        return self.node("Reshape", value, self.constant(dims), allowzero=1)


# ---- Elementwise


def same(op: str, **attributes):
    return lambda m, *operands: m.node(op, *operands, **attributes)


def of_kind(number: str | None, boolean: str | None, integer: str | None = None):
    """An operator by the operands' element type; `integer`: where it is not that of floats."""
    def make(m, *operands):
        dtype = operands[0].dtype
        op = boolean if dtype == "i1" else number if operands[0].is_float() or not integer else integer
        if op is None:
            raise Refused(f"no such operator of {dtype}")
        return m.node(op, *operands)

    return make


def divided(op: str, **attributes):
    def make(m, a, b):
        if not b.is_float() and np.any((b.data == 0) | ((b.data == -1) & (a.data == np.iinfo(a.data.dtype).min))):
            raise Refused("integers divided by 0, or the least by -1")
        return m.node(op, a, b, **attributes)

    return make


def power(m, a, b):
    if not a.is_float():
        raise Refused("powers of integers that overflow")
    return m.node("Pow", a, b)


def shifted(direction: str):
    def make(m, x, by):
        if np.any(by.data >= 8 * by.data.itemsize):
            raise Refused("shifts by the width or more")
        return m.node("BitShift", x, by, direction=direction)

    return make


def compared(m, a, b):
    direction = m["direction"]
    if direction == "ne":
        return m.node("Not", m.node("Equal", a, b))
    return m.node({"eq": "Equal", "lt": "Less", "le": "LessOrEqual", "gt": "Greater", "ge": "GreaterOrEqual"}[direction], a, b)


def converted(m, x):
    to = m["dtype"]
    if to not in TYPES:
        raise Refused(f"no {to}")
    if x.is_float() and not to.startswith(("f", "bf")) and to != "i1":
        if x.dtype not in ("f64", "f32", "f16"):
            raise Refused("numbers that an integer may not hold")
        least = np.iinfo(TYPES[to][1])
        wide = x.data.astype(np.float64)
        if not np.all((wide > least.min - 1.0) & (wide < float(least.max) + (1 if least.max < 2**53 else 0))):
            raise Refused("numbers that the integer does not hold")
    return m.cast(x, to)


def scaled_log(base: float):
    def make(m, x):
        wide = "f64" if x.dtype == "f64" else "f32"
        return m.node("Mul", m.node("Log", x), m.constant(1 / math.log(base), wide))

    return make


def exp2(m, x):
    return m.node("Pow", m.constant(2, "f64" if x.dtype == "f64" else "f32"), x)


def gelu(m, x):
    if x.dtype == "f64":
        raise Refused("f64, for which ONNX's definition has constants of f32")
    return m.node("Gelu", x, approximate=m["approximate"])


def silu(m, x):
    return m.node("Mul", x, m.node("Sigmoid", x))


# ---- Products and windows


def dot(m, a, b):
    is_matmul = m["lhs_batch"] == m["rhs_batch"] == list(range(a.rank - 2)) and m["lhs_contract"] == [a.rank - 1]
    if a.rank == b.rank >= 2 and is_matmul and m["rhs_contract"] == [a.rank - 2]:
        return m.node("MatMul", a, b)
    if 0 in (*a.dims, *b.dims):
        raise Refused("Einsum of no elements, which ends ONNX Runtime's process")
    return m.node("Einsum", a, b, equation=outside.equation(m, a.rank, b.rank))


def linear(m, x, weight, bias):
    if x.rank == 2:
        return m.node("Gemm", x, weight, bias, transB=int(not m["weight_transposed"]))
    product = m.node("MatMul", x, weight if m["weight_transposed"] else m.node("Transpose", weight, perm=[1, 0]))
    return m.node("Add", product, bias) if bias else product


def windows(m) -> dict:
    return {"strides": m["strides"], "dilations": m["dilations"], "pads": m["low"] + m["high"]}


def convolution(m, x, weight):
    return m.node("Conv", x, weight, kernel_shape=weight.dims[2:], group=m["groups"], **windows(m))


def fused_convolution(m, x, weight, scale, bias):
    wide = [1, -1] + [1] * (x.rank - 2)
    y = convolution(m, x, weight)
    for op, operand in (("Mul", scale), ("Add", bias)):
        if operand:
            y = m.node(op, y, m.reshaped(operand, wide))
    return {"none": lambda v: v, "relu": lambda v: m.node("Relu", v), "silu": lambda v: silu(m, v), "gelu": lambda v: m.node("Gelu", v),
            "gelu_tanh": lambda v: m.node("Gelu", v, approximate="tanh")}[m["activation"]](y)


def max_pool(m, x):
    return m.node("MaxPool", x, kernel_shape=m["window"], **windows(m))


def sum_pool(m, x):
    """A convolution of each channel with ones, because AveragePool divides and multiplying again would round."""
    if not x.is_float():
        raise Refused("convolutions of integers")
    ones = np.ones([x.dims[1], 1, *m["window"]])
    return m.node("Conv", x, m.constant(ones, x.dtype), kernel_shape=m["window"], group=x.dims[1], **windows(m))


def attention(m, q, k, v, mask):
    if mask and mask.dtype == "i1" and not mask.data.any(-1).all():
        raise Refused("rows that see no key")
    return m.node("Attention", q, k, v, mask, is_causal=int(m["causal"]), scale=m["scale"])


def rope(m, x, cos, sin):
    def part(value, begin, step, end):
        return m.node("Slice", value, m.constant([begin]), m.constant([end]), m.constant([-1]), m.constant([step]))

    length = x.dims[-1]
    if m["interleaved"]:
        pairs = [m.node("Unsqueeze", part(x, at, 2, length), m.constant([-1])) for at in (1, 0)]
        turned = m.reshaped(m.node("Concat", m.node("Neg", pairs[0]), pairs[1], axis=-1), x.dims)
    else:
        turned = m.node("Concat", m.node("Neg", part(x, length // 2, 1, length)), part(x, 0, 1, length // 2), axis=-1)
    return m.node("Add", m.node("Mul", x, cos), m.node("Mul", turned, sin))


# ---- Along axes


def reduced(op: str):
    def make(m, x):
        if not math.prod(x.dims) and m.result["dtype"] == "f8E4M3FN":
            raise Refused("reductions of nothing in a type without infinities")
        return m.node(op, x, m.constant(np.asarray(m["axes"], np.int64)), keepdims=0, noop_with_empty_axes=1)

    return make


def mean(m, x):
    if not math.prod(x.dims):
        raise Refused("means of nothing")
    return reduced("ReduceMean")(m, x)


def chosen(op: str):
    return lambda m, x: m.node(op, x, axis=m["axis"], keepdims=0)


def running(op: str):
    return lambda m, x: m.node(op, x, m.constant(m["axis"]))


def along(op: str):
    return lambda m, x: m.node(op, x, axis=m["axis"])


def epsilon(m, x) -> float:
    if x.dtype == "f64" and float(np.float32(m["epsilon"])) != m["epsilon"]:
        raise Refused("an epsilon that f32, the type of ONNX's attributes, does not hold")
    return m["epsilon"]


def layer_norm(m, x, scale, bias):
    scale = scale or m.constant(np.ones(x.dims[m["axis"]:]), x.dtype)
    return m.node("LayerNormalization", x, scale, bias, axis=m["axis"], epsilon=epsilon(m, x))


def rms_norm(m, x, scale):
    scale = scale or m.constant(np.ones(x.dims[m["axis"]:]), x.dtype)
    return m.node("RMSNormalization", x, scale, axis=m["axis"], epsilon=epsilon(m, x))


def group_norm(m, x, scale, bias):
    scale, bias = scale or m.constant(np.ones(x.dims[1]), x.dtype), bias or m.constant(np.zeros(x.dims[1]), x.dtype)
    return m.node("GroupNormalization", x, scale, bias, num_groups=m["groups"], epsilon=epsilon(m, x))


def batch_norm(m, x, scale, bias, mean, variance):
    scale, bias = scale or m.constant(np.ones(x.dims[1]), x.dtype), bias or m.constant(np.zeros(x.dims[1]), x.dtype)
    return m.node("BatchNormalization", x, scale, bias, mean, variance, epsilon=epsilon(m, x))


def cross_entropy(m, logits, targets):
    classes = logits.dims[-1]
    if m["label_smoothing"]:
        raise Refused("smoothed labels")
    if np.any((targets.data != m["ignore_index"]) & ((targets.data < 0) | (targets.data >= classes))):
        raise Refused("targets out of range")
    if not math.prod(logits.dims):
        raise Refused("rows of nothing")
    rows, flat = m.reshaped(logits, [targets.data.size, classes]), m.reshaped(targets, [targets.data.size])
    loss = m.node("SoftmaxCrossEntropyLoss", rows, flat, None, reduction=m["reduction"], ignore_index=m["ignore_index"])
    return m.reshaped(loss, targets.dims) if m["reduction"] == "none" else loss


# ---- Indexing


def check_range(indices: Tensor, extents) -> None:
    if np.any((indices.data < -np.asarray(extents)) | (indices.data >= np.asarray(extents))):
        raise Refused("indices out of range")


def take(m, x, indices):
    axis = m.attributes.get("axis", 0)
    check_range(indices, x.dims[axis])
    return m.node("Gather", x, indices, axis=axis)


def take_along(m, x, indices):
    check_range(indices, x.dims[m["axis"]])
    return m.node("GatherElements", x, indices, axis=m["axis"])


def take_nd(m, x, indices):
    check_range(indices, x.dims[: indices.dims[-1]])
    return m.node("GatherND", x, indices)


def reduction(m, x) -> str:
    if x.dtype == "i1" and m["mode"] != "set":
        raise Refused("no reductions of i1")
    return {"set": "none"}.get(m["mode"], m["mode"])


def distinct(m, indices: np.ndarray) -> None:
    if m["mode"] == "set" and np.unique(indices, axis=0).shape[0] != indices.shape[0]:
        raise Refused("an element is set twice")


def scatter_along(m, x, indices, updates):
    extent, axis = x.dims[m["axis"]], m["axis"]
    check_range(indices, extent)
    places = np.indices(indices.dims).reshape(len(indices.dims), -1)
    places[axis] = indices.data.reshape(-1) % max(extent, 1)
    distinct(m, places.T)
    return m.node("ScatterElements", x, indices, updates, axis=axis, reduction=reduction(m, x))


def scatter_nd(m, x, indices, updates):
    leading = x.dims[: indices.dims[-1]]
    check_range(indices, leading)
    distinct(m, indices.data.reshape(-1, indices.dims[-1]) % np.maximum(leading, 1))
    return m.node("ScatterND", x, m.cast(indices, "i64"), updates, reduction=reduction(m, x))


def put(m, x, indices, updates):
    extent, axis = x.dims[m["axis"]], m["axis"]
    check_range(indices, extent)
    distinct(m, indices.data.reshape(-1, 1) % max(extent, 1))
    shape = [1] * x.rank
    shape[axis] = indices.dims[0]
    everywhere = m.node("Expand", m.reshaped(indices, shape), m.constant(updates.dims))
    return m.node("ScatterElements", x, everywhere, updates, axis=axis, reduction=reduction(m, x))


# ---- Shape


def reshape(m, x):
    return m.reshaped(x, m.result["dims"])


def broadcast(m, x):
    shape = [1] * len(m.result["dims"])
    for extent, axis in zip(x.dims, m["axes"], strict=True):
        shape[axis] = extent
    return m.node("Expand", m.reshaped(x, shape), m.constant(m.result["dims"]))


def sliced(m, x):
    axes = list(range(x.rank))
    return m.node("Slice", x, m.constant(m["starts"]), m.constant(m["limits"]), m.constant(axes), m.constant(m["strides"]))


def padded(m, x, value):
    if any(m["interior"]):
        raise Refused("padding between neighbours")
    return m.node("Pad", x, m.constant(m["low"] + m["high"]), value, mode="constant")


def reverse(m, x):
    count, ends = len(m["axes"]), np.iinfo(np.int64).min
    return m.node("Slice", x, m.constant([-1] * count), m.constant([ends] * count), m.constant(m["axes"]), m.constant([-1] * count))


# ---- Quantisation


def granularity(m, of: list[int], scale: Tensor) -> tuple[list[int], dict]:
    """The shape of `scale` for ONNX, and the attributes that say what it belongs to."""
    long = [axis for axis, extent in enumerate(scale.dims) if extent != 1]
    if not long:
        return [], {}
    if len(long) == 1 and scale.dims[long[0]] == of[long[0]]:
        return [of[long[0]]], {"axis": long[0]}
    split = [axis for axis, (extent, whole) in enumerate(zip(scale.dims, of, strict=True)) if extent != whole]
    if len(split) == 1:
        return scale.dims, {"axis": split[0], "block_size": of[split[0]] // scale.dims[split[0]]}
    raise Refused("groups along several axes")


def zero_of(m, zero: Tensor | None, shape, dtype: str):
    if zero and zero.dtype != dtype:
        raise Refused("zero points of another type")
    return m.reshaped(zero, shape) if zero else None


def quantize(m, x, scale, zero):
    to = m["dtype"]
    if to not in TYPES:
        raise Refused(f"no {to}")
    if to.startswith("f8"):
        raise Refused("numbers beyond the largest finite one")
    if x.dtype not in ("f32", "f16") or np.isnan(x.data).any() or np.isinf(x.data).any():
        raise Refused("NaN and infinities as integers")
    shape, where = granularity(m, x.dims, scale)
    zero = zero_of(m, zero, shape, to)
    return m.node("QuantizeLinear", x, m.reshaped(scale, shape), zero, output_dtype=TYPES[to][0], **where)


def dequantize(m, x, scale, zero):
    shape, where = granularity(m, x.dims, scale)
    return m.node("DequantizeLinear", x, m.reshaped(scale, shape), zero_of(m, zero, shape, x.dtype), **where)


def quantized_linear(m, x, weight, scale, zero, bias):
    inner = 0 if m["weight_transposed"] else 1
    if scale.rank == 1:
        shape, where = scale.dims, {"axis": 1 - inner}
    elif scale.rank == 2:
        shape, where = scale.dims, {"axis": inner, "block_size": weight.dims[inner] // max(scale.dims[inner], 1)}
    else:
        shape, where = [], {}
    wide = m.node("DequantizeLinear", weight, scale, zero_of(m, zero, shape, weight.dtype), **where)
    product = m.node("MatMul", x, wide if m["weight_transposed"] else m.node("Transpose", wide, perm=[1, 0]))
    return m.node("Add", product, bias) if bias else product


# What keeps bits or is about types: in all that ONNX Runtime has kernels for.
AS_THEY_ARE = {
    "neg": same("Neg"), "select": same("Where"), "convert": converted, "take": take, "take_along": take_along, "take_nd": take_nd,
    "embedding": take, "reshape": reshape, "transpose": lambda m, x: m.node("Transpose", x, perm=m["permutation"]),
    "broadcast": broadcast, "slice": sliced, "concatenate": lambda m, *x: m.node("Concat", *x, axis=m["axis"]), "pad": padded,
    "reverse": reverse, "quantize": quantize, "dequantize": dequantize}
# One operator, which rounds once. Narrow types other than f16 are widened to f32 and the result is rounded, both outside of ONNX Runtime.
ONE = {name: same(op) for name, op in {
    "exp": "Exp", "log": "Log", "sin": "Sin", "cos": "Cos", "tan": "Tan", "asin": "Asin", "acos": "Acos", "atan": "Atan", "sinh": "Sinh",
    "cosh": "Cosh", "asinh": "Asinh", "acosh": "Acosh", "atanh": "Atanh", "tanh": "Tanh", "erf": "Erf", "logistic": "Sigmoid",
    "sqrt": "Sqrt", "floor": "Floor", "ceil": "Ceil", "sign": "Sign", "abs": "Abs", "round": "Round", "relu": "Relu"}.items()} | {
    "not": of_kind(None, "Not", "BitwiseNot"), "and": of_kind(None, "And", "BitwiseAnd"), "or": of_kind(None, "Or", "BitwiseOr"),
    "xor": of_kind(None, "Xor", "BitwiseXor"), "add": of_kind("Add", "Or"), "sub": same("Sub"), "mul": of_kind("Mul", "And"),
    "max": of_kind("Max", "Or"), "min": of_kind("Min", "And"), "div": divided("Div"), "rem": divided("Mod", fmod=1), "pow": power,
    "shift_left": shifted("LEFT"), "shift_right": shifted("RIGHT"), "compare": compared,
    "gelu": gelu, "dot": dot, "convolution": convolution, "max_pool": max_pool,
    "sum_pool": sum_pool, "reduce_sum": reduced("ReduceSum"), "reduce_prod": reduced("ReduceProd"), "reduce_max": reduced("ReduceMax"),
    "reduce_min": reduced("ReduceMin"), "mean": mean, "argmax": chosen("ArgMax"), "argmin": chosen("ArgMin"),
    "cumsum": running("CumSum"), "cumprod": running("CumProd"), "softmax": along("Softmax"), "log_softmax": along("LogSoftmax"),
    "layer_norm": layer_norm, "rms_norm": rms_norm, "batch_norm": batch_norm,
    "scatter_along": scatter_along, "scatter_nd": scatter_nd, "put": put}
# Several operators, which would each round, so that f16 is widened, too. ONNX defines the last three as several.
SEVERAL = {"rsqrt": lambda m, x: m.node("Reciprocal", m.node("Sqrt", x)), "log2": scaled_log(2), "log10": scaled_log(10), "exp2": exp2,
           "silu": silu, "swiglu": lambda m, gate, up: m.node("Mul", silu(m, gate), up), "linear": linear,
           "fused_convolution": fused_convolution, "rope": rope, "quantized_linear": quantized_linear,
           "group_norm": group_norm, "cross_entropy": cross_entropy, "attention": attention}
NAMES = [*AS_THEY_ARE, *ONE, *SEVERAL]


def widened(name: str, attributes: dict) -> tuple:
    """The element types that an op does not have in ONNX Runtime."""
    keeps_bits = name in AS_THEY_ARE or attributes.get("mode") == "set"
    return () if keeps_bits else tuple(NARROW) if name in SEVERAL else tuple(NARROW)[1:]


def built(case: dict, inputs: list[Tensor | None], dtype: str) -> bytes:
    """The model of a case, whose result has the element type."""
    m = Model(case["attributes"], case["result"])
    made = m.node("Identity", (AS_THEY_ARE | ONE | SEVERAL)[case["op"].partition(".")[2]](m, *inputs))
    given = [helper.make_tensor_value_info(of.name, TYPES[of.dtype][0], of.dims) for of in inputs if of]
    graph = helper.make_graph(m.nodes, "case", given, [helper.make_tensor_value_info(made, TYPES[dtype][0], case["result"]["dims"])],
                              m.constants)
    model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", OPSET)], ir_version=IR_VERSION)
    return model.SerializeToString()


def settings() -> onnxruntime.SessionOptions:
    made = onnxruntime.SessionOptions()
    made.log_severity_level = 4  # what is refused is raised as well
    made.intra_op_num_threads = 1
    return made


def tensor(place: int, type: dict, data: bytearray, wide: tuple) -> Tensor:
    dtype = type["dtype"]
    if dtype not in TYPES:
        raise Refused(f"no {dtype}")
    array = np.frombuffer(data, NARROW[dtype] if dtype in wide else TYPES[dtype][1]).reshape(type["dims"])
    if dtype in wide:
        dtype, array = "f32", array.astype(np.float32)
    return Tensor(f"x{place}", dtype, type["dims"], array)


def compute(case: dict, data: list[bytearray | None]) -> np.ndarray:
    name, result = case["op"].partition(".")[2], case["result"]
    if name not in NAMES:
        raise Refused("no such op")
    wide = widened(name, case["attributes"])
    inputs = [None if type is None else tensor(i, type, of, () if (name, i) == ("quantized_linear", 1) else wide)  # it stays quantised
              for i, (type, of) in enumerate(zip(case["operands"], data, strict=True))]
    if result["dtype"] not in TYPES:
        raise Refused(f"no {result['dtype']}")
    dtype = "f32" if result["dtype"] in wide else result["dtype"]
    found = np.full(result["dims"], 1, TYPES[dtype][1])
    try:
        session = onnxruntime.InferenceSession(built(case, inputs, dtype), settings(), providers=["CPUExecutionProvider"])
        binding = session.io_binding()
        used = {of.name for of in session.get_inputs()}
        for of in inputs:
            if of and of.name in used:
                binding.bind_ortvalue_input(of.name, onnxruntime.OrtValue.ortvalue_from_numpy_with_onnx_type(of.data, TYPES[of.dtype][0]))
        output = onnxruntime.OrtValue.ortvalue_from_numpy_with_onnx_type(found, TYPES[dtype][0])
        binding.bind_ortvalue_output(session.get_outputs()[0].name, output)
        session.run_with_iobinding(binding)
    except (RuntimeError, ValueError, *ERRORS) as error:
        raise Refused(str(error).splitlines()[0]) from error
    with np.errstate(over="ignore"):
        return found.astype(NARROW[result["dtype"]]) if result["dtype"] in wide else found


def answer(case: dict, data: list[bytearray | None]) -> bytes:
    return compute(case, data).tobytes()


def judge(*arguments) -> list[dict]:
    """The verdicts on what compute() gives for the cases that the arguments choose."""
    return outside.judge(answer, NAMES, *arguments)
