// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// Sums of operands and of products, and what is made of one.
#include "formulas.hpp"

namespace mortise::conformance::formulas {

// The number of terms is the same op on ones. `more`: roundings beyond one for each term.
static Result<Doubles> roundingsOf(const Subject &of, double more) {
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
static Result<Doubles> sumBound(const Subject &of, double more, double divisor = 1) {
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
static double length(const Subject &of) { return static_cast<double>(sumLength(of.node)); }
// The mean of ones is 1; the sum is divided, or multiplied by a rounded reciprocal.
Result<Doubles> meanBound(const Subject &of) {
  Result<Doubles> made = sumBound(of, length(of), length(of));
  for (size_t i = 0; made && i < made->size(); ++i)
    (*made)[i] += of.tiny;
  return made;
}

// A partial product may lie below the normal numbers, and what is lost there is multiplied by the other factors.
static Result<Doubles> productBound(const Subject &of, const std::function<double(size_t)> &factors) {
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

} // namespace mortise::conformance::formulas
