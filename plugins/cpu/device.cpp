// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// What the CPU is and roughly how fast: machines differ from day to day, so nothing is decided at build time.
#include "device.hpp"

#include <mortise/plugin.hpp>

#include <dnnl.hpp>

#include <chrono>
#include <fstream>
#include <immintrin.h>
#include <sys/sysinfo.h>

namespace mortise::cpu {

uint32_t threadCount() { return static_cast<uint32_t>(std::max(1, host().thread_count())); }

bool hasBrainProducts() { return dnnl::get_effective_cpu_isa() >= dnnl::cpu_isa::avx512_core; }

static std::string processorName() {
  std::ifstream file("/proc/cpuinfo");
  for (std::string line; std::getline(file, line);)
    if (line.starts_with("model name"))
      return line.substr(std::min(line.size(), line.find(':') + 2));
  return "x86-64 processor";
}

#if defined(__x86_64__)
// Multiply-adds per second of one thread: independent chains for half a millisecond or so.
__attribute__((target("avx512f"))) static double measureWide() {
  __m512 sums[10];
  for (__m512 &sum : sums)
    sum = _mm512_set1_ps(1.0f);
  __m512 factor = _mm512_set1_ps(0.999f);
  auto start = std::chrono::steady_clock::now();
  constexpr int rounds = 60000;
  for (int i = 0; i < rounds; ++i)
    for (__m512 &sum : sums)
      sum = _mm512_fmadd_ps(sum, factor, factor);
  std::chrono::duration<double> time = std::chrono::steady_clock::now() - start;
  float total = 0;
  for (__m512 sum : sums)
    total += _mm512_reduce_add_ps(sum);
  return total == 0 ? 0 : rounds * 10.0 * 32 / time.count();
}
__attribute__((target("avx2,fma"))) static double measureNarrow() {
  __m256 sums[10];
  for (__m256 &sum : sums)
    sum = _mm256_set1_ps(1.0f);
  __m256 factor = _mm256_set1_ps(0.999f);
  auto start = std::chrono::steady_clock::now();
  constexpr int rounds = 60000;
  for (int i = 0; i < rounds; ++i)
    for (__m256 &sum : sums)
      sum = _mm256_fmadd_ps(sum, factor, factor);
  std::chrono::duration<double> time = std::chrono::steady_clock::now() - start;
  float total = 0;
  for (__m256 sum : sums)
    total += sum[0];
  return total == 0 ? 0 : rounds * 10.0 * 16 / time.count();
}
#endif

const MortiseDeviceInfo &deviceInfo() {
  static const MortiseDeviceInfo *made = [] {
    auto *name = new std::string(processorName());
    auto *features = new std::string;
    auto *info = new MortiseDeviceInfo(sized<MortiseDeviceInfo>());
    double perThread = 1e9;
#if defined(__x86_64__)
    auto feature = [&](bool there, const char *what) {
      if (there)
        *features += (features->empty() ? "" : ",") + std::string(what);
    };
    feature(__builtin_cpu_supports("avx2"), "avx2");
    feature(__builtin_cpu_supports("fma"), "fma");
    feature(__builtin_cpu_supports("avx512f"), "avx512f");
    feature(__builtin_cpu_supports("avx512bw"), "avx512bw");
    feature(__builtin_cpu_supports("avx512vnni"), "avx512_vnni");
    feature(__builtin_cpu_supports("avx512bf16"), "avx512_bf16");
    if (__builtin_cpu_supports("avx512f"))
      perThread = measureWide();
    else if (__builtin_cpu_supports("avx2") && __builtin_cpu_supports("fma"))
      perThread = measureNarrow();
#endif
    struct sysinfo memory{};
    sysinfo(&memory);
    info->device = reinterpret_cast<MortiseDevice *>(info);
    info->kind = "cpu";
    info->name = name->c_str();
    info->host_memory = 1;
    info->threads = threadCount();
    info->alignment = 64;
    info->peak_flops = perThread * info->threads;
    // A server core draws 20 to 30 GB/s; a socket stops at its channels.
    info->bandwidth = 25e9 * std::min<uint32_t>(info->threads, 12);
    info->memory_bytes = static_cast<uint64_t>(memory.totalram) * memory.mem_unit;
    info->automatic = 1;
    info->features = features->c_str();
    return info;
  }();
  return *made;
}

} // namespace mortise::cpu
