// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// Binding constants: what depends on them only is computed and packed, once in the process for equal contents.
// Executables for other shapes of the same model share their packed weights that way.
#include "kernel.hpp"

#include <bit>

namespace mortise::cpu {

namespace {
// What a step does apart from its operands' contents is written out in full: two texts are equal only when the steps
// are.
class Text {
public:
  void add(uint64_t number) { text.append(reinterpret_cast<const char *>(&number), sizeof number); }
  void add(std::string_view word) {
    add(word.size());
    text.append(word);
  }
  void add(const dnnl::memory::desc &layout) {
    add(static_cast<uint64_t>(layout.get_data_type()));
    for (const dnnl::memory::dims &list : {layout.get_dims(), layout.get_strides(), layout.get_padded_dims(),
                                           layout.get_inner_blks(), layout.get_inner_idxs()}) {
      add(list.size());
      for (int64_t item : list)
        add(static_cast<uint64_t>(item));
    }
    add(layout.get_size());
  }
  std::string take() { return std::move(text); }

private:
  std::string text;
};

// `unique` makes results that cannot be compared their own.
std::string describe(const Step &step, const std::vector<int64_t> &symbols, uint64_t unique) {
  Text text;
  if (const LibraryCall *call = step.libraryCall()) { // at bind time only reorders
    text.add(std::string_view("reorder"));
    for (const dnnl::memory::desc &layout : call->layouts)
      text.add(layout);
  } else if (const auto *loop = std::get_if<NativeLoop>(&step.action)) {
    text.add(std::string_view("loop"));
    if (loop->signature.empty())
      text.add(unique);
    else
      text.add(std::string_view(loop->signature));
  } else if (const auto *generated = std::get_if<GeneratedCall>(&step.action)) {
    text.add(std::string_view("generated"));
    text.add(std::bit_cast<uint64_t>(generated->entry)); // equal groups have one function
    if (generated->hasSymbols)
      for (int64_t symbol : symbols)
        text.add(static_cast<uint64_t>(symbol));
  } else {
    text.add(std::string_view("copy"));
    text.add(std::get<Copy>(step.action).bytes);
  }
  for (const Operand &operand : step.operands) {
    text.add(static_cast<uint64_t>(operand.offset));
    text.add(operand.written);
  }
  return text.take();
}

std::shared_ptr<const Recipe> derived(std::string step, std::vector<std::shared_ptr<const Recipe>> operands,
                                      uint32_t hashBits) {
  auto recipe = std::make_shared<Recipe>();
  recipe->key = mix(Key{}, step);
  for (const std::shared_ptr<const Recipe> &operand : operands)
    recipe->key = mix(mix(recipe->key, operand->key.a), operand->key.b);
  recipe->key = weaken(recipe->key, hashBits);
  recipe->step = std::move(step);
  recipe->operands = std::move(operands);
  return recipe;
}

// For every kept buffer, how its contents come about.
std::vector<std::shared_ptr<const Recipe>> recipesOf(const Schedule &schedule, const Inputs &inputs) {
  static std::atomic<uint64_t> unique = 1;
  using List = std::vector<std::shared_ptr<const Recipe>>;
  const uint32_t bits = inputs.hashBits;
  List recipes(schedule.buffers.size());
  for (const Step &step : schedule.binding) {
    List read;
    for (const Operand &operand : step.operands) {
      const Buffer &buffer = schedule.buffers[operand.buffer];
      std::shared_ptr<const Recipe> &recipe = recipes[operand.buffer];
      if (!recipe && buffer.home == Home::Bound)
        recipe = inputs.contents(buffer.number, buffer.bytes);
      else if (!recipe && buffer.home == Home::Literal) // the kernel's own memory, which others may outlive
        recipe = derived(std::string(static_cast<const char *>(buffer.literal), buffer.bytes), {}, bits);
      else if (!recipe)
        recipe = derived("fresh memory", {}, bits);
      read.push_back(recipe);
    }
    const std::shared_ptr<const Recipe> done =
        derived(describe(step, schedule.symbols, unique++), std::move(read), bits);
    for (size_t i = 0; i < step.operands.size(); ++i)
      if (const Operand &operand = step.operands[i]; operand.written)
        recipes[operand.buffer] = derived("result " + std::to_string(i), {done}, bits);
  }
  for (size_t i = 0; i < recipes.size(); ++i)
    if (const Buffer &buffer = schedule.buffers[i]; buffer.home == Home::Kept) {
      List contents;
      if (recipes[i])
        contents.push_back(recipes[i]);
      recipes[i] = derived("bytes " + std::to_string(buffer.bytes), std::move(contents), bits);
    }
  return recipes;
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

std::shared_ptr<const Recipe> Inputs::contents(size_t number, size_t bytes) const {
  {
    std::lock_guard lock(mutex);
    if (known[number] && known[number]->bytes == bytes)
      return known[number];
  }
  auto recipe = std::make_shared<Recipe>();
  recipe->tensor = pointers[number];
  recipe->bytes = bytes;
  recipe->lender = lent;
  recipe->key = weaken(hashBytes(pointers[number], bytes), hashBits);
  std::lock_guard lock(mutex);
  known[number] = recipe;
  return recipe;
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

// The host's constants and the kernel's literals.
static Result<void> pointToGiven(const Schedule &schedule, const Inputs &inputs, std::vector<void *> &pointers) {
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
  return {};
}

namespace {
struct Fresh { // to be packed now
  size_t buffer;
  std::shared_ptr<Block> block;
};
} // namespace

// Memory for what binding makes now: blocks in one slab for the wanted kept buffers that have none, and `scratch`.
static Result<std::vector<Fresh>> allocate(const Schedule &schedule, const std::vector<bool> &wanted,
                                           std::vector<std::shared_ptr<const Recipe>> &recipes,
                                           std::vector<void *> &pointers, std::shared_ptr<Slab> &scratch) {
  const std::vector<Buffer> &buffers = schedule.buffers;
  size_t bytes = 0, at = 0;
  bool usesScratch = false;
  for (size_t i = 0; i < pointers.size(); ++i) {
    if (wanted[i] && buffers[i].home == Home::Kept && !pointers[i])
      bytes += rounded(buffers[i].bytes);
    usesScratch |= wanted[i] && buffers[i].home == Home::Scratch;
  }
  const auto make = [](size_t size, std::shared_ptr<Slab> &slab) -> Result<void> {
    slab = size != 0 ? Slab::make(size) : nullptr;
    if (size != 0 && !slab)
      return Error{MORTISE_OUT_OF_MEMORY, "no memory for " + std::to_string(size) + " bytes of packed constants"};
    return {};
  };
  std::shared_ptr<Slab> kept;
  if (auto made = make(bytes, kept); !made)
    return made.error();
  if (auto made = make(usesScratch ? rounded(schedule.scratchBytes) : 0, scratch); !made)
    return made.error();
  std::vector<Fresh> fresh;
  for (size_t i = 0; i < pointers.size(); ++i)
    if (wanted[i] && buffers[i].home == Home::Scratch) {
      pointers[i] = scratch->memory + buffers[i].offset;
    } else if (wanted[i] && buffers[i].home == Home::Kept && !pointers[i]) {
      pointers[i] = kept->memory + at;
      at += rounded(buffers[i].bytes);
      fresh.push_back({i, std::make_shared<Block>(kept, pointers[i], buffers[i].bytes, std::move(recipes[i]))});
    }
  return fresh;
}

Result<std::unique_ptr<Bound>> bind(const Executable &executable, const Inputs &inputs) {
  const Schedule &schedule = executable.schedule;
  auto made = std::make_unique<Bound>();
  std::vector<void *> &pointers = made->pointers;
  pointers.resize(schedule.buffers.size());
  if (Result<void> result = pointToGiven(schedule, inputs, pointers); !result)
    return result.error();

  std::vector<std::shared_ptr<const Recipe>> recipes = recipesOf(schedule, inputs);
  std::vector<bool> wanted(pointers.size());
  for (size_t i = 0; i < pointers.size(); ++i)
    if (schedule.buffers[i].home == Home::Kept) {
      if (std::shared_ptr<Block> found = findBlock(*recipes[i])) {
        pointers[i] = found->memory;
        made->blocks.push_back(std::move(found));
      } else {
        wanted[i] = true;
      }
    }
  std::vector<bool> run = stepsFor(schedule, wanted);
  std::shared_ptr<Slab> scratch;
  Result<std::vector<Fresh>> fresh = allocate(schedule, wanted, recipes, pointers, scratch);
  if (!fresh)
    return fresh.error();
  if (Result<void> result = runBinding(schedule, run, pointers); !result)
    return result.error();
  for (Fresh &each : *fresh) {
    const Block *packed = each.block.get();
    std::shared_ptr<Block> shared = shareBlock(std::move(each.block));
    if (shared.get() == packed)
      made->bytes += rounded(shared->bytes);
    pointers[each.buffer] = shared->memory;
    made->blocks.push_back(std::move(shared));
  }
  for (size_t i = 0; i < pointers.size(); ++i)
    if (schedule.buffers[i].home == Home::Scratch)
      pointers[i] = nullptr;
  return made;
}

} // namespace mortise::cpu
