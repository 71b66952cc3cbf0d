// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#include "case.hpp"

#include "lift.hpp"

#include <mortise/conformance/op_bounds.hpp>
#include <mortise/reference/interpreter.hpp>

#include <algorithm>

namespace mortise::conformance {
namespace {

bool isOneOf(Op op, std::initializer_list<Op> ops) { return std::ranges::find(ops, op) != ops.end(); }

bool keepsBits(Op op) {
  return has(op, Trait::Movement, Trait::ControlFlow) ||
         isOneOf(op, {Op::Select, Op::Neg, Op::Constant, Op::Take, Op::TakeAlong, Op::TakeNd, Op::Embedding, Op::Sort,
                      Op::TopK, Op::Cummax, Op::Cummin, Op::AllGather, Op::AllToAll, Op::CollectiveBroadcast,
                      Op::CollectivePermute});
}

// What docs/ops.md calls exact, and what selects or counts.
bool isExact(Op op) {
  return isOneOf(op, {Op::Add,       Op::Sub,     Op::Mul,     Op::Div,      Op::Sqrt,       Op::Rem,
                      Op::Floor,     Op::Ceil,    Op::Round,   Op::Sign,     Op::Abs,        Op::Copysign,
                      Op::Max,       Op::Min,     Op::Relu,    Op::Convert,  Op::Iota,       Op::ReduceMax,
                      Op::ReduceMin, Op::MaxPool, Op::Uniform, Op::Quantize, Op::Dequantize, Op::DynamicQuantize});
}

// Whether an operand is the result of an op that rounds.
bool isChained(const MortiseNode &node) {
  return std::any_of(node.operands, node.operands + node.operand_count, [](const MortiseValue *operand) {
    return operand && operand->producer && !keepsBits(opOf(*operand->producer)) && rounds(opOf(*operand->producer));
  });
}

Exactness exactnessOf(const MortiseValue &value) {
  if (!value.producer || !isFloat(value.type->dtype))
    return Exactness::Bits;
  const MortiseNode &node = *value.producer;
  const Op op = opOf(node);
  if (keepsBits(op))
    return Exactness::Bits;
  // A kernel of both ops may keep what is between them in more bits. The larger of two is rounded alike, before or
  // after.
  if (isChained(node) && rounds(op))
    return Exactness::Bounded;
  if ((op == Op::Put || op == Op::ScatterAlong || op == Op::ScatterNd)) {
    const std::string_view mode = stringAttribute(node, "mode");
    return mode == "set" ? Exactness::Bits : mode == "max" || mode == "min" ? Exactness::Exact : Exactness::Bounded;
  }
  if (isExact(op))
    return Exactness::Exact;
  return has(op, Trait::Elementwise) ? Exactness::Signed : Exactness::Bounded;
}

Combines combinesOf(Op op) {
  if (isOneOf(op, {Op::ReduceProd, Op::Cumprod}))
    return Combines::Products;
  const bool sums =
      has(op, Trait::Contraction, Trait::Reduction, Trait::Running, Trait::Window, Trait::Normalisation) ||
      isOneOf(op, {Op::BatchNorm, Op::Rope, Op::Put, Op::ScatterAlong, Op::ScatterNd});
  return sums ? Combines::Sums : Combines::Nothing;
}

Result<std::shared_ptr<const Graph>> copyOf(Draft &draft) {
  MortiseGraph view = draft.builder.view();
  view.opset = MORTISE_OPSET;
  view.name = "case";
  return Graph::copy(view);
}

// Gives the graph the point's layout.
void lay(Draft &draft) {
  const MortiseGraph &view = draft.builder.view();
  const Layout layout = draft.point.layout;
  const auto change = [&](const MortiseValue *value) {
    const MortiseType &type = *value->type;
    if (dtypeBits(type.dtype) >= 8)
      const_cast<MortiseValue *>(value)->type =
          draft.builder.type(type.dtype, Dims(type.dims, type.dims + type.rank), {}, stridesOf(type, layout));
  };
  if (layout == Layout::Transposed || layout == Layout::Strided) {
    std::ranges::for_each(std::span(view.inputs, view.input_count), change);
    std::ranges::for_each(std::span(view.outputs, view.output_count), change);
  }
  for (uint32_t i = 0; i < view.input_count; ++i) {
    auto *input = const_cast<MortiseValue *>(view.inputs[i]);
    if (layout == Layout::Constant && i > 0)
      input->flags |= MORTISE_VALUE_CONSTANT;
    const uint32_t uses = layout == Layout::Updated ? 2 : 1;
    if ((layout == Layout::State || layout == Layout::Updated) && input->use_count == uses &&
        input->type->dtype == view.outputs[0]->type->dtype &&
        std::ranges::equal(dims(*input->type), dims(*view.outputs[0]->type))) {
      input->flags |= MORTISE_VALUE_STATE;
      draft.builder.alias(i, 0);
      return;
    }
  }
}

Error faulty(const std::string &id, const std::string &why) {
  return {MORTISE_INTERNAL, "case " + id + ": the kit's row makes what the op does not allow: " + why};
}

constexpr uint32_t bit(Values values) { return uint32_t(1) << static_cast<uint32_t>(values); }

Result<void> fill(Case &made, Draft &draft, uint64_t seed, uint32_t classes, bool isOther) {
  std::mt19937_64 random(seedOf(seed, made.id));
  for (Input &input : draft.inputs) {
    if (!isOther)
      input.fill.other = 1;
    made.inputs.push_back(filled(*input.value->type, input.fill, classes, combinesOf(draft.point.op), random));
  }
  const MortiseGraph &view = made.plain->view();
  std::vector<const void *> sources;
  std::vector<void *> targets;
  for (const std::vector<std::byte> &input : made.inputs)
    sources.push_back(input.data());
  for (size_t i = 0; i < view.output_count; ++i)
    targets.push_back(made.expected.emplace_back(byteSize(*view.outputs[i]->type)).data());
  if (auto done = reference::interpret(view, sources, targets); !done)
    return faulty(made.id, done.error().message);
  return {};
}

} // namespace

std::vector<int64_t> stridesOf(const MortiseType &type, Layout layout) {
  const auto rank = static_cast<size_t>(type.rank);
  std::vector<int64_t> strides(rank);
  int64_t next = layout == Layout::Strided ? 2 : 1; // a gap behind each element, and three behind each row
  const auto place = [&](size_t i) {
    strides[i] = next;
    next = next * std::max<int64_t>(type.dims[i], 1) + (layout == Layout::Strided ? 3 : 0);
  };
  for (size_t i = 0; i < rank; ++i)
    place(layout == Layout::Transposed ? i : rank - 1 - i); // the first dimension is innermost
  return strides;
}

namespace {

// Where a case's extents and numbers come from.
struct Source {
  Point shaped;     // the point that the extents are drawn for
  uint64_t extents; // their seed
  uint64_t numbers; // the seed of what the inputs hold
  uint32_t classes; // of these numbers: bits of Values
  bool isOther;     // they are the case's other values
};

// The seed itself, or one behind it: some extents leave nothing for a symbol, such as a window as large as its operand.
uint64_t extentsFor(const Row &row, const Point &point, uint64_t seed) {
  for (int i = 0; point.dynamic && i < 64 && !whyStatic(row, point, seed).empty(); ++i)
    ++seed;
  return seed;
}

Result<Case> makeFrom(const Row &row, const Point &point, const Source &source) {
  Case made{idOf(point), point, nullptr, nullptr, {}, {}, {}};
  Draft draft(source.shaped, source.extents);
  row.make(draft);
  if (!draft.skipped.empty())
    return Error{MORTISE_INVALID_ARGUMENT, "case " + made.id + ": there is no such case, because " + draft.skipped};
  auto plain = copyOf(draft);
  if (!plain)
    return faulty(made.id, plain.error().message);
  made.plain = std::move(*plain);
  const MortiseGraph &view = made.plain->view();
  for (const MortiseValue *output : std::span(view.outputs, view.output_count))
    made.exactness.push_back(exactnessOf(*output));
  if (auto done = fill(made, draft, source.numbers, source.classes, source.isOther); !done)
    return done.error();
  if (point.dynamic) {
    Draft marked(source.shaped, source.extents, true);
    row.make(marked);
    lay(marked);
    auto graph = lifted(marked.builder, draft.builder.view(), marked.markers, marked.numbers,
                        /*mayBeEmpty=*/point.shape == Shape::Zero);
    if (!graph)
      return faulty(made.id, graph.error().message);
    made.graph = std::move(graph->graph);
    made.symbols = std::move(graph->values);
    return made;
  }
  made.graph = made.plain;
  if (point.layout == Layout::Dense || point.layout == Layout::Misaligned || point.layout == Layout::InPlace ||
      point.layout == Layout::Twice || point.layout == Layout::Passed)
    return made;
  lay(draft);
  auto graph = copyOf(draft);
  if (!graph)
    return faulty(made.id, graph.error().message);
  made.graph = std::move(*graph);
  return made;
}

} // namespace

Result<Case> makeCase(const Point &point, uint64_t seed, uint64_t others) {
  const Row *row = rowOf(point.op);
  if (!row)
    return faulty(idOf(point), "there is no row");
  return makeFrom(*row, point, {point, extentsFor(*row, point, seed), seed + others, bit(point.values), false});
}

Result<std::optional<Case>> makeOther(const Case &made, uint64_t seed) {
  const Point &point = made.point;
  const Row *row = rowOf(point.op);
  if (!row)
    return faulty(made.id, "there is no row");
  if (point.shape == Shape::Large && point.dtype == MORTISE_F64)
    return std::optional<Case>();
  const uint32_t random = bit(Values::Random), ties = bit(Values::Ties), known = factsOf(point).values;
  uint32_t classes = known & (random | bit(Values::Zeros) | ties);
  if (combinesOf(point.op) != Combines::Nothing)
    classes = point.values == Values::Random && (known & ties) ? ties : random;
  std::vector<std::pair<Point, uint64_t>> shapes = {{point, extentsFor(*row, point, seed)}};
  if (point.dynamic) {
    Point other = point;
    if (other.shape == Shape::Zero)
      other.shape = Shape::Prime;
    // Extents may be attributes, too, which are no symbols: then the next ones are of the same program by chance.
    for (uint64_t next = 1; next <= 8; ++next)
      shapes.emplace(shapes.begin(), other, extentsFor(*row, other, seed + 1000 * next));
  }
  for (const auto &[shaped, extents] : shapes) {
    auto other = makeFrom(*row, point, {shaped, extents, seed + 1, classes, true});
    if (!other && shaped == point)
      return other.error();
    if (other && std::ranges::equal(other->graph->bytes(), made.graph->bytes()))
      return std::optional<Case>(std::move(*other));
  }
  return std::optional<Case>();
}

} // namespace mortise::conformance
