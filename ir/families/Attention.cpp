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
  auto q = shapeOf(op.getQ()), k = shapeOf(op.getK()), v = shapeOf(op.getV());
  if (q.size() != 4 || k.size() != 4 || v.size() != 4)
    return report("q, k and v must have rank 4, found " + text(q) + ", " + text(k) + " and " + text(v));
  if (k[0] != q[0] || k[3] != q[3])
    return report("k " + text(k) + " must have the first and last extents of q " + text(q));
  if (v[0] != k[0] || v[1] != k[1] || v[2] != k[2])
    return report("v " + text(v) + " must have the first three extents of k " + text(k));
  if (k[1] == 0 ? q[1] != 0 : q[1] % k[1] != 0)
    return report("the heads of q (" + Twine(q[1]) + ") must be a multiple of those of k (" + Twine(k[1]) + ")");
  Type element = elementOf(op.getQ());
  if (failed(checkElement("k", op.getK(), element, report)) || failed(checkElement("v", op.getV(), element, report)))
    return failure();
  if (Value mask = op.getMask()) {
    auto shape = shapeOf(mask);
    int64_t full[] = {q[0], q[1], q[2], k[2]};
    bool fits = shape.size() == 4;
    for (size_t i = 0; fits && i < 4; ++i)
      fits = shape[i] == 1 || shape[i] == full[i];
    if (!fits)
      return report("mask " + text(shape) + " must have rank 4 and broadcast to " + text(full));
    if (!elementOf(mask).isInteger(1) && failed(checkElement("a mask that is not i1", mask, element, report)))
      return failure();
  }
  return RankedTensorType::get({q[0], q[1], q[2], v[3]}, element);
}

} // namespace mortise::ir
