// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#include "target/symbol_name.hpp"
#include "target/x86/jit.hpp"
#include "target/x86/saved.hpp"
#include <mortise/threads.hpp>

#include <algorithm>
#include <atomic>
#include <chrono>
#include <cmath>
#include <mutex>
#include <unordered_map>
#include <utility>

namespace mortise::codegen {

struct Compiler::Impl {
  Target target;
  Transform transform;
  std::unique_ptr<Session> session;
  mutable std::mutex mutex;
  std::vector<std::unique_ptr<Backend>> idle;      // backends that no thread uses at the moment
  std::unordered_map<std::string, Compiled> known; // by the key of the Dag
  std::unordered_map<std::string, Compiled> saved; // likewise: from load(), to be linked when they are asked for
  std::unordered_map<Function::Entry, const std::string *> keys; // of the functions in `known`
  std::atomic<uint64_t> serial = 0;
  Statistics statistics;

  Result<Compiled> compile(std::unique_ptr<Backend> &backend, Dag dag, const std::string &name);
  Result<Compiled> link(Compiled loaded);
};

Compiler::Compiler(std::unique_ptr<Impl> impl) : impl(std::move(impl)) {}
Compiler::~Compiler() = default;

Result<std::unique_ptr<Compiler>> Compiler::create(const Target &target, Transform transform) {
  auto impl = std::make_unique<Impl>();
  impl->target = target;
  impl->transform = std::move(transform);
  auto session = Session::create();
  if (!session)
    return session.error();
  impl->session = std::move(*session);
  return std::unique_ptr<Compiler>(new Compiler(std::move(impl)));
}

Compiler::Statistics Compiler::statistics() const {
  std::lock_guard lock(impl->mutex);
  return impl->statistics;
}

Result<Compiled> Compiler::Impl::link(Compiled loaded) {
  const auto start = std::chrono::steady_clock::now();
  auto entry = session->link(loaded.object, loaded.symbol);
  if (!entry)
    return entry.error();
  loaded.function.entry = reinterpret_cast<Function::Entry>(*entry);
  std::lock_guard lock(mutex);
  ++statistics.loaded;
  statistics.codeBytes += loaded.object.size();
  statistics.linkSeconds += std::chrono::duration<double>(std::chrono::steady_clock::now() - start).count();
  return loaded;
}

Result<Compiled> Compiler::Impl::compile(std::unique_ptr<Backend> &backend, Dag dag, const std::string &name) {
  auto now = [] { return std::chrono::steady_clock::now(); };
  auto seconds = [](auto from, auto to) { return std::chrono::duration<double>(to - from).count(); };
  auto start = now();
  const unsigned lanes = std::max(1u, target.vectorBits / 32);
  auto plan = LoopPlan::make(std::move(dag), FuseTarget{.lanes = lanes});
  if (!plan)
    return Error{plan.error().code, name + ": " + plan.error().message};
  auto schedule = scheduleCpu(**plan, lanes);
  if (!schedule)
    return Error{schedule.error().code, name + ": " + schedule.error().message};
  auto planned = now();
  if (!backend) {
    auto created = Backend::create(target);
    if (!created)
      return created.error();
    backend = std::move(*created);
  }
  std::string symbol = symbolName(name, serial++);
  auto object = backend->compile(**plan, *schedule, symbol, transform.run ? &transform : nullptr);
  if (!object)
    return Error{object.error().code, name + ": " + object.error().message};
  auto emitted = now();
  auto entry = session->link(object->code, symbol);
  if (!entry)
    return entry.error();
  Compiled compiled{std::move(symbol), std::move(object->code), {}};
  Function &function = compiled.function;
  function.entry = reinterpret_cast<Function::Entry>(*entry);
  function.tasks = object->tasks;
  function.grain = object->grain;
  function.over = std::move(object->over);
  const Traffic traffic = (*plan)->traffic();
  function.bytes = traffic.bytes, function.flops = traffic.flops;
  function.scratchBytes = schedule->scratchBytes;
  std::lock_guard lock(mutex);
  ++statistics.functions;
  statistics.codeBytes += compiled.object.size();
  statistics.planSeconds += seconds(start, planned);
  statistics.mlirSeconds += object->mlirSeconds;
  statistics.llvmSeconds += object->llvmSeconds;
  statistics.linkSeconds += seconds(emitted, now());
  return compiled;
}

Result<std::vector<std::byte>> Compiler::save(std::span<const Function::Entry> entries) const {
  std::vector<std::byte> bytes;
  std::lock_guard lock(impl->mutex);
  for (Function::Entry entry : entries) {
    const auto found = impl->keys.find(entry);
    if (found == impl->keys.end())
      return Error{MORTISE_INVALID_ARGUMENT, "expected a function of this compiler, found another"};
    append(bytes, *found->second, impl->known.at(*found->second));
  }
  return bytes;
}

Result<void> Compiler::load(std::span<const std::byte> bytes) {
  auto functions = readFunctions(bytes);
  if (!functions)
    return functions.error();
  std::lock_guard lock(impl->mutex);
  for (SavedFunction &function : *functions)
    if (!impl->known.contains(function.key))
      impl->saved.try_emplace(std::move(function.key), std::move(function.compiled));
  return {};
}

Result<std::vector<Function>> Compiler::compile(const MortiseGraph &graph, std::span<const Group> groups) {
  struct Job {
    size_t group; // the first one with its key
    Dag dag;
    std::optional<Compiled> saved;
  };
  std::vector<std::string> keys;
  std::vector<Job> todo;
  {
    std::unordered_map<std::string, bool> queued;
    for (size_t i = 0; i < groups.size(); ++i) {
      auto dag = buildDag(graph, groups[i]);
      if (!dag)
        return dag.error();
      dag->key += impl->transform.name;
      keys.push_back(dag->key);
      std::lock_guard lock(impl->mutex);
      if (impl->known.count(dag->key) || !queued.emplace(dag->key, true).second) {
        ++impl->statistics.reused;
        continue;
      }
      std::optional<Compiled> saved;
      if (auto found = impl->saved.extract(dag->key))
        saved = std::move(found.mapped());
      todo.push_back({i, std::move(*dag), std::move(saved)});
    }
  }
  // The largest first, so that no thread is left alone with one at the end.
  std::sort(todo.begin(), todo.end(), [](const Job &a, const Job &b) {
    return std::pair(b.dag.exprs.size(), a.group) < std::pair(a.dag.exprs.size(), b.group);
  });
  std::atomic<size_t> next = 0;
  std::mutex errorMutex;
  std::optional<Error> error;
  auto work = [&] {
    std::unique_ptr<Backend> backend;
    {
      std::lock_guard lock(impl->mutex);
      if (!impl->idle.empty()) {
        backend = std::move(impl->idle.back());
        impl->idle.pop_back();
      }
    }
    for (size_t i; (i = next++) < todo.size();) {
      Job &job = todo[i];
      auto compiled = job.saved ? impl->link(std::move(*job.saved))
                                : impl->compile(backend, std::move(job.dag), groups[job.group].name);
      if (!compiled) {
        std::lock_guard lock(errorMutex);
        error = compiled.error();
        break;
      }
      std::lock_guard lock(impl->mutex);
      const Function::Entry entry = compiled->function.entry;
      const auto added = impl->known.emplace(keys[job.group], std::move(*compiled));
      if (added.second) // otherwise another thread was faster
        impl->keys.emplace(entry, &added.first->first);
    }
    std::lock_guard lock(impl->mutex);
    if (backend)
      impl->idle.push_back(std::move(backend));
  };
  if (!todo.empty())
    inThreads(std::min<size_t>(impl->target.threads, todo.size()), work);
  if (error)
    return *error;
  std::vector<Function> functions;
  std::lock_guard lock(impl->mutex);
  for (const std::string &key : keys)
    functions.push_back(impl->known.at(key).function);
  return functions;
}

} // namespace mortise::codegen
