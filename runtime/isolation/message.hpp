// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// What the host and a worker say to each other: one struct for each question and answer, with one list of its members
// that both directions use. A reader believes nothing: a message that is cut, too long or wild is an error.
#pragma once

#include <mortise/result.hpp>

#include <cstring>
#include <span>
#include <string>
#include <type_traits>
#include <vector>

namespace mortise::runtime::isolation {

class Writer {
public:
  template <typename... Members> void operator()(const Members &...members) { (put(members), ...); }
  std::string bytes;

private:
  void raw(const void *from, size_t count) { bytes.append(static_cast<const char *>(from), count); }
  template <typename T> void put(const T &value) {
    if constexpr (std::is_arithmetic_v<T>)
      raw(&value, sizeof value);
    else
      const_cast<T &>(value).members(*this);
  }
  void put(const std::string &text) {
    put(uint64_t(text.size()));
    raw(text.data(), text.size());
  }
  template <typename T> void put(const std::vector<T> &list) {
    put(uint64_t(list.size()));
    for (const T &each : list)
      put(each);
  }
};

class Reader {
public:
  explicit Reader(std::string_view bytes) : rest(bytes) {}
  template <typename... Members> void operator()(Members &...members) { (get(members), ...); }
  bool isComplete() const { return !failed && rest.empty(); } // every member was there, and nothing else

private:
  bool raw(void *to, size_t count) {
    if (failed || count > rest.size())
      return !(failed = true);
    std::memcpy(to, rest.data(), count);
    rest.remove_prefix(count);
    return true;
  }
  // Elements take at least a byte each, so that a wild count allocates nothing.
  uint64_t count() {
    uint64_t found = 0;
    get(found);
    if (found > rest.size())
      failed = true;
    return failed ? 0 : found;
  }
  template <typename T> void get(T &value) {
    if constexpr (std::is_arithmetic_v<T>)
      raw(&value, sizeof value);
    else
      value.members(*this);
  }
  void get(std::string &text) {
    text.assign(rest.substr(0, count()));
    rest.remove_prefix(text.size());
  }
  template <typename T> void get(std::vector<T> &list) {
    list.clear();
    for (uint64_t left = count(); left && !failed; --left)
      get(list.emplace_back());
  }
  std::string_view rest;
  bool failed = false;
};

#define MORTISE_MEMBERS(...)                                                                                           \
  template <typename Archive> void members(Archive &archive) { archive(__VA_ARGS__); }

struct Option {
  std::string key, value;
  MORTISE_MEMBERS(key, value)
};

struct Limit { // of a device's memory, "acme" or "acme:1"
  std::string device;
  uint64_t bytes = 0;
  MORTISE_MEMBERS(device, bytes)
};
struct Load {
  static constexpr uint32_t kind = 1;
  static constexpr const char *slot = "load";
  std::string library, manifest, logLevel;
  std::vector<Option> options;
  std::vector<uint32_t> owners;
  std::vector<Limit> memoryLimits;
  MORTISE_MEMBERS(library, manifest, logLevel, options, owners, memoryLimits)
};
struct Described { // a device, which the host is shown as one that computes in host memory
  std::string kind, name, features, sameAs, home;
  uint32_t ordinal = 0, automatic = 0, threads = 0, alignment = 0;
  int32_t dlpackType = 0, dlpackId = 0;
  uint32_t inHostMemory = 0; // whether it is one
  uint64_t bytes = 0;        // of its home
  double peakFlops = 0, bandwidth = 0, launchNs = 0, copyNs = 0, copyBandwidth = 0;
  MORTISE_MEMBERS(kind, name, features, sameAs, home, ordinal, automatic, threads, alignment, dlpackType, dlpackId,
                  inHostMemory, bytes, peakFlops, bandwidth, launchNs, copyNs, copyBandwidth)
};
struct DeclaredAttribute { // the members of its fallback that its kind does not name are 0 or empty
  std::string name, string;
  int32_t kind = 0;
  uint32_t hasFallback = 0;
  int64_t i64 = 0;
  double f64 = 0;
  std::vector<int64_t> i64s;
  std::vector<double> f64s;
  MORTISE_MEMBERS(name, string, kind, hasFallback, i64, f64, i64s, f64s)
};
struct DeclaredOp {
  std::string name, summary;
  uint32_t operandsMin = 0, operandsMax = 0;
  std::vector<DeclaredAttribute> attributes;
  MORTISE_MEMBERS(name, summary, operandsMin, operandsMax, attributes)
};
struct Loaded {
  std::string name, vendor, version, build, deviceless;
  uint32_t opset = 0, revision = 0, hasLayouts = 0;
  std::vector<Described> devices;
  std::vector<DeclaredOp> ops;
  std::vector<std::string> hidden; // what the plugin has and the host is not shown
  MORTISE_MEMBERS(name, vendor, version, build, deviceless, opset, revision, hasLayouts, devices, ops, hidden)
};

struct Infer {
  static constexpr uint32_t kind = 9;
  static constexpr const char *slot = "infer";
  std::string graph; // in the portable format: one node, with a result of no meaning
  MORTISE_MEMBERS(graph)
};
struct Inferred {
  std::string graph; // in the portable format: no nodes, and inputs of the results' types
  std::string wrong; // with the plugin's answer; "" where nothing is
  MORTISE_MEMBERS(graph, wrong)
};

struct Form { // in the home
  uint32_t value = 0, layout = 0;
  MORTISE_MEMBERS(value, layout)
};
struct Work { // what propose and kernel_compile are given
  uint32_t device = 0;
  std::string graph; // in the portable format
  std::vector<Option> options;
  int32_t mode = 0, precision = 0;
  uint32_t deterministic = 0;
  std::vector<Form> forms;
  MORTISE_MEMBERS(device, graph, options, mode, precision, deterministic, forms)
};
struct Propose {
  static constexpr uint32_t kind = 2;
  static constexpr const char *slot = "propose";
  Work work;
  MORTISE_MEMBERS(work)
};
struct Candidate {
  std::string lowering;
  std::vector<uint32_t> nodes;
  double costNs = 0, bytes = 0, flops = 0;
  std::vector<uint32_t> inPlace; // input, output, input, output ...
  std::vector<Form> forms;
  MORTISE_MEMBERS(lowering, nodes, costNs, bytes, flops, inPlace, forms)
};
struct Refusal {
  uint32_t node = 0;
  int32_t reason = 0;
  std::string detail;
  MORTISE_MEMBERS(node, reason, detail)
};
struct Proposed {
  std::vector<Candidate> candidates;
  std::vector<Refusal> refusals;
  MORTISE_MEMBERS(candidates, refusals)
};

struct Compile {
  static constexpr uint32_t kind = 3;
  static constexpr const char *slot = "kernel_compile";
  Work work;
  std::string lowering;
  MORTISE_MEMBERS(work, lowering)
};
struct Step {
  std::string name, lowering;
  double bytes = 0, flops = 0;
  MORTISE_MEMBERS(name, lowering, bytes, flops)
};
struct Compiled { // with what kernel_info says
  uint64_t kernel = 0;
  std::vector<Step> steps;
  MORTISE_MEMBERS(kernel, steps)
};

struct Size { // of a value in a layout
  static constexpr uint32_t kind = 4;
  static constexpr const char *slot = "layout";
  uint32_t device = 0, layout = 0;
  std::string graph; // in the portable format: no nodes, and the value as its one input
  MORTISE_MEMBERS(device, layout, graph)
};
struct ExprStep {
  int32_t op = 0;
  int64_t value = 0;
  MORTISE_MEMBERS(op, value)
};
struct Sized {
  std::string name;
  std::vector<ExprStep> bytes;
  MORTISE_MEMBERS(name, bytes)
};

// Tensors lie in the memory that both sides share.
struct Range {
  uint64_t offset = 0, bytes = 0;
  uint32_t present = 0; // 0: the slot is given the address 0
  MORTISE_MEMBERS(offset, bytes, present)
};
struct Bind {
  static constexpr uint32_t kind = 5;
  static constexpr const char *slot = "constants_bind";
  uint64_t kernel = 0, shared = 0; // bytes of the shared memory
  std::vector<Range> inputs;
  MORTISE_MEMBERS(kernel, shared, inputs)
};
struct Bound {
  uint64_t number = 0, packedBytes = 0;
  MORTISE_MEMBERS(number, packedBytes)
};
struct Enqueue {
  static constexpr uint32_t kind = 6;
  static constexpr const char *slot = "enqueue";
  uint64_t constants = 0, shared = 0;
  std::vector<Range> inputs, outputs;
  std::vector<int64_t> symbols;
  uint32_t timed = 0; // whether the answer has the nanoseconds of each step
  MORTISE_MEMBERS(constants, shared, inputs, outputs, symbols, timed)
};
struct Enqueued {
  std::vector<uint64_t> stepNs;
  MORTISE_MEMBERS(stepNs)
};
struct DestroyConstants {
  static constexpr uint32_t kind = 7;
  static constexpr const char *slot = "constants_destroy";
  uint64_t number = 0;
  MORTISE_MEMBERS(number)
};
struct DestroyKernel {
  static constexpr uint32_t kind = 8;
  static constexpr const char *slot = "kernel_destroy";
  uint64_t number = 0;
  MORTISE_MEMBERS(number)
};
struct Nothing {
  MORTISE_MEMBERS()
};

struct Question { // around each of the above
  uint32_t kind = 0;
  std::string about, body; // what it is for, "region 3 (acme.mul on acme)"
  MORTISE_MEMBERS(kind, about, body)
};
struct Answer {
  int32_t code = 0; // MortiseCode
  std::string message, body;
  MORTISE_MEMBERS(code, message, body)
};
#undef MORTISE_MEMBERS

constexpr uint64_t mostMessage = UINT64_C(1) << 30;

template <typename Message> std::string encode(const Message &message) {
  Writer writer;
  writer(message);
  return std::move(writer.bytes);
}

template <typename Message> Result<Message> decode(std::string_view bytes) {
  Message message;
  Reader reader(bytes);
  reader(message);
  if (!reader.isComplete())
    return Error{MORTISE_CORRUPT, "expected a message of the worker protocol, found one of " +
                                      std::to_string(bytes.size()) + " bytes that does not verify"};
  return message;
}

// What a worker says before all else. It differs where the messages or the memory that both sides share do.
std::string greeting();

// One message over a socket. `deadline`: seconds until an answer has to be complete; negative: none. Errors:
// MORTISE_DEVICE_LOST (the other side is gone), MORTISE_CANCELLED (the deadline), MORTISE_CORRUPT.
Result<void> sendMessage(int socket, std::string_view bytes, double seconds);
Result<std::string> receiveMessage(int socket, double seconds);

} // namespace mortise::runtime::isolation
