// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// What lld's driver names for other machines and for link-time optimisation, which linking one object does not call.
// With these, a plugin that links LLVM statically holds no code generator but its own. They are weak, so that a library
// that is linked as well has the last word, and hidden, so that they replace nothing of a shared LLVM.
#include <llvm/Plugins/PassPlugin.h>

#define MORTISE_UNUSED [[gnu::weak, gnu::visibility("hidden")]]

#define MORTISE_UNUSED_TARGET(name)                                                                                    \
  extern "C" {                                                                                                         \
  MORTISE_UNUSED void LLVMInitialize##name##TargetInfo() {}                                                            \
  MORTISE_UNUSED void LLVMInitialize##name##Target() {}                                                                \
  MORTISE_UNUSED void LLVMInitialize##name##TargetMC() {}                                                              \
  MORTISE_UNUSED void LLVMInitialize##name##AsmPrinter() {}                                                            \
  MORTISE_UNUSED void LLVMInitialize##name##AsmParser() {}                                                             \
  }
MORTISE_UNUSED_TARGETS // of sdk/codegen/CMakeLists.txt

    // Debian's LLVM is built with Polly, and ships no archive of it.
    MORTISE_UNUSED llvm::PassPluginLibraryInfo getPollyPluginInfo();
llvm::PassPluginLibraryInfo getPollyPluginInfo() { return {}; }
