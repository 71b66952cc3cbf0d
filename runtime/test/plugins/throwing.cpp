// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// Throws from initialize, or from its entry point when compiled with THROW_AT_ENTRY. For tests.
#include <mortise/plugin.h>

#include <stdexcept>
#include <string>

namespace {

[[noreturn]] void fail(const char *slot) { throw std::runtime_error(std::string("no ") + slot + " today"); }

MortiseStatus *initialize(MortiseInitializeArgs *) { fail("initialize"); }
MortiseStatus *devices(MortiseDevicesArgs *) { throw 42; }
template <typename Args> MortiseStatus *other(Args *) { throw 42; }

} // namespace

extern "C" MORTISE_EXPORT const MortisePlugin *mortise_plugin(void) {
#ifdef THROW_AT_ENTRY
  fail("table");
#endif
  static const uint64_t hashes[] = {MORTISE_ABI_LAYOUT_HASH_3};
  static const MortisePlugin table = {.struct_size = sizeof table,
                                      .magic = MORTISE_PLUGIN_MAGIC,
                                      .abi_oldest = 3,
                                      .abi_newest = 3,
                                      .layout_hashes = hashes,
                                      .name = "fixture",
                                      .vendor = "tests",
                                      .version = "1.0",
                                      .opset = 1,
                                      .initialize = initialize,
                                      .devices = devices,
                                      .propose = other<MortiseProposeArgs>,
                                      .kernel_compile = other<MortiseCompileArgs>,
                                      .kernel_info = other<MortiseKernelInfo>,
                                      .kernel_destroy = other<MortiseKernelArgs>,
                                      .constants_bind = other<MortiseConstantsBindArgs>,
                                      .constants_destroy = other<MortiseConstantsArgs>,
                                      .enqueue = other<MortiseEnqueueArgs>};
  return &table;
}
