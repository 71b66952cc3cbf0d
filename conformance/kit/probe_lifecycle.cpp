// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// Kernels, constants and what is saved: many at once, in any order, and asked for by other hosts.
#include "probe.hpp"

#include "../../runtime/host.hpp"

#include <algorithm>
#include <atomic>

namespace mortise::conformance {

void tryKernels(ProbeRun &run) {
  Refused refused;
  const auto another = [&](const Case &of) { return run.compiled(of, refused); };
  struct Made { // ends from the last to the first
    std::unique_ptr<Kernel> kernel;
    std::unique_ptr<Launch> launch;
    std::optional<Operands> operands;
  };
  const auto ready = [&](std::unique_ptr<Kernel> kernel, const Case &of) {
    auto made = std::make_unique<Made>(std::move(kernel), nullptr, std::nullopt);
    made->launch = run.launch(*made->kernel, of);
    made->operands.emplace(must(made->launch->operands()));
    return made;
  };
  const auto call = [&](Made &made, const std::string &when) { run.call(*made.launch, *made.operands, when); };
  // What begins with a call ends in the order that it was made, and in the opposite one.
  for (const bool firstEnds : {true, false}) {
    std::vector<std::unique_ptr<Made>> kernels;
    for (const Case *of : {&run.a, &run.b, &run.a}) {
      auto kernel = another(*of);
      if (!kernel)
        fail("status", "a graph that was compiled before is refused: " + refused.why);
      kernels.push_back(ready(std::move(kernel), *of));
    }
    for (const auto &made : kernels)
      call(*made, "of several kernels of one graph");
    while (kernels.size() > 1) {
      kernels.erase(firstEnds ? kernels.begin() : kernels.end() - 1);
      for (const auto &made : kernels)
        call(*made, "when another kernel of the graph had been destroyed");
    }
  }
  // Other attributes, with the same types as far as the op allows it.
  const auto first = ready(std::move(run.kernel), run.a);
  std::vector<std::unique_ptr<Case>> cases;
  for (size_t variant = 0; variant < rowOf(run.point.op)->variants.size(); ++variant) {
    Point point = run.point;
    point.variant = static_cast<uint16_t>(variant);
    if (variant == run.point.variant || !factsOf(point).skipped.empty())
      continue;
    auto made = makeCase(point, run.task.seed);
    if (!made)
      fail("kit", made.error().message);
    const Case &of = *cases.emplace_back(std::make_unique<Case>(std::move(*made)));
    auto kernel = another(of);
    if (!kernel)
      continue;
    const auto other = ready(std::move(kernel), of);
    call(*other, "beside a kernel of other attributes (" + run.a.id + ")");
    call(*first, "beside a kernel of other attributes (" + idOf(point) + ")");
  }
}

void tryAgain(ProbeRun &run) {
  run.needDifference();
  const auto a = run.launch(*run.kernel, run.a), b = run.launch(*run.kernel, run.b);
  Operands given = must(a->operands());
  for (Launch *by : {a.get(), b.get(), a.get(), b.get()}) {
    must(by->refill(given));
    run.call(*by, given, "with other numbers at the addresses of the call before");
  }
}

void tryConstants(ProbeRun &run) {
  run.needDifference();
  const auto a = run.launch(*run.kernel, run.a);
  auto b = run.launch(*run.kernel, run.b);
  Operands ofA = must(a->operands()), ofB = must(b->operands());
  run.call(*a, ofA, "while other constants are bound too");
  run.call(*b, ofB, "while other constants are bound too");
  b.reset();
  run.call(*a, ofA, "when other constants had been destroyed");
  for (const Case *of : {&run.b, &run.a, &run.b}) {
    must(a->rebind(*of));
    must(a->refill(ofA));
    run.call(*a, ofA, "with other constants at the addresses of earlier ones");
  }
  // What the host is told of, for its reports and limits.
  uint64_t held = UINT64_MAX;
  std::vector<std::unique_ptr<Launch>> several;
  for (int i = 0; i < 4; ++i) {
    several.push_back(run.launch(*run.kernel, i % 2 ? run.a : run.b));
    held = std::min(held, several.back()->heldBytes);
  }
  constexpr uint64_t beside = 16 << 10; // for what is no constant
  if (const uint64_t stated = several.back()->packedBytes; held > stated + stated / 2 + beside)
    fail("memory", "constants_bind keeps " + std::to_string(held) + " bytes each time, and states packed_bytes of " +
                       std::to_string(stated));
}

void trySaved(ProbeRun &run) {
  if (!run.device.info().plugin->hasSaving())
    refuse("no-saving", "the plugin has no kernel_save");
  Refused refused;
  std::vector<std::byte> saved = must(run.kernel->save());
  run.kernel.reset();
  const std::vector<std::byte> copy = saved;
  for (int i = 0; i < 2; ++i) {
    auto loaded = must(Kernel::load(run.device, run.a.graph, saved, refused));
    if (!loaded)
      fail("status", "a saved kernel is refused: " + refused.why);
    std::ranges::fill(saved, std::byte{0xee}); // what was given is gone
    {
      const auto launch = run.launch(*loaded, run.a);
      Operands given = must(launch->operands());
      run.call(*launch, given, "of a kernel that was saved and loaded");
    }
    saved = must(loaded->save());
  }
  std::vector<std::byte> turned = copy;
  for (std::byte &byte : turned)
    byte = ~byte;
  // Without a byte a plugin may compile afresh; what it cannot read it has to refuse.
  if (const auto made = Kernel::load(run.device, run.a.graph, {}, refused)) {
    const auto launch = run.launch(**made, run.a);
    Operands given = must(launch->operands());
    run.call(*launch, given, "of a kernel that kernel_load makes of no bytes");
  }
  const std::pair<const char *, std::vector<std::byte>> damaged[] = {
      {"the first half of what was saved", {copy.begin(), copy.begin() + static_cast<ptrdiff_t>(copy.size() / 2)}},
      {"what was saved with every bit turned", turned}};
  for (const auto &[what, bytes] : damaged)
    if (bytes != copy && Kernel::load(run.device, run.a.graph, bytes, refused))
      fail("status", std::string("kernel_load takes ") + what + "; expected MORTISE_CORRUPT");
}

namespace {

// Compiles the graph once more and calls it. `when`: said of a refusal; `what`: of a wrong result.
void callNew(ProbeRun &run, const std::string &when, const std::string &what) {
  Refused refused;
  const auto kernel = run.compiled(run.a, refused);
  if (!kernel)
    fail("status", "the graph is refused " + when + ": " + refused.why);
  const auto launch = run.launch(*kernel, run.a);
  Operands given = must(launch->operands());
  run.call(*launch, given, what);
}

} // namespace

void tryCancelled(ProbeRun &run) {
  Refused refused;
  const std::atomic<bool> stop = true;
  {
    const runtime::CancelScope scope(stop);
    const auto made = Kernel::compile(run.device, run.a.graph, refused);
    if (made)
      fail("status", "kernel_compile succeeds while MortiseHost::cancelled says 1; expected MORTISE_CANCELLED");
    if (made.error().code != MORTISE_CANCELLED)
      fail("status", "expected MORTISE_CANCELLED of a compilation that is stopped, found: " + made.error().message);
  }
  callNew(run, "behind a compilation that was stopped",
          "of a kernel that was compiled when an earlier compilation had been stopped");
}

void tryNewer(ProbeRun &run) {
  run.device.asNewer = true;
  callNew(run, "where structs have unknown members and extensions",
          "called with structs that have unknown members and extensions");
}

} // namespace mortise::conformance
