# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""Fits the polynomials of emit/math.cpp and emit/coarse.cpp: near-minimax in relative error (Lawson's reweighted least squares on
Chebyshev nodes, references in 60 digits). Prints C++ arrays, highest power first, and the error reached.
Run: .venv/bin/python sdk/codegen/tools/fit.py"""
import mpmath as mp
import numpy as np

mp.mp.dps = 60


def fit(name, function, low, high, degree, scale=None):
    """Fits a polynomial p(x) ~ function(x). The error is relative to `scale(x)`, by default to the function itself."""
    n = 400
    nodes = [(low + high) / 2 + (high - low) / 2 * float(mp.cos(mp.pi * (i + 0.5) / n)) for i in range(n)]
    values = np.array([float(function(mp.mpf(x))) for x in nodes])
    sizes = values if scale is None else np.array([float(scale(mp.mpf(x))) for x in nodes])
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
    coefficients = ", ".join(f"{c:.17e}" for c in series.coef[::-1])
    print(f"// {name}: [{low:.6g}, {high:.6g}], relative error {error.max():.2e}\n"
          f"constexpr double {name}[] = {{{coefficients}}};")


half = float(mp.log(2) / 2) * 1.001
# e^r = 1 + r + r^2 p(r)
fit("expTail", lambda r: (mp.expm1(r) - r) / r**2 if r else mp.mpf(1) / 2, -half, half, 4,
    lambda r: mp.exp(r) / max(abs(r), mp.mpf("0.05"))**2)
# (e^r - 1) = r + r^2 p(r), relative to e^r - 1 itself
fit("expm1Tail", lambda r: (mp.expm1(r) - r) / r**2 if r else mp.mpf(1) / 2, -half, half, 6,
    lambda r: abs(mp.expm1(r)) / max(abs(r), mp.mpf("0.01"))**2)
# log(1 + f) = f - f^2/2 + f^3 p(f)
fit("logTail", lambda f: (mp.log1p(f) - f + f * f / 2) / f**3 if abs(f) > 1e-6 else mp.mpf(1) / 3,
    float(mp.sqrt(0.5) - 1) * 1.001, float(mp.sqrt(2) - 1) * 1.001, 8,
    lambda f: abs(mp.log1p(f)) / max(abs(f), mp.mpf("0.02"))**3)
# tanh(x) = x + x^3 p(x^2)
fit("tanhTail", lambda z: (mp.tanh(mp.sqrt(z)) / mp.sqrt(z) - 1) / z if z > 1e-9 else -mp.mpf(1) / 3, 0.0, 0.4, 5,
    lambda z: mp.tanh(mp.sqrt(z)) / mp.sqrt(z) / max(z, mp.mpf("0.01")))
# erf(x) = x p(x^2)
fit("erfNear", lambda z: mp.erf(mp.sqrt(z)) / mp.sqrt(z) if z > 1e-9 else 2 / mp.sqrt(mp.pi), 0.0, 1.0, 7)
# erfc(a) = exp(-a^2) s p(1 - 2 K s), s = 1 / (a + K)
K = 2


def scaled(t):
    s = (1 - t) / (2 * K)
    if s < mp.mpf("1e-30"):
        return 1 / mp.sqrt(mp.pi)
    a = 1 / s - K
    return mp.exp(a * a) * mp.erfc(a) / s if a < 100 else (1 - 1 / (2 * a * a)) / (a * mp.sqrt(mp.pi)) / s


fit("erfcScaled", scaled, -1.0, 0.77, 10)
# sin(r) = r + r^3 p(r^2), cos(r) = 1 - r^2/2 + r^4 p(r^2)
quarter = float(mp.pi / 4) * 1.001
fit("sinTail", lambda z: (mp.sin(mp.sqrt(z)) / mp.sqrt(z) - 1) / z if z > 1e-9 else -mp.mpf(1) / 6, 0.0, quarter**2, 3)
fit("cosTail", lambda z: (mp.cos(mp.sqrt(z)) - 1 + z / 2) / z**2 if z > 1e-6 else mp.mpf(1) / 24, 0.0, quarter**2, 3)
# The same for results that are rounded to f16 or bf16, up to a = 10.5
fit("erfcCoarse", scaled, -1.0, 0.7, 6)
