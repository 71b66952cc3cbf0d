// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// Helpers for the patterns of all families. Patterns match and create ops through their generated classes, so a
// misspelt op, operand or attribute does not compile. Extents are compared as expressions, so patterns match symbolic
// shapes as well.
#pragma once

#include <mortise/ir/ops.hpp>

#include <mlir/IR/BuiltinAttributes.h>
#include <mlir/IR/BuiltinTypes.h>
#include <mlir/IR/PatternMatch.h>

#include <optional>

namespace mortise::passes::raise {

using ir::Dims;
using llvm::ArrayRef;
using llvm::StringRef;
using mlir::Operation;
using mlir::PatternRewriter;
using mlir::Value;
using Ints = llvm::SmallVector<int64_t>;

// ---- Reading

// The op that produces `value` when it is an Op; null otherwise and for a null value.
template <typename Op> Op producer(Value value) { return value ? value.getDefiningOp<Op>() : Op(); }
mlir::RankedTensorType typeOf(Value value);
mlir::Type elementOf(Value value);
int64_t rankOf(Value value);
Dims dimsOf(Value value);
ArrayRef<int64_t> numbersOf(ir::DimsAttr extents); // empty when an extent is symbolic
template <typename Op> int64_t axisOf(Op op) { return static_cast<int64_t>(op.getAxis()); }

Value stripReshapes(Value value);
Value stripConverts(Value value);                 // strips conversions between floats only
std::optional<double> splat(Value value);         // the number that fills the whole of a float tensor
std::optional<int64_t> integerSplat(Value value); // the same for a tensor of integers of 8 bits or more
bool isSplat(Value value, double number);         // relative tolerance 1e-6, for numbers written in f32
std::optional<int64_t> countAlong(Value value, ArrayRef<int64_t> axes); // number of elements; none when symbolic

// The other operand of a commutative op when one is filled with `number`; null otherwise.
template <typename Op> Value otherThan(Value value, double number) {
  if (Op op = producer<Op>(value))
    for (unsigned i : {0u, 1u})
      if (isSplat(op->getOperand(i), number))
        return op->getOperand(1 - i);
  return {};
}
// x when `value` is x * number or x / number, and null otherwise. `factor` is multiplied by the number, or divided by
// it.
Value scaledBy(Value value, double &factor);

// `constant` times all of `factors`: a product flattened through multiplications, divisions by numbers and negations
// that have one user.
struct Product {
  double constant = 1;
  llvm::SmallVector<Value, 4> factors;
};
// `value` itself may have several users; none when there are more than four factors.
std::optional<Product> productOf(Value value);

// When `value` has the extents `shape` and is a broadcast along `axes` of a tensor with one element for each index of
// the other dimensions: that tensor, in whatever shape it has. Null otherwise.
Value repeatedAlong(Value value, ArrayRef<int64_t> axes, ArrayRef<Dim> shape);
Ints range(int64_t first, int64_t last);
Ints allBut(int64_t rank, int64_t axis);

// The operand and axes when `value`, behind any reshapes, is a mean: the composite, a sum times 1 / count, or a sum
// divided by count.
struct Mean {
  Value operand;
  ArrayRef<int64_t> axes;
};
std::optional<Mean> meanOf(Value value);

// ---- Writing

// The attributes of an op: {.axis = ..., .epsilon = ...}.
template <typename Op> using Properties = typename mlir::PropertiesSelector<Op>::type;

// Infers the result type, verifies the op and inserts it. Returns null and creates nothing when verification fails or
// an operand is null.
Value makeOp(PatternRewriter &rewriter, mlir::Location location, mlir::RegisteredOperationName name,
             mlir::ValueRange operands, mlir::OpaqueProperties properties);
template <typename Op>
Value make(PatternRewriter &rewriter, mlir::Location location, mlir::ValueRange operands,
           const Properties<Op> &properties = {}) {
  const auto name = mlir::RegisteredOperationName::lookup(mlir::TypeID::get<Op>(), rewriter.getContext());
  return makeOp(rewriter, location, *name, operands,
                mlir::OpaqueProperties(const_cast<Properties<Op> *>(&properties))); // makeOp only reads them
}

// Fails when `value` is null or has another type than `op`.
mlir::LogicalResult replaceBy(PatternRewriter &rewriter, Operation *op, Value value);
// The location of `heart`, the op that does the work (a convolution before its activation), fused with that of `op`;
// that of `op` when `heart` is null.
mlir::Location placeOf(Operation *op, Operation *heart);
// Fails and replaces nothing when the new op does not verify or has another type than `op`.
template <typename Op>
mlir::LogicalResult replace(PatternRewriter &rewriter, Operation *op, mlir::ValueRange operands,
                            const Properties<Op> &properties = {}, Operation *heart = nullptr) {
  return replaceBy(rewriter, op, make<Op>(rewriter, placeOf(op, heart), operands, properties));
}

Value reshapeTo(PatternRewriter &rewriter, Value value, ArrayRef<Dim> shape);
Value transposed(PatternRewriter &rewriter, Value value, ArrayRef<int64_t> permutation);
// The symbols in `shape` are those of `of`, or of `value` when `of` is null.
Value broadcastTo(PatternRewriter &rewriter, Value value, ArrayRef<Dim> shape, ArrayRef<int64_t> axes, Value of = {});
Value broadcastLike(PatternRewriter &rewriter, Value value, Value like, ArrayRef<int64_t> axes);
Value filled(PatternRewriter &rewriter, mlir::Location location, double number, Value like);

// When `value` is a broadcast, along all dimensions before `axis`, of a tensor with the remaining extents: that tensor,
// reshaped to those extents. Null otherwise.
Value trailing(PatternRewriter &rewriter, Value value, int64_t axis);
// When `value` is a broadcast of a tensor with one element for each index of `axis`: that tensor, reshaped to rank 1.
// Null otherwise.
Value along(PatternRewriter &rewriter, Value value, int64_t axis);
// `value` before its broadcast, reshaped to the rank of `value` with extents of 1 where it was repeated; `value` itself
// when it is no broadcast.
Value unrepeated(PatternRewriter &rewriter, Value value);

// convert(composite(convert(x))) for a narrow x, where the composite has no other operand: it computes in f32 anyway.
template <typename Composite> mlir::LogicalResult widened(ir::ConvertOp op, PatternRewriter &rewriter) {
  auto composite = producer<Composite>(op.getOperand());
  if (!composite || !composite->hasOneUse() || composite->getNumOperands() != 1 ||
      !elementOf(composite.getResult()).isF32())
    return mlir::failure();
  auto convert = producer<ir::ConvertOp>(composite->getOperand(0));
  if (!convert || !llvm::isa<mlir::FloatType>(elementOf(op.getResult())) ||
      convert.getOperand().getType() != op.getResult().getType())
    return mlir::failure();
  return replace<Composite>(rewriter, op, convert.getOperand(), composite.getProperties(), composite);
}

// ---- Tables

struct Row {
  StringRef root; // the op at which the pattern starts
  mlir::LogicalResult (*raise)(Operation *, PatternRewriter &);
};
// The row of a function that takes a Root, or an Operation * when it serves several ops.
template <typename Root, auto raise> Row row() {
  return {Root::getOperationName(), [](Operation *op, PatternRewriter &rewriter) -> mlir::LogicalResult {
            return raise(llvm::cast<Root>(op), rewriter);
          }};
}
ArrayRef<Row> activations();  // activations.cpp
ArrayRef<Row> norms();        // norms.cpp
ArrayRef<Row> softmaxes();    // softmax.cpp
ArrayRef<Row> attentions();   // attention.cpp
ArrayRef<Row> ropes();        // rope.cpp
ArrayRef<Row> linears();      // linear.cpp
ArrayRef<Row> convolutions(); // convolution.cpp

} // namespace mortise::passes::raise
