// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#include "spirv_check.hpp"

#ifdef MORTISE_TEST_SPIRV_TOOLS
#include <spirv-tools/libspirv.h>
#endif

#include <cstring>

namespace mortise::codegen::test {

bool canValidate() {
#ifdef MORTISE_TEST_SPIRV_TOOLS
  return true;
#else
  return false;
#endif
}

std::string invalidSpirv(const std::string &code) {
#ifdef MORTISE_TEST_SPIRV_TOOLS
  static spv_context context = spvContextCreate(SPV_ENV_VULKAN_1_1);
  std::vector<uint32_t> words(code.size() / sizeof(uint32_t));
  std::memcpy(words.data(), code.data(), words.size() * sizeof(uint32_t));
  spv_const_binary_t binary{words.data(), words.size()};
  spv_diagnostic found = nullptr;
  if (spvValidate(context, &binary, &found) == SPV_SUCCESS)
    return "";
  std::string message = found && found->error ? found->error : "invalid";
  spvDiagnosticDestroy(found);
  spv_text text = nullptr;
  if (spvBinaryToText(context, words.data(), words.size(), SPV_BINARY_TO_TEXT_OPTION_INDENT, &text, nullptr) ==
      SPV_SUCCESS)
    message += "\n" + std::string(text->str, text->length);
  spvTextDestroy(text);
  return message;
#else
  return "";
#endif
}

VulkanFeatures allFeatures() {
  VulkanFeatures features;
  features.f32 = features.f64 = {true, true, true};
  features.doubles = features.exactQuotients = true;
  features.sharedBytes = 32768;
  features.blockThreads = 1024;
  return features;
}

std::string invalidSpirv(const MortiseGraph &graph, std::span<const Group> groups) {
  static auto compiler = std::move(*SimtCompiler::create(*SimtTarget::vulkan(allFeatures(), 2)));
  const auto functions = compiler->compile(graph, groups);
  if (!functions)
    return functions.error().message;
  for (const auto &function : *functions)
    for (const std::string *code : {&function->code, &function->alignedCode})
      if (std::string found = code->empty() ? "" : invalidSpirv(*code); !found.empty())
        return function->launches[0].entry + ": " + found;
  return "";
}

} // namespace mortise::codegen::test
