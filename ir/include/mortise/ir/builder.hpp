// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// Builds a function op by op, by op name. Called by the Python frontend (through the C API) and by C++ users. Not
// thread safe: a builder may be used by one thread at a time.
#pragma once

#include <mortise/portable/vendor_ops.hpp>
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

using ValueId = uint32_t;                      // numbers values of one builder
inline constexpr ValueId noValue = UINT32_MAX; // an optional operand that is left out

class Builder {
public:
  // `vendors` knows the ops that the language does not have; it outlives the builder. NULL: there are none.
  Builder(mlir::MLIRContext &context, std::string_view name, const portable::VendorOps *vendors = nullptr);
  ~Builder();

  // Adds a symbol and returns its number (0, 1, ...), by which extents refer to it. All symbols must be added before
  // the first use of one. `max` INT64_MAX: unbounded.
  Result<uint32_t> addSymbol(std::string_view name, int64_t min, int64_t max, int64_t divisor);

  // Adds a condition that every call checks: `expr` equals 0, or is at least 0 (`relation`, a MortiseRelation).
  // `reason` may be "".
  Result<void> addGuard(const MortiseExpr &expr, int32_t relation, std::string_view reason);

  // `flags`: MortiseValueFlag bits. The type is dense; its extents may be symbolic.
  Result<ValueId> addInput(std::string_view name, const MortiseType &type, uint32_t flags);

  // Appends `op` ("mortise.add"). Result types are inferred and the op is verified at once, so an error names the op,
  // `location`, what was expected and what was found. All attributes are required, there are no defaults; an unknown
  // one is an error that names the nearest known. `bodies` are those of a control flow op and use the same symbols.
  // Returns the results of the op, at least one. The op of a vendor ("acme.swizzle") gets the attributes that are left
  // out and have a fallback; its plugin gives the types of its results.
  Result<std::vector<ValueId>> addOp(std::string_view op, std::span<const ValueId> operands,
                                     std::span<const MortiseAttribute *const> attributes, std::string_view location,
                                     std::span<const MortiseGraph *const> bodies = {});

  // Appends a node of a graph, with these values of the builder in place of its operands. The op of a vendor gets the
  // result types that the node says, and no plugin is asked (checkVendorOps in mortise/ir/vendor.hpp asks).
  Result<std::vector<ValueId>> addNode(const MortiseNode &node, std::span<const ValueId> operands);

  // A part of the function that was added twice, one copy directly after the other. The results of the first copy are
  // the values [first, first + count), those of the second the next `count` values. `own` concatenates one list for
  // each of these two copies and of the `copies` new ones: the values that only that copy reads (its weights, results
  // of the previous copy). `locations` concatenates one list for the second copy and each new one: the locations of its
  // ops. The lists within `own`, and those within `locations`, have equal lengths.
  struct Repetition {
    ValueId first;
    uint32_t count, copies;
    std::span<const ValueId> own;
    std::span<const char *const> locations;
  };
  // Appends the new copies; their results get the next numbers. Returns false and appends nothing unless the two copies
  // are equal in ops, attributes and types, and each operand is an own value at the same position of both lists, a
  // result at the same position of its own copy, or the same value in both. An own value of a new copy may be a result
  // of an earlier copy.
  Result<bool> repeat(const Repetition &repetition);

  // The type inferred for a value; owned by the builder.
  Result<const MortiseType *> typeOf(ValueId value) const;

  // `aliasInput` is the number of the input whose memory this output is written to, or -1. That input has the
  // output's type, is not constant, and counts as state.
  Result<void> addOutput(ValueId value, int64_t aliasInput);

  size_t inputCount() const;
  size_t outputCount() const;

  // The unfinished function as MLIR text, for display.
  std::string text() const;

  // Verifies the module and moves it to the caller. Its one public function has the name given to the constructor. The
  // builder is empty afterwards.
  Result<mlir::OwningOpRef<mlir::ModuleOp>> finish();

private:
  struct Impl;
  std::unique_ptr<Impl> impl;
};

} // namespace mortise::ir
