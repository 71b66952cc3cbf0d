# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""Fits the polynomials of the elementary functions, for f32 and for f64, and prints emit/coefficients.hpp. For f32:
near-minimax in relative error (Lawson's reweighted least squares on Chebyshev nodes, references in 60 digits). For f64,
beyond what least squares in f64 can find: interpolation in Chebyshev nodes, in 60 digits. Run:
.venv/bin/python sdk/codegen/tools/fit.py > sdk/codegen/emit/coefficients.hpp, then clang-format."""
import mpmath as mp
import numpy as np

mp.mp.dps = 60


def single(function, low, high, degree, scale):
    n = 400
    nodes = [(low + high) / 2 + (high - low) / 2 * float(mp.cos(mp.pi * (i + 0.5) / n)) for i in range(n)]
    values = np.array([float(function(mp.mpf(x))) for x in nodes])
    sizes = np.array([float(scale(mp.mpf(x))) for x in nodes])
    mid, half = (low + high) / 2, (high - low) / 2
    basis = np.polynomial.chebyshev.chebvander((np.array(nodes) - mid) / half, degree)
    weight = np.ones(n) / n
    for _ in range(200):
        w = np.sqrt(weight) / np.abs(sizes)
        solution = np.linalg.lstsq(basis * w[:, None], values * w, rcond=None)[0]
        error = np.abs((basis @ solution - values) / sizes)
        weight = weight * (error + 1e-30)
        weight /= weight.sum()
    series = np.polynomial.chebyshev.Chebyshev(solution, domain=[low, high]).convert(kind=np.polynomial.Polynomial)
    return series.coef, error.max()


def rounded(function, low, high, degree, scale):
    """The same, with each coefficient rounded to f32 before those of lower powers are found, which make up for it."""
    found, error = {}, 0
    for power in range(degree, -1, -1):
        rest = lambda x: function(x) - mp.fsum(c * x**i for i, c in found.items())
        coefficients, error = single(rest, low, high, power, scale)
        found[power] = float(np.float32(coefficients[power]))
    return np.array([found[i] for i in range(degree + 1)]), error


def double(function, low, high, degree, scale):
    low, high, n = mp.mpf(low), mp.mpf(high), degree + 1
    nodes = [(low + high) / 2 + (high - low) / 2 * mp.cos(mp.pi * (2 * i + 1) / (2 * n)) for i in range(n)]
    powers = mp.matrix([[x**j for j in range(n)] for x in nodes])
    found = [float(c) for c in mp.lu_solve(powers, mp.matrix([function(x) for x in nodes]))]
    error = 0
    for i in range(500):
        x = low + (high - low) * (2 * i + 1) / 1000
        error = max(error, abs((mp.polyval(found[::-1], x) - function(x)) / scale(x)))
    return found, float(error)


def fit(name, function, low, high, degrees, scale=None, high64=None, find32=single):
    """Fits a polynomial p(x) ~ function(x) of `degrees` (of f32 and f64; None: not needed). The error is relative to
    `scale(x)`, by default to the function itself. `high64`: the end of the range for f64, where it is another one."""
    for bits, degree, find in zip((32, 64), degrees, (find32, double)):
        if degree is None:
            print(f"inline constexpr std::array<double, 0> {name}{bits}{{}};")
            continue
        end = high64 if bits == 64 and high64 else high
        coefficients, error = find(function, low, end, degree, scale or function)
        text = ", ".join(f"{c:.17e}" for c in coefficients[::-1])
        print(f"// {name}: [{low:.6g}, {end:.6g}], relative error {error:.2e}\n"
              f"inline constexpr double {name}{bits}[] = {{{text}}};")
    print(f"inline constexpr Fit {name}{{{name}32, {name}64}};\n")


def oddTail(function):
    """p(x^2) with function(x) = x + x^3 p(x^2), for an odd function."""
    slope = [mp.taylor(function, 0, 3)[3]]
    return lambda z: (function(mp.sqrt(z)) / mp.sqrt(z) - 1) / z if z > mp.mpf("1e-15") else slope[0]


print("""// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// Printed by tools/fit.py, which says what each polynomial is.
#pragma once

#include <array>
#include <span>

namespace mortise::codegen {

// Coefficients from the highest power down.
struct Fit {
  std::span<const double> f32, f64;
};
""")
half = float(mp.log(2) / 2) * 1.001
# e^r = 1 + r + r^2 p(r)
fit("expTail", lambda r: (mp.expm1(r) - r) / r**2 if abs(r) > 1e-20 else mp.mpf(1) / 2, -half, half, (4, 10),
    lambda r: mp.exp(r) / max(abs(r), mp.mpf("0.05"))**2)
# (e^r - 1) = r + r^2 p(r), relative to e^r - 1 itself
fit("expm1Tail", lambda r: (mp.expm1(r) - r) / r**2 if abs(r) > 1e-20 else mp.mpf(1) / 2, -half, half, (6, 11),
    lambda r: abs(mp.expm1(r)) / max(abs(r), mp.mpf("0.01"))**2)
# 2^r = 1 + r p(r)
fit("exp2Tail", lambda r: (mp.mpf(2)**r - 1) / r if abs(r) > 1e-20 else mp.log(2), -0.5005, 0.5005, (5, 12),
    lambda r: mp.mpf(2)**r / max(abs(r), mp.mpf("0.05")))
# f32: log(1 + f) = f - f^2/2 + f^3 p(f)
fit("logTail", lambda f: (mp.log1p(f) - f + f * f / 2) / f**3 if abs(f) > 1e-6 else mp.mpf(1) / 3,
    float(mp.sqrt(0.5) - 1) * 1.001, float(mp.sqrt(2) - 1) * 1.001, (8, None),
    lambda f: abs(mp.log1p(f)) / max(abs(f), mp.mpf("0.02"))**3)
# f64: log((1 + s) / (1 - s)) = 2 s + s z p(z), and p(z) = 2/3 + z q(z), with z = s^2
widest = float(((mp.sqrt(2) - 1) / (mp.sqrt(2) + 1))**2) * 1.001
ratio = oddTail(mp.atanh)
fit("logSeries", lambda z: 2 * ratio(z), 0.0, widest, (None, 7), lambda z: 2 / max(z, mp.mpf("0.001")))
fit("logSecond", lambda z: (2 * ratio(z) - mp.mpf(2) / 3) / z if z > mp.mpf("1e-12") else mp.mpf(2) / 5, 0.0, widest,
    (None, 7))
# The same and 2^r for the powers of f32, which compute in f64
fit("powLog", lambda z: 2 * ratio(z), 0.0, widest, (None, 4), lambda z: 2 / max(z, mp.mpf("0.001")))
fit("powExp", lambda r: (mp.mpf(2)**r - 1) / r if abs(r) > 1e-20 else mp.log(2), -0.5005, 0.5005, (None, 6),
    lambda r: mp.mpf(2)**r / max(abs(r), mp.mpf("0.05")))
# tanh(x) = x + x^3 p(x^2)
fit("tanhTail", oddTail(mp.tanh), 0.0, 0.4, (5, 11),
    lambda z: mp.tanh(mp.sqrt(z)) / mp.sqrt(z) / max(z, mp.mpf("0.01")))
# sinh(x) = x + x^3 p(x^2)
fit("sinhTail", oddTail(mp.sinh), 0.0, 1.0, (3, 7), lambda z: 1 / max(z, mp.mpf("0.01")))
# erf(x) = x p(x^2)
fit("erfNear", lambda z: mp.erf(mp.sqrt(z)) / mp.sqrt(z) if z > 1e-9 else 2 / mp.sqrt(mp.pi), 0.0, 1.0, (7, 13))
# erfc(a) = exp(-a^2) s p(1 - 2 K s), s = 1 / (a + K)
K = 2


def scaled(t):
    s = (1 - t) / (2 * K)
    if s < mp.mpf("1e-30"):
        return 1 / mp.sqrt(mp.pi)
    a = 1 / s - K
    return mp.exp(a * a) * mp.erfc(a) / s if a < 100 else (1 - 1 / (2 * a * a)) / (a * mp.sqrt(mp.pi)) / s


fit("erfcScaled", scaled, -1.0, 0.77, (10, 25), high64=0.87)


# -Phi(-a) = exp(-a^2 / 2) s p(s), s = 1 / (1 + 0.55 a), for results that are rounded to f16 or bf16: to 0.4 2^-24 of 1,
# and to 2^-13 of Phi
def normalTail(s):
    a = (1 / s - 1) / mp.mpf("0.55")
    return -mp.exp(a * a / 2) * mp.erfc(a / mp.sqrt(2)) / 2 / s


fit("geluTail", normalTail, 0.115, 1.0, (7, None),
    lambda s: min(mp.mpf(0.4 * 2**-24) * mp.exp(((1 / s - 1) / mp.mpf("0.55"))**2 / 2) / s, -normalTail(s) / 2**13),
    find32=rounded)
# sin(r) = r + r^3 p(r^2), cos(r) = 1 - r^2/2 + r^4 p(r^2)
quarter = float(mp.pi / 4) * 1.001
fit("sinTail", oddTail(mp.sin), 0.0, quarter**2, (3, 6), lambda z: 1 / max(z, mp.mpf("0.01")))
fit("cosTail", lambda z: (mp.cos(mp.sqrt(z)) - 1 + z / 2) / z**2 if z > 1e-6 else mp.mpf(1) / 24, 0.0, quarter**2,
    (3, 6), lambda z: 1 / max(z, mp.mpf("0.01"))**2)
# asin(x) = x + x^3 p(x^2) up to 1/2, atan(x) = x + x^3 p(x^2) up to tan(pi / 8)
fit("asinTail", oddTail(mp.asin), 0.0, 0.25, (5, 13), lambda z: 1 / max(z, mp.mpf("0.01")))
fit("atanTail", oddTail(mp.atan), 0.0, float((mp.sqrt(2) - 1)**2) * 1.001, (4, 11),
    lambda z: 1 / max(z, mp.mpf("0.01")))
print("} // namespace mortise::codegen")
