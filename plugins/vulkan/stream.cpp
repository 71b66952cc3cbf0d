// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#include "stream.hpp"

namespace mortise::vulkan {

Result<std::unique_ptr<Stream>> Queue::create(Device &device) { return std::make_unique<Stream>(device); }

Result<void> Queue::query() {
  Result<bool> asked = device.happened(last());
  return asked ? Result<void>() : asked.error();
}

void Queue::follow(uint64_t submission) {
  uint64_t before = newest.load();
  while (before < submission && !newest.compare_exchange_weak(before, submission)) {
  }
}

Result<void> Marker::follow(Stream &stream, const Mark &mark) {
  if (mark.device == &stream.device) { // what is queued later happens later
    stream.follow(mark.submission);
    return {};
  }
  return mark.device->wait(mark.submission); // devices share no semaphores
}

} // namespace mortise::vulkan
