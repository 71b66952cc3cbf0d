// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// Kernels for GPUs as plain data: groups of nodes (codegen.hpp) -> code, launch extents and a table of arguments. What
// loads and launches them is the plugin.
#pragma once

#include <mortise/codegen/attention.hpp>
#include <mortise/codegen/codegen.hpp>

namespace mortise::codegen {

class SimtBackend;

// What a device with Vulkan has beyond what all must have for these kernels (plugins/vulkan/discovery.cpp).
struct VulkanFeatures {
  struct Floats { // what the driver promises on request: denormals, signed zeros with infinities and NaN, rounding to
                  // nearest even
    bool denormals = false, specials = false, nearest = false;
  } f32, f64;
  bool doubles = false;        // arithmetic of f64
  bool exactQuotients = false; // division and square roots are rounded correctly, which Vulkan does not ask for
  // Comparisons of f32 and its conversions to and from f64 take subnormal numbers for 0, though sums and products have
  // them.
  bool flushesSubnormals = false;
  // Positions of 64 bits are computed right where windows or sorted updates need them.
  bool widePositions = true;
  // 2^x, 1 / x and x * y + z are as exact as Approximations asks for, and quotients and square roots of f64 are rounded
  // correctly, which Vulkan does not promise.
  bool exactFunctions = false;
  // Subgroups of 32 multiply matrices of 16 x 16 f16 or bf16 as sums of f32 (VK_KHR_cooperative_matrix).
  bool halfMatrices = false, brainMatrices = false;
  bool oneNan = false; // every NaN that arithmetic of f32 makes is 0x7fffffff
  // Threads that exchange values by themselves, which blocks are made of without rest, so that a thread's number
  // follows from those of its subgroup and in it; 0: exchanges go through the block's memory.
  unsigned subgroup = 0;
  static constexpr unsigned mostSubgroup = 64; // which divide all blocks
  // A grid has rows of so many blocks, the last of which may be shorter: block (x, y) is number x + y * gridRow. Every
  // device has grids of 65,535 in each direction, and not all have more.
  static constexpr unsigned gridRow = 1 << 15;
  unsigned sharedBytes = 16384; // of a block's memory
  unsigned argumentBytes = 128; // that a launch passes by itself; more arguments lie in a table
  unsigned blockThreads = 256;
};

// How the threads of a subgroup hold the matrices of f16 or bf16 that they multiply (lhs and rhs), and their products.
struct MatrixLayout {
  // The rows of lhs and of products, or the columns of rhs and of products: lines.
  struct Edge {
    unsigned lines = 0; // of a matrix
    // Thread t reads numbers of line t % lines, from term t / lines * piece on.
    unsigned piece = 0;
    unsigned products = 1; // one behind the other along the terms, that what a thread reads at once is for
    // Thread t has numbers of so many lines of a product, each `apart` behind the one before (`lines` where it is one
    // of each product). Threads have such sets of lines by turns: t / every % sets() is the number of the set.
    unsigned results = 0, apart = 0, every = 0;
    unsigned sets() const { return lines / results; }
    unsigned setStart() const { return apart == 1 ? results : 1; } // from the first line of a set to that of the next
    auto operator<=>(const Edge &) const = default;
  } rows, columns;
  unsigned terms = 0;
  // All threads name a matrix's first number when they read it, and only the machine knows who has what. What a thread
  // has of products is what it reads of them in the block's memory.
  bool isOpaque = false;
  bool hasBrain = true; // matrices of bf16, and not only of f16
  unsigned resultsPerThread() const { return rows.results * columns.results; }
  bool takes(int32_t dtype) const { return dtype == MORTISE_F16 || (dtype == MORTISE_BF16 && hasBrain); }
  auto operator<=>(const MatrixLayout &) const = default;
};
// PTX's mma.m16n8k16, whose factors ldmatrix reads. The kernels of attention have only this one.
inline constexpr MatrixLayout mmaLayout{{16, 8, 1, 2, 8, 4}, {8, 8, 2, 2, 1, 1}, 16};

// A GPU, as far as schedules and code generators must know it.
struct SimtTarget {
  std::string triple;           // "nvptx64-nvidia-cuda"
  std::string chip;             // "sm_90"
  std::string features;         // "+ptx78"
  unsigned subgroup = 32;       // threads that exchange values without shared memory
  unsigned blockThreads = 1024; // at most
  unsigned compileThreads = 1;  // that compile kernels
  // Threads that the whole device has in flight, as far as schedules split work until they are enough. A guess too high
  // costs little; this one is for the largest GPUs.
  unsigned deviceThreads = 132 * 2048;
  unsigned sharedBytes = 16384;         // of a block's memory, at most; every device has so many
  std::optional<MatrixLayout> matrices; // where subgroups multiply some
  unsigned cluster = 1;                 // blocks that run at once and read each other's memory, at most
  // A GPU of NVIDIA's by its compute capability, 7.5 or newer. What is newer than any chip that the code generator
  // knows gets the code of the newest one, which its driver accepts. Errors: MORTISE_UNSUPPORTED.
  static Result<SimtTarget> cuda(int major, int minor, unsigned compileThreads);
  // A GPU of AMD's by its architecture, as LLVM and drivers name it: "gfx942". Errors: MORTISE_UNSUPPORTED.
  static Result<SimtTarget> rocm(std::string_view architecture, unsigned compileThreads);
  // Errors: MORTISE_UNSUPPORTED, for blocks that are smaller than what schedules ask for.
  static Result<SimtTarget> vulkan(const VulkanFeatures &features, unsigned compileThreads);
  // Makes what generates the code. From the library of the target, so that a plugin links only its own.
  std::function<Result<std::unique_ptr<SimtBackend>>(const SimtTarget &)> backend;
};

// What `fuse` has to know of a GPU.
FuseTarget simtFuseTarget();

// `yes` when kernels of a GPU can compute the node; otherwise the reason for a refusal.
Support supportsSimt(const MortiseNode &node);

// A convolution that a plugin has made, with this attribute (an integer, 1), of tensors with channels last: x [N,
// spatial..., C], weight [O, window..., C], result [N, spatial..., O], which may be of f32 for operands of f16 and
// bf16. It has one group.
inline constexpr const char *channelsLastAttribute = "codegen.channels_last";

// An argument of a kernel, 8 bytes each: the address of an input or output of the group, of scratch memory or of a
// constant, the value of a symbol of the graph, or one of the numbers that come with a launch of an attention. A
// `Stride` among those counts bytes between addresses: it decides about their alignment, too.
struct SimtArgument {
  enum Kind : uint8_t { Input, Output, Scratch, Symbol, Constant, Number, Stride } kind = Input;
  // In Group::inputs, Group::outputs, MortiseGraph::symbols, SimtFunction::constants or AttentionCall::numbers. The
  // inputs of an attention are its operands.
  uint32_t index = 0;
};

// A kernel. Its one-dimensional grid has `blocks` blocks of `threads` threads; with 0 blocks there is nothing to do.
struct SimtLaunch {
  std::string entry; // its name in the code
  Dim blocks = 1;    // those of an attention come with its launch
  unsigned threads = 1;
  unsigned sharedBytes = 0; // of a block's memory that the launch has to ask for, beyond what the code declares
  // The kernel waits itself until those before it have ended, and may be launched while the last one runs.
  bool awaits = false;
  Dim iterations = 0; // of all loops of a thread together, at most; there are drivers that end them
};

// The kernels of a group, to be launched in order with the same arguments; each begins when the one before has ended.
// The scratch memory has 256-byte alignment, and is the function's own from the first to the last. Outputs overlap
// nothing else, except as Group::inPlace and `over` allow (Function::over). Constants of the graph are part of the
// code, or of `constants`. One function serves all values of the graph's symbols.
struct SimtFunction {
  std::vector<SimtLaunch> launches;
  // Of all of them: PTX, as text, SPIR-V, as words, or a code object of AMD's. Addresses are aligned to the element
  // types.
  std::string code;
  // The same for addresses that are multiples of `alignment` bytes, all of them; empty where that makes no difference.
  std::string alignedCode;
  unsigned alignment = 1;
  std::vector<SimtArgument> arguments;
  std::vector<std::string> constants; // bytes that have to lie in memory, with 64-byte alignment
  bool hasTable = false; // a launch passes the address of a table of the arguments, which are more than it can pass
  Dim scratchBytes = 0;
  Dim bytes, flops; // of one run
  std::vector<std::vector<uint32_t>> over;
  std::string key;    // that of no other function for the target
  std::string native; // what a driver made of the code in an earlier process, as the plugin saved it; or empty
};

// Functions as bytes, so that a later process need not compile them. Only the build that wrote them reads them, for an
// equal target.
//
// Appends one. `native`: what becomes SimtFunction::native.
void saveFunction(std::vector<std::byte> &bytes, const SimtFunction &function, const std::string &native = {});
// Errors: MORTISE_CORRUPT.
Result<std::vector<std::shared_ptr<const SimtFunction>>> loadFunctions(std::span<const std::byte> bytes);

// Makes kernels. Thread safe.
class SimtCompiler {
public:
  // Errors: MORTISE_UNSUPPORTED, when the code generator does not know the target.
  static Result<std::unique_ptr<SimtCompiler>> create(const SimtTarget &target);
  // One function per group. Groups with the same ops, shapes, strides and symbol ranges are compiled once, also across
  // calls, and share the object. Compilation uses up to SimtTarget::compileThreads threads.
  Result<std::vector<std::shared_ptr<const SimtFunction>>> compile(const MortiseGraph &graph,
                                                                   std::span<const Group> groups);
  // What compile() returns for their groups from now on, but where it has compiled them already.
  void add(std::span<const std::shared_ptr<const SimtFunction>> functions);
  // Takes back those of add() that a driver has refused.
  void remove(std::span<const std::shared_ptr<const SimtFunction>> functions);
  // Per group, the threads of its blocks if it can be a part of a bundle, with others of as many threads, and leaves
  // the device room for them; 0: not so.
  Result<std::vector<unsigned>> sharableThreads(const MortiseGraph &graph, std::span<const Group> groups);
  // One function for each code. Errors: MORTISE_UNSUPPORTED, for a target without matrices.
  Result<std::shared_ptr<const SimtFunction>> compile(const AttentionCode &code);
  ~SimtCompiler();

private:
  struct Impl;
  explicit SimtCompiler(std::unique_ptr<Impl> impl);
  std::unique_ptr<Impl> impl;
};

} // namespace mortise::codegen
