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
  // Of the logarithm of the sum of their exponentials.
  double logarithmError(const Subject &of) const {
    double largest = -INFINITY, sum = 0, error = 0;
    for (const double score : scores)
      largest = std::max(largest, score);
    for (size_t j = 0; j < scores.size(); ++j) {
      const double weight = std::exp(scores[j] - largest);
      sum += weight;
      error += weight * (std::expm1(errors[j] + of.w * std::abs(scores[j] - largest)) + 2 * functionUlps * of.w);
    }
    if (scores.empty())
      return 0;
    const double relative = error / sum + of.growth(static_cast<double>(scores.size()));
    if (!(relative < 0.5))
      return INFINITY; // rounding alone decides which key is seen
    error = -std::log1p(-relative);
    const double logarithm = std::log(sum);
    return error + of.w * (2 * functionUlps * logarithm + std::abs(largest) + std::abs(largest + logarithm)) +
           2 * of.tiny;
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

// The operands of attention and of its gradient: the scores that a query sees.
class Operands {
public:
  Operands(const Subject &of, size_t mask)
      : heads(at(of, 0, 1)), queries(at(of, 0, 2)), depth(at(of, 0, 3)), groups(at(of, 1, 1)), keys(at(of, 1, 2)),
        width(at(of, 2, 3)), rows(at(of, 0, 0) * heads * queries), of(of), mask(mask),
        causal(intAttribute(of.node, "causal") != 0), added(of.has(mask) && isFloat(of.type(mask).dtype)) {}

  const size_t heads, queries, depth, groups, keys, width, rows;
  // The head of keys, counted over all batches, that a row of q reads.
  size_t group(size_t row) const {
    const size_t h = row / queries % heads, b = row / queries / heads;
    return b * groups + h / (heads / groups);
  }
  // Calls body(key, score) for the keys that the row sees.
  template <typename Body> void each(size_t row, Body body) const {
    const size_t index[] = {row / queries / heads, row / queries % heads, row % queries};
    for (size_t j = 0; j < keys; ++j) {
      double number = 0;
      if (of.has(mask)) {
        size_t place = 0;
        for (size_t axis = 0; axis < 4; ++axis)
          place = place * at(of, mask, axis) + (at(of, mask, axis) == 1 ? 0 : axis < 3 ? index[axis] : j);
        number = of.x(mask)[place];
      }
      if ((causal && j > index[2]) || (of.has(mask) && !added && number == 0))
        continue;
      body(j, Score(of, &of.x()[row * depth], &of.x(1)[(group(row) * keys + j) * depth], depth, added ? number : 0));
    }
  }

private:
  static size_t at(const Subject &of, size_t operand, size_t axis) {
    return static_cast<size_t>(of.type(operand).dims[axis]);
  }
  const Subject &of;
  const size_t mask;
  const bool causal, added;
};

Result<Doubles> attentionBound(const Subject &of) {
  const Operands operands(of, 3);
  const size_t width = operands.width;
  Doubles made(of.y.size());
  for (size_t row = 0; row < operands.rows && !made.empty(); ++row) {
    Attended seen;
    operands.each(row, [&](size_t j, const Score &score) { seen.add(j, score.value, score.error); });
    if (of.result == 1)
      made[row] = seen.logarithmError(of);
    else
      seen.weigh(
          of, width, [&](size_t j, size_t e) { return of.x(2)[(operands.group(row) * operands.keys + j) * width + e]; },
          &made[row * width]);
  }
  return made;
}

// Sums of products of a number that has an error, and one that has none.
struct Added {
  double size = 0, error = 0, terms = 0; // of the terms: their magnitudes, their errors, their number
  void add(double factor, double factorError, double exact) {
    size += std::abs(factor * exact), error += factorError * std::abs(exact), ++terms;
  }
  double total(const Subject &of) const { return error + of.growth(terms) * (size + error) + of.underflows(2 * terms); }
};

Result<Doubles> attentionGradientBound(const Subject &of) {
  const Operands operands(of, 6);
  const size_t depth = operands.depth, width = operands.width, keys = operands.keys;
  const double scale = floatAttribute(of.node, "scale");
  std::vector<Added> sums(of.y.size());
  for (size_t row = 0; row < operands.rows && !sums.empty(); ++row) {
    const double *gradient = &of.x(5)[row * width], *result = &of.x(3)[row * width], logarithm = of.x(4)[row];
    Added share;
    double shares = 0;
    for (size_t e = 0; e < width; ++e)
      share.add(gradient[e], 0, result[e]), shares += gradient[e] * result[e];
    operands.each(row, [&](size_t j, const Score &score) {
      const size_t key = operands.group(row) * keys + j;
      const double distance = score.value - logarithm, weight = std::exp(distance);
      const double weightError =
          weight * (std::expm1(score.error + of.w * std::abs(distance)) + 2 * functionUlps * of.w) +
          2 * functionUlps * of.tiny;
      if (of.result == 2) {
        for (size_t e = 0; e < width; ++e)
          sums[key * width + e].add(weight, weightError, gradient[e]);
        return;
      }
      Added product;
      double change = -shares;
      for (size_t e = 0; e < width; ++e)
        product.add(gradient[e], 0, of.x(2)[key * width + e]), change += gradient[e] * of.x(2)[key * width + e];
      double error = product.total(of) + share.total(of);
      error += of.w * (std::abs(change) + error);
      error = weight * error + weightError * (std::abs(change) + error);
      change *= weight;
      error = std::abs(scale) * error + 2 * of.w * std::abs(scale) * (std::abs(change) + error) + 2 * of.tiny;
      change *= scale;
      const size_t to = of.result == 0 ? row : key;
      const double *other = of.result == 0 ? &of.x(1)[key * depth] : &of.x()[row * depth];
      for (size_t d = 0; d < depth; ++d)
        sums[to * depth + d].add(change, error, other[d]);
    });
  }
  Doubles made;
  for (const Added &each : sums)
    made.push_back(each.total(of));
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
