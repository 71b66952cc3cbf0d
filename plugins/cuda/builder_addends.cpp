// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// What is added to a product, and is the library's to add: a residual, a bias.
#include "builder.hpp"

#include <algorithm>

namespace mortise::cuda {

// Per value, the first node that reads its memory, as these views would have it.
std::vector<uint32_t> Builder::firstReaders(std::span<const View> views) const {
  std::vector<uint32_t> readers(region.value_count, UINT32_MAX);
  for (size_t n = 0; n < region.node_count; ++n) {
    const MortiseNode &node = *region.nodes[n];
    if (has(node, Trait::View))
      continue;
    for (size_t i = 0; i < node.operand_count; ++i)
      if (node.operands[i]) {
        uint32_t &first = readers[views[node.operands[i]->index].base];
        first = std::min(first, node.index);
      }
  }
  return readers;
}

// Whether the value lies in memory when this node comes, although nothing but an addition behind that wants it there.
bool Builder::isStoredBefore(const MortiseValue &value, uint32_t node, std::span<const View> views,
                             std::span<const uint32_t> firstReaders) const {
  const MortiseValue &base = *region.values[views[value.index].base];
  if (!base.producer)
    return true;
  if (isOp(*base.producer, Op::Constant))
    return false;
  return request.taken[base.producer->index] || isCall(*base.producer, views) || isOutput(base.index) ||
         firstReaders[base.index] < node;
}

// Whether more than the next group reads the value: a call, several nodes, or the caller.
bool Builder::isStoredBehind(const MortiseValue &value, std::span<const MortiseNode *const> soleUsers,
                             std::span<const View> views) const {
  const MortiseNode *user = soleUsers[value.index];
  while (user && has(*user, Trait::View))
    user = soleUsers[user->results[0]->index];
  return !user || isCall(*user, views);
}

// Whether the library computes the call for typical values of the symbols. Its answer is kept.
Result<bool> Builder::isTaken(Call &call, std::span<const View> views) {
  const MortiseNode &node = *call.node;
  const auto viewOf = [&](uint32_t value) { return views[value]; };
  const auto dense = denseOperands(node, viewOf);
  if (!dense)
    return false;
  const MortiseValue &lhs = *node.operands[0], &rhs = *node.operands[1];
  std::vector<View> operands{dense->first ? denseView(lhs) : viewOf(lhs.index),
                             dense->second ? denseView(rhs) : viewOf(rhs.index)};
  for (size_t i = 2; i < node.operand_count; ++i)
    if (node.operands[i])
      operands.push_back(viewOf(node.operands[i]->index));
  if (call.addend)
    operands.push_back(viewOf(call.addend->index));
  const ProductShape shape = shapeOf(call, operands);
  const auto mayBeEmpty = [&](const ProductAxis<Dim> &axis) { return bounds(axis.extent, ranges).low < 1; };
  if (call.addend && std::ranges::any_of(shape.axes.k, mayBeEmpty)) // sums without terms are not the library's
    return false;

  Result<Entered> entered = Entered::into(kernel.device);
  if (!entered)
    return entered.error();
  Result<ProductLibrary *> library = kernel.device.products();
  if (!library)
    return library.error();
  Result<ProductNumbers> numbers = cuda::numbersOf(shape, **library, typical);
  if (!numbers)
    return numbers.error().code == MORTISE_UNSUPPORTED ? Result<bool>(false) : numbers.error();
  call.chosen = std::move(numbers->library);
  return true;
}

// Some of the library's kernels round before they add a bias of f16 or bf16 (decision 0080).
Result<void> Builder::checkBias(Call &call, std::span<const View> views) {
  const MortiseNode &node = *call.node;
  if (call.chosen || node.operand_count < 3 || !node.operands[2] || !isNarrowFloat(node.results[0]->type->dtype))
    return {};
  const Result<bool> taken = isTaken(call, views);
  if (!taken)
    return taken.error();
  if (!*taken)
    std::ranges::copy(originsOf({node.index}), std::back_inserter(unproved));
  return {};
}

// The library adds to a product what lies in memory in any case, where the sum has to be there as well: then a group
// need neither read the product nor write the sum. Otherwise as much would be read and written as without it. So that
// such an addition is no reason to refuse anything, the library is asked first.
Result<void> Builder::takeAddend(Call &call, std::span<const MortiseNode *const> soleUsers, std::span<const View> views,
                                 std::span<const uint32_t> firstReaders) {
  const MortiseNode &node = *call.node;
  const MortiseValue *product = node.results[0]; // or a view of it, whose elements lie alike
  std::vector<uint32_t> nodes = call.nodes;
  const MortiseNode *user = soleUsers[product->index];
  for (; user && isOp(*user, Op::Reshape, Op::Transpose); user = soleUsers[product->index]) {
    const std::optional<View> view = viewThrough(*user, denseView(*product));
    if (!view || !detail::isDense<Dim>(view->dims, view->strides))
      return {};
    nodes.push_back(user->index);
    product = user->results[0];
  }
  if (!user || !isOp(*user, Op::Add) || request.taken[user->index])
    return {};
  const MortiseValue &addend = *user->operands[user->operands[0] == product ? 1 : 0];
  const View &addendView = views[addend.index];
  if (dimsOf(*addend.type) != dimsOf(*product->type) || !detail::isDense<Dim>(addendView.dims, addendView.strides) ||
      !isStoredBefore(addend, node.index, views, firstReaders) || !isStoredBehind(*user->results[0], soleUsers, views))
    return {};

  Call with = call;
  with.addend = &addend;
  if (const Result<bool> taken = isTaken(with, views); !taken)
    return taken.error();
  if (!with.chosen) // the library has no kernel for it, or there is nothing to compute
    return {};
  with.nodes = std::move(nodes);
  with.nodes.push_back(user->index);
  with.target = user->results[0]->index;
  call = std::move(with);
  return {};
}

} // namespace mortise::cuda
