// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// Binding constants: what depends on them only is computed and packed, once in the process for equal contents.
// Executables for other shapes of the same model share their packed weights that way.
#include "kernel.hpp"

#include <bit>
#include <map>
#include <mutex>
#include <sys/mman.h>

namespace mortise::cpu {

// ---- Memory

namespace {
// Zeroed pages, huge ones where that helps: packing is mostly page faults otherwise.
struct Slab {
  char *memory = nullptr;
  size_t mapped = 0;
  void *start = nullptr;
  static std::shared_ptr<Slab> make(size_t bytes) {
    constexpr size_t huge = 2 << 20;
    auto slab = std::make_shared<Slab>();
    slab->mapped = bytes >= huge ? (bytes + huge - 1) / huge * huge + huge : (bytes + 4095) / 4096 * 4096;
    slab->start = mmap(nullptr, slab->mapped, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    if (slab->start == MAP_FAILED) {
      slab->start = nullptr;
      return nullptr;
    }
    auto at = reinterpret_cast<uintptr_t>(slab->start);
    if (bytes >= huge) {
      at = (at + huge - 1) / huge * huge;
      madvise(reinterpret_cast<void *>(at), slab->mapped - huge, MADV_HUGEPAGE); // a wish; nothing depends on it
    }
    slab->memory = reinterpret_cast<char *>(at);
    return slab;
  }
  ~Slab() {
    if (start)
      munmap(start, mapped);
  }
};

Key mix(Key key, uint64_t word) {
  key.a = std::rotl(key.a ^ word, 31) * 0x9e3779b97f4a7c15;
  key.b = (std::rotl(key.b, 27) + (word ^ key.a)) * 0xc2b2ae3d27d4eb4f;
  return key;
}
Key mix(Key key, Key other) { return mix(mix(key, other.a), other.b); }
Key mix(Key key, std::string_view text) {
  for (char letter : text)
    key = mix(key, static_cast<uint64_t>(letter));
  return mix(key, text.size());
}

Key hashChunk(const char *data, size_t size) {
  uint64_t lanes[8] = {1, 2, 3, 4, 5, 6, 7, 8};
  size_t at = 0;
  for (; at + 64 <= size; at += 64)
    for (size_t i = 0; i < 8; ++i) {
      uint64_t word;
      std::memcpy(&word, data + at + 8 * i, 8);
      lanes[i] = std::rotl(lanes[i] ^ word, 31) * 0x9e3779b97f4a7c15;
    }
  Key key{size, ~size};
  for (uint64_t lane : lanes)
    key = mix(key, lane);
  for (; at < size; ++at)
    key = mix(key, static_cast<uint64_t>(static_cast<unsigned char>(data[at])));
  return key;
}

Key hashBytes(const void *data, size_t size) {
  constexpr size_t chunk = 1 << 20;
  std::vector<Key> keys((size + chunk - 1) / chunk);
  parallelFor(static_cast<int64_t>(keys.size()), 1, [&](int64_t begin, int64_t end) {
    for (int64_t i = begin; i < end; ++i)
      keys[i] = hashChunk(static_cast<const char *>(data) + i * chunk, std::min(chunk, size - i * chunk));
  });
  Key whole{size, 1};
  for (Key key : keys)
    whole = mix(whole, key);
  return whole;
}
} // namespace

struct Block {
  Block(std::shared_ptr<Slab> slab, void *memory, size_t bytes) : slab(std::move(slab)), memory(memory), bytes(bytes) {}
  Block(const Block &) = delete;
  Block &operator=(const Block &) = delete;
  // The slab stays while one of its blocks is shared; the pages of the others go.
  ~Block() {
    constexpr uintptr_t page = 4096;
    const auto start = (reinterpret_cast<uintptr_t>(memory) + page - 1) / page * page;
    const auto end = (reinterpret_cast<uintptr_t>(memory) + bytes) / page * page;
    if (start < end && slab.use_count() > 1)
      madvise(reinterpret_cast<void *>(start), end - start, MADV_DONTNEED);
  }
  std::shared_ptr<Slab> slab;
  void *memory;
  size_t bytes;
};

// ---- Sharing

namespace {
class Shared {
public:
  std::shared_ptr<Block> find(Key key) {
    std::lock_guard lock(mutex);
    auto found = blocks.find(key);
    return found == blocks.end() ? nullptr : found->second.lock();
  }
  void add(Key key, const std::shared_ptr<Block> &block) {
    std::lock_guard lock(mutex);
    if (++additions % 256 == 0)
      std::erase_if(blocks, [](const auto &entry) { return entry.second.expired(); });
    std::weak_ptr<Block> &entry = blocks[key];
    if (entry.expired())
      entry = block;
  }

private:
  std::mutex mutex;
  std::map<Key, std::weak_ptr<Block>> blocks;
  size_t additions = 0;
};
Shared &shared() {
  static Shared *made = new Shared; // constants may outlive static destruction
  return *made;
}

Key layoutKey(Key key, const dnnl::memory::desc &layout) {
  key = mix(key, static_cast<uint64_t>(layout.get_data_type()));
  for (const dnnl::memory::dims &list : {layout.get_dims(), layout.get_strides(), layout.get_padded_dims(),
                                         layout.get_inner_blks(), layout.get_inner_idxs()}) {
    key = mix(key, list.size());
    for (int64_t item : list)
      key = mix(key, static_cast<uint64_t>(item));
  }
  return mix(key, layout.get_size());
}

// What a step does, apart from its operands' contents. `unique` makes results that cannot be compared their own.
Key stepKey(const Step &step, const std::vector<int64_t> &symbols, uint64_t unique) {
  Key key;
  if (const LibraryCall *call = step.libraryCall()) { // at bind time only reorders
    key = mix(key, std::string_view("reorder"));
    for (const dnnl::memory::desc &layout : call->layouts)
      key = layoutKey(key, layout);
  } else if (const auto *loop = std::get_if<NativeLoop>(&step.action)) {
    key = loop->signature.empty() ? mix(key, unique) : mix(key, std::string_view(loop->signature));
  } else if (const auto *generated = std::get_if<GeneratedCall>(&step.action)) {
    key = mix(key, std::bit_cast<uint64_t>(generated->entry)); // equal groups have one function
    if (generated->hasSymbols)
      for (int64_t symbol : symbols)
        key = mix(key, static_cast<uint64_t>(symbol));
  } else {
    key = mix(mix(key, std::string_view("copy")), std::get<Copy>(step.action).bytes);
  }
  return key;
}

// For every kept buffer, what it will contain.
std::vector<Key> contents(const Schedule &schedule, const Inputs &inputs) {
  static std::atomic<uint64_t> unique = 1;
  std::vector<Key> keys(schedule.buffers.size());
  std::vector<bool> known(schedule.buffers.size());
  for (const Step &step : schedule.binding) {
    Key key = stepKey(step, schedule.symbols, unique++);
    for (const Operand &operand : step.operands) {
      const Buffer &buffer = schedule.buffers[operand.buffer];
      if (!known[operand.buffer] && buffer.home == Home::Bound)
        keys[operand.buffer] = inputs.contents(buffer.number, buffer.bytes);
      else if (!known[operand.buffer] && buffer.home == Home::Literal)
        keys[operand.buffer] = hashBytes(buffer.literal, buffer.bytes);
      known[operand.buffer] = true;
      key = mix(mix(key, static_cast<uint64_t>(operand.offset)), operand.written ? Key{} : keys[operand.buffer]);
    }
    for (size_t i = 0; i < step.operands.size(); ++i)
      if (const Operand &operand = step.operands[i]; operand.written)
        keys[operand.buffer] = mix(mix(keys[operand.buffer], key), i);
  }
  for (size_t i = 0; i < keys.size(); ++i)
    keys[i] = mix(keys[i], schedule.buffers[i].bytes);
  return keys;
}

constexpr size_t rounded(size_t bytes) {
  return (bytes + 127) / 64 * 64;
} // a cache line more: the library may read past the end
} // namespace

// ---- Binding

// The steps that have to run so that `wanted` buffers get their contents; `wanted` grows by what those steps read and
// write.
static std::vector<bool> stepsFor(const Schedule &schedule, std::vector<bool> &wanted) {
  std::vector<bool> run(schedule.binding.size());
  for (size_t i = schedule.binding.size(); i-- > 0;) {
    const Step &step = schedule.binding[i];
    for (const Operand &operand : step.operands)
      if (operand.written && wanted[operand.buffer])
        run[i] = true;
    if (run[i])
      for (const Operand &operand : step.operands)
        wanted[operand.buffer] = true;
  }
  return run;
}

Key Inputs::contents(size_t number, size_t bytes) const {
  {
    std::lock_guard lock(mutex);
    if (known[number] && known[number]->bytes == bytes)
      return known[number]->key;
  }
  Key key = hashBytes(pointers[number], bytes);
  std::lock_guard lock(mutex);
  known[number] = {bytes, key};
  return key;
}

// The library's calls among them are made now: a bind that finds everything packed needs none.
static Result<void> runBinding(const Schedule &schedule, const std::vector<bool> &run,
                               const std::vector<void *> &pointers) {
  std::vector<Step> steps;
  for (size_t i = 0; i < run.size(); ++i)
    if (run[i]) {
      Step &step = steps.emplace_back(schedule.binding[i]);
      if (auto *call = std::get_if<LibraryCall>(&step.action))
        call->primitive = dnnl::primitive(call->description.get());
    }
  if (steps.empty())
    return {};
  std::unique_ptr<CallState> state = makeState(schedule, steps);
  state->pointers = pointers;
  resolve(steps, *state);
  return runSteps(steps, *state, schedule.symbols.data(), nullptr, {});
}

Result<std::unique_ptr<Bound>> bind(const Executable &executable, const Inputs &inputs) {
  const Schedule &schedule = executable.schedule;
  const std::vector<bool> &keptAtRunTime = executable.keptAtRunTime;
  auto made = std::make_unique<Bound>();
  std::vector<void *> &pointers = made->pointers;
  pointers.resize(schedule.buffers.size());
  for (size_t i = 0; i < pointers.size(); ++i) {
    const Buffer &buffer = schedule.buffers[i];
    if (buffer.home == Home::Literal)
      pointers[i] = const_cast<void *>(buffer.literal);
    if (buffer.home != Home::Bound)
      continue;
    if (!inputs[buffer.number] && buffer.bytes != 0)
      return Error{MORTISE_INVALID_ARGUMENT,
                   "input " + std::to_string(buffer.number) + " is constant, found no pointer for it"};
    pointers[i] = const_cast<void *>(inputs[buffer.number]);
  }

  std::vector<Key> keys = contents(schedule, inputs);
  std::vector<bool> wanted(pointers.size());
  for (size_t i = 0; i < pointers.size(); ++i)
    if (schedule.buffers[i].home == Home::Kept && keptAtRunTime[i]) {
      if (std::shared_ptr<Block> found = shared().find(keys[i])) {
        pointers[i] = found->memory;
        made->blocks.push_back(std::move(found));
      } else {
        wanted[i] = true;
      }
    }
  std::vector<bool> run = stepsFor(schedule, wanted);

  // New blocks in one slab, what only binding needs in another.
  size_t sizes[2] = {0, 0};
  for (size_t i = 0; i < pointers.size(); ++i)
    if (schedule.buffers[i].home == Home::Kept && wanted[i] && !pointers[i])
      sizes[keptAtRunTime[i]] += rounded(schedule.buffers[i].bytes);
  std::shared_ptr<Slab> slabs[2];
  for (size_t k = 0; k < 2; ++k) {
    if (sizes[k] == 0)
      continue;
    slabs[k] = Slab::make(sizes[k]);
    if (!slabs[k])
      return Error{MORTISE_OUT_OF_MEMORY, "no memory for " + std::to_string(sizes[k]) + " bytes of packed constants"};
  }
  size_t at[2] = {0, 0};
  std::vector<std::pair<Key, std::shared_ptr<Block>>> fresh;
  for (size_t i = 0; i < pointers.size(); ++i)
    if (schedule.buffers[i].home == Home::Kept && wanted[i] && !pointers[i]) {
      bool stays = keptAtRunTime[i];
      pointers[i] = slabs[stays]->memory + at[stays];
      at[stays] += rounded(schedule.buffers[i].bytes);
      if (!stays)
        continue;
      auto block = std::make_shared<Block>(slabs[1], pointers[i], schedule.buffers[i].bytes);
      fresh.push_back({keys[i], block});
      made->blocks.push_back(std::move(block));
    }
  made->bytes = sizes[1];

  if (Result<void> result = runBinding(schedule, run, pointers); !result)
    return result.error();
  for (auto &[key, block] : fresh)
    shared().add(key, block);
  for (size_t i = 0; i < pointers.size(); ++i)
    if (schedule.buffers[i].home == Home::Kept && !keptAtRunTime[i])
      pointers[i] = nullptr;
  return made;
}

} // namespace mortise::cpu
