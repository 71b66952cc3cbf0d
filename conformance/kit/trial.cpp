// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#include "trial.hpp"

#include "../../tools/mortise/heap.hpp"
#include "call.hpp"
#include "onnx.hpp"
#include "probe.hpp"

#include <mortise/runtime/call.hpp>

#include <algorithm>
#include <chrono>

namespace mortise::conformance {
namespace {

using Clock = std::chrono::steady_clock;

void note(Verdict &verdict, std::string kind, std::string why) {
  if (verdict.outcome == Outcome::Failed)
    return;
  verdict.outcome = Outcome::Failed;
  verdict.kind = std::move(kind);
  verdict.why = std::move(why);
}

void noteSettings(Verdict &verdict, const runtime::FloatChanges &before) {
  if (const runtime::FloatChanges now = runtime::floatChanges(); now.count != before.count)
    note(verdict, "settings",
         now.slot + " changes the thread's floating-point settings (rounding, subnormals or traps)");
}

bool equalBytes(const Graph &a, const Graph &b) { return std::ranges::equal(a.bytes(), b.bytes()); }

} // namespace

Result<void> Trials::prepare(const Case &made, Refused &refused) {
  if (kernel && equalBytes(*kernel->graph, *made.graph))
    return {};
  kernel.reset();
  auto compiled = Kernel::compile(device, made.graph, refused);
  if (!compiled)
    return compiled.error();
  kernel = std::move(*compiled);
  return {};
}

Verdict Trials::run(const Point &point) {
  const Clock::time_point begin = Clock::now();
  if (point.probe != Probe::None) {
    kernel.reset();
    const runtime::FloatChanges before = runtime::floatChanges();
    const NetworkTask network{task.seed, task.folder, task.stillThere};
    Verdict verdict = point.isOnnx ? judgeOnnx(device, point, network)
                      : point.probe == Probe::Network
                          ? judgeNetwork(device, point, network)
                          : probe(device, point, {task.seed, task.seconds, task.stillThere});
    noteSettings(verdict, before);
    return verdict;
  }
  Verdict verdict{.id = idOf(point)};
  auto made = makeCase(point, task.seed);
  if (!made) {
    note(verdict, "kit", made.error().message);
    return verdict;
  }
  const runtime::FloatChanges before = runtime::floatChanges();
  Refused refused;
  if (auto done = prepare(*made, refused); !done)
    note(verdict, "status", done.error().message);
  else if (!kernel || (point.layout == Layout::InPlace && kernel->pairs.empty())) {
    if (kernel)
      refused = {reasonNoPair, "the candidate writes no output into an input's memory"};
    verdict.outcome = Outcome::Refused;
    verdict.reason = reasonName(refused.reason);
    verdict.why = refused.why;
  } else {
    // The last run has other values, where they leave the graph as it is (a constant's are in it).
    auto other = makeOther(*made, task.seed);
    if (!other)
      note(verdict, "kit", other.error().message);
    CaseJudge judge(*made);
    std::optional<CaseJudge> otherJudge;
    if (other && *other)
      otherJudge.emplace(**other);
    Tensors last;
    constexpr std::pair<Edge, std::byte> runs[] = {
        {Edge::End, std::byte{0x5a}}, {Edge::End, std::byte{0xa5}}, {Edge::Begin, std::byte{0xff}}};
    for (size_t i = 0; i < std::size(runs) && verdict.outcome == Outcome::Passed; ++i) {
      const bool isLast = i + 1 == std::size(runs), isOther = isLast && otherJudge;
      Call call(*kernel, isOther ? **other : *made, runs[i].first, runs[i].second, /*isClocked=*/isLast);
      if (auto done = call.run(); !done) {
        note(verdict, "status", done.error().message);
        break;
      }
      verdict.cpuSeconds += call.cpuSeconds;
      verdict.runSeconds += call.runSeconds;
      if (const Wrong wrong = call.damage(); !wrong.kind.empty())
        note(verdict, wrong.kind, wrong.why);
      for (size_t output = 0; output < call.outputs.size(); ++output) {
        const auto text = (isOther ? *otherJudge : judge).compare(output, call.outputs[output]);
        if (!text)
          note(verdict, "kit", text.error().message);
        else if (!text->empty())
          note(verdict, "result",
               "output " + std::to_string(output) + (isOther ? " of other values" : "") + ": " + *text);
      }
      if (i == 1 && kernel->deterministic && last != call.outputs)
        note(verdict, "determinism",
             "two runs with equal inputs give other bits, though it takes the option deterministic");
      last = std::move(call.outputs);
    }
    verdict.distances = judge.distances;
  }
  noteSettings(verdict, before);
  if (verdict.outcome == Outcome::Failed)
    kernel.reset(); // the next case does not begin with what this one left
  verdict.seconds = std::chrono::duration<double>(Clock::now() - begin).count();
  return verdict;
}

uint64_t Trials::leakOf(const Point &point, bool compiles) {
  constexpr int windows = 10, cycles = 24;
  constexpr uint64_t noise = 2048; // in a window: malloc keeps free blocks for threads, as used ones
  auto made = makeCase(point, task.seed);
  if (!made)
    return 0;
  uint64_t leak = UINT64_MAX; // what is never given back grows in every window; caches and pools stop to grow
  for (int window = 0; window < windows && leak != 0; ++window) {
    task.stillThere();
    const uint64_t before = tool::heapBytes();
    for (int i = 0; i < cycles; ++i) {
      Refused refused;
      if (compiles)
        kernel.reset();
      if (!prepare(*made, refused) || !kernel)
        return 0;
      Call call(*kernel, *made, Edge::End, std::byte{0x5a});
      (void)call.run();
    }
    if (compiles)
      kernel.reset();
    const uint64_t after = tool::heapBytes();
    leak = std::min(leak, after > before + noise ? (after - before) / cycles : 0);
  }
  return leak;
}

} // namespace mortise::conformance
