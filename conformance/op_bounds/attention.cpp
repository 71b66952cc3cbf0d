// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#include "formulas.hpp"

namespace mortise::conformance::formulas {

// One query's scores, and what they weigh.
struct Attended {
  Doubles scores, errors;
  std::vector<size_t> keys; // those that are seen
  void add(size_t key, double score, double error) {
    if (score == -INFINITY)
      return;
    keys.push_back(key);
    scores.push_back(score);
    errors.push_back(error);
  }
  // `value(key, e)`: an element of a key's row of values.
  template <typename Value> void weigh(const Subject &of, size_t depth, Value value, double *to) const {
    double largest = -INFINITY, sum = 0, sumError = 0;
    for (const double score : scores)
      largest = std::max(largest, score);
    Doubles weights(scores.size()), relative(scores.size());
    for (size_t j = 0; j < scores.size(); ++j) {
      weights[j] = std::exp(scores[j] - largest);
      relative[j] = std::expm1(errors[j] + of.w * std::abs(scores[j] - largest)) + 2 * functionUlps * of.w;
      sum += weights[j];
      sumError += weights[j] * relative[j];
    }
    const auto n = static_cast<double>(scores.size());
    sumError = sumError / sum + of.growth(n);
    for (size_t e = 0; e < depth; ++e) {
      to[e] = n > 0 ? of.underflows(n + 1) : 0; // of the products with the values, and of a division by the sum
      for (size_t j = 0; j < scores.size(); ++j)
        to[e] += std::abs(value(keys[j], e)) *
                 (weights[j] / sum * (relative[j] + sumError + 3 * of.w + of.growth(n)) + 2 * functionUlps * of.tiny);
    }
  }
};

// scale * sum of q k, with the mask that is added.
struct Score {
  double value = 0, error = 0;
  Score(const Subject &of, const double *q, const double *k, size_t depth, double mask) {
    const double scale = floatAttribute(of.node, "scale");
    double terms = 0;
    for (size_t d = 0; d < depth; ++d) {
      value += q[d] * k[d];
      terms += std::abs(q[d] * k[d]);
    }
    value *= scale;
    error = (of.growth(static_cast<double>(depth) + 1) * terms + of.underflows(static_cast<double>(depth))) *
                std::abs(scale) +
            of.w * (std::abs(value) + (std::isfinite(mask) ? std::abs(mask) : 0));
    value += mask;
  }
};

Result<Doubles> attentionBound(const Subject &of) {
  const auto at = [&](size_t operand, int axis) { return static_cast<size_t>(of.type(operand).dims[axis]); };
  const size_t heads = at(0, 1), queries = at(0, 2), depth = at(0, 3), groups = at(1, 1), keys = at(1, 2),
               width = at(2, 3);
  const bool causal = intAttribute(of.node, "causal") != 0, added = of.has(3) && isFloat(of.type(3).dtype);
  const auto maskAt = [&](size_t b, size_t h, size_t i, size_t j) {
    size_t place = 0;
    const size_t index[] = {b, h, i, j};
    for (int axis = 0; axis < 4; ++axis)
      place = place * at(3, axis) + (at(3, axis) == 1 ? 0 : index[axis]);
    return of.x(3)[place];
  };
  Doubles made(of.y.size());
  for (size_t row = 0; row < at(0, 0) * heads * queries && width != 0; ++row) {
    const size_t i = row % queries, h = row / queries % heads, b = row / queries / heads;
    const size_t group = b * groups + h / (heads / groups);
    Attended seen;
    for (size_t j = 0; j < keys; ++j) {
      const double mask = of.has(3) ? maskAt(b, h, i, j) : 0;
      if ((causal && j > i) || (of.has(3) && !added && mask == 0))
        continue;
      const Score score(of, &of.x()[row * depth], &of.x(1)[(group * keys + j) * depth], depth, added ? mask : 0);
      seen.add(j, score.value, score.error);
    }
    seen.weigh(
        of, width, [&](size_t j, size_t e) { return of.x(2)[(group * keys + j) * width + e]; }, &made[row * width]);
  }
  return made;
}

// The sequence of a packed row, and how far it is from its end.
static std::pair<int64_t, double> sequenceOf(const Doubles &offsets, size_t row) {
  for (size_t i = 0; i + 1 < offsets.size(); ++i)
    if (offsets[i] <= static_cast<double>(row) && static_cast<double>(row) < offsets[i + 1])
      return {static_cast<int64_t>(i), offsets[i + 1] - static_cast<double>(row)};
  return {-1, 0};
}

Result<Doubles> raggedAttentionBound(const Subject &of) {
  const auto at = [&](size_t operand, int axis) { return static_cast<size_t>(of.type(operand).dims[axis]); };
  const size_t heads = at(0, 1), depth = at(0, 2), keys = at(2, 0), groups = at(2, 1), width = at(2, 2);
  const bool causal = intAttribute(of.node, "causal") != 0;
  Doubles made(of.y.size());
  for (size_t row = 0; row < at(0, 0) * heads && width != 0; ++row) {
    const size_t group = row % heads / (heads / groups);
    const auto [sequence, left] = sequenceOf(of.x(3), row / heads);
    Attended seen;
    for (size_t j = 0; j < keys; ++j) {
      const auto [other, otherLeft] = sequenceOf(of.x(4), j);
      if (sequence < 0 || other != sequence || (causal && otherLeft < left))
        continue;
      const Score score(of, &of.x()[row * depth], &of.x(1)[(j * groups + group) * depth], depth, 0);
      seen.add(j, score.value, score.error);
    }
    seen.weigh(
        of, width, [&](size_t j, size_t e) { return of.x(2)[(j * groups + group) * width + e]; }, &made[row * width]);
  }
  return made;
}

} // namespace mortise::conformance::formulas
