// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// Builds a function op by op, by op name; the Python door (through the C API) and C++ users both call this.
// Not thread safe: one builder, one thread.
#pragma once

#include <mortise/plugin.h>
#include <mortise/result.hpp>

#include <memory>
#include <span>
#include <string>
#include <string_view>
#include <vector>

namespace mlir {
class MLIRContext;
class ModuleOp;
template <typename T> class OwningOpRef;
} // namespace mlir

namespace mortise::ir {

using ValueId = uint32_t;                      // numbered by this builder
inline constexpr ValueId noValue = UINT32_MAX; // an optional operand left out

class Builder {
public:
  Builder(mlir::MLIRContext &context, std::string_view name);
  ~Builder();

  // A symbol that extents may name by the number that this gives (0, 1, ...). All symbols come before the first use of
  // one. `max` INT64_MAX: unbounded.
  Result<uint32_t> addSymbol(std::string_view name, int64_t min, int64_t max, int64_t divisor);

  // What every call checks: `expr` is 0, or at least 0 (MortiseRelation). `reason` may be "".
  Result<void> addGuard(const MortiseExpr &expr, int32_t relation, std::string_view reason);

  // `flags`: MortiseValueFlag bits. The type is dense; its extents may be symbolic.
  Result<ValueId> addInput(std::string_view name, const MortiseType &type, uint32_t flags);

  // Appends `op` ("mortise.add"). Result types are inferred and the op is verified at once, so that an error names the
  // op, `location`, what was expected and what was found. Attributes not given take no default: all are required,
  // and unknown ones are errors naming the nearest known. `bodies`: what a control flow op runs, over the same symbols.
  // Gives the op's results, one or several.
  Result<std::vector<ValueId>> addOp(std::string_view op, std::span<const ValueId> operands,
                                     std::span<const MortiseAttribute *const> attributes, std::string_view location,
                                     std::span<const MortiseGraph *const> bodies = {});

  // A part of the function that stands there twice, one copy directly behind the other: the results of the first are
  // the values [first, first + count), those of the second the next `count`. `own` lists, for these two copies and then
  // for each of `copies` more, the values that this copy alone reads (its weights, what the copy before made);
  // `locations` lists, for the second copy and then for each of the new ones, the locations of its ops. All lists of
  // one kind have one length.
  struct Repetition {
    ValueId first;
    uint32_t count, copies;
    std::span<const ValueId> own;
    std::span<const char *const> locations;
  };
  // Appends the new copies, whose results are numbered on. False, with nothing appended, unless the two copies are
  // equal: ops, attributes, types, and each operand an own value in the same place of both lists, a result of the same
  // place in its copy, or the same value. An own value of a new copy may be a result of a copy before it.
  Result<bool> repeat(const Repetition &repetition);

  // The type inferred for a value; owned by the builder.
  Result<const MortiseType *> typeOf(ValueId value) const;

  // `aliasInput` is the number of the input whose memory this output is written to, or -1. That input has the
  // output's type, is not constant, and counts as state.
  Result<void> addOutput(ValueId value, int64_t aliasInput);

  // The function so far as MLIR text, for people.
  std::string text() const;

  // Verifies and hands over the module, whose one public function has the given name. The builder is empty afterwards.
  Result<mlir::OwningOpRef<mlir::ModuleOp>> finish();

private:
  struct Impl;
  std::unique_ptr<Impl> impl;
};

} // namespace mortise::ir
