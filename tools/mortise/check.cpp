// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#include "check.hpp"

#include "execution.hpp"

#include <mortise/reference/formats.hpp>
#include <mortise/reference/interpreter.hpp>

#include <algorithm>
#include <cmath>
#include <cstring>
#include <sstream>

namespace mortise::tool {
namespace {

// The distance from 1 to the next larger number.
double epsilonOf(int32_t dtype) { return std::ldexp(1.0, -static_cast<int>(mortise_dtype_info(dtype)->mantissa_bits)); }

Verdict wrong(size_t output, const MortiseType &type, size_t element, double expected, double found) {
  std::ostringstream text;
  text.precision(9);
  text << "output " << output << ", " << typeString(type) << ", element " << element << ": expected " << expected
       << ", found " << found;
  return {false, text.str()};
}

Verdict compare(size_t output, const MortiseType &type, const std::vector<std::byte> &expected,
                std::span<const std::byte> found, double tolerance) {
  if (!isFloat(type.dtype)) {
    const auto place = std::mismatch(expected.begin(), expected.end(), found.begin());
    if (place.first == expected.end())
      return {};
    return wrong(output, type,
                 static_cast<size_t>(place.first - expected.begin()) * 8 / std::max<size_t>(1, dtypeBits(type.dtype)),
                 static_cast<double>(*place.first), static_cast<double>(*place.second));
  }
  const std::vector<double> want = numbers(type, expected), have = numbers(type, found);
  double scale = 0;
  for (double number : want)
    if (std::isfinite(number))
      scale = std::max(scale, std::fabs(number));
  const double bound = std::max(tolerance, 256 * epsilonOf(type.dtype)) * scale;
  Verdict worst;
  double distance = bound;
  for (size_t i = 0; i < want.size(); ++i) {
    const bool finite = std::isfinite(want[i]) && std::isfinite(have[i]);
    if (finite ? std::fabs(want[i] - have[i]) > distance
               : !(want[i] == have[i] || (std::isnan(want[i]) && std::isnan(have[i])))) {
      worst = wrong(output, type, i, want[i], have[i]);
      if (!finite)
        break;
      distance = std::fabs(want[i] - have[i]);
    }
  }
  return worst;
}

std::vector<const void *> pointers(const Tensors &tensors) {
  std::vector<const void *> result;
  for (const std::vector<std::byte> &tensor : tensors)
    result.push_back(tensor.data());
  return result;
}

Tensors outputsOf(const MortiseGraph &graph) {
  Tensors tensors;
  for (size_t i = 0; i < graph.output_count; ++i)
    tensors.emplace_back(byteSize(*graph.outputs[i]->type));
  return tensors;
}

} // namespace

std::vector<double> numbers(const MortiseType &type, std::span<const std::byte> bytes) {
  std::vector<double> all(static_cast<size_t>(elementCount(type)));
  reference::visitFloat(type.dtype, [&](auto format) {
    using Format = decltype(format);
    for (size_t i = 0; i < all.size(); ++i)
      all[i] = Format::load(reinterpret_cast<const typename Format::Storage *>(bytes.data())[i]);
  });
  return all;
}

Result<Tensors> interpreted(const MortiseGraph &graph, const Tensors &inputs) {
  Tensors outputs = outputsOf(graph);
  std::vector<void *> targets;
  for (std::vector<std::byte> &output : outputs)
    targets.push_back(output.data());
  const std::vector<const void *> sources = pointers(inputs);
  if (Result<void> done = reference::interpret(graph, sources, targets); !done)
    return done.error();
  return outputs;
}

Result<Tensors> allValues(const MortiseGraph &graph, const Tensors &inputs) {
  MortiseGraph every = graph;
  every.outputs = graph.values;
  every.output_count = graph.value_count;
  every.alias_count = 0;
  return interpreted(every, inputs);
}

Result<Verdict> check(const Graph &graph, const Tensors &inputs, std::shared_ptr<runtime::Registry> registry,
                      const runtime::Config &config, double tolerance) {
  const MortiseGraph &view = graph.view();
  MortiseGraph plain = view; // an alias would overwrite inputs that are needed for the second run
  plain.alias_count = 0;
  Result<std::shared_ptr<const Graph>> pure = Graph::copy(plain);
  if (!pure)
    return pure.error();
  Result<Tensors> expected = interpreted((*pure)->view(), inputs);
  if (!expected)
    return expected.error();
  Result<Execution> execution = Execution::make(**pure, inputs, std::move(registry), config);
  if (!execution)
    return execution.error();
  if (Result<void> done = execution->run(); !done)
    return done.error();
  for (size_t i = 0; i < view.output_count; ++i)
    if (Verdict verdict = compare(i, *view.outputs[i]->type, (*expected)[i], execution->output(i), tolerance);
        !verdict.good)
      return verdict;
  return Verdict{};
}

} // namespace mortise::tool
