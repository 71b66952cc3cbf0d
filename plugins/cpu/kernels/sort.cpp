// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// sort, top_k, cummax and cummin: plain loops over the lines along an axis. Elements become unsigned keys in the order
// that the language gives them (a NaN above all and equal to another, -0 equal to +0), so that all types share the
// rest.
#include "../claims.hpp"
#include "../device.hpp"
#include "../step_builder.hpp"

#include <mortise/plugin.hpp>

#include <algorithm>

namespace mortise::cpu {

namespace {
enum class Kind { Sort, Largest, Smallest }; // the latter two: running ones

// Lines of a strided operand and of the dense results.
struct Lines {
  Kind kind = Kind::Sort;
  bool descending = false;
  int64_t extent = 0, stride = 0;     // along the axis, in the operand
  int64_t taken = 0;                  // elements of a line that are results
  int64_t count = 0, inner = 1;       // lines; neighbours along the axis are that far apart in the results
  std::vector<int64_t> dims, strides; // of the other dimensions, in the operand
  int64_t parts = 1;                  // each with scratch memory of its own
};

struct Entry {
  uint64_t key;
  int64_t index;
};

template <typename Bits, int mantissa> struct FloatKey {
  using Stored = Bits;
  // nanLow: a NaN is below all instead.
  static uint64_t of(Bits bits, bool nanLow) {
    constexpr Bits sign = Bits(1) << (sizeof(Bits) * 8 - 1);
    constexpr Bits infinity = static_cast<Bits>((sign >> mantissa) - 1) << mantissa;
    Bits magnitude = static_cast<Bits>(bits & static_cast<Bits>(~sign));
    if (magnitude > infinity)
      return nanLow ? 0 : UINT64_MAX;
    if (magnitude == 0)
      return sign;
    return static_cast<Bits>(bits & sign ? ~bits : bits | sign);
  }
};
template <typename Integer> struct IntegerKey {
  using Stored = Integer;
  static uint64_t of(Integer value, bool) {
    return static_cast<uint64_t>(static_cast<int64_t>(value)) ^ (std::is_signed_v<Integer> ? UINT64_C(1) << 63 : 0);
  }
};

// The first `taken` of a stable sort.
template <typename Key>
void sortLine(const Lines &lines, const typename Key::Stored *from, typename Key::Stored *values, int64_t *indices,
              Entry *scratch) {
  for (int64_t i = 0; i < lines.extent; ++i) {
    uint64_t key = Key::of(from[i * lines.stride], false);
    scratch[i] = {lines.descending ? ~key : key, i};
  }
  auto before = [](const Entry &x, const Entry &y) { return x.key != y.key ? x.key < y.key : x.index < y.index; };
  Entry *end = scratch + lines.extent, *middle = scratch + lines.taken;
  if (middle != end)
    std::nth_element(scratch, middle, end, before);
  std::sort(scratch, middle, before);
  for (int64_t i = 0; i < lines.taken; ++i) {
    values[i * lines.inner] = from[scratch[i].index * lines.stride];
    indices[i * lines.inner] = scratch[i].index;
  }
}

template <typename Key>
void runningLine(const Lines &lines, const typename Key::Stored *from, typename Key::Stored *values, int64_t *indices) {
  const bool largest = lines.kind == Kind::Largest;
  uint64_t best = 0;
  int64_t at = 0;
  for (int64_t i = 0; i < lines.extent; ++i) {
    // Turned round, the smallest is the largest; a NaN wins in both.
    uint64_t key = Key::of(from[i * lines.stride], !largest);
    key = largest ? key : ~key;
    if (i == 0 || key >= best) {
      best = key;
      at = i;
    }
    values[i * lines.inner] = from[at * lines.stride];
    indices[i * lines.inner] = at;
  }
}

// operands: the operand, values, indices, scratch.
template <typename Key> void run(const Lines &lines, void *const *operands) {
  using Stored = typename Key::Stored;
  parallelFor(lines.parts, 1, [&](int64_t begin, int64_t end) {
    for (int64_t part = begin; part < end; ++part)
      for (int64_t line = lines.count * part / lines.parts; line < lines.count * (part + 1) / lines.parts; ++line) {
        int64_t from = 0, rest = line;
        for (size_t d = lines.dims.size(); d-- > 0; rest /= lines.dims[d])
          from += rest % lines.dims[d] * lines.strides[d];
        int64_t to = line / lines.inner * lines.taken * lines.inner + line % lines.inner;
        const Stored *source = static_cast<const Stored *>(operands[0]) + from;
        Stored *values = static_cast<Stored *>(operands[1]) + to;
        int64_t *indices = static_cast<int64_t *>(operands[2]) + to;
        if (lines.kind == Kind::Sort)
          sortLine<Key>(lines, source, values, indices, static_cast<Entry *>(operands[3]) + part * lines.extent);
        else
          runningLine<Key>(lines, source, values, indices);
      }
  });
}

std::function<void(void *const *)> loopOf(int32_t dtype, const Lines &lines) {
  auto bind = [&](auto key) -> std::function<void(void *const *)> {
    return [lines](void *const *operands) { run<decltype(key)>(lines, operands); };
  };
  switch (dtype) {
  case MORTISE_F64:
    return bind(FloatKey<uint64_t, 52>{});
  case MORTISE_F32:
    return bind(FloatKey<uint32_t, 23>{});
  case MORTISE_F16:
    return bind(FloatKey<uint16_t, 10>{});
  case MORTISE_BF16:
    return bind(FloatKey<uint16_t, 7>{});
  case MORTISE_I1:
    return bind(IntegerKey<uint8_t>{});
  default:
    return visitInteger(
        dtype, std::function<void(void *const *)>(),
        [&](auto number) -> std::function<void(void *const *)> { return bind(IntegerKey<decltype(number)>{}); });
  }
}
} // namespace

bool hasOrder(int32_t dtype) { return loopOf(dtype, {}) != nullptr; }

static bool sorts(const MortiseNode &node) { return isOp(node, "mortise.sort") || isOp(node, "mortise.top_k"); }

static Lines readLines(StepBuilder &builder, const Sort &sort) {
  const FixedView &view = builder.viewOf(sort.x);
  const auto axis = static_cast<size_t>(sort.axis);
  Lines lines;
  lines.kind = sort.op == "cummax" ? Kind::Largest : sort.op == "cummin" ? Kind::Smallest : Kind::Sort;
  lines.descending = sort.descending;
  lines.extent = view.dims[axis];
  lines.stride = view.strides[axis];
  lines.taken = builder.extents(sort.values)[axis];
  lines.count = 1;
  for (size_t d = 0; d < view.dims.size(); ++d) {
    if (d == axis)
      continue;
    lines.dims.push_back(view.dims[d]);
    lines.strides.push_back(view.strides[d]);
    lines.count *= view.dims[d];
    lines.inner *= d > axis ? view.dims[d] : 1;
  }
  bool small = lines.count * lines.extent < 4096;
  lines.parts = small ? 1 : std::min<int64_t>(lines.count, threadCount());
  return lines;
}

Result<void> addSteps(StepBuilder &builder, const Unit &unit, const Sort &sort) {
  const FixedView &view = builder.viewOf(sort.x);
  Operand values = builder.write(sort.values), indices = builder.write(sort.indices);
  if (builder.elements(sort.values) == 0)
    return {};
  Lines lines = readLines(builder, sort);
  Step step;
  step.name = std::string(sort.op) + " " + builder.typeText(sort.x);
  step.lowering = "cpu.sort";
  step.nodes = unit.nodes;
  step.bytes = static_cast<double>(builder.bytes(sort.x)) + 10.0 * static_cast<double>(lines.count * lines.taken);
  step.operands = {builder.read(view.base, view.offset), values, indices};
  if (lines.kind == Kind::Sort)
    step.operands.push_back(
        {builder.allocate(static_cast<size_t>(lines.parts * lines.extent) * sizeof(Entry)), 0, true});
  step.action = NativeLoop{loopOf(builder.type(sort.x).dtype, lines), {}};
  builder.addStep(std::move(step));
  return {};
}

Result<void> claimSorts(Claims &claims) {
  for (size_t i = 0; i < claims.facts.graph.node_count; ++i) {
    const MortiseNode &node = *claims.facts.graph.nodes[i];
    if (!sorts(node) && !isOp(node, "mortise.cummax") && !isOp(node, "mortise.cummin"))
      continue;
    claims.take(node);
    Unit unit;
    unit.nodes = {node.index};
    unit.reads = {claims.viewOf(node.operands[0]->index).base};
    unit.writes = {node.results[0]->index, node.results[1]->index};
    unit.work = Sort{opName(node),
                     node.operands[0]->index,
                     node.results[0]->index,
                     node.results[1]->index,
                     intAttribute(node, "axis"),
                     intAttribute(node, isOp(node, "mortise.top_k") ? "largest" : "descending") != 0};
    claims.units.push_back(std::move(unit));
  }
  return {};
}

} // namespace mortise::cpu
