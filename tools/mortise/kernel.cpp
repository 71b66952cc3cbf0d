// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#include "kernel.hpp"

#include <mortise/runtime/device_memory.hpp>
#include <mortise/runtime/guard.hpp>

#include <utility>

namespace mortise::tool {
namespace {

Error nothingMade(const char *slot, const char *what) {
  return {MORTISE_INTERNAL, std::string(slot) + ": expected " + what + " or a status, found neither"};
}

} // namespace

Result<std::unique_ptr<Kernel>> Kernel::compile(const passes::Offer &offer, std::shared_ptr<const Graph> region,
                                                const MortiseCompileOptions &asked) {
  std::unique_ptr<Kernel> made(new Kernel(*offer.device, std::move(region)));
  std::vector<MortiseOption> options;
  for (const runtime::Setting &option : offer.options)
    options.push_back({option.key.c_str(), option.value.c_str()});
  MortiseCompileArgs args{.struct_size = sizeof(MortiseCompileArgs),
                          .device = offer.device->info.device,
                          .region = &made->region->view(),
                          .lowering = offer.lowering.c_str(),
                          .options = options.data(),
                          .option_count = options.size(),
                          .compile_options = &asked};
  if (auto called = runtime::call("kernel_compile", made->table().kernel_compile, args); !called)
    return called.error();
  made->kernel = args.kernel;
  if (!args.kernel)
    return nothingMade("kernel_compile", "a kernel");
  if (auto described = made->describe(); !described)
    return described.error();
  return made;
}

Result<void> Kernel::describe() {
  MortiseKernelInfo info{.struct_size = sizeof(MortiseKernelInfo), .kernel = kernel};
  if (auto called = runtime::call("kernel_info", table().kernel_info, info); !called)
    return called;
  if (info.workspace.count == 0)
    return {};
  if (info.workspace.count > maxExprSteps ||
      !runtime::isReadable(info.workspace.steps, info.workspace.count * sizeof(MortiseExprStep)))
    return Error{MORTISE_INTERNAL, "kernel_info: expected a workspace expression, found memory that cannot be read"};
  workspace.assign(info.workspace.steps, info.workspace.steps + info.workspace.count);
  return {};
}

Kernel::~Kernel() {
  MortiseKernelArgs args{.struct_size = sizeof(MortiseKernelArgs), .kernel = kernel};
  if (kernel)
    (void)runtime::call("kernel_destroy", table().kernel_destroy, args);
}

Result<std::unique_ptr<Launch>> Launch::make(const Kernel &kernel, std::vector<int64_t> symbols) {
  std::unique_ptr<Launch> made(new Launch(kernel));
  made->symbols = std::move(symbols);
  const MortiseGraph &view = kernel.region->view();
  made->unchanged.resize((view.input_count + view.output_count + 1 + 63) / 64);
  const std::vector<MortiseAddress> none(view.input_count);
  MortiseConstantsBindArgs bind{
      .struct_size = sizeof(MortiseConstantsBindArgs), .kernel = kernel.kernel, .inputs = none.data()};
  if (auto called = runtime::call("constants_bind", made->table().constants_bind, bind); !called)
    return called.error();
  made->constants = bind.constants;
  if (view.symbol_count && kernel.device.plugin->hasInstances()) {
    MortiseInstanceArgs args{.struct_size = sizeof(MortiseInstanceArgs),
                             .kernel = kernel.kernel,
                             .constants = made->constants,
                             .symbols = made->symbols.data()};
    if (auto called = runtime::call("instance_create", made->table().instance_create, args); !called)
      return called.error();
    made->instance = args.instance;
    if (!args.instance)
      return nothingMade("instance_create", "an instance");
    made->bytes = args.workspace_bytes;
  } else if (bind.workspace_bytes) {
    made->bytes = bind.workspace_bytes;
  } else if (!kernel.workspace.empty()) {
    const auto known = evaluate({kernel.workspace.data(), kernel.workspace.size()}, made->symbols);
    if (!known || *known < 0)
      return Error{MORTISE_INTERNAL, "kernel_info: expected a workspace expression with a value of at least 0, found " +
                                         (known ? std::to_string(*known) : "none: " + known.error().message)};
    made->bytes = static_cast<uint64_t>(*known);
  }
  if (constexpr uint64_t most = UINT64_C(1) << 32; made->bytes > most)
    return Error{MORTISE_OUT_OF_MEMORY,
                 "a case of a few kilobytes asks for a workspace of " + std::to_string(made->bytes) + " bytes"};
  return made;
}

Launch::~Launch() {
  for (MortiseFrame *frame : frames) {
    MortiseFrameArgs args{.struct_size = sizeof(MortiseFrameArgs),
                          .kernel = kernel.kernel,
                          .constants = constants,
                          .instance = instance,
                          .frame = frame};
    (void)runtime::call("frame_destroy", table().frame_destroy, args);
  }
  if (instance) {
    MortiseInstanceArgs args{.struct_size = sizeof(MortiseInstanceArgs), .kernel = kernel.kernel, .instance = instance};
    (void)runtime::call("instance_destroy", table().instance_destroy, args);
  }
  if (constants) {
    MortiseConstantsArgs args{
        .struct_size = sizeof(MortiseConstantsArgs), .kernel = kernel.kernel, .constants = constants};
    (void)runtime::call("constants_destroy", table().constants_destroy, args);
  }
}

Result<void> Launch::enqueue(Call &call, MortiseStream *stream) {
  call.symbols = symbols;
  call.args = {.struct_size = sizeof(MortiseEnqueueArgs),
               .kernel = kernel.kernel,
               .constants = constants,
               .stream = stream,
               .inputs = call.inputs.data(),
               .outputs = call.outputs.data(),
               .workspace = call.workspace,
               .symbols = call.symbols.data(),
               .instance = instance};
  if (kernel.device.plugin->hasFrames()) {
    MortiseFrameArgs args{
        .struct_size = sizeof(MortiseFrameArgs), .kernel = kernel.kernel, .constants = constants, .instance = instance};
    if (auto made = runtime::call("frame_create", table().frame_create, args); !made)
      return made;
    if (!args.frame)
      return nothingMade("frame_create", "a frame");
    frames.push_back(args.frame);
    call.args.frame = args.frame;
    call.args.unchanged = unchanged.data();
  }
  return runtime::call("enqueue", table().enqueue, call.args);
}

} // namespace mortise::tool
