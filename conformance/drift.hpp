// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// Roundings of a sum that depend on each other: those of many terms that are alike go one way.
// docs/conformance/error-bounds.md, "Sums", derives what is here.
#pragma once

#include <mortise/result.hpp>

#include <algorithm>
#include <cmath>
#include <set>
#include <span>
#include <vector>

namespace mortise::conformance {

// Of sums up to this length the probabilistic bound covers roundings that all go one way.
inline constexpr double longestWithoutDrift = 256;

// What becomes of a term that is added to a partial sum whose unit in the last place is `step`, a power of two.
inline double residue(double term, double step) { return std::nearbyint(term / step) * step - term; }

// The steps, by their exponents, at which residues can add up to more than the probabilistic bound leaves room for.
// `size`: the sum of the terms' magnitudes; w: the accumulator's unit roundoff.
inline std::vector<int> steps(double size, double terms, double w) {
  if (!(terms > longestWithoutDrift && size > 0 && std::isfinite(size)))
    return {};
  std::vector<int> made;
  const int highest = std::ilogb(size) + 1 + std::ilogb(w);
  for (int e = highest; terms * std::ldexp(1.0, e) / 2 > 1.5 * std::sqrt(terms) * w * size; --e)
    made.push_back(e);
  return made;
}

// The largest of a sum's residues, over steps. `residues(step)`: the sum of the terms' residues.
template <typename Residues> double drift(double size, double terms, double w, Residues residues) {
  double most = 0;
  for (const int e : steps(size, terms, w))
    most = std::max(most, std::abs(residues(std::ldexp(1.0, e))));
  return most;
}
inline double drift(std::span<const double> terms, double w) {
  double size = 0;
  for (const double term : terms)
    size += std::abs(term);
  return drift(size, static_cast<double>(terms.size()), w, [&](double step) {
    double sum = 0;
    for (const double term : terms)
      sum += residue(term, step);
    return sum;
  });
}

// Of many sums at once, which an op computes. `residues(step)` is its result on the residues of its operands.
template <typename Residues>
Result<std::vector<double>> drifts(std::span<const double> sizes, std::span<const double> terms, double w,
                                   Residues residues) {
  std::vector<double> most(sizes.size());
  std::vector<std::vector<int>> wanted;
  std::set<int> all;
  for (size_t i = 0; i < sizes.size(); ++i) {
    wanted.push_back(steps(sizes[i], terms[i], w));
    all.insert(wanted.back().begin(), wanted.back().end());
  }
  for (const int e : all) {
    const Result<std::vector<double>> sums = residues(std::ldexp(1.0, e));
    if (!sums)
      return sums.error();
    for (size_t i = 0; i < most.size(); ++i)
      if (std::ranges::find(wanted[i], e) != wanted[i].end())
        most[i] = std::max(most[i], std::abs((*sums)[i]));
  }
  return most;
}

} // namespace mortise::conformance
