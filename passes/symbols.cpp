// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#include "symbols.hpp"

#include <mortise/symbols.hpp>

#include <algorithm>

namespace mortise::passes {
namespace {

Dim bitsOf(const MortiseType &type, size_t symbolCount) {
  return elementCount(dimsOf(type, symbolCount)) * Dim(static_cast<int64_t>(dtypeBits(type.dtype)));
}

} // namespace

double bytesAt(const MortiseType &type, std::span<const int64_t> values) {
  double bits = static_cast<double>(dtypeBits(type.dtype));
  for (int32_t i = 0; i < type.rank; ++i) {
    const Result<int64_t> extent =
        type.dims[i] != MORTISE_DYNAMIC ? Result<int64_t>(type.dims[i]) : evaluate(type.dim_exprs[i], values);
    bits *= extent ? static_cast<double>(std::max<int64_t>(*extent, 0)) : 0;
  }
  return bits / 8;
}

bool equalTypes(const MortiseType &a, const MortiseType &b, size_t symbolCount) {
  if (a.dtype != b.dtype || !std::ranges::equal(dims(a), dims(b)))
    return false;
  if (isStatic(a) && isStatic(b))
    return true;
  const std::vector<Dim> left = dimsOf(a, symbolCount), right = dimsOf(b, symbolCount);
  return left == right && std::ranges::all_of(left, &Dim::isValid);
}

bool equalBytes(const MortiseType &a, const MortiseType &b, size_t symbolCount) {
  if (a.dtype == b.dtype && equalTypes(a, b, symbolCount))
    return true;
  if (isStatic(a) && isStatic(b))
    return byteSize(a) == byteSize(b);
  const Dim left = bitsOf(a, symbolCount), right = bitsOf(b, symbolCount);
  return left.isValid() && right.isValid() && left == right;
}

Result<std::vector<SymbolSource>> symbolSources(const MortiseGraph &graph) {
  std::vector<SymbolSource> sources(graph.symbol_count, {UINT32_MAX, 0});
  for (uint32_t i = 0; i < graph.input_count; ++i) {
    const MortiseValue &value = *graph.inputs[i];
    for (int32_t d = 0; d < value.type->rank; ++d) {
      if (value.type->dims[d] != MORTISE_DYNAMIC)
        continue;
      if (value.flags & MORTISE_VALUE_CONSTANT)
        return Error{MORTISE_INVALID_ARGUMENT, "input " + std::to_string(i) + " '" + value.name +
                                                   "' is constant and has a symbolic extent; constants are bound once "
                                                   "and need numbers"};
      const MortiseExpr &program = value.type->dim_exprs[d];
      if (program.count != 1 || program.steps[0].op != MORTISE_EXPR_SYMBOL)
        continue;
      SymbolSource &source = sources[static_cast<size_t>(program.steps[0].value)];
      if (source.input == UINT32_MAX)
        source = {i, static_cast<uint32_t>(d)};
    }
  }
  for (size_t i = 0; i < sources.size(); ++i)
    if (sources[i].input == UINT32_MAX)
      return Error{MORTISE_INVALID_ARGUMENT, std::string("expected an input with an extent that is just the symbol ") +
                                                 graph.symbols[i]->name +
                                                 ", found none, so that no call would know its value; give an input "
                                                 "such a dimension, or use a number"};
  return sources;
}

} // namespace mortise::passes
