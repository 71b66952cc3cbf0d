// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// Collectives of one rank: what several ranks exchange needs several processes, which no level has yet.
#include "rows.hpp"

namespace mortise::conformance {
namespace {

constexpr const char *reductions[] = {"sum", "prod", "max", "min"};
const std::vector<int64_t> alone = {0};

void gather(Draft &draft) {
  const Dims dims = draft.extents(draft.point.op == Op::CollectiveBroadcast ? 0 : 1, 6);
  std::vector<Attribute> attributes = {integer("group_size", 1), integers("groups", alone)};
  if (draft.point.op == Op::AllGather) {
    attributes.push_back(integer("axis", 0));
  } else if (draft.point.op == Op::AllToAll) {
    attributes.push_back(integer("concat_axis", 0));
    attributes.push_back(integer("split_axis", lastAxis(dims)));
  }
  draft.node({draft.operand(draft.point.dtype, dims)}, {{draft.point.dtype, dims}}, std::move(attributes));
}

void reduce(Draft &draft) {
  const bool scatters = draft.point.op == Op::ReduceScatter;
  const Dims dims = draft.extents(scatters ? 1 : 0, 6);
  std::vector<Attribute> attributes = {integer("group_size", 1), integers("groups", alone),
                                       string("reduction", reductions[draft.point.variant])};
  if (scatters)
    attributes.push_back(integer("axis", 0));
  draft.node({draft.operand(draft.point.dtype, dims)}, {{draft.point.dtype, dims}}, std::move(attributes));
}

// itself: the rank is its own source; nobody: zeros.
void permute(Draft &draft) {
  const Dims dims = draft.extents(0, 6);
  draft.node({draft.operand(draft.point.dtype, dims)}, {{draft.point.dtype, dims}},
             {integers("pairs", draft.point.variant ? std::vector<int64_t>{} : std::vector<int64_t>{0, 0}),
              integer("rank_count", 1)});
}

void rank(Draft &draft) {
  if (draft.point.shape != Shape::Scalar)
    draft.skip("the result is a scalar");
  draft.node({}, {{MORTISE_I64, {}}}, {integer("rank_count", 1)});
}

} // namespace

std::vector<Row> collectiveRows() {
  const std::vector<std::string> kinds(std::begin(reductions), std::end(reductions));
  return {{Op::AllGather, {""}, gather},
          {Op::AllToAll, {""}, gather},
          {Op::CollectiveBroadcast, {""}, gather},
          {Op::AllReduce, kinds, reduce},
          {Op::ReduceScatter, kinds, reduce},
          {Op::CollectivePermute, {"itself", "nobody"}, permute},
          {Op::Rank, {""}, rank, -1}};
}

} // namespace mortise::conformance
