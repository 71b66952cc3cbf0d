// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// An op-pack: one op, attention over few keys, for a device that another plugin owns. It says so with same_as, computes
// in that device's memory, and asks less than the owner only where its one pass is faster than the owner's four.
#include "attention.hpp"

#include <mortise/plugin.hpp>

#include <chrono>
#include <cstdlib>
#include <optional>
#include <thread>

namespace {
using namespace mortise;

double slowdownOf(std::string_view text) { return std::max(1.0, std::atof(std::string(text).c_str())); }

struct Refusal {
  MortiseReason reason;
  std::string detail;
};

std::optional<Refusal> refuse(const MortiseNode &node) {
  if (std::string_view(node.op) != "mortise.attention")
    return Refusal{MORTISE_REASON_OP, "expected mortise.attention"};
  const MortiseType &q = *node.operands[0]->type, &k = *node.operands[1]->type, &v = *node.operands[2]->type;
  if (q.dtype != MORTISE_F32 && q.dtype != MORTISE_F16)
    return Refusal{MORTISE_REASON_DTYPE, "expected f32 or f16, found " + typeString(q)};
  const MortiseValue *mask = node.operand_count > 3 ? node.operands[3] : nullptr;
  for (const MortiseType *type : {&q, &k, &v, mask ? mask->type : &q}) {
    if (!isStatic(*type))
      return Refusal{MORTISE_REASON_NEEDS_STATIC, "expected a static shape, found " + typeString(*type)};
    if (type->strides)
      return Refusal{MORTISE_REASON_LAYOUT, "expected dense row-major tensors"};
  }
  if (mask && mask->type->dtype != MORTISE_I1)
    return Refusal{MORTISE_REASON_DTYPE, "expected a mask of i1, found " + typeString(*mask->type)};
  if (intAttribute(node, "causal"))
    return Refusal{MORTISE_REASON_ATTRIBUTE, "expected causal = false"};
  if (k.dims[2] < 1 || k.dims[2] > oppack::mostKeys || q.dims[3] > oppack::mostFeatures ||
      v.dims[3] > oppack::mostFeatures)
    return Refusal{MORTISE_REASON_SIZE, "expected 1 to " + std::to_string(oppack::mostKeys) + " keys of up to " +
                                            std::to_string(oppack::mostFeatures) + " features, found k " +
                                            typeString(k) + " and v " + typeString(v) +
                                            ", for which the device's own products are faster"};
  return std::nullopt;
}

oppack::Attention shapeOf(const MortiseNode &node) {
  const MortiseType &q = *node.operands[0]->type, &k = *node.operands[1]->type, &v = *node.operands[2]->type;
  oppack::Attention shape{q.dims[0],
                          q.dims[1],
                          k.dims[1],
                          q.dims[2],
                          k.dims[2],
                          q.dims[3],
                          v.dims[3],
                          {},
                          false,
                          q.dtype == MORTISE_F16,
                          static_cast<float>(floatAttribute(node, "scale"))};
  if (node.operand_count > 3 && node.operands[3]) {
    shape.hasMask = true;
    int64_t stride = 1;
    for (int i = 3; i >= 0; --i) {
      const int64_t extent = node.operands[3]->type->dims[i];
      shape.maskStrides[i] = extent == 1 ? 0 : stride;
      stride *= extent;
    }
  }
  return shape;
}

struct OpPack : PluginAdaptor<OpPack> {
  static constexpr PluginIdentity identity{"oppack", "Mortise examples", "1.0.0"};

  struct Kernel { // of one node
    oppack::Attention shape;
    uint32_t operands[4] = {};
    bool fails = false;
    double slowdown = 1;
    StepList steps;
  };
  struct Constants {
    MortiseAddress operands[4] = {};
  };

  Result<void> initialize(const MortiseInitializeArgs &) { return {}; }

  Result<std::span<const MortiseDeviceInfo *const>> devices() {
    static int handle;
    static const MortiseDeviceInfo device = [] {
      auto info = sized<MortiseDeviceInfo>();
      info.device = reinterpret_cast<MortiseDevice *>(&handle);
      info.kind = "oppack";
      info.name = "attention over few keys";
      info.threads = 1;
      info.spaces = hostSpaces().data();
      info.space_count = 1;
      info.features = oppack::instructions();
      info.same_as = "cpu:0";
      return info;
    }();
    static const MortiseDeviceInfo *const list[] = {&device};
    return std::span<const MortiseDeviceInfo *const>(list);
  }

  Result<void> propose(Proposal &proposal) {
    const MortiseGraph &graph = proposal.graph();
    const double slowdown = slowdownOf(proposal.option("slowdown", "1"));
    for (uint32_t i = 0; i < graph.node_count; ++i) {
      const MortiseNode &node = *graph.nodes[i];
      if (const auto refusal = refuse(node)) {
        proposal.refuse(i, refusal->reason, refusal->detail);
        continue;
      }
      const Work work = workOf(node);
      proposal.add({"oppack.attention", {&i, 1}, work.ns * slowdown, work.bytes, work.flops});
    }
    return {};
  }

  Result<std::unique_ptr<Kernel>> compile(const MortiseCompileArgs &args) {
    if (cancelled())
      return cancelledError();
    const std::string_view fault = option(args.options, args.option_count, "fault", "none");
    if (fault == "compile")
      return Error{MORTISE_UNSUPPORTED, "the option oppack.fault lets no kernel compile"};
    const MortiseNode &node = *args.region->nodes[0];
    if (args.region->node_count != 1 || refuse(node))
      return Error{MORTISE_INVALID_ARGUMENT, "expected a region as proposed, with one node"};
    auto kernel = std::make_unique<Kernel>();
    kernel->shape = shapeOf(node);
    for (size_t i = 0; i < node.operand_count; ++i)
      if (node.operands[i])
        kernel->operands[i] = node.operands[i]->result_index; // the number of the region's input
    kernel->fails = fault == "enqueue";
    kernel->slowdown = slowdownOf(option(args.options, args.option_count, "slowdown", "1"));
    const Work work = workOf(node);
    kernel->steps.add("attention " + typeString(*node.operands[0]->type), "oppack.attention", {0}, work.bytes,
                      work.flops);
    return kernel;
  }
  Result<void> describe(const Kernel &kernel, MortiseKernelInfo &info) {
    kernel.steps.fill(info);
    return {};
  }
  Result<Packed<Constants>> bind(const Kernel &kernel, const MortiseAddress *inputs) {
    auto constants = std::make_unique<Constants>();
    for (int i = 0; i < (kernel.shape.hasMask ? 4 : 3); ++i)
      constants->operands[i] = inputs[kernel.operands[i]];
    return Packed<Constants>{std::move(constants), 0};
  }

  Result<void> enqueue(const Kernel &kernel, const Constants *constants, const MortiseEnqueueArgs &args) {
    if (kernel.fails)
      return Error{MORTISE_INTERNAL, "the option oppack.fault makes each call fail"};
    const auto operand = [&](int i) {
      const MortiseAddress address = args.inputs[kernel.operands[i]];
      return pointer<const void>(address == 0 && constants ? constants->operands[i] : address);
    };
    const oppack::Tensors tensors{operand(0), operand(1), operand(2),
                                  kernel.shape.hasMask ? static_cast<const uint8_t *>(operand(3)) : nullptr,
                                  pointer(args.outputs[0])};
    const auto begin = std::chrono::steady_clock::now();
    parallelFor(kernel.shape.batches * kernel.shape.heads, 1,
                [&](int64_t first, int64_t last) { oppack::attention(kernel.shape, tensors, first, last); });
    if (kernel.slowdown > 1)
      std::this_thread::sleep_for((std::chrono::steady_clock::now() - begin) * (kernel.slowdown - 1));
    return {};
  }

private:
  struct Work {
    double ns, bytes, flops;
  };
  static Work workOf(const MortiseNode &node) {
    const oppack::Attention shape = shapeOf(node);
    const auto queries = static_cast<double>(shape.batches * shape.heads * shape.queries);
    const double flops = 2 * queries * static_cast<double>(shape.keys * (shape.depth + shape.width));
    double bytes = static_cast<double>(byteSize(*node.results[0]->type));
    for (size_t i = 0; i < node.operand_count; ++i)
      if (node.operands[i])
        bytes += static_cast<double>(byteSize(*node.operands[i]->type));
    // Measured with AVX-512 and AVX2, for one thread: operations per nanosecond.
    const double speed = std::string_view(oppack::instructions()) == "avx512f" ? 50 : *oppack::instructions() ? 25 : 5;
    const double threads = std::min<double>(host().thread_count(), static_cast<double>(shape.batches * shape.heads));
    return {500 + flops / speed / std::max(1.0, threads), bytes, flops};
  }
};

} // namespace

MORTISE_DEFINE_PLUGIN(OpPack)
