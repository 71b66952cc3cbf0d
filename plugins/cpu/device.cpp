// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// What the CPU is and roughly how fast: machines differ from day to day, so nothing is decided at build time.
#include "device.hpp"

#include <mortise/plugin.hpp>
#include <mortise/threads.hpp>

#include <dnnl.hpp>

#include <chrono>
#include <fstream>
#include <immintrin.h>
#include <mutex>
#include <sys/sysinfo.h>

namespace mortise::cpu {

uint32_t threadCount() { return static_cast<uint32_t>(std::max(1, host().thread_count())); }

namespace {
struct Isa {
  std::string level;
  codegen::Target target;
};
} // namespace

static std::mutex isaMutex;
static const Isa *chosenIsa = nullptr; // never freed: threads of the process's exit may read it

Result<void> setIsa(std::string_view level) {
  std::lock_guard lock(isaMutex);
  if (chosenIsa && chosenIsa->level == level)
    return {};
  if (chosenIsa)
    return Error{MORTISE_INVALID_ARGUMENT, "option isa: expected " + chosenIsa->level +
                                               ", which this process was started with, found " + std::string(level) +
                                               "; one process runs one level"};
  Result<codegen::Target> target = codegen::Target::ofLevel(level, compileThreads());
  if (!target)
    return Error{target.error().code, "option isa: " + target.error().message};
  if (level != "native") {
    const dnnl::cpu_isa limit = target->vectorBits == 512   ? dnnl::cpu_isa::avx512_core
                                : target->vectorBits == 256 ? dnnl::cpu_isa::avx2
                                                            : dnnl::cpu_isa::sse41;
    if (dnnl::set_max_cpu_isa(limit) != dnnl::status::success)
      return Error{MORTISE_INVALID_ARGUMENT, "option isa: oneDNN already runs with another limit than " +
                                                 std::string(level) + " in this process"};
  }
  chosenIsa = new Isa{std::string(level), std::move(*target)};
  return {};
}

static const Isa &currentIsa() {
  std::lock_guard lock(isaMutex);
  if (!chosenIsa)
    chosenIsa = new Isa{"native", codegen::Target::host(compileThreads())};
  return *chosenIsa;
}

std::string_view isa() { return currentIsa().level; }

const codegen::Target &target() { return currentIsa().target; }

Vectors vectors() {
#if defined(__x86_64__)
  static const Vectors found = [] {
    const unsigned bits = target().vectorBits;
    if (bits >= 512 && __builtin_cpu_supports("avx512f") && __builtin_cpu_supports("avx512bw") &&
        __builtin_cpu_supports("avx512vl") && __builtin_cpu_supports("avx512dq"))
      return Vectors::Avx512;
    if (bits >= 256 && __builtin_cpu_supports("avx2") && __builtin_cpu_supports("fma") &&
        __builtin_cpu_supports("f16c"))
      return Vectors::Avx2;
    return Vectors::Baseline;
  }();
  return found;
#else
  return Vectors::Baseline;
#endif
}

bool hasBrainProducts() { return dnnl::get_effective_cpu_isa() >= dnnl::cpu_isa::avx512_core; }

static std::string processorName() {
  std::ifstream file("/proc/cpuinfo");
  for (std::string line; std::getline(file, line);)
    if (line.starts_with("model name"))
      return line.substr(std::min(line.size(), line.find(':') + 2));
  return "x86-64 processor";
}

#if defined(__x86_64__)
// Multiply-adds per second of one thread: independent chains for some tens of microseconds.
__attribute__((target("avx512f"))) static double measureWide() {
  __m512 sums[10];
  for (__m512 &sum : sums)
    sum = _mm512_set1_ps(1.0f);
  __m512 factor = _mm512_set1_ps(0.999f);
  auto start = std::chrono::steady_clock::now();
  constexpr int rounds = 15000;
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
  constexpr int rounds = 15000;
  for (int i = 0; i < rounds; ++i)
    for (__m256 &sum : sums)
      sum = _mm256_fmadd_ps(sum, factor, factor);
  std::chrono::duration<double> time = std::chrono::steady_clock::now() - start;
  float total = 0;
  for (__m256 sum : sums)
    total += sum[0];
  return total == 0 ? 0 : rounds * 10.0 * 16 / time.count();
}
static double measureBaseline() {
  __m128 sums[10];
  for (__m128 &sum : sums)
    sum = _mm_set1_ps(1.0f);
  __m128 factor = _mm_set1_ps(0.999f);
  auto start = std::chrono::steady_clock::now();
  constexpr int rounds = 15000;
  for (int i = 0; i < rounds; ++i)
    for (__m128 &sum : sums)
      sum = _mm_add_ps(_mm_mul_ps(sum, factor), factor);
  std::chrono::duration<double> time = std::chrono::steady_clock::now() - start;
  float total = 0;
  for (__m128 sum : sums)
    total += sum[0];
  return total == 0 ? 0 : rounds * 10.0 * 8 / time.count();
}
#endif

namespace {
struct Processor {
  std::string name = processorName(), features, fingerprint;
  MortiseSpace memory = sized<MortiseSpace>();
  const MortiseSpace *spaces[1] = {&memory};
  MortiseDeviceInfo info = sized<MortiseDeviceInfo>(); // points to the members before it
};
} // namespace

const MortiseDeviceInfo &deviceInfo() {
  static const Processor *made = [] { // never destroyed: the host may read it until the process ends
    auto *processor = new Processor;
    MortiseDeviceInfo &info = processor->info;
    std::string &features = processor->features;
    double perThread = 1e9;
#if defined(__x86_64__)
    const Vectors widest = vectors();
    auto feature = [&](bool there, const char *what) {
      const Vectors needed = std::string_view(what).starts_with("avx512") ? Vectors::Avx512 : Vectors::Avx2;
      if (there && widest >= needed)
        features += (features.empty() ? "" : ",") + std::string(what);
    };
    feature(__builtin_cpu_supports("avx2"), "avx2");
    feature(__builtin_cpu_supports("fma"), "fma");
    feature(__builtin_cpu_supports("avx512f"), "avx512f");
    feature(__builtin_cpu_supports("avx512bw"), "avx512bw");
    feature(__builtin_cpu_supports("avx512vnni"), "avx512_vnni");
    feature(__builtin_cpu_supports("avx512bf16"), "avx512_bf16");
    // The best of several: on a busy machine the system may take the core away for longer than one measurement takes,
    // and kernels are chosen by this number.
    const auto measure = widest == Vectors::Avx512 ? measureWide
                         : widest == Vectors::Avx2 ? measureNarrow
                                                   : measureBaseline;
    for (int i = 0; i < 8; ++i)
      perThread = std::max(perThread, measure());
#endif
    struct sysinfo system{};
    sysinfo(&system);
    auto &memory = processor->memory;
    info.device = reinterpret_cast<MortiseDevice *>(&info);
    info.kind = "cpu";
    info.name = processor->name.c_str();
    info.threads = threadCount();
    memory.name = "host";
    memory.kind = MORTISE_SPACE_HOST;
    memory.alignment = 64;
    memory.bytes = static_cast<uint64_t>(system.totalram) * system.mem_unit;
    info.spaces = processor->spaces;
    info.space_count = 1;
    info.peak_flops = perThread * info.threads;
    // A server core draws 20 to 30 GB/s; a socket stops at its channels.
    info.bandwidth = 25e9 * std::min<uint32_t>(info.threads, 12);
    info.automatic = 1;
    info.features = features.c_str();
    processor->fingerprint = target().triple + " " + target().cpu + " " + target().features;
    info.fingerprint = processor->fingerprint.c_str();
    return processor;
  }();
  return made->info;
}

} // namespace mortise::cpu
