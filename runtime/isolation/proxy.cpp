// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#include "proxy.hpp"

#include "../host.hpp"
#include "message.hpp"
#include "worker.hpp"
#include <mortise/dtypes.h>
#include <mortise/portable/graph.hpp>

#include <array>
#include <csignal>
#include <deque>
#include <dlfcn.h>
#include <fcntl.h>
#include <filesystem>
#include <mutex>
#include <set>
#include <spawn.h>
#include <sys/mman.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <thread>
#include <unistd.h>

namespace fs = std::filesystem;

namespace mortise::runtime::isolation {
namespace {

constexpr int mostStarts = 4; // of one plugin's workers in this process

MortiseStatus *statusOf(const Error &error) { return host().status_create(error.code, error.message.c_str()); }

// Beside the library or program that this code is part of, or in the bin of the folder above.
Result<std::string> findWorker(const std::string &wanted) {
  if (!wanted.empty())
    return wanted;
  Dl_info where{};
  std::error_code failed;
  fs::path image = fs::canonical("/proc/self/exe", failed);
  if (dladdr(reinterpret_cast<const void *>(&findWorker), &where) && where.dli_fname && *where.dli_fname == '/')
    image = fs::canonical(where.dli_fname, failed);
  for (const char *folder : {".", "bin", "../bin", "../../bin"}) {
    const fs::path path = image.parent_path() / folder / "mortise-worker";
    if (access(path.c_str(), X_OK) == 0)
      return path.lexically_normal().string();
  }
  return Error{MORTISE_NOT_FOUND, "expected the program mortise-worker in '" + image.parent_path().string() +
                                      "' or in a folder bin beside it, found none; set isolate_worker to its path"};
}

struct Descriptors {
  int socket = -1, memory = -1;
  void closeAll() {
    for (int *each : {&socket, &memory})
      if (*each >= 0)
        close(std::exchange(*each, -1));
  }
};

std::string endText(int status) {
  if (WIFSIGNALED(status)) {
    const char *name = sigabbrev_np(WTERMSIG(status));
    return std::string("was ended by SIG") + (name ? name : "?");
  }
  return "called exit(" + std::to_string(WEXITSTATUS(status)) + ")";
}

// One plugin's process. Questions go one after another.
class Connection {
public:
  // `setting`: to be set to "off" by somebody who looks for a fault
  Connection(std::string name, LoadRequest request, std::string library, std::string setting)
      : name(std::move(name)), request(std::move(request)), library(std::move(library)), setting(std::move(setting)) {}

  std::recursive_mutex mutex;   // held from the shared memory's filling until it is read
  Loaded loaded;                // of the first start
  std::set<std::string> faulty; // kernels, by what they were compiled of, that ended a worker
  uint64_t generation() const { return starts; }

  // Starts a worker where none runs.
  Result<void> ensure() {
    if (isForkedChild())
      return forkedChildError();
    if (pid > 0)
      return {};
    if (isGivenUp())
      return Error{MORTISE_UNSUPPORTED, named() + " is not used any more: its worker ended " +
                                            std::to_string(mostStarts) + " times, the last time " + lastEnd};
    if (auto started = start(); !started)
      return started;
    return load();
  }

  // Has the worker that was started open the library.
  Result<void> load() {
    ++starts;
    const Isolation &limits = *request.isolation;
    Load load{library, request.files.manifest, limits.logLevel, {}, {request.owners.begin(), request.owners.end()}};
    for (const Setting &setting : request.options)
      load.options.push_back({setting.key, setting.value});
    auto answer = exchange<Loaded>(load);
    if (!answer)
      return answer.error();
    if (starts == 1)
      loaded = std::move(*answer);
    else if (answer->build != loaded.build || answer->devices.size() != loaded.devices.size())
      return Error{MORTISE_CORRUPT, named() + " changed since this process loaded it; start a new process"};
    return {};
  }

  // `ended` tells a fault of the process from a status of the slot.
  template <typename Told, typename Question_> Result<Told> ask(const Question_ &question, bool *ended = nullptr) {
    if (auto ready = ensure(); !ready)
      return ready.error();
    return exchange<Told>(question, ended);
  }

  Result<std::byte *> memoryOf(uint64_t bytes) {
    if (auto ready = ensure(); !ready)
      return ready.error();
    if (bytes > mapped) {
      bytes = (bytes + 4095) / 4096 * 4096;
      if (ftruncate(ends.memory, static_cast<off_t>(bytes)) != 0)
        return Error{MORTISE_OUT_OF_MEMORY, "cannot share " + std::to_string(bytes) + " bytes with a worker"};
      void *fresh = mmap(nullptr, bytes, PROT_READ | PROT_WRITE, MAP_SHARED, ends.memory, 0);
      if (fresh == MAP_FAILED)
        return Error{MORTISE_OUT_OF_MEMORY, "cannot map " + std::to_string(bytes) + " bytes shared with a worker"};
      unmap();
      shared = static_cast<std::byte *>(fresh);
      mapped = bytes;
    }
    return shared;
  }
  Result<void> start();
  void finish() { // of a worker that runs: it ends when its socket closes
    ends.closeAll();
    end(false, "");
  }
  uint64_t sharedBytes() const { return mapped; }
  bool runs() const { return pid > 0; }
  bool isGivenUp() const { return !runs() && starts == mostStarts; }

private:
  std::string named() const { return "plugin '" + name + "'"; }

  void unmap() {
    if (shared)
      munmap(std::exchange(shared, nullptr), std::exchange(mapped, 0));
  }

  // The slot that the worker, which has ended, was in; `asked` where it had not got to one.
  std::string shownSlot(const char *asked) const {
    std::array<char, shownBytes> text{};
    if (pread(ends.memory, text.data(), text.size() - 1, 0) <= 0 || text[0] == 0)
      return asked;
    return legible(text.data());
  }

  // Waits for the end of the process, which has closed its socket or is to be ended. What it was is in `lastEnd`.
  void end(bool hangs, const char *asked) {
    using namespace std::chrono_literals;
    int status = 0;
    pid_t gone = 0;
    const auto wait = [&](std::chrono::milliseconds most) {
      for (const auto until = std::chrono::steady_clock::now() + most;
           gone == 0 && std::chrono::steady_clock::now() < until;) {
        gone = waitpid(pid, &status, WNOHANG);
        if (gone == 0)
          std::this_thread::sleep_for(2ms);
      }
    };
    if (hangs)
      kill(pid, SIGABRT); // the worker's line on standard error names slot and region
    wait(hangs ? 500ms : 2000ms);
    if (gone == 0) {
      kill(pid, SIGKILL);
      do
        gone = waitpid(pid, &status, 0);
      while (gone < 0 && errno == EINTR);
    }
    lastEnd = gone == pid ? endText(status) : "ended";
    lastSlot = shownSlot(asked);
    pid = 0;
    ends.closeAll();
    unmap();
  }

  template <typename Told, typename Asked> Result<Told> exchange(const Asked &asked, bool *ended = nullptr) {
    const Question question{Asked::kind, runtime::asked.about ? runtime::asked.about : "", encode(asked)};
    const double seconds = request.isolation->seconds;
    Result<std::string> received = std::string();
    if (auto sent = sendMessage(ends.socket, encode(question), seconds); !sent) {
      if (sent.error().code == MORTISE_UNSUPPORTED)
        return sent.error();
      received = sent.error();
    } else {
      received = receiveMessage(ends.socket, seconds);
    }
    Error why;
    if (received) {
      auto answer = decode<Answer>(*received);
      if (answer && answer->code != MORTISE_OK)
        return Error{answer->code > MORTISE_OK && answer->code <= MORTISE_INTERNAL
                         ? static_cast<MortiseCode>(answer->code)
                         : MORTISE_INTERNAL,
                     legible(answer->message)};
      if (answer) {
        if (auto told = decode<Told>(answer->body))
          return told;
        else
          why = told.error();
      } else {
        why = answer.error();
      }
    } else {
      why = received.error();
    }
    const bool hangs = why.code == MORTISE_CANCELLED, wild = why.code == MORTISE_CORRUPT;
    end(hangs || wild, Asked::slot);
    if (hangs)
      lastEnd = "gave no answer within " + std::to_string(static_cast<uint64_t>(seconds)) + " s and was ended";
    else if (wild)
      lastEnd = "gave an answer that does not verify and was ended";
    lastEnd += " in " + lastSlot;
    if (ended)
      *ended = true;
    const std::string text = named() + ": its worker " + lastEnd;
    logMessage(MORTISE_WARNING, text + (question.about.empty() ? "" : ", " + question.about));
    return Error{MORTISE_UNSUPPORTED, text + "; report this to the plugin's vendor, or set " + setting +
                                          " = \"off\" to see it in a debugger"};
  }

  const std::string name;
  LoadRequest request;
  std::string library, setting;
  pid_t pid = 0;
  Descriptors ends;
  std::byte *shared = nullptr;
  uint64_t mapped = 0, starts = 0;
  std::string lastEnd, lastSlot;
};

Result<void> Connection::start() {
  const Isolation &limits = *request.isolation;
  auto program = findWorker(limits.worker);
  if (!program)
    return program.error();
  int pair[2];
  if (socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, pair) != 0)
    return Error{MORTISE_OUT_OF_MEMORY, std::string("cannot make a socket for a worker: ") + std::strerror(errno)};
  Descriptors made{pair[0], memfd_create("mortise-worker", MFD_CLOEXEC | MFD_ALLOW_SEALING)};
  Descriptors theirs{pair[1], -1};
  // A worker that makes the memory smaller would have the host crash.
  if (made.memory < 0 || ftruncate(made.memory, tensorsBegin) != 0 ||
      fcntl(made.memory, F_ADD_SEALS, F_SEAL_SHRINK) != 0) {
    made.closeAll();
    theirs.closeAll();
    return Error{MORTISE_OUT_OF_MEMORY, std::string("cannot make memory for a worker: ") + std::strerror(errno)};
  }
  posix_spawn_file_actions_t actions;
  posix_spawnattr_t attributes;
  posix_spawn_file_actions_init(&actions);
  posix_spawnattr_init(&attributes);
  // Above the numbers that are filled, so that no one overwrites another.
  const int socket = fcntl(pair[1], F_DUPFD_CLOEXEC, 16), memory = fcntl(made.memory, F_DUPFD_CLOEXEC, 16);
  posix_spawn_file_actions_addopen(&actions, STDIN_FILENO, "/dev/null", O_RDONLY, 0);
  posix_spawn_file_actions_adddup2(&actions, STDERR_FILENO, STDOUT_FILENO);
  posix_spawn_file_actions_adddup2(&actions, socket, workerSocket);
  posix_spawn_file_actions_adddup2(&actions, memory, workerMemory);
  posix_spawn_file_actions_addclosefrom_np(&actions, workerMemory + 1);
  sigset_t all, none;
  sigfillset(&all);
  sigemptyset(&none);
  posix_spawnattr_setsigdefault(&attributes, &all);
  posix_spawnattr_setsigmask(&attributes, &none);
  posix_spawnattr_setflags(&attributes, POSIX_SPAWN_SETSIGDEF | POSIX_SPAWN_SETSIGMASK);
  std::string bytes = std::to_string(limits.bytes);
  char *arguments[] = {program->data(), bytes.data(), nullptr};
  const int failed = posix_spawn(&pid, program->c_str(), &actions, &attributes, arguments, environ);
  posix_spawnattr_destroy(&attributes);
  posix_spawn_file_actions_destroy(&actions);
  for (int each : {socket, memory})
    if (each >= 0)
      close(each);
  theirs.closeAll();
  if (failed) {
    pid = 0;
    made.closeAll();
    return Error{MORTISE_NOT_FOUND, "cannot start '" + *program + "': " + std::strerror(failed)};
  }
  ends = made;
  return {};
}

// What the slots' handles point to.
struct DeviceProxy {
  Connection *connection;
  uint32_t number;
};

struct KernelProxy {
  Connection *connection;
  Compile request;
  std::shared_ptr<const Graph> graph;
  std::string identity; // lowering and graph, without names: the same in every compilation
  uint64_t number = 0, generation = 0;
  Informed info;
  std::vector<MortiseStep> steps;
  std::vector<const MortiseStep *> stepPointers;

  // A worker that was started again has no kernel of an earlier one.
  Result<void> ensure() {
    if (auto ready = connection->ensure(); !ready)
      return ready;
    if (number != 0 && generation == connection->generation())
      return {};
    bool ended = false;
    auto compiled = connection->ask<Handle>(request, &ended);
    auto informed = compiled ? connection->ask<Informed>(Info{.kernel = compiled->number}, &ended)
                             : Result<Informed>(compiled.error());
    if (ended)
      connection->faulty.insert(identity);
    if (!informed)
      return informed.error();
    number = compiled->number;
    generation = connection->generation();
    if (info.steps.empty())
      info = std::move(*informed);
    return {};
  }
};

// The bytes of a tensor in host memory.
Result<uint64_t> bytesOf(const MortiseType &type, std::span<const int64_t> symbols) {
  uint64_t count = 1;
  for (int32_t i = 0; i < type.rank; ++i) {
    int64_t extent = type.dims[i];
    if (extent == MORTISE_DYNAMIC) {
      auto evaluated = evaluate(type.dim_exprs[i], symbols);
      if (!evaluated)
        return evaluated.error();
      extent = *evaluated;
    }
    if (extent < 0 || __builtin_mul_overflow(count, static_cast<uint64_t>(extent), &count))
      return Error{MORTISE_INVALID_ARGUMENT, "expected extents of 0 or more that fit in memory"};
  }
  uint64_t bits;
  if (__builtin_mul_overflow(count, mortise_dtype_bits(type.dtype), &bits) || bits > UINT64_MAX - 7)
    return Error{MORTISE_INVALID_ARGUMENT, "expected a tensor that fits in memory"};
  return (bits + 7) / 8;
}

// Lays tensors out one behind the other in the shared memory.
struct Layout {
  uint64_t end = tensorsBegin;
  Range add(uint64_t bytes) {
    const Range range{end, bytes, 1};
    end = (end + bytes + 63) / 64 * 64;
    return range;
  }
};

struct ConstantsProxy {
  KernelProxy *kernel;
  std::vector<MortiseAddress> inputs; // stay valid as long as the constants, so that they can be bound again
  uint64_t number = 0, generation = 0, packedBytes = 0;

  Result<void> ensure() {
    if (auto ready = kernel->ensure(); !ready)
      return ready;
    Connection &connection = *kernel->connection;
    if (number != 0 && generation == connection.generation())
      return {};
    const MortiseGraph &graph = kernel->graph->view();
    Layout layout;
    Bind bind{.kernel = kernel->number};
    for (size_t i = 0; i < graph.input_count; ++i) {
      bind.inputs.emplace_back();
      if (inputs[i] == 0)
        continue;
      auto bytes = bytesOf(*graph.inputs[i]->type, {});
      if (!bytes)
        return bytes.error();
      bind.inputs.back() = layout.add(*bytes);
    }
    auto memory = connection.memoryOf(layout.end);
    if (!memory)
      return memory.error();
    bind.shared = connection.sharedBytes();
    for (size_t i = 0; i < graph.input_count; ++i)
      if (bind.inputs[i].present)
        std::memcpy(*memory + bind.inputs[i].offset, reinterpret_cast<const void *>(inputs[i]), bind.inputs[i].bytes);
    bool ended = false;
    auto bound = connection.ask<Bound>(bind, &ended);
    if (ended)
      connection.faulty.insert(kernel->identity);
    if (!bound)
      return bound.error();
    number = bound->number;
    packedBytes = bound->packedBytes;
    generation = connection.generation();
    return {};
  }
};

DeviceProxy &proxyOf(MortiseDevice *device) { return *reinterpret_cast<DeviceProxy *>(device); }
KernelProxy &proxyOf(MortiseKernel *kernel) { return *reinterpret_cast<KernelProxy *>(kernel); }
ConstantsProxy &proxyOf(MortiseConstants *constants) { return *reinterpret_cast<ConstantsProxy *>(constants); }

template <typename Args>
Result<Work> workOf(const Args &args, const MortiseGraph &graph, std::shared_ptr<const Graph> &copy) {
  auto made = Graph::copy(graph);
  if (!made)
    return made.error();
  copy = *made;
  const std::span<const std::byte> bytes = copy->bytes();
  Work work{.device = proxyOf(args.device).number,
            .graph = {reinterpret_cast<const char *>(bytes.data()), bytes.size()},
            .mode = args.compile_options ? args.compile_options->mode : 0,
            .precision = args.compile_options ? args.compile_options->precision : 0,
            .deterministic = args.compile_options ? args.compile_options->deterministic : 0};
  for (size_t i = 0; i < args.option_count; ++i)
    work.options.push_back({args.options[i].key, args.options[i].value});
  return work;
}

MortiseStatus *initialize(MortiseInitializeArgs *) { return nullptr; } // the worker's loader has done it
MortiseStatus *devices(MortiseDevicesArgs *) { return nullptr; }

MortiseStatus *propose(MortiseProposeArgs *args) {
  Connection &connection = *proxyOf(args->device).connection;
  const std::lock_guard lock(connection.mutex);
  std::shared_ptr<const Graph> graph;
  auto work = workOf(*args, *args->graph, graph);
  if (!work)
    return statusOf(work.error());
  bool ended = false;
  auto proposed = connection.ask<Proposed>(Propose{std::move(*work)}, &ended);
  if (!proposed && (ended || !connection.runs())) {
    for (uint32_t node = 0; node < args->graph->node_count; ++node)
      args->refuse(args->sink, node, MORTISE_REASON_ERROR, proposed.error().message.c_str());
    return nullptr;
  }
  if (!proposed)
    return statusOf(proposed.error());
  for (const Candidate &each : proposed->candidates) {
    std::vector<MortiseInPlace> pairs;
    for (size_t i = 0; i + 1 < each.inPlace.size(); i += 2)
      pairs.push_back({each.inPlace[i], each.inPlace[i + 1]});
    const MortiseCandidate candidate{.struct_size = sizeof(MortiseCandidate),
                                     .lowering = each.lowering.c_str(),
                                     .nodes = each.nodes.data(),
                                     .node_count = each.nodes.size(),
                                     .cost_ns = each.costNs,
                                     .bytes = each.bytes,
                                     .flops = each.flops,
                                     .in_place = pairs.data(),
                                     .in_place_count = pairs.size()};
    args->add(args->sink, &candidate);
  }
  for (const Refusal &refusal : proposed->refusals)
    args->refuse(args->sink, refusal.node, refusal.reason, refusal.detail.c_str());
  return nullptr;
}

MortiseStatus *kernelCompile(MortiseCompileArgs *args) {
  Connection &connection = *proxyOf(args->device).connection;
  const std::lock_guard lock(connection.mutex);
  auto kernel = std::make_unique<KernelProxy>(KernelProxy{.connection = &connection});
  auto work = workOf(*args, *args->region, kernel->graph);
  if (!work)
    return statusOf(work.error());
  kernel->request = {std::move(*work), args->lowering};
  const auto nameless = canonical(*args->region);
  if (!nameless)
    return statusOf(nameless.error());
  const std::span<const std::byte> bytes = (*nameless)->bytes();
  kernel->identity =
      kernel->request.lowering + '\0' + std::string(reinterpret_cast<const char *>(bytes.data()), bytes.size());
  if (connection.faulty.contains(kernel->identity))
    return statusOf(
        {MORTISE_UNSUPPORTED, "plugin '" + connection.loaded.name + "': its worker ended in this kernel before"});
  if (auto ready = kernel->ensure(); !ready)
    return statusOf(ready.error());
  for (const Step &step : kernel->info.steps)
    kernel->steps.push_back({sizeof(MortiseStep), nullptr, step.name.c_str(), step.lowering.c_str(), step.nodes.data(),
                             step.nodes.size(), step.bytes, step.flops});
  for (const MortiseStep &step : kernel->steps)
    kernel->stepPointers.push_back(&step);
  args->kernel = reinterpret_cast<MortiseKernel *>(kernel.release());
  return nullptr;
}

// The worker allocates workspaces, and knows the memory that a plugin wants for constants.
MortiseStatus *kernelInfo(MortiseKernelInfo *args) {
  const KernelProxy &kernel = proxyOf(args->kernel);
  args->steps = kernel.stepPointers.data();
  args->step_count = kernel.stepPointers.size();
  args->code_bytes = kernel.info.codeBytes;
  return nullptr;
}

MortiseStatus *kernelDestroy(MortiseKernelArgs *args) {
  const std::unique_ptr<KernelProxy> kernel(&proxyOf(args->kernel));
  Connection &connection = *kernel->connection;
  const std::lock_guard lock(connection.mutex);
  if (isForkedChild() || !connection.runs() || kernel->generation != connection.generation())
    return nullptr; // gone with its worker
  const auto told = connection.ask<Nothing>(DestroyKernel{.number = kernel->number});
  return told ? nullptr : statusOf(told.error());
}

MortiseStatus *constantsBind(MortiseConstantsBindArgs *args) {
  KernelProxy &kernel = proxyOf(args->kernel);
  const std::lock_guard lock(kernel.connection->mutex);
  auto constants = std::make_unique<ConstantsProxy>(ConstantsProxy{.kernel = &kernel});
  constants->inputs.assign(args->inputs, args->inputs + kernel.graph->view().input_count);
  if (auto ready = constants->ensure(); !ready)
    return statusOf(ready.error());
  args->packed_bytes = constants->packedBytes;
  args->constants = reinterpret_cast<MortiseConstants *>(constants.release());
  return nullptr;
}

MortiseStatus *constantsDestroy(MortiseConstantsArgs *args) {
  const std::unique_ptr<ConstantsProxy> constants(&proxyOf(args->constants));
  Connection &connection = *constants->kernel->connection;
  const std::lock_guard lock(connection.mutex);
  if (isForkedChild() || !connection.runs() || constants->generation != connection.generation())
    return nullptr;
  const auto told = connection.ask<Nothing>(DestroyConstants{.number = constants->number});
  return told ? nullptr : statusOf(told.error());
}

// Copies inputs into the shared memory and outputs out of it. Two buffers with one address stay one.
Result<void> run(const MortiseEnqueueArgs &args) {
  ConstantsProxy &constants = proxyOf(args.constants);
  KernelProxy &kernel = *constants.kernel;
  Connection &connection = *kernel.connection;
  const std::lock_guard lock(connection.mutex);
  if (isForkedChild())
    return forkedChildError();
  if (connection.faulty.contains(kernel.identity))
    return Error{MORTISE_UNSUPPORTED,
                 "plugin '" + connection.loaded.name + "': its worker ended in this kernel before"};
  if (auto ready = constants.ensure(); !ready)
    return ready;
  const MortiseGraph &graph = kernel.graph->view();
  const std::span symbols(args.symbols, args.symbols ? graph.symbol_count : 0);
  Layout layout;
  Enqueue enqueue{.constants = constants.number,
                  .symbols = {symbols.begin(), symbols.end()},
                  .timed = static_cast<uint32_t>(args.step_ns ? kernel.steps.size() : 0)};
  const auto rangeOf = [&](const MortiseValue &value, MortiseAddress address) -> Result<Range> {
    if (address == 0)
      return Range{};
    auto bytes = bytesOf(*value.type, symbols);
    if (!bytes)
      return bytes.error();
    for (size_t i = 0; i < enqueue.inputs.size(); ++i)
      if (*bytes && args.inputs[i] == address && enqueue.inputs[i].bytes == *bytes)
        return enqueue.inputs[i];
    return layout.add(*bytes);
  };
  for (size_t i = 0; i < graph.input_count; ++i) {
    auto range = rangeOf(*graph.inputs[i], args.inputs[i]);
    if (!range)
      return range.error();
    enqueue.inputs.push_back(*range);
  }
  for (size_t i = 0; i < graph.output_count; ++i) {
    auto range = rangeOf(*graph.outputs[i], args.outputs[i]);
    if (!range)
      return range.error();
    enqueue.outputs.push_back(*range);
  }
  auto memory = connection.memoryOf(layout.end);
  if (!memory)
    return memory.error();
  enqueue.shared = connection.sharedBytes();
  for (size_t i = 0; i < graph.input_count; ++i)
    if (enqueue.inputs[i].bytes)
      std::memcpy(*memory + enqueue.inputs[i].offset, reinterpret_cast<const void *>(args.inputs[i]),
                  enqueue.inputs[i].bytes);
  bool ended = false;
  auto told = connection.ask<Enqueued>(enqueue, &ended);
  if (ended)
    connection.faulty.insert(kernel.identity);
  if (!told)
    return told.error();
  for (size_t i = 0; i < graph.output_count; ++i)
    if (enqueue.outputs[i].bytes)
      std::memcpy(reinterpret_cast<void *>(args.outputs[i]), *memory + enqueue.outputs[i].offset,
                  enqueue.outputs[i].bytes);
  for (size_t i = 0; i < std::min<size_t>(enqueue.timed, told->stepNs.size()); ++i)
    args.step_ns[i] += told->stepNs[i];
  return {};
}

MortiseStatus *enqueue(MortiseEnqueueArgs *args) {
  const auto done = run(*args);
  return done ? nullptr : statusOf(done.error());
}

bool hasLost(MortiseKernel *kernel) {
  const KernelProxy &proxy = proxyOf(kernel);
  const std::lock_guard lock(proxy.connection->mutex);
  return proxy.connection->faulty.contains(proxy.identity) || proxy.connection->isGivenUp();
}

// A device as the host describes it, with the texts that it points to.
struct Listed {
  Described told;
  DeviceProxy proxy;
  std::vector<MortiseSpace> spaces;
  std::vector<const MortiseSpace *> pointers;
  MortiseDeviceInfo info;
};

Result<void> list(Listed &listed) {
  const Described &told = listed.told;
  if (!told.sameAs.empty() || told.spaces.empty() || told.spaces[0].kind != MORTISE_SPACE_HOST)
    return Error{MORTISE_UNSUPPORTED, "expected devices that compute in host memory, found '" + told.kind +
                                          "' with memory of its own, which isolation does not carry; leave the plugin "
                                          "out of the setting isolate"};
  for (const Space &space : told.spaces)
    listed.spaces.push_back(
        {sizeof(MortiseSpace), nullptr, space.name.c_str(), space.kind, space.alignment, space.bytes});
  for (const MortiseSpace &space : listed.spaces)
    listed.pointers.push_back(&space);
  listed.info = {.struct_size = sizeof(MortiseDeviceInfo),
                 .device = reinterpret_cast<MortiseDevice *>(&listed.proxy),
                 .kind = told.kind.c_str(),
                 .name = told.name.c_str(),
                 .ordinal = told.ordinal,
                 .automatic = told.automatic,
                 .threads = told.threads,
                 .space_count = 1, // the others are allocated by the plugin, in its own process
                 .spaces = listed.pointers.data(),
                 .peak_flops = told.peakFlops,
                 .bandwidth = told.bandwidth,
                 .launch_ns = told.launchNs,
                 .features = told.features.c_str()};
  return {};
}

} // namespace

Result<std::unique_ptr<LoadedPlugin>> open(const Manifest &manifest, const LoadRequest &request,
                                           const std::string &library) {
  // Both live until the process ends, as a library's would: its slots may be called until then.
  auto *connection = new Connection(manifest.name, request, library, "isolate");
  const std::lock_guard lock(connection->mutex);
  if (auto ready = connection->ensure(); !ready)
    return ready.error();
  const Loaded &told = connection->loaded;
  static constexpr uint64_t hashes[] = MORTISE_ABI_LAYOUT_HASHES;
  const MortisePlugin offered{.struct_size = sizeof(MortisePlugin),
                              .magic = MORTISE_PLUGIN_MAGIC,
                              .abi_oldest = MORTISE_ABI_OLDEST,
                              .abi_newest = MORTISE_ABI_REVISION,
                              .layout_hashes = hashes,
                              .name = told.name.c_str(),
                              .vendor = told.vendor.c_str(),
                              .version = told.version.c_str(),
                              .opset = told.opset,
                              .initialize = initialize,
                              .devices = devices,
                              .propose = propose,
                              .kernel_compile = kernelCompile,
                              .kernel_info = kernelInfo,
                              .kernel_destroy = kernelDestroy,
                              .constants_bind = constantsBind,
                              .constants_destroy = constantsDestroy,
                              .enqueue = enqueue};
  if (told.name != manifest.name || told.opset != manifest.opset)
    return Error{MORTISE_CORRUPT,
                 "expected plugin '" + manifest.name + "' in its worker, found '" + legible(told.name) + "'"};
  auto loaded = std::make_unique<LoadedPlugin>();
  loaded->table = offered;
  loaded->plugin = {told.name, told.vendor, told.version, library, told.build, &loaded->table, told.revision, hasLost};
  auto *listed = new std::deque<Listed>; // with `connection`
  std::vector<const MortiseDeviceInfo *> infos;
  for (const Described &device : told.devices) {
    Listed &made =
        listed->emplace_back(Listed{device, {connection, static_cast<uint32_t>(listed->size())}, {}, {}, {}});
    if (auto done = list(made); !done)
      return done.error();
    infos.push_back(&made.info);
  }
  auto checked =
      checkDevices({.struct_size = sizeof(MortiseDevicesArgs), .devices = infos.data(), .device_count = infos.size()},
                   loaded->table, manifest);
  if (!checked)
    return checked.error();
  loaded->devices = std::move(*checked);
  return loaded;
}

Result<bool> prove(const Manifest &manifest, const LoadRequest &request, const std::string &library) {
  LoadRequest limited = request;
  limited.isolation = request.probe;
  Connection connection(manifest.name, std::move(limited), library, "probe");
  if (isForkedChild())
    return forkedChildError();
  if (auto started = connection.start(); !started) {
    logMessage(MORTISE_INFO, "plugin '" + manifest.name + "' is loaded without a probe: " + started.error().message);
    return false;
  }
  if (auto loaded = connection.load(); !loaded) {
    if (connection.runs())
      connection.finish();
    return loaded.error();
  }
  connection.finish();
  return true;
}

} // namespace mortise::runtime::isolation
