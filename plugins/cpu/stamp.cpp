// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// Values and nodes of a unit are numbers, so that the unit of another copy is the same unit with other numbers. Copies
// 1 and 2 of the short graph are compared; the units of copy 1 are then repeated for the copies left out, and those
// behind them move to the last copies of the whole graph.
#include "stamp.hpp"

#include <algorithm>

namespace mortise::cpu {

namespace {

// Numbers in the whole graph of what stands in the short one, moved on by a number of copies.
struct Renumbering {
  const ShortGraph &shorter;
  const MortiseGraph &whole;
  uint32_t copies = 0;

  uint32_t node(uint32_t number) const {
    const Repetition &repetition = shorter.repetition;
    const bool inCopies = number >= repetition.first && number < shorter.cut;
    return inCopies ? number + copies * repetition.period : shorter.wholeNode(number);
  }
  uint32_t value(uint32_t number) const {
    if (number == none)
      return none;
    const Repetition &repetition = shorter.repetition;
    const MortiseValue &value = *whole.values[shorter.wholeValue(number)];
    if (const MortiseNode *producer = value.producer) {
      if (producer->index < repetition.first || producer->index >= shorter.cut)
        return value.index;
      return whole.nodes[producer->index + copies * repetition.period]->results[value.result_index]->index;
    }
    uint32_t input = value.result_index;
    if (repetition.copyOf[input] == Repetition::none)
      return value.index;
    for (uint32_t i = 0; i < copies && input != Repetition::none; ++i)
      input = repetition.next[input];
    return input == Repetition::none ? none : whole.inputs[input]->index;
  }

  void apply(uint32_t &number) const { number = value(number); }
  void apply(View &view) const { view.base = value(view.base); }
  void nodes(std::vector<uint32_t> &list) const {
    for (uint32_t &number : list)
      number = node(number);
  }
  template <typename T> void apply(std::vector<T> &list) const {
    for (T &item : list)
      apply(item);
  }
  void apply(PostOp &post) const {
    post.node = post.node == none ? none : node(post.node);
    apply(post.other);
    if (post.other != none)
      apply(post.view);
  }
  void apply(Product &product) const {
    nodes(product.nodes);
    for (uint32_t *number : {&product.lhs, &product.rhs, &product.result, &product.target})
      apply(*number);
    for (View *view : {&product.a, &product.b, &product.c})
      apply(*view);
    apply(product.post);
  }
  void apply(MergedProduct::Part &part) const {
    apply(part.product);
    apply(part.bias);
  }
  void apply(MergedProduct &merged) const {
    apply(merged.parts);
    apply(merged.whole);
  }
  void apply(Affine::Part &part) const {
    apply(part.value);
    if (part.value != none)
      apply(part.view);
  }
  void apply(Affine &affine) const {
    affine.node = node(affine.node);
    apply(affine.operands);
  }
  void apply(Convolution &convolution) const {
    nodes(convolution.nodes);
    nodes(convolution.activationNodes);
    for (uint32_t *number : {&convolution.x, &convolution.weight, &convolution.result, &convolution.target,
                             &convolution.residual, &convolution.beforeActivation})
      apply(*number);
    apply(convolution.xView);
    apply(convolution.weightView);
    apply(convolution.affine);
    apply(convolution.activations);
    apply(convolution.inputActivations);
  }
  void apply(Pool &pool) const { apply(pool.x), apply(pool.result); }
  void apply(Update &update) const {
    for (uint32_t *number : {&update.old, &update.indices, &update.updates, &update.result})
      apply(*number);
  }
  void apply(QuantizedLinear &linear) const {
    apply(linear.x), apply(linear.weight), apply(linear.scale), apply(linear.result);
    for (std::optional<View> *view : {&linear.zeroPoint, &linear.bias})
      if (*view)
        apply(**view);
  }
  void apply(Scatter &scatter) const {
    apply(scatter.old), apply(scatter.indices), apply(scatter.updates), apply(scatter.result);
  }
  void apply(RandomBits &bits) const { apply(bits.key), apply(bits.offset), apply(bits.result); }
  void apply(Sort &sort) const { apply(sort.x), apply(sort.values), apply(sort.indices); }
  void apply(Attention &attention) const {
    apply(attention.value), apply(attention.target), apply(attention.sums);
    for (View *view : {&attention.q, &attention.k, &attention.v, &attention.result})
      apply(*view);
    if (attention.mask)
      apply(*attention.mask);
  }
  void apply(AttentionGradient &gradient) const {
    for (View *view : {&gradient.q, &gradient.k, &gradient.v, &gradient.result, &gradient.sums, &gradient.gradient})
      apply(*view);
    if (gradient.mask)
      apply(*gradient.mask);
    apply(gradient.ofQ), apply(gradient.ofK), apply(gradient.ofV);
  }
  void apply(Generated &generated) const { apply(generated.inputs), apply(generated.outputs); }

  Unit operator()(const Unit &unit) const {
    Unit moved = unit;
    nodes(moved.nodes);
    apply(moved.reads);
    apply(moved.writes);
    apply(moved.overwrites);
    std::visit([&](auto &work) { apply(work); }, moved.work);
    return moved;
  }
  std::optional<View> operator()(std::optional<View> view) const {
    if (view)
      apply(*view);
    return view;
  }
};

bool alike(const Unit &a, const Unit &b) {
  return a.nodes == b.nodes && a.reads == b.reads && a.writes == b.writes && a.overwrites == b.overwrites &&
         a.work == b.work;
}

class Stamper {
public:
  Stamper(const Units &units, const ShortGraph &shorter, const MortiseGraph &whole)
      : units(units), shorter(shorter), whole(whole), repetition(shorter.repetition), left(shorter.left()) {}
  std::optional<Units> run() const;

private:
  uint32_t copyOfValue(uint32_t value) const; // of the short graph; none: of no copy
  uint32_t copyOf(const Unit &unit) const;
  std::optional<std::vector<Unit>> lengthen(const std::vector<Unit> &list, bool &any) const;
  bool valuesAlike() const;
  void addValues(Units &into) const;
  Renumbering by(uint32_t copies) const { return {shorter, whole, copies}; }

  const Units &units;
  const ShortGraph &shorter;
  const MortiseGraph &whole;
  const Repetition &repetition;
  const uint32_t left;
};

uint32_t Stamper::copyOfValue(uint32_t number) const {
  const MortiseValue &value = *units.graph->values[number];
  if (!value.producer)
    return repetition.copyOf[value.result_index];
  const uint32_t node = value.producer->index;
  return node >= repetition.first && node < shorter.cut ? (node - repetition.first) / repetition.period : none;
}

// The first copy that the unit has anything to do with.
uint32_t Stamper::copyOf(const Unit &unit) const {
  uint32_t copy = none;
  for (uint32_t node : unit.nodes)
    if (node >= repetition.first && node < shorter.cut)
      copy = std::min(copy, (node - repetition.first) / repetition.period);
  for (uint32_t read : unit.reads)
    if (!units.graph->values[read]->producer)
      copy = std::min(copy, copyOfValue(read));
  return copy;
}

// `any`: some of the units belong to copies.
std::optional<std::vector<Unit>> Stamper::lengthen(const std::vector<Unit> &list, bool &any) const {
  size_t first = list.size(), second = list.size();
  any = false;
  for (size_t i = list.size(); i-- > 0;) {
    const uint32_t copy = copyOf(list[i]);
    any |= copy != none;
    first = copy == 1 ? i : first;
    second = copy == 2 ? i : second;
  }
  const size_t length = second - first;
  if (any && (second <= first || second + length > list.size()))
    return std::nullopt;
  // Units stand copy by copy. A unit of an early copy behind `second` would be moved to another copy with those around
  // it.
  for (size_t i = 0; i < list.size() && any; ++i)
    if (const uint32_t copy = copyOf(list[i]); i < first    ? copy != none && copy != 0
                                               : i < second ? copy != 1
                                                            : copy < 2)
      return std::nullopt;
  std::vector<Unit> longer;
  longer.reserve(list.size() + left * length);
  const Renumbering same = by(0), next = by(1), last = by(left);
  for (size_t i = first; i < second; ++i)
    if (!alike(next(list[i]), same(list[i + length])))
      return std::nullopt;
  for (size_t i = 0; i < second; ++i)
    longer.push_back(same(list[i]));
  for (uint32_t copy = 1; copy <= left && any; ++copy)
    for (size_t i = first; i < second; ++i)
      longer.push_back(by(copy)(list[i]));
  for (size_t i = second; i < list.size(); ++i)
    longer.push_back(last(list[i]));
  for (size_t i = 0; i < longer.size(); ++i)
    longer[i].order = static_cast<int32_t>(i);
  return longer;
}

// What was decided of the values of copies 1 and 2, the outputs aside.
bool Stamper::valuesAlike() const {
  const Renumbering same = by(0), next = by(1);
  for (uint32_t value = 0; value < units.graph->value_count; ++value) {
    if (copyOfValue(value) != 1)
      continue;
    const uint32_t other = shorter.shortValue(next.value(value));
    if (other == none || units.constant[value] != units.constant[other] ||
        next(units.views[value]) != same(units.views[other]) || next(units.roots[value]) != same(units.roots[other]) ||
        next(units.partOf[value]) != same(units.partOf[other]))
      return false;
  }
  return true;
}

// What the whole graph's values are: those of copy 1 for the copies left out.
void Stamper::addValues(Units &into) const {
  into.views.resize(whole.value_count);
  into.roots.resize(whole.value_count);
  into.partOf.resize(whole.value_count);
  into.constant.resize(whole.value_count);
  auto add = [&](uint32_t from, const Renumbering &how) {
    const uint32_t to = how.value(from);
    into.views[to] = *how(units.views[from]);
    into.roots[to] = how(units.roots[from]);
    into.partOf[to] = how(units.partOf[from]);
    into.constant[to] = units.constant[from];
  };
  for (uint32_t value = 0; value < units.graph->value_count; ++value) {
    const MortiseValue &from = *units.graph->values[value];
    const uint32_t copy = copyOfValue(value);
    if (copy == none) { // what is behind the copies refers to the last ones
      add(value, by(from.producer && from.producer->index >= shorter.cut ? left : 0));
      continue;
    }
    if (copy >= shorter.kept)
      continue; // an input of a copy left out
    add(value, by(copy < 2 ? 0 : left));
    for (uint32_t shift = 1; copy == 1 && shift <= left; ++shift)
      add(value, by(shift));
  }
}

std::optional<Units> Stamper::run() const {
  bool bindTime = false, runTime = false;
  std::optional<std::vector<Unit>> bound = lengthen(units.bindTime, bindTime), made = lengthen(units.runTime, runTime);
  if (!bound || !made || !runTime || !valuesAlike())
    return std::nullopt;
  Units longer;
  longer.graph = &whole;
  longer.sample = units.sample;
  longer.bindTime = std::move(*bound);
  longer.runTime = std::move(*made);
  longer.code = units.code;
  addValues(longer);
  return longer;
}

} // namespace

std::optional<Units> stamp(const Units &units, const ShortGraph &shorter, const MortiseGraph &whole) {
  return Stamper(units, shorter, whole).run();
}

} // namespace mortise::cpu
