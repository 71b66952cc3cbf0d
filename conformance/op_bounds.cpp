// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// Each formula stands in docs/conformance/error-bounds.md, under the name of its op.
#include <mortise/conformance/op_bounds.hpp>

#include "drift.hpp"
#include "one_node.hpp"

#include <mortise/conformance/error_bounds.hpp>
#include <mortise/ops.hpp>
#include <mortise/reference/formats.hpp>
#include <mortise/reference/unrounded.hpp>

#include <algorithm>
#include <cmath>
#include <functional>

namespace mortise::conformance {
namespace {

using Doubles = std::vector<double>;

int64_t product(std::span<const int64_t> values) {
  int64_t made = 1;
  for (const int64_t value : values)
    made *= value;
  return made;
}

// The last node of a graph with its operands, and the accumulator that its type is computed in.
class Subject {
public:
  Subject(const MortiseNode &node, const MortiseGraph &view, std::vector<Bytes> operands)
      : node(node), view(view), bytes(std::move(operands)), dtype(node.results[0]->type->dtype),
        accumulator(dtype == MORTISE_F64 ? MORTISE_F64 : MORTISE_F32), w(unitRoundoff(accumulator)),
        // Half the smallest number, which is no double for f64.
        tiny(accumulator == MORTISE_F64 ? 0x1p-1074 : 0x1p-150) {
    for (size_t i = 0; i < view.input_count; ++i)
      values.push_back(valuesOf(*view.inputs[i]->type, bytes[i]));
  }

  const MortiseNode &node;
  const MortiseGraph &view; // the node alone
  std::vector<Bytes> bytes; // of the view's inputs
  const int32_t dtype, accumulator;
  const double w, tiny;
  Doubles y; // exact

  const MortiseType &type(size_t operand) const { return *node.operands[operand]->type; }
  bool has(size_t operand) const { return operand < node.operand_count && node.operands[operand]; }
  size_t inputOf(size_t operand) const {
    const auto *found = std::find_if(view.inputs, view.inputs + view.input_count, [&](const MortiseValue *input) {
      return input->index == node.operands[operand]->index;
    });
    return static_cast<size_t>(found - view.inputs);
  }
  const Doubles &x(size_t operand = 0) const { return values[inputOf(operand)]; }
  double ulpOf(double value) const { return ulp(value, accumulator); }
  // One rounding. Half the smallest number of f64 is none.
  double half(double value) const { return std::max(ulpOf(value) / 2, tiny); }
  // The sum of n roundings, each at most w, of a sum's terms: the worst case, or what is exceeded with a probability of
  // 2 n exp(-32) at most.
  double growth(double n) const { return std::min(n, confidence * std::sqrt(n)) * w; }
  double underflows(double n) const { return std::min(n, confidence * std::sqrt(n)) * tiny; }
  // The error of a sum with so many roundings, of terms whose magnitudes add up to `size`. `drift`: drift.hpp.
  double sumError(double size, double n, double drift) const {
    return n > 0 ? std::min(n * w * size, growth(n) * size + drift) : 0;
  }
  // `more`: roundings beyond one for each term but the first.
  double sumError(std::span<const double> terms, double more = 0) const {
    double size = 0;
    for (const double term : terms)
      size += std::abs(term);
    return sumError(size, static_cast<double>(terms.size()) - 1 + more, drift(terms, w));
  }

  // What the op gives, unrounded, when each float of operand i is changed. `changed` may be another node.
  Result<Doubles> with(const std::function<double(size_t, double)> &change,
                       const MortiseGraph *changed = nullptr) const {
    std::vector<Bytes> operands = bytes;
    for (size_t i = 0; i < node.operand_count; ++i)
      if (node.operands[i] && isFloat(type(i).dtype))
        reference::visitFloat(type(i).dtype, [&](auto kind) {
          using Kind = decltype(kind);
          auto *at = reinterpret_cast<typename Kind::Storage *>(operands[inputOf(i)].data());
          for (int64_t e = 0; e < elementCount(type(i)); ++e)
            at[e] = Kind::store(change(i, Kind::load(at[e])));
        });
    return run(operands, changed ? *changed : view, reference::interpretUnrounded);
  }
  // The op on the magnitudes of its operands: where it adds, the sum of the terms' magnitudes.
  Result<Doubles> magnitudes() const {
    return with([](size_t, double value) { return std::abs(value); });
  }
  Result<Doubles> exact() const {
    bool wide = false;
    for (size_t i = 0; i < node.operand_count; ++i)
      wide = wide || (node.operands[i] && type(i).dtype == MORTISE_F64);
    return run(bytes, view, wide || dtype == MORTISE_F64 ? reference::interpretInMpfr : reference::interpretUnrounded);
  }

  static Doubles valuesOf(const MortiseType &type, const Bytes &from) {
    Doubles made(static_cast<size_t>(elementCount(type)));
    if (dtypeBits(type.dtype) >= 8)
      reference::visitElement(type.dtype, [&](auto kind) {
        using Kind = decltype(kind);
        for (size_t i = 0; i < made.size(); ++i)
          made[i] = static_cast<double>(Kind::load(reinterpret_cast<const typename Kind::Storage *>(from.data())[i]));
      });
    return made;
  }

private:
  using Run = Result<void> (*)(const MortiseGraph &, std::span<const void *const>, std::span<void *const>);
  static Result<Doubles> run(const std::vector<Bytes> &operands, const MortiseGraph &of, Run interpret) {
    std::vector<const void *> from;
    for (const Bytes &operand : operands)
      from.push_back(operand.data());
    Doubles made(static_cast<size_t>(elementCount(*of.outputs[0]->type)));
    std::vector<void *> to = {made.data()};
    std::vector<Bytes> others;
    for (size_t i = 1; i < of.output_count; ++i)
      to.push_back(
          others.emplace_back(static_cast<size_t>(elementCount(*of.outputs[i]->type)) * sizeof(double) + 8).data());
    if (Result<void> done = interpret(of, from, to); !done)
      return done.error();
    return made;
  }
  std::vector<Doubles> values;
};

// A node with another text for one of its attributes.
class Renamed {
public:
  Renamed(const Subject &of, std::string_view name, const char *text)
      : node(of.node), graph(of.view), attributes(node.attributes, node.attributes + node.attribute_count) {
    for (const MortiseAttribute *&attribute : attributes)
      if (attribute->name == name) {
        changed = *attribute;
        changed.string = text;
        attribute = &changed;
      }
    node.attributes = attributes.data();
    graph.nodes = nodes;
  }
  Renamed(const Renamed &) = delete;
  const MortiseGraph &view() const { return graph; }

private:
  MortiseNode node;
  MortiseGraph graph;
  std::vector<const MortiseAttribute *> attributes;
  MortiseAttribute changed{};
  const MortiseNode *nodes[1] = {&node};
};

// Errors before the last rounding, to the result's type. Where this type is the accumulator's, that rounding is among
// them.
using Bound = Result<Doubles> (*)(const Subject &);

template <typename Body> Doubles each(const Subject &of, Body body) {
  Doubles made(of.y.size());
  for (size_t i = 0; i < made.size(); ++i)
    made[i] = body(i);
  return made;
}

Result<Doubles> function(const Subject &of) {
  return each(of, [&](size_t i) { return functionUlps * of.ulpOf(of.y[i]); });
}

// e^(-x^2) times a rational function: two approximated factors and their product, where others have one.
Result<Doubles> erfcBound(const Subject &of) {
  return each(of, [&](size_t i) { return (functionUlps + 1) * of.ulpOf(of.y[i]); });
}

// An activation's factor, which is computed before it is multiplied, and may be subnormal then.
double logistic(double x) { return x >= 0 ? 1 / (1 + std::exp(-x)) : std::exp(x) / (1 + std::exp(x)); }
double siluError(const Subject &of, double x) {
  return std::abs(x) * functionUlps * of.ulpOf(logistic(x)) + of.half(x * logistic(x));
}
Result<Doubles> siluBound(const Subject &of) {
  return each(of, [&](size_t i) { return siluError(of, of.x()[i]); });
}
Result<Doubles> swigluBound(const Subject &of) {
  return each(of, [&](size_t i) { return std::abs(of.x(1)[i]) * siluError(of, of.x()[i]) + of.half(of.y[i]); });
}
// A factor that may underflow, times an infinity: an infinity or NaN.
bool isUndecided(const Subject &of, size_t i) {
  if (!isOp(of.node, "mortise.swiglu") || !std::isinf(of.x(1)[i]) || !std::isfinite(of.x()[i]))
    return false;
  const double x = of.x()[i];
  return x != 0 && std::abs(x * logistic(x)) <= siluError(of, x);
}
double geluError(const Subject &of, double x, double y) { return 4.5 * of.w * std::abs(x) + of.ulpOf(y); }
Result<Doubles> geluBound(const Subject &of) {
  return each(of, [&](size_t i) { return geluError(of, of.x()[i], of.y[i]); });
}

// Whether what an op reads is exact, or rounded correctly.
bool isBehindArithmetic(const MortiseNode &node) {
  return std::all_of(node.operands, node.operands + node.operand_count, [](const MortiseValue *operand) {
    const MortiseNode *producer = operand->producer;
    return !producer || !rounds(opOf(*producer)) || isOp(*producer, Op::Add, Op::Sub, Op::Mul, Op::Div, Op::Sqrt);
  });
}
// Ops that round correctly, behind others that do: what is between them may be kept in more bits.
double betweenError(const Subject &of, size_t operand, size_t i) {
  const MortiseNode *producer = of.node.operands[operand]->producer;
  if (!producer || !rounds(opOf(*producer)))
    return 0;
  const double value = of.x(operand)[i];
  return ulp(value, of.dtype) / 2 + (of.dtype == of.accumulator ? 0 : of.half(value));
}
Result<Doubles> arithmeticBound(const Subject &of) {
  return each(of, [&](size_t i) {
    const double a = std::abs(of.x(0)[i]), b = std::abs(of.x(1)[i]);
    const double da = betweenError(of, 0, i), db = betweenError(of, 1, i), rounding = of.half(of.y[i]);
    if (isOp(of.node, "mortise.add") || isOp(of.node, "mortise.sub"))
      return da + db + rounding;
    if (isOp(of.node, "mortise.mul"))
      return da * b + a * db + da * db + rounding;
    return b > db ? (da + std::abs(of.y[i]) * db) / (b - db) + rounding : INFINITY;
  });
}

Result<Doubles> dropoutBound(const Subject &of) {
  return each(of, [&](size_t i) { return of.ulpOf(of.y[i]) * 1.5; });
}

// ---- Sums

// The number of terms is the same op on ones. `more`: roundings beyond one for each term.
Result<Doubles> roundingsOf(const Subject &of, double more) {
  Result<Doubles> terms = of.with([](size_t, double) { return 1; });
  for (size_t i = 0; terms && i < terms->size(); ++i)
    (*terms)[i] = std::max((*terms)[i] + more, 0.0);
  return terms;
}

// Of products, of which each may underflow.
Result<Doubles> dotBound(const Subject &of) {
  const Result<Doubles> roundings = roundingsOf(of, 0);
  if (!roundings)
    return roundings.error();
  Result<Doubles> sums = of.magnitudes();
  for (size_t i = 0; sums && i < sums->size(); ++i)
    (*sums)[i] = of.sumError((*sums)[i], (*roundings)[i], 0) + of.underflows((*roundings)[i]);
  return sums;
}

// Of the operands' elements. `divisor`: what the sum is divided by.
Result<Doubles> sumBound(const Subject &of, double more, double divisor = 1) {
  const Result<Doubles> roundings = roundingsOf(of, more);
  if (!roundings)
    return roundings.error();
  Result<Doubles> sums = of.magnitudes();
  if (!sums)
    return sums;
  Doubles sizes = *sums;
  for (double &size : sizes)
    size *= divisor;
  const Result<Doubles> drifting = drifts(sizes, *roundings, of.w, [&](double step) {
    return of.with([=](size_t, double term) { return std::isfinite(term) ? residue(term, step) : 0; });
  });
  if (!drifting)
    return drifting.error();
  for (size_t i = 0; i < sums->size(); ++i)
    (*sums)[i] = of.sumError((*sums)[i], (*roundings)[i], (*drifting)[i]);
  return sums;
}
Result<Doubles> reduceSumBound(const Subject &of) { return sumBound(of, -1); }
double length(const Subject &of) { return static_cast<double>(sumLength(of.node)); }
// The mean of ones is 1; the sum is divided, or multiplied by a rounded reciprocal.
Result<Doubles> meanBound(const Subject &of) {
  Result<Doubles> made = sumBound(of, length(of), length(of));
  for (size_t i = 0; made && i < made->size(); ++i)
    (*made)[i] += of.tiny;
  return made;
}

// A partial product may lie below the normal numbers, and what is lost there is multiplied by the other factors.
Result<Doubles> productBound(const Subject &of, const std::function<double(size_t)> &factors) {
  Result<Doubles> larger = of.with([](size_t, double value) { return std::max(1.0, std::abs(value)); });
  for (size_t i = 0; larger && i < larger->size(); ++i) {
    double &error = (*larger)[i];
    if (factors(i) <= 1)
      error = 0;
    else if (error > largestFinite(of.accumulator)) // in another order the product is infinite in between
      error = INFINITY;
    else
      error = of.growth(factors(i) - 1) * std::abs(of.y[i]) + of.underflows(factors(i)) * error;
  }
  return larger;
}
Result<Doubles> reduceProdBound(const Subject &of) {
  return productBound(of, [&](size_t) { return length(of); });
}

// Updates are added, or multiplied with what is there; how many an element gets is the sum of as many ones.
Result<Doubles> putBound(const Subject &of) {
  if (stringAttribute(of.node, "mode") == "add")
    return sumBound(of, -1);
  const Renamed adding(of, "mode", "add");
  const Result<Doubles> factors = of.with([](size_t, double) { return 1; }, &adding.view());
  if (!factors)
    return factors.error();
  return productBound(of, [&](size_t i) { return (*factors)[i]; });
}

// ---- Rows along an axis

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
Doubles normBound(const Subject &of, size_t count, bool centred, const std::function<size_t(size_t)> &parameter) {
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
    const double meanError = centred ? of.sumError(x, 2) / n : 0;
    const double varianceError = of.sumError(squares, 3) / n + 2 * of.w * variance + meanError * meanError + of.tiny;
    const double root = 1 / std::sqrt(variance + epsilon);
    const double rootError = (varianceError / (variance + epsilon) + of.w) / 2 + 2 * functionUlps * of.w;
    for (size_t i = row; i < row + count; ++i) {
      const double scale = of.has(1) ? std::abs(of.x(1)[parameter(i)]) : 1, distance = std::abs(of.x()[i] - mean);
      // (x - mean) root, or x root - mean root.
      const double difference = meanError + of.w * (centred ? std::abs(of.x()[i]) + std::abs(mean) : 0);
      const double bias = of.has(2) ? std::abs(of.x(2)[parameter(i)]) : 0; // it may be added to mean root first
      made[i] =
          scale * (root * (difference + distance * (rootError + 3 * of.w)) + of.tiny) + bias * of.w + of.half(of.y[i]);
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
           bias * of.w + of.half(of.y[i]) + of.tiny;
  });
}

// ---- Others

// x cos + turned x sin, and the magnitude of each of these.
Result<Doubles> ropeBound(const Subject &of) {
  Doubles made(of.y.size(), 2 * of.tiny);
  for (const size_t left : {size_t(1), size_t(2)}) {
    const Result<Doubles> term =
        of.with([&](size_t operand, double value) { return operand == left ? 0 : std::abs(value); });
    if (!term)
      return term.error();
    for (size_t i = 0; i < made.size(); ++i)
      made[i] += of.w * std::abs((*term)[i]);
  }
  for (size_t i = 0; i < made.size(); ++i)
    made[i] += of.half(of.y[i]);
  return made;
}

// A convolution, a scale and a bias, and then an activation, whose slope is at most 1.13.
Result<Doubles> fusedBound(const Subject &of) {
  const Renamed bare(of, "activation", "none");
  Result<Doubles> terms = of.with([](size_t, double value) { return std::abs(value); }, &bare.view());
  if (!terms)
    return terms;
  const bool active =
      stringAttribute(of.node, "activation") != "none" && stringAttribute(of.node, "activation") != "relu";
  const double n = static_cast<double>(product(dims(of.type(1)).subspan(1)));
  for (size_t i = 0; i < terms->size(); ++i) {
    const double before = of.growth(n + 2) * (*terms)[i] + of.underflows(n);
    (*terms)[i] = active ? 1.13 * before + geluError(of, (*terms)[i], of.y[i]) : before;
  }
  return terms;
}

// x W + bias, where W is dequantised: exactly, as the language defines it. W is the op on the identity, without a bias.
Result<Doubles> quantizedLinearBound(const Subject &of) {
  const auto k = of.type(0).dims[of.type(0).rank - 1], n = of.node.results[0]->type->dims[of.type(0).rank - 1];
  const int64_t xDims[] = {k, k}, yDims[] = {k, n};
  MortiseType x = of.type(0), y = of.type(0);
  x.rank = y.rank = 2;
  x.dims = xDims;
  y.dims = yDims;
  MortiseValue identity = *of.node.operands[0], weight = *of.node.results[0];
  identity.type = &x;
  weight.type = &y;
  MortiseNode node = of.node;
  std::vector<const MortiseValue *> operands(node.operands, node.operands + node.operand_count), inputs;
  operands[0] = &identity;
  operands.resize(5, nullptr);
  operands[4] = nullptr;
  const MortiseValue *results[] = {&weight};
  node.operands = operands.data();
  node.operand_count = operands.size();
  node.results = results;
  weight.producer = &node;
  MortiseGraph alone = of.view;
  const MortiseNode *nodes[] = {&node};
  alone.nodes = nodes;
  Bytes eye(static_cast<size_t>(k * k) * dtypeBits(x.dtype) / 8 + 8);
  reference::visitFloat(x.dtype, [&](auto kind) {
    using Kind = decltype(kind);
    for (int64_t i = 0; i < k; ++i)
      reinterpret_cast<typename Kind::Storage *>(eye.data())[i * k + i] = Kind::store(1);
  });
  std::vector<const void *> from;
  for (const MortiseValue *operand : operands)
    if (operand && std::ranges::find(inputs, operand) == inputs.end()) {
      inputs.push_back(operand);
      from.push_back(
          operand == &identity
              ? eye.data()
              : of.bytes[of.inputOf(static_cast<size_t>(std::ranges::find(operands, operand) - operands.begin()))]
                    .data());
    }
  alone.inputs = inputs.data();
  alone.input_count = inputs.size();
  alone.outputs = results;
  Doubles w(static_cast<size_t>(k * n)), made(of.y.size());
  if (n == 0)
    return made;
  void *const to[] = {w.data()};
  if (k != 0)
    if (Result<void> done = reference::interpretUnrounded(alone, from, to); !done)
      return done.error();
  const double roundings = static_cast<double>(k) + 3; // and the scale may be a factor of the sum
  for (size_t i = 0; i < made.size(); ++i) {
    const size_t row = i / static_cast<size_t>(n), column = i % static_cast<size_t>(n);
    double terms = of.has(4) ? std::abs(of.x(4)[column]) : 0;
    for (size_t j = 0; j < static_cast<size_t>(k); ++j)
      terms += std::abs(of.x()[row * static_cast<size_t>(k) + j] * w[j * static_cast<size_t>(n) + column]);
    made[i] = of.growth(roundings) * terms + 2 * of.underflows(roundings);
  }
  return made;
}

// r cos(2 pi v) with r = sqrt(-2 log(1 - u)), which is largest for the largest u that is drawn.
Result<Doubles> normalBound(const Subject &of) {
  const double largest = std::sqrt(2 * std::log(2.0) * (of.dtype == MORTISE_F64 ? 53 : 24));
  return each(of, [&](size_t i) { return of.w * (6 * std::abs(of.y[i]) + 17 * largest); });
}

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
std::pair<int64_t, double> sequenceOf(const Doubles &offsets, size_t row) {
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

const std::map<std::string_view, Bound> &bounds() {
  static const std::map<std::string_view, Bound> all = [] {
    std::map<std::string_view, Bound> made = {{"add", arithmeticBound},
                                              {"sub", arithmeticBound},
                                              {"mul", arithmeticBound},
                                              {"div", arithmeticBound},
                                              {"erfc", erfcBound},
                                              {"silu", siluBound},
                                              {"swiglu", swigluBound},
                                              {"gelu", geluBound},
                                              {"dropout", dropoutBound},
                                              {"dot", dotBound},
                                              {"linear", dotBound},
                                              {"convolution", dotBound},
                                              {"fused_convolution", fusedBound},
                                              {"reduce_sum", reduceSumBound},
                                              {"cumsum", reduceSumBound},
                                              {"sum_pool", reduceSumBound},
                                              {"mean", meanBound},
                                              {"put", putBound},
                                              {"scatter_along", putBound},
                                              {"scatter_nd", putBound},
                                              {"all_reduce", reduceSumBound},
                                              {"reduce_scatter", reduceSumBound},
                                              {"reduce_prod", reduceProdBound},
                                              {"cumprod", reduceProdBound},
                                              {"softmax", softmaxBound},
                                              {"log_softmax", logSoftmaxBound},
                                              {"cumlogsumexp", cumlogsumexpBound},
                                              {"cross_entropy", crossEntropyBound},
                                              {"layer_norm", trailingNormBound},
                                              {"rms_norm", trailingNormBound},
                                              {"group_norm", groupNormBound},
                                              {"batch_norm", batchNormBound},
                                              {"rope", ropeBound},
                                              {"quantized_linear", quantizedLinearBound},
                                              {"normal", normalBound},
                                              {"attention", attentionBound},
                                              {"ragged_attention", raggedAttentionBound}};
    for (const char *name :
         {"exp",  "expm1", "log",  "log1p", "rsqrt", "sin",   "cos",  "tanh",  "erf",  "tan", "asin",  "acos",
          "atan", "sinh",  "cosh", "asinh", "acosh", "atanh", "log2", "log10", "exp2", "pow", "atan2", "logistic"})
      made[name] = function;
    return made;
  }();
  return all;
}

std::string_view bare(std::string_view op) {
  op.remove_prefix(std::min(op.find('.') + 1, op.size()));
  return op;
}

// The operands of the last node.
Result<std::vector<Bytes>> operandsOf(const MortiseGraph &graph, const MortiseNode &node, const OneNode &alone,
                                      std::span<const void *const> inputs) {
  std::vector<Bytes> values(graph.value_count);
  for (size_t i = 0; i < graph.input_count; ++i) {
    const auto *from = static_cast<const std::byte *>(inputs[i]);
    values[graph.inputs[i]->index].assign(from, from + byteSize(*graph.inputs[i]->type));
    values[graph.inputs[i]->index].resize(byteSize(*graph.inputs[i]->type) + 8);
  }
  for (size_t i = 0; i < graph.node_count && graph.nodes[i] != &node; ++i) {
    Result<std::unique_ptr<OneNode>> step = OneNode::make(graph, *graph.nodes[i], false);
    if (!step)
      return step.error();
    std::vector<const void *> from;
    std::vector<void *> to;
    for (const uint32_t value : (*step)->operandValues)
      from.push_back(values[value].data());
    for (size_t r = 0; r < graph.nodes[i]->result_count; ++r) {
      Bytes &result = values[graph.nodes[i]->results[r]->index];
      result.resize(byteSize(*graph.nodes[i]->results[r]->type) + 8);
      to.push_back(result.data());
    }
    (*step)->run(from, to);
  }
  std::vector<Bytes> made;
  for (const uint32_t value : alone.operandValues)
    made.push_back(values[value]);
  return made;
}

// Of output `output`, the first result of `node`.
double rounded(double value, int32_t dtype) {
  return reference::visitFloat(dtype, [&](auto kind) {
    using Kind = decltype(kind);
    return static_cast<double>(Kind::load(Kind::store(value)));
  });
}

Result<ExactResult> exactResult(const MortiseGraph &graph, const MortiseNode &node, size_t output,
                                std::span<const void *const> inputs) {
  Result<std::unique_ptr<OneNode>> alone = OneNode::make(graph, node, false);
  if (!alone)
    return alone.error();
  Result<std::vector<Bytes>> operands = operandsOf(graph, node, **alone, inputs);
  if (!operands)
    return operands.error();
  Subject subject(node, (*alone)->view(), std::move(*operands));
  Result<Doubles> exact = subject.exact();
  if (!exact)
    return exact.error();
  subject.y = std::move(*exact);
  const auto found = bounds().find(bare(node.op));
  if (found == bounds().end() || (found->second == arithmeticBound && !isBehindArithmetic(node))) {
    auto measured = standardErrors(graph, inputs);
    if (!measured)
      return measured.error();
    Doubles &errors = (*measured)[output];
    for (size_t i = 0; i < subject.y.size(); ++i)
      errors[i] = allowed(errors[i], subject.y[i], subject.dtype);
    return ExactResult{std::move(subject.y), std::move(errors)};
  }
  Result<Doubles> errors = found->second(subject);
  if (!errors)
    return errors.error();
  const bool wide = subject.dtype == MORTISE_F64, narrow = subject.dtype != subject.accumulator;
  for (size_t i = 0; i < errors->size(); ++i) {
    double &error = (*errors)[i];
    if (!std::isfinite(subject.y[i])) {
      error = isUndecided(subject, i) ? INFINITY : 0;
      continue;
    }
    // The device rounds to its type; and of f64 the exact result is rounded, too.
    if (error == 0)
      error = std::abs(rounded(subject.y[i], subject.dtype) - subject.y[i]);
    else if (narrow || wide)
      error += std::max(ulp(std::abs(subject.y[i]) + error, subject.dtype) / 2, wide ? subject.tiny : 0);
  }
  return ExactResult{subject.y, std::move(*errors)};
}

} // namespace

Result<std::vector<ExactResult>> exactResults(const MortiseGraph &graph, std::span<const void *const> inputs) {
  std::vector<ExactResult> made(graph.output_count);
  for (size_t i = 0; i < graph.output_count; ++i) {
    const MortiseValue &value = *graph.outputs[i];
    if (!value.producer || value.producer->results[0] != &value || !isFloat(value.type->dtype))
      continue;
    const auto before = std::find(graph.outputs, graph.outputs + i, &value);
    if (before != graph.outputs + i) {
      made[i] = made[static_cast<size_t>(before - graph.outputs)];
      continue;
    }
    auto found = exactResult(graph, *value.producer, i, inputs);
    if (!found)
      return found.error();
    made[i] = std::move(*found);
  }
  return made;
}

} // namespace mortise::conformance
