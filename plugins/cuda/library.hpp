// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// A vendor's libraries of matrix products and of convolutions, opened at run time, so that the plugin builds, loads and
// runs without them. The types name nothing of the vendor's.
#pragma once

#include <mortise/plugin.hpp>

#include <functional>
#include <memory>
#include <string>
#include <vector>

namespace mortise::cuda {

// ---- Products

// result (rows x columns) = op(first) (rows x terms) * op(second) (terms x columns) [+ addend (rows x columns)] [+ bias
// (rows), to each column], in each of `batch`. All are stored column by column, and strides count elements from one
// column to the next, steps from one matrix of the batch to the next. A transposed operand is stored the other way
// round; the addend lies as the result does, in other memory.
struct ProductCall {
  int32_t dtype = MORTISE_F32; // of the operands; f16 and bf16 are summed in f32, with the bias
  // Of result, addend and bias: that of the operands, or f32 for f16 and bf16 without bias.
  int32_t resultDtype = MORTISE_F32;
  bool tensorFloats = false; // f32: operands may be rounded to TF32
  bool firstTransposed = false, secondTransposed = false, hasBias = false, hasAddend = false;
  int64_t rows = 1, columns = 1, terms = 1, batch = 1;
  int64_t firstStride = 1, secondStride = 1, resultStride = 1;
  int64_t firstStep = 0, secondStep = 0, resultStep = 0;
  auto operator<=>(const ProductCall &) const = default;
};
struct ProductAddresses {
  MortiseAddress first = 0, second = 0, result = 0, bias = 0, addend = 0;
};

// Queues one call on these addresses.
using QueueProduct = std::function<Result<void>(const ProductAddresses &, MortiseAddress workspace, void *stream)>;
// Whether a kernel of the library adds the bias of `call`, of f16 or bf16, and its addend, before it rounds, which no
// library tells. The device's context is current. Errors: the device's, with its name.
using BiasProbe =
    std::function<Result<bool>(const ProductCall &call, uint64_t workspaceBytes, const QueueProduct &kernel)>;

// One call, prepared on one device. Thread safe.
class LibraryProduct {
public:
  virtual ~LibraryProduct() = default;
  virtual uint64_t workspaceBytes() const = 0; // enough for all addresses
  // Queues it, with what suits the alignment of these addresses. The device's context is current.
  virtual Result<void> enqueue(const ProductAddresses &addresses, MortiseAddress workspace, void *stream) = 0;
};

// The library on one device. Thread safe.
class ProductLibrary {
public:
  virtual ~ProductLibrary() = default;
  // Equal calls share the object. `usual`: addresses with the alignment to expect. The device's context is current.
  // Errors: MORTISE_UNSUPPORTED, when the library has nothing for the call, or nothing that rounds it once; those of
  // the library and of the probe.
  virtual Result<std::shared_ptr<LibraryProduct>> prepare(const ProductCall &call, const ProductAddresses &usual) = 0;
};

// ---- Convolutions

// result = activation(convolution(x, weight) * scale + bias + addend). Numbers of f16 and bf16 are summed in f32, the
// rest is computed in f32, and the result is rounded once. All tensors are dense: x and result as [N, C, spatial...]
// or, `channelsLast`, as [N, spatial..., C]; weight, [O, C / groups, window...], alike. `addend` is like the result,
// and scale and bias have one number for each of its channels.
struct ConvolutionCall {
  enum Activation : uint8_t { None, Relu };
  int32_t dtype = MORTISE_F32;       // f32, f16 or bf16, of all operands
  int32_t resultDtype = MORTISE_F32; // theirs, or f32
  bool channelsLast = false;
  bool tensorFloats = false;  // f32: operands may be rounded to TF32
  bool deterministic = false; // equal operands give equal bits
  bool hasScale = false, hasBias = false, hasAddend = false;
  Activation activation = None;
  std::vector<int64_t> x, weight, result; // extents, in the order [N, C, spatial...]; groups follow from them
  std::vector<int64_t> strides, padding, dilations;
  auto operator<=>(const ConvolutionCall &) const = default;
};
inline constexpr uint64_t convolutionAlignment = 16; // bytes, of all addresses
struct ConvolutionAddresses {
  MortiseAddress x = 0, weight = 0, result = 0, scale = 0, bias = 0, addend = 0;
};

// One call, prepared on one device. Thread safe.
class LibraryConvolution {
public:
  virtual ~LibraryConvolution() = default;
  virtual uint64_t workspaceBytes() const = 0;
  // Queues it. The device's context is current.
  virtual Result<void> enqueue(const ConvolutionAddresses &addresses, MortiseAddress workspace, void *stream) = 0;
};

// The library on one device. Thread safe.
class ConvolutionLibrary {
public:
  virtual ~ConvolutionLibrary() = default;
  // Equal calls share the object; others are prepared side by side, which takes up to a second each, where the library
  // compiles. The device's context is current. Errors: MORTISE_UNSUPPORTED, when the library has nothing for the call
  // that computes as exactly as it says; those of the library.
  virtual Result<std::shared_ptr<LibraryConvolution>> prepare(const ConvolutionCall &call) = 0;
};

// ---- Opening

inline constexpr std::string_view anyLibrary = "auto", noLibrary = "off";

// cuBLASLt from this file, or (anyLibrary) the copy that the process has loaded already, or the one that the loader
// finds. Starts up nothing of the device. `device`: how messages name it. `probe`: asked for each kernel of products
// with a bias of f16 or bf16, once. Errors: MORTISE_NOT_FOUND, saying what to install; MORTISE_VERSION_MISMATCH;
// MORTISE_UNSUPPORTED for noLibrary.
Result<std::unique_ptr<ProductLibrary>> openProductLibrary(const std::string &file, int driverVersion,
                                                           uint64_t mostWorkspace, std::string device, BiasProbe probe);

// cuDNN, likewise.
Result<std::unique_ptr<ConvolutionLibrary>> openConvolutionLibrary(const std::string &file, uint64_t mostWorkspace,
                                                                   std::string device);

} // namespace mortise::cuda
