// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#include "try.hpp"

#include "buffer.hpp"
#include "heap.hpp"
#include "own_cases.hpp"
#include "seam.hpp"
#include "try_offers.hpp"

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

// The interpreter does not know the op of a vendor.
bool isVendorCase(const Point &point) { return portable::isVendorOp(point.graph->view().nodes[0]->op); }

// The tensors of one caller.
class Call {
public:
  Call(const Point &point, Edge edge) : point(point), view(point.graph->view()), homes(view.output_count, none) {
    for (size_t i = 0; i < view.alias_count; ++i)
      homes[view.aliases[i]->output] = view.aliases[i]->input;
    for (size_t i = 0; i < view.input_count; ++i) {
      const MortiseType &type = *view.inputs[i]->type;
      inputs.emplace_back(point.inputs[i].size(), elementAlignment(type), edge);
      std::ranges::copy(point.inputs[i], inputs.back().bytes().begin());
      sources.push_back(tensorOf(type, inputs.back()));
    }
    for (size_t i = 0; i < view.output_count; ++i) {
      const MortiseType &type = *view.outputs[i]->type;
      outputs.emplace_back(homes[i] == none ? byteSize(type) : 0, elementAlignment(type), edge);
      targets.push_back(tensorOf(type, memoryOf(i)));
    }
  }

  Result<void> run(runtime::Program &program) { return program.run(sources, targets); }
  Result<void> bind(runtime::Program &program) { return program.bindConstants(sources); }

  // "" when the outputs are those expected, and nothing else has been written.
  std::string judge() const {
    for (size_t i = 0; i < view.input_count; ++i)
      if (std::ranges::find(homes, i) == homes.end() && !std::ranges::equal(inputs[i].bytes(), point.inputs[i]))
        return "it writes to input " + std::to_string(i) + ", which is only to be read";
    for (const std::vector<Guarded> *list : {&inputs, &outputs})
      for (const Guarded &tensor : *list)
        if (!tensor.isIntact())
          return "it writes beside a tensor";
    const Tensors found = results();
    return isVendorCase(point) ? judgeVendors(found) : differences(point, found);
  }

  // What the outputs hold, or are to hold before a run.
  Tensors results() const {
    Tensors copies;
    for (size_t i = 0; i < view.output_count; ++i)
      copies.emplace_back(memoryOf(i).bytes().begin(), memoryOf(i).bytes().end());
    return copies;
  }
  void fillOutputs(std::byte with) {
    for (const Guarded &output : outputs)
      std::ranges::fill(output.bytes(), with);
  }

private:
  // Another run gave what is expected, where the outputs held other bytes before.
  std::string judgeVendors(const Tensors &found) const {
    for (size_t i = 0; i < view.output_count; ++i)
      if (found[i] != point.expected[i])
        return "output " + std::to_string(i) +
               ": equal inputs give other bytes in another run, or not all of it is written; an op of a vendor is pure";
    return "";
  }

  static constexpr size_t none = SIZE_MAX;
  static runtime::Tensor tensorOf(const MortiseType &type, const Guarded &memory) {
    return {memory.bytes().data(), type.dtype, type.rank, type.dims, nullptr};
  }
  const Guarded &memoryOf(size_t output) const {
    return homes[output] == none ? outputs[output] : inputs[homes[output]];
  }

  const Point &point;
  const MortiseGraph &view;
  std::vector<size_t> homes; // per output: the input that it is written to, or none
  std::vector<Guarded> inputs, outputs;
  std::vector<runtime::Tensor> sources, targets;
};

std::string runAndJudge(runtime::Program &program, const Point &point, Edge edge) {
  Call call(point, edge);
  auto done = call.run(program);
  return done ? call.judge() : done.error().message;
}

// The op of a vendor has no reference: what it gives first is what it has to give again.
std::string expectFirstRun(runtime::Program &program, Point &point) {
  Call call(point, Edge::End);
  call.fillOutputs(std::byte{0x4a}); // not what other calls have there
  if (auto done = call.run(program); !done)
    return done.error().message;
  point.expected = call.results();
  return call.judge();
}

std::string fromThreads(runtime::Program &program, const OpCase &given) {
  constexpr size_t threads = 4, runs = 3;
  std::vector<std::string> wrong(threads);
  std::vector<std::thread> workers;
  for (size_t i = 0; i < threads; ++i)
    workers.emplace_back([&, i] {
      for (size_t run = 0; run < runs && wrong[i].empty(); ++run)
        wrong[i] = runAndJudge(program, given.point, Edge::End);
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
  const MortiseGraph &plain = given.point.graph->view();
  if (plain.input_count < 2 || plain.alias_count)
    return "";
  WithConstants rewriter(plain.input_count);
  auto changed = rewriter.rewrite(plain);
  auto graph = changed ? Graph::copy(*changed) : changed.error();
  if (!graph)
    return graph.error().message;
  const MortiseGraph &view = (*graph)->view();
  auto program = compileAndLoad(**graph, host.registry, host.config);
  if (!program)
    return program.error().code == MORTISE_UNSUPPORTED ? "" : "with constant operands: " + program.error().message;
  Tensors other = given.point.inputs; // then other constants
  for (size_t i = 1; i < other.size(); ++i)
    if (isFloat(view.inputs[i]->type->dtype))
      other[i] = makeInputs(view, 2)[i];
  const Point first{{}, *graph, given.point.inputs, given.point.expected};
  const Result<Point> second = pointOf(*graph, {}, std::move(other));
  // Both sets of tensors live until others are bound, and the last until the program has ended.
  Call calls[] = {{first, Edge::End}, {second ? *second : first, Edge::End}};
  std::string wrong;
  const auto bindAndRun = [&](Call &call, const char *when) {
    auto done = call.bind(**program);
    if (done)
      done = call.run(**program);
    const std::string text = done ? call.judge() : done.error().message;
    if (wrong.empty() && !text.empty())
      wrong = when + text;
  };
  bindAndRun(calls[0], "with constant operands: ");
  if (second)
    bindAndRun(calls[1], "after other constants were bound: ");
  program->reset();
  return wrong;
}

// With symbols, through the runtime: one kernel for all values, or one for each set where the plugin answers
// MORTISE_NEEDS_STATIC.
std::string atPoints(const Graph &symbolic, const std::vector<Point> &points, const Host &host) {
  auto program = compileAndLoad(symbolic, host.registry, host.config);
  if (!program)
    return program.error().code == MORTISE_UNSUPPORTED ? "" : "with symbols: " + program.error().message;
  // A plugin may refuse some values, such as those that leave a tensor without elements.
  const auto runAt = [&](const Point &point) {
    Call call(point, Edge::End);
    if (auto done = call.run(**program); !done)
      return done.error().code == MORTISE_UNSUPPORTED ? "" : done.error().message;
    return call.judge();
  };
  for (const Point &point : points)
    if (const std::string wrong = runAt(point); !wrong.empty())
      return symbolsText(symbolic.view(), point.symbols) + wrong;
  // Once more the first, after larger ones.
  const std::string wrong = points.empty() ? "" : runAt(points[0]);
  return wrong.empty() ? "" : symbolsText(symbolic.view(), points[0].symbols) + "after other values: " + wrong;
}

std::string run(std::shared_ptr<runtime::Program> &program, OpCase &given, const Host &host) {
  std::string wrong = isVendorCase(given.point) ? expectFirstRun(*program, given.point) : "";
  for (const Edge edge : {Edge::End, Edge::Begin})
    if (wrong.empty())
      wrong = runAndJudge(*program, given.point, edge);
  if (wrong.empty())
    wrong = fromThreads(*program, given);
  program.reset();
  return wrong.empty() ? withBoundOperands(given, host) : wrong;
}

} // namespace

Tried tryCase(OpCase &given, const Host &host, std::set<std::string> &queued) {
  const runtime::FloatChanges before = runtime::floatChanges();
  const Graph &graph = *given.point.graph;
  auto program = compileAndLoad(graph, host.registry, host.config);
  const bool refused = !program && program.error().code == MORTISE_UNSUPPORTED;
  if (!program && (!refused || given.nodes == 1))
    return {refused ? Outcome::Refused : Outcome::Wrong, program.error().message};
  if (program && (*program)->report().empty())
    return {Outcome::Folded, ""};
  std::string wrong = program ? run(*program, given, host) : "";
  size_t fused = 0;
  const bool isVendors = isVendorCase(given.point);
  const auto offers = [&](const MortiseGraph &view, const std::vector<Point> &points) {
    if (!wrong.empty() || isVendors)
      return;
    const OffersTried tried = tryOffers(view, points, host, queued);
    wrong = tried.wrong;
    fused += tried.fused;
  };
  offers(graph.view(), {given.point});
  // The other element types of an op have the same shapes.
  const bool isFirst = wrong.empty() && !given.isVariant && !isVendors;
  const std::shared_ptr<const Graph> symbolic = isFirst ? withSymbols(given) : nullptr;
  const std::vector<Point> points = symbolic ? pointsOf(symbolic->view()) : std::vector<Point>();
  if (!points.empty()) {
    wrong = program ? atPoints(*symbolic, points, host) : "";
    offers(symbolic->view(), points);
  }
  if (const runtime::FloatChanges now = runtime::floatChanges(); wrong.empty() && now.count != before.count)
    wrong = now.slot + " changes the thread's floating-point settings (rounding, subnormals or traps), which the host "
                       "puts right";
  if (!wrong.empty())
    return {Outcome::Wrong, wrong};
  return refused ? Tried{Outcome::Refused, program.error().message, fused} : Tried{Outcome::Right, "", fused};
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
      if (auto program = compileAndLoad(*given.point.graph, host.registry, host.config))
        (void)runAndJudge(**program, given.point, Edge::End);
    const uint64_t after = heapBytes();
    leak = std::min(leak, after > before + noise ? (after - before) / cycles : 0);
  }
  return leak;
}

int tryCases(const Host &host, const std::string &ops, size_t first, size_t every) {
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
  std::set<std::string> queued; // lowerings that were tried in queues
  for (size_t i = first; i < cases.size(); i += every) {
    OpCase &each = cases[i];
    say({{"begin", i},
         {"name", each.name},
         {"op", each.op},
         {"dtype", dtypeName(each.dtype)},
         {"rank", each.rank},
         {"nodes", each.nodes}});
    const Tried tried = tryCase(each, host, queued);
    right = right || tried.outcome != Outcome::Right ? right : &each;
    say({{"end", i}, {"outcome", static_cast<int>(tried.outcome)}, {"why", tried.why}, {"fused", tried.fused}});
  }
  if (right)
    say({{"leak", leakOf(*right, host, [&] { say({{"still", "there"}}); })}, {"name", right->name}});
  say({{"complete", true}});
  return 0;
}

} // namespace mortise::tool
