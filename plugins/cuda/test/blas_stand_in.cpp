// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// cuBLASLt without a GPU, for tests: products of the process's memory, computed when they are queued, as the
// documentation describes them. What the library leaves undefined, such as columns that overlap, addresses that are
// less aligned than was promised or a workspace that is too small, is an error here.
#include "blas_stand_in.hpp"
#include "../cublaslt.hpp"
#include "numbers.hpp"

#include <algorithm>
#include <cstdlib>
#include <cstring>
#include <map>
#include <mutex>
#include <set>
#include <sstream>
#include <string>
#include <vector>

using namespace mortise::cuda::cublaslt;
using namespace mortise::cuda::stand_in;

namespace {

struct Matrix {
  DataType type;
  int64_t rows, columns, stride;
  int32_t batch = 1;
  int64_t step = 0;
};
struct Operations {
  Compute compute;
  DataType scale;
  int32_t transA = None, transB = None;
  uint32_t epilogue = EpilogueDefault;
  const void *bias = nullptr;
};
struct Wishes {
  uint64_t workspace = 0;
  uint32_t reductions = 7;
  uint32_t alignments[4] = {256, 256, 256, 256}; // A, B, C, D
};
enum class Rounding : uint32_t { // besides at the end
  Once,
  Early,  // before anything is added
  Between // behind the addend, where there is one
};
struct Chosen { // lies in an Algorithm
  uint64_t workspace;
  uint32_t alignments[4];
  uint32_t number; // among those that the heuristic finds
  Rounding rounding;
};
static_assert(sizeof(Chosen) <= sizeof(Algorithm));

struct StandIn {
  std::recursive_mutex mutex;
  std::vector<std::string> calls;
  std::map<std::string, int> counts;
  std::string failing;
  int failingCall = 0;
  Status status = Success;
  uint64_t workspace = 1000;
  bool none = false;
  uint32_t least = 1, early = 0, between = 0;
  std::set<Matrix *> layouts;
  std::set<Operations *> descriptions;
  std::set<Wishes *> preferences;
  std::set<void *> handles;
  StandInQueue queue = nullptr;

  void configure(const std::string &settings) {
    calls.clear();
    counts.clear();
    failing.clear();
    none = false;
    least = 1;
    early = between = 0;
    workspace = 1000;
    std::istringstream words(settings);
    for (std::string word; words >> word;) {
      const size_t equals = word.find('=');
      const std::string key = word.substr(0, equals), value = equals == word.npos ? "" : word.substr(equals + 1);
      if (key == "none") {
        none = true;
      } else if (key == "least") {
        least = static_cast<uint32_t>(std::atoi(value.c_str()));
      } else if (key == "early") {
        early = static_cast<uint32_t>(std::atoi(value.c_str()));
      } else if (key == "between") {
        between = static_cast<uint32_t>(std::atoi(value.c_str()));
      } else if (key == "workspace") {
        workspace = std::strtoull(value.c_str(), nullptr, 10);
      } else if (key == "fail") {
        const size_t first = value.find(':'), second = value.find(':', first + 1);
        failing = value.substr(0, first);
        failingCall = std::atoi(value.c_str() + first + 1);
        status = static_cast<Status>(std::atoi(value.c_str() + second + 1));
      } else {
        std::abort(); // the test is faulty
      }
    }
  }
  Status enter(const char *function, const std::string &details = "") {
    calls.push_back(function + (details.empty() ? "" : " " + details));
    return ++counts[function] == failingCall && failing == function ? status : Success;
  }
  Status wrong(const std::string &what) {
    calls.back() += " WRONG: " + what;
    return InvalidValue;
  }
};

StandIn &standIn() {
  static auto *made = new StandIn;
  return *made;
}

#define ENTER(...)                                                                                                     \
  std::lock_guard lock(standIn().mutex);                                                                               \
  if (const Status status = standIn().enter(__VA_ARGS__); status != Success)                                           \
  return status

template <typename T, typename Set> T *known(const Set &set, void *handle) {
  auto *object = static_cast<T *>(handle);
  return set.contains(object) ? object : nullptr;
}

template <typename T> bool take(T &member, const void *value, size_t bytes) {
  if (bytes != sizeof member)
    return false;
  std::memcpy(&member, value, bytes);
  return true;
}

Number numberOf(DataType type) {
  return type == R64F ? Number::F64 : type == R32F ? Number::F32 : type == R16F ? Number::F16 : Number::BF16;
}
double load(DataType type, const void *memory, int64_t at) { return load(numberOf(type), memory, at); }
void store(DataType type, void *memory, int64_t at, double value) { store(numberOf(type), memory, at, value); }

uintptr_t addressOf(const void *address) { return reinterpret_cast<uintptr_t>(address); }
bool isAligned(const void *address, uint64_t alignment) { return addressOf(address) % alignment == 0; }
uint64_t bytesOf(const Matrix &matrix) {
  const int64_t count = (matrix.batch - 1) * matrix.step + (matrix.columns - 1) * matrix.stride + matrix.rows;
  return static_cast<uint64_t>(count) * (matrix.type == R64F ? 8 : matrix.type == R32F ? 4 : 2);
}

std::string text(const Operations &operations, const Matrix &a, const Matrix &b, const Matrix &d, bool hasAddend) {
  const bool turned = operations.transA == Transpose;
  return std::string(turned ? "T" : "N") + (operations.transB == Transpose ? "T" : "N") + " " + std::to_string(d.rows) +
         "x" + std::to_string(turned ? a.rows : a.columns) + "x" + std::to_string(d.columns) +
         " batch=" + std::to_string(d.batch) + " steps=" + std::to_string(a.step) + "," + std::to_string(b.step) + "," +
         std::to_string(d.step) + (hasAddend ? " addend" : "") + (operations.epilogue == EpilogueBias ? " bias" : "") +
         (operations.compute == Compute32FFastTf32 ? " tf32" : "") + (a.type != d.type ? " widened" : "");
}

// What the documentation asks of one call; "" where it is right.
std::string complaint(const Operations &operations, const Matrix &a, const Matrix &b, const Matrix &c,
                      const Matrix &d) {
  const int64_t rows = operations.transA ? a.columns : a.rows, terms = operations.transA ? a.rows : a.columns;
  const int64_t terms2 = operations.transB ? b.columns : b.rows, columns = operations.transB ? b.rows : b.columns;
  if (rows != d.rows || columns != d.columns || terms != terms2)
    return "extents";
  if (std::memcmp(&c, &d, sizeof c) != 0)
    return "C is not D";
  for (const Matrix *matrix : {&a, &b, &d}) {
    if (matrix->rows < 1 || matrix->columns < 1 || matrix->stride < matrix->rows)
      return "columns overlap";
    if (matrix->batch != d.batch || matrix->step < 0)
      return "batches";
  }
  const bool isWidened = d.type == R32F && (a.type == R16F || a.type == R16BF); // stored as it was summed
  if (a.type != b.type || (a.type != d.type && !isWidened))
    return "types";
  if (d.batch > 1 && d.step == 0)
    return "results overlap";
  if (operations.compute != (d.type == R64F ? Compute64F : Compute32F) &&
      !(operations.compute == Compute32FFastTf32 && a.type == R32F))
    return "compute type";
  if (operations.scale != (d.type == R64F ? R64F : R32F))
    return "scale type";
  if (operations.epilogue != EpilogueDefault && (d.type == R64F || isWidened))
    return "epilogue";
  if (operations.epilogue == EpilogueBias && !operations.bias)
    return "no bias";
  return "";
}

void multiply(const Operations &operations, const void *a, const Matrix &aLayout, const void *b, const Matrix &bLayout,
              const void *addend, void *d, const Matrix &dLayout, Rounding rounding) {
  const auto rounded = [&](double sum, int64_t at) {
    store(dLayout.type, d, at, sum);
    return load(dLayout.type, d, at);
  };
  const int64_t terms = operations.transA ? aLayout.rows : aLayout.columns;
  for (int32_t batch = 0; batch < dLayout.batch; ++batch)
    for (int64_t column = 0; column < dLayout.columns; ++column)
      for (int64_t row = 0; row < dLayout.rows; ++row) {
        double sum = 0;
        for (int64_t term = 0; term < terms; ++term) {
          const int64_t atA = operations.transA ? term + row * aLayout.stride : row + term * aLayout.stride;
          const int64_t atB = operations.transB ? column + term * bLayout.stride : term + column * bLayout.stride;
          sum += load(aLayout.type, a, batch * aLayout.step + atA) * load(bLayout.type, b, batch * bLayout.step + atB);
        }
        const int64_t at = batch * dLayout.step + row + column * dLayout.stride;
        if (rounding == Rounding::Early)
          sum = rounded(sum, at);
        if (addend) {
          sum += load(dLayout.type, addend, at);
          if (rounding == Rounding::Between)
            sum = rounded(sum, at);
        }
        if (operations.epilogue == EpilogueBias)
          sum += load(dLayout.type, operations.bias, row);
        store(dLayout.type, d, at, sum);
      }
}

// A product as it was queued.
struct Queued {
  Operations operations;
  Matrix aLayout, bLayout, dLayout;
  const void *a, *b, *addend;
  void *d, *workspace;
  size_t workspaceBytes;
  Rounding rounding;
  void run() const {
    if (workspaceBytes)
      std::memset(workspace, 0xff, workspaceBytes); // nothing else is there meanwhile
    multiply(operations, a, aLayout, b, bLayout, addend, d, dLayout, rounding);
  }
};

} // namespace

#pragma GCC visibility push(default)
extern "C" {

void blasStandInConfigure(const char *settings) {
  std::lock_guard lock(standIn().mutex);
  standIn().configure(settings);
}
const char *blasStandInReport() {
  static thread_local std::string report;
  std::lock_guard lock(standIn().mutex);
  report = "descriptions=" + std::to_string(standIn().descriptions.size()) +
           " layouts=" + std::to_string(standIn().layouts.size()) +
           " preferences=" + std::to_string(standIn().preferences.size());
  for (const std::string &call : standIn().calls)
    report += "\n" + call;
  return report.c_str();
}

Status cublasLtCreate(Handle *handle) {
  ENTER("cublasLtCreate");
  *handle = new int;
  standIn().handles.insert(*handle);
  return Success;
}

Status cublasLtMatmulDescCreate(Description *description, Compute compute, DataType scale) {
  ENTER("cublasLtMatmulDescCreate");
  auto *made = new Operations{compute, scale};
  standIn().descriptions.insert(made);
  *description = made;
  return Success;
}
Status cublasLtMatmulDescDestroy(Description description) {
  ENTER("cublasLtMatmulDescDestroy");
  auto *operations = known<Operations>(standIn().descriptions, description);
  if (!operations)
    return standIn().wrong("no description");
  standIn().descriptions.erase(operations);
  delete operations;
  return Success;
}
Status cublasLtMatmulDescSetAttribute(Description description, DescriptionKey key, const void *value, size_t bytes) {
  ENTER("cublasLtMatmulDescSetAttribute");
  auto *operations = known<Operations>(standIn().descriptions, description);
  if (!operations)
    return standIn().wrong("no description");
  bool taken = false;
  switch (key) {
  case TransA:
    taken = take(operations->transA, value, bytes);
    break;
  case TransB:
    taken = take(operations->transB, value, bytes);
    break;
  case EpilogueKind:
    taken = take(operations->epilogue, value, bytes);
    break;
  case BiasPointer:
    taken = take(operations->bias, value, bytes);
    break;
  }
  return taken ? Success : standIn().wrong("attribute");
}

Status cublasLtMatrixLayoutCreate(Layout *layout, DataType type, uint64_t rows, uint64_t columns, int64_t stride) {
  ENTER("cublasLtMatrixLayoutCreate");
  auto *made = new Matrix{type, static_cast<int64_t>(rows), static_cast<int64_t>(columns), stride};
  standIn().layouts.insert(made);
  *layout = made;
  return Success;
}
Status cublasLtMatrixLayoutDestroy(Layout layout) {
  ENTER("cublasLtMatrixLayoutDestroy");
  auto *matrix = known<Matrix>(standIn().layouts, layout);
  if (!matrix)
    return standIn().wrong("no layout");
  standIn().layouts.erase(matrix);
  delete matrix;
  return Success;
}
Status cublasLtMatrixLayoutSetAttribute(Layout layout, LayoutKey key, const void *value, size_t bytes) {
  ENTER("cublasLtMatrixLayoutSetAttribute");
  auto *matrix = known<Matrix>(standIn().layouts, layout);
  if (!matrix)
    return standIn().wrong("no layout");
  const bool taken = key == BatchCount    ? take(matrix->batch, value, bytes)
                     : key == BatchStride ? take(matrix->step, value, bytes)
                                          : false;
  return taken ? Success : standIn().wrong("attribute");
}

Status cublasLtMatmulPreferenceCreate(Preference *preference) {
  ENTER("cublasLtMatmulPreferenceCreate");
  auto *made = new Wishes;
  standIn().preferences.insert(made);
  *preference = made;
  return Success;
}
Status cublasLtMatmulPreferenceDestroy(Preference preference) {
  ENTER("cublasLtMatmulPreferenceDestroy");
  auto *wishes = known<Wishes>(standIn().preferences, preference);
  if (!wishes)
    return standIn().wrong("no preference");
  standIn().preferences.erase(wishes);
  delete wishes;
  return Success;
}
Status cublasLtMatmulPreferenceSetAttribute(Preference preference, PreferenceKey key, const void *value, size_t bytes) {
  ENTER("cublasLtMatmulPreferenceSetAttribute");
  auto *wishes = known<Wishes>(standIn().preferences, preference);
  if (!wishes)
    return standIn().wrong("no preference");
  const bool taken = key == MaxWorkspace    ? take(wishes->workspace, value, bytes)
                     : key == ReductionMask ? take(wishes->reductions, value, bytes)
                                            : take(wishes->alignments[key - AlignmentA], value, bytes);
  return taken ? Success : standIn().wrong("attribute");
}

Status cublasLtMatmulAlgoGetHeuristic(Handle handle, Description description, Layout a, Layout b, Layout c, Layout d,
                                      Preference preference, int wanted, HeuristicResult *results, int *found) {
  ENTER("cublasLtMatmulAlgoGetHeuristic");
  const auto *operations = known<Operations>(standIn().descriptions, description);
  const auto *wishes = known<Wishes>(standIn().preferences, preference);
  const Matrix *layouts[4] = {};
  for (size_t i = 0; Layout layout : {a, b, c, d})
    if (!(layouts[i++] = known<Matrix>(standIn().layouts, layout)))
      return standIn().wrong("no layout");
  if (!standIn().handles.contains(handle) || !operations || !wishes || wanted < 1)
    return standIn().wrong("handle");
  if (const std::string what = complaint(*operations, *layouts[0], *layouts[1], *layouts[2], *layouts[3]);
      !what.empty())
    return standIn().wrong(what);
  if (wishes->reductions != ReduceInCompute)
    return standIn().wrong("sums may be rounded between parts");
  *found = 0;
  if (standIn().none || std::ranges::any_of(wishes->alignments, [](uint32_t each) { return each < standIn().least; }))
    return NotSupported;
  for (uint32_t number = 0; number < static_cast<uint32_t>(wanted); ++number) {
    const Rounding rounding = number < standIn().early     ? Rounding::Early
                              : number < standIn().between ? Rounding::Between
                                                           : Rounding::Once;
    Chosen chosen{std::min(wishes->workspace, standIn().workspace), {}, number, rounding};
    std::memcpy(chosen.alignments, wishes->alignments, sizeof chosen.alignments);
    results[number] = {};
    std::memcpy(results[number].algorithm.data, &chosen, sizeof chosen);
    results[number].workspaceBytes = chosen.workspace;
  }
  *found = wanted;
  return Success;
}

Status cublasLtMatmul(Handle handle, Description description, const void *alpha, const void *a, Layout aLayout,
                      const void *b, Layout bLayout, const void *beta, const void *c, Layout cLayout, void *d,
                      Layout dLayout, const Algorithm *algorithm, void *workspace, size_t workspaceBytes,
                      Stream stream) {
  const auto *operations = known<Operations>(standIn().descriptions, description);
  const Matrix *layouts[4] = {};
  for (size_t i = 0; Layout layout : {aLayout, bLayout, cLayout, dLayout})
    layouts[i++] = known<Matrix>(standIn().layouts, layout);
  const bool there = operations && layouts[0] && layouts[1] && layouts[2] && layouts[3];
  Chosen chosen{};
  if (algorithm)
    std::memcpy(&chosen, algorithm->data, sizeof chosen);
  ENTER("cublasLtMatmul", there ? text(*operations, *layouts[0], *layouts[1], *layouts[3], c != d) +
                                      (chosen.rounding == Rounding::Early     ? " early"
                                       : chosen.rounding == Rounding::Between ? " between"
                                                                              : "")
                                : "");
  if (!there || !standIn().handles.contains(handle) || !algorithm)
    return standIn().wrong("handle");
  if (const std::string what = complaint(*operations, *layouts[0], *layouts[1], *layouts[2], *layouts[3]);
      !what.empty())
    return standIn().wrong(what);
  if (load(operations->scale, alpha, 0) != 1 || load(operations->scale, beta, 0) != (c == d ? 0 : 1))
    return standIn().wrong("scales");
  if (const uint64_t bytes = bytesOf(*layouts[3]);
      c != d && addressOf(c) < addressOf(d) + bytes && addressOf(d) < addressOf(c) + bytes)
    return standIn().wrong("C overlaps D");
  for (size_t i = 0; const void *address : {a, b, c, static_cast<const void *>(d)})
    if (!isAligned(address, chosen.alignments[i++]))
      return standIn().wrong("alignment");
  if (operations->bias && !isAligned(operations->bias, chosen.alignments[3]))
    return standIn().wrong("alignment of the bias");
  if (workspaceBytes < chosen.workspace || (chosen.workspace && (!workspace || !isAligned(workspace, 256))))
    return standIn().wrong("workspace");
  const Queued queued{*operations,
                      *layouts[0],
                      *layouts[1],
                      *layouts[3],
                      a,
                      b,
                      c == d ? nullptr : c,
                      d,
                      workspace,
                      chosen.workspace ? workspaceBytes : 0,
                      chosen.rounding};
  if (!standIn().queue) {
    queued.run();
    return Success;
  }
  std::ostringstream line;
  line << "product " << a << " " << b << " " << c << " " << d << " " << operations->bias << " " << workspace;
  standIn().queue(
      stream, line.str().c_str(), [](void *context) { static_cast<Queued *>(context)->run(); },
      [](void *context) { delete static_cast<Queued *>(context); }, new Queued(queued));
  return Success;
}

void blasStandInUse(StandInQueue queue) {
  std::lock_guard lock(standIn().mutex);
  standIn().queue = queue;
}
}
#pragma GCC visibility pop
