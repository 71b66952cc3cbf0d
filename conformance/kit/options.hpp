// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// What a run of the kit is asked for.
#pragma once

#include "../cases/table.hpp"

#include <string>
#include <vector>

namespace mortise::conformance {

struct Options {
  std::string plugin, manifest; // the library, and its manifest: beside it unless it is named
  std::string beside;           // plugins that it needs, colon separated
  std::string device;           // "": the first that it has
  std::vector<Level> levels;
  std::vector<std::string> ops;    // shell patterns of "add" or "mortise.add"; none: every op
  std::vector<std::string> cases;  // ids
  std::vector<std::string> graphs; // files of graphs, and folders of such files
  std::vector<std::string> onnx;   // folders of tests of the ONNX project, and folders of such folders
  std::string region;              // a file that an earlier run has saved; "": none
  Extent extent = Extent::Full;
  uint64_t seed = 0;
  int jobs = 1;
  int shard = 1, shards = 1; // this one, of how many
  bool resume = false;
  std::string report; // a folder; "": none
  std::string expectations;
  bool stopsAtFailure = false;          // no case is begun behind one that failed, crashed or hung
  double seconds = 1;                   // of a case of the level stress
  double limit = 60;                    // seconds of a case
  uint64_t memory = uint64_t(16) << 30; // bytes of data that a worker may have

  // All of the table's cases at the levels are asked for.
  bool isWhole() const { return ops.empty() && cases.empty() && graphs.empty() && onnx.empty() && shards == 1; }
};

// How a run ends, as the program's exit status. The first that holds, in this order of precedence, below `good`:
// `unusable`, `nothing`, `shrunken`, `failed`, `unexpected`, `unproven`.
enum Exit {
  good = 0,
  failed = 1,     // a case failed, crashed or hung, and is not expected to
  usage = 2,      // the command line is wrong, or names what this version does not have
  unusable = 3,   // the plugin, its manifest or its device cannot be used
  nothing = 4,    // no case was executed: all were refused, or there were none
  shrunken = 5,   // fewer cases than the table of this version says
  unproven = 6,   // the manifest claims what no case has proven
  unexpected = 7, // a case passes that the expectations say does not, or an entry of theirs fits no case
};

} // namespace mortise::conformance
