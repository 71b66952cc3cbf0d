// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#pragma once

#include "slots.hpp"

#include <optional>

namespace mortise::test {

// What a host does with a device, with every status that is one. Goes on after errors, and ends what it began. Slots
// that the plugin has not are left out.
class Scenario {
public:
  Scenario(MortiseDevice *device, MortiseDevice *other) : device(device), other(other) {}
  std::vector<Error> run() {
    make();
    work();
    end();
    return errors;
  }
  static constexpr size_t calls = 3; // of the region, with the same addresses: a plugin may keep what those have it do
  // What the host has read last: where there is no error, exp(3) in each element.
  const std::vector<float> &results() const { return data; }

private:
  template <typename Args> bool did(MortiseStatus *(*slot)(Args *), Args &args) {
    auto called = call(slot, args);
    if (!called)
      errors.push_back(called.error());
    return static_cast<bool>(called);
  }
  template <typename Args, typename Edit> bool did(MortiseStatus *(*slot)(Args *), Edit edit) {
    Args args{};
    args.device = device;
    edit(args);
    return did(slot, args);
  }
  MortiseAddress allocate(MortiseDevice *where, MortiseStream *stream) {
    MortiseMemoryArgs args{};
    args.device = where;
    args.stream = stream;
    args.bytes = smallBytes;
    return did(table.memory_allocate, args) ? args.address : 0;
  }
  void free(MortiseDevice *where, MortiseAddress address, MortiseStream *stream) {
    MortiseMemoryArgs args{};
    args.device = where;
    args.stream = stream;
    args.bytes = smallBytes;
    args.address = address;
    if (address)
      did(table.memory_free, args);
  }
  void copy(MortiseDevice *to, MortiseAddress target, MortiseDevice *from, MortiseAddress source,
            MortiseStream *stream) {
    MortiseCopyArgs args{};
    args.device = device;
    args.stream = stream;
    args.target_device = to;
    args.source_device = from;
    args.target = target;
    args.source = source;
    args.bytes = smallBytes;
    if (target && source && stream)
      did(table.copy, args);
  }
  void onEvent(MortiseStatus *(*slot)(MortiseEventArgs *), MortiseEvent *event, MortiseStream *stream,
               MortiseEvent *since = nullptr) {
    MortiseEventArgs args{};
    args.device = device;
    args.event = event;
    args.stream = stream;
    args.since = since;
    if (event)
      did(slot, args);
  }
  void onStream(MortiseStatus *(*slot)(MortiseStreamArgs *), MortiseStream *stream) {
    MortiseStreamArgs args{};
    args.device = device;
    args.stream = stream;
    if (stream)
      did(slot, args);
  }

  void make() {
    for (MortiseStream *&stream : streams) {
      MortiseStreamArgs args{};
      args.device = device;
      if (did(table.stream_create, args))
        stream = args.stream;
    }
    for (MortiseEvent *&event : events) {
      MortiseEventArgs args{};
      args.device = device;
      if (did(table.event_create, args))
        event = args.event;
    }
    memory[0] = allocate(device, nullptr);
    memory[1] = allocate(device, streams[0]);
    memory[2] = allocate(other, nullptr);
    if (!table.host_register)
      return;
    MortiseHostMemoryArgs args{};
    args.device = device;
    args.memory = data.data();
    args.bytes = smallBytes;
    registered = did(table.host_register, args);
  }
  void work() {
    copy(device, memory[0], nullptr, addressOf(data.data()), streams[0]);
    if (streams[0] && streams[1]) {
      onEvent(table.event_record, events[0], streams[0]);
      onEvent(table.event_wait, events[0], streams[1]);
    }
    try {
      compiled.emplace(device, smallGraph());
      for (size_t repeated = 0; repeated < calls && streams[1] && memory[0] && memory[1]; ++repeated)
        if (auto queued = compiled->enqueue(streams[1], {memory[0]}, {memory[1]}); !queued)
          errors.push_back(queued.error());
      if (table.kernel_save) {
        const std::vector<std::byte> saved = compiled->save();
        const Region again(device, smallGraph(), Region::How{.saved = saved});
      }
    } catch (const Failed &failed) {
      errors.push_back(failed.error);
    }
    if (streams[1])
      onEvent(table.event_record, events[1], streams[1]);
    onEvent(table.event_query, events[1], nullptr);
    onEvent(table.event_synchronize, events[1], nullptr);
    if (events[0])
      onEvent(table.event_elapsed, events[1], nullptr, events[0]);
    copy(device, memory[0], device, memory[1], streams[1]);
    copy(nullptr, addressOf(data.data()), device, memory[0], streams[1]);
    MortisePeerArgs peer{};
    peer.device = device;
    peer.other = other;
    if (table.peer)
      did(table.peer, peer);
    copy(other, memory[2], device, memory[0], streams[0]);
    for (MortiseStream *stream : streams) {
      onStream(table.stream_status, stream);
      onStream(table.stream_wait, stream);
    }
    compiled.reset(); // its work has happened
  }
  void end() {
    if (registered) {
      MortiseHostMemoryArgs args{};
      args.device = device;
      args.memory = data.data();
      args.bytes = smallBytes;
      if (!did(table.host_unregister, args))
        (void)call(table.host_unregister, args); // or the memory's next owner could not register it
    }
    free(device, memory[0], nullptr);
    free(device, memory[1], streams[1]);
    free(other, memory[2], nullptr);
    for (MortiseEvent *event : events)
      onEvent(table.event_destroy, event, nullptr);
    for (MortiseStream *stream : streams)
      onStream(table.stream_destroy, stream);
  }

  const MortisePlugin &table = testedPlugin();
  MortiseDevice *device, *other;
  std::vector<Error> errors;
  std::vector<float> data = std::vector<float>(smallBytes / 4, 1.5f);
  std::optional<Region> compiled;
  MortiseStream *streams[2] = {};
  MortiseEvent *events[2] = {};
  MortiseAddress memory[3] = {};
  bool registered = false;
};

inline std::vector<std::string> messages(const std::vector<Error> &errors) {
  std::vector<std::string> list;
  for (const Error &error : errors)
    list.push_back(error.message);
  return list;
}

} // namespace mortise::test
