// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#include "../lib/infer.hpp"

#define GET_OP_CLASSES
#include <mortise/ir/collective.h.inc>
#define GET_OP_CLASSES
#include <mortise/ir/collective.cpp.inc>

using namespace mlir;

namespace mortise::ir {

void MortiseDialect::addCollectiveOps() {
  addOperations<
#define GET_OP_LIST
#include <mortise/ir/collective.cpp.inc>
      >();
}

bool isCollective(Operation *op) {
  return isa<
#define GET_OP_LIST
#include <mortise/ir/collective.cpp.inc>
      >(op);
}

template <typename Adaptor> static LogicalResult checkGroups(Adaptor op, const Report &report) {
  ArrayRef<int64_t> groups = op.getGroups();
  int64_t count = groups.size(), size = op.getGroupSize();
  SmallVector<bool> named(count, false);
  for (int64_t rank : groups) {
    if (rank < 0 || rank >= count || named[rank])
      return report.at("collective_c1")("groups " + text(groups) + " must name each rank from 0 to " +
                                        Twine(count - 1) + " once");
    named[rank] = true;
  }
  if (size < 1 || count == 0 || count % size != 0)
    return report.at("collective_c2")("group_size " + Twine(size) + " must divide the number of ranks, " +
                                      Twine(count));
  return success();
}

// `extent` / `size`; reports an error when divisibility cannot be proved.
static FailureOr<Dim> partOf(StringRef axis, const Dim &extent, int64_t size, const Report &report) {
  Dim part = floorDiv(extent, size);
  if (report.simplified(part * size) == report.simplified(extent))
    return part;
  return LogicalResult(report("the extent along " + axis + " (" + report.text(extent) +
                              ") must be a multiple of group_size, " + Twine(size) + ", for all values of symbols"));
}

Inferred AllReduceOp::infer(Adaptor op, const Report &report) {
  if (failed(checkGroups(op, report)))
    return failure();
  return shapedAs(op.getX());
}
Inferred AllGatherOp::infer(Adaptor op, const Report &report) {
  if (failed(checkGroups(op, report)) || failed(checkAxis(op.getAxis(), rankOf(op.getX()), report.at("all_gather_c1"))))
    return failure();
  Shaped result = shapedAs(op.getX());
  result.dims[op.getAxis()] *= Dim(static_cast<int64_t>(op.getGroupSize()));
  return result;
}
Inferred ReduceScatterOp::infer(Adaptor op, const Report &report) {
  if (failed(checkGroups(op, report)) ||
      failed(checkAxis(op.getAxis(), rankOf(op.getX()), report.at("reduce_scatter_c1"))))
    return failure();
  Shaped result = shapedAs(op.getX());
  FailureOr<Dim> part = partOf("axis", result.dims[op.getAxis()], op.getGroupSize(), report.at("reduce_scatter_c2"));
  if (failed(part))
    return failure();
  result.dims[op.getAxis()] = *part;
  return result;
}
Inferred AllToAllOp::infer(Adaptor op, const Report &report) {
  int64_t rank = rankOf(op.getX()), size = op.getGroupSize();
  if (failed(checkGroups(op, report)) || failed(checkAxis(op.getSplitAxis(), rank, report.at("all_to_all_c1"))) ||
      failed(checkAxis(op.getConcatAxis(), rank, report.at("all_to_all_c1"))))
    return failure();
  Shaped result = shapedAs(op.getX());
  FailureOr<Dim> part = partOf("split_axis", result.dims[op.getSplitAxis()], size, report.at("all_to_all_c2"));
  if (failed(part))
    return failure();
  result.dims[op.getSplitAxis()] = *part;
  result.dims[op.getConcatAxis()] *= Dim(size);
  return result;
}
Inferred CollectiveBroadcastOp::infer(Adaptor op, const Report &report) {
  if (failed(checkGroups(op, report)))
    return failure();
  return shapedAs(op.getX());
}
Inferred CollectivePermuteOp::infer(Adaptor op, const Report &report) {
  ArrayRef<int64_t> pairs = op.getPairs();
  int64_t count = op.getRankCount();
  llvm::SmallDenseSet<std::pair<int64_t, int64_t>> seen; // (0: as source, 1: as target; rank)
  bool fits = pairs.size() % 2 == 0 && count >= 1;
  for (auto [i, rank] : llvm::enumerate(pairs))
    fits = fits && rank >= 0 && rank < count && seen.insert({static_cast<int64_t>(i % 2), rank}).second;
  if (!fits)
    return report.at("collective_permute_c1")("pairs " + text(pairs) +
                                              " must be sources and targets in turn, each from 0 to " +
                                              Twine(count - 1) + ", none twice as source or twice as target");
  return shapedAs(op.getX());
}
Inferred RankOp::infer(Adaptor op, const Report &report) {
  if (static_cast<int64_t>(op.getRankCount()) < 1)
    return report.at("rank_c1")("rank_count must be at least 1, found " +
                                Twine(static_cast<int64_t>(op.getRankCount())));
  return Shaped{IntegerType::get(op.getRankCountAttr().getContext(), 64), {}};
}

} // namespace mortise::ir
