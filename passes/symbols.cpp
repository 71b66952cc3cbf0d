// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#include "symbols.hpp"

#include <mortise/dim.hpp>
#include <mortise/graph.hpp>
#include <mortise/portable/graph.hpp>

#include <algorithm>

namespace mortise::passes {
namespace {

int64_t near(int64_t target, const MortiseSymbol &symbol) {
  const int64_t divisor = std::max<int64_t>(symbol.divisor, 1);
  const int64_t low = (symbol.min + divisor - 1) / divisor * divisor, high = symbol.max / divisor * divisor;
  return std::max(low, std::min(high, target / divisor * divisor));
}

bool holds(const MortiseGuard &guard, std::span<const int64_t> values) {
  const Result<int64_t> value = evaluate(guard.expr, values);
  return value && (guard.relation == MORTISE_RELATION_ZERO ? *value == 0 : *value >= 0);
}

Dim bitsOf(const MortiseType &type, size_t symbolCount) {
  Dim bits(static_cast<int64_t>(dtypeBits(type.dtype)));
  for (int32_t i = 0; i < type.rank; ++i) {
    const Result<Dim> extent =
        type.dims[i] != MORTISE_DYNAMIC ? Result<Dim>(Dim(type.dims[i])) : Dim::from(type.dim_exprs[i], symbolCount);
    bits = extent ? bits * *extent : Dim::invalid();
  }
  return bits;
}

} // namespace

std::vector<int64_t> representativeValues(const MortiseGraph &graph) {
  std::vector<int64_t> first;
  for (const int64_t target : {64, 128, 16, 256, 512, 1024, 8, 4, 2, 1, 4096, 65536}) {
    std::vector<int64_t> values;
    for (size_t i = 0; i < graph.symbol_count; ++i)
      values.push_back(near(target, *graph.symbols[i]));
    if (std::all_of(graph.guards, graph.guards + graph.guard_count,
                    [&](const MortiseGuard *guard) { return holds(*guard, values); }))
      return values;
    if (first.empty())
      first = std::move(values);
  }
  return first;
}

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
  for (int32_t i = 0; i < a.rank; ++i)
    if (a.dims[i] == MORTISE_DYNAMIC) {
      const Result<Dim> left = Dim::from(a.dim_exprs[i], symbolCount), right = Dim::from(b.dim_exprs[i], symbolCount);
      if (!left || !right || *left != *right)
        return false;
    }
  return true;
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
