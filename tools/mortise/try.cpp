// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#include "try.hpp"

#include "check.hpp"
#include "guarded.hpp"
#include "heap.hpp"
#include "own_cases.hpp"
#include "seam.hpp"

#include <mortise/conformance/error_bounds.hpp>
#include <mortise/portable/vendor_ops.hpp>
#include <mortise/rewrite.hpp>
#include <mortise/runtime/call.hpp>
#include <mortise/runtime/program.hpp>

#include <nlohmann/json.hpp>

#include <algorithm>
#include <chrono>
#include <cstdio>
#include <cstring>
#include <sys/resource.h>
#include <thread>
#include <unistd.h>

namespace mortise::tool {
namespace {

size_t elementAlignment(const MortiseType &type) { return std::max<size_t>(dtypeBits(type.dtype) / 8, 1); }

// The tensors of one caller.
class Call {
public:
  Call(const MortiseGraph &view, const Tensors &values, Edge edge) : view(view), values(values) {
    for (size_t i = 0; i < view.input_count; ++i) {
      const MortiseType &type = *view.inputs[i]->type;
      inputs.emplace_back(values[i].size(), elementAlignment(type), edge);
      std::ranges::copy(values[i], inputs.back().bytes().begin());
      sources.push_back(tensorOf(type, inputs.back()));
    }
    for (size_t i = 0; i < view.output_count; ++i) {
      const MortiseType &type = *view.outputs[i]->type;
      outputs.emplace_back(byteSize(type), elementAlignment(type), edge);
      targets.push_back(tensorOf(type, outputs.back()));
    }
  }

  Result<void> run(runtime::Program &program) { return program.run(sources, targets); }
  Result<void> bind(runtime::Program &program) { return program.bindConstants(sources); }

  // "" when the outputs are those expected, and nothing else has been written.
  std::string judge(const Tensors &expected) const {
    for (size_t i = 0; i < view.input_count; ++i)
      if (!std::ranges::equal(inputs[i].bytes(), values[i]))
        return "it writes to input " + std::to_string(i) + ", which is only to be read";
    for (const std::vector<Guarded> *list : {&inputs, &outputs})
      for (const Guarded &tensor : *list)
        if (!tensor.isIntact())
          return "it writes beside a tensor";
    if (portable::isVendorOp(view.nodes[0]->op))
      return judgeVendors(expected);
    std::vector<const void *> pointers;
    for (const std::vector<std::byte> &value : values)
      pointers.push_back(value.data());
    conformance::Judge judge(view, pointers);
    for (size_t i = 0; i < view.output_count; ++i) {
      const auto text = judge.differences(i, outputs[i].bytes(), expected[i]);
      if (!text)
        return text.error().message;
      if (!text->empty())
        return "output " + std::to_string(i) + ": " + *text;
    }
    return "";
  }

  // What the outputs hold, or are to hold before a run.
  Tensors results() const {
    Tensors copies;
    for (const Guarded &output : outputs)
      copies.emplace_back(output.bytes().begin(), output.bytes().end());
    return copies;
  }
  void fillOutputs(std::byte with) {
    for (const Guarded &output : outputs)
      std::ranges::fill(output.bytes(), with);
  }

private:
  // `expected`: what another run gave, where the outputs held other bytes before.
  std::string judgeVendors(const Tensors &expected) const {
    for (size_t i = 0; i < view.output_count; ++i)
      if (!std::ranges::equal(outputs[i].bytes(), expected[i]))
        return "output " + std::to_string(i) +
               ": equal inputs give other bytes in another run, or not all of it is written; an op of a vendor is pure";
    return "";
  }

  static runtime::Tensor tensorOf(const MortiseType &type, const Guarded &memory) {
    return {memory.bytes().data(), type.dtype, type.rank, type.dims, nullptr};
  }

  const MortiseGraph &view;
  const Tensors &values;
  std::vector<Guarded> inputs, outputs;
  std::vector<runtime::Tensor> sources, targets;
};

std::string runAndJudge(runtime::Program &program, const MortiseGraph &view, const Tensors &inputs,
                        const Tensors &expected, Edge edge) {
  Call call(view, inputs, edge);
  auto done = call.run(program);
  return done ? call.judge(expected) : done.error().message;
}

// The op of a vendor has no reference: what it gives first is what it has to give again.
std::string expectFirstRun(runtime::Program &program, OpCase &given) {
  Call call(given.graph->view(), given.inputs, Edge::End);
  call.fillOutputs(std::byte{0x4a}); // not what other calls have there
  if (auto done = call.run(program); !done)
    return done.error().message;
  given.expected = call.results();
  return call.judge(given.expected);
}

std::string fromThreads(runtime::Program &program, const OpCase &given) {
  constexpr size_t threads = 4, runs = 3;
  std::vector<std::string> wrong(threads);
  std::vector<std::thread> workers;
  for (size_t i = 0; i < threads; ++i)
    workers.emplace_back([&, i] {
      for (size_t run = 0; run < runs && wrong[i].empty(); ++run)
        wrong[i] = runAndJudge(program, given.graph->view(), given.inputs, given.expected, Edge::End);
    });
  for (std::thread &worker : workers)
    worker.join();
  for (const std::string &text : wrong)
    if (!text.empty())
      return "when " + std::to_string(threads) + " threads call it at once: " + text;
  return "";
}

// Makes constants of the second and later inputs. The rewriter meets a graph's inputs first, in their order.
class WithConstants : public GraphRewriter {
public:
  explicit WithConstants(size_t inputs) : inputs(inputs) {}
  uint32_t changeFlags(uint32_t flags) override {
    const size_t value = met++;
    return value >= 1 && value < inputs ? flags | MORTISE_VALUE_CONSTANT : flags;
  }

private:
  const size_t inputs;
  size_t met = 0;
};

std::string withBoundOperands(const OpCase &given, const Host &host) {
  if (given.graph->view().input_count < 2)
    return "";
  WithConstants rewriter(given.graph->view().input_count);
  auto changed = rewriter.rewrite(given.graph->view());
  auto graph = changed ? Graph::copy(*changed) : changed.error();
  if (!graph)
    return graph.error().message;
  const MortiseGraph &view = (*graph)->view();
  auto program = compileAndLoad(**graph, host.registry, host.config);
  if (!program)
    return program.error().code == MORTISE_UNSUPPORTED ? "" : "with constant operands: " + program.error().message;
  Tensors other = given.inputs; // then other constants
  for (size_t i = 1; i < other.size(); ++i)
    if (isFloat(view.inputs[i]->type->dtype))
      other[i] = makeInputs(view, 2)[i];
  const Result<Tensors> expected = interpreted(view, other);
  // Both sets of tensors live until others are bound, and the last until the program has ended.
  Call first(view, given.inputs, Edge::End), second(view, other, Edge::End);
  std::string wrong;
  const auto bindAndRun = [&](Call &call, const Tensors &wanted, const char *when) {
    auto done = call.bind(**program);
    if (done)
      done = call.run(**program);
    const std::string text = done ? call.judge(wanted) : done.error().message;
    if (wrong.empty() && !text.empty())
      wrong = when + text;
  };
  bindAndRun(first, given.expected, "with constant operands: ");
  if (expected)
    bindAndRun(second, *expected, "after other constants were bound: ");
  program->reset();
  return wrong;
}

} // namespace

Tried tryCase(OpCase &given, const Host &host) {
  const runtime::FloatChanges before = runtime::floatChanges();
  auto program = compileAndLoad(*given.graph, host.registry, host.config);
  if (!program)
    return {program.error().code == MORTISE_UNSUPPORTED ? Outcome::Refused : Outcome::Wrong, program.error().message};
  if ((*program)->report().empty())
    return {Outcome::Folded, ""};
  std::string wrong = given.expected.empty() ? expectFirstRun(**program, given) : "";
  for (const Edge edge : {Edge::End, Edge::Begin})
    if (wrong.empty())
      wrong = runAndJudge(**program, given.graph->view(), given.inputs, given.expected, edge);
  if (wrong.empty())
    wrong = fromThreads(**program, given);
  if (wrong.empty())
    wrong = withBoundOperands(given, host);
  program->reset();
  if (const runtime::FloatChanges now = runtime::floatChanges(); wrong.empty() && now.count != before.count)
    wrong = now.slot + " changes the thread's floating-point settings (rounding, subnormals or traps), which the host "
                       "puts right";
  return wrong.empty() ? Tried{} : Tried{Outcome::Wrong, wrong};
}

uint64_t leakOf(const OpCase &given, const Host &host, const std::function<void()> &stillThere) {
  using Clock = std::chrono::steady_clock;
  constexpr int windows = 12;
  constexpr uint64_t mostCycles = 200, noise = 3072; // in a window: malloc keeps free blocks for threads, as used ones
  // What is never given back grows in every window; caches and pools stop to grow.
  uint64_t leak = UINT64_MAX;
  for (int window = 0; window < windows && leak != 0; ++window) {
    stillThere();
    const uint64_t before = heapBytes();
    const auto end = Clock::now() + std::chrono::seconds(1);
    uint64_t cycles = 0;
    for (; cycles < mostCycles && Clock::now() < end; ++cycles)
      if (auto program = compileAndLoad(*given.graph, host.registry, host.config))
        (void)runAndJudge(**program, given.graph->view(), given.inputs, given.expected, Edge::End);
    const uint64_t after = heapBytes();
    leak = std::min(leak, after > before + noise ? (after - before) / cycles : 0);
  }
  return leak;
}

int tryCases(const Host &host, const std::string &ops, size_t first) {
  const rlimit none{0, 0};
  setrlimit(RLIMIT_CORE, &none);
  // Lines of a plugin's own go to standard error.
  const int lines = dup(STDOUT_FILENO);
  dup2(STDERR_FILENO, STDOUT_FILENO);
  const auto say = [&](const nlohmann::ordered_json &line) {
    const std::string text = line.dump(-1, ' ', false, nlohmann::json::error_handler_t::replace) + "\n";
    for (size_t done = 0; done < text.size();) {
      const ssize_t count = write(lines, text.data() + done, text.size() - done);
      if (count <= 0)
        _exit(3); // nobody listens
      done += static_cast<size_t>(count);
    }
  };
  std::vector<OpCase> cases = opCases(ops);
  std::vector<std::string> lies;
  std::ranges::move(ownCases(host, ops, lies), std::back_inserter(cases));
  if (first == 0)
    for (const std::string &lie : lies)
      say({{"lie", lie}});
  say({{"cases", cases.size()}});
  const OpCase *right = nullptr;
  for (size_t i = first; i < cases.size(); ++i) {
    OpCase &each = cases[i];
    say({{"begin", i}, {"name", each.name}, {"op", each.op}, {"dtype", dtypeName(each.dtype)}, {"rank", each.rank}});
    const Tried tried = tryCase(each, host);
    right = right || tried.outcome != Outcome::Right ? right : &each;
    say({{"end", i}, {"outcome", static_cast<int>(tried.outcome)}, {"why", tried.why}});
  }
  if (right)
    say({{"leak", leakOf(*right, host, [&] { say({{"still", "there"}}); })}, {"name", right->name}});
  return 0;
}

} // namespace mortise::tool
