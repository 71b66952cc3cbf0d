// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#include "node.hpp"

#include <algorithm>

namespace mortise::onnx {

Node::Node(const proto::NodeProto &message, Values inputs, int opset, Emitter &e, Importer &importer)
    : message(message), opset(opset), importer(importer), inputs(std::move(inputs)), e(e) {}

std::string Node::place() const {
  return message.op_type() + (message.name().empty() ? "" : " '" + message.name() + "'");
}

const Value &Node::operator[](size_t i) const {
  if (!has(i))
    corrupt(place() + ": expected an input " + std::to_string(i) + ", found none");
  return inputs[i];
}

Dims Node::integers(size_t i, const char *what) const {
  const Tensor &tensor = e.known((*this)[i], what);
  if (isFloat(tensor.dtype))
    corrupt(place() + ": expected integers as '" + what + "', found " + dtypeName(tensor.dtype));
  if (tensor.dims.size() > 1)
    corrupt(place() + ": expected '" + what + "' as a list, found the shape " + onnx::text(tensor.dims));
  return integersOf(tensor);
}

int64_t Node::integer(size_t i, const char *what) const {
  const Dims list = integers(i, what);
  if (list.size() != 1)
    corrupt(place() + ": expected one number as '" + what + "', found " + std::to_string(list.size()));
  return list[0];
}

double Node::real(size_t i, const char *what) const {
  const Tensor &tensor = e.known((*this)[i], what);
  if (countOf(tensor.dims) != 1)
    corrupt(place() + ": expected one number as '" + what + "', found the shape " + onnx::text(tensor.dims));
  return numbersOf(tensor)[0];
}

const proto::AttributeProto *Node::find(const char *name) const {
  for (const auto &attribute : message.attribute())
    if (attribute.name() == name)
      return &attribute;
  return nullptr;
}

const proto::AttributeProto *Node::take(const char *name, int type) {
  seen.insert(name);
  const proto::AttributeProto *found = find(name);
  if (found && found->type() != type)
    corrupt(place() + ": expected the attribute '" + name + "' in the kind " +
            proto::AttributeProto::AttributeType_Name(static_cast<proto::AttributeProto::AttributeType>(type)) +
            ", found " + proto::AttributeProto::AttributeType_Name(found->type()));
  return found;
}

int64_t Node::integer(const char *name, std::optional<int64_t> otherwise) {
  if (const auto *found = take(name, proto::AttributeProto::INT))
    return found->i();
  if (!otherwise)
    corrupt(place() + ": expected the attribute '" + name + "', found none");
  return *otherwise;
}

double Node::real(const char *name, std::optional<double> otherwise) {
  if (const auto *found = take(name, proto::AttributeProto::FLOAT))
    return static_cast<double>(found->f());
  if (!otherwise)
    corrupt(place() + ": expected the attribute '" + name + "', found none");
  return *otherwise;
}

std::string Node::text(const char *name, const char *otherwise) {
  const auto *found = take(name, proto::AttributeProto::STRING);
  return found ? found->s() : otherwise;
}

Dims Node::list(const char *name, const Dims &otherwise) {
  const auto *found = take(name, proto::AttributeProto::INTS);
  return found ? Dims(found->ints().begin(), found->ints().end()) : otherwise;
}

std::vector<double> Node::reals(const char *name) {
  const auto *found = take(name, proto::AttributeProto::FLOATS);
  return found ? std::vector<double>(found->floats().begin(), found->floats().end()) : std::vector<double>();
}

int32_t Node::dtype(const char *name, int32_t otherwise) {
  const auto *found = take(name, proto::AttributeProto::INT);
  return found ? dtypeOf(static_cast<int>(std::clamp<int64_t>(found->i(), -1, INT32_MAX))) : otherwise;
}

void Node::checkAttributes() const {
  for (const auto &attribute : message.attribute())
    if (!seen.contains(attribute.name()))
      unsupported("attribute",
                  place() + ": the importer does not know the attribute '" + attribute.name() + "' with this operator");
}

int64_t Node::axis(int64_t of, int64_t rank) const {
  if (of < -rank || of >= rank)
    corrupt(place() + ": expected an axis from " + std::to_string(-rank) + " to " + std::to_string(rank - 1) +
            ", found " + std::to_string(of));
  return of < 0 ? of + rank : of;
}

Dims Node::axes(const Dims &of, int64_t rank) const {
  Dims made;
  for (const int64_t entry : of)
    made.push_back(axis(entry, rank));
  std::ranges::sort(made);
  if (std::ranges::adjacent_find(made) != made.end())
    corrupt(place() + ": expected axes that differ, found " + onnx::text(of));
  return made;
}

} // namespace mortise::onnx
