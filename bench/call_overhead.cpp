// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// What the C API costs a caller: prints medians in microseconds as one line of JSON. Argument: the strict plugin.
#include "get.hpp"

#include "../sdk/examples/strict/control.h"

#include <mortise/mortise.hpp>

#include <algorithm>
#include <chrono>
#include <cstdio>
#include <cstdlib>
#include <dlfcn.h>

namespace {
using namespace mortise;
using bench::get;
using namespace mortise::api;
using Clock = std::chrono::steady_clock;

constexpr int rounds = 31, calls = 20'000, queuedCalls = 4'000;

double median(std::vector<double> values) {
  std::nth_element(values.begin(), values.begin() + static_cast<ptrdiff_t>(values.size() / 2), values.end());
  return values[values.size() / 2];
}

// Median over rounds of the microseconds of one call.
template <typename Call> double microseconds(Call call) {
  std::vector<double> found;
  for (int round = 0; round < rounds; ++round) {
    const auto begin = Clock::now();
    for (int i = 0; i < calls; ++i)
      call();
    found.push_back(std::chrono::duration<double, std::micro>(Clock::now() - begin).count() / calls);
  }
  return median(std::move(found));
}

} // namespace

int main(int argc, char **argv) {
  if (argc != 2) {
    std::fprintf(stderr, "usage: mortise_call_overhead STRICT_PLUGIN\n");
    return 2;
  }
  float x[8] = {1, 2, 3, 4, 5, 6, 7, 8}, y[8] = {};
  const Tensor tx(x, MORTISE_F32, {8}), ty(y, MORTISE_F32, {8});
  const MortiseTensor vx = tx.view(), vy = ty.view();
  const MortiseTensor *inputs[] = {&vx}, *outputs[] = {&vy};

  // Nothing to compute: the input is the output.
  Session session = get(Session::create({{"device", "reference"}}));
  Builder empty = get(session.builder("empty"));
  get(empty.output(get(empty.input("x", MORTISE_F32, {8}))));
  Program program = get(session.compile(empty));
  const void *in[] = {x};
  void *out[] = {y};
  const double checked = microseconds([&] { get(program.run(inputs, outputs)); }),
               pointers = microseconds([&] { get(program.runPointers(in, out)); });
  bool right = std::equal(x, x + 8, y);

  // One kernel on a device, with tensors there; without what the plugin's own slots take.
  Session strict = get(Session::create({{"device", "strict"}, {"plugin_path", std::string(":") + argv[1]}}));
  void *library = dlopen(argv[1], RTLD_NOW);
  auto *entry = library ? reinterpret_cast<const MortisePlugin *(*)()>(dlsym(library, "mortise_plugin")) : nullptr;
  const auto *control = entry ? reinterpret_cast<const StrictControl *>(entry()->extension) : nullptr;
  if (!control || control->head.kind != STRICT_CONTROL_KIND) {
    std::fprintf(stderr, "call_overhead: expected the strict plugin, found %s\n", argv[1]);
    return 1;
  }
  const Device device = get(strict.device("strict:0"));
  Builder graph = get(strict.builder("one"));
  get(graph.output(get(graph.op("mortise.neg", {get(graph.input("x", MORTISE_F32, {8}))}))));
  get(graph.inputDevice(0, device));
  get(graph.outputDevice(0, device));
  Program one = get(strict.compile(graph));
  const Memory mx = get(Memory::allocate(device, sizeof x)), my = get(Memory::allocate(device, sizeof y));
  const Tensor dx(mx.data(), MORTISE_F32, {8}, device), dy(my.data(), MORTISE_F32, {8}, device);
  get(copy(dx, tx));
  const MortiseTensor wx = dx.view(), wy = dy.view();
  const MortiseTensor *from[] = {&wx}, *to[] = {&wy};
  Queue queue = get(Queue::create(device));
  std::vector<double> found, whole;
  for (int call = 0; call < queuedCalls; ++call) {
    const uint64_t busy = control->busy_ns();
    const auto begin = Clock::now();
    get(one.enqueue(queue, from, to));
    const double spent = std::chrono::duration<double, std::micro>(Clock::now() - begin).count();
    const double slots = static_cast<double>(control->busy_ns() - busy) / 1000;
    get(queue.wait());
    whole.push_back(spent);
    found.push_back(spent - slots);
  }
  get(copy(ty, dy));
  right = right && std::equal(x, x + 8, y, [](float a, float b) { return a == -b; });
  std::printf(
      "{\"c_api_us\": %.4f, \"c_api_pointers_us\": %.4f, \"enqueue_us\": %.4f, \"enqueue_with_slots_us\": %.4f, "
      "\"right\": %s}\n",
      checked, pointers, median(found), median(whole), right ? "true" : "false");
  return 0;
}
