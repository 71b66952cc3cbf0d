// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#include "cublaslt.hpp"

#include "library.hpp"

#include <mortise/codegen/shared_library.hpp>

#include <algorithm>
#include <atomic>
#include <bit>
#include <iterator>
#include <map>
#include <mutex>

namespace mortise::cuda {

namespace {

using namespace cublaslt;

// X(member, type, exported symbol)
#define MORTISE_CUBLASLT_FUNCTIONS(X)                                                                                  \
  X(create, CreateFn, "cublasLtCreate")                                                                                \
  X(descriptionCreate, DescriptionCreateFn, "cublasLtMatmulDescCreate")                                                \
  X(descriptionDestroy, DescriptionDestroyFn, "cublasLtMatmulDescDestroy")                                             \
  X(descriptionSet, DescriptionSetFn, "cublasLtMatmulDescSetAttribute")                                                \
  X(layoutCreate, LayoutCreateFn, "cublasLtMatrixLayoutCreate")                                                        \
  X(layoutDestroy, LayoutDestroyFn, "cublasLtMatrixLayoutDestroy")                                                     \
  X(layoutSet, LayoutSetFn, "cublasLtMatrixLayoutSetAttribute")                                                        \
  X(preferenceCreate, PreferenceCreateFn, "cublasLtMatmulPreferenceCreate")                                            \
  X(preferenceDestroy, PreferenceDestroyFn, "cublasLtMatmulPreferenceDestroy")                                         \
  X(preferenceSet, PreferenceSetFn, "cublasLtMatmulPreferenceSetAttribute")                                            \
  X(heuristic, HeuristicFn, "cublasLtMatmulAlgoGetHeuristic")                                                          \
  X(matmul, MatmulFn, "cublasLtMatmul")

struct Functions {
#define MORTISE_CUBLASLT_MEMBER(member, type, symbol) type member = nullptr;
  MORTISE_CUBLASLT_FUNCTIONS(MORTISE_CUBLASLT_MEMBER)
#undef MORTISE_CUBLASLT_MEMBER
};

// ---- Opening

// The library's versions that a driver of this version runs, best first.
std::vector<std::string> namesFor(int driverVersion) {
  std::vector<std::string> names;
  if (driverVersion >= 13000)
    names.push_back("libcublasLt.so.13");
  names.push_back("libcublasLt.so.12");
  return names;
}

Result<Functions> findFunctions(const std::string &file, int driverVersion) {
  const std::vector<std::string> names = file == anyLibrary ? namesFor(driverVersion) : std::vector{file};
  Result<void *> handle = codegen::openShared(names);
  if (!handle)
    return Error{handle.error().code,
                 "expected cuBLASLt (" + names[0] + "), found none (" + handle.error().message +
                     "); install it (pip install nvidia-cublas, or the CUDA toolkit) and name the file in "
                     "MORTISE_CUDA_CUBLASLT or its folder in LD_LIBRARY_PATH"};
  Functions functions;
  std::string missing;
#define MORTISE_CUBLASLT_FIND(member, type, symbol) codegen::findShared(*handle, symbol, functions.member, missing);
  MORTISE_CUBLASLT_FUNCTIONS(MORTISE_CUBLASLT_FIND)
#undef MORTISE_CUBLASLT_FIND
  if (!missing.empty())
    return Error{MORTISE_VERSION_MISMATCH, "expected cuBLASLt to have " + missing +
                                               ", found none; install cuBLASLt 12 or 13 (pip install nvidia-cublas)"};
  return functions;
}

// ---- Results

struct Meaning {
  Status status;
  MortiseCode code;
  const char *name, *remedy;
};
constexpr Meaning meanings[] = {
    {NotInitialized, MORTISE_VERSION_MISMATCH, "CUBLAS_STATUS_NOT_INITIALIZED",
     "install a driver that is as new as the library, and look whether memory of the device is free"},
    {AllocFailed, MORTISE_OUT_OF_MEMORY, "CUBLAS_STATUS_ALLOC_FAILED",
     "free memory of the device, use a smaller batch, or end other processes that use the device"},
    {InvalidValue, MORTISE_INTERNAL, "CUBLAS_STATUS_INVALID_VALUE", "please report this"},
    {ArchMismatch, MORTISE_UNSUPPORTED, "CUBLAS_STATUS_ARCH_MISMATCH", "the library does not know this device"},
    {MappingError, MORTISE_INTERNAL, "CUBLAS_STATUS_MAPPING_ERROR", "please report this"},
    {ExecutionFailed, MORTISE_INTERNAL, "CUBLAS_STATUS_EXECUTION_FAILED", "please report this"},
    {InternalError, MORTISE_INTERNAL, "CUBLAS_STATUS_INTERNAL_ERROR", "please report this"},
    {NotSupported, MORTISE_UNSUPPORTED, "CUBLAS_STATUS_NOT_SUPPORTED",
     "the library has no kernel for this product on this device: use other extents or another element type"},
    {LicenseError, MORTISE_UNSUPPORTED, "CUBLAS_STATUS_LICENSE_ERROR", "the library needs a licence"},
};

Result<void> check(Status status, const char *call) {
  if (status == Success)
    return {};
  const auto *found = std::ranges::find(meanings, status, &Meaning::status);
  const std::string number = std::to_string(static_cast<int>(status));
  if (found == std::end(meanings))
    return Error{MORTISE_INTERNAL, std::string(call) + ": failed (" + number + "); please report this"};
  return Error{found->code, std::string(call) + ": failed (" + found->name + ", " + number + "); " + found->remedy};
}

Error noKernel() { return check(NotSupported, "cublasLtMatmulAlgoGetHeuristic").error(); }

// ---- One call

DataType typeOf(int32_t dtype) {
  switch (dtype) {
  case MORTISE_F64:
    return R64F;
  case MORTISE_F16:
    return R16F;
  case MORTISE_BF16:
    return R16BF;
  default:
    return R32F;
  }
}

// The greatest powers of two up to 256 that divide the addresses.
struct Alignments {
  uint32_t first, second, result, bias, addend;
  static Alignments of(const ProductAddresses &addresses, const ProductCall &call) {
    const auto each = [](MortiseAddress address) { return uint32_t{1} << std::countr_zero(address | UINT64_C(256)); };
    const uint32_t result = each(addresses.result);
    return {each(addresses.first), each(addresses.second), result, call.hasBias ? each(addresses.bias) : 256,
            call.hasAddend ? each(addresses.addend) : result};
  }
  bool isAtLeast(const Alignments &other) const {
    return first >= other.first && second >= other.second && result >= other.result && bias >= other.bias &&
           addend >= other.addend;
  }
  bool operator==(const Alignments &) const = default;
};

// On an H100, some kernels round a product of f16 or bf16 before they add the bias. An addend alone needs no proof: in
// the graph, too, the product is rounded before something is added.
bool needsProof(const ProductCall &call) {
  return call.hasBias && (call.resultDtype == MORTISE_F16 || call.resultDtype == MORTISE_BF16);
}

class CublasProduct : public LibraryProduct {
public:
  CublasProduct(const Functions &functions, Handle handle, const ProductCall &call)
      : call(call), functions(functions), handle(handle) {}
  CublasProduct(const CublasProduct &) = delete;
  ~CublasProduct() override {
    for (Layout layout : {first, second, result})
      if (layout)
        functions.layoutDestroy(layout);
    if (description)
      functions.descriptionDestroy(description);
  }
  uint64_t workspaceBytes() const override { return workspace; }
  Result<void> enqueue(const ProductAddresses &addresses, MortiseAddress memory, void *stream) override;

  // ---- Until others have it

  Result<void> describe();
  // What these alignments allow, best first: so many at most, perhaps none.
  Result<std::vector<HeuristicResult>> candidates(const ProductAddresses &addresses, uint64_t mostWorkspace, int most);
  // The first of them. Errors: MORTISE_UNSUPPORTED where there is none.
  Result<HeuristicResult> best(const ProductAddresses &addresses, uint64_t mostWorkspace);
  // Keeps a kernel for these alignments, which tensors have that start at multiples of so many bytes.
  void use(const HeuristicResult &chosen, const ProductAddresses &addresses, uint64_t starts);
  Result<void> multiply(const Algorithm &algorithm, const ProductAddresses &addresses, MortiseAddress memory,
                        uint64_t memoryBytes, void *stream);

  const ProductCall call;

private:
  Result<void> describeMatrix(Layout &layout, int32_t dtype, int64_t rows, int64_t columns, int64_t stride,
                              int64_t step);
  Result<void> setBias(MortiseAddress bias);
  Result<Algorithm> algorithmFor(const ProductAddresses &addresses);

  const Functions &functions;
  const Handle handle;
  Description description = nullptr;
  Layout first = nullptr, second = nullptr, result = nullptr;
  uint64_t workspace = 0;
  uint64_t weakestStarts = 0; // bytes: of the last kernel that was kept

  std::mutex mutex; // of what follows, and of the description's bias
  MortiseAddress lastBias = 0;
  std::vector<std::pair<Alignments, Algorithm>> algorithms;
};

Result<void> CublasProduct::describeMatrix(Layout &layout, int32_t dtype, int64_t rows, int64_t columns, int64_t stride,
                                           int64_t step) {
  if (auto made = check(functions.layoutCreate(&layout, typeOf(dtype), static_cast<uint64_t>(rows),
                                               static_cast<uint64_t>(columns), stride),
                        "cublasLtMatrixLayoutCreate");
      !made)
    return made;
  if (call.batch == 1)
    return {};
  const auto batch = static_cast<int32_t>(call.batch);
  if (auto set =
          check(functions.layoutSet(layout, BatchCount, &batch, sizeof batch), "cublasLtMatrixLayoutSetAttribute");
      !set)
    return set;
  return check(functions.layoutSet(layout, BatchStride, &step, sizeof step), "cublasLtMatrixLayoutSetAttribute");
}

Result<void> CublasProduct::setBias(MortiseAddress bias) {
  if (bias == lastBias)
    return {};
  lastBias = 0;
  const void *address = pointer<void>(bias);
  if (auto set = check(functions.descriptionSet(description, BiasPointer, &address, sizeof address),
                       "cublasLtMatmulDescSetAttribute");
      !set)
    return set;
  lastBias = bias;
  return {};
}

Result<void> CublasProduct::describe() {
  const Compute compute = call.dtype == MORTISE_F64                        ? Compute64F
                          : call.dtype == MORTISE_F32 && call.tensorFloats ? Compute32FFastTf32
                                                                           : Compute32F;
  if (auto made = check(functions.descriptionCreate(&description, compute, call.dtype == MORTISE_F64 ? R64F : R32F),
                        "cublasLtMatmulDescCreate");
      !made)
    return made;
  const auto set = [&](DescriptionKey key, auto value) {
    return check(functions.descriptionSet(description, key, &value, sizeof value), "cublasLtMatmulDescSetAttribute");
  };
  if (auto done = set(TransA, call.firstTransposed ? Transpose : None); !done)
    return done;
  if (auto done = set(TransB, call.secondTransposed ? Transpose : None); !done)
    return done;
  if (call.hasBias)
    if (auto done = set(EpilogueKind, EpilogueBias); !done)
      return done;
  const auto matrix = [&](Layout &layout, bool transposed, int64_t rows, int64_t columns, int64_t stride,
                          int64_t step) {
    return describeMatrix(layout, &layout == &result ? call.resultDtype : call.dtype, transposed ? columns : rows,
                          transposed ? rows : columns, stride, step);
  };
  if (auto done = matrix(first, call.firstTransposed, call.rows, call.terms, call.firstStride, call.firstStep); !done)
    return done;
  if (auto done = matrix(second, call.secondTransposed, call.terms, call.columns, call.secondStride, call.secondStep);
      !done)
    return done;
  return matrix(result, false, call.rows, call.columns, call.resultStride, call.resultStep);
}

Result<std::vector<HeuristicResult>> CublasProduct::candidates(const ProductAddresses &addresses,
                                                               uint64_t mostWorkspace, int most) {
  if (call.hasBias)
    if (auto set = setBias(addresses.bias); !set)
      return set.error();
  Preference preference = nullptr;
  if (auto made = check(functions.preferenceCreate(&preference), "cublasLtMatmulPreferenceCreate"); !made)
    return made.error();
  const std::unique_ptr<void, PreferenceDestroyFn> owned(preference, functions.preferenceDestroy);
  const auto set = [&](PreferenceKey key, auto value) {
    return check(functions.preferenceSet(preference, key, &value, sizeof value),
                 "cublasLtMatmulPreferenceSetAttribute");
  };
  Result<void> done = set(MaxWorkspace, mostWorkspace);
  if (done) // parts of a sum are not rounded to the result's type, and are added in an order of their own
    done = set(ReductionMask, ReduceInCompute);
  const Alignments alignments = Alignments::of(addresses, call);
  // The library has no wish for the bias, and reads it like what it writes.
  for (const auto &[key, alignment] : {std::pair{AlignmentA, alignments.first},
                                       {AlignmentB, alignments.second},
                                       {AlignmentC, alignments.addend},
                                       {AlignmentD, std::min(alignments.result, alignments.bias)}})
    if (done)
      done = set(key, alignment);
  if (!done)
    return done.error();
  std::vector<HeuristicResult> found(static_cast<size_t>(most));
  int count = 0;
  const Status asked =
      functions.heuristic(handle, description, first, second, result, result, preference, most, found.data(), &count);
  if (asked == NotSupported)
    return std::vector<HeuristicResult>();
  if (auto answered = check(asked, "cublasLtMatmulAlgoGetHeuristic"); !answered)
    return answered.error();
  found.resize(static_cast<size_t>(count));
  std::erase_if(found, [](const HeuristicResult &each) { return each.state != Success; });
  return found;
}

Result<HeuristicResult> CublasProduct::best(const ProductAddresses &addresses, uint64_t mostWorkspace) {
  const auto found = candidates(addresses, mostWorkspace, 1);
  if (!found)
    return found.error();
  if (found->empty())
    return noKernel();
  return (*found)[0];
}

void CublasProduct::use(const HeuristicResult &chosen, const ProductAddresses &addresses, uint64_t starts) {
  workspace = std::max<uint64_t>(workspace, chosen.workspaceBytes);
  weakestStarts = starts;
  algorithms.push_back({Alignments::of(addresses, call), chosen.algorithm});
}

// Chosen now for an alignment that is new, where that needs no proof.
Result<Algorithm> CublasProduct::algorithmFor(const ProductAddresses &addresses) {
  const Alignments alignments = Alignments::of(addresses, call);
  const auto known = std::ranges::find_if(algorithms, [&](const auto &each) {
    return needsProof(call) ? alignments.isAtLeast(each.first) : alignments == each.first;
  });
  if (known != algorithms.end())
    return known->second;
  if (needsProof(call))
    return Error{MORTISE_UNSUPPORTED,
                 "expected tensors that start at multiples of " + std::to_string(weakestStarts) +
                     " bytes, found others, for which the library has no kernel that adds a bias of " +
                     dtypeName(call.resultDtype) +
                     " before it rounds: align them, or set the option library_bias to off, so that a generated "
                     "kernel adds it"};
  const Result<HeuristicResult> found = best(addresses, workspace);
  if (!found)
    return found.error();
  algorithms.push_back({alignments, found->algorithm});
  return found->algorithm;
}

Result<void> CublasProduct::enqueue(const ProductAddresses &addresses, MortiseAddress memory, void *stream) {
  std::unique_lock lock(mutex);
  Result<Algorithm> algorithm = algorithmFor(addresses);
  if (!algorithm)
    return algorithm.error();
  if (!call.hasBias)
    lock.unlock();
  return multiply(*algorithm, addresses, memory, workspace, stream);
}

Result<void> CublasProduct::multiply(const Algorithm &algorithm, const ProductAddresses &addresses,
                                     MortiseAddress memory, uint64_t memoryBytes, void *stream) {
  static constexpr float one = 1, zero = 0;
  static constexpr double oneDouble = 1, zeroDouble = 0;
  const bool wide = call.dtype == MORTISE_F64;
  const void *alpha = wide ? static_cast<const void *>(&oneDouble) : &one;
  const void *nothing = wide ? static_cast<const void *>(&zeroDouble) : &zero;
  if (call.hasBias)
    if (auto set = setBias(addresses.bias); !set)
      return set;
  auto *target = pointer<void>(addresses.result);
  const void *addend = call.hasAddend ? pointer<void>(addresses.addend) : target;
  return check(functions.matmul(handle, description, alpha, pointer<void>(addresses.first), first,
                                pointer<void>(addresses.second), second, call.hasAddend ? alpha : nothing, addend,
                                result, target, result, &algorithm, memoryBytes ? pointer<void>(memory) : nullptr,
                                memoryBytes, stream),
               "cublasLtMatmul");
}

// ---- One device

constexpr uint64_t aligned = 256; // bytes, as tensors usually start

class CublasLibrary : public ProductLibrary {
public:
  CublasLibrary(const Functions &functions, uint64_t mostWorkspace, std::string device, BiasProbe probe)
      : functions(functions), mostWorkspace(mostWorkspace), device(std::move(device)), probe(std::move(probe)) {}
  Result<std::shared_ptr<LibraryProduct>> prepare(const ProductCall &call, const ProductAddresses &usual) override;

private:
  struct Kernel { // equal ones round alike, whatever the extents
    Algorithm algorithm;
    int32_t dtype;
    bool firstTransposed, secondTransposed, hasAddend;
    auto operator<=>(const Kernel &) const = default;
  };
  Error named(const Error &error) const { return {error.code, device + ": " + error.message}; }
  Result<void> choose(CublasProduct &product, const ProductAddresses &usual);
  Result<void> chooseProved(CublasProduct &product, const ProductAddresses &usual);
  Result<bool> roundsOnce(CublasProduct &product, const HeuristicResult &candidate);

  const Functions functions;
  const uint64_t mostWorkspace;
  const std::string device;
  const BiasProbe probe;
  std::mutex mutex;        // of what follows
  Handle handle = nullptr; // kept, like the device
  std::map<ProductCall, std::weak_ptr<CublasProduct>> known;
  size_t cleanAt = 64;
  std::map<Kernel, bool> proofs;
};

Result<void> CublasLibrary::choose(CublasProduct &product, const ProductAddresses &usual) {
  const Result<HeuristicResult> found = product.best(usual, mostWorkspace);
  if (!found)
    return named(found.error());
  product.use(*found, usual, aligned);
  return {};
}

Result<bool> CublasLibrary::roundsOnce(CublasProduct &product, const HeuristicResult &candidate) {
  const ProductCall &call = product.call;
  const Kernel kernel{candidate.algorithm, call.dtype, call.firstTransposed, call.secondTransposed, call.hasAddend};
  if (const auto known = proofs.find(kernel); known != proofs.end())
    return known->second;
  const Result<bool> proved = probe(
      call, candidate.workspaceBytes, [&](const ProductAddresses &addresses, MortiseAddress memory, void *stream) {
        return product.multiply(candidate.algorithm, addresses, memory, candidate.workspaceBytes, stream);
      });
  if (proved)
    proofs[kernel] = *proved;
  return proved;
}

// Calls choose no other kernels later, since a proof waits for the device: they are chosen here for tensors that start
// at multiples of 256 bytes, of 16, which the fastest kernels want, and anywhere.
Result<void> CublasLibrary::chooseProved(CublasProduct &product, const ProductAddresses &usual) {
  constexpr int mostCandidates = 16;
  for (const uint64_t starts : {aligned, uint64_t{16}, static_cast<uint64_t>(dtypeBits(product.call.dtype)) / 8}) {
    const ProductAddresses addresses{usual.first | starts, usual.second | starts, usual.result | starts,
                                     usual.bias | starts, usual.addend | starts};
    const bool isUsual = starts == aligned;
    const auto found =
        product.candidates(addresses, isUsual ? mostWorkspace : product.workspaceBytes(), mostCandidates);
    if (!found)
      return named(found.error());
    if (isUsual && found->empty())
      return named(noKernel());
    bool isProved = false;
    for (size_t i = 0; i < found->size() && !isProved; ++i) {
      const Result<bool> proved = roundsOnce(product, (*found)[i]);
      if (!proved)
        return proved.error();
      isProved = *proved;
      if (isProved)
        product.use((*found)[i], addresses, starts);
    }
    if (isUsual && !isProved) // where others have none, calls with such addresses say so
      return named({MORTISE_UNSUPPORTED,
                    std::string("expected a kernel of the library that adds a bias of ") +
                        dtypeName(product.call.resultDtype) + " before it rounds, found none among the " +
                        std::to_string(found->size()) +
                        " for this product: set the option library_bias to off, so that a generated kernel adds it"});
  }
  return {};
}

Result<std::shared_ptr<LibraryProduct>> CublasLibrary::prepare(const ProductCall &call, const ProductAddresses &usual) {
  std::lock_guard lock(mutex);
  if (!handle)
    if (auto made = check(functions.create(&handle), "cublasLtCreate"); !made) {
      handle = nullptr;
      return named(made.error());
    }
  if (known.size() >= cleanAt) {
    std::erase_if(known, [](const auto &each) { return each.second.expired(); });
    cleanAt = 2 * known.size() + 64;
  }
  std::weak_ptr<CublasProduct> &place = known[call];
  if (std::shared_ptr<CublasProduct> there = place.lock())
    return std::shared_ptr<LibraryProduct>(there);
  auto made = std::make_shared<CublasProduct>(functions, handle, call);
  if (auto described = made->describe(); !described)
    return named(described.error());
  if (auto chosen = needsProof(call) ? chooseProved(*made, usual) : choose(*made, usual); !chosen)
    return chosen.error();
  place = made;
  return std::shared_ptr<LibraryProduct>(made);
}

} // namespace

Result<std::unique_ptr<ProductLibrary>> openProductLibrary(const std::string &file, int driverVersion,
                                                           uint64_t mostWorkspace, std::string device,
                                                           BiasProbe probe) {
  if (file == noLibrary)
    return Error{MORTISE_UNSUPPORTED, "the option cublaslt is off: set it to auto for products on this device"};
  Result<Functions> functions = findFunctions(file, driverVersion);
  if (!functions)
    return functions.error();
  return std::unique_ptr<ProductLibrary>(
      std::make_unique<CublasLibrary>(*functions, mostWorkspace, std::move(device), std::move(probe)));
}

} // namespace mortise::cuda
