// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// What the patterns of all families read and write with. Ops are met and made by their generated classes, so that a
// misspelt op, operand or attribute does not compile; extents are compared as expressions, so that symbols raise like
// numbers.
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

// The op that makes `value` when it is one of these; null otherwise, and for no value.
template <typename Op> Op producer(Value value) { return value ? value.getDefiningOp<Op>() : Op(); }
mlir::RankedTensorType typeOf(Value value);
mlir::Type elementOf(Value value);
int64_t rankOf(Value value);
Dims dimsOf(Value value);
ArrayRef<int64_t> numbersOf(ir::DimsAttr extents); // empty where one is symbolic
template <typename Op> int64_t axisOf(Op op) { return static_cast<int64_t>(op.getAxis()); }

Value stripReshapes(Value value);
Value stripConverts(Value value);                 // from float to float
std::optional<double> splat(Value value);         // the number that fills the whole of a float tensor
std::optional<int64_t> integerSplat(Value value); // and of one of integers
bool isSplat(Value value, double number);         // as written in f32 or narrower: equal to 1 part in 1e-6
std::optional<int64_t> countAlong(Value value, ArrayRef<int64_t> axes); // elements; none when symbolic

// The other operand of a commutative op when one is filled with `number`; null otherwise.
template <typename Op> Value otherThan(Value value, double number) {
  if (Op op = producer<Op>(value))
    for (unsigned i : {0u, 1u})
      if (isSplat(op->getOperand(i), number))
        return op->getOperand(1 - i);
  return {};
}
// x when `value` is x * number or x / number; `factor` is multiplied by what x is.
Value scaledBy(Value value, double &factor);

// `constant` times all of `factors`: a product as it was associated, taken apart through products, quotients by numbers
// and negations that have one user.
struct Product {
  double constant = 1;
  llvm::SmallVector<Value, 4> factors;
};
std::optional<Product> productOf(Value value); // `value` itself may have more users; none with more than four factors

// When `value` repeats along `axes` a tensor that has one element for each index of the other dimensions of `shape`,
// that tensor (of any shape with those elements in row-major order); null otherwise.
Value repeatedAlong(Value value, ArrayRef<int64_t> axes, ArrayRef<Dim> shape);
Ints range(int64_t first, int64_t last);
Ints allBut(int64_t rank, int64_t axis);

// What is averaged, when `value` (reshaped at will) is a mean: the composite, or a sum times 1/count or over count.
struct Mean {
  Value operand;
  ArrayRef<int64_t> axes;
};
std::optional<Mean> meanOf(Value value);

// ---- Writing

// The attributes of an op, as its class has them: {.axis = ..., .epsilon = ...}.
template <typename Op> using Properties = typename mlir::PropertiesSelector<Op>::type;

// Infers the type and verifies the op; null, with nothing made, when it does not fit or an operand is null.
Value makeOp(PatternRewriter &rewriter, mlir::Location location, mlir::RegisteredOperationName name,
             mlir::ValueRange operands, mlir::OpaqueProperties properties);
template <typename Op>
Value make(PatternRewriter &rewriter, mlir::Location location, mlir::ValueRange operands,
           const Properties<Op> &properties = {}) {
  const auto name = mlir::RegisteredOperationName::lookup(mlir::TypeID::get<Op>(), rewriter.getContext());
  return makeOp(rewriter, location, *name, operands,
                mlir::OpaqueProperties(const_cast<Properties<Op> *>(&properties))); // which are only read
}

mlir::LogicalResult replaceBy(PatternRewriter &rewriter, Operation *op, Value value); // null: fails
// The location is that of `heart`, the op that does the work (a convolution under its activation), before that of `op`.
mlir::Location placeOf(Operation *op, Operation *heart);
// False, with nothing replaced, when the op does not fit or has another type.
template <typename Op>
mlir::LogicalResult replace(PatternRewriter &rewriter, Operation *op, mlir::ValueRange operands,
                            const Properties<Op> &properties = {}, Operation *heart = nullptr) {
  return replaceBy(rewriter, op, make<Op>(rewriter, placeOf(op, heart), operands, properties));
}

Value reshapeTo(PatternRewriter &rewriter, Value value, ArrayRef<Dim> shape);
Value transposed(PatternRewriter &rewriter, Value value, ArrayRef<int64_t> permutation);
// The symbols of `shape` are those of `of`, or of `value`.
Value broadcastTo(PatternRewriter &rewriter, Value value, ArrayRef<Dim> shape, ArrayRef<int64_t> axes, Value of = {});
Value broadcastLike(PatternRewriter &rewriter, Value value, Value like, ArrayRef<int64_t> axes);
Value filled(PatternRewriter &rewriter, mlir::Location location, double number, Value like);

// When `value` repeats along the leading dimensions a tensor of the shape of the dimensions from `axis` on: that
// tensor, reshaped.
Value trailing(PatternRewriter &rewriter, Value value, int64_t axis);
// When `value` repeats a tensor with one element for each index of `axis`: that tensor, of rank 1.
Value along(PatternRewriter &rewriter, Value value, int64_t axis);
// `value` before a broadcast that keeps its rank or adds leading dimensions, as a tensor of its rank whose repeated
// extents are 1.
Value unrepeated(PatternRewriter &rewriter, Value value);

// ---- Tables

struct Row {
  StringRef root; // the op at which the pattern starts
  mlir::LogicalResult (*raise)(Operation *, PatternRewriter &);
};
// Of a function that takes a Root, or an Operation * when it is for several.
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
