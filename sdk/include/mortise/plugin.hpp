// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// A thin C++20 wrapper over plugin.h for those who write a plugin in C++. Header only; optional.
//
//   struct Acme : mortise::PluginAdaptor<Acme> {
//     static constexpr mortise::PluginIdentity identity{"acme", "Acme Inc.", "1.0.0"};
//     struct Kernel { ... };    // one compiled region
//     struct Constants { ... }; // its packed constants
//     Result<void> initialize(const MortiseInitializeArgs &args);
//     Result<std::span<const MortiseDeviceInfo *const>> devices();
//     Result<void> propose(mortise::Proposal &proposal);
//     Result<std::unique_ptr<Kernel>> compile(const MortiseCompileArgs &args);
//     Result<void> describe(const Kernel &kernel, MortiseKernelInfo &info);
//     Result<mortise::Packed<Constants>> bind(const Kernel &kernel, const MortiseAddress *inputs);
//     Result<void> enqueue(const Kernel &kernel, const Constants *constants, const MortiseEnqueueArgs &args);
//     // (optional) made once for each set of symbol values; enqueue gets it from instanceOf<Acme>(args)
//     struct Instance { ... };
//     Result<std::unique_ptr<Instance>> instantiate(const Kernel &kernel, const Constants *constants,
//                                                   MortiseInstanceArgs &args);
//     // (optional) kernels that a later process need not compile: args.saved is what save returned
//     Result<std::vector<std::byte>> save(const Kernel &kernel);
//     Result<std::unique_ptr<Kernel>> load(const MortiseCompileArgs &args);
//     // (optional) what one call in flight writes; enqueue gets it from frameOf<Acme>(args)
//     struct Frame { ... };
//     Result<std::unique_ptr<Frame>> makeFrame(const Kernel &kernel, const Constants *constants,
//                                              const Instance *instance);
//     // (optional) ops of its own, and the types of their results
//     static std::span<const MortiseOpDeclaration *const> ops();
//     Result<void> infer(mortise::Inference &inference);
//   };
//   MORTISE_DEFINE_PLUGIN(Acme)
//
// An exception that leaves one of these functions becomes a status. One object of the class is made and never
// destroyed.
#pragma once

#include <mortise/graph.hpp>

#include <algorithm>
#include <cstddef>
#include <cstdlib>
#include <deque>
#include <exception>
#include <memory>
#include <new>
#include <span>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

namespace mortise {

// A struct of plugin.h, zeroed, with its size filled in.
template <typename T> T sized() {
  T value{};
  value.struct_size = sizeof(T);
  return value;
}

// ---- The host

namespace detail {
inline const MortiseHost *hostTable = nullptr; // one per plugin library: its symbols are hidden
}
// Valid once `initialize` has been entered. A host that calls a slot before that cannot be given a status, so we abort.
inline const MortiseHost &host() {
  if (!detail::hostTable)
    std::abort();
  return *detail::hostTable;
}
inline void log(MortiseSeverity severity, const std::string &message) { host().log(severity, message.c_str()); }
inline bool cancelled() { return host().cancelled() != 0; }
inline Error cancelledError() { return {MORTISE_CANCELLED, "the compilation was cancelled"}; }

// Runs body(begin, end) over [0, count) on the process's pool. An exception from `body` ends the process.
template <typename Body> void parallelFor(int64_t count, int64_t grain, Body &&body) {
  auto task = [](void *context, int64_t begin, int64_t end) noexcept {
    (*static_cast<std::remove_reference_t<Body> *>(context))(begin, end);
  };
  host().parallel_for(count, grain, task, const_cast<void *>(static_cast<const void *>(std::addressof(body))));
}

// Owns the status that a call returned.
class Status {
public:
  explicit Status(MortiseStatus *status) : status(status) {}
  Status(Status &&other) noexcept : status(std::exchange(other.status, nullptr)) {}
  Status &operator=(Status &&other) noexcept {
    std::swap(status, other.status);
    return *this;
  }
  ~Status() {
    if (status)
      host().status_destroy(status);
  }
  bool ok() const { return !status; }
  MortiseCode code() const { return static_cast<MortiseCode>(host().status_code(status)); }
  const char *message() const { return host().status_message(status); }
  Result<void> result() const {
    if (ok())
      return {};
    return Error{code(), message()};
  }

private:
  MortiseStatus *status;
};

inline MortiseStatus *toStatus(const Result<void> &result) {
  return result ? nullptr : host().status_create(result.error().code, result.error().message.c_str());
}

// The region in the portable format; the bytes live as long as `graph`.
inline Result<std::span<const std::byte>> graphBytes(const MortiseGraph &graph) {
  const void *bytes = nullptr;
  size_t size = 0;
  Status status(host().graph_bytes(&graph, &bytes, &size));
  if (Result<void> result = status.result(); !result)
    return result.error();
  return std::span(static_cast<const std::byte *>(bytes), size);
}

// ---- Memory

// The only space of a device that computes in ordinary host memory: for MortiseDeviceInfo::spaces.
inline std::span<const MortiseSpace *const> hostSpaces() {
  static const MortiseSpace space = [] {
    auto made = sized<MortiseSpace>();
    made.name = "host";
    made.kind = MORTISE_SPACE_HOST;
    made.alignment = 64;
    return made;
  }();
  static const MortiseSpace *const list[] = {&space};
  return list;
}

// ---- Options

// The value of a call option or a manifest option; `otherwise` when it is absent.
inline std::string_view option(const MortiseOption *options, size_t count, std::string_view key,
                               std::string_view otherwise = {}) {
  for (size_t i = 0; i < count; ++i)
    if (key == options[i].key)
      return options[i].value;
  return otherwise;
}

// ---- Proposals

// Splits the supported nodes into the largest convex sets, each ascending. `supported[i]` is about graph.nodes[i]. A
// node's level is the greatest number of changes between supported and not on a path to it. It never falls along a
// path, so the supported nodes of one level are convex, and no two levels could be merged.
inline std::vector<std::vector<uint32_t>> convexRegions(const MortiseGraph &graph, const std::vector<bool> &supported) {
  std::vector<int64_t> level(graph.node_count);
  std::vector<std::vector<uint32_t>> regions;
  for (size_t i = 0; i < graph.node_count; ++i) {
    const MortiseNode &node = *graph.nodes[i];
    int64_t found = supported[i] ? 0 : -1;
    for (size_t k = 0; k < node.operand_count; ++k)
      if (const MortiseValue *operand = node.operands[k]; operand && operand->producer) {
        uint32_t producer = operand->producer->index;
        found = std::max(found, level[producer] + (supported[producer] != supported[i] ? 1 : 0));
      }
    level[i] = found;
    if (supported[i]) {
      size_t region = static_cast<size_t>(found / 2);
      regions.resize(std::max(regions.size(), region + 1));
      regions[region].push_back(static_cast<uint32_t>(i));
    }
  }
  std::erase_if(regions, [](const std::vector<uint32_t> &region) { return region.empty(); });
  return regions;
}

struct Candidate {
  const char *lowering = ""; // short, stable: "cpu.region"
  std::span<const uint32_t> nodes;
  double costNs = 0, bytes = 0, flops = 0; // of one warm run
  std::span<const MortiseInPlace> inPlace = {};
  std::span<const MortiseForm> forms = {};
};

// The arguments of `propose`, and the functions that answer it.
class Proposal {
public:
  explicit Proposal(const MortiseProposeArgs &args) : args(args) {}
  MortiseDevice *device() const { return args.device; }
  const MortiseCompileOptions &compileOptions() const { return *args.compile_options; }
  const MortiseGraph &graph() const { return *args.graph; }
  std::span<const MortiseForm> forms() const { return {args.forms, args.form_count}; } // that are asked for
  std::string_view option(std::string_view key, std::string_view otherwise = {}) const {
    return mortise::option(args.options, args.option_count, key, otherwise);
  }
  void add(const Candidate &candidate) {
    auto out = sized<MortiseCandidate>();
    out.lowering = candidate.lowering;
    out.nodes = candidate.nodes.data();
    out.node_count = candidate.nodes.size();
    out.cost_ns = candidate.costNs;
    out.bytes = candidate.bytes;
    out.flops = candidate.flops;
    out.in_place = candidate.inPlace.data();
    out.in_place_count = candidate.inPlace.size();
    out.forms = candidate.forms.data();
    out.form_count = candidate.forms.size();
    args.add(args.sink, &out);
  }
  void refuse(uint32_t node, MortiseReason reason, const std::string &detail) {
    args.refuse(args.sink, node, reason, detail.c_str());
  }

private:
  const MortiseProposeArgs &args;
};

// ---- Ops of a vendor's own

// The arguments of `infer`, and the function that answers it.
class Inference {
public:
  explicit Inference(const MortiseInferArgs &args) : args(args) {}
  std::string_view op() const { return args.op; }
  size_t operandCount() const { return args.operand_count; }
  const MortiseType &operand(size_t i) const { return *args.operands[i]; }
  // NULL for one that the op does not declare.
  const MortiseAttribute *attribute(std::string_view name) const {
    for (size_t i = 0; i < args.attribute_count; ++i)
      if (name == args.attributes[i]->name)
        return args.attributes[i];
    return nullptr;
  }
  void add(const MortiseType &type) { args.add(args.sink, &type); } // of the next result

private:
  const MortiseInferArgs &args;
};

// ---- Kernels

// A constant workspace size. Keep it in the kernel, because expr() points into it.
class ConstantExpr {
public:
  explicit ConstantExpr(int64_t value = 0) : step{MORTISE_EXPR_CONST, 0, value} {}
  MortiseExpr expr() const { return {&step, step.value == 0 ? 0u : 1u}; }

private:
  MortiseExprStep step;
};

// The steps of a kernel. Keep the list in the kernel, because fill() hands out pointers into it.
class StepList {
public:
  void add(std::string name, const char *lowering, std::vector<uint32_t> nodes, double bytes, double flops) {
    Entry &entry = entries.emplace_back(Entry{std::move(name), std::move(nodes), sized<MortiseStep>()});
    entry.step.name = entry.name.c_str();
    entry.step.lowering = lowering; // a literal, so it outlives the kernel
    entry.step.nodes = entry.nodes.data();
    entry.step.node_count = entry.nodes.size();
    entry.step.bytes = bytes;
    entry.step.flops = flops;
    pointers.push_back(&entry.step);
  }
  size_t size() const { return pointers.size(); }
  template <typename Info> void fill(Info &info) const { // MortiseKernelInfo, MortiseInstanceArgs
    info.steps = pointers.data();
    info.step_count = pointers.size();
  }

private:
  struct Entry {
    std::string name;
    std::vector<uint32_t> nodes;
    MortiseStep step;
  };
  std::deque<Entry> entries; // does not move its elements
  std::vector<const MortiseStep *> pointers;
};

// Constants that a plugin packed, and the memory it holds for them.
template <typename Constants> struct Packed {
  std::unique_ptr<Constants> constants; // null when there is nothing to keep
  uint64_t bytes = 0;
};

// ---- The table

struct PluginIdentity {
  const char *name, *vendor, *version;
};

// Optional functions of the class, which take the C structs unchanged. HasStreams: streams and events (all twelve).
// HasMemory: memory of its own (all three). HasPeers, HasOps, HasLayouts, HasNativeStreams, HasRegistering: as their
// slots.
template <typename P>
concept HasStreams = requires(P &p, MortiseStreamArgs &stream, MortiseEventArgs &event) {
  p.streamCreate(stream), p.streamDestroy(stream), p.streamWait(stream), p.streamStatus(stream);
  p.streamReset(stream);
  p.eventCreate(event), p.eventDestroy(event), p.eventRecord(event), p.eventWait(event);
  p.eventQuery(event), p.eventSynchronize(event), p.eventElapsed(event);
};
template <typename P>
concept HasMemory = requires(P &p, MortiseMemoryArgs &memory, MortiseCopyArgs &copy) {
  p.memoryAllocate(memory), p.memoryFree(memory), p.copy(copy);
};
template <typename P>
concept HasPeers = requires(P &p, MortisePeerArgs &args) { p.peer(args); };
template <typename P>
concept HasOps = requires(P &p, Inference &inference) { P::ops(), p.infer(inference); };
template <typename P>
concept HasLayouts = requires(P &p, MortiseLayoutArgs &args) { p.layout(args); };
template <typename P>
concept HasNativeStreams = requires(P &p, MortiseStreamArgs &args) { p.streamImport(args), p.streamExport(args); };
template <typename P>
concept HasRegistering = requires(P &p, MortiseHostMemoryArgs &args) { p.hostRegister(args), p.hostUnregister(args); };

// HasInstances: the class prepares an instance for each set of symbol values. HasFrames: it keeps state for each call
// in flight. HasSaving: it makes kernels from saved bytes.
template <typename P>
concept HasInstances = requires { typename P::Instance; };
template <typename P>
concept HasFrames = requires { typename P::Frame; };
template <typename P>
concept HasSaving =
    requires(P &p, const typename P::Kernel &kernel, const MortiseCompileArgs &args) { p.save(kernel), p.load(args); };

namespace detail {
struct None;
template <typename P> struct InstanceOf {
  using Type = None;
};
template <HasInstances P> struct InstanceOf<P> {
  using Type = typename P::Instance;
};
} // namespace detail

// The instance that `instantiate` made for this call's symbol values; NULL for a region without symbols.
template <typename P> typename P::Instance *instanceOf(const MortiseEnqueueArgs &args) {
  return reinterpret_cast<typename P::Instance *>(args.instance);
}
// The frame that `makeFrame` made for the context of this call.
template <typename P> typename P::Frame *frameOf(const MortiseEnqueueArgs &args) {
  return reinterpret_cast<typename P::Frame *>(args.frame);
}
// Whether bit `place` is set: the inputs, then the outputs, then the workspace.
inline bool isUnchanged(const MortiseEnqueueArgs &args, size_t place) {
  return args.unchanged && (args.unchanged[place / 64] >> (place % 64) & 1);
}

template <typename P> class PluginAdaptor {
public:
  static const MortisePlugin *table() {
    static const MortisePlugin plugin = make();
    return &plugin;
  }
  static P &self() {
    static P *object = new P; // lives until the process ends, as the plugin does
    return *object;
  }

private:
  static auto &kernel(MortiseKernel *handle) { return *reinterpret_cast<typename P::Kernel *>(handle); }
  static auto *constants(MortiseConstants *handle) { return reinterpret_cast<typename P::Constants *>(handle); }

  // Runs `body` and turns its error or exception into a status.
  template <typename Args, typename Body> static MortiseStatus *guard(Args *args, Body &&body) noexcept {
#ifdef __cpp_exceptions
    try {
#endif
      if (args->struct_size < sizeof(Args))
        return host().status_create(MORTISE_VERSION_MISMATCH,
                                    "the host passed a struct smaller than the oldest ABI revision has");
      return toStatus(body());
#ifdef __cpp_exceptions
    } catch (const std::bad_alloc &) {
      return host().status_create(MORTISE_OUT_OF_MEMORY, "the plugin ran out of host memory");
    } catch (const std::exception &error) {
      return host().status_create(MORTISE_INTERNAL, error.what());
    } catch (...) {
      return host().status_create(MORTISE_INTERNAL, "the plugin threw something that is not a std::exception");
    }
#endif
  }
  template <auto Member, typename Args> static MortiseStatus *slot(Args *args) noexcept {
    return guard(args, [&] { return (self().*Member)(*args); });
  }

  static MortiseStatus *initialize(MortiseInitializeArgs *args) noexcept {
    detail::hostTable = args->host;
    return guard(args, [&]() -> Result<void> {
      if (const uint32_t found = host().abi_revision; found < MORTISE_ABI_OLDEST || found > MORTISE_ABI_REVISION)
        return Error{MORTISE_VERSION_MISMATCH,
                     "expected a host that negotiates one of the ABI revisions " + std::to_string(MORTISE_ABI_OLDEST) +
                         " to " + std::to_string(MORTISE_ABI_REVISION) + ", found " + std::to_string(found)};
      return self().initialize(*args);
    });
  }
  static MortiseStatus *devices(MortiseDevicesArgs *args) noexcept {
    return guard(args, [&]() -> Result<void> {
      Result<std::span<const MortiseDeviceInfo *const>> found = self().devices();
      if (!found)
        return found.error();
      args->devices = found->data();
      args->device_count = found->size();
      return {};
    });
  }
  static MortiseStatus *propose(MortiseProposeArgs *args) noexcept {
    return guard(args, [&] {
      Proposal proposal(*args);
      return self().propose(proposal);
    });
  }
  static MortiseStatus *compile(MortiseCompileArgs *args) noexcept {
    return guard(args, [&]() -> Result<void> {
      Result<std::unique_ptr<typename P::Kernel>> made = self().compile(*args);
      if (!made)
        return made.error();
      args->kernel = reinterpret_cast<MortiseKernel *>(made->release());
      return {};
    });
  }
  static MortiseStatus *save(MortiseKernelSaveArgs *args) noexcept {
    return guard(args, [&]() -> Result<void> {
      Result<std::vector<std::byte>> bytes = self().save(kernel(args->kernel));
      if (!bytes)
        return bytes.error();
      args->write(args->sink, bytes->data(), bytes->size());
      return {};
    });
  }
  static MortiseStatus *load(MortiseCompileArgs *args) noexcept {
    return guard(args, [&]() -> Result<void> {
      Result<std::unique_ptr<typename P::Kernel>> made = self().load(*args);
      if (!made)
        return made.error();
      args->kernel = reinterpret_cast<MortiseKernel *>(made->release());
      return {};
    });
  }
  static MortiseStatus *describe(MortiseKernelInfo *args) noexcept {
    return guard(args, [&] { return self().describe(kernel(args->kernel), *args); });
  }
  static MortiseStatus *destroyKernel(MortiseKernelArgs *args) noexcept {
    return guard(args, [&]() -> Result<void> {
      delete &kernel(args->kernel);
      return {};
    });
  }
  static MortiseStatus *bind(MortiseConstantsBindArgs *args) noexcept {
    return guard(args, [&]() -> Result<void> {
      Result<Packed<typename P::Constants>> packed = self().bind(kernel(args->kernel), args->inputs);
      if (!packed)
        return packed.error();
      args->packed_bytes = packed->bytes;
      args->constants = reinterpret_cast<MortiseConstants *>(packed->constants.release());
      return {};
    });
  }
  static MortiseStatus *destroyConstants(MortiseConstantsArgs *args) noexcept {
    return guard(args, [&]() -> Result<void> {
      delete constants(args->constants);
      return {};
    });
  }
  static MortiseStatus *enqueue(MortiseEnqueueArgs *args) noexcept {
    return guard(args, [&] { return self().enqueue(kernel(args->kernel), constants(args->constants), *args); });
  }

  static MortiseStatus *createInstance(MortiseInstanceArgs *args) noexcept {
    return guard(args, [&]() -> Result<void> {
      Result<std::unique_ptr<typename P::Instance>> made =
          self().instantiate(kernel(args->kernel), constants(args->constants), *args);
      if (!made)
        return made.error();
      args->instance = reinterpret_cast<MortiseInstance *>(made->release());
      return {};
    });
  }
  static MortiseStatus *destroyInstance(MortiseInstanceArgs *args) noexcept {
    return guard(args, [&]() -> Result<void> {
      delete reinterpret_cast<typename P::Instance *>(args->instance);
      return {};
    });
  }

  static MortiseStatus *createFrame(MortiseFrameArgs *args) noexcept {
    return guard(args, [&]() -> Result<void> {
      using Instance = typename detail::InstanceOf<P>::Type;
      Result<std::unique_ptr<typename P::Frame>> made = self().makeFrame(
          kernel(args->kernel), constants(args->constants), reinterpret_cast<Instance *>(args->instance));
      if (!made)
        return made.error();
      args->frame = reinterpret_cast<MortiseFrame *>(made->release());
      return {};
    });
  }
  static MortiseStatus *destroyFrame(MortiseFrameArgs *args) noexcept {
    return guard(args, [&]() -> Result<void> {
      delete reinterpret_cast<typename P::Frame *>(args->frame);
      return {};
    });
  }

  static MortiseStatus *infer(MortiseInferArgs *args) noexcept {
    return guard(args, [&] {
      Inference inference(*args);
      return self().infer(inference);
    });
  }

  static MortisePlugin make() {
    static const uint64_t hashes[] = MORTISE_ABI_LAYOUT_HASHES;
    auto plugin = sized<MortisePlugin>();
    plugin.magic = MORTISE_PLUGIN_MAGIC;
    plugin.abi_oldest = MORTISE_ABI_OLDEST;
    plugin.abi_newest = MORTISE_ABI_REVISION;
    static_assert(std::size(hashes) == MORTISE_ABI_REVISION - MORTISE_ABI_OLDEST + 1,
                  "one layout hash for every revision");
    plugin.layout_hashes = hashes;
    plugin.name = P::identity.name;
    plugin.vendor = P::identity.vendor;
    plugin.version = P::identity.version;
    plugin.opset = MORTISE_OPSET;
    plugin.initialize = initialize;
    plugin.devices = devices;
    plugin.propose = propose;
    plugin.kernel_compile = compile;
    plugin.kernel_info = describe;
    plugin.kernel_destroy = destroyKernel;
    plugin.constants_bind = bind;
    plugin.constants_destroy = destroyConstants;
    plugin.enqueue = enqueue;
    if constexpr (HasStreams<P>) {
      plugin.stream_create = slot<&P::streamCreate, MortiseStreamArgs>;
      plugin.stream_destroy = slot<&P::streamDestroy, MortiseStreamArgs>;
      plugin.stream_wait = slot<&P::streamWait, MortiseStreamArgs>;
      plugin.stream_status = slot<&P::streamStatus, MortiseStreamArgs>;
      plugin.stream_reset = slot<&P::streamReset, MortiseStreamArgs>;
      plugin.event_create = slot<&P::eventCreate, MortiseEventArgs>;
      plugin.event_destroy = slot<&P::eventDestroy, MortiseEventArgs>;
      plugin.event_record = slot<&P::eventRecord, MortiseEventArgs>;
      plugin.event_wait = slot<&P::eventWait, MortiseEventArgs>;
      plugin.event_query = slot<&P::eventQuery, MortiseEventArgs>;
      plugin.event_synchronize = slot<&P::eventSynchronize, MortiseEventArgs>;
      plugin.event_elapsed = slot<&P::eventElapsed, MortiseEventArgs>;
    }
    if constexpr (HasMemory<P>) {
      plugin.memory_allocate = slot<&P::memoryAllocate, MortiseMemoryArgs>;
      plugin.memory_free = slot<&P::memoryFree, MortiseMemoryArgs>;
      plugin.copy = slot<&P::copy, MortiseCopyArgs>;
    }
    if constexpr (HasPeers<P>)
      plugin.peer = slot<&P::peer, MortisePeerArgs>;
    if constexpr (HasOps<P>) {
      plugin.ops = P::ops().data();
      plugin.op_count = P::ops().size();
      plugin.infer = infer;
    }
    if constexpr (HasLayouts<P>)
      plugin.layout = slot<&P::layout, MortiseLayoutArgs>;
    if constexpr (HasNativeStreams<P>) {
      plugin.stream_import = slot<&P::streamImport, MortiseStreamArgs>;
      plugin.stream_export = slot<&P::streamExport, MortiseStreamArgs>;
    }
    if constexpr (HasRegistering<P>) {
      plugin.host_register = slot<&P::hostRegister, MortiseHostMemoryArgs>;
      plugin.host_unregister = slot<&P::hostUnregister, MortiseHostMemoryArgs>;
    }
    if constexpr (HasInstances<P>) {
      plugin.instance_create = createInstance;
      plugin.instance_destroy = destroyInstance;
    }
    if constexpr (HasFrames<P>) {
      plugin.frame_create = createFrame;
      plugin.frame_destroy = destroyFrame;
    }
    if constexpr (HasSaving<P>) {
      plugin.kernel_save = save;
      plugin.kernel_load = load;
    }
    return plugin;
  }
};

} // namespace mortise

#define MORTISE_DEFINE_PLUGIN(Class)                                                                                   \
  extern "C" MORTISE_EXPORT const MortisePlugin *mortise_plugin(void) { return Class::table(); }
