// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// Collectives. Each run gets the calls of all ranks, indexed by rank. Reductions combine the members of a group in the
// group's order.
#include "kernels.hpp"

#include <cstring>

namespace mortise::reference::inline MORTISE_ARITHMETIC {
namespace {

using Calls = std::span<const Call>;

Refusal checkGroups(const Shapes &shapes) {
  std::span<const int64_t> groups = shapes.integers("groups");
  auto count = static_cast<int64_t>(groups.size());
  std::vector<bool> named(groups.size());
  for (int64_t rank : groups) {
    if (rank < 0 || rank >= count || named[static_cast<size_t>(rank)])
      return shapes.fail("expected 'groups' to name each rank from 0 to " + std::to_string(count - 1) + " once");
    named[static_cast<size_t>(rank)] = true;
  }
  if (int64_t size = shapes.integer("group_size"); count == 0 || size < 1 || count % size)
    return shapes.fail("expected a group_size that divides " + std::to_string(count) + " ranks, found " +
                       std::to_string(size));
  return {};
}
Refusal sameType(const Shapes &shapes) { return shapes.expect(shapes.dtype(0), shapes.dims(0)); }

// Checks that the result has the extents of x, divided by group_size along `split` and multiplied by it along `concat`.
// Either axis may be NULL.
Refusal checkParts(const Shapes &shapes, const char *split, const char *concat) {
  int64_t size = shapes.integer("group_size");
  Shape expected(shapes.dims(0).begin(), shapes.dims(0).end());
  for (const char *name : {split, concat})
    if (name)
      if (Refusal refusal = shapes.axis(name, shapes.rank(0)))
        return refusal;
  if (split) {
    int64_t &extent = expected[static_cast<size_t>(shapes.integer(split))];
    if (extent % size)
      return shapes.fail("expected an extent that " + std::to_string(size) + " divides, found " +
                         std::to_string(extent));
    extent /= size;
  }
  if (concat && __builtin_mul_overflow(expected[static_cast<size_t>(shapes.integer(concat))], size,
                                       &expected[static_cast<size_t>(shapes.integer(concat))]))
    return shapes.fail("the result is too large", MORTISE_REASON_SIZE);
  return shapes.expect(shapes.dtype(0), expected);
}

// Calls body(calls of a group, in the group's order) for each group.
template <typename Body> void forGroups(Calls calls, Body body) {
  std::span<const int64_t> groups = calls[0].integers("groups");
  auto size = static_cast<size_t>(calls[0].integer("group_size"));
  for (size_t first = 0; first < groups.size(); first += size) {
    std::vector<const Call *> members;
    for (size_t i = 0; i < size; ++i)
      members.push_back(&calls[static_cast<size_t>(groups[first + i])]);
    body(members);
  }
}

// The reduction of element `i` of every member's x.
template <typename T>
typename T::Storage combine(std::span<const Call *const> members, std::string_view how, int64_t i) {
  auto total = T::load(members[0]->operand(0).as<T>()[i]);
  for (const Call *member : members.subspan(1)) {
    auto value = T::load(member->operand(0).as<T>()[i]);
    total = how == "sum"    ? plus(total, value)
            : how == "prod" ? times(total, value)
            : how == "max"  ? maximum(total, value)
                            : minimum(total, value);
  }
  return T::store(total);
}

// Copies a block with extents `dims`. `from` and `to` are the offsets of its first element in the two tensors.
void copyBlock(const Tensor &source, int64_t from, const Tensor &target, int64_t to, std::span<const int64_t> dims) {
  size_t bytes = storageBytes(source.dtype());
  std::vector<int64_t> read = offsets(dims, denseStrides(source.dims())),
                       write = offsets(dims, denseStrides(target.dims()));
  for (size_t i = 0; i < read.size(); ++i)
    std::memcpy(target.data + static_cast<size_t>(to + write[i]) * bytes,
                source.data + static_cast<size_t>(from + read[i]) * bytes, bytes);
}
// The offset at which part `i` along `axis` starts, for parts of extent `part`.
int64_t startOf(const Tensor &tensor, size_t axis, int64_t i, int64_t part) {
  return denseStrides(tensor.dims())[axis] * i * part;
}

void runAllReduce(Calls calls) {
  std::string_view how = stringAttribute(calls[0].node, "reduction");
  forGroups(calls, [&](const std::vector<const Call *> &members) {
    visitElement(members[0]->result.dtype(), [&](auto type) {
      using T = decltype(type);
      for (int64_t i = 0; i < members[0]->result.count(); ++i) {
        auto total = combine<T>(members, how, i);
        for (const Call *member : members)
          member->result.as<T>()[i] = total;
      }
    });
  });
}
void runReduceScatter(Calls calls) {
  std::string_view how = stringAttribute(calls[0].node, "reduction");
  auto axis = static_cast<size_t>(calls[0].integer("axis"));
  forGroups(calls, [&](const std::vector<const Call *> &members) {
    for (size_t m = 0; m < members.size(); ++m) {
      const Tensor &result = members[m]->result;
      std::vector<int64_t> read = offsets(result.dims(), denseStrides(members[m]->operand(0).dims()));
      int64_t start = startOf(members[m]->operand(0), axis, static_cast<int64_t>(m), result.dims()[axis]);
      visitElement(result.dtype(), [&](auto type) {
        using T = decltype(type);
        for (size_t i = 0; i < read.size(); ++i)
          result.as<T>()[i] = combine<T>(members, how, start + read[i]);
      });
    }
  });
}
void runAllGather(Calls calls) {
  auto axis = static_cast<size_t>(calls[0].integer("axis"));
  forGroups(calls, [&](const std::vector<const Call *> &members) {
    for (const Call *member : members)
      for (size_t m = 0; m < members.size(); ++m) {
        Tensor x = members[m]->operand(0);
        copyBlock(x, 0, member->result, startOf(member->result, axis, static_cast<int64_t>(m), x.dims()[axis]),
                  x.dims());
      }
  });
}
void runAllToAll(Calls calls) {
  auto split = static_cast<size_t>(calls[0].integer("split_axis")),
       concat = static_cast<size_t>(calls[0].integer("concat_axis"));
  forGroups(calls, [&](const std::vector<const Call *> &members) {
    Shape part(members[0]->operand(0).dims().begin(), members[0]->operand(0).dims().end());
    part[split] /= static_cast<int64_t>(members.size());
    for (size_t to = 0; to < members.size(); ++to)
      for (size_t from = 0; from < members.size(); ++from) {
        Tensor x = members[from]->operand(0), result = members[to]->result;
        copyBlock(x, startOf(x, split, static_cast<int64_t>(to), part[split]), result,
                  startOf(result, concat, static_cast<int64_t>(from), part[concat]), part);
      }
  });
}
void copyWhole(const Tensor &source, const Tensor &target) {
  std::memcpy(target.data, source.data, static_cast<size_t>(target.count()) * storageBytes(target.dtype()));
}
void runBroadcast(Calls calls) {
  forGroups(calls, [&](const std::vector<const Call *> &members) {
    for (const Call *member : members)
      copyWhole(members[0]->operand(0), member->result);
  });
}

Refusal checkPermute(const Shapes &shapes) {
  std::span<const int64_t> pairs = shapes.integers("pairs");
  int64_t count = shapes.integer("rank_count");
  bool fits = pairs.size() % 2 == 0 && count >= 1;
  for (size_t i = 0; fits && i < pairs.size(); ++i) {
    fits = pairs[i] >= 0 && pairs[i] < count;
    for (size_t j = i % 2; fits && j < i; j += 2)
      fits = pairs[j] != pairs[i];
  }
  return fits ? sameType(shapes)
              : shapes.fail("expected 'pairs' of sources and targets from 0 to below rank_count, none twice");
}
void runPermute(Calls calls) {
  for (const Call &call : calls) // zeros of every type are zero bytes
    std::memset(call.result.data, 0, static_cast<size_t>(call.result.count()) * storageBytes(call.result.dtype()));
  std::span<const int64_t> pairs = calls[0].integers("pairs");
  for (size_t i = 0; i < pairs.size(); i += 2)
    copyWhole(calls[static_cast<size_t>(pairs[i])].operand(0), calls[static_cast<size_t>(pairs[i + 1])].result);
}

Refusal checkRank(const Shapes &shapes) {
  if (shapes.integer("rank_count") < 1)
    return shapes.fail("expected a rank_count of 1 or more");
  return shapes.expect(MORTISE_I64, {});
}
void runRank(Calls calls) {
  for (size_t rank = 0; rank < calls.size(); ++rank)
    *calls[rank].result.as<I64>() = static_cast<int64_t>(rank);
}

OpSpec collective(Op op, std::function<Refusal(const Shapes &)> check, std::function<void(Calls)> run) {
  return {op, std::move(check), nullptr, std::move(run)};
}
template <typename Rest> auto inGroups(Rest rest) {
  return [rest](const Shapes &shapes) {
    Refusal refusal = checkGroups(shapes);
    return refusal ? refusal : rest(shapes);
  };
}

} // namespace

std::span<const OpSpec> collectiveOps() {
  auto gathered = [](const Shapes &shapes) { return checkParts(shapes, nullptr, "axis"); };
  auto scattered = [](const Shapes &shapes) { return checkParts(shapes, "axis", nullptr); };
  auto exchanged = [](const Shapes &shapes) { return checkParts(shapes, "split_axis", "concat_axis"); };
  static const std::vector<OpSpec> ops = {
      collective(Op::AllReduce, inGroups(sameType), runAllReduce),
      collective(Op::AllGather, inGroups(gathered), runAllGather),
      collective(Op::ReduceScatter, inGroups(scattered), runReduceScatter),
      collective(Op::AllToAll, inGroups(exchanged), runAllToAll),
      collective(Op::CollectiveBroadcast, inGroups(sameType), runBroadcast),
      collective(Op::CollectivePermute, checkPermute, runPermute),
      collective(Op::Rank, checkRank, runRank),
  };
  return ops;
}

} // namespace mortise::reference::inline MORTISE_ARITHMETIC
