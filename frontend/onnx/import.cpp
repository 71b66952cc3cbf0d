// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#include "importer.hpp"

#include <mlir/IR/MLIRContext.h>

#include <filesystem>
#include <new>

namespace mortise::onnx {

Result<Model> importModel(std::span<const std::byte> bytes, const Options &options) {
  try {
    proto::ModelProto model;
    if (bytes.size() > INT32_MAX || !model.ParseFromArray(bytes.data(), static_cast<int>(bytes.size())) ||
        !model.has_graph())
      return Error{MORTISE_CORRUPT, "expected a model in ONNX's format of at most 2 GB, found " +
                                        std::to_string(bytes.size()) + " bytes that are none"};
    mlir::MLIRContext context(mlir::MLIRContext::Threading::DISABLED);
    return Importer(context, model, options).run();
  } catch (const Refusal &refused) {
    return refused.error;
  } catch (const std::bad_alloc &) {
    return Error{MORTISE_OUT_OF_MEMORY, "there is too little memory for the model"};
  } catch (const std::exception &fault) { // std::length_error
    return Error{MORTISE_OUT_OF_MEMORY, std::string("there is too little memory for the model: ") + fault.what()};
  }
}

Result<Model> importFile(const std::string &path, Options options) {
  try {
    const std::string content = contentOf(path);
    const std::string folder = std::filesystem::path(path).parent_path().string();
    options.folder = folder.empty() ? "." : folder;
    auto made = importModel(std::as_bytes(std::span(content)), options);
    return made ? std::move(made) : Error{made.error().code, path + ": " + made.error().message};
  } catch (const Refusal &refused) {
    return refused.error;
  } catch (const std::exception &) {
    return Error{MORTISE_OUT_OF_MEMORY, path + ": there is too little memory to read it"};
  }
}

} // namespace mortise::onnx
