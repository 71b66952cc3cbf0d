// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#include "../lib/infer.hpp"

#define GET_OP_CLASSES
#include <mortise/ir/control_flow.h.inc>
#define GET_OP_CLASSES
#include <mortise/ir/control_flow.cpp.inc>

using namespace mlir;

namespace mortise::ir {

void MortiseDialect::addControlFlowOps() {
  addOperations<
#define GET_OP_LIST
#include <mortise/ir/control_flow.cpp.inc>
      >();
}

static std::string text(TypeRange types) {
  std::string result;
  for (Type type : types)
    result += (result.empty() ? "" : ", ") + text(type);
  return "(" + result + ")";
}

// The yield of a body; reports an error and returns null when the body is not one block that ends in mortise.yield.
static YieldOp yieldOf(StringRef what, Region *body, const Report &report) {
  if (!body || !body->hasOneBlock() || body->front().empty() || !isa<YieldOp>(body->front().back())) {
    (void)report(what + " must be one block that ends in mortise.yield");
    return {};
  }
  return cast<YieldOp>(body->front().back());
}
static LogicalResult checkArguments(StringRef what, Region *body, TypeRange expected, const Report &report) {
  if (TypeRange(body->front().getArgumentTypes()) == expected)
    return success();
  return report(what + " must take arguments of types " + text(expected) + ", found " +
                text(body->front().getArgumentTypes()));
}
static LogicalResult checkNoCollectives(StringRef what, Region *body, const Report &report) {
  StringRef found;
  body->walk([&](Operation *op) {
    if (isCollective(op))
      found = op->getName().getStringRef();
  });
  return found.empty() ? success() : report(what + " must not hold collectives, found " + found);
}
static LogicalResult scalarPredicate(Type type) {
  auto tensor = dyn_cast<RankedTensorType>(type);
  return success(tensor && tensor.getRank() == 0 && tensor.getElementType().isInteger(1));
}
static Inferred shapedAs(TypeRange types, const Report &report) {
  SmallVector<Shaped, 1> results;
  for (Type type : types) {
    auto tensor = dyn_cast<RankedTensorType>(type);
    if (!tensor || !hasKnownExtents(tensor))
      return report("a body yields " + text(type) + ": expected a tensor of known extents");
    if (failed(report.unite(symbolsOf(tensor))))
      return failure();
    results.push_back({tensor.getElementType(), dimsOf(tensor)});
  }
  return Inferred(std::move(results));
}

Inferred IfOp::infer(Adaptor op, const Report &report) {
  if (failed(scalarPredicate(op.getPredicate().getType())))
    return report.at("if_c1")("the predicate must be tensor<i1>, found " + text(op.getPredicate().getType()));
  SmallVector<YieldOp> yields;
  for (auto [what, body] :
       {std::pair(StringRef("the first body"), &op.getThenBody()), {"the second body", &op.getElseBody()}}) {
    YieldOp yield = yieldOf(what, body, report.at(""));
    if (!yield || failed(checkArguments(what, body, TypeRange(op.getInputs()), report.at("if_c2"))) ||
        failed(checkNoCollectives(what, body, report.at("if_c4"))))
      return failure();
    yields.push_back(yield);
  }
  if (yields[0].getOperandTypes() != yields[1].getOperandTypes() || yields[0].getOperandTypes().empty())
    return report.at("if_c3")("both bodies must yield the same types, and at least one, found " +
                              text(yields[0].getOperandTypes()) + " and " + text(yields[1].getOperandTypes()));
  return shapedAs(yields[0].getOperandTypes(), report);
}

Inferred WhileOp::infer(Adaptor op, const Report &report) {
  TypeRange state(op.getInputs());
  if (state.empty())
    return report.at("while_c1")("expected at least one input");
  for (auto [what, body] : {std::pair(StringRef("condition"), &op.getCondition()), {"step", &op.getStep()}})
    if (!yieldOf(what, body, report.at("")) || failed(checkArguments(what, body, state, report.at("while_c2"))) ||
        failed(checkNoCollectives(what, body, report.at("while_c5"))))
      return failure();
  TypeRange decided = op.getCondition().front().back().getOperandTypes(),
            next = op.getStep().front().back().getOperandTypes();
  if (decided.size() != 1 || failed(scalarPredicate(decided[0])))
    return report.at("while_c3")("condition must yield tensor<i1>, found " + text(decided));
  if (next != state)
    return report.at("while_c4")("step must yield the types of the inputs " + text(state) + ", found " + text(next));
  return shapedAs(state, report);
}

Inferred ScanOp::infer(Adaptor op, const Report &report) {
  TypeRange inputs(op.getInputs());
  int64_t carried = op.getCarried();
  Dims trips(op.getTripsAttr().getDims());
  if (failed(report.unite(op.getTripsAttr())))
    return failure();
  if (trips.size() != 1 || !report.isAtLeast(trips[0], 0))
    return report.at("scan_c1")("trips " + report.text(trips) + " must have one entry, at least 0");
  if (carried < 0 || carried > static_cast<int64_t>(inputs.size()))
    return report.at("scan_c1")("carried must be from 0 to the number of inputs, " + Twine(inputs.size()) + ", found " +
                                Twine(carried));
  SmallVector<Type> arguments(inputs.take_front(carried));
  for (Value stacked : op.getInputs().drop_front(carried)) {
    Dims dims = dimsOf(stacked);
    if (dims.empty() || dims[0] != trips[0])
      return report.at("scan_c2")("a stacked input must have extent " + report.text(trips[0]) +
                                  " along dimension 0, found " + report.text(dims));
    arguments.push_back(tensorType(ArrayRef(dims).drop_front(), elementOf(stacked), symbolsOf(stacked.getType())));
  }
  YieldOp yield = yieldOf("step", &op.getStep(), report.at(""));
  if (!yield || failed(checkArguments("step", &op.getStep(), arguments, report.at("scan_c3"))) ||
      failed(checkNoCollectives("step", &op.getStep(), report.at("scan_c5"))))
    return failure();
  TypeRange yielded = yield.getOperandTypes(), state = inputs.take_front(carried);
  if (yielded.empty() || yielded.size() < state.size() || yielded.take_front(carried) != state)
    return report.at("scan_c4")("step must yield the types of the state " + text(state) +
                                " first, and at least one, found " + text(yielded));
  Inferred one = shapedAs(yielded, report.at(""));
  if (failed(one))
    return failure();
  SmallVector<Shaped, 1> results(one.all());
  for (Shaped &stacked : MutableArrayRef(results).drop_front(carried))
    stacked.dims.insert(stacked.dims.begin(), trips[0]);
  return Inferred(std::move(results));
}

} // namespace mortise::ir
