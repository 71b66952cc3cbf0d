// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// What the files of the driver's stand-in share: its objects, what has happened, and the work that calls and graphs do.
#pragma once

#pragma GCC visibility push(default)
#include <cuda.h>
#undef cuEventElapsedTime // the plugin takes the first version
#pragma GCC visibility pop

#include <cstdlib>
#include <functional>
#include <map>
#include <memory>
#include <mutex>
#include <set>
#include <sstream>
#include <string>
#include <utility>
#include <vector>

struct CUctx_st {
  int device;
};
// A piece of work with its parameters. Of a child graph: its pieces.
struct Work {
  enum Kind { Kernel, Copy, Set, Call, Child } kind = Call;
  std::string text;
  std::function<void()> run;
  std::vector<Work> children;
};
struct CUgraphNode_st {
  CUgraph graph;
  Work work;
  std::vector<CUgraphNode> behind;
  bool waits = false; // a kernel that waits for those before it
};
struct CUgraph_st {
  std::vector<std::unique_ptr<CUgraphNode_st>> nodes;
};
struct CUgraphExec_st {
  std::vector<std::pair<CUgraphNode, Work>> work; // in an order that the edges allow
};
struct CUstream_st {
  int number;
  CUgraph captured = nullptr; // while it is being captured
  bool invalid = false;       // the capture
  CUstreamCaptureMode mode = CU_STREAM_CAPTURE_MODE_GLOBAL;
};
struct CUfunc_st {
  std::string name;
  size_t arguments;               // of 8 bytes
  size_t code;                    // a hash: one name may be in several
  bool waits = false;             // for the kernels before it
  unsigned mostShared = 48 << 10; // bytes that a launch may ask for
  unsigned cluster = 1;           // blocks; a grid has a multiple of them
};
struct CUevent_st {
  int number;
  bool recorded;
  uint64_t position;
};
struct CUlib_st {
  std::string code;
  std::map<std::string, CUfunc_st> functions = {};
};
struct CUmod_st {
  std::string code;
  std::map<std::string, CUfunc_st> functions = {};
};

namespace mortise::test {

struct StandIn {
  std::recursive_mutex mutex;
  std::vector<std::string> calls, work;
  std::map<std::string, int> counts;
  std::string failing;
  int failingCall = 0;
  CUresult result = CUDA_SUCCESS, forEver = CUDA_SUCCESS;
  bool hold = false;
  int devices = 2, version = 13000;
  std::set<CUdeviceptr> allocations;
  std::set<CUstream> streams;
  std::set<CUevent> events;
  std::set<CUgraph> graphs;
  std::set<CUgraphExec> executables;
  std::set<const void *> code, registrations;
  int streamNumber = 0, eventNumber = 0;
  uint64_t position = 0; // of the last recorded mark

  StandIn() {
    if (const char *settings = std::getenv("MORTISE_TEST_CUDA_STAND_IN"))
      configure(settings);
  }
  void configure(const std::string &settings) {
    if (forEver != CUDA_SUCCESS) // with its context a device loses what it has registered
      registrations.clear();
    calls.clear();
    work.clear();
    counts.clear();
    failing.clear();
    hold = false;
    result = forEver = CUDA_SUCCESS;
    std::istringstream words(settings);
    for (std::string word; words >> word;) {
      const size_t equals = word.find('=');
      const std::string key = word.substr(0, equals), value = equals == word.npos ? "" : word.substr(equals + 1);
      if (key == "hold") {
        hold = true;
      } else if (key == "devices") {
        devices = std::stoi(value);
      } else if (key == "version") {
        version = std::stoi(value);
      } else if (key == "fail") {
        const size_t first = value.find(':'), second = value.find(':', first + 1);
        failing = value.substr(0, first);
        failingCall = std::stoi(value.substr(first + 1));
        result = static_cast<CUresult>(std::stoi(value.substr(second + 1)));
      } else {
        std::abort(); // the test is faulty
      }
    }
  }
  static bool lasts(CUresult result) {
    return result == 3 || result == 4 || result == 214 || result == 220 || result == 700 || result == 702 ||
           result == 709 || result == 710 || (result >= 714 && result <= 719);
  }
  CUresult enter(const char *function, const std::string &details) {
    calls.push_back(function + (details.empty() ? "" : " " + details));
    const int number = ++counts[function];
    if (function == failing && number == failingCall) {
      if (lasts(result))
        forEver = result;
      return result;
    }
    return forEver;
  }
};

StandIn &standIn();
extern thread_local CUcontext current;

inline int numberOf(CUstream stream) { return stream ? stream->number : 0; }
inline std::string text(const char *name, uint64_t value) { return std::string(name) + "=" + std::to_string(value); }
inline std::string text(CUstream stream) { return text("stream", static_cast<uint64_t>(numberOf(stream))); }
inline std::string text(CUevent event) { return text("event", static_cast<uint64_t>(event->number)); }

// Happens, or is captured.
CUresult queue(CUstream stream, Work work);
bool isLaunchable(CUfunction function, unsigned blocks, unsigned threads, unsigned shared);
Work kernel(CUfunction function, unsigned blocks, unsigned threads, unsigned shared, void **arguments);
Work copyWork(CUdeviceptr target, CUdeviceptr source, size_t bytes);
// To a graph, behind so many of its nodes.
CUgraphNode add(CUgraph graph, const CUgraphNode *behind, size_t count, Work work);

} // namespace mortise::test

// Each function first counts itself, and returns what the settings say.
#define ENTER(symbol, details)                                                                                         \
  std::lock_guard<std::recursive_mutex> lock(standIn().mutex);                                                         \
  if (const CUresult planned = standIn().enter(symbol, details))                                                       \
  return planned
#define NEEDS_CONTEXT                                                                                                  \
  if (!current)                                                                                                        \
  return CUDA_ERROR_INVALID_CONTEXT
