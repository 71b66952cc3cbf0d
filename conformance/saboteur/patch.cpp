// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#include "patch.hpp"

#include <map>
#include <mutex>
#include <string>

namespace saboteur {
using mortise::Op;

struct PatchedNode::Owned {
  explicit Owned(const MortiseAttribute &from) : attribute(from), name(from.name) {
    if (from.kind == MORTISE_ATTRIBUTE_STRING)
      string = from.string;
    if (from.kind == MORTISE_ATTRIBUTE_I64_ARRAY && from.count)
      i64s.assign(from.i64s, from.i64s + from.count);
    if (from.kind == MORTISE_ATTRIBUTE_F64_ARRAY && from.count)
      f64s.assign(from.f64s, from.f64s + from.count);
    point();
  }
  Owned(const Owned &from)
      : attribute(from.attribute), name(from.name), string(from.string), i64s(from.i64s), f64s(from.f64s) {
    point();
  }
  void point() {
    attribute.name = name.c_str();
    attribute.string = string.c_str();
    attribute.i64s = i64s.data();
    attribute.f64s = f64s.data();
  }
  MortiseAttribute attribute;
  std::string name, string;
  std::vector<int64_t> i64s;
  std::vector<double> f64s;
};

PatchedNode::PatchedNode(const MortiseNode &from)
    : made(from), list(from.attributes, from.attributes + from.attribute_count) {
  const auto set = [&](const char *name, int64_t value) {
    if (const MortiseAttribute *found = mortise::findAttribute(made, name)) {
      Owned with(*found);
      with.attribute.i64 = value;
      replace(name, with);
    }
  };
  if (is(Fault::GeluApproximated) && mortise::isOp(from, Op::Gelu)) {
    Owned with(*mortise::findAttribute(made, "approximate"));
    with.string = "tanh";
    replace("approximate", with);
  }
  if (is(Fault::DescendingIgnored) && mortise::isOp(from, Op::Sort))
    set("descending", 0);
  if (is(Fault::RopeInterleavingIgnored) && mortise::isOp(from, Op::Rope))
    set("interleaved", 0);
  if (is(Fault::PaddingSwapped) && mortise::isOp(from, Op::Convolution, Op::SumPool, Op::MaxPool))
    swapPadding();
  if (is(Fault::CodeCachedByShape))
    takeFromCache();
  made.attributes = list.data();
}

void PatchedNode::replace(const char *name, const Owned &with) {
  auto owned = std::make_shared<const Owned>(with);
  for (const MortiseAttribute *&attribute : list)
    if (std::string_view(attribute->name) == name)
      attribute = &owned->attribute;
  kept.push_back(std::move(owned));
}

void PatchedNode::swapPadding() {
  Owned low(*mortise::findAttribute(made, "low")), high(*mortise::findAttribute(made, "high"));
  std::swap(low.i64s, high.i64s);
  replace("low", low);
  replace("high", high);
}

// The attributes of the first node of the same op and types in this process. Literals are no attributes of a shape.
void PatchedNode::takeFromCache() {
  static std::mutex mutex;
  static std::map<std::string, std::vector<std::shared_ptr<const Owned>>> cache;
  std::string key = made.op;
  for (size_t i = 0; i < made.operand_count; ++i)
    key += made.operands[i] ? mortise::typeString(*made.operands[i]->type) : "-";
  for (size_t i = 0; i < made.result_count; ++i)
    key += mortise::typeString(*made.results[i]->type);
  for (const MortiseAttribute *attribute : list)
    if (attribute->kind == MORTISE_ATTRIBUTE_TENSOR || mortise::exprsOf(*attribute))
      return;
  const std::lock_guard lock(mutex);
  const auto [found, isNew] = cache.try_emplace(key);
  if (isNew)
    for (const MortiseAttribute *attribute : list)
      found->second.push_back(std::make_shared<Owned>(*attribute));
  kept = found->second;
  for (size_t i = 0; i < list.size(); ++i)
    list[i] = &kept[i]->attribute;
}

} // namespace saboteur
