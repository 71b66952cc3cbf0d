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

// The greatest power of two up to 256 that divides the address, as an exponent.
uint32_t alignmentOf(MortiseAddress address) { return std::min(8, std::countr_zero(address | UINT64_C(256))); }

class CublasProduct : public LibraryProduct {
public:
  CublasProduct(const Functions &functions, Handle handle) : functions(functions), handle(handle) {}
  CublasProduct(const CublasProduct &) = delete;
  ~CublasProduct() override {
    for (Layout layout : {first, second, result})
      if (layout)
        functions.layoutDestroy(layout);
    if (description)
      functions.descriptionDestroy(description);
  }
  Result<void> describe(const ProductCall &call, const ProductAddresses &usual, uint64_t mostWorkspace);
  uint64_t workspaceBytes() const override { return workspace; }
  Result<void> enqueue(const ProductAddresses &addresses, MortiseAddress memory, void *stream) override;

private:
  Result<void> describeMatrix(Layout &layout, int32_t dtype, int64_t rows, int64_t columns, int64_t stride,
                              int64_t step);
  Result<void> setBias(MortiseAddress bias);
  Result<HeuristicResult> choose(const ProductAddresses &addresses, uint64_t mostWorkspace);
  static uint32_t keyOf(const ProductAddresses &addresses, bool hasBias) {
    return alignmentOf(addresses.first) | alignmentOf(addresses.second) << 8 | alignmentOf(addresses.result) << 16 |
           (hasBias ? alignmentOf(addresses.bias) << 24 : 0);
  }

  const Functions &functions;
  const Handle handle;
  ProductCall call;
  Description description = nullptr;
  Layout first = nullptr, second = nullptr, result = nullptr;
  uint64_t workspace = 0;

  std::mutex mutex; // of what follows, and of the description's bias
  MortiseAddress lastBias = 0;
  std::map<uint32_t, Algorithm> algorithms; // by alignments
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

Result<void> CublasProduct::describe(const ProductCall &wanted, const ProductAddresses &usual, uint64_t mostWorkspace) {
  call = wanted;
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
  if (auto done = matrix(result, false, call.rows, call.columns, call.resultStride, call.resultStep); !done)
    return done;
  Result<HeuristicResult> chosen = choose(usual, mostWorkspace);
  if (!chosen)
    return chosen.error();
  workspace = chosen->workspaceBytes;
  algorithms[keyOf(usual, call.hasBias)] = chosen->algorithm;
  return {};
}

// Asks for what these alignments allow.
Result<HeuristicResult> CublasProduct::choose(const ProductAddresses &addresses, uint64_t mostWorkspace) {
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
  const auto aligned = [&](PreferenceKey key, MortiseAddress address) {
    if (done)
      done = set(key, uint32_t{1} << alignmentOf(address));
  };
  aligned(AlignmentA, addresses.first);
  aligned(AlignmentB, addresses.second);
  aligned(AlignmentC, addresses.result);
  // The library has no wish for the bias, and reads it like what it writes.
  aligned(AlignmentD, call.hasBias ? addresses.result | addresses.bias : addresses.result);
  if (!done)
    return done.error();
  HeuristicResult best{};
  int count = 0;
  if (auto asked =
          check(functions.heuristic(handle, description, first, second, result, result, preference, 1, &best, &count),
                "cublasLtMatmulAlgoGetHeuristic");
      !asked)
    return asked.error();
  if (auto usable = check(count > 0 ? best.state : NotSupported, "cublasLtMatmulAlgoGetHeuristic"); !usable)
    return usable.error();
  return best;
}

Result<void> CublasProduct::enqueue(const ProductAddresses &addresses, MortiseAddress memory, void *stream) {
  static constexpr float one = 1, zero = 0;
  static constexpr double oneDouble = 1, zeroDouble = 0;
  const bool wide = call.dtype == MORTISE_F64;
  std::unique_lock lock(mutex);
  const auto [place, fresh] = algorithms.try_emplace(keyOf(addresses, call.hasBias));
  if (fresh) {
    Result<HeuristicResult> chosen = choose(addresses, workspace);
    if (!chosen) {
      algorithms.erase(place);
      return chosen.error();
    }
    place->second = chosen->algorithm;
  }
  const Algorithm algorithm = place->second;
  if (!call.hasBias)
    lock.unlock();
  else if (auto set = setBias(addresses.bias); !set)
    return set;
  auto *target = pointer<void>(addresses.result);
  return check(functions.matmul(handle, description, wide ? static_cast<const void *>(&oneDouble) : &one,
                                pointer<void>(addresses.first), first, pointer<void>(addresses.second), second,
                                wide ? static_cast<const void *>(&zeroDouble) : &zero, target, result, target, result,
                                &algorithm, workspace ? pointer<void>(memory) : nullptr, workspace, stream),
               "cublasLtMatmul");
}

// ---- One device

class CublasLibrary : public ProductLibrary {
public:
  CublasLibrary(const Functions &functions, uint64_t mostWorkspace, std::string device)
      : functions(functions), mostWorkspace(mostWorkspace), device(std::move(device)) {}
  Result<std::shared_ptr<LibraryProduct>> prepare(const ProductCall &call, const ProductAddresses &usual) override;

private:
  const Functions functions;
  const uint64_t mostWorkspace;
  const std::string device;
  std::mutex mutex;
  Handle handle = nullptr; // kept, like the device
  std::map<ProductCall, std::weak_ptr<CublasProduct>> known;
  size_t cleanAt = 64;
};

Result<std::shared_ptr<LibraryProduct>> CublasLibrary::prepare(const ProductCall &call, const ProductAddresses &usual) {
  const auto named = [&](const Error &error) { return Error{error.code, device + ": " + error.message}; };
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
  auto made = std::make_shared<CublasProduct>(functions, handle);
  if (auto described = made->describe(call, usual, mostWorkspace); !described)
    return named(described.error());
  place = made;
  return std::shared_ptr<LibraryProduct>(made);
}

} // namespace

Result<std::unique_ptr<ProductLibrary>> openProductLibrary(const std::string &file, int driverVersion,
                                                           uint64_t mostWorkspace, std::string device) {
  if (file == noLibrary)
    return Error{MORTISE_UNSUPPORTED, "the option cublaslt is off: set it to auto for products on this device"};
  Result<Functions> functions = findFunctions(file, driverVersion);
  if (!functions)
    return functions.error();
  return std::unique_ptr<ProductLibrary>(std::make_unique<CublasLibrary>(*functions, mostWorkspace, std::move(device)));
}

} // namespace mortise::cuda
