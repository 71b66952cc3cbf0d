// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// What the patterns of all families read and write with. Ops are met by name, so that these files need none of the
// generated op classes; extents are compared as expressions, so that symbols raise like numbers.
#pragma once

#include <mortise/ir/dialect.hpp>

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

Operation *producer(Value value, StringRef name); // the op that makes `value` when it has this name
mlir::RankedTensorType typeOf(Value value);
mlir::Type elementOf(Value value);
int64_t rankOf(Value value);
Dims dimsOf(Value value);
mlir::Attribute attribute(Operation *op, StringRef name);
ArrayRef<int64_t> ints(Operation *op, StringRef name); // of a DenseI64ArrayAttr or static extents; else empty
int64_t intOf(Operation *op, StringRef name);
bool boolOf(Operation *op, StringRef name);
StringRef stringOf(Operation *op, StringRef name);

Value stripReshapes(Value value);
Value stripConverts(Value value);                 // from float to float
std::optional<double> splat(Value value);         // the number that fills the whole of a float tensor
std::optional<int64_t> integerSplat(Value value); // and of one of integers
bool isSplat(Value value, double number);         // as written in f32 or narrower: equal to 1 part in 1e-6
std::optional<int64_t> countAlong(Value value, ArrayRef<int64_t> axes); // elements; none when symbolic

// The other operand of a commutative op when one is filled with `number`; null otherwise.
Value otherThan(Value value, StringRef name, double number);
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

class Attributes {
public:
  explicit Attributes(PatternRewriter &rewriter) : rewriter(rewriter) {}
  Attributes &add(StringRef name, mlir::Attribute value);
  Attributes &integer(StringRef name, int64_t value);
  Attributes &number(StringRef name, double value);
  Attributes &boolean(StringRef name, bool value);
  Attributes &string(StringRef name, StringRef value);
  Attributes &array(StringRef name, ArrayRef<int64_t> value);
  Attributes &segments(ArrayRef<int32_t> sizes); // of ops with several optional operands
  Attributes &all(Operation *op);                // that `op` has; one added later has precedence
  llvm::SmallVector<mlir::NamedAttribute> list;

private:
  PatternRewriter &rewriter;
};

bool isKnown(mlir::MLIRContext *context, StringRef op);
// Infers the type and verifies the op; null, with nothing made, when it does not fit.
Value make(PatternRewriter &rewriter, mlir::Location location, StringRef name, mlir::ValueRange operands,
           const Attributes &attributes);
Value make(PatternRewriter &rewriter, mlir::Location location, StringRef name, mlir::ValueRange operands);
// False, with nothing replaced, when the op does not fit or has another type.
// The location is that of `heart`, the op that does the work (a convolution under its activation), before that of `op`.
mlir::LogicalResult replace(PatternRewriter &rewriter, Operation *op, StringRef name, mlir::ValueRange operands,
                            const Attributes &attributes, Operation *heart = nullptr);
mlir::LogicalResult replace(PatternRewriter &rewriter, Operation *op, StringRef name, mlir::ValueRange operands);
mlir::LogicalResult replaceBy(PatternRewriter &rewriter, Operation *op, Value value); // null: fails

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

using Raise = mlir::LogicalResult (*)(Operation *, PatternRewriter &);
struct Row {
  StringRef root;  // the op at which the pattern starts
  StringRef makes; // the op that it makes, for a dialect that lacks it
  Raise raise;
};
ArrayRef<Row> activations();  // activations.cpp
ArrayRef<Row> norms();        // norms.cpp
ArrayRef<Row> softmaxes();    // softmax.cpp
ArrayRef<Row> attentions();   // attention.cpp
ArrayRef<Row> ropes();        // rope.cpp
ArrayRef<Row> linears();      // linear.cpp
ArrayRef<Row> convolutions(); // convolution.cpp

} // namespace mortise::passes::raise
