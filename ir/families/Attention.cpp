// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#include "../lib/Infer.h"

#define GET_OP_CLASSES
#include <mortise/ir/Attention.h.inc>
#define GET_OP_CLASSES
#include <mortise/ir/Attention.cpp.inc>

using namespace mlir;

namespace mortise::ir {

void MortiseDialect::addAttentionOps() {
  addOperations<
#define GET_OP_LIST
#include <mortise/ir/Attention.cpp.inc>
      >();
}

Inferred AttentionOp::infer(Adaptor op, const Report &report) {
  Dims q = dimsOf(op.getQ()), k = dimsOf(op.getK()), v = dimsOf(op.getV());
  if (q.size() != 4 || k.size() != 4 || v.size() != 4)
    return report("q, k and v must have rank 4, found " + report.text(q) + ", " + report.text(k) + " and " +
                  report.text(v));
  if (k[0] != q[0] || k[3] != q[3])
    return report("k " + report.text(k) + " must have the first and last extents of q " + report.text(q));
  if (v[0] != k[0] || v[1] != k[1] || v[2] != k[2])
    return report("v " + report.text(v) + " must have the first three extents of k " + report.text(k));
  if (k[1] == Dim(0) ? q[1] != Dim(0) : mod(q[1], k[1]) != Dim(0))
    return report("the heads of q (" + report.text(q[1]) + ") must be a multiple of those of k (" + report.text(k[1]) +
                  ")");
  Type element = elementOf(op.getQ());
  if (failed(checkElement("k", op.getK(), element, report)) || failed(checkElement("v", op.getV(), element, report)))
    return failure();
  if (Value mask = op.getMask()) {
    Dims shape = dimsOf(mask);
    Dim full[] = {q[0], q[1], q[2], k[2]};
    bool fits = shape.size() == 4;
    for (size_t i = 0; fits && i < 4; ++i)
      fits = shape[i] == Dim(1) || shape[i] == full[i];
    if (!fits)
      return report("mask " + report.text(shape) + " must have rank 4 and broadcast to " + report.text(full));
    if (!elementOf(mask).isInteger(1) && failed(checkElement("a mask that is not i1", mask, element, report)))
      return failure();
  }
  return Shaped{element, {q[0], q[1], q[2], v[3]}};
}

} // namespace mortise::ir
