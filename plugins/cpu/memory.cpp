// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// The workspace, and the scratch memory of binding: largest buffers first, each at the lowest offset that is free while
// it lives. An output's memory is workspace, too, until the output is written, and a donated input's once it is read no
// more; a state's is not, but may hold its new value early.
#include "lowerings.hpp"
#include "schedule.hpp"

#include <algorithm>
#include <numeric>
#include <tuple>

namespace mortise::cpu {

static void extend(Buffer &buffer, int32_t step) {
  buffer.first = buffer.first < 0 ? step : std::min(buffer.first, step);
  buffer.last = std::max(buffer.last, step);
}

// Pairs of an output's and an input's operand: the step may write the one over the other.
static std::span<const std::pair<uint32_t, uint32_t>> overOf(const Step &step) {
  const auto *call = std::get_if<GeneratedCall>(&step.action);
  return call ? std::span(call->over) : std::span<const std::pair<uint32_t, uint32_t>>();
}

// No step reads input `i` once output `o` is written. The step that writes it may read the input where it writes over
// it.
static bool isKept(const Schedule &schedule, uint32_t i, uint32_t o) {
  const auto is = [&](const Operand &operand, Home home, uint32_t number) {
    return operand.buffer != none && schedule.buffers[operand.buffer].home == home &&
           schedule.buffers[operand.buffer].number == number;
  };
  bool written = false;
  for (const Step &step : schedule.steps) {
    const bool before = written;
    for (const Operand &operand : step.operands)
      written |= is(operand, Home::Output, o);
    for (uint32_t k = 0; k < step.operands.size() && written; ++k)
      if (is(step.operands[k], Home::Input, i) && (before || std::ranges::none_of(overOf(step), [&](auto over) {
                                                     return over.second == k &&
                                                            is(step.operands[over.first], Home::Output, o);
                                                   })))
        return false;
  }
  return true;
}

static bool isEmpty(const Schedule &schedule, uint32_t output) {
  return std::all_of(schedule.buffers.begin(), schedule.buffers.end(), [&](const Buffer &buffer) {
    return buffer.home != Home::Output || buffer.number != output || buffer.bytes == 0;
  });
}

static void copyAtEnd(Schedule &schedule, uint32_t output) {
  Step step;
  step.name = "copy to output " + std::to_string(output);
  step.lowering = "cpu.copy";
  step.unit = schedule.steps.back().unit;
  step.operands.resize(2);
  for (BufferId id = 0; id < schedule.buffers.size(); ++id)
    if (Buffer &buffer = schedule.buffers[id]; buffer.home == Home::Output && buffer.number == output) {
      buffer.home = Home::Workspace;
      if (step.operands[0].buffer == none)
        step.operands[0].buffer = id;
      else
        buffer.sharing = step.operands[0].buffer;
    }
  Buffer target = schedule.buffers[step.operands[0].buffer];
  target.home = Home::Output;
  schedule.buffers.push_back(target);
  step.operands[1] = {static_cast<BufferId>(schedule.buffers.size() - 1), 0, true};
  step.bytes = 2.0 * static_cast<double>(target.bytes);
  step.action = Copy{target.bytes};
  schedule.steps.push_back(std::move(step));
}

// A new state that a step makes in the workspace, to be copied to its place at the end, is made in that place, where no
// step reads the old state afterwards. Optimisers' steps update all their weights so.
static void updateInPlace(Schedule &schedule, const MortiseGraph &region) {
  for (size_t a = 0; a < region.alias_count; ++a) {
    const MortiseAlias &alias = *region.aliases[a];
    const auto copy = std::ranges::find_if(schedule.steps, [&](const Step &step) {
      if (!std::holds_alternative<Copy>(step.action))
        return false;
      const Buffer &target = schedule.buffers[step.operands[1].buffer];
      return target.home == Home::Output && target.number == alias.output;
    });
    if (copy == schedule.steps.end() || copy->operands[0].offset)
      continue;
    const BufferId id = copy->operands[0].buffer;
    Buffer &made = schedule.buffers[id];
    const bool isShared = made.sharing != none || std::ranges::any_of(schedule.buffers, [&](const Buffer &other) {
                            return other.sharing == id;
                          });
    if (made.home != Home::Workspace || isShared || made.bytes != std::get<Copy>(copy->action).bytes)
      continue;
    made.home = Home::Output, made.number = alias.output;
    if (isKept(schedule, alias.input, alias.output))
      schedule.steps.erase(copy);
    else
      made.home = Home::Workspace, made.number = 0;
  }
}

static std::vector<MortiseInPlace> promisedPairs(const MortiseGraph &region) {
  std::vector<uint32_t> nodes(region.node_count);
  std::iota(nodes.begin(), nodes.end(), 0);
  return inPlacePairs(region, nodes);
}

// Where the host may pass one pointer for an input and an output, and a step still reads the input once the output is
// written, the output is made in the workspace and copied at the end.
static void keepPromises(Schedule &schedule, const MortiseGraph &region) {
  const auto position = [](const MortiseValue *const *list, size_t count, uint32_t value) {
    return static_cast<uint32_t>(
        std::find_if(list, list + count, [&](const MortiseValue *each) { return each->index == value; }) - list);
  };
  for (MortiseInPlace pair : promisedPairs(region)) {
    const uint32_t input = position(region.inputs, region.input_count, pair.input),
                   output = position(region.outputs, region.output_count, pair.output);
    if (!isKept(schedule, input, output) && !isEmpty(schedule, output))
      copyAtEnd(schedule, output);
  }
}

// ---- Where everything lies

namespace {

constexpr int64_t alignment = 64;
constexpr int64_t leastLent = 64 << 10; // of an output or an input whose memory is worth using

int64_t rounded(size_t bytes) { return (static_cast<int64_t>(bytes) + alignment - 1) / alignment * alignment; }

// A piece of memory that buffers share over time: the workspace or the scratch memory, or what the caller lends, which
// is an output until its value is written (Before) or a donated input once nothing reads it (After).
struct Space {
  Home home = Home::Workspace;
  uint32_t number = none; // of the output or input
  int64_t capacity = INT64_MAX;
  int32_t after = -1, until = INT32_MAX; // the steps between which it is free
  std::vector<BufferId> placed;          // by offset
  int64_t end = 0;

  bool isFreeFor(const Buffer &buffer) const { return after < buffer.first && buffer.last < until; }
};

// Places the buffers of home `home`, which `steps` use.
class Planner {
public:
  Planner(std::vector<Buffer> &buffers, const std::vector<Step> &steps, Home home)
      : buffers(buffers), steps(steps), home(home) {
    findLifetimes();
  }
  // Those whose memory is nobody else's until they are written: no alias, and no pair for which the host may pass one
  // pointer.
  void useOutputs(const MortiseGraph &region);
  // No output lies in a donated input. The host aligns them.
  void useInputs(const MortiseGraph &region);
  size_t plan(); // returns the bytes that `home` needs

private:
  BufferId owner(BufferId id) const {
    while (buffers[id].sharing != none)
      id = buffers[id].sharing;
    return id;
  }
  void findLifetimes();
  void writeOver(int32_t number, uint32_t output, uint32_t input);
  void lend(std::vector<Space> spaces);
  int64_t lowest(const Space &space, const Buffer &buffer) const;
  void put(Space &space, BufferId id, int64_t at);
  void place(BufferId id);

  std::vector<Buffer> &buffers;
  const std::vector<Step> &steps;
  const Home home;
  Space own;
  std::vector<Space> lent;
};

} // namespace

void Planner::findLifetimes() {
  for (size_t i = 0; i < steps.size(); ++i)
    for (const Operand &operand : steps[i].operands)
      if (operand.buffer != none)
        extend(buffers[owner(operand.buffer)], static_cast<int32_t>(i));
  for (size_t i = 0; i < steps.size(); ++i)
    for (auto [output, input] : overOf(steps[i]))
      writeOver(static_cast<int32_t>(i), output, input);
}

// Puts the output of a pointwise step over an input that dies there.
void Planner::writeOver(int32_t number, uint32_t output, uint32_t input) {
  const std::vector<Operand> &operands = steps[static_cast<size_t>(number)].operands;
  const BufferId from = owner(operands[input].buffer), to = owner(operands[output].buffer);
  Buffer &old = buffers[from], &made = buffers[to];
  if (from == to || old.home != home || made.home != home || old.last != number || made.first != number ||
      made.last == number || old.bytes != made.bytes || operands[input].offset || operands[output].offset)
    return;
  for (uint32_t i = 0; i < operands.size(); ++i)
    if (i != input && i != output && operands[i].buffer != none)
      if (const BufferId other = owner(operands[i].buffer); other == from || other == to)
        return;
  made.sharing = from;
  old.last = made.last;
}

void Planner::useOutputs(const MortiseGraph &region) {
  std::vector<bool> free(region.output_count, true);
  for (size_t a = 0; a < region.alias_count; ++a)
    free[region.aliases[a]->output] = false;
  if (!promisedPairs(region).empty())
    return;
  std::vector<Space> found(region.output_count);
  for (BufferId id = 0; id < buffers.size(); ++id)
    if (const Buffer &buffer = buffers[id]; buffer.home == Home::Output && buffer.first >= 0 && free[buffer.number]) {
      Space &space = found[buffer.number];
      space.home = Home::Before, space.number = buffer.number;
      space.until = std::min(space.until, buffer.first);
      space.capacity = std::min(space.capacity, static_cast<int64_t>(buffer.bytes) / alignment * alignment - alignment);
    }
  lend(std::move(found));
}

void Planner::useInputs(const MortiseGraph &region) {
  std::vector<Space> found(region.input_count);
  for (BufferId id = 0; id < buffers.size(); ++id)
    if (const Buffer &buffer = buffers[id]; buffer.home == Home::Input && buffer.sharing == none &&
                                            (region.inputs[buffer.number]->flags & MORTISE_VALUE_DONATED)) {
      Space &space = found[buffer.number];
      space.home = Home::After, space.number = buffer.number;
      space.after = std::max(space.after, buffer.last);
      space.capacity = std::min(space.capacity, static_cast<int64_t>(buffer.bytes));
    }
  lend(std::move(found));
}

void Planner::lend(std::vector<Space> spaces) {
  for (Space &space : spaces)
    if (space.number != none && space.capacity >= leastLent)
      lent.push_back(std::move(space));
  std::ranges::sort(lent, {}, [](const Space &space) { // the smallest that has room is taken
    return std::tuple(space.capacity, space.home, space.number);
  });
}

// The lowest offset that is free while the buffer lives.
int64_t Planner::lowest(const Space &space, const Buffer &buffer) const {
  const int64_t size = rounded(buffer.bytes);
  int64_t at = 0;
  for (BufferId other : space.placed) {
    const Buffer &taken = buffers[other];
    if (taken.last < buffer.first || buffer.last < taken.first)
      continue;
    if (at + size <= taken.offset)
      break;
    at = std::max(at, taken.offset + rounded(taken.bytes));
  }
  return at;
}

void Planner::put(Space &space, BufferId id, int64_t at) {
  Buffer &buffer = buffers[id];
  buffer.offset = at;
  if (space.number != none) {
    buffer.home = space.home;
    buffer.number = space.number;
  }
  space.end = std::max(space.end, at + rounded(buffer.bytes));
  space.placed.insert(std::upper_bound(space.placed.begin(), space.placed.end(), id,
                                       [&](BufferId x, BufferId y) { return buffers[x].offset < buffers[y].offset; }),
                      id);
}

// In our own memory where it need not grow, else in lent memory, else where our own memory ends.
void Planner::place(BufferId id) {
  const Buffer &buffer = buffers[id];
  const int64_t at = lowest(own, buffer);
  if (at + rounded(buffer.bytes) > own.end)
    for (Space &space : lent)
      if (space.isFreeFor(buffer))
        if (const int64_t there = lowest(space, buffer); there + static_cast<int64_t>(buffer.bytes) <= space.capacity)
          return put(space, id, there);
  put(own, id, at);
}

// Largest first; but first of all those that fit in no lent memory.
size_t Planner::plan() {
  std::vector<bool> fits(buffers.size());
  std::vector<BufferId> order;
  for (BufferId id = 0; id < buffers.size(); ++id)
    if (buffers[id].home == home && buffers[id].sharing == none && buffers[id].first >= 0) {
      order.push_back(id);
      fits[id] = std::ranges::any_of(lent, [&](const Space &space) {
        return space.isFreeFor(buffers[id]) && static_cast<int64_t>(buffers[id].bytes) <= space.capacity;
      });
    }
  std::sort(order.begin(), order.end(), [&](BufferId x, BufferId y) {
    if (fits[x] != fits[y])
      return !fits[x];
    return buffers[x].bytes != buffers[y].bytes ? buffers[x].bytes > buffers[y].bytes : x < y;
  });
  for (BufferId id : order)
    place(id);
  for (BufferId id = 0; id < buffers.size(); ++id)
    if (BufferId shared = owner(id); shared != id) {
      const Buffer &target = buffers[shared];
      buffers[id].home = target.home;
      buffers[id].number = target.number;
      buffers[id].offset = target.offset;
    }
  return static_cast<size_t>(own.end);
}

// Of what binding makes, calls read the rest.
static void findScratch(Schedule &schedule) {
  std::vector<bool> read(schedule.buffers.size());
  for (const Step &step : schedule.steps)
    for (const Operand &operand : step.operands)
      if (operand.buffer != none)
        read[operand.buffer] = true;
  for (BufferId id = 0; id < schedule.buffers.size(); ++id)
    if (Buffer &buffer = schedule.buffers[id]; buffer.home == Home::Kept && !read[id])
      buffer.home = Home::Scratch;
}

void planMemory(Schedule &schedule, const MortiseGraph &region) {
  updateInPlace(schedule, region);
  keepPromises(schedule, region);
  Planner workspace(schedule.buffers, schedule.steps, Home::Workspace);
  workspace.useOutputs(region);
  workspace.useInputs(region);
  schedule.workspaceBytes = workspace.plan();
  findScratch(schedule);
  schedule.scratchBytes = Planner(schedule.buffers, schedule.binding, Home::Scratch).plan();
}

} // namespace mortise::cpu
