// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// Tensors of other libraries, in and out.
#include "../dlpack.hpp"

#include "handles.hpp"

#include <mortise/graph.hpp>

#include <algorithm>
#include <cstring>

using namespace mortise;
using namespace mortise::capi;

namespace {

// A tensor that was handed out, with what it points to.
struct Handed {
  dlpack::ManagedTensor managed{};
  std::shared_ptr<const SessionState> session; // outlives the memory
  Allocation memory;
  std::vector<int64_t> dims, strides;
};

Result<const MortiseSessionDevice *> deviceOf(SessionState &session, const dlpack::Device &device) {
  if (dlpack::isHostMemory(device.type))
    return nullptr;
  const runtime::Device *found = nullptr, *hidden = nullptr;
  const std::string number = "DLPack's device " + std::to_string(device.type) + ":" + std::to_string(device.id);
  for (const runtime::Device *each : session.registry->findDlpack(device.type, device.id)) {
    if (each->plugin->isolated)
      hidden = each;
    if (homeOf(each) != each)
      continue;
    if (found)
      return Error{MORTISE_UNSUPPORTED, number + " is claimed by plugin '" + found->plugin->name + "' and by plugin '" +
                                            each->plugin->name + "'; leave one of them out of plugin_path"};
    found = each;
  }
  if (!found && hidden)
    return Error{MORTISE_UNSUPPORTED, number + " is the memory of device '" + hidden->name() + "', and plugin '" +
                                          hidden->plugin->name +
                                          "' runs in a process of its own, whose memory this one does not reach; leave "
                                          "it out of the setting isolate, or pass tensors in host memory"};
  if (!found)
    return Error{MORTISE_UNSUPPORTED, "no installed device has the memory of " + number};
  return session.handleOf(found);
}

} // namespace

MortiseStatus *mortise_session_dlpack_device(MortiseSession *session, int32_t type, int32_t id,
                                             const MortiseSessionDevice **device) {
  return guarded([&]() -> Result<void> {
    if (!session || !device)
      return nullError(session ? "place for the device" : "session");
    *device = nullptr;
    auto found = deviceOf(*session->state, {type, id});
    if (!found)
      return found.error();
    *device = *found;
    return {};
  });
}

MortiseStatus *mortise_tensor_from_dlpack(MortiseSession *session, const DLManagedTensorVersioned *managed,
                                          int32_t written, MortiseTensor *tensor) {
  return guarded([&]() -> Result<void> {
    if (!session || !managed || !tensor)
      return nullError(!session ? "session" : !managed ? "DLPack tensor" : "place for the tensor");
    if (tensor->struct_size < sizeof(MortiseTensor))
      return invalid("the place for the tensor: expected a struct_size of at least " +
                     std::to_string(sizeof(MortiseTensor)) + ", found " + std::to_string(tensor->struct_size) +
                     "; set it to sizeof the struct");
    const auto &given = *reinterpret_cast<const dlpack::ManagedTensor *>(managed);
    if (given.version.major != dlpack::majorVersion)
      return Error{MORTISE_VERSION_MISMATCH, "expected a tensor of DLPack 1.x, found version " +
                                                 std::to_string(given.version.major) + "." +
                                                 std::to_string(given.version.minor)};
    const dlpack::Tensor &described = given.tensor;
    const auto dtype = dlpack::dtypeOf(described.dtype);
    if (!dtype)
      return Error{MORTISE_UNSUPPORTED, "expected a dtype of ours, found DLPack's code " +
                                            std::to_string(described.dtype.code) + " with " +
                                            std::to_string(described.dtype.bits) + " bits and " +
                                            std::to_string(described.dtype.lanes) + " lanes"};
    if (written && (given.flags & dlpack::readOnly))
      return invalid("expected a tensor that may be written, found a read-only one; pass a copy");
    auto device = deviceOf(*session->state, described.device);
    if (!device)
      return device.error();
    MortiseTensor found{sizeof(MortiseTensor), nullptr,           *dtype, described.rank,
                        described.dims,        described.strides, *device};
    if (described.data)
      found.data = pointer(addressOf(described.data) + described.byteOffset);
    if (auto checked = readTensor(found, "the DLPack tensor", session->state.get()); !checked)
      return checked.error();
    found.struct_size = tensor->struct_size;
    std::memcpy(tensor, &found, std::min(tensor->struct_size, sizeof found));
    return {};
  });
}

MortiseStatus *mortise_memory_to_dlpack(const MortiseSessionDevice *device, void *data, const MortiseType *type,
                                        DLManagedTensorVersioned **managed) {
  return guarded([&]() -> Result<void> {
    if (!device || !data || !managed)
      return nullError(!device ? "device" : !data ? "memory" : "place for the DLPack tensor");
    *managed = nullptr;
    if (auto checked = checkType(type, "the tensor"); !checked)
      return checked;
    const auto dataType = dlpack::dataTypeOf(type->dtype);
    const runtime::Device *home = homeOf(device->device);
    if (!dataType || !isStatic(*type))
      return invalid("the tensor: expected extents that are numbers and a dtype that DLPack has, found " +
                     typeString(*type));
    if (home && home->info.dlpack_type == 0)
      return Error{MORTISE_UNSUPPORTED,
                   "device '" + home->name() + "' (plugin '" + home->plugin->name + "') has no number in DLPack"};
    auto handed = std::make_unique<Handed>();
    handed->dims.assign(type->dims, type->dims + type->rank);
    handed->strides.resize(handed->dims.size());
    int64_t stride = 1;
    for (size_t i = handed->dims.size(); i-- > 0; stride *= handed->dims[i])
      handed->strides[i] = stride;
    auto memory = takeAllocation(*device, data, byteSize(*type));
    if (!memory)
      return Error{memory.error().code, typeString(*type) + ": " + memory.error().message};
    handed->memory = std::move(*memory);
    handed->session = device->session->shared_from_this();
    handed->managed = {
        {dlpack::majorVersion, dlpack::minorVersion},
        handed.get(),
        [](dlpack::ManagedTensor *self) { delete static_cast<Handed *>(self->context); },
        0,
        {data,
         home ? dlpack::Device{home->info.dlpack_type, home->info.dlpack_id} : dlpack::Device{dlpack::hostDevice, 0},
         type->rank, *dataType, handed->dims.data(), handed->strides.data(), 0}};
    *managed = reinterpret_cast<DLManagedTensorVersioned *>(&handed.release()->managed);
    return {};
  });
}
