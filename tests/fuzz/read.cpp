// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// The fuzz target for the reader of the portable format.
#include "consume.hpp"

extern "C" int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size) {
  mortise::fuzz::consume(std::as_bytes(std::span(data, size)));
  return 0;
}
