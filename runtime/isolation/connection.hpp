// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// The host's end of a worker: its process, the socket, and the memory that both map.
#pragma once

#include "../loader.hpp"
#include "message.hpp"
#include <mortise/runtime/call.hpp>

#include <mutex>
#include <set>
#include <string>
#include <sys/types.h>
#include <utility>

namespace mortise::runtime::isolation {

struct Descriptors {
  int socket = -1, memory = -1;
  void closeAll();
};

constexpr int mostStarts = 4; // of one plugin's workers in this process

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
  uint64_t sharedBytes() const { return mapped; }
  bool runs() const { return pid > 0; }
  bool isGivenUp() const { return !runs() && starts == mostStarts; }
  std::string named() const { return "plugin '" + name + "'"; }

  Result<void> ensure(); // starts a worker where none runs
  Result<void> start();
  Result<void> greet(const std::string &program); // whether the worker that was started is of this build
  Result<void> load();                            // has the worker that was started open the library
  void finish();                                  // of a worker that runs
  // The shared memory, with at least so many bytes.
  Result<std::byte *> memoryOf(uint64_t bytes);

  // `ended` tells a fault of the process from a status of the slot.
  template <typename Told, typename Asked> Result<Told> ask(const Asked &asked, bool *ended = nullptr) {
    if (auto ready = ensure(); !ready)
      return ready.error();
    return exchange<Told>(asked, ended);
  }

private:
  template <typename Told, typename Asked> Result<Told> exchange(const Asked &asked, bool *ended = nullptr) {
    auto body = exchangeBytes({Asked::kind, runtime::asked.about ? runtime::asked.about : "", encode(asked)},
                              Asked::slot, ended);
    if (!body)
      return body.error();
    auto told = decode<Told>(*body);
    if (!told)
      return giveUp(told.error(), Asked::slot, ended);
    return told;
  }
  Result<std::string> exchangeBytes(const Question &question, const char *slot, bool *ended);
  // Ends the worker, which has ended or is not to be trusted any more, and says why.
  Error giveUp(const Error &why, const char *slot, bool *ended);
  void end(bool hangs, const char *asked);
  std::string shownSlot(const char *asked) const;
  void unmap();

  const std::string name;
  LoadRequest request;
  std::string library, setting;
  pid_t pid = 0;
  Descriptors ends;
  std::byte *shared = nullptr;
  uint64_t mapped = 0, starts = 0;
  std::string lastEnd, lastSlot;
};

} // namespace mortise::runtime::isolation
