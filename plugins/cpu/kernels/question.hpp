// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// What the library was asked for. It takes some 50 us to answer, and the layers of a network ask the same: an answer is
// kept for the process.
#pragma once

#include <dnnl.hpp>

#include <mutex>
#include <string>
#include <unordered_map>

extern "C" int omp_get_max_threads(void);

namespace mortise::cpu {

// All that the library's answer depends on has to be added. The threads that it may use are added first.
template <typename Description> class Question {
public:
  Question() { add(int64_t(omp_get_max_threads())); }
  void add(int64_t number) { key.append(reinterpret_cast<const char *>(&number), sizeof number); }
  void add(float number) { key.append(reinterpret_cast<const char *>(&number), sizeof number); }
  void add(const dnnl::memory::dims &list) {
    add(static_cast<int64_t>(list.size()));
    for (int64_t number : list)
      add(number);
  }
  void add(const dnnl::memory::desc &layout) { // strided, blocked, or the library's choice
    add(static_cast<int64_t>(layout.get_data_type()));
    add(static_cast<int64_t>(layout.get_format_kind()));
    add(layout.get_dims());
    if (layout.get_format_kind() != dnnl::memory::format_kind::blocked)
      return;
    add(layout.get_strides());
    if (layout.get_inner_nblks() > 0) {
      add(layout.get_inner_blks());
      add(layout.get_inner_idxs());
      add(layout.get_padded_dims());
    }
  }

  // The answer given before to the same question by any region, else `ask`'s.
  template <typename Ask> Description answer(Ask ask) {
    static std::mutex mutex;
    static auto *known = new std::unordered_map<std::string, Description>; // outlives every kernel
    constexpr size_t most = 4096;
    {
      std::lock_guard lock(mutex);
      if (auto found = known->find(key); found != known->end())
        return found->second;
    }
    Description made = ask();
    std::lock_guard lock(mutex);
    if (known->size() >= most)
      known->clear();
    return known->emplace(std::move(key), std::move(made)).first->second;
  }

private:
  std::string key;
};

} // namespace mortise::cpu
