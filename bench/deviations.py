# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""Where ONNX Runtime's CPU provider is known to give other results than the language asks for. ONNX says nothing of NaN and of the sign of
zero in most operators, nor how exact a function has to be; some entries are plain faults. Each has a proof: numbers that one call shows to
be off, so that an entry ends with the version in which ONNX Runtime was mended."""

from __future__ import annotations

from dataclasses import dataclass, field
from fnmatch import fnmatch

import numpy as np
import onnx_runtime
from onnx_runtime import NARROW, TYPES

# The kit's bound of functions, in ULP; of f64 with the rounding of the exact result (docs/conformance/error-bounds.md).
FUNCTION = {np.dtype(np.float32): 4, np.dtype(np.float64): 4.5}
NUMBERS = {np.dtype(storage): name for name, (_, storage) in TYPES.items() if name not in ("bf16", "f8E4M3FN", "f8E5M2")} | {
    np.dtype(held): name for name, held in NARROW.items()}


@dataclass(frozen=True)
class Deviation:
    cases: str  # a shell pattern of their names
    says: str  # another one, of what the kit says of them
    why: str
    op: str  # of the proof, from here on
    operands: list  # arrays, and None for those left out
    exact: np.ndarray
    attributes: dict = field(default_factory=dict)
    payload: bool = False  # NaNs have to have the same bits
    ulps: float | None = None  # how far a result may be from `exact`, which is in f64 then

    def found(self) -> np.ndarray:
        def type(array):
            return {"dtype": NUMBERS[array.dtype], "dims": list(array.shape)} if array is not None else None

        result = type(self.exact) if self.ulps is None else type(self.operands[0])
        case = {"op": f"mortise.{self.op}", "attributes": self.attributes, "operands": list(map(type, self.operands)), "result": result}
        data = [bytearray(array.tobytes()) if array is not None else None for array in self.operands]
        found = onnx_runtime.compute(case, data)
        return found if self.ulps is not None else found.view(self.exact.dtype)

    def holds(self) -> bool:
        """Whether ONNX Runtime still gives something else."""
        found, exact = self.found(), self.exact
        if self.ulps is not None:
            return bool(np.any(~(np.abs(found - exact) <= self.ulps * np.spacing(np.abs(exact).astype(found.dtype)))))
        same = found.view(f"u{exact.itemsize}") == exact.view(f"u{exact.itemsize}")
        if exact.dtype.kind in "fV" and not self.payload:
            same |= np.isnan(found.astype(np.float64)) & np.isnan(exact.astype(np.float64))
        return not same.all()


def function(cases: str, why: str, op: str, operands: list, exact, attributes: dict | None = None, says: str = "* ULP away; *"):
    """An entry about a function; `exact` is in f64."""
    return Deviation(cases, says, why, op, operands, np.asarray(exact), attributes or {}, ulps=FUNCTION[operands[0].dtype])


def f32(*numbers):
    return np.asarray(numbers, np.float32)


def f64(*numbers):
    return np.asarray(numbers, np.float64)


def i64(*numbers):
    return np.asarray(numbers, np.int64)


def i32(*numbers):
    return np.asarray(numbers, np.int32)


def f16_of_bits(*bits):
    return np.asarray(bits, np.uint16).view(np.float16)


NAN, ANY, SIGN, LOST_NAN = float("nan"), "*", "*, which differs in its sign; *", "*: expected *nan, found *"
FIRST, ZEROTH = {"axes": [0]}, {"axis": 0}
PAIR = {"window": [2], "strides": [1], "low": [0], "high": [0], "dilations": [1]}
# e^-17 / (1 + e^-17) and e^-40 / (1 + e^-40). Operands of functions have 16 elements where other functions compute the end of a vector.
SMALL, SMALLER = 4.1399375473943306e-08, 4.248354255291589e-18
LOGISTIC = "a quotient of polynomials about 1/2, of operands within 18 of 0: small results have an absolute error"
LOGISTIC_F64 = "1 - 1 / (1 + e^x): small results have an absolute error, and become 0"
INTEGERS = "computed in f64"

DEVIATIONS = [
    # Functions
    function("logistic/f64/*", LOGISTIC_F64, "logistic", [f64(-40)], [SMALLER]),
    function("logistic/*", LOGISTIC, "logistic", [f32(-17)], [SMALL]),
    function("silu/f64/*", f"x times {LOGISTIC_F64}", "silu", [f64(-40)], [-40 * SMALLER], says=ANY),
    function("silu/*", f"x times {LOGISTIC}", "silu", [f32(-17)], [-17 * SMALL], says=ANY),
    function("swiglu/f64/*", f"x times {LOGISTIC_F64}", "swiglu", [f64(-40), f64(1)], [-40 * SMALLER], says=ANY),
    function("swiglu/*", f"x times {LOGISTIC}", "swiglu", [f32(-17), f32(1)], [-17 * SMALL], says=ANY),
    function("tanh/f32/*/subnormal/*", "a quotient of polynomials: subnormals lose their last bits before the division", "tanh",
             [f32(*[1e-38] * 16)], [1e-38] * 16),
    function("tanh/f32/*", "a quotient of polynomials: 1.0000002 near 1", "tanh", [f32(*[8.47554] * 16)], [0.9999999130500512] * 16),
    function("tanh/f64/*", "6 ULP near 1", "tanh", [f64(*[8.007722132620469] * 16)], [0.9999997783790164] * 16),
    function("acos/f32/*", "4.3 ULP", "acos", [f32(*[0.5710549] * 16)], [0.9630060400826457] * 16),
    function("asin/f32/*", "4.5 ULP", "asin", [f32(*[0.5004398] * 16)], [0.5241067135768347] * 16),
    function("sin/f64/*", "the argument is reduced with too few bits near multiples of pi", "sin", [f64(*[9.4247] * 16)],
             [7.796076930110931e-05] * 16),
    function("cos/f64/*", "the argument is reduced with too few bits near odd multiples of pi / 2", "cos", [f64(*[7.854] * 16)],
             [-1.8366025515963704e-05] * 16),
    function("group_norm/*", "the variance is the mean of squares less the square of the mean, as ONNX defines it: it cancels",
             "group_norm", [f32([[4096, 4096.5, 4097, 4097.5]]), None, None], [[[-1.3416193, -0.44720644, 0.44720644, 1.3416193]]],
             {"groups": 1, "epsilon": 1e-5}, says=ANY),
    # NaN
    Deviation("log_softmax/f64/*", LOST_NAN, "log(max(1e-20, sum)) loses a sum that is NaN", "log_softmax", [f64([1, NAN, 3])],
              f64([NAN] * 3), {"axis": 1}),
    Deviation("argmax/*/nan/*", ANY, "a NaN behind a number is not seen", "argmax", [f32([1], [NAN])], i64(1), ZEROTH),
    Deviation("argmin/*/nan/*", ANY, "a NaN behind a number is not seen", "argmin", [f32([1], [NAN])], i64(1), ZEROTH),
    Deviation("reduce_max/*", LOST_NAN, "NaN is lost behind a number", "reduce_max", [f32(1, NAN, 3)], np.asarray(NAN, np.float32), FIRST),
    Deviation("reduce_min/*", LOST_NAN, "NaN is lost behind a number", "reduce_min", [f32(1, NAN, 3)], np.asarray(NAN, np.float32), FIRST),
    Deviation("max_pool/*", LOST_NAN, "NaN is lost", "max_pool", [f32([[NAN, 1, 3]])], f32([[NAN, 3]]), PAIR),
    Deviation("scatter_along/*", LOST_NAN, "max and min lose a NaN of the operand", "scatter_along", [f32(NAN), i64(0), f32(1)], f32(NAN),
              {"axis": 0, "mode": "max"}),
    Deviation("scatter_nd/*", LOST_NAN, "max and min lose a NaN of the operand", "scatter_nd", [f32(NAN), i64([0]), f32(1)], f32(NAN),
              {"mode": "max"}),
    Deviation("sign/f16/*", LOST_NAN, "the sign of NaN is 0", "sign", [f16_of_bits(0x7E00)], f16_of_bits(0x7E00)),
    Deviation("select/f16/*", "*: expected the bits 0x*", "a NaN loses its payload on the way through f32", "select",
              [np.asarray([True]), f16_of_bits(0x7EC2), f16_of_bits(0)], f16_of_bits(0x7EC2), payload=True),
    Deviation("pad/f16/*", "*: expected the bits 0x*", "a padding NaN loses its payload on the way through f32", "pad",
              [f16_of_bits(0), f16_of_bits(0x7EC2).reshape(())], f16_of_bits(0x7EC2, 0), {"low": [1], "high": [0], "interior": [0]},
              payload=True),
    # The sign of zero
    Deviation("max/*", SIGN, "of two zeros the first or the second", "max", [f32(0), f32(-0.0)], f32(0)),
    Deviation("min/*", SIGN, "of two zeros the first or the second", "min", [f32(-0.0), f32(0)], f32(-0.0)),
    Deviation("reduce_max/*", SIGN, "of several zeros the first", "reduce_max", [f32(-0.0, 0)], np.asarray(0, np.float32), FIRST),
    Deviation("reduce_min/*", SIGN, "of several zeros the first", "reduce_min", [f32(0, -0.0)], np.asarray(-0.0, np.float32), FIRST),
    Deviation("max_pool/*", "*: expected -inf, found -*", "starts with the lowest number, which is above -inf", "max_pool",
              [f32([[-np.inf, -np.inf, 3]])], f32([[-np.inf, 3]]), PAIR),
    Deviation("max_pool/*", SIGN, "of several zeros the first", "max_pool", [f32([[-0.0, 0]])], f32([[0]]), PAIR),
    Deviation("scatter_along/*", SIGN, "min of 0 and -0 depends on their order", "scatter_along", [f32(-0.0), i64(0), f32(0)], f32(-0.0),
              {"axis": 0, "mode": "min"}),
    Deviation("scatter_nd/*", SIGN, "max of 0 and -0 depends on their order", "scatter_nd", [f32(0), i64([0]), f32(-0.0)], f32(0),
              {"mode": "max"}),
    Deviation("select/*/zeros/*", "*: expected the bits 0x8*, found 0x0; *", "-0 becomes 0, as if the other operand's 0 was added",
              "select", [np.asarray([True]), f64(-0.0), f64(1)], f64(-0.0)),
    Deviation("relu/*", SIGN, "-0 stays", "relu", [f32(-0.0)], f32(0)),
    Deviation("sign/*", SIGN, "-0 becomes 0", "sign", [f32(-0.0)], f32(-0.0)),
    # Integers and conversions
    Deviation("sign/i64/*", ANY, "computed in 32 bits", "sign", [i64(*[2**31] * 16)], i64(*[1] * 16)),
    Deviation("rem/i64/*", ANY, INTEGERS, "rem", [i64(2**60 + 1), i64(2**59)], i64(1)),
    Deviation("reduce_min/i64/*", ANY, "compared by 32 of their bits", "reduce_min", [i64([-(2**31) - 1, -9, -9, -9])], i64(-(2**31) - 1),
              {"axes": [1]}),
    Deviation("reduce_max/i64/*", ANY, "compared by 32 of their bits", "reduce_max", [i64([2**31, 1, 1, 1])], i64(2**31), {"axes": [1]}),
    Deviation("reduce_sum/i64/*", ANY, INTEGERS, "reduce_sum", [i64(2**60, 1)], np.asarray(2**60 + 1, np.int64), FIRST),
    Deviation("reduce_sum/i32/*", ANY, f"{INTEGERS}, so that it saturates", "reduce_sum", [i32(2**31 - 1, 1)],
              np.asarray(-(2**31), np.int32), FIRST),
    Deviation("reduce_prod/i64/*", ANY, INTEGERS, "reduce_prod", [i64(2**60 + 1, 1)], np.asarray(2**60 + 1, np.int64), FIRST),
    Deviation("reduce_prod/i32/*", ANY, f"{INTEGERS}, so that it saturates", "reduce_prod", [i32(2**31 - 1, 2)],
              np.asarray(-2, np.int32), FIRST),
    Deviation("convert/*/to-f8E4M3FN/*", LOST_NAN, "numbers from 480 to 490 become 448, although `saturate` is 0", "convert", [f32(482)],
              np.asarray([NAN], NARROW["f8E4M3FN"]), {"dtype": "f8E4M3FN"}),
    Deviation("convert/*/to-f8E5M2/*", "*: expected *inf, found *nan*", "numbers from 61440 to 65536 become NaN", "convert", [f32(62000)],
              np.asarray([np.inf], NARROW["f8E5M2"]), {"dtype": "f8E5M2"}),
    *(Deviation(f"convert/{NUMBERS[number.dtype]}/*/to-bf16/*", ANY, "rounded to f32 first", "convert", [number],
                np.asarray([2**30 + 2**23], NARROW["bf16"]), {"dtype": "bf16"})
      for number in (i32(2**30 + 2**22 + 1), i64(2**30 + 2**22 + 1), f64(2**30 + 2**22 + 1))),
    Deviation("convert/f64/*/to-f16/*", ANY, "rounded to f32 first", "convert", [f64(114.90625114297518)],
              np.asarray([114.9375], np.float16), {"dtype": "f16"}),
    Deviation("convert/f8E4M3FN/*/to-i1/*", ANY, "-0 is true", "convert", [np.asarray([-0.0], NARROW["f8E4M3FN"])], np.asarray([False]),
              {"dtype": "i1"}),
    Deviation("convert/f8E5M2/*/to-i1/*", ANY, "-0 is true", "convert", [np.asarray([-0.0], NARROW["f8E5M2"])], np.asarray([False]),
              {"dtype": "i1"}),
]


def explanation(verdict: dict) -> Deviation | None:
    """The first entry that a verdict agrees with."""
    return next((entry for entry in DEVIATIONS
                 if fnmatch(verdict["case"], entry.cases) and fnmatch(verdict.get("why", ""), entry.says)), None)
