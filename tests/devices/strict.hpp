// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// Programs on the strict plugin (sdk/examples/strict), compared with the reference interpreter bit by bit.
#pragma once

#include <mortise/portable/graph.hpp>
#include <mortise/runtime/registry.hpp>

#include <nlohmann/json.hpp>

#include <memory>
#include <string>
#include <vector>

namespace mortise::test {

// The plugins cpu, reference and strict, loaded once; with `keepsKernels` a second time, beside a folder of this
// process for kernels on disk.
std::shared_ptr<runtime::Registry> strictRegistry(bool keepsKernels = false);
void forgetKernels(); // empties that folder

// The plugin's control (control.h). An unknown setting ends the process.
void configureStrict(const std::string &settings);
nlohmann::json strictReport();
// Bytes copied to, from and between devices since the last configureStrict.
uint64_t copiedBytes();

// A random graph whose values are small whole numbers in f32, so that every device computes the same bits: elementwise
// ops, views, products and sums over values of a few shapes, with weights, states, donated inputs, and results that are
// used twice. `symbolic`: its first extent is the symbol n.
std::shared_ptr<const Graph> randomGraph(uint64_t seed, bool symbolic);

struct Runs {
  std::string devices;                          // "strict:0,cpu"
  std::string place = {};                       // rules, as in the setting
  std::vector<std::vector<int64_t>> values{{}}; // of the symbols, one list for each set
  int count = 2;                                // runs for each set of values
  bool rebinds = false;                         // swaps the weights between two runs
  // Devices in whose memory tensors lie, in turn ("strict:0,strict:1"). Then all runs are queued on one stream of each,
  // and waited for once.
  std::string home = {};
  // Loads the compiled program once with each of these settings. Empty: once, with the settings that there are.
  std::vector<std::string> loads = {};
  bool keepsKernels = false; // on disk; not with `home`
};

// What was wrong with a program's runs.
struct Found {
  std::string wrong;                           // an error or a wrong output
  std::vector<std::string> violations, leaked; // what the checker found, what was left behind
  uint64_t copied = 0;                         // bytes that the last queued runs copied to, from or between devices
  bool nothing() const { return wrong.empty() && violations.empty() && leaked.empty(); }
  std::string text() const;
};

// Threads queue calls of one program, each on a stream of its own, while the weights are swapped.
Found rebindBesideQueuedCalls(int threads, int calls);

// Has each piece of work of a queued call fail once, resets the caller's stream, and queues a call that has to work.
Found queueAgainAfterErrors();

// Compiles, binds, runs and ends a program.
Found runStrict(const Graph &graph, const Runs &runs);

} // namespace mortise::test
