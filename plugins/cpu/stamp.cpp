// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// Lengthens the schedule of a short graph. In each list of steps two neighbouring copies are found that are equal but
// for their buffers; which buffer of one corresponds to which of the other chains buffers to rows: what each copy has
// of its own. For every copy left out the steps of the first of the two are repeated, one place further in each row;
// the steps behind them move to the end of their rows.
#include "repeat.hpp"
#include "schedule.hpp"

#include <algorithm>
#include <cstring>
#include <string_view>

namespace mortise::cpu {

namespace {

// Steps [begin, end) of a vector. Those of [cut - length, cut) are repeated.
struct List {
  const std::vector<Step> *steps = nullptr;
  size_t begin = 0, end = 0, cut = 0, length = 0;
  uint32_t units = 0; // that a copy takes
  bool early(size_t step) const { return step < cut; }
};

class Stamper {
public:
  Stamper(Schedule &schedule, const ShortGraph &graph)
      : schedule(schedule), graph(graph), repetition(graph.repetition), left(graph.left()),
        next(schedule.buffers.size(), none), before(next), row(next), place(next), copyOfBuffer(next) {}
  bool stamp();

private:
  uint32_t copyOf(const Step &step) const;
  bool findCut(List &list);
  bool alike(const Step &a, const Step &b);
  bool pair(BufferId a, BufferId b);
  uint32_t numberOf(const Buffer &buffer) const;
  uint32_t advanced(const Buffer &buffer, uint32_t number, uint32_t copies) const;
  bool ownedByCopy(const Buffer &buffer) const;
  bool checkSides() const;
  bool makeRows();
  bool renumber();
  BufferId at(BufferId buffer, uint32_t shift) const {
    return row[buffer] == none ? buffer : rows[row[buffer]][place[buffer] + shift];
  }
  bool moves(BufferId buffer) const {
    return (next[buffer] != none && next[buffer] != buffer) || (before[buffer] != none && before[buffer] != buffer);
  }
  Step shifted(const Step &step, uint32_t shift, uint32_t units) const;
  void lengthen(const List &list, std::vector<Step> &into, uint32_t unitsBefore) const;
  bool allOutputsWritten(const std::vector<Step> &steps) const;

  Schedule &schedule;
  const ShortGraph &graph;
  const Repetition &repetition;
  const uint32_t left;
  std::vector<List> lists;                 // bind units' steps, other steps of binding, steps
  std::vector<BufferId> next, before;      // per buffer: its counterpart in the next copy, and in the one before
  std::vector<uint32_t> row, place;        // per buffer that moves
  std::vector<uint32_t> copyOfBuffer;      // per kept buffer: the copy that writes it
  std::vector<std::vector<BufferId>> rows; // also those to be made
  std::vector<Buffer> buffers;             // of the whole schedule
};

// ---- Finding two equal copies

// The first copy that the step has anything to do with.
uint32_t Stamper::copyOf(const Step &step) const {
  uint32_t copy = none;
  const uint32_t end = repetition.first + graph.kept * repetition.period;
  for (uint32_t node : step.nodes)
    if (node >= repetition.first && node < end)
      copy = std::min(copy, (node - repetition.first) / repetition.period);
  for (const Operand &operand : step.operands) {
    const Buffer &buffer = schedule.buffers[operand.buffer];
    if (buffer.home == Home::Bound || buffer.home == Home::Input)
      copy = std::min(copy, repetition.copyOf[buffer.number]);
    else if (buffer.home == Home::Kept)
      copy = std::min(copy, copyOfBuffer[operand.buffer]);
  }
  return copy;
}

// Output positions in the whole graph's numbers.
uint32_t Stamper::numberOf(const Buffer &buffer) const {
  return buffer.home == Home::Output ? graph.outputs[buffer.number] : buffer.number;
}

// The number of the input or output that is so many copies further; none where there is no such copy.
uint32_t Stamper::advanced(const Buffer &buffer, uint32_t number, uint32_t copies) const {
  if (!ownedByCopy(buffer))
    return number;
  const std::vector<uint32_t> &chain = buffer.home == Home::Output ? repetition.nextOutput : repetition.next;
  for (; copies > 0 && number != none; --copies)
    number = chain[number];
  return number;
}

// An input or output that the graph has one of for each copy.
bool Stamper::ownedByCopy(const Buffer &buffer) const {
  if (buffer.home == Home::Input || buffer.home == Home::Bound)
    return repetition.copyOf[buffer.number] != none;
  // The last copy's output is among those left out.
  return buffer.home == Home::Output && repetition.nextOutput[graph.outputs[buffer.number]] != none;
}

// `b` is to a copy what `a` is to the copy before.
bool Stamper::pair(BufferId a, BufferId b) {
  if (next[a] == b && before[b] == a)
    return true;
  const Buffer &x = schedule.buffers[a], &y = schedule.buffers[b];
  if (next[a] != none || before[b] != none || x.home != y.home || x.bytes != y.bytes ||
      (x.sharing == none) != (y.sharing == none))
    return false;
  switch (x.home) {
  case Home::Input:
  case Home::Bound:
  case Home::Output:
    if (a == b ? ownedByCopy(x) : advanced(x, numberOf(x), 1) != numberOf(y))
      return false;
    break;
  case Home::Literal:
    if (x.bytes && std::memcmp(x.literal, y.literal, x.bytes) != 0)
      return false;
    break;
  case Home::Workspace:
  case Home::Before: // not before memory is planned
  case Home::Kept:
    break;
  }
  next[a] = b;
  before[b] = a;
  return x.sharing == none || pair(x.sharing, y.sharing);
}

bool Stamper::alike(const Step &a, const Step &b) {
  if (a.name != b.name || std::string_view(a.lowering) != b.lowering || a.nodes.size() != b.nodes.size() ||
      a.bytes != b.bytes || a.flops != b.flops || a.operands.size() != b.operands.size() ||
      a.arguments != b.arguments || a.layouts != b.layouts || a.inputCount != b.inputCount ||
      a.signature != b.signature || static_cast<bool>(a.native) != static_cast<bool>(b.native) ||
      a.call.entry != b.call.entry || a.call.tasks != b.call.tasks || a.call.grain != b.call.grain ||
      a.call.scratchBytes != b.call.scratchBytes || a.call.hasSymbols != b.call.hasSymbols)
    return false;
  // Equal nodes do the same; those before the copies may be computed again in each. A step without is a copy, a reorder
  // or one that its signature describes.
  const uint32_t end = repetition.first + graph.kept * repetition.period;
  for (size_t i = 0; i < a.nodes.size(); ++i)
    if (b.nodes[i] >= end || a.nodes[i] + (a.nodes[i] < repetition.first ? 0 : repetition.period) != b.nodes[i])
      return false;
  for (size_t i = 0; i < a.operands.size(); ++i) {
    const Operand &x = a.operands[i], &y = b.operands[i];
    if (x.offset != y.offset || x.written != y.written || !pair(x.buffer, y.buffer))
      return false;
    // Memory that all copies write one after the other: a sum or a state that is carried on in place.
    Home home = schedule.buffers[x.buffer].home;
    if (x.written && x.buffer == y.buffer && home != Home::Workspace && home != Home::Input)
      return false;
  }
  return true;
}

// Behind the second copy's steps: the first has neighbours of another kind, and the last ones too.
bool Stamper::findCut(List &list) {
  size_t first = none, second = none;
  bool any = false;
  for (size_t i = list.begin; i < list.end; ++i) {
    const Step &step = (*list.steps)[i];
    uint32_t copy = copyOf(step);
    for (const Operand &operand : step.operands)
      if (operand.written && schedule.buffers[operand.buffer].home == Home::Kept)
        copyOfBuffer[operand.buffer] = std::min(copyOfBuffer[operand.buffer], copy);
    any |= copy != none;
    if (copy == 1 && first == none)
      first = i;
    if (copy == 2 && second == none)
      second = i;
  }
  list.cut = list.end;
  if (!any)
    return true;
  if (first == none || second == none || second <= first || second + (second - first) > list.end)
    return false;
  list.cut = second;
  list.length = second - first;
  list.units = (*list.steps)[second].unit - (*list.steps)[first].unit;
  for (size_t i = first; i < second; ++i) {
    const Step &a = (*list.steps)[i], &b = (*list.steps)[i + list.length];
    if (b.unit - a.unit != list.units || !alike(a, b))
      return false;
  }
  return true;
}

// ---- What else refers to what moves

// A buffer on either side of the cut means the same copy's, in every list: it has a row, is no copy's, or is used on
// one side only.
bool Stamper::checkSides() const {
  struct Use {
    bool early = false, late = false, earlyInCopy = false;
  };
  std::vector<Use> uses(schedule.buffers.size());
  for (const List &list : lists) {
    std::vector<bool> early(schedule.buffers.size());
    for (size_t i = list.begin; i < list.end; ++i) {
      const Step &step = (*list.steps)[i];
      const bool inCopy = copyOf(step) != none;
      for (const Operand &operand : step.operands) {
        BufferId buffer = operand.buffer;
        Use &use = uses[buffer];
        if (list.early(i)) {
          early[buffer] = use.early = true;
          use.earlyInCopy |= inCopy;
        } else {
          use.late = true;
        }
        if (!moves(buffer))
          continue;
        // Behind both copies: what was in use before the cut may be the first copy's own, which stays.
        if (list.length == 0 || (i >= list.cut + list.length && early[buffer]))
          return false;
      }
    }
  }
  for (BufferId id = 0; id < uses.size(); ++id) {
    const Buffer &buffer = schedule.buffers[id];
    if (!uses[id].early || !uses[id].late || moves(id) || next[id] == id || buffer.home == Home::Literal)
      continue;
    bool given = buffer.home == Home::Input || buffer.home == Home::Bound;
    if (ownedByCopy(buffer) || (!given && uses[id].earlyInCopy))
      return false;
  }
  return true;
}

// ---- The whole schedule

bool Stamper::makeRows() {
  buffers = schedule.buffers;
  for (BufferId id = 0; id < schedule.buffers.size(); ++id) {
    if (!moves(id) || before[id] != none)
      continue;
    std::vector<BufferId> members;
    for (BufferId member = id; member != none; member = next[member]) {
      row[member] = static_cast<uint32_t>(rows.size());
      place[member] = static_cast<uint32_t>(members.size());
      members.push_back(member);
    }
    for (uint32_t i = 0; i < left; ++i) {
      members.push_back(static_cast<BufferId>(buffers.size()));
      buffers.push_back(schedule.buffers[members[0]]);
    }
    rows.push_back(std::move(members));
  }
  for (BufferId id = 0; id < schedule.buffers.size(); ++id)
    if (moves(id) && row[id] == none)
      return false; // a circle
  return true;
}

// Inputs and outputs of the whole graph.
bool Stamper::renumber() {
  for (const std::vector<BufferId> &members : rows)
    for (uint32_t i = 0; i < members.size(); ++i) {
      const Buffer &head = schedule.buffers[members[0]];
      Buffer &buffer = buffers[members[i]];
      buffer.number = head.number;
      if (head.home == Home::Input || head.home == Home::Bound || head.home == Home::Output) {
        buffer.number = advanced(head, numberOf(head), i);
        if (buffer.number == none)
          return false;
      }
      if (head.sharing != none)
        buffer.sharing = at(head.sharing, i);
    }
  std::vector<bool> late(schedule.buffers.size());
  for (const List &list : lists)
    for (size_t i = list.cut; i < list.end; ++i)
      for (const Operand &operand : (*list.steps)[i].operands)
        late[operand.buffer] = true;
  for (BufferId id = 0; id < schedule.buffers.size(); ++id) {
    const Buffer &buffer = schedule.buffers[id];
    if (row[id] != none || (buffer.home != Home::Input && buffer.home != Home::Bound && buffer.home != Home::Output))
      continue;
    buffers[id].number = advanced(buffer, numberOf(buffer), late[id] ? left : 0);
    if (buffers[id].number == none)
      return false;
  }
  return true;
}

Step Stamper::shifted(const Step &step, uint32_t shift, uint32_t units) const {
  Step made = step;
  const uint32_t end = repetition.first + graph.kept * repetition.period;
  for (uint32_t &node : made.nodes)
    if (node >= repetition.first)
      node += (node < end ? shift : left) * repetition.period;
  for (Operand &operand : made.operands)
    operand.buffer = at(operand.buffer, shift);
  made.unit += units;
  return made;
}

void Stamper::lengthen(const List &list, std::vector<Step> &into, uint32_t unitsBefore) const {
  for (size_t i = list.begin; i < list.cut; ++i)
    into.push_back(shifted((*list.steps)[i], 0, unitsBefore));
  for (uint32_t copy = 1; copy <= left && list.length; ++copy)
    for (size_t i = list.cut - list.length; i < list.cut; ++i)
      into.push_back(shifted((*list.steps)[i], copy, unitsBefore + copy * list.units));
  for (size_t i = list.cut; i < list.end; ++i)
    into.push_back(shifted((*list.steps)[i], left, unitsBefore + left * list.units));
}

bool Stamper::allOutputsWritten(const std::vector<Step> &steps) const {
  std::vector<bool> outputs(repetition.nextOutput.size()), inputs(repetition.next.size());
  for (const Step &step : steps)
    for (const Operand &operand : step.operands)
      if (const Buffer &buffer = buffers[operand.buffer]; operand.written && buffer.home == Home::Output)
        outputs[buffer.number] = true;
      else if (operand.written && buffer.home == Home::Input)
        inputs[buffer.number] = true;
  for (uint32_t output = 0; output < outputs.size(); ++output)
    if (uint32_t following = repetition.nextOutput[output]; following != none)
      for (uint32_t position : {output, following})
        if (uint32_t alias = repetition.aliasOf[position]; !outputs[position] && (alias == none || !inputs[alias]))
          return false;
  return true;
}

bool Stamper::stamp() {
  size_t own = 0;
  while (own < schedule.binding.size() && schedule.binding[own].unit < schedule.bindUnits)
    ++own;
  lists = {{&schedule.binding, 0, own},
           {&schedule.binding, own, schedule.binding.size()},
           {&schedule.steps, 0, schedule.steps.size()}};
  for (List &list : lists)
    if (!findCut(list))
      return false;
  if (lists[2].length == 0 || (lists[1].length && lists[1].units != lists[2].units) || !checkSides() || !makeRows() ||
      !renumber())
    return false;
  std::vector<Step> binding, steps;
  binding.reserve(schedule.binding.size() + left * (lists[0].length + lists[1].length));
  steps.reserve(schedule.steps.size() + left * lists[2].length);
  const uint32_t bindUnits = left * lists[0].units;
  lengthen(lists[0], binding, 0);
  lengthen(lists[1], binding, bindUnits);
  lengthen(lists[2], steps, bindUnits);
  if (!allOutputsWritten(steps))
    return false;
  schedule.buffers = std::move(buffers);
  schedule.binding = std::move(binding);
  schedule.steps = std::move(steps);
  schedule.bindUnits += bindUnits;
  return true;
}

} // namespace

bool stamp(Schedule &schedule, const ShortGraph &graph) { return Stamper(schedule, graph).stamp(); }

} // namespace mortise::cpu
