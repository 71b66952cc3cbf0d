// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#include <mortise/conformance/error_bounds.hpp>

#include "drift.hpp"
#include "one_node.hpp"

#include <mortise/reference/formats.hpp>

#include <algorithm>
#include <cstring>
#include <random>
#include <string_view>

namespace mortise::conformance {
namespace {

int64_t product(std::span<const int64_t> values) {
  int64_t made = 1;
  for (int64_t value : values)
    made *= value;
  return made;
}

int64_t extents(const MortiseNode &node, size_t operand, std::string_view axes) {
  int64_t made = 1;
  for (int64_t axis : intsAttribute(node, axes))
    made *= node.operands[operand]->type->dims[axis];
  return made;
}

// How an op adds, and how far the accumulator's roundings move a result: by sqrt(length) unit roundoffs, relative to
// `sum`: the same op on the magnitudes of its operands, which gives the sum of |terms|;
// `operand`: its first operand. gelu is x / 2 (1 + erf), and the sum in brackets is rounded;
// `logarithm`: 1 + |result|. A relative error of a sum becomes an absolute error of its logarithm;
// `normal`: its operands. These get the noise instead of the result, because the sums are inside, as in norms;
// `quotient`: its operands, and the result, which is divided by the sum: where operands are 0, noise relative to them
// is none, and their terms are 1; `centred`: its operands, and the mean that it takes from each row of its first.
enum class Sums { none, sum, operand, logarithm, normal, quotient, centred };
struct Kind {
  Sums sums = Sums::none;
  int64_t length = 1;
  // The terms are elements of the operands, so that what roundings alike add up to follows from them (drift.hpp).
  bool ofElements = false;
  bool isDivided = false; // by the length
};

Kind kindOf(const MortiseNode &node) {
  std::string_view op = node.op;
  op.remove_prefix(std::min(op.find('.') + 1, op.size()));
  const MortiseType &type = *node.operands[0]->type;
  auto extent = [&](int64_t axis) { return type.rank ? type.dims[axis] : 1; };
  auto operand = [&](size_t i) -> const MortiseType & { return *node.operands[i]->type; };
  auto from = [&](int64_t axis) { return product(dims(type).subspan(static_cast<size_t>(axis))); };
  if (op == "dot")
    return {Sums::sum, extents(node, 0, "lhs_contract")};
  if (op == "linear")
    return {Sums::sum, extent(type.rank - 1) + 1};
  if (op == "convolution")
    return {Sums::sum, product(dims(operand(1)).subspan(1))};
  if (op == "reduce_sum" || op == "mean")
    return {Sums::sum, extents(node, 0, "axes"), true, op == "mean"};
  if (op == "sum_pool")
    return {Sums::sum, product(intsAttribute(node, "window")), true};
  if (op == "cumsum")
    return {Sums::sum, extent(intAttribute(node, "axis")), true};
  if ((op == "put" || op.starts_with("scatter_")) && stringAttribute(node, "mode") == "add")
    return {Sums::sum, 1 + elementCount(operand(1)), true};
  if (op == "reduce_prod")
    return {Sums::normal, extents(node, 0, "axes")};
  if (op == "gelu")
    return {Sums::operand, 1};
  if (op == "log_softmax" || op == "cumlogsumexp")
    return {Sums::logarithm, extent(intAttribute(node, "axis"))};
  if (op == "cross_entropy") // rows of it may be added
    return {Sums::logarithm,
            extent(type.rank - 1) * (stringAttribute(node, "reduction") == "none" ? 1 : elementCount(operand(1)))};
  if (op == "batch_norm") // (x - mean) * scale / deviation + bias, in any arrangement
    return {Sums::normal, 4};
  if (op == "softmax" || op == "cumprod")
    return {op == "softmax" ? Sums::quotient : Sums::normal, extent(intAttribute(node, "axis"))};
  if (op == "layer_norm" || op == "rms_norm")
    return {op == "layer_norm" ? Sums::centred : Sums::normal, from(intAttribute(node, "axis"))};
  if (op == "group_norm")
    return {Sums::centred, from(1) / std::max<int64_t>(intAttribute(node, "groups"), 1)};
  if (op == "fused_convolution") // a sum, and then an activation
    return {Sums::normal, product(dims(operand(1)).subspan(1)) + 2};
  if (op == "quantized_linear") // weights less zero points are no operand, and scales are factors of terms or of sums
    return {Sums::normal, extent(type.rank - 1) + 3};
  if (op == "rope") // x cos + turned x sin: the magnitudes of the operands do not give |terms|, because of a minus
    return {Sums::normal, 2};
  if (op == "attention" || op == "attention_forward" || op == "attention_gradient")
    return {Sums::normal, std::max(operand(0).dims[operand(0).rank - 1], operand(1).dims[operand(1).rank - 2])};
  return {};
}

// Noise of roundings that all go one way, up or down. `drift` may be reached, so the bound has to be that at least:
// twice as much, for there may be several such sums, whose noise adds up by squares.
double oneWay(double drift, std::mt19937_64 &random) {
  return drift > 0 ? 2 * drift / confidence * (random() % 2 ? 1 : -1) : 0;
}

double load(int32_t dtype, const std::byte *data, size_t i) {
  return reference::visitElement(dtype, [&](auto kind) {
    using Storage = typename decltype(kind)::Storage;
    return static_cast<double>(decltype(kind)::load(reinterpret_cast<const Storage *>(data)[i]));
  });
}
void store(int32_t dtype, std::byte *data, size_t i, double value) {
  reference::visitElement(dtype, [&](auto kind) {
    using Kind = decltype(kind);
    reinterpret_cast<typename Kind::Storage *>(data)[i] = Kind::store(static_cast<typename Kind::Compute>(value));
  });
}

// Runs a graph node by node, so noise can be added to results in between.
class Runs {
public:
  explicit Runs(const MortiseGraph &graph)
      : graph(graph), byIndex(graph.value_count), exact(graph.value_count), moved(graph.value_count) {
    for (size_t v = 0; v < graph.value_count; ++v)
      byIndex[graph.values[v]->index] = graph.values[v];
  }

  Result<void> prepare(std::span<const void *const> inputs);
  void perturb(std::mt19937_64 &random);
  // Adds to `squares`, for each element of output o, the square of its distance from the value without noise.
  void shifts(size_t o, std::vector<double> &squares) const;
  // The deviation of the noise that is added to each element of output o itself. In the runs it is rounded to the
  // dtype, and then often to nothing.
  std::vector<double> ownNoise(size_t o) const;

private:
  struct Step {
    const MortiseNode *node;
    Kind kind;
    std::unique_ptr<OneNode> narrow, wide = nullptr;   // wide: NULL when the op's attributes fix its dtype
    std::vector<std::vector<double>> accumulated = {}; // how far roundings of sums move each element of the results
    std::vector<double> drift = {}; // and those that go one way: of the first result, or of each row's mean (centred)
    std::vector<std::vector<bool>> rounds = {}; // elements that the dtype does not represent exactly
  };
  Result<void> addStep(const MortiseNode &node);
  void findRoundings(Step &step);
  void accumulate(Step &step);
  std::vector<double> driftOf(Step &step, const std::vector<double> &sums);
  static double accumulatorShare(const Step &step);
  static bool movesOperands(const Step &step) { return step.kind.sums >= Sums::normal && step.wide; }
  static void offCentre(const Step &step, const std::vector<std::vector<double>> &operands, std::vector<double> &result,
                        std::mt19937_64 &random);
  std::vector<std::vector<double>> wideOperands(const Step &step, const std::vector<Bytes> &from) const;
  void runNarrow(Step &step, std::vector<Bytes> &values);
  void runWide(Step &step, const std::vector<std::vector<double>> &operands, std::vector<std::vector<double>> &results);
  std::vector<double> loaded(const MortiseValue &value, const std::vector<Bytes> &from) const;

  const MortiseGraph &graph;
  std::vector<const MortiseValue *> byIndex;
  std::vector<Bytes> exact, moved; // by value
  std::vector<Step> steps;
};

std::vector<double> Runs::loaded(const MortiseValue &value, const std::vector<Bytes> &from) const {
  std::vector<double> made(static_cast<size_t>(elementCount(*value.type)));
  for (size_t i = 0; i < made.size(); ++i)
    made[i] = load(value.type->dtype, from[value.index].data(), i);
  return made;
}

void Runs::runNarrow(Step &step, std::vector<Bytes> &values) {
  std::vector<const void *> operands;
  std::vector<void *> results;
  for (uint32_t value : step.narrow->operandValues)
    operands.push_back(values[value].data());
  for (size_t i = 0; i < step.node->result_count; ++i)
    results.push_back(values[step.node->results[i]->index].data());
  step.narrow->run(operands, results);
}

// Runs the f64 form of a step. `operands` and `results` hold the floats; other operands come from the run without
// noise.
void Runs::runWide(Step &step, const std::vector<std::vector<double>> &operands,
                   std::vector<std::vector<double>> &results) {
  std::vector<const void *> from;
  std::vector<void *> to;
  std::vector<Bytes> others;
  for (size_t i = 0; i < operands.size(); ++i) {
    const MortiseValue &value = *byIndex[step.wide->operandValues[i]];
    from.push_back(isFloat(value.type->dtype) ? static_cast<const void *>(operands[i].data())
                                              : exact[value.index].data());
  }
  others.resize(step.node->result_count);
  results.resize(step.node->result_count);
  for (size_t i = 0; i < results.size(); ++i) {
    const MortiseType &type = *step.node->results[i]->type;
    results[i].resize(static_cast<size_t>(elementCount(type)));
    others[i].resize(byteSize(type));
    to.push_back(isFloat(type.dtype) ? static_cast<void *>(results[i].data()) : others[i].data());
  }
  step.wide->run(from, to);
}

Result<void> Runs::addStep(const MortiseNode &node) {
  const bool hasFloats = node.operand_count && node.operands[0] && isFloat(node.operands[0]->type->dtype) &&
                         isFloat(node.results[0]->type->dtype);
  Result<std::unique_ptr<OneNode>> narrow = OneNode::make(graph, node, false);
  if (!narrow)
    return narrow.error();
  Step &step = steps.emplace_back(Step{&node, hasFloats ? kindOf(node) : Kind{}, std::move(*narrow)});
  runNarrow(step, exact);
  if (hasFloats)
    if (Result<std::unique_ptr<OneNode>> wide = OneNode::make(graph, node, true); wide)
      step.wide = std::move(*wide);
  findRoundings(step);
  if (step.wide && step.kind.sums != Sums::none && !movesOperands(step))
    accumulate(step);
  if (step.wide && step.kind.sums == Sums::centred) {
    const std::vector<double> x = loaded(*node.operands[0], exact);
    const auto length = static_cast<size_t>(std::max<int64_t>(step.kind.length, 1));
    for (size_t row = 0; row + length <= x.size(); row += length)
      step.drift.push_back(
          conformance::drift(std::span(x).subspan(row, length), accumulatorRoundoff(node.results[0]->type->dtype)) /
          static_cast<double>(length));
  }
  return {};
}

// An element counts as rounded when the same op in f64 gives another number, so ops that move or select values round
// nothing. (For f64, and for ops without a wide form, every element counts as rounded; but an infinity of a literal, as
// masks have them, does not: noise relative to it would be an infinity of either sign.)
void Runs::findRoundings(Step &step) {
  std::vector<std::vector<double>> wide;
  if (step.wide)
    runWide(step, wideOperands(step, exact), wide);
  step.rounds.resize(step.node->result_count);
  for (size_t r = 0; r < step.node->result_count; ++r) {
    const MortiseValue &value = *step.node->results[r];
    if (!isFloat(value.type->dtype))
      continue;
    const std::vector<double> stored = loaded(value, exact);
    std::vector<bool> &rounds = step.rounds[r];
    rounds.assign(stored.size(), true);
    if (!step.wide)
      std::transform(stored.begin(), stored.end(), rounds.begin(),
                     [](double element) { return std::isfinite(element); });
    if (step.wide && value.type->dtype != MORTISE_F64)
      for (size_t i = 0; i < stored.size(); ++i)
        rounds[i] = stored[i] != wide[r][i];
  }
}

void Runs::accumulate(Step &step) {
  std::vector<std::vector<double>> operands = wideOperands(step, exact);
  if (step.kind.sums == Sums::sum)
    for (std::vector<double> &operand : operands)
      for (double &element : operand)
        element = std::abs(element);
  if (step.kind.sums == Sums::operand)
    step.accumulated.push_back(std::move(operands.front()));
  else
    runWide(step, operands, step.accumulated);
  if (step.kind.ofElements)
    step.drift = driftOf(step, step.accumulated.front());
  const double share = accumulatorShare(step), least = step.kind.sums == Sums::logarithm ? 1 : 0;
  for (std::vector<double> &result : step.accumulated)
    for (double &element : result)
      element = std::isfinite(element) ? (least + std::abs(element)) * share : 0;
}

// `sums`: of the terms' magnitudes.
std::vector<double> Runs::driftOf(Step &step, const std::vector<double> &sums) {
  const auto length = static_cast<double>(step.kind.length);
  std::vector<double> sizes = sums;
  for (double &size : sizes)
    size *= step.kind.isDivided ? length : 1;
  const double w = accumulatorRoundoff(step.node->results[0]->type->dtype);
  const std::vector<std::vector<double>> terms = wideOperands(step, exact);
  auto found = drifts(sizes, std::vector<double>(sizes.size(), length), w, [&](double unit) {
    std::vector<std::vector<double>> residues = terms, made;
    for (std::vector<double> &operand : residues)
      for (double &term : operand)
        term = std::isfinite(term) ? residue(term, unit) : 0;
    runWide(step, residues, made);
    return Result<std::vector<double>>(std::move(made.front()));
  });
  return *found; // which running a step cannot fail
}

double Runs::accumulatorShare(const Step &step) {
  return std::sqrt(static_cast<double>(step.kind.length)) * accumulatorRoundoff(step.node->results[0]->type->dtype);
}

// The mean of a row is a sum that is rounded. All elements of the row are then off by the same amount, which no shift
// of operands does: their mean is taken away from them. Rows are contiguous in layer and group norms.
void Runs::offCentre(const Step &step, const std::vector<std::vector<double>> &operands, std::vector<double> &result,
                     std::mt19937_64 &random) {
  std::normal_distribution<double> normal;
  const std::vector<double> &x = operands.front();
  const double epsilon = floatAttribute(*step.node, "epsilon");
  const auto length = static_cast<size_t>(std::max<int64_t>(step.kind.length, 1));
  const MortiseValue *scaled = step.node->operands[1];
  const auto &known = step.wide->operandValues; // each operand once
  const std::vector<double> *scale =
      scaled ? &operands[static_cast<size_t>(std::ranges::find(known, scaled->index) - known.begin())] : nullptr;
  // A scale has one number for each element of a row (layer norm), or for each channel.
  const MortiseType &type = *step.node->operands[0]->type;
  const bool perChannel = findAttribute(*step.node, "groups") != nullptr;
  const size_t channels = perChannel ? static_cast<size_t>(type.dims[1]) : length;
  const size_t run = perChannel ? static_cast<size_t>(product(dims(type).subspan(2))) : 1; // elements of one channel
  for (size_t row = 0; row + length <= x.size(); row += length) {
    double size = 0, mean = 0, variance = 0;
    const auto elements = std::span(x).subspan(row, length);
    for (const double element : elements) {
      size += std::abs(element) / static_cast<double>(length);
      mean += element / static_cast<double>(length);
    }
    for (const double element : elements)
      variance += (element - mean) * (element - mean) / static_cast<double>(length);
    const double roundings = accumulatorShare(step) * size * normal(random) +
                             (step.drift.empty() ? 0 : oneWay(step.drift[row / length], random));
    const double shift = roundings / std::sqrt(variance + epsilon);
    for (size_t i = row; std::isfinite(shift) && i < row + length; ++i)
      result[i] += shift * (scale ? (*scale)[i / run % channels] : 1);
  }
}

std::vector<std::vector<double>> Runs::wideOperands(const Step &step, const std::vector<Bytes> &from) const {
  std::vector<std::vector<double>> operands;
  for (uint32_t value : step.wide->operandValues)
    operands.push_back(loaded(*byIndex[value], from));
  return operands;
}

Result<void> Runs::prepare(std::span<const void *const> inputs) {
  for (size_t v = 0; v < graph.value_count; ++v)
    exact[graph.values[v]->index].resize(byteSize(*graph.values[v]->type) + 8);
  for (size_t i = 0; i < graph.input_count; ++i)
    if (const size_t bytes = byteSize(*graph.inputs[i]->type)) // an empty tensor may have no memory
      std::memcpy(exact[graph.inputs[i]->index].data(), inputs[i], bytes);
  for (size_t i = 0; i < graph.node_count; ++i)
    if (Result<void> added = addStep(*graph.nodes[i]); !added)
      return added;
  return {};
}

void Runs::perturb(std::mt19937_64 &random) {
  std::normal_distribution<double> normal;
  moved = exact;
  for (Step &step : steps) {
    std::vector<std::vector<double>> results;
    if (movesOperands(step)) {
      std::vector<std::vector<double>> operands = wideOperands(step, moved);
      for (std::vector<double> &operand : operands)
        for (double &element : operand)
          element *= 1 + accumulatorShare(step) * normal(random);
      runWide(step, operands, results);
      if (step.kind.sums == Sums::centred)
        offCentre(step, operands, results.front(), random);
    } else {
      runNarrow(step, moved);
    }
    const bool fromWide = !results.empty();
    results.resize(step.node->result_count);
    for (size_t r = 0; r < step.rounds.size(); ++r) {
      const MortiseValue &value = *step.node->results[r];
      if (step.rounds[r].empty()) // no floats, or no elements
        continue;
      if (!fromWide)
        results[r] = loaded(value, moved);
      const double unit = unitRoundoff(value.type->dtype);
      for (size_t i = 0; i < results[r].size(); ++i) {
        double shift = step.accumulated.empty() ? 0 : step.accumulated[r][i] * normal(random);
        if (r == 0 && !step.accumulated.empty() && !step.drift.empty())
          shift += oneWay(step.drift[i], random);
        if (step.kind.sums == Sums::quotient)
          shift += results[r][i] * accumulatorShare(step) * normal(random);
        shift += step.rounds[r][i] ? results[r][i] * unit * normal(random) : 0;
        if (shift != 0 || fromWide)
          store(value.type->dtype, moved[value.index].data(), i, results[r][i] + shift);
      }
    }
  }
}

void Runs::shifts(size_t o, std::vector<double> &squares) const {
  const MortiseValue &value = *graph.outputs[o];
  const std::vector<double> from = loaded(value, exact), to = loaded(value, moved);
  for (size_t i = 0; i < squares.size(); ++i) {
    double shift = from[i] == to[i] || (std::isnan(from[i]) && std::isnan(to[i])) ? 0 : from[i] - to[i];
    squares[i] += std::isnan(shift) ? INFINITY : shift * shift;
  }
}

std::vector<double> Runs::ownNoise(size_t o) const {
  const MortiseValue &value = *graph.outputs[o];
  std::vector<double> made = loaded(value, exact);
  const std::vector<bool> *rounds = nullptr;
  for (const Step &step : steps)
    for (size_t r = 0; r < step.rounds.size(); ++r)
      if (step.node->results[r] == &value)
        rounds = &step.rounds[r];
  for (size_t i = 0; i < made.size(); ++i)
    made[i] =
        rounds && (*rounds)[i] && std::isfinite(made[i]) ? std::abs(made[i]) * unitRoundoff(value.type->dtype) : 0;
  return made;
}

} // namespace

int64_t sumLength(const MortiseNode &node) {
  return node.operand_count && node.operands[0] ? std::max<int64_t>(kindOf(node).length, 1) : 1;
}

Result<std::vector<std::vector<double>>> standardErrors(const MortiseGraph &graph,
                                                        std::span<const void *const> inputs) {
  Runs runs(graph);
  if (Result<void> prepared = runs.prepare(inputs); !prepared)
    return prepared.error();
  std::vector<std::vector<double>> errors(graph.output_count);
  for (size_t o = 0; o < graph.output_count; ++o)
    if (isFloat(graph.outputs[o]->type->dtype))
      errors[o].resize(static_cast<size_t>(elementCount(*graph.outputs[o]->type)));
  std::mt19937_64 random(20);
  for (int run = 0; run < measuredRuns; ++run) {
    runs.perturb(random);
    for (size_t o = 0; o < errors.size(); ++o)
      runs.shifts(o, errors[o]);
  }
  for (size_t o = 0; o < errors.size(); ++o) {
    if (errors[o].empty())
      continue;
    const std::vector<double> own = runs.ownNoise(o);
    for (size_t i = 0; i < errors[o].size(); ++i)
      errors[o][i] = std::max(std::sqrt(errors[o][i] / measuredRuns), own[i]);
  }
  return errors;
}

std::string differences(const MortiseType &type, std::span<const std::byte> got, std::span<const std::byte> want,
                        std::span<const double> errors) {
  constexpr size_t shown = 3;
  std::string text;
  reference::visitElement(type.dtype, [&](auto kind) {
    using Kind = decltype(kind);
    const auto *x = reinterpret_cast<const typename Kind::Storage *>(got.data());
    const auto *y = reinterpret_cast<const typename Kind::Storage *>(want.data());
    const size_t count = got.size() / sizeof(*x);
    size_t bad = 0;
    for (size_t i = 0; i < count; ++i) {
      const auto a = static_cast<double>(Kind::load(x[i])), b = static_cast<double>(Kind::load(y[i]));
      const double bound = errors.empty() || !std::isfinite(b) ? 0 : allowed(errors[i], b, type.dtype);
      const bool same = std::isnan(b) ? std::isnan(a) : a == b || std::abs(a - b) <= bound;
      if (!same && ++bad <= shown) {
        char line[160];
        snprintf(line, sizeof line, "element %zu: expected %.9g, found %.9g, which is %.3g away; at most %.3g\n", i, b,
                 a, std::abs(a - b), bound);
        text += line;
      }
    }
    if (bad)
      text += std::to_string(bad) + " of " + std::to_string(count) + " elements of " + typeString(type) + " differ\n";
  });
  return text;
}

Result<std::string> Judge::differences(size_t output, std::span<const std::byte> got, std::span<const std::byte> want) {
  const MortiseType &type = *graph.outputs[output]->type;
  std::string text = conformance::differences(type, got, want);
  if (text.empty() || !isFloat(type.dtype))
    return text;
  if (errors.empty()) {
    auto measured = standardErrors(graph, inputs);
    if (!measured)
      return measured.error();
    errors = std::move(*measured);
  }
  return conformance::differences(type, got, want, errors[output]);
}

} // namespace mortise::conformance
