// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// Blocks of emulated kernels: their threads are fibers, which change only at barriers and exchanges, in an order drawn
// by chance. Knows neither LLVM nor who compiled the kernels.
#pragma once

#include <cstddef>
#include <cstdint>
#include <map>
#include <memory>
#include <random>
#include <span>
#include <ucontext.h>
#include <vector>

namespace mortise::codegen::test {

// What emulated kernels call, by number (EmulatedMachine).
enum class EmulatedCall : uint8_t {
  Thread,
  Block,
  Barrier,
  Exchange,
  Multiply,
  MultiplyLines,
  ReadMatrices,
  Access,
  Exp2,
  Exp2WithoutSubnormals,
  Reciprocal,
  ReciprocalRoot,
  FlushingFma,
  CopyAside,
  AwaitCopies,
  ClusterBarrier,
  Count
};
void *emulatedFunction(EmulatedCall call);

// The block that runs, or the cluster of blocks. One at a time, since the kernels' shared memory is that of their
// module.
class BlockRun {
public:
  static BlockRun &running();
  using Body = void (*)(void *);
  struct Fragments { // of matrices
    uint32_t lhs[4], rhs[2];
    float sums[4];
  };
  // Of matrices of 16 x `terms`, `terms` x 16 and 16 x 16: thread t has `factors` terms of line t % 16, from number
  // t / 16 * piece on, and of column t % 16 of the results `results` rows, each `apart` behind the one before.
  struct Lines {
    uint32_t dtype, terms, piece, results, apart;
    uint32_t factors() const { return piece ? piece : terms; }
  };
  struct LineFragments {
    uint16_t lhs[16], rhs[16];
    float sums[8];
  };
  unsigned subgroup = 32; // threads that meet in exchanges
  unsigned thread = 0;    // among those of all blocks that run
  unsigned block = 0;     // the first of them
  unsigned blockThreads = 1;

  // Runs `body` for each thread of so many blocks, as fibers. Aborts where threads wait for others that do not come: a
  // GPU would hang.
  void run(unsigned threads, unsigned blocks, Body body, void *argument);
  void barrier() { wait(passed, ofBlock(thread)); }
  void clusterBarrier() { wait(passedWhole, whole); }
  uint32_t exchange(uint32_t bits, uint32_t mask);
  // This thread's four results of a product of matrices. Each product is rounded to f32; their sum towards 0, as
  // hardware does.
  void multiply(int32_t dtype, const Fragments &mine, float *results);
  void multiply(const Lines &lines, const LineFragments &mine, float *results); // likewise
  // This thread's words of four matrices of 8 x 8, whose rows all threads of the subgroup name.
  void readMatrices(const std::byte *row, bool transposed, uint32_t *words);
  // 16 bytes, of which nothing is to be seen before the thread awaits its copies.
  void copyAside(std::byte *to, const std::byte *from) { copies[thread].push_back({to, from}); }
  void awaitCopies();

private:
  static constexpr size_t stackBytes = 256 << 10;
  struct Fiber {
    ucontext_t context;
    std::unique_ptr<char[]> stack;
  };
  // Threads that wait for each other: none begins its next step before all have ended this one.
  struct Meeting {
    unsigned live = 0, step = 0, behind = 0; // behind: in this step
    void leave() {
      if (--behind == 0)
        ++step, behind = live;
    }
  };
  static void start();
  static unsigned stride(unsigned threads) { return threads % 7 ? 7 : 1; }
  Meeting &near(unsigned which) { return subgroups[which / subgroup]; }
  Meeting &ofBlock(unsigned which) { return blocks[which / blockThreads]; }
  bool isHeld(unsigned which) {
    return passed[which] > ofBlock(which).step || passedNear[which] > near(which).step ||
           passedWhole[which] > whole.step;
  }
  void wait(std::vector<unsigned> &places, Meeting &meeting);
  void end(unsigned which);

  Body body = nullptr;
  void *argument = nullptr;
  unsigned count = 0;
  std::vector<Fiber> fibers;
  std::vector<unsigned> passed, passedNear, passedWhole; // per thread: steps of barriers, exchanges, cluster barriers
  std::vector<bool> ended;
  Meeting whole;
  std::vector<Meeting> blocks, subgroups;
  std::vector<uint32_t> values;
  std::vector<const std::byte *> matrixRows[2];                                      // per thread
  std::vector<Fragments> fragments[2];                                               // per thread
  std::vector<LineFragments> lineFragments[2];                                       // likewise
  std::map<unsigned, std::vector<std::pair<std::byte *, const std::byte *>>> copies; // likewise
  ucontext_t scheduler;
  std::mt19937 random{7};
};

// Kernels take any number of 8-byte arguments: those that the function does not take are not looked at.
constexpr size_t mostEmulatedArguments = 128;
// All blocks of a grid, so many at once and then the next. `synchronises`: the kernel has barriers or exchanges, and
// needs fibers.
void runGrid(void *entry, std::span<const uint64_t> arguments, uint64_t blocks, unsigned threads, unsigned cluster,
             bool synchronises);

// Whether an access since the last call of this function was not aligned as its instruction says.
bool takeMisaligned();

} // namespace mortise::codegen::test
