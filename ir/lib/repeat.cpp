// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#include "repeat.hpp"

#include <llvm/ADT/DenseMap.h>
#include <llvm/ADT/STLExtras.h>
#include <llvm/ADT/StringMap.h>
#include <mlir/IR/Location.h>
#include <mlir/IR/Operation.h>

#include <optional>

using namespace mlir;

namespace mortise::ir {
namespace {

class Repeater {
public:
  Repeater(MLIRContext *context, std::vector<Value> &values, const Builder::Repetition &wanted)
      : context(context), values(values), wanted(wanted), ownCount(wanted.own.size() / (wanted.copies + 2)),
        locationCount(wanted.locations.size() / (wanted.copies + 1)) {}

  // Compares the two copies and records their structure. False when they differ.
  bool read() {
    llvm::SmallVector<Operation *> before, after;
    if (!opsOf(wanted.first, before) || !opsOf(wanted.first + wanted.count, after) || before.size() != after.size() ||
        !readOwn())
      return false;
    for (uint32_t i = 0; i < 2 * wanted.count; ++i)
      numbers[values[wanted.first + i]] = wanted.first + i;
    llvm::StringMap<size_t> byLocation;
    for (size_t i = 0; i < locationCount; ++i)
      byLocation[wanted.locations[i]] = i;
    for (auto [a, b] : llvm::zip_equal(before, after)) {
      if (!equal(*a, *b))
        return false;
      Entry &entry = entries.emplace_back(Entry{b, {}, locationCount});
      for (auto [x, y] : llvm::zip_equal(a->getOperands(), b->getOperands())) {
        std::optional<Operand> operand = operandOf(x, y);
        if (!operand)
          return false;
        entry.operands.push_back(*operand);
      }
      if (auto named = llvm::dyn_cast<NameLoc>(b->getLoc()))
        if (auto found = byLocation.find(named.getName().getValue()); found != byLocation.end())
          entry.location = found->second;
    }
    return true;
  }

  // Appends the new copies to the block. False, with the block unchanged, when an own value does not exist or has the
  // wrong type.
  bool append(Block &block) {
    const size_t valuesBefore = values.size();
    Operation *last = &block.back();
    for (uint32_t copy = 0; copy < wanted.copies; ++copy)
      if (!append(block, copy)) {
        while (&block.back() != last)
          block.back().erase();
        values.resize(valuesBefore);
        return false;
      }
    return true;
  }

private:
  struct Operand {
    enum { Same, Own, Inside } kind;
    Value value;     // Same
    uint32_t number; // position among own values (Own) or among the results of a copy (Inside)
  };
  struct Entry {
    Operation *op;
    llvm::SmallVector<Operand, 4> operands;
    size_t location; // index into the locations of a copy; their count when the op keeps its own location
  };

  // Collects the ops whose results are the `count` values from `first` on. False unless they are adjacent in the block.
  bool opsOf(ValueId first, llvm::SmallVector<Operation *> &ops) const {
    for (ValueId id = first; id < first + wanted.count;) {
      Operation *op = values[id].getDefiningOp();
      if (!op || op->getNumRegions() != 0 || (!ops.empty() && op->getPrevNode() != ops.back()) ||
          id + op->getNumResults() > first + wanted.count)
        return false;
      for (OpResult result : op->getResults())
        if (values[id++] != result)
          return false;
      ops.push_back(op);
    }
    return true;
  }

  // Records the position of each own value. False when types differ between the copies, or a value occurs twice.
  bool readOwn() {
    for (size_t place = 0; place < ownCount; ++place) {
      const ValueId before = wanted.own[place], after = wanted.own[ownCount + place];
      if (before >= values.size() || after >= values.size() || values[before].getType() != values[after].getType() ||
          !ownPlaces.try_emplace(values[after], static_cast<uint32_t>(place)).second)
        return false;
    }
    return true;
  }

  static bool equal(Operation &a, Operation &b) {
    return a.getName() == b.getName() && a.getNumOperands() == b.getNumOperands() &&
           a.getResultTypes() == b.getResultTypes() &&
           a.getDiscardableAttrDictionary() == b.getDiscardableAttrDictionary() &&
           a.getName().compareOpProperties(a.getPropertiesStorage(), b.getPropertiesStorage());
  }

  // Classifies an operand that is `before` in the first copy and `after` in the second; none when the copies differ
  // there.
  std::optional<Operand> operandOf(Value before, Value after) const {
    if (auto place = ownPlaces.find(after); place != ownPlaces.end()) {
      if (values[wanted.own[place->second]] != before)
        return std::nullopt;
      return Operand{Operand::Own, {}, place->second};
    }
    if (before == after)
      return Operand{Operand::Same, after, 0};
    const auto number = numbers.find(after);
    if (number == numbers.end() || number->second < wanted.first + wanted.count ||
        values[number->second - wanted.count] != before)
      return std::nullopt;
    return Operand{Operand::Inside, {}, number->second - wanted.first - wanted.count};
  }

  bool append(Block &block, uint32_t copy) {
    const size_t start = values.size();
    const std::span<const ValueId> own = wanted.own.subspan((copy + 2) * ownCount, ownCount);
    for (size_t place = 0; place < ownCount; ++place)
      if (own[place] >= start || values[own[place]].getType() != values[wanted.own[place]].getType())
        return false;
    llvm::SmallVector<Location> locations;
    for (size_t i = 0; i < locationCount; ++i)
      locations.push_back(NameLoc::get(StringAttr::get(context, wanted.locations[(copy + 1) * locationCount + i])));
    llvm::SmallVector<Value> operands;
    for (const Entry &entry : entries) {
      operands.clear();
      for (const Operand &operand : entry.operands)
        operands.push_back(operand.kind == Operand::Same  ? operand.value
                           : operand.kind == Operand::Own ? values[own[operand.number]]
                                                          : values[start + operand.number]);
      Operation &op = *entry.op;
      Operation *made = Operation::create(
          entry.location < locationCount ? locations[entry.location] : op.getLoc(), op.getName(), op.getResultTypes(),
          operands, op.getDiscardableAttrDictionary(), op.getPropertiesStorage(), BlockRange(), 0);
      block.push_back(made);
      llvm::append_range(values, made->getResults());
    }
    return true;
  }

  MLIRContext *context;
  std::vector<Value> &values;
  const Builder::Repetition &wanted;
  size_t ownCount, locationCount;
  // The values of both copies; the positions of the second copy's own values.
  llvm::DenseMap<Value, uint32_t> numbers, ownPlaces;
  std::vector<Entry> entries;
};

} // namespace

bool repeatOps(const Builder::Repetition &wanted, std::vector<Value> &values, Block &block) {
  Repeater repeater(block.getParentOp()->getContext(), values, wanted);
  return repeater.read() && repeater.append(block);
}

} // namespace mortise::ir
