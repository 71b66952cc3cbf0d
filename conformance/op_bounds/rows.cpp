// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// Softmax and norms: functions of the elements of a line.
#include "formulas.hpp"

namespace mortise::conformance::formulas {

struct Lines {
  size_t outer, extent, inner;
  Lines(const Subject &of, int64_t axis)
      : outer(static_cast<size_t>(product(dims(of.type(0)).first(static_cast<size_t>(axis))))),
        extent(static_cast<size_t>(of.type(0).dims[axis])),
        inner(static_cast<size_t>(product(dims(of.type(0)).subspan(static_cast<size_t>(axis) + 1)))) {}
  template <typename Body> void each(Body body) const { // the index of a line's first element
    for (size_t o = 0; o < outer; ++o)
      for (size_t i = 0; i < inner; ++i)
        body(o * extent * inner + i);
  }
  size_t at(size_t first, size_t k) const { return first + k * inner; }
};

// exp(x - largest) over a line, and its sum.
struct Exponentials {
  double largest = -INFINITY, sum = 0, error = 0; // `error`: of the sum, relative to it
  Exponentials(const Subject &of, const Lines &lines, size_t first) {
    for (size_t k = 0; k < lines.extent; ++k)
      largest = std::max(largest, of.x()[lines.at(first, k)]);
    Doubles terms;
    for (size_t k = 0; k < lines.extent; ++k) {
      terms.push_back(std::exp(shifted(of, lines.at(first, k))));
      sum += terms.back();
      error += terms.back() == 0 ? 0 : terms.back() * relative(of, lines.at(first, k));
    }
    error = (error + of.sumError(terms)) / sum;
  }
  double shifted(const Subject &of, size_t i) const { return of.x()[i] - largest; }
  // Of a term: the difference is rounded, and the function is.
  double relative(const Subject &of, size_t i) const { return of.w * (std::abs(shifted(of, i)) + 2 * functionUlps); }
  // Of the logarithm of a term's share.
  double logarithm(const Subject &of, size_t i) const {
    return of.w * std::abs(shifted(of, i)) + error + functionUlps * of.ulpOf(std::log(sum));
  }
};

Result<Doubles> softmaxBound(const Subject &of) {
  const Lines lines(of, intAttribute(of.node, "axis"));
  Doubles made(of.y.size());
  lines.each([&](size_t first) {
    const Exponentials terms(of, lines, first);
    for (size_t k = 0; k < lines.extent; ++k) {
      const size_t i = lines.at(first, k);
      // The quotient is one division, or a product with a reciprocal, or the exponential of a difference of logarithms.
      const double quotient = of.w * (2 + std::log(terms.sum));
      made[i] = 2 * functionUlps * of.tiny;
      if (of.y[i] != 0)
        made[i] += of.y[i] * (terms.relative(of, i) + terms.error + quotient);
    }
  });
  return made;
}

Result<Doubles> logSoftmaxBound(const Subject &of) {
  const Lines lines(of, intAttribute(of.node, "axis"));
  Doubles made(of.y.size());
  lines.each([&](size_t first) {
    const Exponentials terms(of, lines, first);
    for (size_t k = 0; k < lines.extent; ++k) {
      const size_t i = lines.at(first, k);
      made[i] = terms.logarithm(of, i) + of.half(of.y[i]);
    }
  });
  return made;
}

// Each step adds to a logarithm, and damps the errors before it.
Result<Doubles> cumlogsumexpBound(const Subject &of) {
  const Lines lines(of, intAttribute(of.node, "axis"));
  Doubles made(of.y.size());
  lines.each([&](size_t first) {
    double largest = 0;
    for (size_t k = 0; k < lines.extent; ++k) {
      const size_t i = lines.at(first, k);
      if (std::isfinite(of.y[i]))
        largest = std::max(largest, std::abs(of.y[i]));
      made[i] = of.growth(static_cast<double>(k + 1)) * (largest + 2 * functionUlps);
    }
  });
  return made;
}

Result<Doubles> crossEntropyBound(const Subject &of) {
  const Lines lines(of, of.type(0).rank - 1);
  const std::string_view reduction = stringAttribute(of.node, "reduction");
  const double smoothing = floatAttribute(of.node, "label_smoothing"), classes = static_cast<double>(lines.extent);
  Doubles rows, sizes;
  double errors = 0, counted = 0;
  lines.each([&](size_t first) {
    const double target = of.x(1)[rows.size()];
    rows.push_back(0);
    if (static_cast<int64_t>(target) == intAttribute(of.node, "ignore_index") || target < 0 || target >= classes)
      return;
    const Exponentials terms(of, lines, first);
    const auto loss = [&](size_t i) { return std::abs(terms.shifted(of, i) - std::log(terms.sum)); };
    const size_t picked = first + static_cast<size_t>(target);
    double size = loss(picked), error = terms.logarithm(of, picked) + of.half(size);
    if (smoothing > 0) {
      double mean = 0, meanError = 0;
      for (size_t i = first; i < first + lines.extent; ++i) {
        mean += loss(i) / classes;
        meanError += (terms.logarithm(of, i) + of.half(loss(i))) / classes;
      }
      error = (1 - smoothing) * error + smoothing * (meanError + of.growth(classes + 1) * mean);
      size = (1 - smoothing) * size + smoothing * mean;
      error += 3 * of.w * size;
    }
    rows.back() = error;
    sizes.push_back(size);
    errors += error;
    ++counted;
  });
  if (reduction == "none")
    return rows;
  const double sum = errors + of.sumError(sizes, 1 + static_cast<double>(rows.size() - sizes.size()));
  return Doubles{reduction == "sum" ? sum : sum / counted};
}

// ---- Norms

// Rows are contiguous. `parameter`: the index of an element's scale.
static Doubles normBound(const Subject &of, size_t count, bool centred,
                         const std::function<size_t(size_t)> &parameter) {
  Doubles made(of.y.size());
  const double epsilon = floatAttribute(of.node, "epsilon"), n = static_cast<double>(count);
  for (size_t row = 0; count && row + count <= made.size(); row += count) {
    const std::span<const double> x = std::span(of.x()).subspan(row, count);
    Doubles squares;
    double mean = 0, variance = 0;
    for (size_t i = 0; centred && i < count; ++i)
      mean += x[i] / n;
    for (size_t i = 0; i < count; ++i) {
      squares.push_back((x[i] - mean) * (x[i] - mean));
      variance += squares.back() / n;
    }
    const double meanError = centred ? of.sumError(x, 2) / n + of.tiny : 0; // it may be subnormal
    const double varianceError = of.sumError(squares, 3) / n + 2 * of.w * variance + meanError * meanError + of.tiny;
    const double root = 1 / std::sqrt(variance + epsilon);
    const double rootError = (varianceError / (variance + epsilon) + of.w) / 2 + 2 * functionUlps * of.w;
    for (size_t i = row; i < row + count; ++i) {
      const double scale = of.has(1) ? std::abs(of.x(1)[parameter(i)]) : 1, distance = std::abs(of.x()[i] - mean);
      // (x - mean) root, or x root - mean root.
      const double difference = meanError + of.w * (centred ? std::abs(of.x()[i]) + std::abs(mean) : 0);
      const double bias = of.has(2) ? std::abs(of.x(2)[parameter(i)]) : 0; // it may be added to mean root first
      const double products = centred ? 2 * of.tiny : of.tiny;
      made[i] =
          scale * (root * (difference + distance * (rootError + 3 * of.w)) + products) + bias * of.w + of.half(of.y[i]);
    }
  }
  return made;
}

Result<Doubles> trailingNormBound(const Subject &of) {
  const auto axis = static_cast<size_t>(intAttribute(of.node, "axis"));
  const auto count = static_cast<size_t>(product(dims(of.type(0)).subspan(axis)));
  return normBound(of, count, of.node.op == std::string_view("mortise.layer_norm"),
                   [=](size_t i) { return i % count; });
}
Result<Doubles> groupNormBound(const Subject &of) {
  const auto d = dims(of.type(0));
  const auto channels = static_cast<size_t>(d[1]), inner = static_cast<size_t>(product(d.subspan(2)));
  const auto groups = static_cast<size_t>(std::max<int64_t>(intAttribute(of.node, "groups"), 1));
  return normBound(of, channels / groups * inner, true, [=](size_t i) { return i / inner % channels; });
}
// (x - mean) factor + bias, or x factor + (bias - mean factor), where factor = scale / root.
Result<Doubles> batchNormBound(const Subject &of) {
  const auto d = dims(of.type(0));
  const auto channels = static_cast<size_t>(d[1]), inner = static_cast<size_t>(product(d.subspan(2)));
  const double epsilon = floatAttribute(of.node, "epsilon");
  return each(of, [&](size_t i) {
    const size_t c = i / inner % channels;
    const double factor = (of.has(1) ? std::abs(of.x(1)[c]) : 1) / std::sqrt(of.x(4)[c] + epsilon);
    const double bias = of.has(2) ? std::abs(of.x(2)[c]) : 0, mean = of.x(3)[c], x = of.x()[i];
    return factor * (std::abs(x - mean) * (2 * functionUlps + 1.5) + 2 * (std::abs(x) + std::abs(mean))) * of.w +
           bias * of.w + of.half(of.y[i]) + 2 * of.tiny;
  });
}

} // namespace mortise::conformance::formulas
