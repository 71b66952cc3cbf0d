// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#include "strict.hpp"

#include "../../sdk/examples/strict/control.h"
#include "../../tools/mortise/seam.hpp"
#include "../cpu/network.hpp"
#include "resident.hpp"
#include "watched.hpp"

#include <mortise/reference/interpreter.hpp>
#include <mortise/runtime/program.hpp>

#include <algorithm>
#include <cerrno>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <deque>
#include <filesystem>
#include <random>
#include <sstream>
#include <thread>
#include <unistd.h>

namespace mortise::test {
namespace {

const StrictControl &controlIn(const runtime::Registry &registry) {
  auto found = registry.find("strict");
  if (!found)
    fail(found.error().message);
  const MortiseExtension *extension = found->front()->plugin->table->extension;
  if (extension == nullptr || extension->kind != STRICT_CONTROL_KIND)
    fail("expected the strict plugin to have its control");
  return *reinterpret_cast<const StrictControl *>(extension);
}

const StrictControl &strictControl() { return controlIn(*strictRegistry()); }

// ---- Runs

struct Buffers {
  std::vector<std::vector<std::byte>> inputs, outputs;

  Buffers(const MortiseGraph &graph, std::mt19937_64 &random) {
    for (size_t i = 0; i < graph.input_count; ++i)
      fill(inputs.emplace_back(byteSize(*graph.inputs[i]->type)), random);
    for (size_t i = 0; i < graph.output_count; ++i)
      outputs.emplace_back(byteSize(*graph.outputs[i]->type), std::byte(0x5a));
  }
  static void fill(std::vector<std::byte> &bytes, std::mt19937_64 &random) {
    for (size_t at = 0; at + 4 <= bytes.size(); at += 4) {
      const float value = static_cast<float>(static_cast<int64_t>(random() % 9) - 4);
      std::memcpy(&bytes[at], &value, 4);
    }
  }
};

class Run {
public:
  Run(const Graph &graph, const Runs &runs) : graph(graph), runs(runs) {
    std::stringstream names(runs.home);
    for (std::string name; std::getline(names, name, ',');)
      devices.push_back(&deviceNamed(name));
    const MortiseGraph &view = graph.view();
    homes.inputs.resize(view.input_count);
    homes.outputs.resize(view.output_count);
    for (size_t i = 0; !devices.empty() && i < view.input_count; ++i)
      homes.inputs[i] = devices[i % devices.size()];
    for (size_t o = 0; !devices.empty() && o < view.output_count; ++o)
      homes.outputs[o] = devices[(o + 1) % devices.size()];
    for (size_t a = 0; a < view.alias_count; ++a)
      homes.outputs[view.aliases[a]->output] = homes.inputs[view.aliases[a]->input];
  }
  uint64_t copied = 0; // by the last queued runs

  std::string compile() {
    const MortiseOption options[] = {
        {"device", runs.devices.c_str()}, {"place", runs.place.c_str()}, {"log_level", "off"}};
    auto config = runtime::Config::read(options);
    if (!config)
      fail(config.error().message);
    specializeLimit = config->specializeLimit();
    auto placed = tool::compile(graph, *strictRegistry(runs.keepsKernels), *config, homes);
    if (!placed)
      return "compile: " + placed.error().message;
    compiled = std::move(*placed);
    return "";
  }

  std::string loadAndRun() {
    auto program = runtime::Program::load(compiled.plan, strictRegistry(runs.keepsKernels), {specializeLimit});
    if (!program)
      return "load: " + program.error().message;
    for (const std::vector<int64_t> &values : runs.values) {
      auto numbers = values.empty() ? nullptr : specialised(values);
      const Graph &each = numbers ? *numbers : graph;
      const bool last = &values == &runs.values.back();
      const std::string wrong = devices.empty() ? runAt(each, **program) : runQueued(each, *program, last);
      if (!wrong.empty())
        return wrong;
    }
    return "";
  }

private:
  std::shared_ptr<const Graph> specialised(const std::vector<int64_t> &values) const {
    auto made = specialise(graph.view(), values);
    if (!made)
      fail(made.error().message);
    return std::move(*made);
  }

  std::string runAt(const Graph &numbers, runtime::Program &program) {
    const MortiseGraph &view = numbers.view();
    std::mt19937_64 random(7);
    Buffers &ours = kept.emplace_back(view, random);
    for (int round = 0; round < runs.count; ++round) {
      for (size_t i = 0; i < view.input_count; ++i)
        if (!(view.inputs[i]->flags & (MORTISE_VALUE_STATE | MORTISE_VALUE_CONSTANT)) ||
            (runs.rebinds && view.inputs[i]->flags & MORTISE_VALUE_CONSTANT))
          Buffers::fill(ours.inputs[i], random);
      Buffers expected = ours;
      const auto tensors = [&](Buffers &buffers) {
        std::vector<runtime::Tensor> list;
        for (size_t i = 0; i < view.input_count; ++i)
          list.push_back(hostTensor(buffers.inputs[i], *view.inputs[i]->type));
        return list;
      };
      std::vector<runtime::Tensor> inputs = tensors(ours), outputs;
      for (size_t i = 0; i < view.output_count; ++i)
        outputs.push_back(hostTensor(ours.outputs[i], *view.outputs[i]->type));
      for (size_t i = 0; i < view.alias_count; ++i)
        outputs[view.aliases[i]->output].data = nullptr;
      if (round == 0 || runs.rebinds)
        if (auto bound = program.bindConstants(inputs); !bound)
          return "bind: " + bound.error().message;
      if (auto done = program.run(inputs, outputs); !done)
        return "run: " + done.error().message;
      for (const std::vector<std::vector<std::byte>> *list : {&ours.inputs, &ours.outputs})
        for (const std::vector<std::byte> &bytes : *list)
          strictControl().host_uses(bytes.data(), bytes.size(), false);
      const Buffers seen = ours; // before late work can mend it
      if (const std::string wrong = compare(view, seen, expected); !wrong.empty())
        return wrong + " in run " + std::to_string(round);
    }
    return "";
  }

  // Every run has inputs and outputs of its own, but states and weights; nothing waits between the runs. `ends`: the
  // program ends while they are in flight.
  std::string runQueued(const Graph &numbers, std::shared_ptr<runtime::Program> &program, bool ends) {
    const MortiseGraph &view = numbers.view();
    std::mt19937_64 random(7);
    Buffers first(view, random);
    std::vector<std::unique_ptr<Resident>> lasting(view.input_count), aside(view.input_count); // aside: of states
    std::vector<runtime::Tensor> weights(view.input_count);
    for (size_t i = 0; i < view.input_count; ++i)
      if (view.inputs[i]->flags & (MORTISE_VALUE_STATE | MORTISE_VALUE_CONSTANT)) {
        lasting[i] = std::make_unique<Resident>(*homes.inputs[i], *view.inputs[i]->type);
        if (view.inputs[i]->flags & MORTISE_VALUE_CONSTANT)
          lasting[i]->write(first.inputs[i]);
        else
          aside[i] = std::make_unique<Resident>(*homes.inputs[i], *view.inputs[i]->type);
        weights[i] = lasting[i]->tensor();
      }
    if (auto bound = program->bindConstants(weights); !bound)
      return "bind: " + bound.error().message;
    struct Round {
      Buffers host;
      std::vector<std::unique_ptr<Resident>> inputs, outputs;
      std::vector<runtime::Tensor> in, out;
    };
    std::vector<Round> rounds;
    for (int number = 0; number < runs.count; ++number) {
      Round &round = rounds.emplace_back(Round{first, {}, {}, {}, {}});
      for (size_t i = 0; i < view.input_count; ++i) {
        if (!lasting[i]) {
          Buffers::fill(round.host.inputs[i], random);
          round.inputs.push_back(std::make_unique<Resident>(*homes.inputs[i], *view.inputs[i]->type));
        }
        round.in.push_back(lasting[i] ? weights[i] : round.inputs.back()->tensor());
      }
      for (size_t i = 0; i < view.output_count; ++i) {
        round.outputs.push_back(std::make_unique<Resident>(*homes.outputs[i], *view.outputs[i]->type));
        round.out.push_back(round.outputs.back()->tensor());
      }
      for (size_t i = 0; i < view.alias_count; ++i)
        round.out[view.aliases[i]->output].data = nullptr;
    }
    std::string problem;
    std::vector<runtime::CallerStream> streams;
    const auto callAll = [&](const char *what, auto MortisePlugin::*slot) {
      for (const auto &[device, stream] : streams) {
        MortiseStreamArgs args{.stream = stream};
        if (auto called = runtime::callOn(*device, what, device->plugin->table->*slot, args);
            !called && problem.empty())
          problem = "the test's stream: " + called.error().message;
      }
    };
    for (const runtime::Device *device : devices) {
      MortiseStreamArgs args{};
      auto made = runtime::callOn(*device, "stream_create", device->plugin->table->stream_create, args);
      if (!made) {
        callAll("stream_destroy", &MortisePlugin::stream_destroy);
        return "the test's stream: " + made.error().message;
      }
      streams.push_back({device, args.stream});
    }
    const uint64_t before = copiedBytes();
    uint64_t uploaded = 0;
    const auto queueOn = [&](const Resident &tensor, const runtime::Place &target, const runtime::Place &source) {
      const auto &[device, stream] = *std::ranges::find(streams, tensor.device, &runtime::CallerStream::device);
      if (auto queued = queueCopy(*device, stream, target, source, byteSize(*tensor.type)); !queued && problem.empty())
        problem = "the test's copy: " + queued.error().message;
    };
    const auto upload = [&](const Resident &target, std::vector<std::byte> &bytes) {
      queueOn(target, target.place(), placeOf(bytes));
      uploaded += bytes.size();
    };
    for (size_t i = 0; i < view.input_count; ++i)
      if (view.inputs[i]->flags & MORTISE_VALUE_STATE)
        upload(*lasting[i], first.inputs[i]);
    for (Round &round : rounds) {
      // Inputs are still on their way, outputs still in use, and states being written, when the call is queued.
      for (size_t i = 0; i < view.input_count; ++i)
        if (aside[i]) {
          queueOn(*lasting[i], aside[i]->place(), lasting[i]->place());
          queueOn(*lasting[i], lasting[i]->place(), aside[i]->place());
        }
      size_t own = 0;
      for (size_t i = 0; i < view.input_count; ++i)
        if (!lasting[i])
          upload(*round.inputs[own++], round.host.inputs[i]);
      for (size_t i = 0; i < view.output_count; ++i)
        upload(*round.outputs[i], round.host.outputs[i]);
      if (auto queued = program->enqueue(round.in, round.out, streams); !queued && problem.empty())
        problem = "enqueue: " + queued.error().message;
    }
    copied = copiedBytes() - before - uploaded;
    // A call is over for a stream when the stream has come to its end: results may be read there, and then the memory
    // of all tensors may be used again.
    for (Round &round : rounds)
      for (size_t i = 0; i < view.output_count; ++i)
        queueOn(*round.outputs[i], placeOf(round.host.outputs[i]), round.outputs[i]->place());
    for (size_t i = 0; i < view.alias_count; ++i) {
      const uint32_t state = view.aliases[i]->input;
      queueOn(*lasting[state], placeOf(rounds.back().host.inputs[state]), lasting[state]->place());
    }
    std::vector<std::byte> anything;
    const auto overwrite = [&](const Resident &tensor) { queueOn(tensor, tensor.place(), placeOf(anything)); };
    const auto everyTensor = [&](const auto &use) {
      for (const Round &round : rounds)
        for (const auto *list : {&round.inputs, &round.outputs})
          for (const auto &tensor : *list)
            use(*tensor);
      for (size_t i = 0; i < view.alias_count; ++i)
        use(*lasting[view.aliases[i]->input]);
    };
    everyTensor(
        [&](const Resident &tensor) { anything.resize(std::max<size_t>(anything.size(), byteSize(*tensor.type))); });
    everyTensor(overwrite);
    if (ends)
      program.reset();
    callAll("stream_wait", &MortisePlugin::stream_wait);
    callAll("stream_destroy", &MortisePlugin::stream_destroy);
    Buffers expected = first; // its states go on from round to round
    for (size_t number = 0; number < rounds.size() && problem.empty(); ++number) {
      Round &round = rounds[number];
      for (size_t i = 0; i < view.input_count; ++i)
        if (!lasting[i])
          expected.inputs[i] = round.host.inputs[i];
      const std::string wrong = compare(view, round.host, expected, number + 1 == rounds.size());
      if (problem.empty() && !wrong.empty())
        problem = wrong + " in queued run " + std::to_string(number);
    }
    return problem;
  }

  // `expected` holds the inputs as they were before the run, and then those behind it.
  static std::string compare(const MortiseGraph &view, const Buffers &ours, Buffers &expected, bool states = true) {
    std::vector<const void *> inputs;
    std::vector<void *> outputs;
    for (auto &input : expected.inputs)
      inputs.push_back(input.data());
    for (auto &output : expected.outputs)
      outputs.push_back(output.data());
    for (size_t i = 0; i < view.alias_count; ++i)
      outputs[view.aliases[i]->output] = expected.inputs[view.aliases[i]->input].data();
    if (auto done = reference::interpret(view, inputs, outputs); !done)
      fail(done.error().message);
    const auto differ = [](const std::vector<std::byte> &a, const std::vector<std::byte> &b) {
      for (size_t at = 0; at + 4 <= a.size(); at += 4) {
        float left, right;
        std::memcpy(&left, &a[at], 4);
        std::memcpy(&right, &b[at], 4);
        if (!(left == right)) // zeros of either sign are equal: min and max may choose
          return true;
      }
      return false;
    };
    std::vector<bool> aliased(view.output_count);
    for (size_t i = 0; i < view.alias_count; ++i) {
      aliased[view.aliases[i]->output] = true;
      if (const uint32_t input = view.aliases[i]->input; states && differ(ours.inputs[input], expected.inputs[input]))
        return "state " + std::to_string(input) + " is wrong";
    }
    for (size_t i = 0; i < view.output_count; ++i)
      if (!aliased[i] && differ(ours.outputs[i], expected.outputs[i]))
        return "output " + std::to_string(i) + " is wrong";
    return "";
  }

  const Graph &graph;
  const Runs &runs;
  std::vector<const runtime::Device *> devices; // in whose memory tensors lie, in turn; none: in the host's
  passes::Homes homes;
  tool::Placed compiled;
  uint64_t specializeLimit = 0;
  std::deque<Buffers> kept; // until the program has ended: work may still write to them where a wait was dropped
};

// Queues a call in which a piece of work fails, resets the caller's stream, and queues another call, which has to work:
// for each piece of work in turn. "", or what was wrong.
std::string callAgainAfterErrors() {
  Network net;
  const ValueId x = net.input(MORTISE_F32, {64});
  net.output(net.op("add", {net.op("neg", {net.op("abs", {x})}), x}));
  const std::shared_ptr<const Graph> graph = net.finish();
  const MortiseOption options[] = {{"device", "strict:0,strict:1"},
                                   {"place", "op=neg device=strict:1; op=abs device=strict:0; op=add device=strict:0"},
                                   {"log_level", "off"}};
  const runtime::Device &device = deviceNamed("strict:0");
  const MortisePlugin &table = *device.plugin->table;
  const MortiseType &type = *graph->view().inputs[0]->type;
  const float one = 1;
  std::vector<std::byte> ones, zeros(byteSize(type)), seen(byteSize(type));
  for (int i = 0; i < 64; ++i)
    ones.insert(ones.end(), reinterpret_cast<const std::byte *>(&one), reinterpret_cast<const std::byte *>(&one + 1));
  for (int failing = 1;; ++failing) {
    configureStrict("");
    auto placed =
        tool::compile(*graph, *strictRegistry(), must(runtime::Config::read(options)), {{&device}, {&device}});
    auto program = must(runtime::Program::load(must(std::move(placed)).plan, strictRegistry()));
    Resident in(device, type), out(device, type);
    in.write(ones);
    MortiseStreamArgs stream{};
    must(runtime::callOn(device, "stream_create", table.stream_create, stream));
    const runtime::CallerStream caller{&device, stream.stream};
    const runtime::Tensor inputs[] = {in.tensor()}, outputs[] = {out.tensor()};
    const auto call = [&]() -> Result<void> {
      auto queued = program->enqueue(inputs, outputs, std::span(&caller, 1));
      auto waited = runtime::callOn(device, "stream_wait", table.stream_wait, stream);
      return queued ? waited : queued;
    };
    configureStrict("fail=work:" + std::to_string(failing) + ":" + std::to_string(MORTISE_INTERNAL));
    const bool failed = !call();
    must(runtime::callOn(device, "stream_reset", table.stream_reset, stream));
    configureStrict("");
    const Result<void> again = call();
    std::string problem = again ? "" : again.error().message;
    if (again)
      out.read(seen, problem);
    program.reset();
    must(runtime::callOn(device, "stream_destroy", table.stream_destroy, stream));
    if (problem.empty() && seen != zeros)
      problem = "the result is wrong";
    if (!problem.empty())
      return "behind a failure of work " + std::to_string(failing) + ": " + problem;
    if (!failed)
      return failing > 3 ? "" : "expected at least three pieces of work, found " + std::to_string(failing - 1);
  }
}

std::string rebindWhileQueued(int threads, int calls) {
  Network net;
  net.output(net.op("add", {net.input(MORTISE_F32, {64}), net.weight({64})}));
  const std::shared_ptr<const Graph> graph = net.finish();
  const MortiseOption options[] = {{"device", "strict:0"}, {"log_level", "off"}};
  auto config = runtime::Config::read(options);
  const runtime::Device &device = deviceNamed("strict:0");
  auto placed = tool::compile(*graph, *strictRegistry(), *config, {{&device, nullptr}, {&device}});
  auto program = placed ? runtime::Program::load(placed->plan, strictRegistry()) : placed.error();
  if (!program)
    return program.error().message;
  const MortiseType &type = *graph->view().inputs[0]->type;
  std::vector<std::byte> weights[2];
  for (float number : {1.0f, 2.0f})
    for (int i = 0; i < 64; ++i) {
      const auto *bytes = reinterpret_cast<const std::byte *>(&number);
      weights[number == 2.0f].insert(weights[number == 2.0f].end(), bytes, bytes + sizeof number);
    }
  const auto bind = [&](int which) {
    const runtime::Tensor tensors[] = {{}, {weights[which].data(), type.dtype, type.rank, type.dims, nullptr}};
    return (*program)->bindConstants(tensors);
  };
  if (auto bound = bind(0); !bound)
    return bound.error().message;
  std::vector<std::string> problems(static_cast<size_t>(threads) + 1);
  std::vector<std::thread> workers;
  for (int number = 0; number < threads; ++number)
    workers.emplace_back([&, number] {
      std::string &problem = problems[static_cast<size_t>(number)];
      const MortisePlugin &table = *device.plugin->table;
      Resident x(device, type), y(device, type);
      std::vector<std::byte> zeros(byteSize(type)), seen(byteSize(type));
      x.write(zeros);
      MortiseStreamArgs stream{};
      if (auto made = runtime::callOn(device, "stream_create", table.stream_create, stream); !made)
        fail(made.error().message);
      const runtime::CallerStream caller{&device, stream.stream};
      const runtime::Tensor in[] = {x.tensor(), {}}, out[] = {y.tensor()};
      for (int call = 0; call < calls && problem.empty(); ++call)
        if (auto queued = (*program)->enqueue(in, out, std::span(&caller, 1)); !queued)
          problem = queued.error().message;
      for (const auto slot : {table.stream_wait, table.stream_destroy})
        if (auto done = runtime::callOn(device, "the test's stream", slot, stream); !done && problem.empty())
          problem = done.error().message;
      y.read(seen, problem);
      if (seen != weights[0] && seen != weights[1] && problem.empty())
        problem = "a call computed with neither binding's weights";
    });
  for (int round = 0; round < calls / 4; ++round)
    if (auto bound = bind(round % 2); !bound)
      problems.back() = bound.error().message;
  for (std::thread &worker : workers)
    worker.join();
  for (const std::string &problem : problems)
    if (!problem.empty())
      return problem;
  return "";
}

// Adds what a run returns, what the checker finds in it, and what it leaves behind.
template <typename Run> void watch(Found &found, Run run) {
  const nlohmann::json before = strictReport()["live"];
  try {
    if (std::string wrong = run(); found.wrong.empty())
      found.wrong = std::move(wrong);
  } catch (const std::exception &error) {
    found.wrong = error.what();
  }
  const nlohmann::json after = strictReport();
  for (const auto &violation : after["violations"])
    found.violations.push_back(violation.get<std::string>());
  for (const auto &[kind, count] : after["live"].items())
    if (const int64_t left = count.get<int64_t>() - before.value(kind, int64_t{0}); left != 0)
      found.leaked.push_back(std::to_string(left) + " of " + kind);
}

} // namespace

void fail(const std::string &message) {
  std::fprintf(stderr, "%s\n", message.c_str());
  std::abort();
}

const runtime::Device &deviceNamed(const std::string &name) {
  auto found = strictRegistry()->find(name);
  if (!found)
    fail(found.error().message);
  return *found->front();
}

namespace {

// Removed at the end of the process that made it: children of tests have none.
std::string kernelFolder() {
  static const struct Folder {
    std::string path = (std::filesystem::temp_directory_path() / "mortise-strict-XXXXXX").string();
    pid_t owner = getpid();
    Folder() {
      if (mkdtemp(path.data()) == nullptr)
        fail("kernels on disk: '" + path + "' cannot be made: " + std::strerror(errno));
    }
    ~Folder() {
      std::error_code ignored;
      if (owner == getpid())
        std::filesystem::remove_all(path, ignored);
    }
  } folder;
  return folder.path;
}

std::shared_ptr<runtime::Registry> *loadRegistry(const std::string &kernels) {
  const MortiseOption options[] = {
      {"plugin_path", MORTISE_TEST_PLUGINS}, {"log_level", "off"}, {"kernel_cache", kernels.c_str()}};
  auto config = runtime::Config::read(options);
  if (!config)
    fail(config.error().message);
  auto registry = runtime::Registry::open(*config);
  registry->loadAll();
  for (const auto &rejected : registry->rejected())
    fail(rejected.path + ": " + rejected.error.message);
  // Otherwise a small graph would run as one region of the cpu plugin, whose start costs more than all of it.
  for (const runtime::Device *device : registry->devices())
    if (std::string_view(device->info.kind) == "cpu") {
      const_cast<runtime::Device *>(device)->info.launch_ns = 1e-3;
      watchKernels(const_cast<runtime::Plugin &>(*device->plugin), controlIn(*registry));
    }
  return new std::shared_ptr<runtime::Registry>(std::move(registry));
}

} // namespace

std::shared_ptr<runtime::Registry> strictRegistry(bool keepsKernels) {
  static auto *plain = loadRegistry("off");
  if (!keepsKernels)
    return *plain;
  static auto *keeping = loadRegistry(kernelFolder());
  return *keeping;
}

void forgetKernels() {
  const auto &cache = strictRegistry(true)->cache();
  if (auto cleared = cache ? (*cache)->clear() : cache.error(); !cleared)
    fail(cleared.error().message);
}

void configureStrict(const std::string &settings) {
  if (const char *wrong = strictControl().configure(settings.c_str()))
    fail(wrong);
}

nlohmann::json strictReport() { return nlohmann::json::parse(strictControl().report()); }

uint64_t copiedBytes() {
  uint64_t bytes = 0;
  const nlohmann::json copied = strictReport()["copied"];
  for (const char *where : {"to_device", "to_host", "between"})
    bytes += copied[where].get<uint64_t>();
  return bytes;
}

Found runStrict(const Graph &graph, const Runs &runs) {
  Run run(graph, runs);
  Found found;
  if (!runs.loads.empty())
    configureStrict(runs.loads.front());
  watch(found, [&] { return run.compile(); });
  for (size_t load = 0; load < std::max<size_t>(runs.loads.size(), 1) && found.nothing(); ++load) {
    if (load != 0)
      configureStrict(runs.loads[load]);
    watch(found, [&] { return run.loadAndRun(); });
  }
  found.copied = run.copied;
  return found;
}

Found queueAgainAfterErrors() {
  Found found;
  watch(found, callAgainAfterErrors);
  return found;
}

Found rebindBesideQueuedCalls(int threads, int calls) {
  Found found;
  watch(found, [&] { return rebindWhileQueued(threads, calls); });
  return found;
}

std::string Found::text() const {
  std::string all = wrong;
  const auto add = [&](const std::string &more) { all += (all.empty() ? "" : "; ") + more; };
  for (const std::string &violation : violations)
    add(violation);
  for (const std::string &left : leaked)
    add("leaked " + left);
  return all;
}

} // namespace mortise::test
