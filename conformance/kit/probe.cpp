// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#include "probe.hpp"

#include "../../tools/mortise/heap.hpp"

#include <algorithm>
#include <chrono>

namespace mortise::conformance {

void fail(const std::string &kind, const std::string &why) { throw Ended{Outcome::Failed, kind, "", why}; }
void refuse(const std::string &reason, const std::string &why) { throw Ended{Outcome::Refused, "", reason, why}; }
void must(const Result<void> &done) {
  if (!done)
    fail("status", done.error().message);
}

std::unique_ptr<Kernel> ProbeRun::compiled(const Case &of, Refused &refused) {
  return must(Kernel::compile(device, of.graph, refused));
}

void ProbeRun::prepare() {
  for (auto [to, others] : {std::pair(&a, uint64_t(0)), std::pair(&b, uint64_t(1))}) {
    auto made = makeCase(point, task.seed, others);
    if (!made)
      fail("kit", made.error().message);
    *to = std::move(*made);
  }
  Refused refused;
  kernel = compiled(a, refused);
  if (!kernel)
    refuse(reasonName(refused.reason), refused.why);
}

void ProbeRun::needDifference() {
  auto made = launch(*kernel, a);
  if (must(made->wrongWith(b.expected)).empty())
    refuse("same-result", "other values give the same result, so that nothing can be told apart");
}

std::unique_ptr<Launch> ProbeRun::launch(Kernel &of, const Case &values) { return must(Launch::make(of, values)); }

void ProbeRun::call(Launch &by, Operands &given, const std::string &when) {
  must(by.spoil(given));
  tool::Call args;
  by.fill(args, given);
  must(by.enqueue(args, device.stream()));
  must(device.wait());
  judge(by, given, when);
}

void ProbeRun::judge(Launch &by, Operands &given, const std::string &when) {
  if (const std::string wrong = must(by.wrongIn(given)); !wrong.empty())
    fail("result", when + ": " + wrong);
}

uint64_t ProbeRun::leakOf(const std::function<void()> &body) {
  constexpr int windows = 10, cycles = 24;
  constexpr uint64_t noise = 2048; // in a window: malloc keeps free blocks for threads, as used ones
  uint64_t leak = UINT64_MAX;      // what is never given back grows in every window; caches and pools stop to grow
  for (int window = 0; window < windows && leak != 0; ++window) {
    task.stillThere();
    const uint64_t before = tool::heapBytes();
    for (int i = 0; i < cycles; ++i)
      body();
    const uint64_t after = tool::heapBytes();
    leak = std::min(leak, after > before + noise ? (after - before) / cycles : 0);
  }
  return leak;
}

Verdict probe(Device &device, const Point &point, const ProbeTask &task) {
  constexpr void (*tries[])(ProbeRun &) = {nullptr,  tryThreads,   tryKernels, tryAgain,  tryFrames, tryConstants,
                                           trySaved, tryCancelled, tryNewer,   tryQueues, tryErrors, tryMemory,
                                           tryLeaks, tryRepeats,   tryFlat,    trySpeed};
  static_assert(std::size(tries) == std::size(probeNames) - 1); // a network has no op
  const auto begin = std::chrono::steady_clock::now();
  Verdict verdict{.id = idOf(point)};
  try {
    ProbeRun run(device, point, task);
    if (point.probe != Probe::Memory && point.probe != Probe::Speed) // which prepare by themselves
      run.prepare();
    tries[static_cast<size_t>(point.probe)](run);
    verdict.speed = run.speed;
  } catch (const Ended &ended) {
    verdict.outcome = ended.outcome;
    verdict.kind = ended.kind;
    verdict.reason = ended.reason;
    verdict.why = ended.why;
  }
  device.asNewer = false;
  verdict.seconds = std::chrono::duration<double>(std::chrono::steady_clock::now() - begin).count();
  return verdict;
}

} // namespace mortise::conformance
