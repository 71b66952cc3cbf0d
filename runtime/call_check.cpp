// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#include "call_check.hpp"

#include "plan_check.hpp"

#include <algorithm>

namespace mortise::runtime {

Result<void> readValues(const Layout &layout, std::span<const Tensor> tensors, std::span<int64_t> values) {
  const auto &specs = layout.inputs;
  if (tensors.size() != specs.size())
    return Error{MORTISE_INVALID_ARGUMENT, "expected " + std::to_string(specs.size()) + " inputs, found " +
                                               std::to_string(tensors.size()) + "; pass one per input of the plan"};
  for (size_t i = 0; i < values.size(); ++i) {
    const plan::SymbolT &symbol = *layout.plan->symbols[i];
    const Tensor &tensor = tensors[symbol.input];
    if (auto checked = checkTensor(tensor, specs[symbol.input]); !checked)
      return checked;
    values[i] = tensor.dims[symbol.dimension];
  }
  return {};
}

Result<void> checkNewValues(const Layout &layout, std::span<const Tensor> tensors, std::span<const int64_t> values) {
  if (auto checked = checkValues(*layout.plan, values); !checked)
    return checked;
  auto specs = inputSpecs(layout, values);
  if (!specs)
    return specs.error();
  for (size_t i = 0; i < tensors.size(); ++i)
    if (!layout.plan->inputs[i]->constant)
      if (auto checked = checkTensor(tensors[i], (*specs)[i]); !checked)
        return checked;
  return {};
}

namespace {

Result<void> checkInputs(const Layout &layout, const Shape &shape, std::span<const Tensor> tensors, Context &context) {
  for (size_t i = 0; i < shape.inputs.size(); ++i) {
    if (layout.plan->inputs[i]->constant)
      continue;
    const TensorSpec &spec = shape.inputs[i];
    if (auto checked = checkTensor(tensors[i], spec); !checked)
      return checked;
    if (auto checked = checkData(tensors[i], spec); !checked)
      return checked;
    if (auto checked = checkHome(tensors[i], spec); !checked)
      return checked;
    context.inputPointers[i] = tensors[i].data;
    if (isDense(tensors[i], spec))
      continue;
    if (spec.device)
      return Error{MORTISE_INVALID_ARGUMENT,
                   spec.role + ": expected dense, aligned memory, because it lies on device '" + spec.device->name() +
                       "', found strides or an odd address; make it contiguous"};
    const bool written =
        layout.plan->inputs[i]->state || std::ranges::any_of(layout.plan->outputs, [&](const auto &output) {
          return output->alias == static_cast<int64_t>(i);
        });
    if (written)
      return Error{MORTISE_INVALID_ARGUMENT,
                   spec.role +
                       ": expected dense, aligned memory, because it is updated in place, found strides or an odd "
                       "address; make it contiguous"};
    if (context.staging[i].data() == nullptr || context.staging[i].size() < spec.bytes) {
      auto block = Block::allocate(spec.bytes, 64);
      if (!block)
        return block.error();
      context.staging[i] = std::move(*block);
    }
    copyDense(tensors[i], spec, context.staging[i].data());
    context.inputPointers[i] = context.staging[i].data();
  }
  return {};
}

// A donated input's memory may hold anything after the call, so no other input may overlap it. (A dense one may have
// been copied, because it was less aligned than others: that makes no difference here.)
Result<void> checkDonated(const Layout &layout, const Shape &shape, std::span<const Tensor> tensors,
                          const Context &context) {
  const auto &inputs = layout.plan->inputs;
  const auto memoryOf = [&](size_t i) {
    return stridesAreDense(tensors[i], shape.inputs[i]) ? tensors[i].data : context.inputPointers[i];
  };
  for (size_t i = 0; i < inputs.size(); ++i)
    for (size_t j = 0; inputs[i]->donated && j < inputs.size(); ++j)
      if (i != j && !inputs[j]->constant &&
          overlaps(memoryOf(i), shape.inputs[i].bytes, memoryOf(j), shape.inputs[j].bytes))
        return Error{MORTISE_INVALID_ARGUMENT,
                     shape.inputs[i].role +
                         ": expected memory of its own, because it is donated, found it to overlap " +
                         shape.inputs[j].role + "; pass a copy"};
  return {};
}

Result<void> checkOutputs(const Layout &layout, const Shape &shape, std::span<const Tensor> tensors,
                          std::span<const Tensor> inputs, Context &context) {
  const auto &specs = shape.outputs;
  auto wrong = [](const TensorSpec &spec, const std::string &rest) {
    return Error{MORTISE_INVALID_ARGUMENT, spec.role + ": " + rest};
  };
  if (tensors.size() != specs.size())
    return Error{MORTISE_INVALID_ARGUMENT, "expected " + std::to_string(specs.size()) + " outputs, found " +
                                               std::to_string(tensors.size()) + "; pass one per output of the plan"};
  for (size_t i = 0; i < specs.size(); ++i) {
    const Tensor &tensor = tensors[i];
    const TensorSpec &spec = specs[i];
    context.outputPointers[i] = tensor.data;
    if (const int64_t alias = layout.plan->outputs[i]->alias; alias >= 0) {
      if (tensor.data != nullptr && tensor.data != inputs[alias].data)
        return wrong(spec, "expected NULL or the memory of " + layout.inputs[alias].role +
                               ", which it is written to, found other memory");
      continue;
    }
    if (auto checked = checkTensor(tensor, spec); !checked)
      return checked;
    if (auto checked = checkData(tensor, spec); !checked)
      return checked;
    if (auto checked = checkHome(tensor, spec); !checked)
      return checked;
    if (!isDense(tensor, spec))
      return wrong(
          spec,
          "expected dense memory aligned to its elements, found strides or an odd address; pass a contiguous tensor");
    for (size_t j = 0; j < inputs.size(); ++j)
      if (!layout.plan->inputs[j]->constant &&
          overlaps(tensor.data, spec.bytes, context.inputPointers[j], shape.inputs[j].bytes))
        return wrong(spec, "expected memory of its own, found it to overlap " + layout.inputs[j].role +
                               "; pass another tensor");
    for (size_t j = 0; j < i; ++j)
      if (layout.plan->outputs[j]->alias < 0 && overlaps(tensor.data, spec.bytes, tensors[j].data, specs[j].bytes))
        return wrong(spec,
                     "expected memory of its own, found it to overlap " + specs[j].role + "; pass another tensor");
  }
  return {};
}

} // namespace

Result<void> takeTensors(const Layout &layout, const Shape &shape, std::span<const Tensor> inputs,
                         std::span<const Tensor> outputs, Context &context) {
  if (auto checked = checkInputs(layout, shape, inputs, context); !checked)
    return checked;
  if (auto checked = checkDonated(layout, shape, inputs, context); !checked)
    return checked;
  return checkOutputs(layout, shape, outputs, inputs, context);
}

} // namespace mortise::runtime
